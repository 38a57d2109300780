#!/bin/bash
# Two libraries with other code take turns at one address, while probes of them come and go: by the loader, mapped by hand over one another,
# replaced in their file, in namespaces of their own, loaded by several threads. No wrong result, no crash, every attach works, and the code is the
# files' afterwards. Also where the function at which the loader waits for us gets a probe of its own, with a controller that spoils
# trampolines when nobody should be in them any more. What is loaded while it is counted is counted exactly. (S2.2, S2.5)
# timeout: 300
. "$(dirname "$0")/lib.sh"

cycles=$(scale 5 100)
specs=('*v_turn*:*' '*v_turn*:*:return')
sanitized=$root/build-asan/probity
[ -x "$sanitized" ] || fail "$sanitized is not built (make sanitized)"

storm() { # WIDTH OPTION...
    local width=$1 i code
    shift
    rm -f "$work"/std*
    start_victim "$victims/$width/v_turns" "$@"
    wait_ready
    mapping_kinds "$victim_pid" | grep -v libv_turn_ >"$work/before" || true
    for ((i = 0; i < cycles; i++)); do
        code=0
        run_probity count --json -p "$victim_pid" -d 0.0$((1 + i % 8)) "${specs[@]}" >"$work/json" 2>"$work/err" || code=$?
        alive "$victim_pid" || fail "$width-bit $*: the victim died in cycle $i: $(cat "$victim_err")"
        [ $code = 0 ] || fail "$width-bit $*, cycle $i: exit code $code: $(tail -n 2 "$work/err")"
    done
    # It stands still for the comparison.
    kill -STOP "$victim_pid"
    wait_until 10 shows '^State:.*stopped' "/proc/$victim_pid/status"
    text_is_the_files "$victim_pid"
    mapping_kinds "$victim_pid" | grep -v libv_turn_ | diff "$work/before" - || fail "$width-bit $*: mappings were left behind"
    kill -CONT "$victim_pid"
    release
    end_victim
    echo "$width-bit $*: $cycles cycles, $(cat "$victim_err")"
}

waiting() { # WIDTH OPTION...
    local specs=('*v_turn*:*' '*:_dl_debug_state' '*:_dl_debug_state:return') probity=$sanitized
    storm "$@"
}

# Each library has half of the turns; each of its functions is called three times a turn.
exact() { # WIDTH OPTION...
    local width=$1 which
    shift
    rm -f "$work"/std*
    start_victim "$victims/$width/v_turns" -w -n 40 "$@"
    wait_ready
    start_count "$work/json" "$victim_pid" --json '*v_turn*:*'
    release
    wait_ready 2
    end_count
    for which in a b; do
        grep "libv_turn_$which.*turn_1" "$work/json" >"$work/json.$which"
        expect_equal "$width-bit $*: calls in libv_turn_$which.so" "$(count_of "$work/json.$which" turn_142)" 60
        expect_equal "$width-bit $*: calls in libv_turn_$which.so" "$(total_of "$work/json.$which")" 6000
    done
    end_victim
}

for width in 64 32; do
    attempt storm $width
    attempt storm $width hand
    attempt storm $width replace
    attempt storm $width space
    attempt storm $width -t 3
    attempt waiting $width -t 3
    attempt exact $width
    attempt exact $width space
done
exit $failed
