#!/bin/bash
# Keys that never come again: a script that deletes them goes on for ever in a map that has room for few, and nothing is refused. (S0.6)
# timeout: 300
. "$(dirname "$0")/lib.sh"

value_of() { # FILE KEY
    sed -n "s/^$2: //p" "$1"
}

keys() { # KEY WIDTH ARG...: with `more` in the clause
    local key=$1 v=$victims/$2/v_keys opened
    shift
    run_probity trace -q -e "config = { max_map_keys = 100 } uprobe:$v:thing_open { @open[$key] = arg1 + 1; @n++; ${more:-} }
        uprobe:$v:thing_close { if (@open[$key] == arg1 + 1) { @good++; } delete(@open[$key]); @closed++; }
        END { printf(\"kept %d\n\", len(@open)); clear(@open); }" -- "$v" "${@:2}" -t 4 -n 250000 -w 1000 >"$work/out" 2>"$work/err"
    opened=$(awk '$1 == "opened" { print $2 }' "$work/out")
    # Whether deleted keys are taken out before there are 260,000 of them is a matter of how long the controller had to wait for a processor.
    if grep -q 'has no room' "$work/err" && ! grep -vE 'has no room|for want of room' "$work/err"; then
        out_of_bounds "$key: $*: $(tail -n 1 "$work/err")"
    fi
    [ ! -s "$work/err" ] || fail "$key: $*: $(head -n 5 "$work/err")"
    expect_equal "$key: $* keys" "$(value_of "$work/out" @n)" "$opened"
    expect_equal "$key: $* deleted" "$(value_of "$work/out" @closed)" $((opened - 12))
    expect_equal "$key: $* values" "$(value_of "$work/out" @good)" $((opened - 12))
    expect_equal "$key: $* left" "$(awk '$1 == "kept" { print $2 }' "$work/out")" 12
}

# What is alive at a time is still bounded, and said.
full() { # WIDTH
    local v=$victims/$1/v_keys
    run_probity trace -q -e "config = { max_map_keys = 100 } uprobe:$v:thing_open { @open[arg0, arg1] = 1; }
        END { printf(\"kept %d\n\", len(@open)); clear(@open); }" -- "$v" -t 4 -n 1000 >"$work/out" 2>"$work/err"
    expect_equal "$1-bit full map" "$(awk '$1 == "kept" { print $2 }' "$work/out")" 100
    grep -q '@open has no room for another key (max_map_keys 100)' "$work/err" || fail "$1-bit: $(cat "$work/err")"
    grep -q '3900 times in all' "$work/err" || fail "$1-bit: $(cat "$work/err")"
}

for width in 64 32; do
    for key in 'arg0, arg1' '(arg0 << 32) | arg1'; do
        attempt keys "$key" $width
        attempt keys "$key" $width -f
        # Threads that are hardly ever outside of their clauses.
        more='$i = 0; while ($i < 4000) { $i++; }' attempt keys "$key" $width -f -w 50 -n 150000
    done
    attempt full $width
done
exit $failed
