#!/bin/bash
# profile: samples fall where the processor's time goes, are those of the traced processes only, and what is missing is counted. (S0.7)
# timeout: 200
# alone: yes
. "$(dirname "$0")/lib.sh"

value_of() { # FILE KEY: what a map printed for it, 0 when it is not there
    awk -v key="$2" 'index($0, key ": ") == 1 { n = substr($0, length(key) + 3) } END { print n + 0 }' "$1"
}

between() { # WHAT FOUND LEAST MOST
    awk -v n="$2" -v least="$3" -v most="$4" 'BEGIN { exit !(n >= least && n <= most) }' || fail "$1: found $2, expected $3 to $4: $(cat "$work/out" "$work/err")"
}

# The percentage of the samples in functions that are in FUNCTION.
share_of() { # FUNCTION
    awk -v name="$1" 'match($0, /^@f\[[a-z]+/) { n = $NF; if (substr($0, 4, RLENGTH - 3) == name) part += n; if (/^@f\[(mostly|rarely)/) all += n } END { printf "%.1f\n", all ? 100 * part / all : 0 }' "$work/out"
}

# The threads of a processor share its timer, so how many of its samples a thread gets is a matter of chance, which is small among many.
shares() { # WIDTH ARG...
    local v=$victims/$1/v_shares all i
    run_probity trace -q -e 'profile:hz:997 { @f[usym(reg("ip"))] = count(); @c[comm] = count(); @m[model] = count(); @p[pcomm] = count(); @t[tid] = count(); @n = count();
        @odd = sum(pid == tid || uid != '$UID' || cpu >= ncpus ? 1 : 0); }' -- "$v" "${@:2}" -t 3 -m 700 >"$work/out" 2>"$work/err"
    all=$(awk '$1 == "all" { print $2 }' "$work/out")
    between "$* samples of $all ms" "$(value_of "$work/out" @n)" $((all * 997 / 1000 * 90 / 100)) $((all * 997 / 1000 * 110 / 100))
    between "$* share of mostly" "$(share_of mostly)" 62 78
    for i in 0 1 2; do between "$* samples of thread $i" "$(value_of "$work/out" "@c[share$i]")" $((all * 997 / 3000 * 85 / 100)) $((all * 997 / 3000 * 115 / 100)); done
    between "$* samples of the thread that sleeps" "$(value_of "$work/out" '@c[sleeper]')" 0 5 # it starts and gives itself a name
    expect_equal "$* samples of the model" "$(value_of "$work/out" "@m[$1]")" "$(value_of "$work/out" @n)"
    expect_equal "$* samples of the process by its name" "$(value_of "$work/out" '@p[v_shares]')" "$(value_of "$work/out" @n)"
    between "$* samples with odd values" "$(value_of "$work/out" @odd)" 0 15 # before the threads
    [ ! -s "$work/err" ] || fail "$*: $(cat "$work/err")"
}

has_thread() { # PID NAME
    cat "/proc/$1/task/"*/comm 2>/dev/null | shows -x "$2"
}

# Two processes, one that sleeps; threads that are there already. The clock of the samples shows that none is counted twice.
processes() { # WIDTH
    local sleeping busy
    start_victim "$victims/$1/v_shares" -s
    wait_ready
    sleeping=$victim_pid
    "$victims/$1/v_shares" -t 1 -m 100000 >"$work/busy" &
    busy=$!
    started+=("$busy")
    wait_until 10 has_thread "$busy" share0 || fail "no threads"
    run_probity trace -q -e 'profile:hz:499 { @p[pid]++; @c[comm]++; if (@first == 0) { @first = nsecs; } @ns = nsecs - @first; @n++; if (@n == 300) { exit(); } }' \
        -p "$sleeping" -p "$busy" >"$work/out" 2>"$work/err" {victim_in}>&-
    kill -KILL "$busy"
    wait "$busy" 2>/dev/null || true
    expect_equal "$1-bit samples of the busy process" "$(value_of "$work/out" "@p[$busy]")" "$(value_of "$work/out" "@c[share0]")"
    expect_equal "$1-bit samples of the one that sleeps" "$(value_of "$work/out" "@p[$sleeping]")" 0
    between "$1-bit time of 300 samples" "$(value_of "$work/out" @ns)" 570000000 100000000000
    end_victim
}

# The registers are those of the program: its code and its stack can be read through them.
registers() { # WIDTH
    local v=$victims/$1/v_shares
    run_probity trace -q -e 'profile:ms:1 { @[*(uint8 *)reg("ip") == 0] = count(); @s = max(*(uint8 *)reg("sp")); }' -- "$v" -t 1 -m 300 >"$work/out" 2>"$work/err"
    between "$1-bit reads of code" "$(value_of "$work/out" '@[false]')" 200 400
}

# Without -p and a command: the processes that the other probes mean.
found() {
    local v=$victims/64/v_shares
    start_victim "$v" -w -t 1 -m 1000
    wait_ready
    "$probity" trace -q -e "uprobe:$v:mostly { @calls = count(); } profile:hz:99 { @[pid] = count(); }" >"$work/out" 2>"$work/err" {victim_in}>&- &
    counter_pid=$!
    started+=("$counter_pid")
    wait_until 30 grep -q probity_session "/proc/$victim_pid/maps" || fail "no probes: $(cat "$work/err")"
    wait_until 30 grep -qE '^(7|271) ' "/proc/$counter_pid/syscall"
    release
    end_victim
    end_count
    between "samples of a process that was found" "$(value_of "$work/out" "@[$victim_pid]")" 85 110
}

# A controller that does not read for a while: what was sampled and what was lost is all that there was.
losses() {
    local all n lost
    start_victim "$victims/64/v_shares" -w -t 1 -m 1000
    wait_ready
    "$probity" trace -q -e 'profile:us:100 { @n = count(); }' -p "$victim_pid" >"$work/out" 2>"$work/err" {victim_in}>&- &
    counter_pid=$!
    started+=("$counter_pid")
    wait_until 30 grep -q perf_event "/proc/$counter_pid/maps" || fail "no ring: $(cat "$work/err")"
    wait_until 30 grep -qE '^(7|271) ' "/proc/$counter_pid/syscall"
    kill -STOP "$counter_pid"
    release
    end_victim
    kill -CONT "$counter_pid"
    wait "$counter_pid"
    all=$(awk '$1 == "all" { print $2 }' "$victim_out") n=$(value_of "$work/out" @n)
    lost=$(sed -n 's/^Lost \([0-9]*\) events$/\1/p' "$work/err" | awk '{ n += $1 } END { print n + 0 }')
    between "lost samples" "$lost" 1000 $((all * 10))
    between "samples and losses of $all ms" $((n + lost)) $((all * 95 / 10)) $((all * 105 / 10))
}

bad() { # CODE MESSAGE ARG...
    local code=0
    run_probity "${@:3}" >"$work/out" 2>"$work/err" </dev/null || code=$?
    expect_equal "exit code of ${*:3}: $(cat "$work/err")" $code "$1"
    grep -q "$2" "$work/err" || fail "${*:3}: $(cat "$work/err")"
}

# perf_event_open(2) fails with EPERM for the command that this becomes.
forbidden() { # COMMAND...
    "$python" -c 'import ctypes, os, struct, sys
code = ((0x20, 0, 0, 0), (0x15, 0, 1, 298), (0x06, 0, 0, 0x50001), (0x06, 0, 0, 0x7fff0000))
text = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *c) for c in code))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(code), ctypes.addressof(text)))
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program, 0, 0) == 0
os.execv(sys.argv[1], sys.argv[1:])' "$@"
}

refused() {
    local code=0
    bad 2 'profile:hz:99: no process to sample' trace -e 'profile:hz:99 { @ = count(); }'
    start_victim "$victims/64/v_shares" -s
    wait_ready
    forbidden "$probity" trace -e 'profile:hz:99 { @ = count(); }' -p "$victim_pid" >"$work/out" 2>"$work/err" {victim_in}>&- || code=$?
    expect_equal "exit code without perf events: $(cat "$work/err")" $code 4
    grep -q 'perf_event_open: not permitted: .*CAP_PERFMON' "$work/err" || fail "$(cat "$work/err")"
    text_is_the_files "$victim_pid"
    end_victim
}

for width in 64 32; do
    shares $width
    shares $width -f
    processes $width
    registers $width
done
found
losses
refused
