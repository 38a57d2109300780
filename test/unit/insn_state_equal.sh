#!/bin/bash
# Random instructions of every class, run natively and relocated, leave the same state, in both widths. (S2.2, S2.3)
# timeout: 400
set -euo pipefail
cd "$(dirname "$0")/../.."
count=200000
[ -z "${PROBITY_LONG:-}" ] || count=5000000
for width in 64 32; do
    "${BUILD:-build}/test/insn/state_equal" --width $width --count $count
done
