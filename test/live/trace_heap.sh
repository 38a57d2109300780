#!/bin/bash
# Every block that a real program gets and gives back: how long it lived, by its address, and how long malloc took, by the thread; keys that come
# and go by the hundred thousand, in both widths. The program prints what it prints without, and no call is missing. (S0.6, S0.7)
# timeout: 120
. "$(dirname "$0")/lib.sh"

sum_of() { # MAP: of the histogram's counts
    awk -v name="$1:" '$0 ~ /^@/ { on = $1 == name } on && /^[[(]/ { sub(/^.*[])] +/, ""); total += $1 } END { print total + 0 }' "$work/out"
}
value_of() { # MAP
    awk -v name="$1:" '$1 == name { print $2 }' "$work/out"
}

heap() { # LIBC COMMAND...
    local libc=$1 made
    shift
    "$@" >"$work/native" </dev/null
    run_probity trace -q -o "$work/out" -e "config = { max_map_keys = 20000 }
        uprobe:$libc:malloc { @began[tid] = nsecs; }
        uretprobe:$libc:malloc /@began[tid]/ { @took = hist(nsecs - @began[tid]); delete(@began[tid]); @made = count(); @block[retval] = nsecs; }
        uprobe:$libc:free /@block[arg0]/ { @lived = hist(nsecs - @block[arg0]); delete(@block[arg0]); @gone = count(); }
        END { printf(\"open %d\n\", len(@began)); clear(@began); clear(@block); }" -- "$@" >"$work/traced" 2>"$work/err" </dev/null
    [ ! -s "$work/err" ] || fail "$1: $(head -n 3 "$work/err")"
    cmp "$work/native" "$work/traced" || fail "$1 printed something else"
    made=$(value_of @made)
    echo "${1##*/}: $made calls of malloc, $(value_of @gone) blocks given back"
    [ "$made" -ge 100000 ] || fail "$1: only $made calls"
    expect_equal "$1: calls that were timed" "$(sum_of @took)" "$made"
    expect_equal "$1: blocks whose age is known" "$(sum_of @lived)" "$(value_of @gone)"
    expect_equal "$1: calls that are open" "$(awk '$1 == "open" { print $2 }' "$work/out")" 0
    [ "$(value_of @gone)" -gt $((made * 9 / 10)) ] || fail "$1: $(value_of @gone) of $made blocks were given back"
}

statement="with recursive c(x) as (select 1 union all select x + 1 from c where x < 200000)
    select count(distinct x % 1000), sum(x), group_concat(x % 7) from c where x % 100 = 0"
threads='
import threading
lengths = [0] * 8
def work(n):
    for i in range(20000):
        lengths[n] += len(("x%d" % i) * 100)
all = [threading.Thread(target=work, args=(n,)) for n in range(8)]
[one.start() for one in all], [one.join() for one in all]
print(sum(lengths))'
libc_of() { # PROGRAM
    ldd "$1" | awk '$1 == "libc.so.6" { print $3 }' | xargs readlink -f
}

heap "$(libc_of "$(command -v sqlite3)")" sqlite3 :memory: "$statement"
heap "$(libc_of "$python")" "$python" -c "$threads"
export LD_LIBRARY_PATH=$i386_libraries PYTHONHOME=$i386/usr
heap "$(libc_of "$i386/usr/bin/sqlite3")" "$i386/usr/bin/sqlite3" :memory: "$statement"
heap "$(libc_of "$i386/usr/bin/python3.11")" "$i386/usr/bin/python3.11" -c "$threads"
