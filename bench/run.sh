#!/bin/bash
# What a counted probe costs beside its peers: one table from one run, the median of interleaved repetitions, in nanoseconds of CPU time over the
# unprobed call. Peers that can not run here are listed as skipped, with the reason. The last lines compare with the project's own bounds;
# exit 1 when one is not met. Usage: bench/run.sh [REPETITIONS]
set -euo pipefail
cd "$(dirname "$0")/.."
repetitions=${1:-5}
probity=$PWD/build/probity
victim=$PWD/build/bench/victim
work=$(mktemp -d)
trap 'rm -rf "$work"; remove_perf_probes' EXIT
for program in "$probity" "$victim"; do
    [ -x "$program" ] || { echo "bench: $program is not built; make bench-programs builds it" >&2; exit 1; }
done

remove_perf_probes() {
    [ ! -e "$work/perf" ] || perf probe -q -d 'probe_victim:bench_*' 2>/dev/null || true
}

ns() { # the figure in the output of the victim
    sed -n 's/^ns //p'
}

with_probity() { # FUNCTION THREADS CALLS POINT...
    local function=$1 threads=$2 calls=$3 specs=() point
    shift 3
    for point in "$@"; do specs+=("$victim:bench_$function$point"); done
    "$probity" count "${specs[@]}" -- "$victim" "$function" "$threads" "$calls" 2>/dev/null | ns
}

with_bpftrace() { # FUNCTION THREADS CALLS PROGRAM
    bpftrace -e "$4" -c "$victim $1 $2 $3" 2>/dev/null | ns
}

with_uftrace() { # FUNCTION THREADS CALLS
    (cd "$work" && uftrace record -P "bench_$1" --no-libcall -d "$work/uftrace" "$victim" "$1" "$2" "$3" 2>/dev/null | ns)
    rm -rf "$work/uftrace"
}

with_perf() { # FUNCTION THREADS CALLS
    perf stat -e "probe_victim:bench_$1" "$victim" "$1" "$2" "$3" 2>/dev/null | ns
}

# The rows: name, then the command that prints nanoseconds per call when given FUNCTION THREADS CALLS.
names=() functions=() calls=() commands=()
row() { # NAME FUNCTION CALLS COMMAND
    names+=("$1") functions+=("$2") calls+=("$3") commands+=("$4")
}
plain() {
    "$victim" "$@" | ns
}
probity_entry() {
    with_probity "$@" ""
}
probity_entry_return() {
    with_probity "$@" "" ":return"
}
bpftrace_uprobe() {
    with_bpftrace "$@" "uprobe:$victim:bench_$1 { @ = count(); }"
}
bpftrace_both() {
    with_bpftrace "$@" "uprobe:$victim:bench_$1 { @ = count(); } uretprobe:$victim:bench_$1 { @r = count(); }"
}
row "unprobed call, push" push 10000000 plain
row "unprobed call, lea" lea 10000000 plain
row "probity count, entry (push)" push 10000000 probity_entry
row "probity count, entry (lea)" lea 10000000 probity_entry
row "probity count, entry + return (push)" push 10000000 probity_entry_return
row "bpftrace uprobe (push)" push 100000 bpftrace_uprobe
row "bpftrace uprobe (lea)" lea 10000 bpftrace_uprobe
row "bpftrace uprobe + uretprobe (push)" push 100000 bpftrace_both
row "uftrace dynamic, entry + exit (push)" push 200000 with_uftrace
row "perf probe, perf stat (push)" push 100000 with_perf

# Why a row can not be measured here, or nothing.
unavailable() { # COMMAND
    case $1 in
    bpftrace_*)
        command -v bpftrace >/dev/null || { echo "bpftrace is not installed"; return; }
        bpftrace -e "uprobe:$victim:bench_push { @ = count(); }" -c "$victim push 1 100" 2>"$work/why" | grep '^@: 100$' >"$work/hundred" ||
            echo "bpftrace does not count here: $(grep -v RLIMIT "$work/why" | tail -n 1)"
        ;;
    with_uftrace)
        command -v uftrace >/dev/null || { echo "uftrace is not installed"; return; }
        [ -n "$(with_uftrace push 1 1000)" ] || echo "uftrace does not patch here"
        ;;
    with_perf)
        command -v perf >/dev/null || { echo "perf is not installed"; return; }
        [ -w /sys/kernel/tracing/uprobe_events ] || [ -w /sys/kernel/debug/tracing/uprobe_events ] || { echo "the kernel offers no uprobe_events"; return; }
        perf probe -q -d 'probe_victim:bench_*' 2>/dev/null || true # what a run that was killed left
        perf probe -q -x "$victim" bench_push 2>"$work/why" || { echo "perf probe: $(head -n 1 "$work/why")"; return; }
        touch "$work/perf"
        ;;
    esac
}
declare -A why
for command in "${commands[@]}"; do [ -n "${why[$command]+x}" ] || why[$command]=$(unavailable "$command"); done

for ((r = 0; r < repetitions; r++)); do
    for threads in 1 8; do
        for i in "${!names[@]}"; do
            [ -z "${why[${commands[$i]}]}" ] || continue
            "${commands[$i]}" "${functions[$i]}" "$threads" $((calls[i] / (threads == 1 ? 1 : 4))) >>"$work/$i.$threads"
        done
    done
done

median() { # FILE
    sort -n "$1" | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}

over() { # ROW THREADS: the median over the unprobed call of the same function, or nothing
    local base=0
    [ "${functions[$1]}" = push ] || base=1
    [ -s "$work/$1.$2" ] || return 0
    awk "BEGIN { printf \"%.1f\", $(median "$work/$1.$2") - $(median "$work/$base.$2") }"
}

ratio() { # A B
    awk "BEGIN { b = $2 < 0.1 ? 0.1 : $2; printf \"%.1f\", $1 / b }"
}

entry_push=$(over 2 1) entry_lea=$(over 3 1)
{
    echo "Cost of one hit, ns of CPU time over the unprobed call; median of $repetitions interleaved repetitions on $(nproc) CPUs."
    echo
    echo "| what | 1 thread | 8 threads, per thread | times a probity entry |"
    echo "|---|---:|---:|---:|"
    for i in "${!names[@]}"; do
        if [ -n "${why[${commands[$i]}]}" ]; then
            skipped+=("skipped: ${names[$i]}: ${why[${commands[$i]}]}")
        elif [ "${commands[$i]}" = plain ]; then
            printf '| %s (absolute) | %.1f | %.1f | |\n' "${names[$i]}" "$(median "$work/$i.1")" "$(median "$work/$i.8")"
        else
            entry=$entry_push
            [ "${functions[$i]}" = push ] || entry=$entry_lea
            printf '| %s | %s | %s | %s |\n' "${names[$i]}" "$(over "$i" 1)" "$(over "$i" 8)" "$(ratio "$(over "$i" 1)" "$entry")"
        fi
    done
    echo
    for line in "${skipped[@]:-}"; do [ -z "$line" ] || echo "$line"; done
} | tee build/bench/table.md

# How long attaching stops a process with 8 threads that mostly wait, with about 1,000 probes.
pause() { # prints milliseconds
    local pipe=$work/storm pid
    mkfifo "$pipe"
    build/victim/64/v_storm <"$pipe" >"$work/storm.out" &
    pid=$!
    exec 9>"$pipe"
    until grep -q ready "$work/storm.out"; do sleep 0.05; done
    for ((i = 0; i < repetitions * 4; i++)); do
        "$probity" count -v -p "$pid" -d 0.05 'libc:[a-m]*' 2>&1 >/dev/null | sed -n 's/.*: \([0-9]*\) places .*pause \(.*\) ms/\2 \1/p'
    done >"$work/pause"
    exec 9>&-
    wait "$pid"
    median "$work/pause"
}
pause_ms=$(pause)
echo "attaching stops v_storm's 8 threads for $pause_ms ms (median), $(sort -n "$work/pause" | awk 'END { print $1 }') ms at most, with $(awk 'END { print $2 }' "$work/pause") probes"

failed=0
bound() { # TEXT CONDITION
    if awk "BEGIN { exit !($2) }"; then echo "met: $1"; else echo "NOT met: $1"; failed=1; fi
}
bound "a counted entry costs at most 10 ns ($entry_push, $entry_lea)" "$entry_push <= 10 && $entry_lea <= 10"
bound "attaching pauses for less than 10 ms ($pause_ms)" "$pause_ms < 10"
bound "entry and return cost at most 25 ns ($(over 4 1))" "$(over 4 1) <= 25"
bound "8 threads are no slower than 1, within 15 % and 1 ns ($(over 2 8) against $entry_push)" "$(over 2 8) <= $entry_push * 1.15 + 1"
if [ -z "${why[bpftrace_uprobe]}" ]; then
    bound "at least 40 times cheaper than a bpftrace uprobe on push ($(ratio "$(over 5 1)" "$entry_push"))" "$(ratio "$(over 5 1)" "$entry_push") >= 40"
    bound "at least 500 times cheaper than a bpftrace uprobe on lea ($(ratio "$(over 6 1)" "$entry_lea"))" "$(ratio "$(over 6 1)" "$entry_lea") >= 500"
fi
exit $failed
