#!/bin/bash
# Chains above the hot spots of real programs agree with all calls of a run: at least 90 % of the hot edges are found and the trees of contexts overlap
# by at least 85 %, weighted by time, with at most 16 hooks at a time and at most 1 % of the hook executions that tracing every call takes (S3).
# The run whose calls are all recorded is a short one of the same work: its trace would be too large otherwise. How many calls the long one makes
# follows from how many one and two short ones make. The long ones take some ten seconds each: what climbing learns in a time is bounded by its budget.
# alone: yes
# timeout: 400
. "$(dirname "$0")/lib.sh"
[ -n "$PROBITY_LONG" ] || skip "takes minutes of a machine that does nothing else: PROBITY_LONG=1 runs it"

cat >"$work/round.sql" <<'END'
create table t(a integer primary key, b text, c int);
with recursive n(i) as (select 1 union all select i+1 from n where i<20000) insert into t select i, 'row' || (i*7919 % 100003), i % 977 from n;
create index tb on t(b);
select count(*), sum(length(b)) from t where b like '%77%';
select c, count(*) from t group by c order by 2 desc, 1 limit 5;
select count(*) from t x join t y on x.b = y.b;
drop table t;
END
cat >"$work/job.py" <<'END'
import json, re, sys
def work(n):
    d = {str(i): [i, i * 2, "x" * (i % 7)] for i in range(n)}
    s = json.dumps(d)
    return len(json.loads(s)) + len(re.findall(r"[0-9]+x*", s))
print(sum(work(1000) for i in range(int(sys.argv[1]))))
END
cat >"$work/job.pl" <<'END'
my ($rounds, $sum) = ($ARGV[0], 0);
for my $round (1 .. $rounds) {
    my %count;
    $count{$_ * 7919 % 1009}++ for 1 .. 3000;
    for my $key (sort { $count{$b} <=> $count{$a} || $a <=> $b } keys %count) { $sum += $key if $key =~ /^(\d)\d*\1$/ }
    $sum += length join ",", map { sprintf "%x", $_ } 1 .. 1000;
}
print "$sum\n";
END
sql() { for ((i = 0; i < $1; i++)); do cat "$work/round.sql"; done >"$work/sql.$1"; }
data() { "$python" -c "import random, sys; random.seed(1); w = [bytes(random.choices(b'abcdefgh', k=random.randint(2, 9))) for _ in range(3000)]; sys.stdout.buffer.write(b' '.join(random.choices(w, k=$1)))" >"$work/data.$1"; }

run_job() { # PROGRAM SIZE COMMAND...: the command works on so much of the program's work
    local input=/dev/null
    case $1 in
    sqlite3) input=$work/sql.$2 ;;
    esac
    "${@:3}" <"$input"
}

calls() { # PROGRAM SIZE COMMAND-WITH-@
    local command=("${@:3}")
    run_job "$1" "$2" timeout -k 5 120 "$probity" count --json '*:*' -- "${command[@]//@/$2}" >"$work/counts" 2>/dev/null || fail "$1: count: $?"
    total_of "$work/counts"
}

compare() { # PROGRAM SHORT LONG COMMAND-WITH-@
    local name=$1 short=$2 long=$3 result hits total once twice
    local small=("${@:4}") large=("${@:4}")
    small=("${small[@]//@/$short}") large=("${large[@]//@/$long}")
    run_job "$name" "$short" timeout -k 5 120 "$probity" record -q --calls '*' -o "$work/full" -- "${small[@]}" >/dev/null || fail "$name: record: $?"
    "$probity" report "$work/full" --format folded -o "$work/folded" || fail "$name: report: $?"
    rm -rf "$work/full"
    run_job "$name" "$long" timeout -k 5 120 "$probity" climb -q --json --threshold 0.5% --min 0.1% -- "${large[@]}" >"$work/out" || fail "$name: climb: $?"
    tail -n 1 "$work/out" >"$work/climb.json"
    once=$(calls "$name" "$short" "${@:4}") twice=$(calls "$name" $((2 * short)) "${@:4}")
    total=$((once + (twice - once) * (long - short) / short))
    result=$(python3 test/live/climb_compare.py "$work/climb.json" "$work/folded" 2>"$work/missing")
    hits=$(sed -E 's/.* hits ([0-9]+).*/\1/' <<<"$result")
    echo "$name: $result of $((2 * total))"
    awk -v hits="$hits" -v total="$total" '{
        exit !($2 >= 0.9 * $4 && $6 >= 0.85 && $NF <= 16 && hits <= 0.01 * 2 * total) }' <<<"$result" || fail "$name: $(cat "$work/missing")"
}

sql 8 && sql 16 && sql 300
data 400000 && data 800000 && data 1200000
attempt compare sqlite3 8 300 sqlite3 :memory:
attempt compare python 80 7000 /usr/bin/python3 "$work/job.py" @
attempt compare perl 100 6000 /usr/bin/perl "$work/job.pl" @
attempt compare xz 400000 1200000 xz -k -f -T1 "$work/data.@"
exit $failed
