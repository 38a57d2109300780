#!/bin/bash
# Stacks of real programs, stopped at random, are those that gdb finds: for at least 99.5 % of the stops, 64 and 32 bit.
. "$(dirname "$0")/lib.sh"
tool=$build/test/unit/unwind_space
[ -x "$tool" ] || fail "$tool is not built"
stops=$(scale 130 2000)
environment=
total=0 equal=0 contradicted=0

query="WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 100000000)
SELECT count(*), sum(length(printf('%d-%s', x, hex(x)))), group_concat(x % 7) FROM c WHERE x % 3 <> 1 GROUP BY x % 1000 ORDER BY 2"
python_code='
import json, re, hashlib, random
def f(n):
    return n if n < 2 else f(n - 1) + f(n - 2)
chance = random.Random(1)
while True:
    d = {str(i): [chance.random(), {"a": "x" * i}] for i in range(200)}
    s = json.dumps(d)
    json.loads(s)
    re.findall(r"[0-9]+(\.[0-9]+)?", s)
    hashlib.sha256(s.encode()).hexdigest()
    sorted(d.items(), key=lambda k: k[1][0])
    f(12)
'
perl_code='my %h; while (1) { for my $i (1 .. 500) { my $k = "key$i"; $h{$k} = join(",", map { $_ * $i } 1 .. 20); $h{$k} =~ s/(\d)7/$1x/g; }
my @s = sort { $h{$a} cmp $h{$b} } keys %h; }'

compare() { # NAME COMMAND...
    local name=$1 result n of k
    shift
    # Of its own, so that the interrupts meant for the program reach nobody else.
    STACKS_STOPS=$stops STACKS_SEED=$RANDOM STACKS_TOOL=$tool STACKS_OUT=$work/out STACKS_ENV=$environment timeout --foreground -k 5 \
        "$(scale 60 600)" setsid -w gdb -nx -batch -x test/live/stacks_gdb.py --args "$@" >"$work/gdb" 2>&1 || true
    result=$(grep -E '^equal ' "$work/out" || true)
    [ -n "$result" ] || fail "$name: gdb failed: $(tail -n 3 "$work/out" "$work/gdb")"
    grep -v '^equal ' "$work/out" || true
    echo "$name: $result"
    read -r _ n _ of k _ <<<"${result//,/}"
    [ "$of" -ge "$stops" ] || fail "$name: ended after $of stops"
    total=$((total + of)) equal=$((equal + n)) contradicted=$((contradicted + k))
}

compare "C++" "$victims/64/v_stacks"
compare sqlite3 "$(command -v sqlite3)" :memory: "$query"
compare python3 "$python" -c "$python_code"
compare perl "$(command -v perl)" -e "$perl_code"
[ -x "$i386/usr/bin/sqlite3" ] || fail "no 32-bit programs in build/i386: tool/install-deps.sh --test fetches them"
environment="LD_LIBRARY_PATH=$i386_libraries
PYTHONHOME=$i386/usr
PERL5LIB=$i386/usr/lib/i386-linux-gnu/perl-base"
compare "C++ (32-bit)" "$victims/32/v_stacks"
compare "sqlite3 (32-bit)" "$i386/usr/bin/sqlite3" :memory: "$query"
compare "python3 (32-bit)" "$i386/usr/bin/python3.11" -c "$python_code"
compare "perl (32-bit)" "$i386/usr/bin/perl" -e "$perl_code"

echo "$equal of $total equal, $contradicted contradicted by the code"
# gdb itself must be right most of the time, or there is no truth to compare with.
[ $((contradicted * 100)) -lt $((total * 6)) ] || fail "gdb contradicts the code too often"
[ $(((total - contradicted - equal) * 1000)) -le $((total * 5)) ] || fail "less than 99.5 % are equal"
