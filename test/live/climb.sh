#!/bin/bash
# Chains above hot spots of programs with a known structure, in both widths, started and attached: right callers, shares within 5 points, up to
# main or the start of the thread; never more than 16 hooks (S3.1 to S3.5; live_climb_hooks looks at them from outside). And what can go wrong.
# alone: yes
# timeout: 420
. "$(dirname "$0")/lib.sh"
chmod +x test/live/climb.py 2>/dev/null || true

# What climb.py finds in a result; a share that is out of bounds is a figure.
shares_are() { # NAME KIND RESULT...
    local code=0
    python3 test/live/climb.py "${@:2}" >&9 || code=$?
    case $code in
    0) ;;
    75) out_of_bounds "$1" ;;
    *) fail "$1" ;;
    esac
}

climbs() { # WIDTH KIND [PROGRAM KIND-OF-PROGRAM [NM]]
    local program=$victims/$1/${3:-v_climb} out=$work/$1.$2
    timeout -k 5 240 "$probity" climb -q --json --threshold 5% -- "$program" "${4:-$2}" 5 >"$out.json" 2>"$out.err" ||
        fail "$1 $2: exit code $?: $(tail -n 3 "$out.err")"
    [ "$(head -n 1 "$out.json")" = done ] || fail "$1 $2: the program's own output is $(head -c 200 "$out.json")"
    sed -i 1d "$out.json"
    shares_are "$1 $2" "$2" "$out.json" "$out.err" ${5:+"$5"}
}

for width in 64 32; do
    for kind in callers mutual virtual tail threads phases; do
        attempt climbs $width $kind
    done
    attempt climbs $width library v_climb_library callers
    # Without symbols functions are known by their addresses, without unwind tables not even that.
    nm "$victims/$width/v_climb" >"$work/nm"
    attempt climbs $width callers v_climb-stripped callers "$work/nm"
    attempt climbs $width bare v_climb-bare callers
done

attached() { # WIDTH: the process goes on, and its text is the file's
    "$victims/$1/v_climb" callers 60 >/dev/null 2>&1 &
    local pid=$!
    started+=("$pid")
    timeout -k 5 240 "$probity" climb -q --json -d 5 -p "$pid" >"$work/attached.json" || fail "attached $1: exit code $?"
    shares_are "attached $1" callers "$work/attached.json"
    alive "$pid" || fail "attached $1: the process has ended"
    python3 test/live/process.py text "$pid" >&9 || fail "attached $1: its text differs"
    kill -KILL "$pid"
}
attempt attached 64
attempt attached 32

# While it still watches and nothing is hooked any more, the program's own code is the file's.
stepped() {
    "$victims/64/v_climb" callers 60 >/dev/null 2>&1 &
    local pid=$! tracer
    started+=("$pid")
    : >"$work/stepped.err"
    "$probity" climb -p "$pid" >/dev/null 2>"$work/stepped.err" &
    tracer=$!
    started+=("$tracer")
    wait_until 40 lines_are "$work/stepped.err" ' 0 hooked now' 3 || fail "stepped: hooks do not go: $(tail -n 3 "$work/stepped.err")"
    [ "$(grep -c '[1-9][0-9]* hooked now' "$work/stepped.err")" -gt 0 ] || grep -q ' [1-9][0-9]* hits' "$work/stepped.err" || fail "stepped: nothing was hooked"
    python3 test/live/process.py text "$pid" v_climb >&9 || fail "stepped: the text differs where hooks were"
    kill -INT "$tracer"
    wait "$tracer" || fail "stepped: exit code $?"
    kill -KILL "$pid"
}
attempt stepped

# One climb after the other leaves nothing behind: after each, its code is the file's, and it has the mappings, the memory, the descriptors and the
# threads that it had.
state_of() { # PID
    mapping_kinds "$1"
    python3 test/live/process.py unnamed "$1"
    descriptors "$1"
    ls "/proc/$1/task"
}
resident_kb() { # PID
    awk '/^VmRSS:/ { print $2 }' "/proc/$1/status"
}
repeated() { # WIDTH
    "$victims/$1/v_climb" callers 6000 >/dev/null 2>&1 &
    local pid=$! resident
    started+=("$pid")
    wait_until 10 lines_are "/proc/$pid/maps" 'libc.so' 1
    wait_until 10 uses_processor "$pid"
    state_of "$pid" >"$work/state"
    for ((i = 0; i < $(scale 5 500); i++)); do
        timeout -k 5 240 "$probity" climb -q -d 0.4 -p "$pid" >"$work/repeated.out" || fail "$1, climb $i: exit code $?"
        grep -q "hot spot 1: leaf" "$work/repeated.out" || fail "$1, climb $i: $(cat "$work/repeated.out")"
        python3 test/live/process.py text "$pid" >&9 || fail "$1, climb $i: the text differs"
        state_of "$pid" | diff "$work/state" - >&9 || fail "$1, climb $i: something was left behind"
        # Pages of code that are looked at once become resident; after some climbs there are no more of them.
        [ $i != 4 ] || resident=$(resident_kb "$pid")
        [ $i -lt 5 ] || [ "$(resident_kb "$pid")" -le $((resident + 128)) ] || fail "$1, climb $i: $(resident_kb "$pid") KB are resident, not $resident"
        alive "$pid" && traced_by "$pid" 0 || fail "$1, climb $i: the process is not as it was"
    done
    kill -KILL "$pid"
}
uses_processor() { # PID: for more than it takes to start
    [ "$(awk '{ print $14 }' "/proc/$1/stat")" -gt 20 ]
}
attempt repeated 64
attempt repeated 32

# Another resource than time: leaf's argument is 6, 3 and 1 of ten; and bytes of malloc.
valued() { # WIDTH KIND METRIC KIND-OF-PROGRAM
    timeout -k 5 240 "$probity" climb -q --json --metric "$3" -- "$victims/$1/v_climb" "$4" 5 2>/dev/null | sed 1d >"$work/valued.json" ||
        fail "$1 $2: exit code $?"
    shares_are "$1 $2" "$2" "$work/valued.json"
}
for width in 64 32; do
    attempt valued $width valued units=v_climb:leaf:arg0 callers
    attempt valued $width memory bytes=libc:malloc:arg0 memory
done

idle() {
    sleep 100 &
    local pid=$!
    started+=("$pid")
    timeout -k 5 240 "$probity" climb -d 1.5 -p "$pid" >"$work/idle.out" 2>"$work/idle.err" || fail "idle: exit code $?"
    grep -q "no samples" "$work/idle.err" || fail "idle: nothing is said: $(cat "$work/idle.err")"
    kill -KILL "$pid"
}
attempt idle

ended() { # the process ends in the middle: what was learnt is reported
    "$victims/64/v_climb" callers 2 >/dev/null 2>&1 &
    local pid=$!
    started+=("$pid")
    timeout -k 5 240 "$probity" climb -q -p "$pid" >"$work/ended.out" || fail "ended: exit code $?"
    grep -q "hot spot 1: leaf" "$work/ended.out" || fail "ended: no hot spot: $(cat "$work/ended.out")"
}
attempt ended

# Killed while functions are hooked: the same.
killed() { # WIDTH
    start_doomed "$1"
    # Functions are measured for long, so that it finds them hooked.
    timeout -k 5 55 "$probity" climb -q --period 50s --period 1000000000 -p "$doomed_pid" >"$work/killed.out" 2>"$work/killed.err" ||
        fail "killed $1: exit code $?: $(tail -n 3 "$work/killed.err")"
    wait "$killer_pid" || fail "killed $1: nothing was hooked"
    grep -q "hot spot 1: leaf" "$work/killed.out" || fail "killed $1: no hot spot: $(cat "$work/killed.out")"
}
attempt killed 64
attempt killed 32

# The process executes another program: that one is not touched. What was learnt before is reported. Addresses of a program that is not relocated
# are the same again, which must not deceive anybody.
executed() { # WIDTH PROGRAM
    "$victims/$1/$2" exec 3 >"$work/executed.done" 2>&1 &
    local pid=$!
    started+=("$pid")
    timeout -k 5 240 "$probity" climb -q --json -p "$pid" >"$work/executed.json" || fail "executed $1 $2: exit code $?"
    shares_are "executed $1 $2" callers "$work/executed.json"
    ! grep -q '"near"' "$work/executed.json" || fail "executed $1 $2: the second program was climbed in"
    python3 test/live/process.py text "$pid" >&9 2>&9 || ! alive "$pid" || fail "executed $1 $2: the second program's code differs"
    wait "$pid" || fail "executed $1 $2: the program was harmed: $?"
    [ "$(cat "$work/executed.done")" = done ] || fail "executed $1 $2: its output is $(cat "$work/executed.done")"
}
for width in 64 32; do
    attempt executed $width v_climb
    attempt executed $width v_climb-nopie
done
# A command is followed.
followed() { # WIDTH
    timeout -k 5 240 "$probity" climb -q --json -- "$victims/$1/v_climb" exec 3 2>/dev/null | sed 1d >"$work/followed.json" || fail "followed $1: exit code $?"
    shares_are "followed $1" followed "$work/followed.json"
}
attempt followed 64
attempt followed 32

interrupted() { # Ctrl-C leaves the process as it was
    "$victims/64/v_climb" callers 60 >/dev/null 2>&1 &
    local pid=$! tracer
    started+=("$pid")
    "$probity" climb -p "$pid" >"$work/interrupted.out" 2>"$work/interrupted.err" &
    tracer=$!
    wait_until 30 lines_are "$work/interrupted.err" samples 2 || fail "interrupted: it does not climb"
    kill -INT "$tracer"
    wait "$tracer" || fail "interrupted: exit code $?"
    grep -q "hot spot 1: leaf" "$work/interrupted.out" || fail "interrupted: no report"
    python3 test/live/process.py text "$pid" >&9 || fail "interrupted: text differs"
    kill -KILL "$pid"
}
attempt interrupted

refused() { # EXIT-CODE ARG...
    local code=0
    timeout -k 5 120 "$probity" climb "${@:2}" >/dev/null 2>"$work/refused" || code=$?
    [ $code = "$1" ] || complain "climb ${*:2}: exit code $code instead of $1: $(cat "$work/refused")"
    [ -s "$work/refused" ] || complain "climb ${*:2}: nothing is said"
}
refused 2
refused 2 -p 1 -- true
refused 2 --threshold 0 -- true
refused 2 --period 5parsecs -- true
refused 2 --hooks 0 -- true
refused 3 -p 4194300
refused 2 -p 1.5
refused 2 -d 0 -- true
refused 2 --metric bytes=libc:malloc -- true
refused 5 --metric bytes=libc:no_such_function:arg0 -- true
refused 5 --metric bytes=libc:no_such_function:arg0 -p $$
refused 2 --nonsense -- true
exit $failed
