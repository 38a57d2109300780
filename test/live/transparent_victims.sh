#!/bin/bash
# A probe on every entry and return of each victim and its libraries: exceptions, longjmp, signals, cancellation, dlopen, fork, vfork and
# exec, alternate stacks, bare clone, traps in threads that block every signal. Same output, same exit code, and the counts are those
# that the victim counted. (S2.2, S2.3)
# timeout: 420
. "$(dirname "$0")/lib.sh"

options=()
same() { # MINIMUM-OF-COMPARED-COUNTS VICTIM ARG...
    local minimum=$1 name=${2#"$victims"/} code=0 size compared
    shift
    "$@" >"$work/expected" 2>/dev/null </dev/null || fail "$name fails by itself"
    run_probity count --json "${options[@]}" '*:*' '*:*:return' -- "$@" >"$work/found" 2>"$work/found.err" </dev/null || code=$?
    [ $code = 0 ] || fail "$name: exit code $code: $(tail -n 3 "$work/found.err")"
    size=$(stat -c %s "$work/expected")
    head -c "$size" "$work/found" | cmp - "$work/expected" || fail "$name: other output"
    tail -c +$((size + 1)) "$work/found" >"$work/counts"
    grep "/v_\|/libv_" "$work/counts" >"$work/own" || fail "$name: no function of the victim was counted"
    cat "$work/expected" "$work/found.err" >"$work/said"
    compared=$(compare_counts "$work/said" "$work/own") || fail "$name: $compared"
    [ "$compared" -ge "$minimum" ] || fail "$name: only $compared counts compared"
    echo "$name: $compared counts equal, $(wc -l <"$work/counts") points"
}

for width in 64 32; do
    v=$victims/$width
    attempt same 5 "$v/v_count" -t 8 -n 3000
    options=(--traps)
    attempt same 4 "$v/v_blocked"
    options=()
    attempt same 1 "$v/v_exceptions" -n 500
    attempt same 1 "$v/v_exceptions-static" -n 500
    attempt same 1 "$v/v_longjmp" -n 5000
    attempt same 4 "$v/v_signals" -n 200
    attempt same 4 "$v/v_signals-static-pie" -n 200
    attempt same 0 "$v/v_sigjmp" -n 200
    attempt same 1 "$v/v_altstack" -n 500
    attempt same 0 "$v/v_cancel" -n 50
    attempt same 2 "$v/v_dlopen" -n 20
    attempt same 1 "$v/v_fork" -n 3000
    attempt same 0 "$v/v_vfork" -n 5
    attempt same 1 "$v/v_tail" -n 20000
    attempt same 2 "$v/v_jumptable" -n 20000
    attempt same 4 "$v/v_recursive" -n 18
    attempt same 1 "$v/v_abi" -n 5000
    attempt same 1 "$v/v_raw_clone" -n 20000
    attempt same 0 "$v/v_exec_chain" -n 5
done
exit $failed
