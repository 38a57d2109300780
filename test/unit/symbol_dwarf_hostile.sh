#!/bin/bash
# Debug info made to lead astray: types that are made of themselves, blocks nested a hundred thousand deep, absurd sizes, locations that
# compute for ever. Each must be read within ten seconds and 400 MiB, without a crash, and what makes no sense must be said to be so.
set -euo pipefail
cd "$(dirname "$0")/../.."
dump=${BUILD:-build}/test/unit/symbol_dwarf
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# Abbreviations: 1 unit, 2 typedef, 3 function, 4 parameter, 5 struct, 6 member, 7 block, 8 array, 9 subrange, 10 pointer, 11 base type,
# 12 variable with a location, 13 const, 14 function with a specification, 15 sibling that leads back, 16 inlined function with a sibling.
cat >"$work/head.s" <<'ASM'
    .text
    .globl main
main: xorl %eax, %eax
    ret
main_end:
    .section .note.GNU-stack,"",@progbits
    .section .debug_abbrev,"",@progbits
.Labbrev:
    .macro abbrev number, tag, children, pairs:vararg
    .uleb128 \number
    .uleb128 \tag
    .byte \children
    .uleb128 \pairs
    .uleb128 0, 0
    .endm
    abbrev 1, 0x11, 1, 0x03, 0x08, 0x11, 0x01, 0x12, 0x07
    abbrev 2, 0x16, 0, 0x03, 0x08, 0x49, 0x13
    abbrev 3, 0x2e, 1, 0x03, 0x08, 0x11, 0x01, 0x12, 0x07
    abbrev 4, 0x05, 0, 0x03, 0x08, 0x49, 0x13
    abbrev 5, 0x13, 1, 0x03, 0x08, 0x0b, 0x0f
    abbrev 6, 0x0d, 0, 0x03, 0x08, 0x49, 0x13, 0x38, 0x0f
    abbrev 7, 0x0b, 1, 0x11, 0x01, 0x12, 0x07
    abbrev 8, 0x01, 1, 0x49, 0x13
    abbrev 9, 0x21, 0, 0x2f, 0x0f
    abbrev 10, 0x0f, 0, 0x49, 0x13
    abbrev 11, 0x24, 0, 0x03, 0x08, 0x0b, 0x0f, 0x3e, 0x0b
    abbrev 12, 0x34, 0, 0x03, 0x08, 0x49, 0x13, 0x02, 0x18
    abbrev 13, 0x26, 0, 0x49, 0x13
    abbrev 14, 0x2e, 1, 0x47, 0x13, 0x11, 0x01, 0x12, 0x07
    abbrev 15, 0x0b, 1, 0x01, 0x13
    abbrev 16, 0x1d, 1, 0x01, 0x13, 0x31, 0x13, 0x11, 0x01, 0x12, 0x07, 0x59, 0x0f
    .byte 0
    .macro unit
    .long 9f - 8f
8:  .value 4
    .long .Labbrev
    .byte 8
    .uleb128 1
    .string "unit.c"
    .quad main, main_end - main
    .endm
    .macro parameter name, type
    .uleb128 4
    .string "\name"
    .long \type - .Linfo
    .endm
    .section .debug_info,"",@progbits
.Linfo:
ASM

check() { # NAME PATTERN OPTION ARGUMENT: the body of the unit is on standard input
    local code=0
    { cat "$work/head.s"; cat; echo "9:"; } >"$work/case.s"
    if ! gcc -no-pie -o "$work/case" "$work/case.s" 2>"$work/log"; then
        echo "FAIL $1: does not assemble"
        head -n 5 "$work/log"
        failed=1
        return
    fi
    local argument=$4
    [ "$argument" != main ] || [ "$3" = --func ] || argument=$(nm "$work/case" | awk '$3 == "main" { print $1 }')
    (
        [ -n "$(readelf -dW "$dump" | grep libasan || true)" ] || ulimit -v 409600
        timeout -k 1 10 "$dump" "$3" "$work/case" "$argument" <<<"$argument"
    ) >"$work/out" 2>&1 || code=$?
    if [ $code -le 1 ] && grep -q "$2" "$work/out"; then
        echo "ok $1: $(grep -m 1 "$2" "$work/out" | cut -c 1-100)"
    else
        echo "FAIL $1: exit $code"
        head -n 5 "$work/out" | cut -c 1-200
        failed=1
    fi
}

func='unit
    .uleb128 3
    .string "main"
    .quad main, main_end - main'

check "typedefs in a circle" "T a: nowhere: the calling convention" --func main <<ASM
$func
    parameter a, 1f
    .byte 0
1:  .uleb128 2
    .string "T"
    .long 2f - .Linfo
2:  .uleb128 2
    .string "U"
    .long 1b - .Linfo
    .byte 0
ASM
check "a typedef of itself" "T a: nowhere" --func main <<ASM
$func
    parameter a, 1f
    .byte 0
1:  .uleb128 2
    .string "T"
    .long 1b - .Linfo
    .byte 0
ASM
check "const in a circle" "a: nowhere" --func main <<ASM
$func
    parameter a, 1f
    .byte 0
1:  .uleb128 13
    .long 1b - .Linfo
    .byte 0
ASM
check "an array of itself" "a: nowhere" --func main <<ASM
$func
    parameter a, 1f
    .byte 0
1:  .uleb128 8
    .long 1b - .Linfo
    .uleb128 9
    .uleb128 5
    .byte 0
    .byte 0
ASM
check "structs that hold each other by value" "S a:" --func main <<ASM
$func
    parameter a, 1f
    .byte 0
1:  .uleb128 5
    .string "S"
    .uleb128 16
    .rept 50
    .uleb128 6
    .string "m"
    .long 2f - .Linfo
    .uleb128 0
    .endr
    .byte 0
2:  .uleb128 5
    .string "R"
    .uleb128 16
    .rept 50
    .uleb128 6
    .string "m"
    .long 1b - .Linfo
    .uleb128 0
    .endr
    .byte 0
    .byte 0
ASM
check "an array of 2^62 elements" "a: nowhere: the calling convention" --func main <<ASM
$func
    parameter a, 1f
    .byte 0
1:  .uleb128 8
    .long 2f - .Linfo
    .uleb128 9
    .uleb128 0x3fffffffffffffff
    .byte 0
2:  .uleb128 11
    .string "int"
    .uleb128 4
    .byte 5
    .byte 0
ASM
check "an integer of 2^40 bytes" "a: nowhere" --func main <<ASM
$func
    parameter a, 1f
    .byte 0
1:  .uleb128 11
    .string "int"
    .uleb128 0x10000000000
    .byte 5
    .byte 0
ASM
check "a type outside the file" "a: nowhere" --func main <<ASM
$func
    parameter a, .Linfo + 0x7fffffff
    .byte 0
    .byte 0
ASM
check "a function specified by itself" "no function" --func main <<ASM
unit
1:  .uleb128 14
    .long 1b - 8b + 4
    .quad main, main_end - main
    .byte 0
    .byte 0
ASM
check "blocks nested 100000 deep" "^echo none x" --gdb main <<ASM
$func
    .rept 100000
    .uleb128 7
    .quad main, main_end - main
    .endr
    .rept 100000
    .byte 0
    .endr
    .uleb128 12
    .string "x"
    .long 1f - .Linfo
    .uleb128 1
    .byte 0xf0
    .byte 0
1:  .uleb128 11
    .string "int"
    .uleb128 4
    .byte 5
    .byte 0
ASM
check "a sibling that leads back" "^main" --func main <<ASM
$func
1:  .uleb128 15
    .long 1b - .Linfo
    .byte 0
    .byte 0
    .byte 0
ASM
# Siblings that are children: each level doubles what there is to see.
check "inlined functions that are seen 2^60 times" "^main" --inlines main <<ASM
$func
    .rept 60
    .uleb128 16
    .long (. + 25) - .Linfo
    .long 1f - .Linfo
    .quad main, main_end - main
    .uleb128 1
    .endr
    .rept 60
    .byte 0
    .endr
    .byte 0
1:  .uleb128 3
    .string "origin"
    .quad 0, 0
    .byte 0
    .byte 0
ASM
check "functions inlined 100000 deep" "^main" --inlines main <<ASM
$func
    .rept 100000
    .uleb128 16
    .long 0
    .long 1f - .Linfo
    .quad main, main_end - main
    .uleb128 1
    .endr
    .rept 100000
    .byte 0
    .endr
    .byte 0
1:  .uleb128 3
    .string "origin"
    .quad 0, 0
    .byte 0
    .byte 0
ASM
check "a function that is inlined into itself" "^main" --inlines main <<ASM
$func
1:  .uleb128 16
    .long 2f - .Linfo
    .long 1b - .Linfo
    .quad main, main_end - main
    .uleb128 70000
    .byte 0
2:  .byte 0
    .byte 0
ASM
check "an expression of 60000 operations" "x: its location is too long" --gdb main <<ASM
$func
    .uleb128 12
    .string "x"
    .long 1f - .Linfo
    .uleb128 60000
    .rept 60000
    .byte 0x12
    .endr
    .byte 0
1:  .uleb128 11
    .string "int"
    .uleb128 4
    .byte 5
    .byte 0
ASM
check "100000 units" "^main" --func main <<ASM
$func
    .byte 0
    .byte 0
9:
    .rept 100000
    .long 8
    .value 4
    .long .Labbrev
    .byte 8
    .byte 0
    .endr
8:
ASM
exit $failed
