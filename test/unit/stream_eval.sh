#!/bin/bash
# The interpreter's arithmetic is C's, in both widths.
set -euo pipefail
cd "$(dirname "$0")/../.."
count=300000
[ -z "${PROBITY_LONG:-}" ] || count=10000000
for width in 64 32; do
    "${BUILD:-build}/test/stream/$width/ops" --count $count
done
