#!/bin/bash
# Programs that go on where a signal has interrupted them by other means than returning from the handler: setcontext() and swapcontext(), at once
# and later, begun before we attach and while we are there; goroutines that Go's runtime has interrupted, with probes that come and go
# under them. (S2.2)
# timeout: 120
. "$(dirname "$0")/lib.sh"

compare() { # NAME FILE-OF-COUNTS FILE...
    local compared
    grep '/v_' "$2" >"$work/own" || fail "$1: no function of the victim was counted"
    cat "${@:3}" >"$work/said"
    compared=$(compare_counts "$work/said" "$work/own") || fail "$1: $compared"
    [ "$compared" -ge 3 ] || fail "$1: only $compared counts compared"
    echo "$1: $compared counts equal"
}

started() { # VICTIM
    local code=0
    run_probity count --json '*:*' '*:*:return' -- "$1" -n 300 >"$work/json" 2>"$work/err" </dev/null || code=$?
    [ $code = 0 ] || fail "$1: exit code $code: $(tail -n 3 "$work/err")"
    compare "${1#"$victims"/}" "$work/json" "$work/json"
}

# A fault has been taken before we come, and another while we are there, that are gone on with later.
attached() { # VICTIM
    start_victim "$1" -w -n 300
    wait_ready
    start_count "$work/json" "$victim_pid" --json '*:*' '*:*:return'
    release
    wait_ready 2
    end_count
    [ "$(count_of "$work/json" on_fault)" = 598 ] || fail "$1: $(count_of "$work/json" on_fault) faults counted"
    text_is_the_files "$victim_pid"
    end_victim
    echo "attached ${1#"$victims"/}"
}

preempted() { # BINARY
    start_victim "$1"
    wait_ready
    for _ in $(seq "$(scale 6 100)"); do
        run_probity count -p "$victim_pid" -d 0.1 "$1:main.*" "$1:main.*:return" >"$work/json" 2>"$work/err" ||
            fail "${1##*/}: $(tail -n 1 "$work/err" && head -n 5 "$victim_out" "$victim_err")"
    done
    text_is_the_files "$victim_pid"
    release
    end_victim
    shows '^walked: true$' "$victim_out" || fail "${1##*/}: $(tail -n 3 "$victim_out")"
    echo "${1##*/}: $(grep -c main.after "$work/json") points of main.after counted last"
}

for width in 64 32; do
    for kind in "" -nopie -static; do
        attempt started "$victims/$width/v_contexts$kind"
    done
    attached "$victims/$width/v_contexts"
done
if command -v go >/dev/null; then
    export GOCACHE=$work/go GOFLAGS=-mod=mod
    go build -o "$work/v_preempt" test/victim/v_preempt.go || fail "v_preempt does not build"
    preempted "$work/v_preempt"
    GOARCH=386 go build -o "$work/v_preempt32" test/victim/v_preempt.go || fail "v_preempt does not build for 386"
    preempted "$work/v_preempt32"
else
    echo "not here: go"
fi
exit $failed
