#!/bin/bash
# Each test/report/case/NAME.case: what it proves, the command, perhaps `metric NAME UNIT...`, the trace (test/report/make.h, or with
# an `import` line what that takes), and what is
# printed, both streams and the exit code when it is not 0. `test/unit/report_cases.sh rebase` writes what is printed into the cases.
. "$(dirname "$0")/../live/lib.sh"
make=$build/test/report/make

part() { # FILE NUMBER
    awk -v wanted="$2" '$0 == "====" { part++; next } part == wanted' "$1"
}

run_case() { # FILE
    local -a options metrics=() import=()
    local line code=0
    part "$1" 1 >"$work/lines"
    while read -r line; do
        case $line in
        'report '* | report) read -ra options <<<"$line" ;;
        'import '*) read -ra import <<<"$line" ;;
        'metric '*) read -ra metrics <<<"${line#metric }" ;;
        ====) break ;;
        esac
    done <"$1"
    rm -rf "$work/trace"
    if [ ${#import[@]} -gt 0 ]; then
        "$probity" "${import[@]}" -o "$work/trace" "$work/lines" >/dev/null || return 1
    else
        "$make" "$work/trace" "${metrics[@]}" <"$work/lines" || return 1
    fi
    if is_diff "$1"; then
        part "$1" 2 | "$make" "$work/other" "${metrics[@]}" || return 1
        options+=(trace other)
    else
        options+=(trace)
    fi
    (cd "$work" && "$probity" "${options[@]}") >"$work/out" 2>&1 || code=$?
    [ $code = 0 ] || echo "exit $code" >>"$work/out"
}

is_diff() { # FILE
    grep -q '^report.*--view diff' "$1"
}

cases=0
for file in test/report/case/*.case; do
    cases=$((cases + 1))
    run_case "$file" || fail "$file: the trace can not be made"
    if is_diff "$file"; then parts=3; else parts=2; fi
    awk -v parts=$parts '{ print } $0 == "====" && ++part == parts { exit }' "$file" >"$work/new"
    cat "$work/out" >>"$work/new"
    if [ "${1:-}" = rebase ]; then
        cp "$work/new" "$file"
    else
        diff -u "$file" "$work/new" >&9 || complain "$file"
    fi
    if [[ ${file##*/} == *json* ]] || grep -qE '^report.*(json|speedscope|chrome)' "$file"; then
        python3 -m json.tool "$work/out" >/dev/null || complain "$file: not JSON"
    fi
    ! LC_ALL=C grep -qP '[\x00-\x08\x0b-\x1f\x7f]' "$work/out" || complain "$file: control characters in the output"
done
echo "$cases cases"
exit $failed
