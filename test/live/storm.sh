#!/bin/bash
# Attach, count, detach, again and again, on a busy program with eight threads in system calls: no crash, no wrong result, no EINTR it
# did not expect, the code as in the file after each detach, no mapping left behind after the last. (S2.2, S2.5)
# timeout: 240
. "$(dirname "$0")/lib.sh"

cycles=$(scale 30 250)
for width in 64 32; do
    v=$victims/$width/v_storm
    start_victim "$v"
    wait_ready
    mapping_kinds "$victim_pid" >"$work/before"
    for ((i = 0; i < cycles; i++)); do
        case $((i % 3)) in
        0) specs=("$v:storm_*") ;;
        1) specs=("$v:*" "$v:*:return" 'libc:*wait*' 'libc:read' 'libc:poll') ;;
        2) specs=("$v:storm_*:return" 'libc:*') ;;
        esac
        run_probity count --json -p "$victim_pid" -d 0.1 "${specs[@]}" >"$work/json" 2>"$work/err" ||
            fail "cycle $i: $(cat "$work/err"), victim: $(tail -n 2 "$victim_out")"
        [ "$(total_of "$work/json")" -gt 0 ] || fail "cycle $i counted nothing"
        alive "$victim_pid" || fail "cycle $i: the victim died: $(cat "$victim_out")"
        text_is_the_files "$victim_pid"
    done
    mapping_kinds "$victim_pid" >"$work/after"
    diff "$work/before" "$work/after" || fail "mappings were left behind"
    release
    wait_until 20 gone "$victim_pid" || fail "the victim hangs"
    end_victim
    expect_equal "last line of the victim" "$(tail -n 1 "$victim_out")" ok
    echo "$width-bit: $cycles cycles"
done
