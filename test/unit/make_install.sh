#!/bin/bash
# `make install` puts the program and its man pages under DESTDIR and PREFIX: every command has one, which groff reads without a warning.
set -euo pipefail
cd "$(dirname "$0")/../.."
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
make -s install BUILD="${BUILD:-build}" DESTDIR="$place" PREFIX=/opt/probity
commands=$("$place/opt/probity/bin/probity" --help | sed -n 's/^  \([a-z]*\)  .*/-\1/p')
[ "$(wc -w <<<"$commands")" -gt 8 ] || { echo "commands: $commands"; exit 1; }
for page in '' $commands; do
    file=$place/opt/probity/share/man/man1/probity$page.1
    [ -s "$file" ] || { echo "not installed: probity$page.1"; exit 1; }
    ! command -v groff >/dev/null || [ -z "$(groff -mandoc -ww -Wbreak -z "$file" 2>&1)" ] || { echo "$page: $(groff -mandoc -ww -Wbreak -z "$file" 2>&1)"; exit 1; }
done
# The link named bpftrace is for the user to make.
[ ! -e "$place/opt/probity/bin/bpftrace" ] || { echo "bpftrace was installed"; exit 1; }
