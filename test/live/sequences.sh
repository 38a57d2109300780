#!/bin/bash
# Restartable sequences (rseq): no place in one is probed, what is probed around it leaves it as it was, and threads that are stopped and
# borrowed in the midst of one while we attach start it again. (S2.2)
# timeout: 120
. "$(dirname "$0")/lib.sh"

# Every instruction of the function with the sequence that can be probed, and in `refused` how many can not because of it.
places() { # VICTIM
    objdump -d --no-show-raw-insn --disassemble=sequence_add "$1" | sed -nE "s|^ +([0-9a-f]+):.*|$1:0x\1|p" | xargs "$probity" list --json >"$work/list"
    refused=$(grep -cE '"reason": ?"restartable"' "$work/list" || true)
    mapfile -t specs < <(grep -vE '"kind": ?"refused"' "$work/list" | sed -nE 's|.*"address": ?([0-9]+).*|\1|p' |
        while read -r va; do printf '%s:0x%x\n' "$1" "$va"; done)
}

around() { # VICTIM
    local code=0
    places "$1"
    run_probity count --json "${specs[@]}" -- "$1" -n "$(scale 20000 200000)" >"$work/json" 2>"$work/err" || code=$?
    [ $code = 0 ] || fail "$1: ${#specs[@]} instructions probed, exit code $code: $(tail -n 2 "$work/err")"
    [ "$(total_of "$work/json")" -gt 10000 ] || fail "$1: only $(total_of "$work/json") hits"
    [ "$refused" -ge 8 ] && [ ${#specs[@]} -ge 8 ] || fail "$1: $refused places refused, ${#specs[@]} not"
    echo "$1: $refused places refused, ${#specs[@]} probed: $(tail -n 1 "$work/err")"
}

borrowed() { # VICTIM
    start_victim "$1" -w
    wait_ready
    for _ in $(seq "$(scale 20 200)"); do
        run_probity count -p "$victim_pid" -d 0.001 "$1:main" >/dev/null 2>"$work/err" || fail "$1: $(cat "$work/err")"
    done
    release
    end_victim
    echo "$1: attached $(scale 20 200) times: $(cat "$victim_err")"
}

for width in 64 32; do
    v=$victims/$width/v_rseq
    "$v" -n 1 2>/dev/null || skip "no rseq here"
    around "$v"
    borrowed "$v"
    # By the shape of the descriptors alone.
    objcopy --strip-debug --rename-section __rseq_cs=.data.more "$v" "$work/v_rseq$width"
    places "$work/v_rseq$width"
    [ "$refused" -ge 8 ] || fail "$v without a section of descriptors: $refused places refused"
done
