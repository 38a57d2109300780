#!/bin/bash
# Seccomp filters that kill for every system call that the program does not make itself, restart_syscall and rt_sigreturn among them: set
# before probity comes or while it is there, in every way there is; as root, who may suspend a filter, and as a plain user, who may not.
# Whatever mode, and also when the controller is killed: the program lives, its calls answer what they would, and it sleeps as long. (S2.2)
# timeout: 300
. "$(dirname "$0")/lib.sh"
names=('prctl()' 'a constant' 'syscall() of prctl' 'syscall() of seccomp' 'another thread' 'strict mode' 'a register')
as=()

# The program, in the background; with -b its filter is there at once.
start_confined() { # WIDTH ARG...
    local width=$1
    shift
    start_victim "${as[@]}" "$victims/$width/v_confined" "$@"
    wait_ready
}

end_confined() { # WHAT
    alive "$victim_pid" || fail "$1: killed the program"
    release
    end_victim
    grep -q ' rounds are right$' "$victim_out" || fail "$1: wrong"
}

# What to do to the program in a mode, for so many tenths of a second. Sets line.
set_line() { # MODE TENTHS
    local seconds=$(($2 / 10)).$(($2 % 10))
    local work_on='uprobe:*v_confined:confined_work'
    local clause='{ @[pid, tid, uid, gid, ppid, comm, str(arg1)] = count(); @s[ustack] = count(); @t = nsecs; printf("%d\n", tid); }'
    case $1 in
    count) line=(count -d $seconds '*v_confined:*') ;;
    trace) line=(trace -o "$work/lines" -e "$work_on $clause interval:ms:${2}00 { exit(); }") ;;
    lossless) line=(trace --lossless -o "$work/lines" -e "$work_on $clause interval:ms:${2}00 { exit(); }") ;;
    record) line=(record -q -o "$work/trace" -d $seconds --calls '*v_confined:*') ;;
    sample) line=(record -q -o "$work/trace" -d $seconds) ;;
    climb) line=(climb -q -d $seconds) ;;
    esac
    line+=(-p "$victim_pid")
    rm -rf "$work/trace" "$work/lines"
}

# Runs probity on the program in a mode. Sets code.
run_mode() { # MODE TENTHS
    local -a line
    set_line "$@"
    code=0
    timeout --foreground -k 5 100 "${as[@]}" "$probity" "${line[@]}" >"$work/out" 2>"$work/err" {victim_in}>&- || code=$?
    return 0
}

expect_code() { # WHAT CODE
    [ "$code" = "$2" ] || fail "$1: probity ended with $code instead of $2: $(cat "$work/err")"
}

before() { # WIDTH SLEEP MODE...
    local width=$1 sleep=$2 mode
    shift 2
    start_confined "$width" -b -s "$sleep" -t 2
    for mode in "$@"; do
        run_mode "$mode" 3
        expect_code "$width-bit, sleep $sleep, $mode" 0
        alive "$victim_pid" || fail "$width-bit, sleep $sleep, $mode: killed the program"
    done
    text_is_the_files "$victim_pid"
    end_confined "$width-bit, sleep $sleep"
}

# Runs probity on the program in a mode until end_count.
start_mode() { # MODE
    local -a line
    set_line "$1" 6000
    "${as[@]}" "$probity" "${line[@]}" >"$work/out" 2>"$work/err" {victim_in}>&- &
    counter_pid=$!
    started+=("$counter_pid")
}

# The filter comes while probes fire all the time, in three threads.
after() { # WIDTH KIND MODE
    local what="$1-bit, ${names[$2]}, $3"
    start_confined "$1" -k "$2" -s "$4" -t 2
    python3 test/live/process.py code "$victim_pid" >"$work/code"
    start_mode "$3"
    wait_until 30 is_probed || fail "$what: no probes: $(cat "$work/err")"
    release
    wait_ready 2
    sleep 0.3 # of work under the filter and under us
    end_count
    end_confined "$what"
}

is_probed() {
    ! alive "$victim_pid" || ! python3 test/live/process.py code "$victim_pid" | cmp -s - "$work/code"
}

killed() { # WIDTH
    start_confined "$1" -b -t 2
    start_count "$work/counts" "$victim_pid" '*v_confined:*'
    kill -KILL "$counter_pid"
    wait_until 20 gone "$counter_pid" || fail "$1-bit: is not killed"
    run_mode count 3
    expect_code "$1-bit: who comes after a killed one" 0
    text_is_the_files "$victim_pid"
    end_confined "$1-bit, killed"
}

# Without the clock there is nothing to record.
strict() { # WIDTH
    local mode
    start_confined "$1" -b -k 5
    run_mode count 3
    expect_code "$1-bit, strict mode, count" 0
    for mode in trace record climb; do
        run_mode $mode 3
        expect_code "$1-bit, strict mode, $mode" 7
        grep -q 'strict mode' "$work/err" || fail "$1-bit, strict mode, $mode: $(cat "$work/err")"
    done
    text_is_the_files "$victim_pid"
    end_confined "$1-bit, strict mode"
}

# Who may not suspend the filter does nothing, and says why; if the filter comes later, what can be undone without a system call is.
plain() { # WIDTH
    local mode
    as=(setpriv --reuid 12345 --regid 12345 --clear-groups)
    cp "$probity" "$work/probity"
    local probity=$work/probity
    chmod 777 "$work"
    start_confined "$1" -b -t 2
    for mode in count trace record climb; do
        run_mode $mode 3
        expect_code "$1-bit, plain user, $mode" 7
        grep -q "process $victim_pid: has a seccomp filter" "$work/err" || fail "$1-bit, plain user, $mode: $(cat "$work/err")"
    done
    run_mode sample 5
    expect_code "$1-bit, plain user, samples" 0
    text_is_the_files "$victim_pid"
    end_confined "$1-bit, plain user"
    start_confined "$1" -t 2
    python3 test/live/process.py code "$victim_pid" >"$work/code"
    start_mode count
    wait_until 30 is_probed || fail "plain user: no probes: $(cat "$work/err")"
    release
    wait_ready 2
    end_count 7
    grep -q "process $victim_pid: has a seccomp filter" "$work/err" || fail "$1-bit, plain user, later: $(cat "$work/err")"
    text_is_the_files "$victim_pid"
    end_confined "$1-bit, plain user, later"
    as=()
}

[ "$(id -u)" = 0 ] || skip "needs root, who may suspend a filter"
for width in 64 32; do
    before $width 0 count trace lossless record sample climb
    for sleep in 1 2 3; do before $width $sleep count; done
    for kind in 0 1 2 3 4 6; do after $width $kind lossless $((kind % 4)); done
    after $width 4 record 4
    after $width 3 count 0
    killed $width
    strict $width
    if setpriv --reuid 12345 --regid 12345 --clear-groups true; then plain $width; fi
done
