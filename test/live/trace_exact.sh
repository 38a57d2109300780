#!/bin/bash
# Scripts lose nothing: counts, sums, histograms and latencies with eight threads, printing with and without --lossless. (S0.6, S0.7)
# timeout: 300
. "$(dirname "$0")/lib.sh"

value_of() { # FILE KEY: what a map printed for it
    sed -n "s/^$2: //p" "$1"
}

hist_total() { # FILE: the sum of all histogram rows
    awk -F']|[)]' '/^[[(]/ { split($2, part, " "); n += part[1] } END { print n + 0 }' "$1"
}

exact() { # WIDTH
    local v=$victims/$1/v_count f calls
    run_probity trace -q -e "uprobe:$v:f? { @[func] = count(); } uretprobe:$v:f? { @r[func] = count(); }" -- "$v" -t 8 -n 50000 >"$work/count"
    for f in f1 f2 f3 f4 f5; do
        calls=$(awk -v f=$f '$1 == f { print $2 }' "$work/count")
        expect_equal "$1-bit $f" "$(value_of "$work/count" "@\[$f\]")" "$calls"
        expect_equal "$1-bit return of $f" "$(value_of "$work/count" "@r\[$f\]")" "$calls"
    done
    v=$victims/$1/v_events
    run_probity trace -q -e "uprobe:$v:event { @ = hist(arg1); @s = sum(arg1); @m = max(arg1); @n = min(arg1); @c++; }" -- "$v" -t 8 -n 100000 >"$work/hist"
    expect_equal "$1-bit hist" "$(hist_total "$work/hist")" 800000
    expect_equal "$1-bit sum" "$(value_of "$work/hist" @s)" "$(awk '/^sum/ { print $2 }' "$work/hist")"
    expect_equal "$1-bit max" "$(value_of "$work/hist" @m)" 99999
    expect_equal "$1-bit min" "$(value_of "$work/hist" @n)" 0
    expect_equal "$1-bit ++" "$(value_of "$work/hist" @c)" 800000
    run_probity trace -q -f json -e "uprobe:$v:event { @ = tseries(arg1, 10ms, 2000, \"sum\"); }" -- "$v" -t 8 -n 100000 >"$work/series"
    expect_equal "$1-bit time series" "$(grep '"tseries"' "$work/series" | grep -o '"value":[0-9]*' | awk -F: '{ n += $2 } END { printf "%.0f\n", n }')" \
        "$(awk '/^sum/ { print $2 }' "$work/series")"
    run_probity trace -q -e "uprobe:$v:event { @ns[tid] = nsecs; }
        uretprobe:$v:event /@ns[tid]/ { @h = hist(nsecs - @ns[tid]); @l = lhist(arg0, 0, 10, 1); delete(@ns[tid]); }" -- "$v" -t 8 -n 100000 2>"$work/error" >"$work/latency" || true
    grep -q 'arg0' "$work/error" || fail "$1-bit: arg0 in a return probe is no error"
    run_probity trace -q -e "uprobe:$v:event { @ns[tid] = nsecs; }
        uretprobe:$v:event /@ns[tid]/ { @h = hist(nsecs - @ns[tid]); delete(@ns[tid]); }" -- "$v" -t 8 -n 100000 >"$work/latency"
    expect_equal "$1-bit latencies" "$(hist_total "$work/latency")" 800000
    ! grep -q '^@ns\[' "$work/latency" || fail "$1-bit: deleted keys are still there"
}

# Every event of every thread, each thread's in order.
lossless() { # WIDTH EVENTS
    local v=$victims/$1/v_events
    run_probity trace -q --lossless -o "$work/lines" -e "uprobe:$v:event { printf(\"%d %d\n\", arg0, arg1); }" -- "$v" -t 8 -n "$2" >"$work/out" 2>"$work/err"
    awk -v n="$2" 'NF == 2 { if ($2 != next_of[$1]++) bad++; lines++ }
        END { if (bad || lines != 8 * n) { print lines + 0 " lines, " bad + 0 " out of order"; exit 1 } }' "$work/lines" || fail "$1-bit: --lossless lost something"
    ! grep -qi lost "$work/err" || fail "$1-bit: $(cat "$work/err")"
}

# Without it: what was printed and what was reported lost add up.
accounted() { # WIDTH
    local v=$victims/$1/v_events printed lost
    run_probity trace -q -o "$work/lines" -e "uprobe:$v:event { printf(\"%d %d\n\", arg0, arg1); }" -- "$v" -t 8 -n 200000 >"$work/out" 2>"$work/err"
    printed=$(awk 'NF == 2' "$work/lines" | wc -l)
    lost=$(sed -n 's/^Lost \([0-9]*\) events$/\1/p' "$work/err" | awk '{ n += $1 } END { print n + 0 }')
    expect_equal "$1-bit printed + lost" $((printed + lost)) 1600000
}

for width in 64 32; do
    exact $width
    lossless $width "$(scale 625000 625000)"
    accounted $width
done
