#!/bin/bash
# SIGKILL to the controller at random moments: the target computes what it should, and the next attach works, counts exactly, and leaves
# nothing of either behind. (S2.2)
# timeout: 300
. "$(dirname "$0")/lib.sh"

kills=$(scale 15 50)
RANDOM=$(scale 1 $((SECONDS + $$)))
echo "seed $RANDOM"
for width in 64 32; do
    v=$victims/$width/v_count
    "$v" -t 2 -n 400000 >"$work/expected"
    for ((i = 0; i < kills; i++)); do
        start_victim "$v" -w -t 2 -n 400000 -r 2
        wait_ready
        mapping_kinds "$victim_pid" >"$work/before"
        "$probity" count -p "$victim_pid" "$v:*" "$v:*:return" 'libc:*' >/dev/null 2>&1 &
        controller=$!
        started+=("$controller")
        if ((i % 2)); then release; fi
        delay=$((RANDOM % 400))
        sleep "0.$(printf '%03d' $delay)"
        kill -KILL "$controller"
        wait "$controller" 2>/dev/null || true
        if ! ((i % 2)); then release; fi
        wait_ready 2
        grep -v '^ready$' "$victim_out" | cmp - "$work/expected" || fail "kill $i after $delay ms: wrong result"

        start_count "$work/json" "$victim_pid" --json "$v:f1"
        release
        wait_ready 3
        end_count
        expect_equal "calls counted by the next attach after kill $i at $delay ms" "$(count_of "$work/json" f1)" 800000
        text_is_the_files "$victim_pid"
        mapping_kinds "$victim_pid" | diff "$work/before" - || fail "kill $i after $delay ms: mappings were left behind"
        end_victim
        rm -f "$work"/std*
    done
    echo "$width-bit: $kills kills"
done
