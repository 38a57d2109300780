#!/bin/sh
# embed.sh AGENT64.elf AGENT32.elf: prints C source with the agents' flat bytes.
#
# The agent is copied to any address as it is, and nobody relocates it. So it is refused unless everything in it refers to itself by distance: the
# linker has left the relocations that it has dealt with (--emit-relocs), and each must be of a kind that is a distance between two places of .text.
# A load from the GOT is none, nor is what the linker makes of one (an address relative to 0), and nothing but .text goes along.
set -eu
temporary=$(mktemp)
trap 'rm -f "$temporary"' EXIT

refuse() { # FILE WHAT
    echo "embed.sh: $1: the agent can not be copied to any address: $2" >&2
    exit 1
}

check() { # FILE WIDTH
    case $2 in
    64) kinds='^R_X86_64_(PC32|PLT32)$' ;;
    32) kinds='^R_386_(PC32|PLT32|GOTPC|GOTOFF)$' ;; # the GOT's own address is a distance, too; what it holds is not there
    esac
    LC_ALL=C readelf -SWh "$1" >"$temporary"
    grep -q "Class: *ELF$2\$" "$temporary" || refuse "$1" "it is not of $2 bits"
    # The empty GOT is for its address alone.
    extra=$(sed -n 's/^ *\[ *[0-9]*\] *//p' "$temporary" | awk '$7 ~ /A/ && $5 !~ /^0*$/ && $1 != ".text" && $1 != ".got" { print $1 }')
    [ -z "$extra" ] || refuse "$1" "it has a section$(printf ' %s' $extra) beside .text"
    # What has no place in .text: absolute symbols, and weak ones that nobody defines.
    LC_ALL=C readelf -sW "$1" | awk '$4 != "FILE" && ($7 == "ABS" || $7 == "UND") { print $8 }' >"$temporary"
    bad=$(LC_ALL=C readelf -rW "$1" | awk -v kinds="$kinds" -v outside="$temporary" '
        BEGIN { while ((getline name <outside) > 0) if (name != "") is_outside[name] = 1 }
        $3 ~ /^R_/ && ($3 !~ kinds || $5 in is_outside) { print $3 " of " $5 " at " $1 }' | head -n 5)
    [ -z "$bad" ] || refuse "$1" "$bad"
}

check "$1" 64
check "$2" 32
echo '#include "load/agent_blob.h"'
for width in 64 32; do
    objcopy -O binary -j .text "$1" "$temporary"
    echo "const uint8_t load_agent$width[] = {"
    od -An -v -tu1 "$temporary" | sed 's/  */,/g; s/^,//; s/$/,/'
    echo "};"
    echo "const size_t load_agent${width}_bytes = sizeof load_agent$width;"
    shift
done
