#!/bin/bash
# quietly.sh LOG COMMAND...: the command's output goes to LOG; only when it fails the end of it is shown.
set -euo pipefail
log=$1
shift
mkdir -p "$(dirname "$log")"
code=0
"$@" >"$log" 2>&1 || code=$?
if [ $code != 0 ]; then
    echo "failed ($code): $*; the end of $log:" >&2
    tail -n 40 "$log" >&2
fi
exit $code
