#!/bin/bash
# The DWARF reader against binutils and gdb: the CFA at every row of the frame tables, lines of addresses, addresses of lines, and, in
# stopped programs, where variables are; C++ parameters; separate debug files. One line per check. timeout: 300
set -euo pipefail
cd "$(dirname "$0")/../.."
dump=${BUILD:-build}/test/unit/symbol_dwarf
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LC_ALL=C
failed=0

verdict() { # NAME COUNT: $work/wanted and $work/got are equal and not empty
    if [ -s "$work/wanted" ] && cmp -s "$work/wanted" "$work/got"; then
        echo "ok $1: $(wc -l <"$work/wanted")"
    else
        echo "FAIL $1"
        diff "$work/wanted" "$work/got" | head -n 6 || true
        failed=1
    fi
}

check_cfa() { # FILE
    readelf --debug-dump=frames-interp "$1" 2>/dev/null | awk '
        /^[0-9a-f]+ [0-9a-f]+ [0-9a-f]+ FDE/ { range = $NF; sub(/.*pc=/, "", range); split(range, part, /\.\./); on = part[1] != part[2]; next }
        /CIE/ { on = 0 }
        on && /^[0-9a-f]+ / && length($1) >= 8 && $2 != "ZERO" { va = $1; sub(/^0+/, "", va); print va, $2 }' | sort -u >"$work/rows"
    # Of two rows at one address the second is empty; expressions are not compared.
    awk '{ n[$1]++; row[$1] = $0; kind[$1] = $2 } END { for (va in row) if (n[va] == 1 && kind[va] != "exp") print row[va] }' "$work/rows" |
        sort >"$work/wanted"
    cut -d ' ' -f 1 "$work/wanted" | "$dump" --cfa "$1" >"$work/got"
    verdict "CFA of $1"
}

check_addresses() { # FILE
    objdump -d -j .text "$1" | sed -n 's/^ *\([0-9a-f]*\):\t.*/\1/p' | awk 'NR % 3 == 0' >"$work/addresses"
    addr2line -e "$1" <"$work/addresses" | sed 's,.*/,,; s/ (discriminator.*//; s/:?$/:0/' >"$work/lines"
    "$dump" --addresses "$1" <"$work/addresses" >"$work/now"
    # addr2line has no line where the table says 0; there is then no line to compare. It confuses files (line 42 of victim.h is said to
    # be in v_count.c, against the table), so only the numbers are compared.
    paste -d ' ' "$work/addresses" "$work/lines" "$work/now" | grep -v ':0' | sed 's/ [^: ]*:/ /g' >"$work/both" || true
    awk '{ print $1, $2 }' "$work/both" >"$work/wanted"
    awk '{ print $1, $3 }' "$work/both" >"$work/got"
    verdict "lines of addresses in ${1##*/}"
}

cat >"$work/scopes.c" <<'SOURCE'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
struct pair { long a; double b; };
static int counter;
static inline __attribute__((always_inline)) int inlined(int x, struct pair *p)
{
    int twice = x * 2;
    if (twice > 4) {
        long deep = p->a + twice;
        counter += (int)deep; /* INLINE */
    }
    return twice + counter;
}
__attribute__((noinline)) static int sum(int n, const char *text, struct pair by_value, long long wide)
{
    int total = 0;
    for (int i = 0; i < n; i++) { /* FOR */
        char buffer[32];
        int shadow = i + (int)wide;
        snprintf(buffer, sizeof buffer, "%s%d", text, shadow);
        total += (int)strlen(buffer) + shadow; /* LOOP */
        {
            int shadow = total * 3;
            total += inlined(shadow, &by_value);
            counter ^= shadow; /* BLOCK */
        }
    }
    return total + (int)by_value.b; /* END */
}
__attribute__((noinline)) static int grow(unsigned size)
{
    volatile char area[size];
    memset((char *)area, 1, size);
    counter += area[size / 2]; /* VLA */
    return area[size - 1];
}
int main(int argc, char **argv)
{
    struct pair p = {argc, 2.5};
    int result = sum(argc + 3, argv[0], p, 77);
    result += grow((unsigned)argc + 20);
    printf("%d %d\n", result != 0, counter != 0);
    return 0;
}
SOURCE

check_scopes() { # NAME FLAGS...
    local name=$1 tag line bias va
    shift
    if ! gcc "$@" -idirafter /usr/include/x86_64-linux-gnu -o "$work/scopes" "$work/scopes.c" 2>"$work/log"; then
        echo "FAIL $name: gcc $*"
        failed=1
        return
    fi
    for tag in FOR INLINE LOOP BLOCK END VLA; do
        line=$(grep -n "/\* $tag" "$work/scopes.c" | cut -d : -f 1)
        "$dump" --line "$work/scopes" scopes.c "$line" | cut -d ' ' -f 1 >"$work/got"
        gdb -nx -batch -ex "break scopes.c:$line" -ex "info breakpoints" "$work/scopes" 2>/dev/null |
            sed -n 's/.* 0x0*\([0-9a-f]*\) in .*/\1/p' | sort >"$work/wanted"
        verdict "$name addresses of line $line"
        [ $tag != FOR ] || continue
        va=$(head -n 1 "$work/got")
        "$dump" --gdb "$work/scopes" "$va" >"$work/commands"
        # Without randomisation a PIE is where gdb always loads it; $bias is where its first page is.
        cat >"$work/script" <<GDB
set confirm off
starti
python import gdb; gdb.set_convenience_variable('bias', min(int(line.split()[0], 16) for line in gdb.execute('info proc mappings', False, True).splitlines() if line.strip().startswith('0x') and 'scopes' in line))
break *(\$bias + 0x$va)
continue
source $work/commands
kill
GDB
        timeout -k 2 60 gdb -nx -batch -x "$work/script" "$work/scopes" >"$work/out" 2>&1 || true
        grep -E '^[01] |^none |^skip ' "$work/out" >"$work/result" || true
        if grep -q '^1 ' "$work/result" && ! grep -q '^0 ' "$work/result" && [ "$(wc -l <"$work/result")" = "$(wc -l <"$work/commands")" ]; then
            echo "ok $name variables at line $line: $(grep -c '^1 ' "$work/result") right, $(grep -c '^none' "$work/result" || true) optimised out, $(grep -c '^skip' "$work/result" || true) not compared"
        else
            echo "FAIL $name variables at line $line"
            cat "$work/result"
            diff <(wc -l <"$work/result") <(wc -l <"$work/commands") || tail -n 5 "$work/out"
            failed=1
        fi
    done
}

cat >"$work/classes.cc" <<'SOURCE'
#include <cstdio>
#include <string>
#include <memory>
namespace shapes { struct point { int x, y; }; class base { public: virtual ~base() {} long id = 3; }; 
class circle : public base { public: point center; double radius; static int count; __attribute__((noinline)) double area(double scale) const; };
int circle::count; }
double shapes::circle::area(double scale) const { return radius * scale + center.x + id; }
__attribute__((noinline)) std::string join(std::string a, const std::string &b, std::unique_ptr<int> p, shapes::point pt) { return a + b + std::to_string(*p + pt.x); }
enum class color : unsigned char { red, green = 200 };
__attribute__((noinline)) int paint(color c, int (shapes::circle::*unused)() , bool on, int &out) { out = (int)c + on; return out; }
static __attribute__((noinline)) int clone_me(int *p, int unused, int scale) { return *p * scale; }
int main(int argc, char **) { shapes::circle c; c.center = {argc, 2}; c.radius = 1; int o; std::string s = join("a", "b", std::make_unique<int>(argc), c.center); printf("%s %f %d %d\n", s.c_str(), c.area(2), paint(color::green, nullptr, true, o), clone_me(&argc, 5, 7)); }
SOURCE

# Without optimisation parameters are where the calling convention says; with it DWARF says where: both must agree. Classes that can not be
# copied byte by byte are passed by reference. A clone does not get what the source says.
check_classes() { # NAME FLAGS...
    local name=$1 level function
    shift
    for level in 0 2; do
        if ! g++ "$@" -O$level -g -idirafter /usr/include/x86_64-linux-gnu -o "$work/classes$level" "$work/classes.cc" 2>"$work/log"; then
            echo "FAIL $name: g++ $*"
            failed=1
            return
        fi
        for function in join area paint; do "$dump" --func "$work/classes$level" $function; done | sed 's/ (convention)$//' >"$work/params$level"
    done
    cp "$work/params0" "$work/wanted"
    cp "$work/params2" "$work/got"
    verdict "$name parameters by convention and by DWARF"
    "$dump" --func "$work/classes2" clone_me >"$work/got"
    if grep -q '^clone_me (changed)' "$work/got" && grep -q 'unused: is (5)' "$work/got" && ! grep -q convention "$work/got"; then
        echo "ok $name clone"
    else
        echo "FAIL $name clone"
        cat "$work/got"
        failed=1
    fi
    # The same from a separate debug file.
    mkdir -p "$work/split/.debug"
    objcopy --only-keep-debug "$work/classes2" "$work/split/.debug/classes.debug"
    strip -s -R .note.gnu.build-id -o "$work/split/classes" "$work/classes2"
    objcopy -R .note.gnu.build-id "$work/split/.debug/classes.debug"
    (cd "$work/split" && objcopy --add-gnu-debuglink=.debug/classes.debug classes)
    for function in join area paint clone_me; do "$dump" --func "$work/classes2" $function; done >"$work/wanted"
    for function in join area paint clone_me; do "$dump" --func "$work/split/classes" $function; done >"$work/got"
    verdict "$name separate debug file"
    # What two programs have in common, moved to a third file.
    if command -v dwz >/dev/null; then
        cp "$work/classes2" "$work/moved2"
        cp "$work/classes0" "$work/moved0"
        (cd "$work" && dwz -m common.dwz moved0 moved2)
        for function in join area paint clone_me; do "$dump" --func "$work/moved2" $function; done >"$work/got"
        verdict "$name with dwz"
        rm "$work/common.dwz"
        "$dump" --func "$work/moved2" join >"$work/log" || [ $? = 1 ]
    fi
}

check_classes 64 -m64
check_classes 32 -m32
check_cfa build/victim/64/v_count
check_cfa build/victim/32/v_exceptions
check_cfa "${BUILD:-build}/probity"
check_addresses build/victim/64/v_storm
check_addresses build/victim/32/v_count
check_addresses "${BUILD:-build}/probity"
for width in 64 32; do
    check_scopes "$width -O0" -m$width -O0 -gdwarf-5
    check_scopes "$width -O2" -m$width -O2 -gdwarf-5
done
check_scopes "64 -O1 DWARF 4, fixed frame" -m64 -O1 -gdwarf-4 -fno-omit-frame-pointer
exit $failed
