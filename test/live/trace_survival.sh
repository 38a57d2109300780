#!/bin/bash
# Scripts and the target's life: a seccomp filter that kills, a controller that is stopped or killed while threads are in clauses, signal
# handlers that fire and jump out of clauses with rings that are full. The programs compute what they do alone and wait for nobody; nothing
# is left behind. (S0.6, S2.2)
# timeout: 200
. "$(dirname "$0")/lib.sh"

# Starts `probity trace ARG...` and waits until its probes are in place. Sets tracer_pid.
start_trace() { # ARG...
    : >"$work/err"
    "$probity" trace "$@" >"$work/out" 2>"$work/err" {victim_in}>&- &
    tracer_pid=$!
    started+=("$tracer_pid")
    wait_until 30 grep -q '^Attached' "$work/err" || fail "probity does not attach: $(cat "$work/err")"
}

end_trace() { # SIGNAL
    local code=0
    kill "-$1" "$tracer_pid"
    wait_until 20 gone "$tracer_pid" || fail "probity does not end"
    wait "$tracer_pid" 2>/dev/null || code=$?
    [ "$1" = KILL ] || [ $code = 0 ] || fail "probity ended with $code: $(cat "$work/err")"
}

lost() {
    sed -n 's/^Lost \([0-9]*\) events$/\1/p' "$work/err" | awk '{ n += $1 } END { print n + 0 }'
}

# No clause makes a system call under a filter, whatever it asks for and however full the rings are.
confined() { # WIDTH OPTION...
    local width=$1 printed
    shift
    start_victim "$victims/$width/v_seccomp" -n 300000
    wait_ready
    start_trace "$@" -o "$work/lines" -p "$victim_pid" -e 'uprobe:*v_seccomp:confined_work {
        printf("%d %d %d %s\n", pid, tid, uid, comm); @[pid, tid, ppid, gid, cpu] = nsecs + rand;
        if (arg0 == 1) { @s[str(arg0)] = count(); } }'
    release
    wait_ready 2
    end_trace INT
    grep -q '^confined_work 300000$' "$victim_out" || fail "$width-bit: the confined process computes something else"
    printed=$(grep -c "^$victim_pid $victim_pid " "$work/lines")
    expect_equal "$width-bit confined: printed + lost" $((printed + $(lost))) 300000
    end_victim
}

# The filter comes after the probes.
confined_later() { # WIDTH
    local v=$victims/$1/v_seccomp
    echo | run_probity trace -q -o "$work/lines" -e "uprobe:$v:confined_work { printf(\"%d %s\n\", pid, comm); @[tid] = count(); }" -- "$v" >"$work/out" 2>"$work/err" ||
        fail "$1-bit: the confined process ends with $?"
    grep -q '^confined_work 1000$' "$work/out" || fail "$1-bit: the confined process computes something else"
    grep -q '^@\[[0-9]*\]: 1000$' "$work/lines" || fail "$1-bit: $(tail -n 1 "$work/lines")"
}

# A controller that goes away while eight threads print into full rings.
left_alone() { # WIDTH SIGNAL OPTION...
    local v=$victims/$1/v_count width=$1 signal=$2
    shift 2
    start_victim "$v" -w -t 8 -n 20000 -r 2
    wait_ready
    mapping_kinds "$victim_pid" >"$work/before"
    descriptors "$victim_pid" >"$work/descriptors"
    start_trace "$@" -o "$work/lines" -p "$victim_pid" -e "uprobe:$v:f? { printf(\"%s %d\n\", func, arg0); @[func, tid] = count(); }
        uretprobe:$v:f? { @r[func] = hist(retval); }"
    release
    wait_until 30 test -s "$work/lines" || fail "nothing is printed"
    if [ "$signal" = STOP ]; then kill -STOP "$tracer_pid"; else end_trace "$signal"; fi
    # Far more events than two seconds of waiting for each would allow.
    wait_until 40 lines_are "$victim_out" '^ready$' 2 || fail "$width-bit, $signal: the target waits for the controller"
    if [ "$signal" = STOP ]; then
        kill -CONT "$tracer_pid"
        end_trace INT
    fi
    grep -v '^ready$' "$victim_out" | cmp - "$work/expected" || fail "$width-bit, $signal: wrong result"
    start_trace -p "$victim_pid" -e "uprobe:$v:f1 { @ = count(); }"
    release
    wait_ready 3
    end_trace TERM
    grep -q "^@: $(awk '$1 == "f1" { print $2; exit }' "$work/expected")\$" "$work/out" ||
        fail "$width-bit, $signal: the next one counts $(grep @ "$work/out")"
    text_is_the_files "$victim_pid"
    mapping_kinds "$victim_pid" | diff "$work/before" - || fail "$width-bit, $signal: mappings were left behind"
    descriptors "$victim_pid" | diff "$work/descriptors" - || fail "$width-bit, $signal: descriptors were left behind"
    end_victim
}

# Handlers interrupt clauses, fire themselves, and jump out of both.
interrupted() { # WIDTH VICTIM
    local v=$victims/$1/$2
    "$v" >"$work/native" 2>/dev/null
    run_probity trace -q --lossless -o "$work/lines" -e "uprobe:$v:* { printf(\"%s %d\n\", func, arg0); @n = count(); }" -- "$v" >"$work/traced" 2>"$work/err" ||
        fail "$1-bit $2 ends with $?"
    cmp "$work/native" "$work/traced" || fail "$1-bit $2: another output"
    local printed counted
    printed=$(grep -vc '^@n\|^$' "$work/lines") counted=$(sed -n 's/^@n: //p' "$work/lines")
    [ $((printed + $(lost))) -ge "$counted" ] || fail "$1-bit $2: $printed printed and $(lost) lost of $counted"
    # What a handler jumps out of holds nobody up for long.
    [ $(($(lost) * 2)) -le "$printed" ] || fail "$1-bit $2: $(lost) lost, $printed printed"
}

# What was left of the pool of frames is found again.
frames() { # WIDTH
    local v=$victims/$1/v_sigjmp
    run_probity trace -q -o "$work/lines" -e "uprobe:$v:jump_leaf { @s[func, str(reg(\"sp\"), 500)] = 1; delete(@s[func, str(reg(\"sp\"), 500)]); @n = count(); }" \
        -- "$v" -n 3000 >"$work/traced" 2>"$work/err" || fail "$1-bit frames: probity ends with $?"
    ! grep 'did not run' "$work/err" >&9 || fail "$1-bit: frames are lost"
    grep -q '^@n: ' "$work/lines" || fail "$1-bit frames: nothing ran: $(cat "$work/err")"
}

for width in 64 32; do
    confined $width
    confined $width --lossless
    confined_later $width
    "$victims/$width/v_count" -t 8 -n 20000 >"$work/expected"
    left_alone $width KILL --lossless
    left_alone $width STOP --lossless
    left_alone $width INT
    interrupted $width v_signals
    interrupted $width v_sigjmp
    frames $width
done
