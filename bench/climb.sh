#!/bin/bash
# What climbing costs real programs: how much slower one of two processes that do the same work is while `probity climb` is attached to it
# (bench/twins.py), and how much slower it seems when nothing is, which tells how far that can be trusted. Beside it, on a short run of the same work:
# what it costs to record every call, and callgrind. Medians. Exit 1 when climbing costs more than 2 %.
# Usage: bench/climb.sh [ROUNDS] [SECONDS-OF-A-CLIMB]
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")/.."
rounds=${1:-6} seconds=${2:-10} quiet=3
probity=$PWD/build/probity
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
[ -x "$probity" ] || { echo "bench: $probity is not built" >&2; exit 1; }

# Each round of work writes something as soon as it is done: sqlite3 writes 4 KB at a time.
cat >"$work/round.sql" <<'SQL'
create table t(a integer primary key, b text, c int);
with recursive n(i) as (select 1 union all select i+1 from n where i<2000) insert into t select i, 'row' || (i*7919 % 100003), i % 977 from n;
create index tb on t(b);
select count(*), sum(length(b)) from t where b like '%77%';
select c, count(*) from t group by c order by 2 desc, 1 limit 5;
select count(*) from t x join t y on x.b = y.b;
drop table t;
select printf('%4096s', '');
SQL
cat >"$work/job.py" <<'PY'
import json, re, sys
def work(n):
    d = {str(i): [i, i * 2, "x" * (i % 7)] for i in range(n)}
    s = json.dumps(d)
    return len(json.loads(s)) + len(re.findall(r"[0-9]+x*", s))
for i in range(int(sys.argv[1])):
    print(work(1000), flush=True)
PY
cat >"$work/job.pl" <<'PL'
$| = 1;
for my $round (1 .. $ARGV[0]) {
    my ($sum, %count) = 0;
    $count{$_ * 7919 % 1009}++ for 1 .. 3000;
    for my $key (sort { $count{$b} <=> $count{$a} || $a <=> $b } keys %count) { $sum += $key if $key =~ /^(\d)\d*\1$/ }
    $sum += length join ",", map { sprintf "%x", $_ } 1 .. 1000;
    print "$sum\n";
}
PL
/usr/bin/python3 -c "import random, sys; random.seed(1); w = [bytes(random.choices(b'abcdefgh', k=random.randint(2, 9))) for _ in range(3000)]
sys.stdout.buffer.write(b' '.join(random.choices(w, k=20000)))" >"$work/words"

work_on() { # PROGRAM ROUNDS: what to run, and its input
    input=/dev/null
    case $1 in
    sqlite3)
        input=$work/$2.sql command=(sqlite3 :memory:)
        [ -e "$input" ] || for ((i = 0; i < $2; i++)); do echo ".read $work/round.sql"; done >"$input"
        ;;
    python3) command=(/usr/bin/python3 "$work/job.py" "$2") ;;
    perl) command=(/usr/bin/perl "$work/job.pl" "$2") ;;
    xz)
        command=(xz -c -T1)
        for ((i = 0; i < $2; i++)); do command+=("$work/words"); done
        ;;
    esac
}

slower() { # ATTACH: by how much, in percent, of which it ran longer and stood still
    bench/twins.py "$rounds" $quiet "$input" "$1" "${command[@]}" >"$work/rounds"
    for column in 1 2 3; do
        awk -v c=$column '{ print $c }' "$work/rounds" | median
    done | paste -sd' '
}

wall() { # TOOL...
    for ((r = 0; r < 3; r++)); do
        local start=$EPOCHREALTIME
        "$@" "${command[@]}" <"$input" >/dev/null 2>&1
        awk "BEGIN { print $EPOCHREALTIME - $start }"
    done | median
}

median() {
    sort -n | awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'
}

echo "load: $(cut -d' ' -f1-3 /proc/loadavg) on $(nproc) CPUs; $rounds rounds"
failed=0
printf '%-8s %8s %8s %8s %8s %11s %11s\n' program climb longer still nothing "all calls" callgrind
for program in sqlite3 python3 perl xz; do
    work_on $program $([ $program = xz ] && echo 10000 || echo 300000)
    with=$(slower "exec '$probity' climb -q -p \$pid -d $seconds")
    without=$(slower "exec sleep $((seconds / 2))")
    case $program in
    sqlite3) work_on $program 30 ;;
    xz) work_on $program 5 ;;
    *) work_on $program 80 ;;
    esac
    short=$(wall)
    full=$(wall "$probity" record -q --live-tree --calls '*' -o "$work/trace" --)
    peer=-
    ! command -v valgrind >/dev/null || peer=$(wall valgrind -q --tool=callgrind --callgrind-out-file=/dev/null)
    read -r slower longer still <<<"$with"
    awk -v n=$program -v c="$slower" -v l="$longer" -v s="$still" -v o="${without%% *}" -v t="$short" -v f="$full" -v p="$peer" 'BEGIN {
        printf "%-8s %7.2f%% %7.2f%% %7.2f%% %7.2f%% %10.1fx %11s\n", n, c, l, s, o, f / t, p == "-" ? p : sprintf("%.1fx", p / t)
        exit !(c <= 2) }' || failed=1
done
[ $failed = 0 ] && echo "met: climbing costs at most 2 %" || echo "NOT MET: climbing costs at most 2 %"
exit $failed
