#!/bin/bash
# Without a process or a command: programs that are started later are seen from their first instruction on (as root), however they are started,
# and nobody waits for a probity that is busy, stopped or killed. (S0.7)
# timeout: 200
. "$(dirname "$0")/lib.sh"

# fanotify_init(FAN_CLASS_CONTENT), whatever probity makes of it
python3 -c 'import ctypes, sys; sys.exit(ctypes.CDLL(None).fanotify_init(4, 0) < 0)' || skip "fanotify(7) can not ask for permissions here, or CAP_SYS_ADMIN is missing"

has_keeper() { # the process that answers the kernel
    [ -n "$(pgrep -P "$tracer_pid" -x probity-gate)" ]
}

# Sets tracer_pid. The program has to be one that nobody else executes: a copy.
begin() { # PROGRAM SCRIPT
    : >"$work/err"
    "$probity" trace -o "$work/out" -e "${2//@program@/$1}" 2>"$work/err" &
    tracer_pid=$!
    started+=("$tracer_pid")
    wait_until 30 grep -qs '^Attached' "$work/out" "$work/err" || fail "probity does not begin: $(cat "$work/err")"
    has_keeper || fail "nobody answers the kernel"
    keeper_pid=$(pgrep -P "$tracer_pid" -x probity-gate)
}

end() {
    kill -INT "$tracer_pid"
    wait "$tracer_pid" || fail "probity ended with $?: $(cat "$work/err")"
    wait_until 20 gone "$keeper_pid" || fail "the keeper is left"
}

value_of() { # KEY
    awk -v key="$1" 'index($0, key ": ") == 1 { print $NF }' "$work/out"
}

counting='uprobe:@program@:main { @main = count(); } uprobe:@program@:f1 { @f1 = count(); } uprobe:@program@:f2 { @f2[pid] = count(); }'

# In every way that a program is executed in.
ways() { # WIDTH
    local v=$work/v_count n=0 i
    cp "$victims/$1/v_count" "$v"
    begin "$v" "$counting"
    for i in 1 2 3 4 5; do
        "$v" -n 100 >/dev/null || fail "$1: exit code $?"
        n=$((n + 1))
    done
    for i in $(seq 12); do # at once
        "$v" -n 100 >"$work/at_once.$i" &
        started+=($!)
    done
    for i in $(seq 12); do
        wait "${started[-$i]}" || fail "$1: one of many: exit code $?"
        n=$((n + 1))
    done
    "$python" - "$v" <<'P' || fail "$1: python: exit code $?"
import os, subprocess, sys, threading
command = [sys.argv[1], "-n", "100"]
subprocess.run(command, check=True, stdout=subprocess.DEVNULL) # vfork
if os.fork() == 0:
    out = os.open("/dev/null", os.O_WRONLY)
    os.dup2(out, 1)
    threading.Thread(target=lambda: os.execv(command[0], command)).start() # by a thread that is not the first
    threading.Event().wait()
sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
P
    n=$((n + 2))
    ! "$v" "$(head -c 200000 /dev/zero | tr '\0' x)" >/dev/null 2>"$work/long" || fail "$1: an argument of 200,000 bytes was taken"
    grep -q 'too long' "$work/long" || fail "$1: $(cat "$work/long")"
    end
    expect_equal "$1: calls of main()" "$(value_of @main)" $n
    expect_equal "$1: calls of f1()" "$(value_of @f1)" $((n * 200))
    expect_equal "$1: processes" "$(grep -c '^@f2\[' "$work/out")" $n
    expect_equal "$1: what else was said" "$(grep -v '^Attached' "$work/err")" ""
}

# A process that executes the program again and again, and a child of one that has probes already.
chain() {
    local i
    cp /bin/bash "$work/shell"
    begin "$work/shell" 'uprobe:@program@:parse_and_execute { @texts = count(); @[pid] = count(); }'
    for i in 1 2 3; do
        dash -c "'$work/shell' -c \"exec '$work/shell' -c \\\"('$work/shell' -c :); :\\\"\"" || fail "a chain: exit code $?"
    done
    end
    expect_equal "texts of the chain" "$(value_of @texts)" 9
    expect_equal "processes of the chain" "$(grep -c '^@\[' "$work/out")" 6
}

# One that is traced by another program is let through.
traced() {
    local v=$work/v_count
    begin "$v" "$counting"
    timeout 240 strace -o /dev/null "$v" -n 100 >/dev/null || fail "under strace: exit code $?"
    "$v" -n 100 >/dev/null || fail "exit code $?"
    end
    expect_equal "calls of main() beside strace" "$(value_of @main)" 1
}

# Nobody waits for long, and what was missed is said.
stopped() {
    local v=$work/v_count
    begin "$v" "$counting"
    kill -STOP "$tracer_pid"
    "$v" -n 100 >/dev/null &
    kill -KILL $! # perhaps while it waits
    wait $! || true
    timeout 120 "$v" -n 100 >/dev/null || fail "while probity is stopped: exit code $?"
    has_keeper || fail "the keeper has gone"
    kill -CONT "$tracer_pid"
    wait_until 20 grep -q 'its beginning is not seen' "$work/err" || fail "nothing is said of what was missed: $(cat "$work/err")"
    "$v" -n 100 >/dev/null || fail "after probity was stopped: exit code $?"
    end
    expect_equal "calls of main() after a stop" "$(value_of @main)" 1
}

killed() { # of both, the one that is killed
    local v=$work/v_count
    begin "$v" "$counting"
    kill -KILL "$([ "$1" = keeper ] && echo "$keeper_pid" || echo "$tracer_pid")"
    [ "$1" = keeper ] || wait_until 20 gone "$keeper_pid" || fail "the keeper is left behind"
    timeout 120 "$v" -n 100 >/dev/null || fail "the $1 was killed: exit code $?"
    if [ "$1" = keeper ]; then
        kill -INT "$tracer_pid"
        wait "$tracer_pid" || fail "without a keeper: exit code $?"
    fi
}

ways 32
ways 64
chain
traced
stopped
killed keeper
killed tracer
