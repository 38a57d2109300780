#!/bin/bash
# Recordings that go wrong: the controller is killed or its disk is full, the target is killed, forks, executes, or uses a thread id again; a
# recording is stopped by Ctrl-C, and the program's file is replaced afterwards. The target does what it does alone; what was written is
# readable up to that point, by report and by babeltrace2, and says whether it is cut. (S4.1, S4.8)
# timeout: 240
# Mounts are made in a name space of the test's own, so that they are gone with it whatever happens.
if [ "$(id -u)" = 0 ] && [ -z "${PROBITY_OWN_MOUNTS:-}" ]; then
    PROBITY_OWN_MOUNTS=yes exec unshare --mount --propagation private "$0" "$@"
fi
. "$(dirname "$0")/lib.sh"

calls=200000
some=(--calls v_count:run --calls v_count:f1) # of what the program calls

# ---- traces ----

trace_bytes() { # TRACE
    du -sb "$1" 2>/dev/null | awk '{ print $1 }'
}

has_bytes() { # TRACE BYTES
    [ "$(trace_bytes "$1")" -ge "$2" ] 2>/dev/null
}

# The trace is whole, or cut, as told, and both readers find the same calls and samples in its whole packets, and some. Of a packet that the
# end tore, report reads what is there, babeltrace2 nothing. Sets seen_calls and seen_samples.
readable() { # TRACE whole|cut
    local trace=$1 cut=false whole=$1
    if [ "$2" = cut ]; then
        cut=true whole=$work/whole
        rm -rf "$whole"
        python3 test/live/whole_packets.py "$trace" "$whole"
    fi
    babeltrace2 "$whole" >"$work/events" 2>"$work/babeltrace.err" || fail "babeltrace2 does not read it: $(tail -n 3 "$work/babeltrace.err")"
    # Samples that were lost because the machine was busy are told by both, and are no fault of the trace.
    ! grep -vE 'WARNING: Tracer (may have )?discarded ' "$work/babeltrace.err" || fail "babeltrace2 complains"
    seen_calls=$(grep -cE ' enter(_tail)?: ' "$work/events" || true)
    seen_samples=$(grep -cE ' timer: ' "$work/events" || true)
    [ $((seen_calls + seen_samples)) -gt 0 ] || fail "there is nothing in the trace"
    run_probity report --view threads --format json "$trace" >"$work/report.json" 2>"$work/report.err" || fail "report: $(cat "$work/report.err")"
    grep -q "\"cut\": $cut" "$work/report.json" || fail "report does not say that the trace is $2"
    if [ $cut = true ]; then grep -q 'this trace is cut' "$work/report.err" || fail "report does not say aloud that the trace is cut"; fi
    if [ "$seen_calls" -gt 0 ]; then same_number "calls" calls_of "$seen_calls"; fi
    if [ "$seen_samples" -gt 0 ]; then same_number "samples" samples_of "$seen_samples"; fi
}

same_number() { # WHAT READ EXPECTED
    expect_equal "$1 that report reads" "$("$2" "$whole")" "$3"
    [ "$("$2" "$trace")" -ge "$3" ] || fail "report reads fewer $1 with a torn packet than without: $("$2" "$trace") of $3"
}

calls_of() { # TRACE
    run_probity report --view flat --data events --format json "$1" 2>/dev/null | grep -v '"root": true' | sed -nE 's/.*"calls": ([0-9]+),.*/\1/p' | awk '{ n += $1 } END { print n + 0 }'
}

samples_of() { # TRACE
    run_probity report --view threads --format json "$1" 2>/dev/null | sed -nE 's/.*"samples": ([0-9]+).*/\1/p' | awk '{ n += $1 } END { print n + 0 }'
}

# ---- recordings ----

trace=$work/trace
exec {victim_in}</dev/null

# Starts `probity record -o $trace ARG...` in the background. Sets recorder_pid.
start_record() { # ARG...
    rm -rf "$trace"
    "$probity" record -o "$trace" "$@" 2>"$work/err" {victim_in}>&- &
    recorder_pid=$!
    started+=("$recorder_pid")
}

# Starts a recording of the calls of the program that waits; with its probes in place, the program goes on.
record_caller() { # ARG...
    python3 test/live/process.py code "$victim_pid" >"$work/code"
    start_record "$@" "${some[@]}" -p "$victim_pid"
    go_on
}

go_on() {
    counter_pid=$recorder_pid
    wait_until 30 attached_or_dead "$victim_pid" || fail "probity does not attach: $(cat "$work/err")"
    release
}

recorder_ended() { # CODE
    local code=0
    wait_until 30 gone "$recorder_pid" || fail "probity does not end: $(cat "$work/err")"
    wait "$recorder_pid" 2>/dev/null || code=$?
    [ "$code" = "$1" ] || fail "probity ended with $code instead of $1: $(cat "$work/err")"
}

# A program that waits, then calls a lot in four threads. Sets $alone: what it prints, untraced.
declare -A alone_of
start_caller() { # WIDTH [N]
    local program=$victims/$1/v_count n=${2:-$calls}
    [ -n "${alone_of[$1.$n]:-}" ] || alone_of[$1.$n]=$(printf '\n\n\n\n' | "$program" -t 4 -n "$n" -w)
    alone=${alone_of[$1.$n]}
    start_victim "$program" -t 4 -n "$n" -w
    wait_ready
}

# The rounds go on and the program ends as if nothing had been.
caller_is_unharmed() {
    wait_until 60 lines_are "$victim_out" '^ready$' 2 || fail "the target does not go on: $(cat "$victim_out" "$victim_err")"
    end_victim
    [ "$(cat "$victim_out")" = "$alone" ] || fail "the target printed something else: $(cat "$victim_out")"
}

# ---- cases ----

killed_controller_of_calls() { # WIDTH
    start_caller "$1"
    record_caller
    wait_until 60 has_bytes "$trace" 300000 || fail "nothing is recorded: $(cat "$work/err")"
    kill -KILL "$recorder_pid"
    recorder_ended 137
    readable "$trace" cut
    caller_is_unharmed
    echo "$1-bit, controller of calls killed: $seen_calls calls are readable"
}

killed_controller_of_samples() { # WIDTH
    start_caller "$1" $((calls * 40))
    start_record -F 999 -p "$victim_pid"
    release
    wait_until 60 has_samples 200 || fail "nothing is sampled: $(cat "$work/err")"
    kill -KILL "$recorder_pid"
    recorder_ended 137
    readable "$trace" cut
    caller_is_unharmed
    [ "$seen_samples" -ge 200 ] || fail "$seen_samples samples"
    echo "$1-bit, controller of samples killed: $seen_samples samples are readable"
}

has_samples() { # N
    [ -s "$trace/metadata" ] && [ "$(babeltrace2 "$trace" 2>/dev/null | grep -c ' timer: ')" -ge "$1" ]
}

full_disk_is_said() { # WHAT
    recorder_ended_badly
    grep -qiE 'no space left|file too large' "$work/err" || fail "$1: it is not said that the disk is full: $(cat "$work/err")"
    readable "$trace" cut
    text_is_the_files "$victim_pid"
    caller_is_unharmed
    echo "$1: $seen_calls calls, $seen_samples samples are readable"
}

recorder_ended_badly() {
    local code=0
    wait_until 60 gone "$recorder_pid" || fail "probity goes on with a full disk"
    wait "$recorder_pid" || code=$?
    [ $code -gt 0 ] && [ $code -lt 126 ] || fail "probity ended with $code: $(cat "$work/err")"
}

full_disk() { # WIDTH
    local folder=$work/disk.$1
    mkdir "$folder"
    mount -t tmpfs -o size=256k probity_test "$folder" 2>/dev/null || { echo "no right to mount a small disk"; return 0; }
    trace=$folder/trace
    start_caller "$1"
    record_caller
    full_disk_is_said "$1-bit, disk full"
    umount "$folder"
    trace=$work/trace
}

# A limit of the size of files is met with a signal that is not ours to die of. The memory of probes is a file, too: only samples here.
limited_files() { # WIDTH
    start_caller "$1" $((calls * 500))
    rm -rf "$trace"
    (ulimit -f 32 && exec "$probity" record -o "$trace" -F 1999 -p "$victim_pid" 2>"$work/err" {victim_in}>&-) &
    recorder_pid=$!
    started+=("$recorder_pid")
    wait_until 30 test -s "$trace/metadata" || fail "probity does not start: $(cat "$work/err")"
    release
    full_disk_is_said "$1-bit, file size limited"
}

killed_target() { # WIDTH
    start_caller "$1" $((calls * 40))
    record_caller -F 999
    wait_until 60 has_bytes "$trace" 300000 || fail "nothing is recorded: $(cat "$work/err")"
    kill -KILL "$victim_pid"
    recorder_ended 0
    readable "$trace" whole
    grep -q "^note: .* calls were open at the end" <(run_probity report --view flat "$trace") || fail "it is not said that calls were open"
    exec {victim_in}>&-
    echo "$1-bit, target killed: $seen_calls calls are readable"
}

killed_command() { # WIDTH
    local child
    rm -rf "$trace"
    start_record -F 999 "${some[@]}" -- "$victims/$1/v_count" -t 4 -n $((calls * 40))
    wait_until 60 has_bytes "$trace" 300000 || fail "nothing is recorded: $(cat "$work/err")"
    child=$(awk '{ print $1 }' "/proc/$recorder_pid/task/$recorder_pid/children")
    started+=("$child")
    kill -KILL "$child"
    recorder_ended 137
    readable "$trace" whole
    grep -qE ' end_process: .*status = 9,' "$work/events" || fail "its status is not known: $(grep process: "$work/events")"
    echo "$1-bit, command killed: $seen_calls calls are readable, its status is 9"
}

forks() { # WIDTH
    local n
    run_probity record -q -o "$trace" -F 999 --calls 'v_fork:fork_work' -- "$victims/$1/v_fork" -n 3000 >"$work/out" 2>"$work/err" || fail "v_fork: $(cat "$work/out" "$work/err")"
    readable "$trace" whole
    n=$(sed -n 's/^fork_work \([0-9]*\)$/\1/p' "$work/out")
    expect_equal "$1-bit calls of fork_work in all processes" "$seen_calls" "${n:-none}"
    n=$(grep -c ' process: ' "$work/events")
    [ "$n" -ge 9 ] || fail "$n processes"
    echo "$1-bit, forks: $seen_calls calls in $n processes"
}

executes() { # WIDTH
    local program=$victims/$1/v_exec_chain
    "$program" -n 5 >"$work/alone"
    run_probity record -q -o "$trace" -F 999 --calls 'v_exec_chain:chain_work' -- "$program" -n 5 >"$work/out" 2>"$work/err" || fail "$(cat "$work/err")"
    cmp -s "$work/alone" "$work/out" || fail "a program that executes computes something else"
    readable "$trace" whole
    expect_equal "$1-bit calls before the first exec" "$seen_calls" 1
    run_probity record -q -o "$trace" --follow -F 999 --calls 'v_exec_chain:chain_work' -- "$program" -n 5 >"$work/out" 2>"$work/err" || fail "$(cat "$work/err")"
    cmp -s "$work/alone" "$work/out" || fail "a program that executes computes something else when it is followed"
    readable "$trace" whole
    expect_equal "$1-bit calls of all that was executed" "$seen_calls" 6
    echo "$1-bit, executes: $seen_calls calls"
}

reused_thread_id() { # WIDTH
    run_probity record -q -o "$trace" --calls 'v_tid_reuse:*_work' -- "$victims/$1/v_tid_reuse" -n 777 >"$work/out" 2>"$work/err" || fail "$(cat "$work/out" "$work/err")"
    grep -q '^reused$' "$work/out" || { echo "thread ids: $(cat "$work/out")"; return 0; }
    readable "$trace" whole
    run_probity report --each "$trace" >"$work/tree"
    for who in early late; do
        grep -A1 -E "\.[0-9]+ $who\$" "$work/tree" | shows -E " 777 .*- ${who}_work\$" || fail "$1-bit: the calls of thread $who: $(cat "$work/tree")"
    done
    expect_equal "$1-bit thread ids" "$(sed -nE 's/.*\.([0-9]+) (early|late)$/\1/p' "$work/tree" | sort | uniq -c | awk '{ print $1 }')" 2
    echo "$1-bit, a thread id used twice: two threads"
}

interrupted() { # WIDTH
    start_caller "$1" $((calls * 40))
    record_caller -F 999
    wait_until 60 has_bytes "$trace" 300000 || fail "nothing is recorded: $(cat "$work/err")"
    kill -INT "$recorder_pid"
    recorder_ended 0
    readable "$trace" whole
    text_is_the_files "$victim_pid"
    caller_is_unharmed
    echo "$1-bit, interrupted: $seen_calls calls are readable"
}

# Names are those of the time of recording, and nobody looks into the file that is there now.
replaced_module() { # WIDTH
    local program=$work/program.$1 view
    cp "$victims/$1/v_count" "$program"
    run_probity record -q -o "$trace" -F 999 --calls 'program*:*' -- "$program" -t 2 -n 20000 >/dev/null 2>"$work/err" || fail "$(cat "$work/err")"
    for view in flat samples tree; do run_probity report --view $view "$trace" >"$work/$view.before" 2>&1; done
    cp "$victims/$1/v_fork" "$program.new"
    mv "$program.new" "$program"
    for view in flat samples tree; do
        ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0 strace -f -e trace=open,openat,openat2 -o "$work/strace" "$probity" report --view $view "$trace" >"$work/$view.after" 2>&1 || fail "report fails: $(cat "$work/$view.after")"
        cmp -s "$work/$view.before" "$work/$view.after" || fail "$1-bit: the $view view changed with the file"
        ! grep -qF "$program" "$work/strace" || fail "report opens the module: $(grep -F "$program" "$work/strace")"
    done
    grep -q ' f4$' "$work/flat.after" || fail "names are missing: $(cat "$work/flat.after")"
    readable "$trace" whole
    echo "$1-bit, module replaced: same report"
}

for width in 64 32; do
    killed_controller_of_calls $width
    killed_target $width
    forks $width
    executes $width
    reused_thread_id $width
    interrupted $width
done
killed_controller_of_samples 64
full_disk 64
limited_files 64
killed_command 64
replaced_module 64
