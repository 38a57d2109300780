#!/bin/bash
# No script asks `| grep -q`: it stops reading at the first line that it wants, and with pipefail a writer that is not done by then fails the
# line, now and then. shows() of test/live/lib.sh reads all.
set -euo pipefail
cd "$(dirname "$0")/../.."
pattern='[^|]\|[[:space:]]*grep -[a-zA-Z]*q'
for seen in 'report | grep -q x' 'report |grep -Eqx x'; do
    grep -qE "$pattern" <<<"$seen" || { echo "not seen: $seen"; exit 1; }
done
! grep -nE "$pattern" test/*/*.sh bench/*.sh tool/*.sh --exclude "${0##*/}"
