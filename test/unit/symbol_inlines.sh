#!/bin/bash
# Inlined functions, their names and lines against addr2line, at thousands of addresses of C and C++ programs: both widths, gcc and clang,
# DWARF 4 and 5, a separate debug file, debug info that dwz moved. (S4.1) timeout: 300
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${BUILD:-build}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LC_ALL=C
failed=0

check() { # NAME FILE EVERY
    if python3 test/inlines/compare.py addresses "$build/test/unit/symbol_dwarf" "$2" "$3" >"$work/out"; then
        echo "ok $1: $(tail -n 1 "$work/out")"
    else
        echo "FAIL $1"
        cut -c 1-300 "$work/out"
        failed=1
    fi
}

compiled() { # NAME COMPILER FLAGS...
    local name=$1
    if "${@:2}" -D_GNU_SOURCE -idirafter /usr/include/x86_64-linux-gnu -o "$work/$name" test/victim/v_inline.cc -pthread 2>"$work/log"; then
        check "$name" "$work/$name" 1
    else
        echo "FAIL $name: $(head -n 5 "$work/log")"
        failed=1
    fi
}

for width in 64 32; do
    check "$width-bit v_inline" build/victim/$width/v_inline 1
    compiled "gcc-O3-$width" g++ -m$width -O3 -g
    compiled "gcc-O1-dwarf4-$width" g++ -m$width -O1 -gdwarf-4
    # Of clang's code, where a function's ranges do not end where those of what is inlined into it do, binutils' shows outer functions only.
    if command -v clang++ >/dev/null && command -v llvm-addr2line >/dev/null; then
        ADDR2LINE=llvm-addr2line compiled "clang-O2-$width" clang++ -m$width -O2 -g -std=c++17
    else
        echo "skip clang-O2-$width: no clang++ and llvm-addr2line here"
    fi
done
check probity "$build/probity" 23

# The same with what two programs share moved to a third.
cp build/victim/64/v_inline "$work/one"
cp "$work/gcc-O3-64" "$work/two"
(cd "$work" && dwz -m common.dwz one two)
check "with dwz" "$work/one" 1

# The same from a debug file.
sed -n 's/^ *\([0-9a-f]*\):\t.*/\1/p' <(objdump -d -j .text build/victim/64/v_inline) >"$work/addresses"
mkdir "$work/.debug"
objcopy --only-keep-debug build/victim/64/v_inline "$work/.debug/split.debug"
objcopy -R .note.gnu.build-id "$work/.debug/split.debug"
strip -s -R .note.gnu.build-id -o "$work/split" build/victim/64/v_inline
(cd "$work" && objcopy --add-gnu-debuglink=.debug/split.debug split)
"$build/test/unit/symbol_dwarf" --inlines build/victim/64/v_inline <"$work/addresses" >"$work/wanted"
"$build/test/unit/symbol_dwarf" --inlines "$work/split" <"$work/addresses" >"$work/got"
if cmp "$work/wanted" "$work/got"; then echo "ok separate debug file"; else failed=1; fi
exit $failed
