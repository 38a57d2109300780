#!/bin/bash
# Runs the tests: programs in $BUILD/test/unit, scripts in test/unit and test/live; or only those named on the command line
# (`test/run.sh live_storm`). Two at a time, except tests whose source has a line `alone: yes`: they measure times and numbers of samples, and what counts
# is the median of three. So where a figure is out of bounds at first two more runs have to be right; a target that was harmed, a crash and a hang
# have no second chance. A test exits 0 (passed), 77 (skipped, the last line it
# printed says why) or anything else (failed). `timeout: SECONDS` in the source changes the time limit. Logs are in $BUILD/log. The last
# line is `N passed, N failed`, with `, N skipped` when some were.
set -euo pipefail
cd "$(dirname "$0")/.."
export BUILD=${BUILD:-build}
export PROBITY_LONG=${PROBITY_LONG:-}
log=$BUILD/log
mkdir -p "$log"

names=() commands=() sources=()
add() { # NAME COMMAND SOURCE
    if [ ${#wanted[@]} -eq 0 ] || [[ " ${wanted[*]} " == *" $1 "* ]]; then
        names+=("$1") commands+=("$2") sources+=("$3")
    fi
}

wanted=("$@")
for source in test/unit/*.c; do
    [ -e "$source" ] || continue
    name=$(basename "$source" .c)
    add "unit_$name" "$BUILD/test/unit/$name" "$source"
done
for source in test/unit/*.sh test/live/*.sh; do
    [ -e "$source" ] || continue
    [ "${source##*/}" != lib.sh ] || continue
    folder=${source%/*}
    add "${folder##*/}_$(basename "$source" .sh)" "$source" "$source"
done
if [ ${#names[@]} -eq 0 ]; then
    echo "test/run.sh: no test named ${wanted[*]:-}" >&2
    exit 2
fi

limit() { # SOURCE
    local seconds
    seconds=$(sed -n 's/.*timeout: \([0-9][0-9]*\).*/\1/p' "$1" | head -n 1)
    seconds=${seconds:-120}
    # A test that takes several times as long is not wrong: the machine may be busy, or stand still for a while.
    if [ -n "$PROBITY_LONG" ]; then seconds=$((seconds * 30)); else seconds=$((seconds * 4)); fi
    echo "$seconds"
}

# Leaves ok, skip or FAIL as its result.
run_one() { # INDEX
    local name=${names[$1]} start end code=0 word seconds
    seconds=$(limit "${sources[$1]}")
    start=$EPOCHREALTIME
    timeout -k 10 "$seconds" "${commands[$1]}" >"$log/$name.log" 2>&1 </dev/null || code=$?
    end=$EPOCHREALTIME
    case $code in
    0) word=ok ;;
    77) word=skip ;;
    *) word=FAIL ;;
    esac
    # One write, so that two tests that end together do not mix their lines.
    {
        printf '%s %s (%s s)' "$word" "$name" "$(awk "BEGIN { printf \"%.1f\", $end - $start }")"
        case $word in
        skip) printf ': %s\n' "$(tail -n 1 "$log/$name.log")" ;;
        FAIL)
            if [ $code = 124 ] || [ $code = 137 ]; then printf ': stopped after %s s\n' "$seconds"; else printf ': exit %s\n' "$code"; fi
            # What failed may be said before much of what was printed.
            { head -n -15 "$log/$name.log" | grep -aE '^(FAIL|wrong): ' | tail -n 5 || true; tail -n 15 "$log/$name.log"; } | sed 's/^/    /'
            ;;
        *) printf '\n' ;;
        esac
    } >"$log/$name.report"
    cat "$log/$name.report"
    echo "$word" >"$log/$name.result"
}

measures() { # INDEX
    grep -q 'alone: yes' "${sources[$1]}"
}

run_shared() {
    local i running=0
    for i in "${!names[@]}"; do
        if measures "$i"; then continue; fi
        if [ "$running" -ge 2 ]; then
            wait -n || true
            running=$((running - 1))
        fi
        run_one "$i" &
        running=$((running + 1))
    done
    wait
}

# It failed, and by nothing but what was measured.
is_out_of_bounds() { # NAME
    head -n 1 "$log/$1.report" | grep -q '^FAIL .*: exit 1$' &&
        ! grep -aE '^(FAIL|wrong): ' "$log/$1.log" | grep -qwE 'text|restored|left behind|harmed|not as it was|has ended|died|exit code|LOST|0 lost|not exact|hooks|descriptors'
}

run_alone() {
    local i result
    for i in "${!names[@]}"; do
        measures "$i" || continue
        result=$log/${names[$i]}.result
        run_one "$i"
        if is_out_of_bounds "${names[$i]}"; then
            for _ in 2 3; do
                run_one "$i"
                [ "$(cat "$result")" = ok ] || break
            done
        fi
    done
}

for name in "${names[@]}"; do rm -f "$log/$name.result"; done
run_shared
run_alone

passed=0 failed=0 skipped=0
for name in "${names[@]}"; do
    case $(cat "$log/$name.result" 2>/dev/null || echo FAIL) in
    ok) passed=$((passed + 1)) ;;
    skip) skipped=$((skipped + 1)) ;;
    *) failed=$((failed + 1)) ;;
    esac
done
summary="$passed passed, $failed failed"
[ $skipped -eq 0 ] || summary+=", $skipped skipped"
echo "$summary"
[ $failed -eq 0 ]
