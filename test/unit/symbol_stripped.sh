#!/bin/bash
# Stripped files against the same files with symbols: function starts from .eh_frame, fragments and their parents, and the symbols that
# come back through .gnu_debuglink, a build-id and .gnu_debugdata. Arguments: files with a .symtab; none means programs built here.
# timeout: 300
set -euo pipefail
cd "$(dirname "$0")/../.."
dump=${SYMBOL_DUMP:-${BUILD:-build}/test/unit/symbol_file}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LC_ALL=C
failed=0

judge() { # NAME EXPRESSION TEXT
    if [ "$(($2))" = 1 ]; then
        echo "ok $1: $3"
    else
        echo "FAIL $1: $3"
        failed=1
    fi
}

check_stripped() { # FILE
    local name=${1##*/}
    strip -s -R .note.gnu.build-id -o "$work/stripped" "$1"
    "$dump" --fdes "$1" | awk '{ print $1 }' | sort -u >"$work/fdes"
    "$dump" --funcs "$1" | awk '{ print $1 }' | sort -u | comm -12 - "$work/fdes" >"$work/starts"
    "$dump" --funcs "$work/stripped" | awk '{ print $1 }' | sort -u >"$work/stripped_starts"
    local missing
    missing=$(comm -23 "$work/starts" "$work/stripped_starts" | wc -l)
    judge "$name starts" "missing == 0" "$missing of $(wc -l <"$work/starts") missing"
    "$dump" --fragments "$1" >"$work/full"
    "$dump" --fragments "$work/stripped" >"$work/bare"
    # A parent must be the one that the name says. Few may be unknown, or known and not recognized: those whose first instruction has the
    # frame of an entry.
    read -r right wrong unknown unseen < <(awk '
        NR == FNR { parent[$1] = $2; next }
        !($1 in parent) { next }
        { seen[$1] = 1 }
        $1 == $2 { unknown++; next }
        parent[$1] == $2 { right++; next }
        { wrong++ }
        END { for (va in parent) unseen += !(va in seen); print right + 0, wrong + 0, unknown + 0, unseen + 0 }' "$work/full" "$work/bare")
    judge "$name fragments" "wrong * 50 <= right && unknown * 20 <= right && unseen * 5 <= right" \
        "$right with the right parent, $wrong with a wrong one, $unknown without, $unseen not recognized"
}

same_funcs() { # NAME FILE: has the functions of $work/full_funcs
    "$dump" --funcs "$2" | sort >"$work/now"
    judge "$1" "$(cmp -s "$work/full_funcs" "$work/now" && echo 1 || echo 0)" "$(wc -l <"$work/now") functions"
}

check_split() { # FILE
    local name=${1##*/}
    "$dump" --funcs "$1" | sort >"$work/full_funcs"
    mkdir -p "$work/split/.debug"
    objcopy --only-keep-debug "$1" "$work/split/.debug/$name.debug"
    strip -s -R .note.gnu.build-id -o "$work/split/$name" "$1"
    objcopy --add-gnu-debuglink="$work/split/.debug/$name.debug" "$work/split/$name"
    same_funcs "$name debuglink" "$work/split/$name"
    printf x >>"$work/split/.debug/$name.debug"
    "$dump" --funcs "$work/split/$name" >"$work/now"
    judge "$name debuglink with another CRC" "$(grep -c ' main$' "$work/now" || true) == 0" "not used"

    nm --format=posix --defined-only "$1" | awk '$2 ~ /^[tTwWi]$/ { print $1 }' | sort -u >"$work/keep"
    objcopy -S --remove-section .gdb_index --remove-section .comment --keep-symbols="$work/keep" "$work/split/.debug/$name.debug" "$work/mini"
    xz -9 -c "$work/mini" >"$work/mini.xz"
    strip -s -R .note.gnu.build-id -o "$work/data" "$1"
    objcopy --add-section .gnu_debugdata="$work/mini.xz" "$work/data"
    readelf -dW "$dump" >"$work/needed"
    if grep -q liblzma "$work/needed"; then
        same_funcs "$name debugdata" "$work/data"
    else
        echo "skip $name debugdata: linked without liblzma"
    fi
}

if [ $# -gt 0 ]; then
    for file; do check_stripped "$file"; done
    exit $failed
fi

cat >"$work/big.cc" <<'SOURCE'
#include <iostream>
#include <regex>
int main(int argc, char **argv) {
    std::regex pattern(argv[0]);
    std::cout << std::regex_match(argv[argc - 1], pattern);
}
SOURCE
for width in 64 32; do
    if g++ -m$width -idirafter /usr/include/x86_64-linux-gnu -O2 -static -o "$work/static$width" "$work/big.cc" >"$work/log" 2>&1; then
        check_stripped "$work/static$width"
    else
        echo "skip static$width: g++ -m$width -static does not work here"
    fi
    if g++ -m$width -idirafter /usr/include/x86_64-linux-gnu -O2 -Wl,--build-id=none -o "$work/shared$width" "$work/big.cc" >"$work/log" 2>&1; then
        check_stripped "$work/shared$width"
        check_split "$work/shared$width"
    else
        echo "skip shared$width: g++ -m$width does not work here"
    fi
done
exit $failed
