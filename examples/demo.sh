#!/bin/bash
# The main job on bundled programs: what can be probed, then what two busy processes, 64- and 32-bit, do in three seconds, counted while they
# run; afterwards they are checked to be unharmed.
set -euo pipefail
cd "$(dirname "$0")/.."
probity=build/probity
work=$(mktemp -d)
pids=()
finish() {
    for pid in "${pids[@]}"; do kill -KILL "$pid" 2>/dev/null || true; done
    rm -rf "$work"
}
trap finish EXIT

start() { # WIDTH
    mkfifo "$work/in$1"
    "build/victim/$1/v_storm" <"$work/in$1" >"$work/out$1" &
    pids+=($!)
    exec {input}>"$work/in$1"
    inputs+=("$input")
    until grep -q ready "$work/out$1"; do sleep 0.02; done
}
say() {
    if [ -t 1 ]; then printf '\n\033[1m%s\033[0m\n' "$*"; else printf '\n%s\n' "$*"; fi
}

inputs=()
start 64
start 32
say "Two programs are running, one 64-bit (${pids[0]}), one 32-bit (${pids[1]}), eight busy threads each. What can be probed in them?"
$probity list 'build/victim/64/v_storm:storm_*' 'build/victim/64/v_storm:storm_*:return'
say "And in the C library (the summary only):"
$probity list 'libc:*' | tail -n 1
say "Three seconds of both, one session: their own functions, with returns, and the waiting calls of the C library."
$probity count -d 3 -p "${pids[0]}" -p "${pids[1]}" '*v_storm:storm_*' '*v_storm:storm_work:return' 'libc:*wait*' 'libc:poll' 'libc:read' 'libc:recv' 'libc:*nanosleep'
say "A script on both at once: how long storm_work() takes in each data model, by the second, for three seconds."
$probity trace -q -p "${pids[0]}" -p "${pids[1]}" -e 'uprobe:*v_storm:storm_work { @start[tid] = nsecs; }
    uretprobe:*v_storm:storm_work /@start[tid]/ { @ns[model] = stats(nsecs - @start[tid]); @calls[pid, model] = count(); delete(@start[tid]); }
    interval:s:1 { @second++; printf("second %d\n", @second); print(@ns); clear(@ns); if (@second == 3) { exit(); } }'
say "Detached. The programs check every result themselves:"
for width in 64 32; do
    echo >&"${inputs[$((width == 64 ? 0 : 1))]}"
done
for i in 0 1; do wait "${pids[$i]}"; done
for width in 64 32; do echo "$width-bit: $(tail -n 1 "$work/out$width")"; done
pids=()
