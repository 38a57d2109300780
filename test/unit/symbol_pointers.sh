#!/bin/bash
# Code pointers against what the compiler says: the labels of jump tables in its assembly, kept as symbols, and landing pads, which
# -fcf-protection marks with endbr. One line per check. timeout: 120
set -euo pipefail
cd "$(dirname "$0")/../.."
dump=${SYMBOL_DUMP:-${BUILD:-build}/test/unit/symbol_file}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LC_ALL=C
failed=0

verdict() { # NAME: fails when $work/wanted is empty or has lines that $work/found lacks
    sort -u -o "$work/wanted" "$work/wanted"
    sort -u -o "$work/found" "$work/found"
    local missing
    missing=$(comm -23 "$work/wanted" "$work/found" | wc -l)
    if [ -s "$work/wanted" ] && [ "$missing" = 0 ]; then
        echo "ok $1: $(wc -l <"$work/wanted")"
    else
        echo "FAIL $1: $missing of $(wc -l <"$work/wanted") not found"
        comm -23 "$work/wanted" "$work/found" | head -n 5
        failed=1
    fi
}

cat >"$work/switch.c" <<'SOURCE'
int puts(const char *text);
int a(void), b(void), c(void), d(void), e(void), f(void);
int choose(int value)
{
    switch (value) {
    case 0: return a() + 1; case 1: return b() + 2; case 2: return c() * 3; case 3: return d() - 4;
    case 4: return e() ^ 5; case 5: return f() | 6; case 6: puts("six"); return 1; case 7: puts("seven"); return 9;
    }
    return 0;
}
int a(void) { return puts("a"); }
int b(void) { return puts("b"); }
int c(void) { return puts("c"); }
int d(void) { return puts("d"); }
int e(void) { return puts("e"); }
int f(void) { return puts("f"); }
int main(int argc, char **argv) { (void)argv; return choose(argc); }
SOURCE

check_switch() { # NAME FLAGS...
    local name=$1
    shift
    if ! gcc "$@" -O2 -S -o "$work/switch.s" "$work/switch.c" 2>/dev/null || ! gcc "$@" -Wa,--keep-locals -o "$work/labels" "$work/switch.s" 2>/dev/null ||
        ! gcc "$@" -o "$work/plain" "$work/switch.s" 2>/dev/null; then
        echo "skip $name: gcc $* does not work here"
        return 0
    fi
    nm --defined-only "$work/labels" | awk '{ sub(/^0+/, "", $1); print $3, $1 }' | sort -k 1,1 >"$work/nm"
    # Entries of tables: ".long .L3@GOTOFF", ".long .L3-.L4", ".quad .L3", ".long .L3"; the table's label is the last one before.
    awk '/^\t\.section\t\.rodata/ { on = 1 } /^\t\.text/ { on = 0 } /^\t\.section\t\.text/ { on = 0 }
        on && /^\.L[0-9]+:/ { table = $1; sub(/:/, "", table) }
        on && /^\t\.(long|quad)\t\.L[0-9]+/ { split($2, part, /[-@]/); print part[1], table }' "$work/switch.s" | sort -u >"$work/entries"
    cut -d ' ' -f 1 "$work/entries" | sort -u | join - "$work/nm" | awk '{ print $2 }' >"$work/wanted"
    table=$(head -n 1 "$work/entries" | cut -d ' ' -f 2)
    if grep -q -- "-$table\$" "$work/switch.s"; then
        "$dump" --table "$work/labels" "$(awk -v label="$table" '$1 == label { print $2 }' "$work/nm")" >"$work/found"
    else
        "$dump" --pointers "$work/labels" >"$work/found"
    fi
    verdict "$name jump table"
    # Labels inside functions do not tear them.
    "$dump" --funcs "$work/plain" | awk '{ print $1, $2, $4 }' >"$work/wanted"
    "$dump" --funcs "$work/labels" | awk '{ print $1, $2, $4 }' >"$work/found"
    verdict "$name functions with labels"
}

cat >"$work/throw.cc" <<'SOURCE'
#include <map>
#include <stdexcept>
#include <string>
struct guard { std::string text; ~guard(); };
__attribute__((noinline)) guard::~guard() { if (text.size() > 100) __builtin_trap(); }
__attribute__((noinline)) int run(int value)
{
    guard first{std::string(value, 'a')}, second{std::string(value + 1, 'b')};
    std::map<std::string, guard> all;
    try {
        if (value > 3) throw std::runtime_error(first.text);
        all[second.text] = first;
    } catch (std::out_of_range &error) { return 2; } catch (std::exception &error) { return std::string(error.what()).size(); }
    return all.size();
}
int main(int argc, char **argv) { (void)argv; try { return run(argc); } catch (...) { return 7; } }
SOURCE

check_landing() { # NAME FLAGS...
    local name=$1
    shift
    if ! g++ "$@" -idirafter /usr/include/x86_64-linux-gnu -O2 -fcf-protection=branch -o "$work/throw" "$work/throw.cc" 2>/dev/null; then
        echo "skip $name: g++ $* does not work here"
        return 0
    fi
    "$dump" --funcs "$work/throw" | awk '{ print $1 }' | sort -u >"$work/starts"
    objdump -d -j .text "$work/throw" | sed -n 's/^ *\([0-9a-f]*\):.*endbr\(64\|32\)$/\1/p' | sort -u | comm -23 - "$work/starts" >"$work/wanted"
    "$dump" --pointers "$work/throw" >"$work/found"
    verdict "$name landing pads"
}

for width in 64 32; do
    check_switch pie$width -m$width -fPIE -pie
    check_switch nopie$width -m$width -fno-pie -no-pie
    check_switch onesegment$width -m$width -fno-pie -no-pie -Wl,-z,noseparate-code
    check_landing pie$width -m$width
    check_landing nopie$width -m$width -no-pie -fno-pie
    check_landing static$width -m$width -static
done
exit $failed
