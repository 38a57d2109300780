#!/bin/bash
# Runs the tests: programs in $BUILD/test/unit, scripts in test/unit and test/live; or only those named on the command line
# (`test/run.sh live_storm`). Two at a time, except tests whose source has a line `alone: yes`, which come last, one at a time.
# A test exits 0 (passed), 77 (skipped, the last line it printed says why), 75 (all that it could check is right, but a figure that it measured is out
# of bounds) or anything else (failed). What counts of a figure is the median of three: after 75 the test is run twice more, and both have to
# pass. Nothing else is tried again. `timeout: SECONDS` in the source changes the time limit. Logs are in $BUILD/log. A test takes one
# line; what the failed ones printed last follows at the end. The last line is `N passed, N failed`, with `, N skipped` when some were.
set -euo pipefail
cd "$(dirname "$0")/.."
# A test finds the same environment whoever runs it: a service has no SHELL, a user may have an umask, colours or a language of his own.
if [ "${PROBITY_TEST_ENVIRONMENT:-}" != clean ]; then
    kept=(PROBITY_TEST_ENVIRONMENT=clean SHELL=/bin/bash)
    for name in PATH HOME TMPDIR BUILD ${!PROBITY_@} LAYOUT_SEED HOSTILE_FIRST SYMBOL_DUMP; do
        [ -z "${!name+set}" ] || kept+=("$name=${!name}")
    done
    exec env -i "${kept[@]}" "$0" "$@"
fi
umask 022
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

# Leaves ok, skip, figure or FAIL as its result.
run_one() { # INDEX
    local name=${names[$1]} start end code=0 word seconds why=
    seconds=$(limit "${sources[$1]}")
    start=$EPOCHREALTIME
    timeout -k 10 "$seconds" "${commands[$1]}" >"$log/$name.log" 2>&1 </dev/null || code=$?
    end=$EPOCHREALTIME
    case $code in
    0) word=ok ;;
    75) word=figure why=": out of bounds: $(grep -a '^out of bounds: ' "$log/$name.log" | tail -n 1 | cut -c 16-)" ;;
    77) word=skip why=": $(tail -n 1 "$log/$name.log")" ;;
    124 | 137) word=FAIL why=": stopped after $seconds s" ;;
    *) word=FAIL why=": exit $code" ;;
    esac
    # One write, so that two tests that end together do not mix their lines.
    printf '%s %s (%s s)%s\n' "$word" "$name" "$(awk "BEGIN { printf \"%.1f\", $end - $start }")" "$why"
    echo "$word" >"$log/$name.result"
}

# A figure counts by the median of three.
run_test() { # INDEX
    local result=$log/${names[$1]}.result
    run_one "$1"
    [ "$(cat "$result")" = figure ] || return 0
    for _ in 2 3; do
        run_one "$1"
        if [ "$(cat "$result")" != ok ]; then
            echo FAIL >"$result"
            return 0
        fi
    done
}

is_alone() { # INDEX
    grep -q 'alone: yes' "${sources[$1]}"
}

run_shared() {
    local i running=0
    for i in "${!names[@]}"; do
        if is_alone "$i"; then continue; fi
        if [ "$running" -ge 2 ]; then
            wait -n || true
            running=$((running - 1))
        fi
        run_test "$i" &
        running=$((running + 1))
    done
    wait
}

run_alone() {
    local i
    for i in "${!names[@]}"; do
        if is_alone "$i"; then run_test "$i"; fi
    done
}

# What failed may be said before much of what was printed.
show_failure() { # NAME
    echo "--- $1: the end of $log/$1.log"
    { head -n -15 "$log/$1.log" | grep -aE '^(FAIL|wrong|out of bounds): ' | tail -n 5 || true; tail -n 15 "$log/$1.log"; } | sed 's/^/    /'
}

for name in "${names[@]}"; do rm -f "$log/$name.result"; done
run_shared
run_alone

passed=0 failed=0 skipped=0
for name in "${names[@]}"; do
    case $(cat "$log/$name.result" 2>/dev/null || echo FAIL) in
    ok) passed=$((passed + 1)) ;;
    skip) skipped=$((skipped + 1)) ;;
    *)
        failed=$((failed + 1))
        show_failure "$name"
        ;;
    esac
done
summary="$passed passed, $failed failed"
[ $skipped -eq 0 ] || summary+=", $skipped skipped"
echo "$summary"
[ $failed -eq 0 ]
