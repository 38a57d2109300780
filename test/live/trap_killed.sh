#!/bin/bash
# A program with a trap in its way goes on, with right results, when the controller is killed; the next one finds it whole and leaves it as it was.
# (S2.2)
# timeout: 120
. "$(dirname "$0")/lib.sh"

cycles=$(scale 2 20)
worked() { # ticks of processor time of the victim and the children that it has waited for
    sed 's/.*) //' "/proc/$victim_pid/stat" 2>/dev/null | awk '{ print $12 + $13 + $14 + $15 }'
}
has_worked() { # TICKS: it has had more than that, or is gone
    gone "$victim_pid" || [ "$(worked)" -gt "$1" ]
}
traced_or_dead() { # TRACER: the victim is traced by it, and it waits for events
    gone "$1" || { traced_by "$victim_pid" "$1" && grep -qE '^(7|271) ' "/proc/$1/syscall" 2>/dev/null; }
}
try_mode() { # WIDTH MODE
    local v=$victims/$1/v_trapped i before
    start_victim "$v" "$2"
    wait_ready
    for ((i = 0; i < cycles; i++)); do
        "$probity" count --traps -p "$victim_pid" "$v:tiny" >"$work/out" 2>"$work/err" {victim_in}>&- &
        counter_pid=$!
        started+=("$counter_pid")
        # It stays attached where a trap is needed.
        wait_until 20 traced_or_dead "$counter_pid" || fail "$1-bit $2: no trap is needed, the test shows nothing: $(cat "$work/err")"
        alive "$counter_pid" || fail "$1-bit $2, cycle $i: probity ended: $(cat "$work/err"); $(tail -n 3 "$victim_err")"
        before=$(worked) || fail "$1-bit $2, before kill $i: the victim died: $(tail -n 3 "$victim_err")"
        wait_until 20 has_worked $((before + 2)) || fail "$1-bit $2, before kill $i: the victim stands still"
        kill -KILL "$counter_pid"
        wait "$counter_pid" 2>/dev/null || true
        before=$(worked) || fail "$1-bit $2, kill $i: the victim died: $(tail -n 3 "$victim_err")"
        wait_until 20 has_worked $((before + 5)) || fail "$1-bit $2, kill $i: the victim stands still"
        alive "$victim_pid" || fail "$1-bit $2, kill $i: the victim died: $(tail -n 3 "$victim_err")"
    done
    run_probity count --json --traps -p "$victim_pid" -d 0.1 "$v:tiny" >"$work/out" 2>"$work/err" || fail "$1-bit $2: $(tail -n 1 "$work/err")"
    [ "$(count_of "$work/out" tiny)" -gt 0 ] || fail "$1-bit $2: the place is not met any more"
    text_is_the_files "$victim_pid"
    end_victim
    grep -q '^ok$' "$victim_out" || fail "$1-bit $2: the victim was not content: $(cat "$victim_err")"
    echo "$1-bit $2: $cycles kills"
}
for width in 64 32; do
    for mode in forks threads timer nested own plain late; do try_mode $width $mode; done
done
