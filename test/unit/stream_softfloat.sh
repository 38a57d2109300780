#!/bin/bash
# Doubles in integers give the processor's results, in both widths.
set -euo pipefail
cd "$(dirname "$0")/../.."
count=3000000
[ -z "${PROBITY_LONG:-}" ] || count=100000000
for width in 64 32; do
    "${BUILD:-build}/test/stream/$width/softfloat" --count $count
done
