#!/bin/bash
# A controller that is killed in any moment takes no signal with it: threads that were stopped on the way to a handler get there. And the next
# one understands what it left. (S2.2)
# timeout: 240
. "$(dirname "$0")/lib.sh"

kills=$(scale 40 400)
survives() { # WIDTH
    local v=$victims/$1/v_raise i code
    start_victim "$v"
    wait_ready
    for ((i = 0; i < kills; i++)); do
        "$probity" count -p "$victim_pid" "$v:*" 'libc:*' >"$work/out" 2>"$work/err" {victim_in}>&- &
        counter_pid=$!
        # While it attaches, for the most part; sometimes it has.
        sleep "0.$(printf '%03d' $((RANDOM % 120)))"
        kill -KILL "$counter_pid" 2>/dev/null || true
        code=0
        wait "$counter_pid" 2>/dev/null || code=$?
        [ $code = 137 ] || fail "$1 bit, kill $i: probity ended by itself, with $code: $(cat "$work/err")"
        alive "$victim_pid" || fail "$1 bit, kill $i: the victim died: $(cat "$victim_err")"
    done
    run_probity count -p "$victim_pid" -d 0.1 "$v:raised" >"$work/out" 2>"$work/err" || fail "$1 bit: $(tail -n 1 "$work/err")"
    text_is_the_files "$victim_pid"
    end_victim
    grep -q '^ok$' "$victim_out" || fail "$1 bit: the victim was not content: $(cat "$victim_err")"
    echo "$1 bit: $kills kills"
}
for width in 64 32; do survives $width; done
