# Sourced by the live tests: start victims, wait for conditions, run probity, read its counts. Everything started here is stopped, by its own
# process id, when the test ends.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
root=$PWD
build=$root/${BUILD:-build}
probity=$build/probity
victims=$root/build/victim
i386=$root/build/i386
i386_libraries=$i386/usr/lib/i386-linux-gnu:$i386/lib/i386-linux-gnu
# What a sanitizer finds is no exit code of probity's own. Leaks can not be looked for under strace.
export ASAN_OPTIONS=exitcode=99 UBSAN_OPTIONS=exitcode=99
work=$(mktemp -d)
chmod 755 "$work"
# The interpreter itself: the name may be a script that chooses one.
python=$(python3 -c 'import os, sys; print(os.path.realpath(sys.executable))')
started=()

kill_started() {
    local pid
    for pid in "${started[@]}"; do kill -KILL "$pid" 2>/dev/null || true; done
}
stop_all() {
    local code=$?
    kill_started
    rm -rf "$work"
    exit $code
}
trap stop_all EXIT

# The log, also where stdout is redirected.
exec 9>&1

fail() {
    echo "FAIL: $*" >&9
    exit 1
}

# A figure that was measured is not within its bounds, and nothing else is wrong: test/run.sh measures again.
out_of_bounds() {
    echo "out of bounds: $*" >&9
    exit 75
}

# For tests of many things that can be wrong independently, which end in `exit $failed`. The second runs a function that may fail() or be
# out_of_bounds().
failed=0
complain() {
    echo "wrong: $*" >&9
    failed=1
}
attempt() { # FUNCTION ARG...
    local code=0
    (started=() && trap kill_started EXIT && "$@") || code=$?
    case $code in
    0) ;;
    75) [ $failed != 0 ] || failed=75 ;;
    *) failed=1 ;;
    esac
}

skip() {
    echo "$*"
    exit 77
}

scale() { # IN-CHECK IN-CHECK-LONG
    if [ -n "${PROBITY_LONG:-}" ]; then echo "$2"; else echo "$1"; fi
}

# Machines have been seen to stand still for a minute: whatever takes long is not wrong before several of them have passed.
patience=5
wait_until() { # SECONDS COMMAND...: polls until COMMAND succeeds; fails after SECONDS, on a machine that does nothing else
    local deadline=$((SECONDS + $1 * patience))
    shift
    until "$@"; do
        [ $SECONDS -lt $deadline ] || return 1
        sleep 0.02
    done
}

alive() { # PID: it exists and is no zombie
    [ -e "/proc/$1/stat" ] && [[ $(sed 's/.*) //' "/proc/$1/stat" 2>/dev/null) != [ZX]* ]]
}

gone() {
    ! alive "$1"
}

traced_by() { # PID TRACER
    [ "$(awk '/^TracerPid:/ { print $2 }' "/proc/$1/status" 2>/dev/null)" = "$2" ]
}

# Reads all of its input: grep -q would not, and with pipefail a writer that finds the pipe closed makes its line fail.
shows() { # GREP-ARGUMENT...
    local lines
    lines=$(grep -c "$@")
}

lines_are() { # FILE PATTERN N
    [ "$(grep -c "$2" "$1" || true)" -ge "$3" ]
}

# Starts a program with its stdin on a pipe that `release` writes to. Sets victim_pid and victim_out (its stdout).
victim_number=0
start_victim() { # COMMAND...
    victim_number=$((victim_number + 1))
    local pipe=$work/stdin.$victim_number
    victim_out=$work/stdout.$victim_number
    victim_err=$work/stderr.$victim_number
    rm -f "$pipe" # an attempt before this one may have had the same number
    mkfifo "$pipe"
    "$@" <"$pipe" >"$victim_out" 2>"$victim_err" &
    victim_pid=$!
    started+=("$victim_pid")
    exec {victim_in}>"$pipe"
}

wait_ready() { # [TIMES]: until the victim has printed `ready` that often
    wait_until 60 ready_or_dead "${1:-1}" || fail "victim $victim_pid is not ready: $(tail -n 5 "$victim_out" "$victim_err")"
    lines_are "$victim_out" '^ready$' "${1:-1}" || fail "victim $victim_pid died: $(tail -n 5 "$victim_out" "$victim_err")"
}

ready_or_dead() {
    lines_are "$victim_out" '^ready$' "$1" || gone "$victim_pid"
}

release() {
    echo >&"$victim_in"
}

# Waits for the victim and checks its exit code (0 unless told).
end_victim() { # [CODE]
    local code=0
    exec {victim_in}>&-
    wait "$victim_pid" || code=$?
    [ $code = "${1:-0}" ] || fail "victim ended with $code instead of ${1:-0}: $(tail -n 5 "$victim_out" "$victim_err")"
}

# The sum of the counts of FUNCTION at POINT (entry unless told) in probity's JSON output.
count_of() { # FILE FUNCTION [POINT]
    local point=${3:-entry}
    sed -nE "s/.*\"function\": ?\"$2\", ?\"point\": ?\"${point//+/\\+}\", ?\"count\": ?([0-9]+)[,}].*/\1/p" "$1" | awk '{ n += $1 } END { print n + 0 }'
}

total_of() { # FILE
    sed -nE 's/.*"count": ?([0-9]+)[,}].*/\1/p' "$1" | awk '{ n += $1 } END { printf "%.0f\n", n }'
}

expect_equal() { # WHAT FOUND EXPECTED
    [ "$2" = "$3" ] || fail "$1: found $2, expected $3"
}

# Functions whose calls a victim printed as `name count`: the counts that probity printed must be the same. Prints how many were compared.
compare_counts() { # VICTIM-OUTPUT PROBITY-JSON
    local name count compared=0
    while read -r name count; do
        grep -qE "\"function\": ?\"$name\"" "$2" || continue
        expect_equal "calls of $name" "$(count_of "$2" "$name")" "$count"
        compared=$((compared + 1))
    done < <(grep -hE '^[a-z_0-9]+ [0-9]+$' "$1")
    echo "$compared"
}

text_is_the_files() { # PID
    python3 test/live/process.py text "$1" || fail "code of $1 was not restored"
}

# What a virtual machine's processors were taken away: the kernel counts it as time of the threads, their own clock does not.
stolen_ms() {
    awk '/^cpu / { print $9 * 10 }' /proc/stat
}

descriptors() { # PID
    ls -l "/proc/$1/fd" | awk 'NF > 9 { print $9, $11 }'
}

mapping_kinds() { # PID
    python3 test/live/process.py maps "$1"
}

# Runs probity and ends it, and the test with it, when it hangs.
run_probity() { # ARG...
    local code=0
    timeout --foreground -k 5 "$(scale 240 600)" "$probity" "$@" || code=$?
    # 137 is also a command's own end by SIGKILL, which no test provokes this way.
    if [ $code = 124 ] || [ $code = 137 ]; then fail "hangs: probity $(head -c 300 <<<"$*")"; fi
    return $code
}

# Starts `probity count ARG...` on process PID, in the background, and waits until its probes are in place. Sets
# counter_pid; output goes to FILE and FILE.err.
start_count() { # FILE PID ARG...
    local file=$1 pid=$2
    shift 2
    python3 test/live/process.py code "$pid" >"$work/code"
    # Without the victim's stdin, whose end the victim would else never see.
    "$probity" count -p "$pid" "$@" >"$file" 2>"$file.err" {victim_in}>&- &
    counter_pid=$!
    started+=("$counter_pid")
    wait_until 30 attached_or_dead "$pid" || fail "probity does not attach to $pid: $(cat "$file.err")"
    alive "$counter_pid" || fail "probity ended: $(cat "$file.err")"
}

# Something new is mapped and the controller waits for events: in poll(2) or ppoll(2).
attached_or_dead() { # PID
    gone "$counter_pid" ||
        { ! python3 test/live/process.py code "$1" | cmp -s - "$work/code" && grep -qE '^(7|271) ' "/proc/$counter_pid/syscall" 2>/dev/null; }
}

# Ends it as Ctrl-C does and checks its exit code (0 unless told).
end_count() { # [CODE]
    local code=0
    kill -INT "$counter_pid" 2>/dev/null || true
    wait "$counter_pid" || code=$?
    [ $code = "${1:-0}" ] || fail "probity ended with $code instead of ${1:-0}"
}

# Starts v_climb of a width, and somebody who kills it as soon as one of its functions is hooked. Sets doomed_pid and killer_pid.
start_doomed() { # WIDTH
    "$victims/$1/v_climb" callers 60 >/dev/null 2>&1 &
    doomed_pid=$!
    started+=("$doomed_pid")
    wait_until 10 lines_are "/proc/$doomed_pid/maps" libc.so 1
    : >"$work/ready"
    timeout 240 python3 test/live/process.py kill "$doomed_pid" v_climb >"$work/ready" &
    killer_pid=$!
    started+=("$killer_pid")
    wait_until 20 lines_are "$work/ready" ready 1
}

[ -x "$probity" ] || fail "$probity is not built"
