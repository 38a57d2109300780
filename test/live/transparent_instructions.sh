#!/bin/bash
# A probe on every instruction that takes one, by a trap where nothing else fits: gzip and the victims that use every calling convention and jump
# tables do as they do alone. (S2.2, S2.3)
# timeout: 300
. "$(dirname "$0")/lib.sh"

head -c 20000 "$probity" >"$work/input"

# Every instruction that probity can probe, as PATH:0xADDRESS, one a line.
instructions() { # PATH
    objdump -d --no-show-raw-insn -j .text "$1" | sed -nE "s|^ +([0-9a-f]+):.*|$1:0x\1|p" | xargs "$probity" list --traps --json |
        grep -vE '"kind": ?"refused"' | sed -nE 's|.*"address": ?([0-9]+).*|\1|p' | sort -un | while read -r va; do printf '%s:0x%x\n' "$1" "$va"; done
}

same() { # COMMAND...
    local code=0 expected=0 size
    "$@" >"$work/expected" 2>/dev/null </dev/null || expected=$?
    mapfile -t specs < <(instructions "$1")
    [ ${#specs[@]} -gt 100 ] || fail "$1: only ${#specs[@]} instructions can be probed"
    run_probity count --traps --json "${specs[@]}" -- "$@" >"$work/found" 2>"$work/err" </dev/null || code=$?
    [ $code = $expected ] || fail "$*: exit code $code instead of $expected: $(tail -n 3 "$work/err")"
    size=$(stat -c %s "$work/expected")
    head -c "$size" "$work/found" | cmp - "$work/expected" || fail "$*: other output"
    [ "$(tail -c +$((size + 1)) "$work/found" | wc -l)" -gt 100 ] || fail "$*: too few instructions counted"
    echo "$1: ${#specs[@]} instructions, $(total_of "$work/found") hits"
}

for width in 64 32; do
    v=$victims/$width
    attempt same "$v/v_abi" -n 50
    attempt same "$v/v_jumptable" -n 100
    attempt same "$v/v_tail" -n 100
    attempt same "$v/v_exceptions" -n 5
    attempt same "$v/v_recursive" -n 8
done
attempt same "$(command -v gzip)" -nc "$work/input"
export LD_LIBRARY_PATH=$i386_libraries
attempt same "$i386/bin/gzip" -nc "$work/input"
exit $failed
