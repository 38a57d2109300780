#!/bin/bash
# Where symbol/ says arguments and results are, against where gcc puts them: functions of random signatures, both widths, without and with
# optimisation, DWARF 4 and 5. timeout: 300
set -euo pipefail
cd "$(dirname "$0")/../.."
check=${BUILD:-build}/test/unit/symbol_callconv
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
seeds=1
[ -z "${PROBITY_LONG:-}" ] || seeds=60
failed=0

gcc -O1 -o "$work/generate" test/layout/calls.c
for seed in $(seq $seeds); do
    for width in 64 32; do
        "$work/generate" 150 "$seed" $width >"$work/calls.c"
        for flags in "-O0 -gdwarf-5" "-O2 -gdwarf-4"; do
            # shellcheck disable=SC2086
            if ! gcc -m$width -idirafter /usr/include/x86_64-linux-gnu $flags -w -Wno-psabi -fno-pie -pg -mfentry -c -o "$work/calls.o" "$work/calls.c" ||
                ! gcc -m$width -no-pie -o "$work/calls" "$work/calls.o"; then
                echo "FAIL: gcc -m$width $flags does not build the program"
                exit 1
            fi
            "$work/calls" >"$work/dump"
            if "$check" --check "$work/calls" "$work/dump" >"$work/log"; then
                echo "ok seed $seed, $width bit, $flags: $(tail -n 1 "$work/log" | sed 's,^[^:]*: ,,')"
            else
                echo "FAIL seed $seed, $width bit, $flags"
                tail -n 5 "$work/log"
                failed=1
            fi
        done
    done
done
exit $failed
