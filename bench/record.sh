#!/bin/bash
# What recording costs, beside its peers in the same run: samples beside perf (bench/twins.py), calls beside uftrace; how quick reports are; how much memory a
# live tree takes. Medians of interleaved repetitions, of CPU time where the program can tell it, so that what else runs here matters little. The
# last lines compare with the project's own bounds; exit 1 when one is not met.
# Usage: bench/record.sh [REPETITIONS [SECONDS-OF-THE-LIVE-TREE]], or only the last: bench/record.sh live [SECONDS]
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")/.."
repetitions=${1:-5}
live_seconds=${2:-60}
probity=$PWD/build/probity
victim=$PWD/build/bench/victim
calls=$PWD/build/bench/calls
work=$(mktemp -d)
busy=
trap '[ -z "$busy" ] || kill -KILL "$busy" 2>/dev/null || true; rm -rf "$work"' EXIT
for program in "$probity" "$victim" "$calls" "$calls-pg"; do
    [ -x "$program" ] || { echo "bench: $program is not built; make bench-programs builds it" >&2; exit 1; }
done

ns() { # the figure in the output of a program that measures itself
    sed -n 's/^ns //p'
}
median() { # FILE
    sort -n "$1" | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}
calculate() { # FORMAT EXPRESSION
    awk "BEGIN { printf \"$1\", $2 }"
}
failed=0
bound() { # TEXT CONDITION
    if awk "BEGIN { exit !($2) }"; then echo "met: $1"; else echo "NOT MET: $1"; failed=1; fi
}
bytes_of() { # FILE-OR-FOLDER
    du -sb --apparent-size "$1" | awk '{ print $1 }'
}

# ---- the live tree: the controller's memory over a long run ----

rss_kb() { # PID
    awk '/^VmRSS:/ { print $2 }' "/proc/$1/status" 2>/dev/null || true
}
live_tree() { # SECONDS
    "$probity" record -q --live-tree --memory 8M -F 999 --calls 'libsqlite3:*' -d "$1" -o "$work/trace" -- sqlite3 :memory: \
        "with recursive n(i) as (select 1 union all select i + 1 from n) select count(printf('%d %s', i, hex(i))) from n" >/dev/null 2>"$work/err" &
    busy=$!
    for ((s = 0; s < $1; s++)); do
        sleep 1
        rss_kb "$busy" >>"$work/rss"
    done
    wait "$busy" || true
    busy=
    # The first sixth is start-up: symbols and tables are read as functions are met.
    read -r early late < <(awk -v n="$(wc -l <"$work/rss")" 'NR > n / 6 && NR <= n / 3 && $1 > a { a = $1 } NR > n * 5 / 6 && $1 > b { b = $1 } END { print a, b }' "$work/rss")
    echo "record --live-tree --memory 8M for $1 s: $early KB early on, $late KB at the end; $(bytes_of "$work/trace") bytes written"
    bound "the memory of a live tree does not grow ($early KB, $late KB)" "$late <= $early * 1.05 + 1024"
}

if [ "${1:-}" = live ]; then
    live_tree "${2:-600}"
    exit $failed
fi
echo "load: $(cut -d' ' -f1-3 /proc/loadavg) on $(nproc) CPUs; $repetitions repetitions"

# ---- samples: one of two processes that do the same is sampled ----

# Each row that is written took five hundred others.
statement="with recursive n(i) as (select 1 union all select i + 1 from n)
    select printf('%512s', i) from n where length(printf('%d %s', i * 7919 % 1000, hex(i))) * (i % 500) = 0"
sampled() { # NAME COMMAND-WITH-$pid: the slowdown in percent
    bench/twins.py $((2 * repetitions)) 4 /dev/null "$2" sqlite3 :memory: "$statement" | awk '{ print $1 }' >"$work/slow.$1"
    median "$work/slow.$1"
}
has_perf=
if command -v perf >/dev/null && perf record -q -F 999 --call-graph dwarf -o "$work/perf.data" true 2>/dev/null; then has_perf=yes; fi
nothing=$(sampled nothing "exec sleep 4")
ours=$(sampled probity "exec '$probity' record -q -F 999 -d 8 -o '$work/trace' -p \$pid")
theirs=
[ -z "$has_perf" ] || theirs=$(sampled perf "exec perf record -q -F 999 --call-graph dwarf -o '$work/perf.data' -p \$pid -- sleep 8")
printf '%-44s %10s %10s %10s\n' "sqlite3 at 999 Hz, whole stacks" probity "perf dwarf" nothing
printf '%-44s %10s %10s %10s\n' "slowdown, %" "$ours" "$theirs" "$nothing"
printf '%-44s %10s %10s\n' "bytes written in 8 s" "$(bytes_of "$work/trace")" "$([ -z "$has_perf" ] || bytes_of "$work/perf.data")"
bound "999 Hz with whole stacks slow sqlite3 by at most 3 % ($ours)" "$ours <= 3"
if [ -n "$has_perf" ]; then
    # Half a percent is what two medians of the same tool differ by.
    bound "no slower than perf record --call-graph dwarf ($ours, $theirs)" "$ours <= $theirs + 0.5"
    times=$(calculate %.0f "$(bytes_of "$work/perf.data") / $(bytes_of "$work/trace")")
    bound "at least 20 times fewer bytes than perf ($times)" "$times >= 20"
else
    echo "skipped: perf is not installed or may not sample here"
fi

# ---- calls ----

with_uftrace() { # FUNCTION
    (cd "$work" && uftrace record -P "bench_$1" --no-libcall -d "$work/uftrace" "$victim" "$1" 1 200000 2>/dev/null | ns)
    rm -rf "$work/uftrace"
}
# uftrace's best: the program was compiled for it.
all_with_uftrace() {
    (cd "$work" && uftrace record --no-libcall -d "$work/uftrace" "$calls-pg" 20000 2>/dev/null | ns)
    rm -rf "$work/uftrace"
}
recorded() { # OPTION... -- COMMAND...
    "$probity" record -q -o "$work/trace" "$@" 2>/dev/null | ns
}
cat >"$work/calls.sql" <<'SQL'
.timer on
with recursive n(i) as (select 1 union all select i + 1 from n where i < 30000) select sum(length(printf('%d', i))) from n;
SQL
# The statement's own time, and the calls that were recorded.
sqlite_calls() {
    "$probity" record -o "$work/trace" --calls 'libsqlite3:*' -- sqlite3 :memory: <"$work/calls.sql" >"$work/out" 2>"$work/err"
    awk '/^Run Time/ { printf "%.1f ", ($6 + $8) * 1e9 }' "$work/out"
    sed -nE 's/.*: ([0-9]+) calls, .*/\1/p' "$work/err"
}
sqlite_native_ns() {
    sqlite3 :memory: <"$work/calls.sql" | awk '/^Run Time/ { printf "%.1f\n", ($6 + $8) * 1e9 }'
}
peer=uftrace
command -v uftrace >/dev/null && [ -n "$(with_uftrace push)" ] || peer=
for ((r = 0; r < repetitions; r++)); do
    for function in push lea; do
        "$victim" $function 1 10000000 | ns >>"$work/plain.$function"
        recorded --calls "$victim:bench_$function" -- "$victim" $function 1 2000000 >>"$work/probity.$function"
        recorded --live-tree --calls "$victim:bench_$function" -- "$victim" $function 1 2000000 >>"$work/tree.$function"
        [ -z "$peer" ] || with_uftrace $function >>"$work/uftrace.$function"
    done
    "$calls" 200000 | ns >>"$work/plain.all"
    recorded --calls "$calls:*" -- "$calls" 100000 >>"$work/probity.all"
    recorded --live-tree --calls "$calls:*" -- "$calls" 100000 >>"$work/tree.all"
    [ -z "$peer" ] || all_with_uftrace >>"$work/uftrace.all"
    read -r sqlite_ns sqlite_n < <(sqlite_calls)
    calculate '%.1f\n' "($sqlite_ns - $(sqlite_native_ns)) / $sqlite_n" >>"$work/probity.sqlite"
done
over() { # TOOL ROW
    [ -s "$work/$1.$2" ] || return 0
    calculate %.1f "$(median "$work/$1.$2") - $(median "$work/plain.$2")"
}
printf '%-44s %10s %10s %10s\n' "ns of CPU time over the unprobed call" probity live-tree uftrace
for row in push lea all; do
    text="entry + return ($row)"
    [ $row != all ] || text="every function of a program (uftrace: -pg)"
    printf '%-44s %10s %10s %10s\n' "$text" "$(over probity $row)" "$(over tree $row)" "$(over uftrace $row)"
done
printf '%-44s %10s\n' "every function of libsqlite3 ($sqlite_n calls)" "$(median "$work/probity.sqlite")"
for row in push lea all; do
    bound "a recorded call costs at most 60 ns ($row: $(over probity $row))" "$(over probity $row) <= 60"
    [ -z "$peer" ] || bound "at most half of uftrace's ($row)" "$(over probity $row) * 2 <= $(over uftrace $row)"
done
bound "a recorded call of sqlite3 costs at most 60 ns ($(median "$work/probity.sqlite"))" "$(median "$work/probity.sqlite") <= 60"
[ -n "$peer" ] || echo "skipped: uftrace is not installed or does not patch here"

# ---- reports: wall time and the most memory, of the same tree with one and ten times the events ----

report_of() { # TRACE: prints seconds and kilobytes
    python3 - "$probity" "$1" <<'PYTHON'
import os, resource, subprocess, sys, time
start = time.monotonic()
subprocess.run([sys.argv[1], "report", "--view", "tree", "-o", "/dev/null", sys.argv[2]], check=True, stderr=subprocess.DEVNULL)
print(f"{time.monotonic() - start:.3f} {resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss}")
PYTHON
}
for times in 1 10; do
    "$probity" record -q -o "$work/trace.$times" --calls "$calls:*" -- "$calls" $((25000 * times)) >/dev/null 2>&1
done
for ((r = 0; r < repetitions; r++)); do
    for times in 1 10; do report_of "$work/trace.$times" >>"$work/report.$times"; done
done
events=$((2 * 20 * 250000))
seconds=$(median "$work/report.10") # the first column
rate=$(calculate %.1f "$events / $seconds / 1e6")
small=$(awk '{ print $2 }' "$work/report.1" | sort -n | tail -n 1) large=$(awk '{ print $2 }' "$work/report.10" | sort -n | tail -n 1)
echo "report --view tree: $rate million events a second; $small KB for $((events / 10)) events, $large KB for $events"
bound "report reads at least 10 million events a second ($rate)" "$rate >= 10"
bound "ten times the events take no more memory ($small KB, $large KB)" "$large <= $small * 1.1 + 512"

# ---- what takes longest ----

live_tree "$live_seconds"
exit $failed
