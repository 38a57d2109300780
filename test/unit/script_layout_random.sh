#!/bin/bash
# 2,000 random struct and union types in each model: their declarations as a script reads them against what gcc says of them: sizes,
# offsets, positions of bit-fields. LAYOUT_SEED repeats a run. timeout: 300
set -euo pipefail
cd "$(dirname "$0")/../.."
dump=${BUILD:-build}/test/unit/script_layout
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
seed=${LAYOUT_SEED:-$((RANDOM << 15 | RANDOM))}
count=2000
failed=0

echo "seed $seed"
gcc -O1 -o "$work/generate" test/layout/generate.c
"$work/generate" "$count" "$seed" >"$work/types.c"
"$work/generate" --types "$count" "$seed" >"$work/types.h"
for width in 64 32; do
    gcc -m$width -idirafter /usr/include/x86_64-linux-gnu -w -o "$work/types" "$work/types.c"
    "$work/types" >"$work/wanted"
    "$dump" --layout "$work/types.h" $width $count >"$work/got" || true
    if cmp -s "$work/wanted" "$work/got" && [ "$(grep -c ^type "$work/got")" = $count ]; then
        echo "ok -m$width: $(grep -c ^type "$work/got") types, $(grep -c ^member "$work/got") members"
    else
        echo "FAIL -m$width"
        diff "$work/wanted" "$work/got" | head -n 6 || true
        failed=1
    fi
done
exit $failed
