#!/bin/bash
# Random verified programs: the JIT's bodies do what the interpreter does and leave the machine as it was, in both widths. (S0.5)
# timeout: 300
set -euo pipefail
cd "$(dirname "$0")/../.."
count=100000
seed=$((EPOCHSECONDS * 1000000))
[ -z "${PROBITY_LONG:-}" ] || count=3000000
for width in 64 32; do
    "${BUILD:-build}/test/stream/$width/equal" --count 20000 --seed 1
    "${BUILD:-build}/test/stream/$width/equal" --count $((count - 20000)) --seed $seed
done
