#!/bin/bash
# Inlined functions and lines in recorded stacks, reports and ustack: what addr2line says of the same addresses, below the right callers, in
# both widths, with samples alone and below calls. (S4.1, S4.2, S4.5)
# timeout: 200
. "$(dirname "$0")/lib.sh"

# Fails unless a stack has these functions, outermost first, one right below the other; @ stands for a blank.
has_path() { # FILE-OF-FOLDED-STACKS NAME...
    local file=$1
    shift
    awk -v wanted="$*" '
        BEGIN { n = split(wanted, want, " "); for (i = 1; i <= n; i++) gsub(/@/, " ", want[i]) }
        {
            sub(/ [0-9]+$/, "")
            levels = split($0, level, ";")
            for (i = 1; i + n - 1 <= levels; i++) {
                for (k = 1; k <= n && index(level[i + k - 1], want[k]); k++)
                    ;
                if (k > n)
                    found = 1
            }
        }
        END { exit !found }' "$file" || fail "no stack with $*: $(cut -c 1-300 "$file" | head -n 20)"
}

line_of() { # PATTERN: where it stands in the source
    grep -n "$1" test/victim/v_inline.cc | head -n 1 | cut -d : -f 1
}

samples() { # WIDTH
    local v=$victims/$1/v_inline
    run_probity record -q -F 999 -o "$work/trace" -- "$v" -m 1500 >"$work/out" 2>"$work/err" || fail "$1-bit: $(cat "$work/err")"
    expect_equal "$1-bit output" "$(cat "$work/out")" done
    python3 test/inlines/compare.py trace "$work/trace" "$v" >"$work/compared" || fail "$1-bit: $(cut -c 1-500 "$work/compared")"
    echo "$1-bit: $(tail -n 1 "$work/compared")"
    "$probity" report --format folded "$work/trace" >"$work/folded"
    has_path "$work/folded" main third "many("
    has_path "$work/folded" 'many(' '::outer' '::middle' '::innermost' mix
    has_path "$work/folded" 'many(' '::apply<' '{lambda@at@line' '{lambda@at@line' '::innermost' mix
    has_path "$work/folded" 'sorted(' 'std::sort<' 'std::__sort<'
    has_path "$work/folded" 'main' 'third' 'main::{lambda@at@line' 'shaped(' '::shape::operator+' '::doubled::around()' '::innermost'
    # By line: the place in each function, of inlined ones too; outer ones are where they call.
    "$probity" report --by line --format folded "$work/trace" >"$work/folded"
    has_path "$work/folded" "many(unsigned@int)@(v_inline.cc:$(line_of 'x = outer(x, 40)'))" "::outer@(v_inline.cc:$(line_of 'x += middle'))" '::middle@(v_inline.cc:' \
        "::innermost@(v_inline.cc:$(line_of 'x = mix(x, i);'))" 'mix@(victim.h:'
}

calls() { # WIDTH
    local v=$victims/$1/v_inline
    run_probity record -q -F 999 --calls 'v_inline:many*' --calls 'v_inline:shaped*' -o "$work/trace" -- "$v" -m 900 >"$work/out" 2>"$work/err" ||
        fail "$1-bit: $(cat "$work/err")"
    "$probity" report --view merged --raw "$work/trace" >"$work/report"
    # Calls are not broken up; what is inlined in them hangs below, as samples.
    awk '
        $5 ~ /^[0-9]+$/ && / - many\(/ { inside = 1; next }
        $1 == 1 { inside = 0 }
        inside && $1 == 2 && / - \+ \(anonymous namespace\)::outer$/ { outer = 1 }
        inside && $1 == 3 && / - \+ \+ \(anonymous namespace\)::middle$/ && outer { middle = 1 }
        END { exit !middle }' "$work/report" || fail "$1-bit: $(cut -c 1-150 "$work/report" | head -n 40)"
}

stacks() { # WIDTH
    local v=$victims/$1/v_inline
    run_probity trace -q -e 'profile:hz:499 { @[ustack] = count(); }' -- "$v" -m 600 >"$work/out" 2>"$work/err"
    awk -v line="$(line_of 'x += middle')" '
        /^ *\[inlined\] mix@.*victim.h:[0-9]+$/ { n = 1; next }
        n == 1 && /\[inlined\] \(anonymous namespace\)::innermost@.*v_inline.cc:[0-9]+$/ { n = 2; next }
        n == 2 && /\[inlined\] \(anonymous namespace\)::middle@/ { n = 3; next }
        n == 3 && $0 ~ "::outer@.*v_inline.cc:" line "$" { n = 4; next }
        n == 4 && /^ *many\(unsigned int\)\+[0-9]+@.*v_inline.cc:[0-9]+$/ { found = 1 }
        { n = 0 }
        END { exit !found }' "$work/out" || fail "$1-bit: $(head -n 40 "$work/out" "$work/err")"
    run_probity trace -q --dialect 0.17 -e 'profile:hz:499 { @[ustack] = count(); }' -- "$v" -m 300 >"$work/out" 2>"$work/err"
    grep -q '^ *many(unsigned int)+[0-9]*$' "$work/out" || fail "$1-bit: $(head -n 20 "$work/out" "$work/err")"
    if grep -E 'inlined|v_inline.cc' "$work/out"; then fail "$1-bit: 0.17 shows neither lines nor inlined functions"; fi
}

for width in 64 32; do
    samples $width
    calls $width
    stacks $width
done
