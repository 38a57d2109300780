#!/bin/bash
# How much of a process's address space the memory takes that it shares with its controller: what is used of it, not what could be. It grows
# with the probes, also past what was there when a child was forked, whose own probes go on counting. (S2.2)
# timeout: 120
. "$(dirname "$0")/lib.sh"

size_of() { # PID: KB
    awk '/^VmSize:/ { print $2 }' "/proc/$1/status"
}

is_larger() { # PID KB
    [ "$(size_of "$1")" -gt "$2" ]
}

# Kept open, so that the process does not end before it was looked at.
grows_by() { # WIDTH MOST-MB ARG...
    local width=$1 most=$2 before after runner code=0
    shift 2
    start_victim "$victims/$width/v_count" -t 2 -n 1000 -w
    wait_ready
    before=$(size_of "$victim_pid")
    python3 test/live/process.py code "$victim_pid" >"$work/code"
    rm -rf "$work/out"
    "$probity" "$@" -p "$victim_pid" >"$work/lines" 2>"$work/err" {victim_in}>&- &
    runner=$!
    started+=("$runner")
    wait_until 30 is_probed || fail "$width-bit, $1: no probes: $(cat "$work/err")"
    after=$(size_of "$victim_pid")
    echo "$width-bit, $1: $(((after - before) / 1024)) MB"
    [ $((after - before)) -le $((most * 1024)) ] || fail "$width-bit, $1 takes $(((after - before) / 1024)) MB instead of $most"
    release
    wait_ready 2
    release
    end_victim
    wait "$runner" || code=$?
    # 3: on a busy machine the program may have ended before it was attached to as a whole.
    [ $code = 0 ] || [ $code = 3 ] || fail "$width-bit, $1: $(cat "$work/err")"
}

is_probed() {
    ! alive "$victim_pid" || ! python3 test/live/process.py code "$victim_pid" | cmp -s - "$work/code"
}

# Rings are as many as twice the processors, 16 at most, of 4 MB each if that is more than they have together at least.
rings=1
while [ "$rings" -lt $(($(getconf _NPROCESSORS_CONF) * 2)) ] && [ "$rings" -lt 16 ]; do rings=$((rings * 2)); done
rings_mb=$((rings * 4 > 32 ? rings * 4 : 32))
grows_by 64 20 count '*:*' '*:*:return'
grows_by 64 $((32 + rings_mb)) record -q -o "$work/out" --calls '*'
grows_by 64 $((8 + rings)) trace -e 'uprobe:*v_count:f1 { @ = count(); }'
grows_by 64 64 climb -q
grows_by 32 100 count '*:*'

# ---- growing ----

# Libraries with more trace points than there is room for at first; a child from before they came, whose handlers interrupt its probes.
cat >"$work/grow.py" <<'EOF'
import os, signal, sys
hits = [0]
def hit(*_):
    hits[0] += 1
def work():
    hits[0] = 0
    signal.signal(signal.SIGALRM, hit)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    total = i = 0
    while hits[0] < 30:
        i += 1
        total += len(str(i))
    signal.setitimer(signal.ITIMER_REAL, 0)
    return total == sum(len(str(k)) for k in range(1, i + 1))
begin, done = os.pipe(), os.pipe()
pid = os.fork()
if not pid:
    os.read(begin[0], 1)
    good = work()
    os._exit(0 if good else 1)
import decimal, json, sqlite3, ssl
good = work() and sqlite3.connect(":memory:").execute("select 6 * 7").fetchone() == (42,)
os.write(begin[1], b"x")
good = good and os.waitpid(pid, 0)[1] == 0
print("good" if good else "bad")
EOF
"$python" -c 'import decimal, json, sqlite3, ssl' || skip "python3 has no ssl or sqlite3"
for options in "" "*:*:return"; do
    run_probity count '*:*' $options -- "$python" "$work/grow.py" >"$work/lines" 2>"$work/err" || fail "growing: $(tail -n 3 "$work/err")"
    grep -q '^good$' "$work/lines" || fail "growing: the program is wrong: $(head -n 3 "$work/lines")"
done
rm -rf "$work/out"
run_probity record -q -o "$work/out" --calls '*' -- "$python" "$work/grow.py" >"$work/lines" 2>"$work/err" || fail "growing, record: $(tail -n 3 "$work/err")"
grep -q '^good$' "$work/lines" || fail "growing, record: the program is wrong"
