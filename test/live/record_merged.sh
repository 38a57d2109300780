#!/bin/bash
# Calls and samples of a real process in one tree: main and many are recorded, third is called between them and is not. What samples saw of
# it, and of what called main, hangs beside the call that is further in; in both widths, from
# records and in trees that are built while recording. (S4.5)
# timeout: 120
. "$(dirname "$0")/lib.sh"

# Rows are: Lv RL Calls Samples Passed Base Cum Elapsed Name.
check() { # WHAT
    "$probity" report --view merged --raw "$work/trace" >"$work/report" || fail "$1: report ended with $?"
    awk '
        $1 == 1 { is_main = $3 != "–" && / - main$/ }
        is_main && $1 == 2 && $3 != "–" && / - many\(/ { many = $3 }
        is_main && $1 == 2 && $3 == "–" && / \+ third/ { passed += $5 }
        $3 == "–" && $5 > 0 && !is_main { outside = 1 }
        END {
            if (!many) print "many is not below main as a call"
            if (!passed) print "third was not passed by any sample"
            if (!outside) print "what called main is missing"
        }' "$work/report" >"$work/wrong"
    [ ! -s "$work/wrong" ] || fail "$1: $(cat "$work/wrong"): $(cut -c 1-120 "$work/report" | head -n 60)"
}

for width in 64 32; do
    for tree in "" --live-tree; do
        # shellcheck disable=SC2086
        run_probity record -q $tree -F 999 --calls 'v_inline:main' --calls 'v_inline:many*' -o "$work/trace" -- "$victims/$width/v_inline" -m 900 \
            >"$work/out" 2>"$work/err" || fail "$width-bit $tree: $(cat "$work/err")"
        check "$width-bit $tree"
    done
done
