#!/bin/bash
# Every mode of probity against processes that attack it: that write into, fill, unmap, protect and replace what it shares with them, forge records
# and journals, move heads, spoil maps, punch holes, close descriptors, execute setuid programs, fork, hide, and end at any moment; of both widths, of
# the same and of another user. The controller, built with sanitizers, ends by itself and in time, with an exit code that is documented, and leaves
# neither processes nor files but its own. What becomes of the hostile process is its own affair. (S0.7, S2.2)
# timeout: 240
. "$(dirname "$0")/lib.sh"

controller=$root/build-asan/probity
[ -x "$controller" ] || fail "$controller is not built (make sanitized)"
for width in 64 32; do
    mkdir "$work/$width"
    cp "$victims/$width/v_hostile" "$victims/$width/v_hostile-small" "$work/$width"
done
# What a failed change has in hand is given back by the end of the controller: `make asan` looks for leaks.
export ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0
python3 test/live/hostile.py "$controller" "$work" "$(scale 60 2000)" "${HOSTILE_FIRST:-1}"
