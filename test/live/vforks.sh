#!/bin/bash
# Threads that can not be stopped, because they wait for a vforked child: nothing waits for them without end, nothing of the target is hurt, and
# what ends probity does so meanwhile, too, leaving the program's code as it was. (S2.2, S2.5)
# timeout: 300
. "$(dirname "$0")/lib.sh"

begin() { # COMMAND...
    rm -f "$work"/std*
    start_victim "$@"
    wait_ready
}

# What may take a few seconds, and on a machine that is busy some more, is over at last.
ended() { # PID SECONDS WHAT
    wait_until "$2" gone "$1" || fail "$3 does not end; the victim: $(grep -h '^State' "/proc/$victim_pid/status")"
}

# The modes of probity while processes are started all the time.
storm() { # WIDTH
    local v=$victims/$1/v_vforks i
    begin "$v" spin
    for ((i = 0; i < $(scale 1 20); i++)); do
        run_probity count --json -p "$victim_pid" -d 0.2 "$v:*" 'libc:*' 'libc:*:return' >"$work/json" 2>"$work/err" || fail "$1-bit count: $(tail -n 2 "$work/err")"
        [ "$(total_of "$work/json")" -gt 0 ] || fail "$1-bit: nothing was counted"
        run_probity trace -q -p "$victim_pid" -e "uprobe:$v:vforks_* { @[func] = count(); } interval:ms:200 { exit(); }" >/dev/null 2>"$work/err" ||
            fail "$1-bit trace: $(tail -n 2 "$work/err")"
        run_probity record -q -p "$victim_pid" -d 0.2 -o "$work/trace$i" --calls "$v:*" >/dev/null 2>"$work/err" || fail "$1-bit record: $(tail -n 2 "$work/err")"
        run_probity climb -q -p "$victim_pid" -d 0.3 >/dev/null 2>"$work/err" || fail "$1-bit climb: $(tail -n 2 "$work/err")"
        alive "$victim_pid" || fail "$1-bit: the victim died: $(cat "$victim_err")"
    done
    text_is_the_files "$victim_pid"
    release
    end_victim
    run_probity record -q --follow -d 0.5 -o "$work/followed" --calls 'v_vforks:*' -- "$v" spin </dev/null >/dev/null 2>"$work/err" || fail "$1-bit --follow: $(tail -n 2 "$work/err")"
}

# Attached before; the thread waits when we leave.
leave() { # WIDTH MODE SIGNAL ARG...
    local width=$1 mode=$2 signal=$3 v=$victims/$1/v_vforks code=0 child
    shift 3
    begin "$v" -w "$mode" "$@"
    mapping_kinds "$victim_pid" >"$work/before"
    start_count "$work/json" "$victim_pid" --json "$v:*" 'libc:*' 'libc:*:return'
    release
    wait_ready 2
    child=$(grep -xE '[0-9]+' "$victim_out")
    [ "$mode" != stop ] || wait_until 10 shows '^State:.*stop' "/proc/$child/status"
    kill -"$signal" "$counter_pid"
    ended "$counter_pid" 20 "$width-bit $mode: probity after SIG$signal"
    wait "$counter_pid" || code=$?
    text_is_the_files "$victim_pid"
    [ $code = 0 ] || [ $code = 9 ] || fail "$width-bit $mode: exit code $code: $(tail -n 3 "$work/json.err")"
    if [ "$mode" = stop ]; then kill -CONT "$child"; else release; fi
    wait_ready 3
    # Whatever stayed goes with the next one.
    run_probity count --json -p "$victim_pid" -d 0.01 "$v:vforks_work" >/dev/null
    mapping_kinds "$victim_pid" | diff "$work/before" - || fail "$width-bit $mode: mappings were left behind"
    end_victim
}

# A single thread that waits can not be attached to; with others it can.
come() { # WIDTH MODE
    local v=$victims/$1/v_vforks code=0 child
    begin "$v" "$2"
    child=$(grep -xE '[0-9]+' "$victim_out")
    "$probity" count -p "$victim_pid" "$v:vforks_work" >"$work/out" 2>&1 {victim_in}>&- &
    counter_pid=$!
    started+=("$counter_pid")
    sleep 0.3
    kill -TERM "$counter_pid"
    ended "$counter_pid" 15 "$1-bit: probity, that waits to attach"
    wait "$counter_pid" || code=$?
    [ $code != 0 ] || fail "$1-bit: attached to a thread that waits"
    run_probity count -p "$child" "$v:vforks_work" >"$work/out" 2>&1 && fail "$1-bit: attached to a child in its parent's memory"
    text_is_the_files "$victim_pid"
    if [ "$2" = stop ]; then kill -CONT "$child"; else release; fi
    end_victim

    begin "$v" "$2" -t 2
    run_probity count --json -p "$victim_pid" -d 0.2 "$v:vforks_work" >"$work/json" 2>"$work/err" || fail "$1-bit $2 -t 2: $(cat "$work/err")"
    [ "$(total_of "$work/json")" -gt 0 ] || fail "$1-bit $2 -t 2: nothing was counted"
    text_is_the_files "$victim_pid"
    child=$(grep -xE '[0-9]+' "$victim_out")
    if [ "$2" = stop ]; then kill -CONT "$child"; else release; fi
    end_victim
}

for width in 64 32; do
    attempt storm $width
    attempt leave $width hold INT
    attempt leave $width hold TERM -t 2
    attempt leave $width stop QUIT
    attempt come $width hold
    [ -z "${PROBITY_LONG:-}" ] || attempt come $width stop
done
exit $failed
