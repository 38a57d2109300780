#!/bin/bash
# Everything that `make bench` measures, one after the other, also behind one that misses a figure. Exits 1 when one did; the last lines say which.
cd "$(dirname "$0")/.." || exit 2
missed=()
measure() { # COMMAND...
    echo "== $*"
    "$@" || missed+=("$*")
}
measure bench/run.sh
measure bench/trace.sh
measure bench/record.sh
measure bench/climb.sh
measure build/bench/trace_speed build/bench/trace_speed.dir
measure build/bench/tree_speed
measure build/bench/report_speed build/bench/report_speed.dir
if [ ${#missed[@]} -gt 0 ]; then
    printf 'NOT MET: %s\n' "${missed[@]}"
    exit 1
fi
echo "every figure is met"
