#!/bin/bash
# Fails when doc/requirements.md (or the file given) misses a requirement, has a row that names neither a test nor `planned`, or names a
# file that does not exist.
set -euo pipefail
cd "$(dirname "$0")/.."
document=${1:-doc/requirements.md}
failed=0
complain() {
    echo "$document: $*"
    failed=1
}

numbers=(S0.{1..7} S1.{1..9} S2.{1..6} S3.{1..7} S4.{1..8})
for number in "${numbers[@]}"; do
    row=$(grep -F "| $number |" "$document" || true)
    if [ -z "$row" ]; then
        complain "$number is missing"
        continue
    fi
    shown=$(awk -F'|' '{ print $5 }' <<<"$row")
    grep -qE 'planned|`test/' <<<"$shown" || complain "$number names no test and is not planned"
done
while read -r path; do
    [ -e "$path" ] || complain "$path does not exist"
done < <(grep -oE '`[A-Za-z0-9_.-]+/[A-Za-z0-9_./-]+`' "$document" | tr -d '`' | sort -u)
exit $failed
