#!/bin/bash
# 2,000 random struct and union types: what DWARF says of them against what the compiled program says of itself, in both models, for each
# version of DWARF (2 and 4 have the old form of bit-fields). timeout: 300
set -euo pipefail
cd "$(dirname "$0")/../.."
dump=${BUILD:-build}/test/unit/symbol_dwarf
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

gcc -O1 -o "$work/generate" test/layout/generate.c

# clang describes a bit-field that fills its type as a plain member.
plain_bits() {
    awk '$1 == "member" && $5 == 0 && ($6 == 8 || $6 == 16 || $6 == 32 || $6 == 64) { $7 = $6 / 8; $6 = 0 } { print }'
}

check() { # COUNT COMPILER...
    local count=$1
    shift
    "$work/generate" "$count" "${LAYOUT_SEED:-1}" >"$work/types.c"
    "$@" -idirafter /usr/include/x86_64-linux-gnu -w -o "$work/types" "$work/types.c"
    "$work/types" | if [ "$1" = clang ]; then plain_bits; else cat; fi >"$work/wanted"
    "$dump" --layout "$work/types" "$count" | if [ "$1" = clang ]; then plain_bits; else cat; fi >"$work/got" || true
    if cmp -s "$work/wanted" "$work/got"; then
        echo "ok $*: $(grep -c ^type "$work/got") types, $(grep -c ^member "$work/got") members"
    else
        echo "FAIL $*"
        diff "$work/wanted" "$work/got" | head -n 6 || true
        failed=1
    fi
}

for width in 64 32; do
    check 2000 gcc -m$width -gdwarf-5
    check 2000 gcc -m$width -gdwarf-4
    check 400 gcc -m$width -gdwarf-2
    check 400 gcc -m$width -g -fdebug-types-section
    check 400 gcc -m$width -g -gz
    if command -v clang >/dev/null; then
        check 400 clang -m$width -g
    fi
done
exit $failed
