#!/bin/bash
# Keys that never come again: a script that deletes them goes on for ever in a map that has room for few, and nothing is refused. (S0.6)
# timeout: 200
. "$(dirname "$0")/lib.sh"

value_of() { # FILE KEY
    sed -n "s/^$2: //p" "$1"
}

keys() { # WIDTH ARG...
    local v=$victims/$1/v_keys opened
    run_probity trace -q -e "config = { max_map_keys = 100 } uprobe:$v:thing_open { @open[arg0, arg1] = arg1 + 1; @n++; }
        uprobe:$v:thing_close { if (@open[arg0, arg1] == arg1 + 1) { @good++; } delete(@open[arg0, arg1]); @closed++; }
        END { printf(\"kept %d\n\", len(@open)); clear(@open); }" -- "$v" "${@:2}" -t 4 -n 250000 -w 1000 >"$work/out" 2>"$work/err"
    opened=$(awk '$1 == "opened" { print $2 }' "$work/out")
    [ ! -s "$work/err" ] || fail "$*: $(head -n 5 "$work/err")"
    expect_equal "$* keys" "$(value_of "$work/out" @n)" "$opened"
    expect_equal "$* deleted" "$(value_of "$work/out" @closed)" $((opened - 12))
    expect_equal "$* values" "$(value_of "$work/out" @good)" $((opened - 12))
    expect_equal "$* left" "$(awk '$1 == "kept" { print $2 }' "$work/out")" 12
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
    keys $width
    keys $width -f
    full $width
done
