#!/bin/bash
# Whatever signal would end probity and can be held back ends the run instead, in each command that attaches: while it attaches and later, and a
# second one while it leaves changes nothing. The program goes on with its own code and nothing of ours. (S2.2, S2.5)
# timeout: 240
. "$(dirname "$0")/lib.sh"

run=0
ends_by() { # SIGNAL DELAY COMMAND...
    local signal=$1 delay=$2
    shift 2
    run=$((run + 1))
    "$probity" "$@" >"$work/out.$run" 2>"$work/err.$run" {victim_in}>&- &
    local controller=$! code=0
    started+=("$controller")
    wait_until 30 attached_or_gone "$controller" || fail "$1 does not attach: $(cat "$work/err.$run")"
    alive "$controller" || fail "$1 ended: $(cat "$work/err.$run")"
    sleep "$delay"
    kill -"$signal" "$controller"
    kill -"$signal" "$controller" 2>/dev/null || true
    wait_until 20 gone "$controller" || fail "$1 is not ended by SIG$signal"
    wait "$controller" || code=$?
    [ $code -lt 128 ] || fail "$1: SIG$signal: ended with $code"
    alive "$victim_pid" || fail "$1: SIG$signal: the victim died: $(cat "$victim_err")"
    text_is_the_files "$victim_pid"
    mapping_kinds "$victim_pid" | diff "$work/before" - || fail "$1: SIG$signal: mappings were left behind"
}

attached_or_gone() { # PID
    gone "$1" || lines_are "/proc/$victim_pid/maps" memfd:probity 1
}

for width in 64 32; do
    v=$victims/$width/v_storm
    start_victim "$v"
    wait_ready
    mapping_kinds "$victim_pid" >"$work/before"
    number=0
    for signal in QUIT HUP XCPU ALRM $(scale '' 'TERM INT USR1 USR2 VTALRM PROF IO PWR STKFLT RTMIN+3 QUIT QUIT QUIT QUIT'); do
        delay=$((number / 4 % 2 * 2))
        case $(((number + (width == 64)) % 4)) in
        0) ends_by $signal 0.$delay count -p "$victim_pid" "$v:*" 'libc:*' ;;
        1) ends_by $signal 0.$delay trace -q -p "$victim_pid" -e "uprobe:$v:storm_* { @ = count(); }" ;;
        2) ends_by $signal 0.$delay record -q -o "$work/trace.$width.$number" -p "$victim_pid" --calls "$v:*" ;;
        3) ends_by $signal 0.$delay climb -q -p "$victim_pid" ;;
        esac
        number=$((number + 1))
    done
    release
    end_victim
done
