#!/bin/bash
# Truth: a program with known shares is recorded within 2 points of them, by samples and by calls, in threads of both widths; processor time is
# not elapsed time, and waiting is seen with the wall clock only. (S4.1, S4.2)
# alone: yes
# timeout: 300
. "$(dirname "$0")/lib.sh"
command -v babeltrace2 >/dev/null || skip "babeltrace2 is not installed"

look() { # WHAT
    python3 test/live/trace.py "$work/trace" "$1" 2>"$work/look.err" || fail "the trace can not be read"
}

near() { # WHAT FOUND EXPECTED MARGIN
    awk -v a="$2" -v b="$3" -v m="$4" 'BEGIN { d = a - b; exit !(d <= m && d >= -m) }' || fail "$1: found $2, expected $3, give or take $4"
}

printed_share() { # what the victim says of mostly(), in points
    awk '/^mostly/ { m = $2 } /^rarely/ { r = $2 } END { print 100 * m / (m + r) }' "$work/out"
}

by_samples() { # WIDTH OPTION...
    local stolen
    stolen=$(stolen_ms)
    run_probity record -q -o "$work/trace" -- "$victims/$1/v_shares" -t 4 -m 2500 "${@:2}" >"$work/out" 2>"$work/err" || fail "$1: $(cat "$work/err")"
    look samples | awk -F'\t' '$1 == "cpu" { # inlined functions are frames, too
            n = split($3, f, ";"); for (i = 1; i < n && f[i] != "mostly" && f[i] != "rarely"; i++) {}
            if (f[i] == "mostly" || f[i] == "rarely") { at[f[i]] += $2; if (f[i + 1] != "work") odd++ } }
        END { print 100 * at["mostly"] / (at["mostly"] + at["rarely"]), (at["mostly"] + at["rarely"]) / 1e6, odd + 0 }' >"$work/found"
    read -r share ms odd <"$work/found"
    near "$1: sampled share of mostly()" "$share" "$(printed_share)" 2
    near "$1: sampled milliseconds" "$ms" "$(awk '/^mostly/ || /^rarely/ { s += $2 } END { print s }' "$work/out")" $((150 + $(stolen_ms) - stolen))
    expect_equal "$1: stacks of mostly() and rarely() that work() did not call" "$odd" 0
    expect_equal "$1: sleeper's samples" "$(look threads | awk -F'\t' '$3 == "sleeper" { print ($4 > 5000000) }')" 0
}

# What a thread ran is what the kernel says. When it ran is estimated while others make it switch all the time, and what of that lies in
# other calls, or in none, is so much at most.
by_calls() { # WIDTH
    local threads estimated
    run_probity record -q -o "$work/trace" --calls 'v_shares:mostly' --calls 'v_shares:rarely' --calls 'v_shares:sleep_on' -- \
        "$victims/$1/v_shares" -t 4 -m 500 >"$work/out" 2>"$work/err" || fail "$1: $(cat "$work/err")"
    "$probity" report --view threads --raw -f json "$work/trace" >"$work/json" || fail "$1: report"
    python3 - "$work/json" >"$work/found" <<'P'
import json, sys
rows = json.load(open(sys.argv[1]))["parts"][0]["rows"]
print(sum(row["cpu"] or 0 for row in rows) / 1e6, sum(row["estimated"] or 0 for row in rows) / 1e6)
P
    read -r threads estimated <"$work/found"
    near "$1: milliseconds of all threads" "$threads" "$(awk '/^all/ { print $2 }' "$work/out")" "$(awk '/^all/ { print $2 / 100 }' "$work/out")"
    "$probity" report --view flat --raw -f json "$work/trace" >"$work/json" || fail "$1: report"
    python3 - "$work/json" >"$work/found" <<'P'
import json, sys
rows = {row["name"]: row for row in json.load(open(sys.argv[1]))["parts"][0]["rows"]}
mostly, rarely = rows["mostly"]["base"], rows["rarely"]["base"]
print(100 * mostly / (mostly + rarely), (mostly + rarely) / 1e6, rows["mostly"]["calls"] == rows["rarely"]["calls"], rows["sleep_on"]["base"] / 1e6)
P
    read -r share ms same slept <"$work/found"
    near "$1: share of mostly() by calls" "$share" "$(printed_share)" 2
    near "$1: milliseconds by calls" "$ms" "$(awk '/^mostly/ || /^rarely/ { s += $2 } END { print s }' "$work/out")" "$(awk "BEGIN { print 60 + $estimated }")"
    expect_equal "$1: mostly() is called as often as rarely()" "$same" True
    near "$1: processor time of sleep_on()" "$slept" 0 20
}

# Every thread's time is accounted for: sleeping in nap(), working on a processor. A thread is there before it comes to a processor for the
# first time, and while others have the processors it waits elsewhere than in nap(): how long, the kernel says.
by_wall() { # WIDTH
    local stolen
    stolen=$(stolen_ms)
    (echo; exec sleep 5) | run_probity record -q --clock wall -F 999 -o "$work/trace" -- "$victims/$1/v_waits" -m 400 >"$work/out" 2>"$work/err" || fail "$1: $(cat "$work/err")"
    stolen=$(($(stolen_ms) - stolen))
    look threads >"$work/threads"
    while read -r _ name _ start end run delay; do
        read -r cpu off life < <(awk -F'\t' -v n="$name" '$3 == n { print $4 / 1e6, $5 / 1e6, $7 / 1e6 }' "$work/threads")
        near "$1: $name: time on a processor" "$cpu" "$(awk "BEGIN { print $run / 1e6 }")" $((15 + stolen))
        near "$1: $name: time on and off a processor" "$(awk "BEGIN { print $cpu + $off }")" "$life" "$(awk "BEGIN { print $life * 0.02 + 1 }")"
        near "$1: $name: its life" "$life" "$(awk "BEGIN { print ($end - $start) / 1e6 }")" "$(awk "BEGIN { print 40 + $delay / 1e6 }")"
    done < <(grep '^thread' "$work/out")
    look samples | awk -F'\t' '$1 == "off" && $3 ~ /;nap;/ { s += $2 } END { print s / 1e6 }' >"$work/nap"
    near "$1: waiting in nap()" "$(cat "$work/nap")" "$(awk '$2 == "sleeper" { print ($5 - $4) / 1e6 }' "$work/out")" \
        "$(awk '$2 == "sleeper" { print 20 + $7 / 1e6 }' "$work/out")"
    expect_equal "$1: processes" "$(look processes | wc -l)" 2
    expect_equal "$1: names of threads" "$(cut -f3 "$work/threads" | sort | tr '\n' ' ')" "executed sleeper ticker v_waits worker "
}

for width in 64 32; do
    by_samples $width
    # What calls changes all the time, further out than the least that is copied.
    by_samples $width -d 10
    by_calls $width
    by_wall $width
done
