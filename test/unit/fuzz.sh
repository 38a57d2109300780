#!/bin/bash
# Every fuzzer runs on random input, under sanitizers.
# timeout: 300
set -euo pipefail
cd "$(dirname "$0")/../.."
runs=100000
[ -z "${PROBITY_LONG:-}" ] || runs=5000000
found=0
for source in fuzz/*.c; do
    fuzzer=${BUILD:-build}/fuzz/$(basename "$source" .c)
    "$fuzzer" --runs $runs
    found=$((found + 1))
done
[ $found -gt 0 ]
