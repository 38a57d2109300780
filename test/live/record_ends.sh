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
    # Processes, modules and where they lie come before the record that says that the start is complete (S1.8).
    start_busy $width
    run_probity record -q -o "$trace" -d 0.5 -F 999 --calls 'v_shares:*' -p "$victim_pid" || fail "$width: start"
    babeltrace2 --clock-cycles --no-delta "$trace" >"$work/said" || fail "$width: start: babeltrace2"
    expect_equal "$width: records that say that the start is complete" "$(grep -c ' start_complete: ' "$work/said")" 1
    sed '/ start_complete: /q' "$work/said" >"$work/start"
    for kind in process module mapping; do shows " $kind: " "$work/start" || fail "$width: no $kind before the start is complete"; done
    for file in libc.so v_shares; do shows " module: .*$file" "$work/start" || fail "$width: $file comes only after the start is complete"; done
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
