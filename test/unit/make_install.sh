#!/bin/bash
# `make install` puts the program and its man pages under DESTDIR and PREFIX.
set -euo pipefail
cd "$(dirname "$0")/../.."
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
make -s install BUILD="${BUILD:-build}" DESTDIR="$place" PREFIX=/opt/probity
for file in bin/probity share/man/man1/probity.1 share/man/man1/probity-list.1 share/man/man1/probity-count.1 share/man/man1/probity-trace.1; do
    [ -s "$place/opt/probity/$file" ] || { echo "not installed: $file"; exit 1; }
done
# The link named bpftrace is for the user to make.
[ ! -e "$place/opt/probity/bin/bpftrace" ] || { echo "bpftrace was installed"; exit 1; }
