#!/bin/bash
# Under a limit of address space (ulimit -v), whatever its value, every command either does all of its work or ends with an error that it
# prints: nothing is missed in silence. The limit holds for the controller and for the program that it starts. (issue 13.15)
# timeout: 240
. "$(dirname "$0")/lib.sh"
[ -z "$(readelf -dW "$probity" | grep libasan || true)" ] || skip "a program built with the address sanitizer needs terabytes of address space"
victim=("$victims/64/v_count" -n 100)

calls_in() { # COMMAND: calls of malloc() that it saw, or nothing
    case $1 in
    trace) sed -n 's/^@: //p' "$work/out" ;;
    count) if [ -s "$work/out" ]; then count_of "$work/out" malloc; fi ;;
    record) sed -nE 's/.* s: ([0-9]+) calls, .* 0 lost.*/\1/p' "$work/err" ;;
    esac
}

run_under() { # KILOBYTES COMMAND ARG...: sets `code` and `found`
    local limit=$1
    shift
    code=0
    rm -rf "$work/t.trace"
    (ulimit -v "$limit" && exec timeout -k 5 240 "$probity" "$@" -- "${victim[@]}") >"$work/out" 2>"$work/err" || code=$?
    found=$(calls_in "$1")
}

try() { # COMMAND ARG...
    local expected limit refused=0 done=0
    run_under unlimited "$@"
    expected=$found
    [ $code = 0 ] && [ "$expected" -gt 0 ] || fail "$1 without a limit: exit code $code: $(cat "$work/err")"
    for ((limit = 20000; done < 3; limit += 1700)); do
        run_under $limit "$@"
        if [ $code = 0 ]; then
            expect_equal "calls that $1 saw under ulimit -v $limit" "${found:-none}" "$expected"
            done=$((done + 1))
        else
            grep -q '^probity: ' "$work/err" || fail "$1 ended with $code under ulimit -v $limit and said: $(cat "$work/out" "$work/err")"
            refused=$((refused + 1))
            done=0
        fi
        [ $limit -lt 1000000 ] || fail "$1 does not work under ulimit -v $limit: $(cat "$work/err")"
    done
    [ $refused -gt 5 ] || fail "$1 was refused under $refused limits only"
    echo "$1: refused under $refused limits, complete from ulimit -v $limit on"
}

try trace -e 'uprobe:libc:malloc { @ = count(); }'
try count --json libc:malloc
try record --calls libc:malloc -o "$work/t.trace"
