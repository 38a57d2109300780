#!/bin/sh
# Proves that state_equal and insn_golden notice a broken relocator: each edit of src/insn/x86/relocate.c must make them fail.
# Usage: test/insn/mutate.sh [count], from the root. Exit 0: every edit was noticed by both.
count=${1:-30000}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0

try() { # name, sed expression
    sed "$2" src/insn/x86/relocate.c >"$work/relocate.c"
    if cmp -s "$work/relocate.c" src/insn/x86/relocate.c; then
        echo "mutate: $1: the edit no longer matches the source"
        failed=1
        return
    fi
    for test in state golden; do
        case $test in
        state) sources=$(echo test/insn/state_*.c) ;;
        golden) sources=test/unit/insn_golden.c ;;
        esac
        # shellcheck disable=SC2086 # several sources
        ${CC:-gcc} -std=gnu11 -D_GNU_SOURCE -Isrc -O1 -w -o "$work/$test" $sources src/insn/*.c src/insn/x86/decode.c "$work/relocate.c" -lZydis || exit 1
    done
    state=missed
    for width in 64 32; do
        "$work/state" --width $width --count "$count" >"$work/out" 2>&1 || state="noticed by width $width ($(grep -c '^MISMATCH' "$work/out") shown)"
    done
    golden=noticed
    "$work/golden" >/dev/null 2>&1 && golden=missed
    echo "mutate: $1: state_equal $state, insn_golden $golden"
    [ "$state" = missed ] || [ "$golden" = missed ] && failed=1
}

try "displacement off by one" 's/out->length + 4 + tail/out->length + 3 + tail/'
try "immediate after a displacement forgotten" 's/unsigned tail = insn->length - at - 4u/unsigned tail = 0/'
try "return address off by one" 's/uint64_t next = insn->va + insn->length;/uint64_t next = insn->va + insn->length + 1;/'
try "high half of the return address not written" 's/(int64_t)return_va == (int32_t)return_va)/1)/'
try "zero- instead of sign-extended push" 's/(int64_t)return_va == (int32_t)return_va)/return_va <= UINT32_MAX)/'
try "segment prefix lost" 's/value != 0x66 \&\& value != 0xf2/value != 0x65 \&\& value != 0x64 \&\& value != 0xf2/'
try "REX of an indirect call lost" 's/rex ? i == count - 1/rex ? 0/'
try "REX that was not next to the opcode kept" 's/rex ? i == count - 1/rex ? 1/'
try "call target read after the return address is written" 's/0x8f, 0x44, 0x24, 0xf0/0x8f, 0x44, 0x24, 0xf8/'
try "wrong condition" 's/decoded->opcode \& 0x0f/(decoded->opcode ^ 1) \& 0x0f/'
try "loop prefixes lost" 's/put_bytes(out, insn->bytes, insn->length - 1u);/put_byte(out, decoded->opcode);/'
try "sp_undo forgotten" 's/begin_step(out, insn->va, word)/begin_step(out, insn->va, 0)/'
try "step list without the second step" 's/begin_step(out, insn->va, word);//'
try "rcx after syscall left as it is" 's/put_byte(out, 0xb9);/put_byte(out, 0xbd);/; s/0x48, 0xb9/0x48, 0xbd/'
try "syscall rcx of the copy" 's/uint64_t next = next_va(insn);/uint64_t next = next_va(insn) + 2;/'
try "eip-relative operand not cut" 's/decoded->address_width == 32 ? INSN_MODE_32 : INSN_MODE_64/INSN_MODE_64/'
try "32-bit call through memory: slot off" 's/0xff, 0x34, 0x24/0xff, 0x74, 0x24/'
exit $failed
