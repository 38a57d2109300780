#!/bin/bash
# What bpftrace 0.17 prints for the scripts in test/print/cases is what test/print/bpftrace-0.17 says; print_cases compares print/ with that
# file. With --rebase, writes the file. timeout: 600
set -euo pipefail
cd "$(dirname "$0")/../.."
cases=test/print/cases
golden=test/print/bpftrace-0.17

if ! command -v bpftrace >/dev/null; then
    echo "bpftrace is not installed"
    exit 77
fi
version=$(bpftrace --version 2>/dev/null || true)
if [[ $version != *v0.17.* ]]; then
    echo "bpftrace is not 0.17: $version"
    exit 77
fi
if [ "$(id -u)" != 0 ] || ! timeout -k 5 60 bpftrace -e 'BEGIN { exit(); }' >/dev/null 2>&1; then
    echo "bpftrace can not run here"
    exit 77
fi

found=$(mktemp)
trap 'rm -f "$found"' EXIT
while read -r name script; do
    [[ $name != \#* && -n $name ]] || continue
    for form in text json; do
        echo "=== $name $form"
        timeout -k 5 60 bpftrace -f $form -e "$script" 2>/dev/null || echo "failed: $?"
    done
done <$cases >"$found"

if [ "${1:-}" = --rebase ]; then
    cp "$found" $golden
    exit 0
fi
diff -u $golden "$found"
echo "$(grep -c '^=== ' $golden) outputs are bpftrace's"
