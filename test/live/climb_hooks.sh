#!/bin/bash
# The functions that a climb has hooked, seen from outside, in both widths: hooks below leave when functions above are hooked, with --hooks 1
# there are never two, the number that is said is that of the functions that are changed, and afterwards the code is the file's (S3.4, S3.5).
# timeout: 240
. "$(dirname "$0")/lib.sh"

start_climbed() { # WIDTH
    "$victims/$1/v_climb" callers 6000 >/dev/null 2>&1 &
    climbed_pid=$!
    started+=("$climbed_pid")
    wait_until 10 lines_are "/proc/$climbed_pid/maps" libc.so 1
}

start_watching() { # WIDTH FILE
    python3 test/live/climb_hooks.py watch "$climbed_pid" "$victims/$1/v_climb" >"$2" &
    watcher_pid=$!
    started+=("$watcher_pid")
    wait_until 20 lines_are "$2" ready 1
}

watched() { # WIDTH KIND ARG...
    start_climbed "$1"
    start_watching "$1" "$work/sets"
    "$probity" climb -q --json -d 600 "${@:3}" -p "$climbed_pid" >"$work/result" &
    counter_pid=$!
    started+=("$counter_pid")
    # As long as it takes on this machine; what is wrong is said below.
    wait_until 30 python3 test/live/climb_hooks.py seen "$2" "$work/sets" 2>/dev/null || true
    sleep 1 # for calls of what was hooked last
    end_count
    kill "$watcher_pid"
    python3 test/live/climb_hooks.py "$2" "$work/sets" "$work/result" >&9 2>&9 || fail "$1 $2"
    python3 test/live/process.py text "$climbed_pid" >&9 || fail "$1 $2: the text differs"
    kill -KILL "$climbed_pid"
}

staying() { # WIDTH
    start_climbed "$1"
    timeout -k 5 400 python3 test/live/climb_hooks.py staying "$probity" "$climbed_pid" "$victims/$1/v_climb" >&9 2>&9 || fail "$1 staying"
    python3 test/live/process.py text "$climbed_pid" >&9 || fail "$1 staying: the text differs"
    kill -KILL "$climbed_pid"
}

for width in 64 32; do
    attempt watched $width passing
    attempt watched $width one --hooks 1
    attempt staying $width
done
exit $failed
