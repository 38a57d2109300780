#!/bin/bash
# A probity that traces a program is a program like others: it can be traced, and both come out right.
. "$(dirname "$0")/lib.sh"

# Attaches to the controller and detaches again, with counters and with a script that takes stacks.
look_at_controller() {
    run_probity count -d 0.3 -p "$counter_pid" 'libc:syscall' 'libc:read' >"$work/outer" 2>"$work/outer.err" || fail "count: exit code $?: $(cat "$work/outer.err")"
    grep -qE '^ *[1-9][0-9]* +syscall:entry' "$work/outer" || fail "no calls of syscall(): $(cat "$work/outer")"
    run_probity trace -q -p "$counter_pid" -e 'uprobe:libc:syscall { @[ustack(3)] = count(); @n++; if (@n == 20) { exit(); } }' >"$work/outer" 2>"$work/outer.err" ||
        fail "trace: exit code $?: $(cat "$work/outer.err")"
    grep -q 'syscall' "$work/outer" || fail "no stack: $(cat "$work/outer")"
    alive "$counter_pid" || fail "the controller has ended: $(cat "$work/inner.err")"
}

counts() { # WIDTH
    local i
    start_victim "$victims/$1/v_count" -w -n 5000
    wait_ready
    start_count "$work/inner" "$victim_pid" --json 'v_count:f*'
    for i in 1 2; do look_at_controller; done
    release
    end_victim
    wait "$counter_pid" || fail "$1: the controller ended with $?"
    compare_counts "$victim_out" "$work/inner" >/dev/null
}

script() { # WIDTH
    start_victim "$victims/$1/v_count" -w -n 5000
    wait_ready
    "$probity" trace -e "uprobe:$victims/$1/v_count:f1 { @f1 = count(); @s[ustack(1)] = count(); }" -p "$victim_pid" >"$work/inner" 2>"$work/inner.err" {victim_in}>&- &
    counter_pid=$!
    started+=("$counter_pid")
    wait_until 30 grep -qs '^Attached' "$work/inner" "$work/inner.err" || fail "no probes: $(cat "$work/inner.err")"
    look_at_controller
    release
    end_victim
    wait "$counter_pid" || fail "$1: the controller ended with $?: $(cat "$work/inner.err")"
    expect_equal "$1: calls of f1()" "$(awk '/^@f1:/ { print $2 }' "$work/inner")" 10000
}

for width in 64 32; do
    counts $width
    script $width
done
