#!/bin/bash
# However a recording ends, the trace can be read up to there and the processes go on or end as they would: Ctrl-C, -d, the end of the
# command and its exit code, SIGKILL for the controller or for the process, a disk that is full. Wrong options are said. (S4.1, S2.2)
# timeout: 200
. "$(dirname "$0")/lib.sh"

trace=$work/trace

calls_of() { # FUNCTION
    "$probity" report --view flat -f json "$trace" >"$work/json" || fail "the trace can not be read"
    grep -oE "\"name\": \"$1\", \"calls\": [0-9]+" "$work/json" | grep -oE '[0-9]+$'
}

start_recording() { # ARG...: sets recorder_pid, returns when it has recorded something
    rm -rf "$trace"
    "$probity" record -o "$trace" "$@" >"$work/out" 2>"$work/err" {victim_in}>&- &
    recorder_pid=$!
    started+=("$recorder_pid")
    wait_until 60 has_calls || fail "nothing is recorded: $(cat "$work/err")"
}

has_calls() {
    [ -n "$(find "$trace" -name 'calls.*' -size +1k 2>/dev/null)" ] || gone "$recorder_pid"
}

start_busy() { # WIDTH: a process that goes on for long
    start_victim "$victims/$1/v_shares" -t 2 -m 60000
}

thread_count() { # PID
    find "/proc/$1/task" -mindepth 1 -maxdepth 1 | wc -l
}
has_threads() { # PID N
    [ "$(thread_count "$1")" = "$2" ]
}
# What of the trace comes before, and after, the record that says that the start is complete.
start_is_first() { # NAME THREADS [FILE]
    local kind file
    babeltrace2 --clock-cycles --no-delta "$trace" >"$work/said" || fail "$1: babeltrace2"
    expect_equal "$1: records that say that the start is complete" "$(grep -c ' start_complete: ' "$work/said")" 1
    sed '/ start_complete: /q' "$work/said" >"$work/start"
    sed '1,/ start_complete: /d' "$work/said" >"$work/run"
    for kind in process module mapping; do shows " $kind: " "$work/start" || fail "$1: no $kind before the start is complete"; done
    for file in v_shares ${3:-libc.so}; do shows " module: .*$file" "$work/start" || fail "$1: $file comes only after the start is complete"; done
    expect_equal "$1: threads before the start is complete" "$(grep -c ' thread: ' "$work/start")" "$2"
    ! grep -E -m 1 ' (enter|return|enter_tail|place|timer|off_cpu|switch_in|switch_out): ' "$work/start" >&9 ||
        fail "$1: something was recorded before the start is complete"
    shows -E ' (enter|timer): ' "$work/run" || fail "$1: nothing was recorded"
}

# The command's exit code; wrong options.
for code in 0 3; do
    run_probity record -q -o "$trace" --calls 'bash:*' -- bash -c "exit $code" 2>/dev/null && got=0 || got=$?
    expect_equal "exit code" $got $code
    run_probity record -q -o "$trace" -- bash -c "exit $code" && got=0 || got=$?
    expect_equal "exit code without probes" $got $code
done
run_probity record -q -o "$trace" -- bash -c 'kill -TERM $$' && got=0 || got=$?
expect_equal "exit code of a command that was killed" $got 143
wrong() { # CODE ARG...
    local code=$1 got=0
    shift
    run_probity record -q -o "$work/none" "$@" >/dev/null 2>"$work/err" || got=$?
    expect_equal "exit code of: record $*" $got "$code"
    [ -s "$work/err" ] || fail "record $*: no message"
    [ ! -e "$work/none" ] || fail "record $*: left a trace behind"
}
wrong 2
wrong 2 -p 0
wrong 2 -F x -- true
wrong 2 --clock sun -- true
wrong 2 --calls 'libc:malloc:return' -- true
wrong 2 --metric bytes -- true
wrong 2 --metric 'bytes=libc:malloc:arg0 +' -- true
wrong 2 --calls 'libc:malloc' --clock wall -- true
wrong 3 -p 999999999
wrong 5 -- /no/such/program
wrong 5 --calls 'libc:no_such_function' -- true
mkdir "$work/other" && touch "$work/other/file"
run_probity record -q -o "$work/other" -- true 2>/dev/null && fail "a directory that is no trace was replaced"
[ -e "$work/other/file" ] || fail "a file of another directory was removed"

for width in 64 32; do
    # All processes, threads, modules and where they lie come before the record that says that the start is complete, and all that is recorded
    # of them after it (S1.8).
    start_busy $width
    wait_until 30 has_threads "$victim_pid" 4 || fail "$width: start: no threads"
    run_probity record -q -o "$trace" -d 0.5 -F 999 --calls 'v_shares:*' -p "$victim_pid" || fail "$width: start"
    start_is_first "$width: attached" "$(thread_count "$victim_pid")"
    run_probity record -q -o "$trace" -d 0.5 -p "$victim_pid" || fail "$width: start, samples"
    start_is_first "$width: samples only" "$(thread_count "$victim_pid")"
    run_probity record -q -o "$trace" -d 0.3 -F 999 --calls 'v_shares:*' -- "$victims/$width/v_shares" -t 2 -m 50 >/dev/null || fail "$width: start, command"
    start_is_first "$width: command" 1 v_shares
    kill -KILL "$victim_pid"
    wait "$victim_pid" 2>/dev/null || true
    exec {victim_in}>&-

    # Ctrl-C.
    start_busy $width
    start_recording -p "$victim_pid" -F 999 --calls 'v_shares:*'
    wait_until 30 traced_by "$victim_pid" 0 || fail "$width: it is still held"
    kill -INT "$recorder_pid"
    wait "$recorder_pid" || fail "$width: Ctrl-C: exit code $?: $(cat "$work/err")"
    alive "$victim_pid" || fail "$width: the process died"
    text_is_the_files "$victim_pid"
    [ "$(calls_of mostly)" -gt 0 ] || fail "$width: Ctrl-C: no calls"
    grep -q '"cut": false' "$work/json" || fail "$width: Ctrl-C: the trace is cut"

    # -d, of a process that is recorded again.
    run_probity record -q -o "$trace" -d 0.5 --calls 'v_shares:*' -p "$victim_pid" || fail "$width: -d"
    text_is_the_files "$victim_pid"
    [ "$(calls_of mostly)" -gt 0 ] || fail "$width: -d: no calls"

    # The controller is killed: what was recorded is there, the process goes on, and can be recorded again.
    start_recording -p "$victim_pid" -F 999 --calls 'v_shares:*'
    kill -KILL "$recorder_pid"
    wait "$recorder_pid" 2>/dev/null || true
    [ "$(calls_of mostly)" -gt 0 ] || fail "$width: killed: no calls"
    grep -q '"cut": true' "$work/json" || fail "$width: killed: the trace does not say that it is cut"
    alive "$victim_pid" || fail "$width: the process died with the controller"
    run_probity record -q -o "$trace" -d 0.3 --calls 'v_shares:*' -p "$victim_pid" || fail "$width: again"
    text_is_the_files "$victim_pid"

    # A disk that is full: an error, and the process goes on.
    if unshare -m true 2>/dev/null; then
        mkdir -p "$work/small"
        unshare -m bash -c 'mount -t tmpfs -o size=64k none "$1" && shift && cd "$1" && shift && "$@"' - "$work/small" "$work/small" bash -c '
            "$1" record -q -o trace -d 30 -F 9999 --calls "v_shares:*" -p "$2" 2>"$3/err" && echo "no error"
            "$1" report --view flat -f json trace >"$3/json" 2>/dev/null || echo "it can not be read"' - "$probity" "$victim_pid" "$work" >"$work/said"
        [ ! -s "$work/said" ] || fail "$width: full disk: $(cat "$work/said")"
        grep -qi 'no space' "$work/err" || fail "$width: full disk: $(cat "$work/err")"
        grep -q '"cut": true' "$work/json" || fail "$width: full disk: the trace does not say that it is cut"
    fi
    alive "$victim_pid" || fail "$width: the process died of a full disk"
    text_is_the_files "$victim_pid"

    # Codes select what is recorded.
    run_probity record -q -o "$trace" -d 0.5 --codes call.enter,thread -F 999 --calls 'v_shares:*' -p "$victim_pid" || fail "$width: codes"
    babeltrace2 "$trace" >"$work/said"
    grep -q ' enter: ' "$work/said" && grep -q ' switch_in: ' "$work/said" || fail "$width: codes: not all that was selected"
    ! grep -E -m 1 ' (return|timer): ' "$work/said" >&9 || fail "$width: codes: what was not selected is there"

    # The process is killed.
    start_recording -p "$victim_pid" -F 999 --calls 'v_shares:*'
    kill -KILL "$victim_pid"
    wait "$recorder_pid" || fail "$width: the end of a process is no error: $(cat "$work/err")"
    [ "$(calls_of mostly)" -gt 0 ] || fail "$width: process killed: no calls"
    wait "$victim_pid" 2>/dev/null || true
    exec {victim_in}>&-
done
