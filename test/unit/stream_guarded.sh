#!/bin/bash
# Bodies leave guarded maps to the agent, and work on others in place where they can. (S0.6)
set -euo pipefail
cd "$(dirname "$0")/../.."
for width in 64 32; do
    "${BUILD:-build}/test/stream/$width/guarded"
done
