#!/bin/bash
# Codes select at the source: what is not selected has no probes, no events of the kernel and no records; and samples of the pc alone, which
# have a code of their own, for which no stack is copied; in both widths (S4.1).
# timeout: 200
. "$(dirname "$0")/lib.sh"

trace=$work/trace

start_recording() { # ARG...: of the victim; returns when the trace is there
    rm -rf "$trace"
    "$probity" record -q -o "$trace" -p "$victim_pid" "$@" >"$work/out" 2>"$work/err" {victim_in}>&- &
    recorder_pid=$!
    started+=("$recorder_pid")
    wait_until 60 is_recording || fail "nothing is recorded: $(cat "$work/err")"
}
is_recording() {
    [ -n "$(find "$trace" -name '[cs]a*.*' -size +0 2>/dev/null)" ] || gone "$recorder_pid"
}

stop_recording() {
    kill -INT "$recorder_pid"
    wait "$recorder_pid" || fail "record: exit code $?: $(cat "$work/err")"
    babeltrace2 "$trace" >"$work/said" || fail "babeltrace2"
}

has_only() { # NAME CODE...: of what is recorded all of these occur, and nothing else
    local name=$1 code found
    shift
    found=$(grep -oE ' (enter|return|enter_tail|place|timer|timer_metric|off_cpu|switch_in|switch_out|pc|pc_metric|off_cpu_pc): ' "$work/said" | sort -u | tr -d ' :\n')
    expect_equal "$name: what is recorded" "$found" "$(printf '%s\n' "$@" | sort | tr -d '\n')"
}

perf_events() {
    ls -l "/proc/$recorder_pid/fd" | grep -c perf_event || true
}

asked() { # ARG...: attributes of the kernel's events that a recording asks for
    rm -rf "$trace"
    ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0 strace -f -v -e trace=perf_event_open -o "$work/asked" \
        "$probity" record -q -o "$trace" -d 0.5 -p "$victim_pid" "$@" >"$work/out" 2>"$work/err" || fail "record $*: $(cat "$work/err")"
    babeltrace2 "$trace" >"$work/said" || fail "record $*: babeltrace2"
}

for width in 64 32; do
    start_victim "$victims/$width/v_shares" -t 2 -m 60000
    wait_until 30 lines_are "/proc/$victim_pid/maps" libc.so 1

    # No calls: no probes, though some are asked for.
    start_recording --codes sample -F 999 --calls 'v_shares:*'
    text_is_the_files "$victim_pid"
    stop_recording
    has_only "$width: samples" timer

    # Calls only: the kernel is asked for nothing.
    start_recording --codes call -F 999 --calls 'v_shares:*'
    expect_equal "$width: the kernel's events" "$(perf_events)" 0
    both=$(python3 test/live/process.py different "$victim_pid")
    stop_recording
    has_only "$width: calls" enter return

    # Entries only: exits have no probes.
    start_recording --codes call.enter -F 999 --calls 'v_shares:*'
    entries=$(python3 test/live/process.py different "$victim_pid")
    stop_recording
    has_only "$width: entries" enter
    [ "$entries" -gt 0 ] && [ "$entries" -lt "$both" ] || fail "$width: $entries bytes of code are changed for entries, $both for entries and returns"

    # All but switches: they are not asked for. With everything they are, and so are stacks, which shows that this would be seen.
    asked -F 999 --codes -thread
    ! grep -q 'context_switch=1' "$work/asked" || fail "$width: switches are asked for that are not selected"
    grep -q 'PERF_SAMPLE_STACK_USER' "$work/asked" || fail "$width: no stacks are asked for"
    has_only "$width: without switches" timer
    asked -F 999
    grep -q 'context_switch=1' "$work/asked" || fail "$width: no switches are asked for"

    # Samples of the pc alone.
    asked -F 999 --stacks none --codes -thread
    ! grep -q 'PERF_SAMPLE_STACK_USER' "$work/asked" || fail "$width: stacks are copied for samples of the pc"
    has_only "$width: pc" pc
    run_probity report --view flat -f json "$trace" >"$work/json"
    python3 - "$work/json" <<'P' || fail "$width: pc: $(head -c 2000 "$work/json")"
import json, sys
rows = json.load(open(sys.argv[1]))["parts"][0]["rows"]
routines = {row["name"] for row in rows if not row.get("root")}
# What is inlined there is shown, who called is not.
sys.exit(not {"mostly", "rarely"} & routines or bool({"work", "run", "main", "start_thread"} & routines))
P
    asked -F 999 --clock wall --codes sample.pc,sample.off_cpu_pc
    ! grep -q 'PERF_SAMPLE_STACK_USER' "$work/asked" || fail "$width: stacks are copied for the codes of pcs"
    has_only "$width: pc, by code" pc off_cpu_pc

    # With calls a pc belongs to the innermost open one.
    run_probity record -q -o "$trace" -d 0.5 -F 999 --stacks none --calls 'v_shares:mostly' -p "$victim_pid" || fail "$width: calls and pcs"
    run_probity report --view merged --sum -f json "$trace" >"$work/json"
    python3 - "$work/json" <<'P' || fail "$width: calls and pcs: $(head -c 2000 "$work/json")"
import json, sys
rows = json.load(open(sys.argv[1]))["parts"][0]["rows"]
at = next(i for i, row in enumerate(rows) if row["name"] == "mostly" and row["calls"])
below = 0
for row in rows[at + 1 :]:
    if row["level"] <= rows[at]["level"]:
        break
    below += row["samples"]
sys.exit(below + rows[at]["samples"] < 20)
P
    kill -KILL "$victim_pid"
    wait "$victim_pid" 2>/dev/null || true
    exec {victim_in}>&-
done

refused() { # ARG...
    local code=0
    "$probity" record -q -o "$work/none" "$@" -- true >/dev/null 2>"$work/err" || code=$?
    expect_equal "exit code of: record $*" $code 2
    [ -s "$work/err" ] && [ ! -e "$work/none" ] || fail "record $*: $(cat "$work/err")"
}
refused --codes nonsense
refused --codes -nonsense
refused --codes call
refused --codes sample.place
refused --codes sample -F 0
refused --stacks some
