#!/bin/bash
# What waits for room in a ring is not lost: not when the run ends under it, not when the controller is held up for long; and what the
# controller's own clauses write is not lost because processes fill the rings. (S0.7, S2.2)
. "$(dirname "$0")/lib.sh"

# A thread that writes all the time, and so waits for room at the moment of each detach: its events from the first to the last that is there
# are without a gap, and nothing is said to be lost.
leaving() { # WIDTH
    local v=$victims/$1/v_events
    start_victim "$v" -t 1 -n 4000000000
    wait_until 30 lines_are "/proc/$victim_pid/maps" libc.so 1
    for _ in $(seq "$(scale 4 40)"); do
        run_probity trace -q --lossless -o "$work/lines" -p "$victim_pid" \
            -e "uprobe:$v:event { printf(\"%d %d\n\", arg0, arg1); } interval:ms:150 { exit(); }" 2>"$work/err"
        ! grep -i lost "$work/err" >&9 || fail "$1-bit: something is lost at the end"
        awk 'NF == 2 { if (($1 in last) && $2 != last[$1] + 1) bad++; last[$1] = $2; lines++ }
            END { if (bad || lines < 1000) { print lines + 0 " lines, " bad + 0 " gaps"; exit 1 } }' "$work/lines" >&9 || fail "$1-bit: --lossless has gaps"
    done
    for _ in $(seq "$(scale 2 20)"); do
        run_probity record -o "$work/t.trace" --calls event -p "$victim_pid" -d 0.3 2>"$work/err"
        ! grep 'calls or values were LOST' "$work/err" >&9 || fail "$1-bit: a call is lost at the end"
    done
    kill -KILL "$victim_pid"
    wait "$victim_pid" 2>/dev/null || true
}

# Lines of a clause of the controller's own, among all the others.
own_lines() { # WIDTH OPTION...
    local v=$victims/$1/v_events width=$1
    shift
    run_probity trace -q "$@" -o "$work/lines" -e "uprobe:$v:event { printf(\"%d %d\n\", arg0, arg1); }
        interval:ms:5 { printf(\"tick %d\n\", @n); @n++; }" -- "$v" -t 8 -n 400000 >"$work/out" 2>"$work/err"
    grep '^tick' "$work/lines" | awk '$2 != n++ { bad++ } END { if (bad || n < 2) { print n + 0 " ticks, " bad + 0 " out of order"; exit 1 } }' >&9 ||
        fail "$width-bit $*: lines of the controller's own clauses are lost"
}

# Nobody reads what is printed for longer than a controller without a sign of life is waited for, and far less is in the rings than is written.
held_up() { # WIDTH
    local v=$victims/$1/v_events
    run_probity trace -q --lossless --follow -e "uprobe:$v:event { printf(\"%d %d\n\", arg0, arg1); }" -- bash -c "exec $v -t 4 -n 200000 >$work/out" 2>"$work/err" |
        { sleep 4 && cat >"$work/lines"; }
    ! grep -i lost "$work/err" >&9 || fail "$1-bit: something is lost while nobody reads"
    expect_equal "$1-bit lines" "$(grep -c '^[0-3] ' "$work/lines")" 800000
}

# So many threads that those that wait for room leave the controller little of the processors.
crowd() { # WIDTH
    local v=$victims/$1/v_events threads=2000 events=600
    run_probity record -o "$work/t.trace" --calls event -- "$v" -t $threads -n $events -s 16 >"$work/out" 2>"$work/err" || fail "$1-bit: record: $(cat "$work/err")"
    grep -q " $((threads * events)) calls, .* 0 lost" "$work/err" || fail "$1-bit: calls of many threads are lost: $(cat "$work/err")"
    run_probity trace -q --lossless -o "$work/lines" -e "uprobe:$v:event { printf(\"%d %d\n\", arg0, arg1); }" -- "$v" -t $threads -n $events -s 16 \
        >"$work/out" 2>"$work/err" || fail "$1-bit: trace: $(cat "$work/err")"
    ! grep -i lost "$work/err" >&9 || fail "$1-bit: lines of many threads are lost"
    expect_equal "$1-bit lines of many threads" "$(grep -c ' ' "$work/lines")" $((threads * events))
}

for width in 64 32; do
    crowd $width
    leaving $width
    own_lines $width
    own_lines $width --lossless
    held_up $width
done
