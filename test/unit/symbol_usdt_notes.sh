#!/bin/bash
# USDT notes of programs and libraries against readelf, and the addresses of symbols in arguments against nm.
set -euo pipefail
cd "$(dirname "$0")/../.."
dump=${BUILD:-build}/test/unit/symbol_usdt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LC_ALL=C
failed=0 found=0

for file in build/victim/64/v_usdt build/victim/32/v_usdt /usr/bin/python3.11 /usr/lib/x86_64-linux-gnu/libstdc++.so.6 \
    /usr/lib32/libstdc++.so.6 build/i386/usr/bin/python3.11; do
    [ -e "$file" ] || continue
    # readelf has the base that the note was made with; all files here still are where they were linked.
    readelf -nW "$file" 2>/dev/null | awk '
        /Provider: / { provider = $NF } /^ *Name: / { name = $2 }
        /^ *Location: / { gsub(",", ""); va = $2; semaphore = $6 }
        /^ *Arguments: / { sub(/^ *Arguments: /, ""); print provider ":" name, va, semaphore, $0 }' | sort >"$work/wanted"
    "$dump" "$file" | sed 's/ {.*//' | sort >"$work/got"
    if cmp -s "$work/wanted" "$work/got"; then
        echo "ok $file: $(wc -l <"$work/got") probes"
        found=$((found + $(wc -l <"$work/got")))
    else
        echo "FAIL $file"
        diff "$work/wanted" "$work/got" | head -n 6 || true
        failed=1
    fi
    unknown=$("$dump" "$file" | grep -c '{[0-9]*: ' || true)
    if [ "$unknown" != 0 ]; then
        echo "FAIL $file: $unknown probes with unknown arguments"
        "$dump" "$file" | grep '{[0-9]*: ' | head -n 3
        failed=1
    fi
done

for width in 64 32; do
    want=$(nm build/victim/$width/v_usdt | awk '$3 == "v_usdt_global" { sub(/^0+/, "", $1); print $1 }')
    got=$("$dump" build/victim/$width/v_usdt | sed -n 's/.*{v_usdt_global at \([0-9a-f]*\)}.*/\1/p')
    offset=$("$dump" build/victim/$width/v_usdt | sed -n 's/.*{v_usdt_global off \([0-9a-f]*\)}.*/\1/p')
    if [ -n "$offset" ]; then # relative to the global offset table
        table=$(nm build/victim/$width/v_usdt | awk '$3 == "_GLOBAL_OFFSET_TABLE_" { print $1 }')
        got=$(printf '%x' $(((0x$table + 0x$offset) & 0xffffffff)))
    fi
    if [ "$want" = "$got" ]; then echo "ok symbol in $width bit: $got"; else echo "FAIL symbol in $width bit: $got, wanted $want"; failed=1; fi
done

# A file that was moved after its notes were made: its .stapsdt.base says by how much.
objcopy --change-section-address .stapsdt.base+0x10 build/victim/64/v_usdt "$work/moved" 2>/dev/null
before=$("$dump" build/victim/64/v_usdt | awk '/:plain/ { print $2 }')
after=$("$dump" "$work/moved" | awk '/:plain/ { print $2 }')
if [ "$((after - before))" = 16 ]; then echo "ok base"; else echo "FAIL base: $before, moved $after"; failed=1; fi
[ $found -ge 8 ] || failed=1
exit $failed
