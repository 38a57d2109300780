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
    printf '\n\033[1m%s\033[0m\n' "$*"
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
say "Detached. The programs check every result themselves:"
for width in 64 32; do
    echo >&"${inputs[$((width == 64 ? 0 : 1))]}"
done
for i in 0 1; do wait "${pids[$i]}"; done
for width in 64 32; do echo "$width-bit: $(tail -n 1 "$work/out$width")"; done
pids=()
