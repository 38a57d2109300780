#!/bin/bash
# Attached to while running: children made by fork go on being counted, libraries loaded later get their probes, traps are lossless in
# threads that block every signal. Counts are the victim's own, and detaching leaves nothing behind. (S2.2, S2.5)
# timeout: 180
. "$(dirname "$0")/lib.sh"

for width in 64 32; do
    for run in "1 v_fork -n 20000" "2 v_dlopen -n 30" "4 v_blocked -t 8 -n 3000" "5 v_count -t 8 -n 20000"; do
        read -r minimum name options <<<"$run"
        start_victim "$victims/$width/$name" -w $options
        wait_ready
        mapping_kinds "$victim_pid" >"$work/before"
        start_count "$work/json" "$victim_pid" --json --traps '*:*' '*:*:return'
        release
        wait_ready 2
        end_count
        grep '/v_\|/libv_' "$work/json" >"$work/own" || fail "$name: no function of the victim was counted"
        compared=$(compare_counts "$victim_out" "$work/own") || fail "$width-bit $name: $compared"
        [ "$compared" -ge "$minimum" ] || fail "$width-bit $name: only $compared counts compared"
        text_is_the_files "$victim_pid"
        mapping_kinds "$victim_pid" | diff "$work/before" - || fail "$width-bit $name: mappings were left behind"
        end_victim
        echo "$width-bit $name: $compared counts equal"
    done
done
