#!/bin/bash
# A climb as a part of a recording (S3.7): the chains are in the trace beside the samples, with the shares that are known, in both widths, with and
# without calls and live trees; calls stay exact where both have probes at the same places; and whatever ends it, the process is as it was.
# alone: yes
# timeout: 300
. "$(dirname "$0")/lib.sh"

chains_are() { # KIND TRACE
    "$probity" report --format folded --metric climb "$2" >"$work/folded" || fail "$1: report ended with $?"
    local code=0
    python3 test/live/record_climb.py "$1" "$work/folded" >&9 || code=$?
    case $code in
    0) ;;
    75) out_of_bounds "$1" ;;
    *) fail "$1 of $2: $(head -c 2000 "$work/folded")" ;;
    esac
}

# The same number of calls, or so many times as many, of functions that call each other: one that is lost or told twice shows.
calls_are_exact() { # TRACE
    "$probity" report --view flat --data events --format json "$1" >"$work/flat.json" || fail "flat: report ended with $?"
    python3 - "$work/flat.json" >&9 <<'P' || fail "calls are not exact"
import json, sys
def rows(node):
    if isinstance(node, dict):
        if "calls" in node and "name" in node:
            yield node["name"], node["calls"]
        for value in node.values():
            yield from rows(value)
    elif isinstance(node, list):
        for value in node:
            yield from rows(value)
calls = dict(rows(json.load(open(sys.argv[1]))))
base = calls["level_1"]
wanted = {"level_2": 10, "level_3": 10, "level_4": 40, "level_5": 40, "caller_60": 40, "caller_30": 40, "caller_10": 40, "leaf": 120}
wrong = {name: calls.get(name) for name, times in wanted.items() if calls.get(name) != times * base}
if wrong or not base:
    sys.exit(f"level_1 was called {base} times, but {wrong}")
P
}

recorded() { # WIDTH KIND PROGRAM-KIND OPTION...
    local trace=$work/trace code=0
    timeout -k 5 240 "$probity" record --climb=5% -o "$trace" "${@:4}" -- "$victims/$1/v_climb" "$3" 5 >"$work/out" 2>"$work/err" || code=$?
    [ $code = 0 ] || fail "$*: exit code $code: $(tail -n 3 "$work/err")"
    [ "$(cat "$work/out")" = done ] || fail "$*: the program's own output is $(head -c 200 "$work/out")"
    ! grep -q ' calls or values were LOST' "$work/err" || fail "$*: $(cat "$work/err")"
    grep -qE 'climb: [1-9][0-9]* hot spots; functions hooked [1-9]' "$work/err" || fail "$*: nothing was hooked: $(cat "$work/err")"
    local most
    most=$(sed -nE 's/.*at most ([0-9]+) at a time.*/\1/p' "$work/err")
    [ "$most" -le 16 ] || fail "$*: $most functions were hooked at a time"
    chains_are "$2" "$trace"
    # Without a metric the chains stand beside the threads of the program, and do not add to their time.
    "$probity" report "$trace" >"$work/tree" || fail "$*: report ended with $?"
    grep -qE '^ 0 .* [0-9]+\.0 climb$' "$work/tree" || fail "$*: the report does not show the climb: $(grep -E '^ 0 ' "$work/tree")"
}

with_calls() { # WIDTH OPTION...
    recorded "$1" callers callers --calls 'v_climb:*' "${@:2}"
    calls_are_exact "$work/trace"
}

for width in 64 32; do
    attempt recorded $width callers callers
    attempt with_calls $width
    attempt with_calls $width --live-tree
    attempt recorded $width threads threads
done
attempt recorded 64 callers callers --live-tree
attempt recorded 64 wall threads --clock wall

# Calls so dense that threads wait for room in their rings, in clauses of functions that are hooked: all of them are recorded.
dense() { # WIDTH
    timeout -k 5 200 "$probity" record --calls 'v_count:*' --climb=1% -o "$work/dense" -- "$victims/$1/v_count" -t 4 -n 200000 -r 2 >"$work/out" 2>"$work/err" ||
        fail "dense $1: exit code $?: $(tail -n 3 "$work/err")"
    grep -q ' 0 lost' "$work/err" || fail "dense $1: $(cat "$work/err")"
    grep -qE 'functions hooked [1-9]' "$work/err" || fail "dense $1: nothing was hooked: $(cat "$work/err")"
    "$probity" report --view flat --data events --format json "$work/dense" >"$work/flat.json" || fail "dense $1: report ended with $?"
    local name count
    # It prints the totals after each round.
    while read -r name count; do
        grep -qE "\"name\": ?\"$name\"[^}]*\"calls\": ?$((count * 2))[,}]" "$work/flat.json" || grep -qE "\"calls\": ?$((count * 2)),[^}]*\"name\": ?\"$name\"" "$work/flat.json" ||
            fail "dense $1: $name was not called $((count * 2)) times: $(grep -oE "[^{]*\"$name\"[^}]*" "$work/flat.json" | head -n 2)"
    done < <(grep -E '^f[1-5] [0-9]+$' "$work/out" | sort -u)
}
attempt dense 64
attempt dense 32

# Attached, and left again while functions are hooked.
attached() { # WIDTH OPTION...
    "$victims/$1/v_climb" callers 60 >/dev/null 2>&1 &
    local pid=$!
    started+=("$pid")
    wait_until 10 lines_are "/proc/$pid/maps" libc.so 1
    mapping_kinds "$pid" >"$work/kinds"
    descriptors "$pid" >"$work/fds"
    timeout -k 5 240 "$probity" record --climb -d 4 -o "$work/attached" -p "$pid" "${@:2}" 2>"$work/err" || fail "attached $*: exit code $?: $(cat "$work/err")"
    chains_are callers "$work/attached"
    alive "$pid" && traced_by "$pid" 0 || fail "attached $*: the process is not as it was"
    text_is_the_files "$pid"
    mapping_kinds "$pid" | diff "$work/kinds" - >&9 || fail "attached $*: mappings were left behind"
    descriptors "$pid" | diff "$work/fds" - >&9 || fail "attached $*: descriptors were left behind"
    kill -KILL "$pid"
}
attempt attached 64
attempt attached 32 --calls 'v_climb:level_*'

# The process ends, is killed, or executes another program in the middle: what was learnt is in the trace.
ended() { # SECONDS
    "$victims/64/v_climb" callers "$1" >/dev/null 2>&1 &
    local pid=$!
    started+=("$pid")
    timeout -k 5 240 "$probity" record --climb -o "$work/ended" -p "$pid" 2>"$work/err" || fail "ended: exit code $?: $(cat "$work/err")"
    "$probity" report --metric climb "$work/ended" | shows ' leaf$' || fail "ended: no hot spot"
}
attempt ended 3
killed() { # OPTION...
    start_doomed 64
    timeout -k 5 55 "$probity" record --climb "$@" -o "$work/ended" -p "$doomed_pid" 2>"$work/err" || fail "killed $*: exit code $?: $(cat "$work/err")"
    wait "$killer_pid" || fail "killed $*: nothing was hooked"
    "$probity" report --metric climb "$work/ended" | shows ' leaf$' || fail "killed $*: no hot spot"
}
attempt killed

executed() { # OPTION...
    timeout -k 5 240 "$probity" record --climb -o "$work/executed" "$@" -- "$victims/64/v_climb" exec 3 >"$work/out" 2>"$work/err" || fail "executed $*: exit code $?: $(cat "$work/err")"
    [ "$(cat "$work/out")" = done ] || fail "executed $*: the program's own output is $(head -c 200 "$work/out")"
    "$probity" report --format folded --metric climb "$work/executed" >"$work/folded"
    grep -q ';caller_60;leaf ' "$work/folded" || fail "executed $*: the first program is not there: $(cat "$work/folded")"
    # With --follow the second one is climbed in as well.
    if [ $# = 0 ]; then ! grep -q ';near;leaf ' "$work/folded" || fail "executed: the second program was climbed in"; else grep -q ';near;leaf ' "$work/folded" || fail "executed $*: $(cat "$work/folded")"; fi
}
attempt executed
attempt executed --follow

idle() { # nothing to climb: a trace all the same
    sleep 100 &
    local pid=$!
    started+=("$pid")
    timeout -k 5 240 "$probity" record --climb -d 1 -o "$work/idle" -p "$pid" 2>"$work/err" || fail "idle: exit code $?: $(cat "$work/err")"
    grep -q 'climb: 0 hot spots' "$work/err" || fail "idle: $(cat "$work/err")"
    "$probity" report --metric climb "$work/idle" >/dev/null || fail "idle: report ended with $?"
    kill -KILL "$pid"
}
attempt idle

refused() { # WORD ARG...
    local code=0
    timeout -k 5 120 "$probity" record -o "$work/refused" "${@:2}" >/dev/null 2>"$work/err" || code=$?
    [ $code = 2 ] && grep -q -e "$1" "$work/err" || complain "record ${*:2}: exit code $code: $(cat "$work/err")"
}
refused 'one process' --climb -p 1 -p 2
refused 'one process' --climb -p 1 -- true
refused 'needs samples' --climb -F 0 -- true
refused 'from 0.01 to 100' --climb=0 -- true
refused 'from 0.01 to 100' --climb=much -- true
refused '--metric climb' --climb --metric climb=libc:malloc:arg0 -- true
exit $failed
