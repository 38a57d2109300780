#!/bin/bash
# What bodies have in hand while they work on maps is what they say, in both widths. (S0.7)
# timeout: 120
set -euo pipefail
cd "$(dirname "$0")/../.."
for width in 64 32; do
    "${BUILD:-build}/test/stream/$width/holds"
done
