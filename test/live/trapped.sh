#!/bin/bash
# Programs that fork, make threads, get signals all the time, or lose their first thread, while a trap is in their way: every attach works,
# nothing stays behind, and their results are right. (S2.1, S2.2)
# timeout: 240
. "$(dirname "$0")/lib.sh"

cycles=$(scale 6 60)
for width in 64 32; do
    v=$victims/$width/v_trapped
    for mode in forks threads timer ignored leader nested own plain late; do
        start_victim "$v" "$mode"
        wait_until 10 grep -q ready "$victim_out" || fail "$mode: the victim is not ready"
        traps=0
        for ((i = 0; i < cycles; i++)); do
            code=0
            "$probity" count -v --traps -p "$victim_pid" -d 0.1 "$v:tiny" "$v:trapped_work" "$v:trapped_work:return" >"$work/out" 2>"$work/err" || code=$?
            [ $code = 0 ] || fail "$width-bit $mode, cycle $i: exit code $code: $(tail -n 1 "$work/err")"
            kill -0 "$victim_pid" 2>/dev/null || fail "$width-bit $mode, cycle $i: the victim died: $(cat "$victim_err")"
            ! grep -l 'memfd:probity' "/proc/$victim_pid"/task/*/maps 2>/dev/null || fail "$width-bit $mode, cycle $i: mappings were left behind"
            ! grep -q ' 0 of them by a trap' "$work/err" || fail "$width-bit: nothing needs a trap: the test shows nothing"
            traps=$((traps + $(awk '/tiny:entry/ { n = $1 } END { print n + 0 }' "$work/out")))
        done
        [ "$traps" -gt 0 ] || fail "$width-bit $mode: no trap was counted"
        end_victim
        grep -q '^ok$' "$victim_out" || fail "$width-bit $mode: the victim was not content: $(cat "$victim_err")"
        echo "$width-bit $mode: $cycles attaches, $traps traps counted"
    done
done
