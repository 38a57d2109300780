#!/bin/bash
# What symbol/ says about ELF files against readelf, objdump and c++filt. Arguments: files; none means system files and small programs
# built here. One line per check. timeout: 300
set -euo pipefail
cd "$(dirname "$0")/../.."
dump=${SYMBOL_DUMP:-${BUILD:-build}/test/unit/symbol_file}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LC_ALL=C
failed=0

result() { # CHECK FILE COUNT: fails when $work/diff has lines
    if [ -s "$work/diff" ]; then
        echo "FAIL $1 $2: $(wc -l <"$work/diff") differ"
        head -n 10 "$work/diff" | cut -c 1-200 | sed 's/^/    /'
        failed=1
    else
        echo "ok $1 $2: $3"
    fi
}

# Symbols of the tables that are used: the file's own, and without a .symtab those of its debug file.
symbols() { # FILE
    readelf -sW "$1" 2>/dev/null
    if ! readelf -SW "$1" 2>/dev/null | grep ' \.symtab ' >"$work/symtab"; then
        local id
        id=$(readelf -nW "$1" 2>/dev/null | sed -n 's/.*Build ID: //p')
        local debug=/usr/lib/debug/.build-id/${id:0:2}/${id:2}.debug
        [ ! -f "$debug" ] || readelf -sW "$debug" 2>/dev/null
    fi
}

hex='function hex(s, i, v) { v = 0; s = tolower(s); sub(/^0x/, "", s); for (i = 1; i <= length(s); i++)
         v = v * 16 + index("0123456789abcdef", substr(s, i, 1)) - 1; return v }'

check_functions() { # FILE
    "$dump" --funcs "$1" >"$work/funcs"
    symbols "$1" | awk '$7 ~ /^[0-9]+$/ && ($4 == "FUNC" || $4 == "IFUNC" || $4 == "NOTYPE") && $8 != "" {
        name = $8; if (index(name, "@") > 1) sub(/@.*/, "", name); sub(/^0+/, "", $2); print ($2 == "" ? "0" : $2), $4, $3, name }' >"$work/symbols"
    # Every function symbol is there; whatever is there is a symbol.
    awk '$2 != "NOTYPE" { print $1, $4 }' "$work/symbols" | sort -u >"$work/theirs"
    awk '$3 < 2 { print $1, $4 }' "$work/funcs" | sort -u >"$work/ours"
    awk '{ print $1, $4 }' "$work/symbols" | sort -u >"$work/theirs_all"
    { comm -23 "$work/theirs" "$work/ours" | sed 's/^/missing /'; comm -13 "$work/theirs_all" "$work/ours" | sed 's/^/invented /'; } >"$work/diff"
    result functions "$1" "$(wc -l <"$work/theirs")"

    # A size is the largest that the symbols at the address claim, cut at the next function.
    awk "$hex"'
        FNR == 1 { part++ }
        part == 1 { s = $3 ~ /^0x/ ? hex($3) : $3 + 0; if (s > size[$1]) size[$1] = s; next }
        $3 < 2 { va = hex($1); if (last != "" && va != last_va) judge(va); last = $1; last_va = va; last_size = hex($2); next }
        { va = hex($1); if (last != "") judge(va); last = "" }
        function judge(next_va, want) {
            want = size[last]
            if (!want) return
            if (last_va + want > next_va) want = next_va - last_va
            if (want != last_size) printf "%s: %x, not %x\n", last, last_size, want
            judged++
        }
        END { if (last != "") judge(1e18); print judged + 0 >count }' count="$work/count" "$work/symbols" "$work/funcs" >"$work/diff"
    result sizes "$1" "$(cat "$work/count")"
}

check_fdes() { # FILE
    "$dump" --fdes "$1" >"$work/ours"
    readelf -wf -wN "$1" 2>/dev/null | awk '/^Contents of the/ { on = /\.eh_frame section/ } on && / FDE .*pc=/ {
        sub(/.*pc=/, ""); split($0, r, /\.\./); sub(/^0+/, "", r[1]); sub(/^0+/, "", r[2]); if (r[1] != r[2] && r[1] != "") print r[1], r[2] }' |
        sort -u >"$work/theirs"
    sort -u "$work/ours" | diff "$work/theirs" - >"$work/diff" || true
    result fdes "$1" "$(wc -l <"$work/theirs")"
}

check_plt() { # FILE
    { objdump -d -j .plt -j .plt.sec -j .plt.got "$1" 2>/dev/null || true; } | sed -n 's/^0*\([0-9a-f]*\) <\(.*@plt\)>:$/\1 \2/p' |
        sed 's/@[A-Z_][^@]*@plt$/@plt/; s/ \*ABS\*.*/ */' | sort -u >"$work/theirs"
    "$dump" --funcs "$1" | awk '$3 == 2 { print $1, $4 }' | sort -u >"$work/named"
    # objdump has no name for IRELATIVE slots.
    awk 'NR == FNR { if ($2 == "*") any[$1]; next } $1 in any { print $1, "*"; next } { print }' "$work/theirs" "$work/named" |
        sort -u | diff "$work/theirs" - >"$work/diff" || true
    result plt "$1" "$(wc -l <"$work/theirs")"
}

check_names() { # FILE
    "$dump" --names "$1" | grep -v '@plt' >"$work/names" || true
    cut -f 1 "$work/names" | c++filt -i >"$work/theirs"
    cut -f 2 "$work/names" | diff "$work/theirs" - >"$work/diff" || true
    result demangled "$1" "$(wc -l <"$work/theirs")"
}

check_head() { # FILE
    "$dump" --head "$1" >"$work/ours"
    readelf -hlnW "$1" 2>/dev/null | awk '
        /^  Class:/ { width = $2 == "ELF64" ? 64 : 32 }
        /^  Type:/ { type = $2 }
        /^  Entry point address:/ { entry = substr($4, 3) }
        /Requesting program interpreter:/ { interp = $NF; sub(/\]/, "", interp) }
        /Build ID:/ { id = $NF }
        END { print width, type, entry, interp == "" ? "-" : interp, id == "" ? "-" : id }' | diff - "$work/ours" >"$work/diff" || true
    result head "$1" 1
}

check() { # FILE
    check_head "$1"
    check_functions "$1"
    check_fdes "$1"
    check_plt "$1"
    check_names "$1"
}

build() { # NAME COMPILER FLAGS...
    local name=$1 compiler=$2 source
    shift 2
    case $compiler in *g++) source=$work/small.cc ;; *) source=$work/small.c ;; esac
    # The 32-bit C++ headers lead to <asm/...>, which only the native folder has.
    if "$compiler" "$@" -idirafter /usr/include/x86_64-linux-gnu -o "$work/$name" "$source" >"$work/log" 2>&1; then
        check "$work/$name"
    else
        echo "skip $name: $compiler $* does not work here"
    fi
}

if [ $# -gt 0 ]; then
    for file; do check "$file"; done
    exit $failed
fi

cat >"$work/small.c" <<'SOURCE'
int puts(const char *text);
void abort(void);
void *malloc(unsigned long size);
int shared(int value) { return value + 1; }
extern int other(int value) __attribute__((alias("shared")));
__attribute__((noinline)) static int helper(int value) { if (__builtin_expect(value == 77, 0)) { puts("cold"); abort(); } return value * 3; }
__asm__(".text\n.globl bare\nbare: ret\n.type sized,@function\nsized: nop\n.type inner,@function\ninner: ret\n.size sized,.-sized\n.size inner,.-inner\n");
int main(int argc, char **argv) { puts(argv[0]); return helper(argc) + other(argc) + (malloc(3) != 0); }
SOURCE
cat >"$work/small.cc" <<'SOURCE'
#include <iostream>
#include <map>
#include <string>
struct base { virtual int run(int value) = 0; virtual ~base() {} };
template <class T> struct derived : base { T keep; int run(int value) override { if (value > 3) throw keep; return value; } };
int main(int argc, char **argv) {
    std::map<std::string, int> counts;
    derived<std::string> object;
    try { counts[argv[0]] = object.run(argc); } catch (std::string &text) { std::cerr << text; }
    return static_cast<int>(counts.size());
}
SOURCE

for width in 64 32; do
    build c$width gcc -m$width -O2
    build c$width-nopie gcc -m$width -O2 -no-pie -fno-pie
    build c$width-static gcc -m$width -O2 -static
    build c$width-static-pie gcc -m$width -O2 -static-pie
    build c$width-stripped gcc -m$width -O2 -s
    build c$width-ibt gcc -m$width -O2 -fcf-protection -Wl,-z,ibtplt
    build c$width-now gcc -m$width -O2 -Wl,-z,now
    build c$width-onesegment gcc -m$width -O2 -Wl,-z,noseparate-code
    build c$width-nobuildid gcc -m$width -O2 -Wl,--build-id=none
    build c$width-lld clang -m$width -O2 -fuse-ld=lld
    build c$width-gold gcc -m$width -O2 -fuse-ld=gold
    build cc$width g++ -m$width -O2
    build cc$width-static g++ -m$width -O2 -static
done
build musl musl-gcc -O2
build musl-static musl-gcc -O2 -static
for file in /lib/x86_64-linux-gnu/libc.so.6 /lib32/libc.so.6 /lib64/ld-linux-x86-64.so.2 /usr/lib/x86_64-linux-gnu/libstdc++.so.6 /usr/lib32/libstdc++.so.6 \
    /usr/lib/x86_64-linux-gnu/libsqlite3.so.0 /bin/bash /usr/bin/python3 /usr/bin/perl /usr/bin/node /usr/lib/jvm/*/lib/server/libjvm.so; do
    [ ! -e "$file" ] || check "$file"
done
exit $failed
