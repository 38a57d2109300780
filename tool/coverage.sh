#!/bin/bash
# Makes doc/coverage.md: which kind of place the entries and return sites of real files get, from `probity list --json --traps`.
#   tool/coverage.sh [--check] [FILE...]
# --check prints the table and fails below 98 % of entries or 90 % of returns without a trap.
set -euo pipefail
cd "$(dirname "$0")/.."
probity=${BUILD:-build}/probity
check=no
if [ "${1:-}" = --check ]; then check=yes; shift; fi
files=("$@")
if [ ${#files[@]} -eq 0 ]; then
    for name in libc.so.6 'libstdc++.so.6'; do files+=("$(ldconfig -p | awk -v n="$name" '$1 == n && /x86-64/ && !found++ { print $NF }')"); done
    files+=("$(readlink -f "$(command -v bash)")")
    files+=("$(readlink -f /usr/bin/python3)")
    files+=("$(readlink -f "$(command -v node || echo /no/node)")")
    [ ! -e /usr/lib32/libc.so.6 ] || files+=(/usr/lib32/libc.so.6)
    [ ! -e /usr/lib32/libstdc++.so.6 ] || files+=(/usr/lib32/libstdc++.so.6)
fi

row() { # FILE POINTS SPEC
    "$probity" list --json --traps "$3" 2>/dev/null | awk -v file="$1" -v points="$2" '
        match($0, /"kind": ?"[a-z]+"/) { kind = substr($0, RSTART, RLENGTH); gsub(/"kind": ?|"/, "", kind); n[kind]++; all++ }
        END {
            if (!all) exit 1
            good = n["jmp"] + n["padding"] + n["island"]
            printf "| %s | %s | %d |", file, points, all
            split("jmp padding island trap refused", kinds, " ")
            for (i = 1; i <= 5; i++) printf " %.2f %% |", 100 * n[kinds[i]] / all
            printf " %.2f %% |\n", 100 * good / all
            exit 100 * good / all < (points == "entries" ? 98 : 90) ? 3 : 0
        }'
}

table() {
    local file below=0
    echo '| file | points | number | jmp | padding | island | trap | refused | without a trap |'
    echo '|---|---|---:|---:|---:|---:|---:|---:|---:|'
    for file in "${files[@]}"; do
        if [ ! -r "$file" ]; then
            echo "| ${file##*/} | not on this machine | | | | | | | |"
            continue
        fi
        row "$file" entries "$file:*" || below=$?
        row "$file" returns "$file:*:return" || below=$?
    done
    return $below
}

if [ $check = yes ]; then
    table || { echo "below 98 % of entries or 90 % of returns without a trap"; exit 1; }
    exit 0
fi
{
    echo '# Coverage'
    echo
    echo 'Which kind of place each function entry and each return site gets. Made by `tool/coverage.sh` from `probity list --json`; the bounds, 98 % of'
    echo 'entries and 90 % of returns without a trap, are checked by `test/live/coverage.sh`.'
    echo
    echo '- **jmp**: a 5-byte jump over whole instructions. **padding**: the jump also uses alignment padding after the code.'
    echo '- **island**: a jump to a second jump, in padding nearby or at an address that the next instruction dictates. **trap**: a breakpoint, with --traps; else refused. **refused**: not probed; `probity list` says why.'
    echo
    table || true
} >doc/coverage.md
