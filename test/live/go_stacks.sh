#!/bin/bash
# Go functions at every place near the end of goroutines' stacks: in trace with stacks, with many values and from the first instruction on,
# record of every call, and climb, in both widths. (S2.2)
# timeout: 150
. "$(dirname "$0")/lib.sh"
command -v go >/dev/null || skip "no Go compiler"

runs=$(scale 3 30)
entry='{ @[ustack] = count(); @long[str(arg0), arg0, arg1] = count(); printf("%d %s %d\n", tid, comm, arg0); }'
return='{ @[ustack] = count(); @back[comm, func, retval] = count(); printf("%d %s %d\n", tid, comm, retval); }'

# The victim goes on for as long as the runs take.
under() { # BINARY NAME COMMAND...: PID is the victim's id
    local binary=$1 name=$2
    shift 2
    start_victim "$binary"
    wait_ready
    for _ in $(seq "$runs"); do
        alive "$victim_pid" || fail "${binary##*/}: $name: $(grep -m 3 -E 'fatal|panic|wrong|unexpected' "$victim_out" "$victim_err")"
        run_probity "${@//PID/$victim_pid}" >"$work/out" 2>"$work/err" || fail "${binary##*/}: $name: $(tail -n 3 "$work/err"; head -n 3 "$victim_err")"
    done
    text_is_the_files "$victim_pid"
    release
    end_victim
    shows '^edge [1-9]' "$victim_out" || fail "${binary##*/}: $name: $(tail -n 3 "$victim_out")"
    echo "${binary##*/}: $name: $(tail -n 1 "$victim_out")"
}

# None is missed, from the first to the last.
every_call() { # BINARY
    local counted
    run_probity trace --lossless -e 'uprobe:'"$1"':main.edge { @n[ustack(2)] = count(); @ = count(); }' -o "$work/out" -- "$1" >"$work/said" 2>"$work/err" \
        < <(sleep 1) || fail "${1##*/}: $(tail -n 3 "$work/err" "$work/said")"
    counted=$(sed -n 's/^@: //p' "$work/out")
    expect_equal "${1##*/}: calls" "$counted" "$(sed -n 's/^edge //p' "$work/said")"
    echo "${1##*/}: $counted calls"
}

export GOCACHE=$work/go GOFLAGS=-mod=mod
go build -o "$work/v_edge" test/victim/v_edge.go || fail "v_edge does not build"
# The packages of 386 are built, too.
GOARCH=386 go build -o "$work/v_edge32" test/victim/v_edge.go || fail "v_edge does not build for 386"
for victim in "$work/v_edge" "$work/v_edge32"; do
    attempt under "$victim" trace trace -p PID -e "uprobe:$victim:main.* $entry uretprobe:$victim:main.* $return interval:ms:700 { exit(); }"
    attempt under "$victim" record record -p PID -d 0.7 --calls "$victim:main.*" -o "$work/trace"
    attempt under "$victim" climb climb -p PID -d 1
    attempt every_call "$victim"
done
exit $failed
