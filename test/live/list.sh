#!/bin/bash
# `probity list`: every form of a trace point, JSON, the summary. (S0.3)
. "$(dirname "$0")/lib.sh"

listed() { # SPEC...: JSON lines
    run_probity list --json "$@"
}

for width in 64 32; do
    v=$victims/$width/v_count
    address=$(nm "$v" | awk '$3 == "f1" { print "0x" $1 }')
    offset=$("$v" --offsets | awk '$1 == "f1" { print $2 }')

    listed "$v:f1" >"$work/json"
    expect_equal "lines of one entry" "$(wc -l <"$work/json")" 1
    for key in module function offset address kind; do grep -q "\"$key\":" "$work/json" || fail "no $key in $(cat "$work/json")"; done
    grep -qE '"kind": ?"(jmp|padding|island|trap)"' "$work/json" || fail "f1 can not be probed: $(cat "$work/json")"

    expect_equal "f1 to f5" "$(listed "$v:f[1-5]" | wc -l)" 5
    [ "$(listed "$v:*" | wc -l)" -gt 10 ] || fail "too few functions"
    [ "$(listed "$v:f1:return" | wc -l)" -ge 1 ] || fail "no return site"
    listed "$v:f1$offset" | shows '"function": \?"f1"' || fail "f1$offset is not listed"
    listed "$v:$address" | shows '"function": \?"f1"' || fail "$address is not f1"
    listed "$root/build/victim/$width/v_coun?:f1" | shows '"f1"' || fail "a glob in the path finds nothing"
    listed "$v:f5+0x1" | shows '"kind": \?"refused"' || fail "no refusal inside an instruction"
    listed "$v:f5+0x1" | shows -E '"reason": ?"[a-z-]+"' || fail "a refusal without its reason"
    run_probity list "$v:*" | tail -n 1 | shows '%' || fail "no summary line with percentages"

    start_victim "$v" -w
    wait_ready
    listed "$victim_pid:f1" | shows '"f1"' || listed "$victim_pid:*v_count:f1" | shows '"f1"' || fail "PID: finds no f1"
    end_victim
done

listed libc:malloc | shows '"malloc"' || fail "libc:malloc is not listed"
listed 'libc:mallo[ck]' | shows '"malloc"' || fail "a glob finds no malloc"
run_probity list "$victims/64/v_exceptions:catch_all" | shows catch_all || fail "no catch_all"
[ "$(listed "libstdc++:std::*" | wc -l)" -gt 100 ] || fail "demangled names do not match"

# A stripped program has its functions from .eh_frame.
[ "$(listed "$victims/64/v_count-stripped:*" | wc -l)" -gt 5 ] || fail "no functions in a stripped program"
