#!/bin/bash
# Other resources than time, taken and given back: base is what exactly a stack used, elapsed what all threads of the process used meanwhile,
# exactly, from records and in trees that are built while recording, in both widths (S4.3).
# timeout: 120
. "$(dirname "$0")/lib.sh"

rounds=300

check() { # NAME TRACE
    run_probity report --metric units --sum --raw -f json "$2" >"$work/json" || fail "$1: report"
    python3 - "$work/json" $rounds >&9 2>&9 <<'P' || fail "$1: amounts"
import json, sys
rounds = int(sys.argv[2])
found = {}
for row in json.load(open(sys.argv[1]))["parts"][0]["rows"]:
    old = found.get((row["level"], row["name"]), (0, 0, 0, 0))
    new = (row["calls"], row["base"], row["cum"], row["elapsed_used"])
    found[row["level"], row["name"]] = tuple(a + b for a, b in zip(old, new))
wanted = {
    "outer": (1, 0, 57, 64),  # 100 - 40 - 5 + 2, and 7 of the other thread's
    "give": (1, -40, -40, -40),
    "move_by": (2, -3, -3, -3),
    "second": (1, 0, 7, 7),
    "take": (2, 107, 107, 107),
}
for name, each in wanted.items():
    all_of = [row for (level, other), row in found.items() if other == name]
    got = tuple(sum(row[i] for row in all_of) for i in range(4))
    if got != tuple(rounds * value for value in each):
        sys.exit(f"{name}: calls, base, cum, elapsed are {got}, not {rounds} times {each}")
root = next(row for (level, _), row in found.items() if level == 0)
if root[2] != 64 * rounds:
    sys.exit(f"all threads: {root}")
P
}

options=(--calls 'v_gives:outer' --calls 'v_gives:second' --calls 'v_gives:take' --calls 'v_gives:give' --calls 'v_gives:move_by'
    --metric 'units=v_gives:take:arg0' --metric 'units-=v_gives:give:arg0' --metric 'units+=v_gives:move_by:(int32)arg0')
for width in 64 32; do
    for kind in records tree; do
        [ $kind = tree ] && more=(--live-tree) || more=()
        run_probity record -q -o "$work/trace" "${more[@]}" "${options[@]}" -- "$victims/$width/v_gives" -n $rounds >"$work/out" 2>"$work/err" ||
            fail "$width $kind: $(cat "$work/err")"
        expect_equal "$width $kind: the program's own sum" "$(cat "$work/out")" $((66 * rounds))
        check "$width $kind" "$work/trace"
    done
    # Who asks for one thread only is told of what the others used meanwhile, too.
    run_probity record -q -o "$work/trace" "${options[@]}" -- "$victims/$width/v_gives" -n $rounds >"$work/out"
    first=$(run_probity report --view threads "$work/trace" | awk '/v_gives/ { split($NF == "v_gives" ? $(NF - 1) : $NF, id, "."); if (id[1] == id[2]) print id[1] }' | head -n 1)
    run_probity report --metric units --thread "$first" --raw -f json "$work/trace" >"$work/json"
    grep -qE "\"name\": \"outer\", [^}]*\"cum\": $((57 * rounds)), \"elapsed_used\": $((64 * rounds))," "$work/json" ||
        fail "$width: one thread: $(grep outer "$work/json")"
    # Values of functions that return errors: these are no amounts, and nothing is given back unless that is asked for.
    run_probity record -q -o "$work/trace" --calls 'v_gives:move_by' --metric 'units=v_gives:move_by:(int32)arg0' -- \
        "$victims/$width/v_gives" -n $rounds >"$work/out"
    run_probity report --metric units --view flat --raw -f json "$work/trace" >"$work/json"
    grep -qE "\"name\": \"move_by\", [^}]*\"base\": $((2 * rounds))," "$work/json" || fail "$width: errors: $(grep move_by "$work/json")"
    # By stacks, where no calls are recorded.
    run_probity record -q -o "$work/trace" --metric 'units=v_gives:take:arg0' --metric 'units-=v_gives:give:arg0' -- \
        "$victims/$width/v_gives" -n $rounds >"$work/out"
    run_probity report --metric units --view samples --raw -f json "$work/trace" >"$work/json"
    grep -qE "\"name\": \"[^\"]*outer;give\", [^}]*\"value\": -$((40 * rounds))" "$work/json" || fail "$width: stacks: $(cat "$work/json")"
    run_probity report --metric units -f folded "$work/trace" >"$work/folded" 2>"$work/err"
    grep -q 'below 0' "$work/err" || fail "$width: folded says nothing of what it leaves out"
    ! grep -q -- '-' <(sed 's/.* //' "$work/folded") || fail "$width: folded: $(cat "$work/folded")"
done
