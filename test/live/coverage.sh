#!/bin/bash
# At least 98 % of entries and 90 % of return sites of real files take a probe without a trap. (S2.6)
# timeout: 240
. "$(dirname "$0")/lib.sh"
BUILD=${BUILD:-build} tool/coverage.sh --check
