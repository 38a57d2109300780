#!/bin/bash
# Calls: every entry of every thread is in the trace and calls nest, through recursion, tail calls, exceptions, longjmp, fork and threads
# without a thread pointer of their own; patterns and what they exclude; values of other resources are charged to the right call. (S4.1, S4.3)
# timeout: 400
. "$(dirname "$0")/lib.sh"
command -v babeltrace2 >/dev/null || skip "babeltrace2 is not installed"

look() { # WHAT
    python3 test/live/trace.py "$work/trace" "$1" 2>"$work/look.err" || fail "the trace can not be read"
}

# What the victim printed as `name count` is what was recorded; no return is out of place, and the depth is the program's own.
exact() { # WIDTH DEPTH VICTIM ARG...
    local width=$1 depth=$2 v=$3 name count compared=0
    shift 3
    run_probity record -q -o "$work/trace" --calls "$v:*" -- "$victims/$width/$v" "$@" >"$work/out" 2>"$work/err" </dev/null || fail "$width $v: $(cat "$work/err")"
    look calls >"$work/calls"
    while read -r name count; do
        expect_equal "$width $v: calls of $name" "$(awk -F'\t' -v n="$name" '$3 == n { c += $1 } END { print c + 0 }' "$work/calls")" "$count"
        compared=$((compared + 1))
    done < <(grep -hE '^[a-z_0-9]+ [0-9]+$' "$work/out")
    [ $compared -gt 0 ] || fail "$width $v printed no counts"
    read -r wrong _ open _ deep _ < <(look open)
    expect_equal "$width $v: returns out of place" "$wrong" 0
    [ "$deep" -le "$depth" ] || fail "$width $v: calls are $deep deep, at most $depth are"
    [ "$open" -le 60 ] || fail "$width $v: $open calls are open at the end"
    ! grep -q LOST "$work/err" || fail "$width $v: $(cat "$work/err")"
}

for width in 64 32; do
    exact $width 20010 v_recursive
    exact $width 8 v_longjmp -n 2000
    exact $width 20 v_exceptions -n 200
    exact $width 8 v_tail -n 2000
    exact $width 8 v_raw_clone -n 2000
    exact $width 8 v_fork -n 1000

    # Eight threads that write more than rings hold: none is lost.
    run_probity record -q -o "$work/trace" --calls 'v_events:event' -- "$victims/$width/v_events" -t 8 -n 100000 >"$work/out" 2>"$work/err"
    run_probity report --view flat -f json "$work/trace" >"$work/json"
    grep -o '"calls": *[0-9]*' "$work/json" | shows '[^0-9]800000$' || fail "$width: events: $(grep -o '"calls": *[0-9]*' "$work/json")"

    # What is excluded is, under any of its names; overlapping patterns record once.
    run_probity record -q -o "$work/trace" --calls 'v_count:*' --calls 'v_count:f?' --calls '-v_count:f1' --calls '!*:f2' -- \
        "$victims/$width/v_count" -t 2 -n 500 >"$work/out" 2>"$work/err"
    look calls >"$work/calls"
    ! awk -F'\t' '{ print $3 }' "$work/calls" | shows -E '^f[12]$' || fail "$width: an excluded function is in the trace"
    expect_equal "$width: f3" "$(awk -F'\t' '$3 == "f3" { print $1 }' "$work/calls")" "$(awk '$1 == "f3" { print $2 }' "$work/out")"

    # A value at an entry belongs to the call that begins there, one at a return to the call that ends.
    run_probity record -q -o "$work/trace" --calls 'v_events:event' --metric "number=v_events:event:arg1" --metric "twice=v_events:event:return:2" -- \
        "$victims/$width/v_events" -t 2 -n 1000 >"$work/out" 2>"$work/err" || fail "$width: metrics: $(cat "$work/err")"
    look measures | sort >"$work/measures"
    printf 'number\t999000\tevent\ntwice\t4000\tevent\n' | diff - "$work/measures" || fail "$width: values are charged elsewhere"

    # Without calls, values and stacks are the agent's own.
    run_probity record -q -o "$work/trace" --stacks-at 'v_recursive:is_odd' --metric 'depth=v_recursive:is_even:arg0' -- "$victims/$width/v_recursive" -n 5 \
        >"$work/out" 2>"$work/err" || fail "$width: stacks: $(cat "$work/err")"
    run_probity report --view samples -f json "$work/trace" >"$work/json"
    python3 - "$work/json" <<'P' || fail "$width: stacks at is_odd()"
import json, sys
rows = json.load(open(sys.argv[1]))["parts"][0]["rows"]
text = [json.dumps(row) for row in rows]
deep = max(row.count("is_odd") for row in text)
sys.exit(not (len(rows) > 50 and deep > 50 and any(";main;is_even" in row for row in text)))
P
    run_probity report --metric depth --view flat --raw -f json "$work/trace" >"$work/json"
    grep -qE '"name": "is_even", [^}]*"base": 251001[^0-9]' "$work/json" || fail "$width: values of is_even(): $(grep is_even "$work/json")"
done

# What no process has is said at once, not only at the end: it may still be loaded.
start_victim "$victims/64/v_shares" -t 1 -m 1 -w
wait_ready
"$probity" record -o "$work/trace" --calls 'v_shares:mostly' --calls 'v_shares:nothing' -p "$victim_pid" >"$work/out" 2>"$work/err" &
recorder=$!
started+=("$recorder")
wait_until 60 grep -q 'v_shares:nothing: no process has it so far' "$work/err" || fail "a name that is nowhere: $(cat "$work/err")"
! grep -q 'v_shares:mostly' "$work/err" || fail "a name that is there: $(cat "$work/err")"
kill -INT "$recorder"
code=0
wait "$recorder" || code=$?
expect_equal "exit code when a name is nowhere" $code 5
release
end_victim
