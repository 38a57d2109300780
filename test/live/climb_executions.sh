#!/bin/bash
# Hot spots by executions (S3.1): of programs whose most called function is not the one that takes most time, in both widths, started and attached,
# it is found, with its share and its callers' shares as the program itself counts them; without --hot calls the other one is. Counting probes are
# told apart from hooks and leave nothing behind, whatever ends the climb. In check-long: the functions that real programs call most are those
# that `probity count '*:*'` counts most of.
# alone: yes
# timeout: 420
. "$(dirname "$0")/lib.sh"

executions_are() { # NAME KIND RESULT [TRUTH]
    local code=0
    python3 test/live/climb_executions.py "${@:2}" >&9 || code=$?
    case $code in
    0) ;;
    75) out_of_bounds "$1" ;;
    *) fail "$1" ;;
    esac
}

climbs() { # WIDTH KIND SECONDS OPTION...
    local out=$work/$1.$2
    timeout -k 5 240 "$probity" climb -q --json --threshold 10% "${@:4}" -- "$victims/$1/v_climb_calls" "${2/samples/callers}" "$3" >"$out.json" 2>"$out.err" ||
        fail "$1 $2: exit code $?: $(tail -n 3 "$out.err")"
    [ "$(head -n 1 "$out.json")" = done ] || fail "$1 $2: the program's own output is $(head -c 200 "$out.json")"
    sed -i 1d "$out.json"
    executions_are "$1 $2" "$2" "$out.json" "$out.err"
}
for width in 64 32; do
    attempt climbs $width samples 3
    attempt climbs $width callers 5 --hot calls
    attempt climbs $width recursion 5 --hot calls
    # Here shares are those of the time that a climb happened to look at: on a machine with other work to do they are others.
    [ -z "${PROBITY_LONG:-}" ] || attempt climbs $width phases 12 --hot calls
done

start_calls() { # WIDTH SECONDS: sets calls_pid; its counts go to calls.err
    "$victims/$1/v_climb_calls" callers "$2" >"$work/calls.out" 2>"$work/calls.err" &
    calls_pid=$!
    started+=("$calls_pid")
    wait_until 10 lines_are "/proc/$calls_pid/maps" v_climb_calls 1 # not the shell's any more
    wait_until 10 lines_are "/proc/$calls_pid/maps" libc.so 1
}

attached() { # WIDTH: to its end
    start_calls "$1" 5
    timeout -k 5 240 "$probity" climb -q --json --hot calls --threshold 10% -p "$calls_pid" >"$work/attached.json" || fail "attached $1: exit code $?"
    wait "$calls_pid" || fail "attached $1: the program was harmed: $?"
    executions_are "attached $1" callers "$work/attached.json" "$work/calls.err"
}
attempt attached 64
attempt attached 32

# Sends a signal to the climb as soon as counting probes are in: the first change of the program's code.
start_striking() { # SIGNAL
    "$probity" climb --hot calls -p "$calls_pid" >"$work/struck.out" 2>"$work/struck.err" &
    tracer_pid=$!
    started+=("$tracer_pid")
    timeout 240 python3 test/live/process.py kill "$calls_pid" v_climb_calls "$tracer_pid" "$1" >&9 || fail "nothing was counted: $(cat "$work/struck.err")"
}

interrupted() { # WIDTH: Ctrl-C while it counts
    local code=0
    start_calls "$1" 600
    start_striking 2
    wait "$tracer_pid" || code=$?
    [ $code = 0 ] || fail "interrupted $1: exit code $code: $(cat "$work/struck.err")"
    grep -q 'calls were counted of [1-9]' "$work/struck.out" || fail "interrupted $1: nothing is said of counting: $(cat "$work/struck.out")"
    python3 test/live/process.py text "$calls_pid" >&9 || fail "interrupted $1: its text differs"
    alive "$calls_pid" || fail "interrupted $1: the program has ended"
    kill -KILL "$calls_pid"
}
attempt interrupted 64
attempt interrupted 32

abandoned() { # WIDTH: killed while it counts; the program goes on, and the next climb finds a process that is as it was
    start_calls "$1" 600
    start_striking 9
    wait "$tracer_pid" 2>/dev/null || true
    sleep 0.3
    alive "$calls_pid" || fail "abandoned $1: the program has ended"
    ! python3 test/live/process.py text "$calls_pid" >/dev/null 2>&1 || fail "abandoned $1: no probe was left, so that nothing was tried"
    timeout -k 5 240 "$probity" climb -q --hot calls -d 3 -p "$calls_pid" >"$work/next.out" || fail "abandoned $1: the next climb: exit code $?"
    grep -q '^hot spot [12]: often' "$work/next.out" || fail "abandoned $1: the next climb finds $(cat "$work/next.out")"
    python3 test/live/process.py text "$calls_pid" >&9 || fail "abandoned $1: its text differs"
    kill -KILL "$calls_pid"
}
attempt abandoned 64
attempt abandoned 32

ended() { # WIDTH: the program ends while it is counted
    start_calls "$1" 600
    timeout 240 python3 test/live/process.py kill "$calls_pid" v_climb_calls >&9 &
    started+=("$!")
    timeout -k 5 240 "$probity" climb -q --hot calls -p "$calls_pid" >"$work/ended.out" 2>"$work/ended.err" || fail "ended $1: exit code $?: $(cat "$work/ended.err")"
    grep -q 'calls were counted of [1-9]' "$work/ended.out" || fail "ended $1: $(cat "$work/ended.out")"
}
attempt ended 64
attempt ended 32

# A process that does nothing is not touched.
idle() {
    sleep 100 &
    local pid=$!
    started+=("$pid")
    timeout -k 5 240 "$probity" climb -q --hot calls -d 1 -p "$pid" >"$work/idle.out" || fail "idle: exit code $?"
    grep -q 'calls were counted of 0 functions' "$work/idle.out" || fail "idle: $(cat "$work/idle.out")"
    kill -KILL "$pid"
}
attempt idle

# As a part of a recording, whose own calls stay exact; and as a trace of its own.
recorded() { # WIDTH
    timeout -k 5 240 "$probity" record --climb=10% --hot calls --calls 'v_climb_calls:callers' -o "$work/trace" -- "$victims/$1/v_climb_calls" callers 5 >/dev/null 2>"$work/err" ||
        fail "recorded $1: exit code $?: $(tail -n 3 "$work/err")"
    grep -q 'calls counted of [1-9]' "$work/err" || fail "recorded $1: nothing was counted: $(cat "$work/err")"
    "$probity" report --view flat --data events --format json "$work/trace" | python3 -c "
import json, re, sys
found = re.search(r'\"calls\": ?(\d+)[^{}]*\"callers\"|\"name\": ?\"callers\"[^{}]*\"calls\": ?(\d+)', sys.stdin.read())
wanted = next(int(line.split()[1]) for line in open('$work/err') if line.startswith('callers '))
sys.exit(0 if found and wanted in [int(x) for x in found.groups() if x] else f'{found} is not {wanted}')" >&9 2>&9 || fail "recorded $1: calls are not exact"
    "$probity" report --format folded --metric climb "$work/trace" >"$work/folded"
    for caller in by_60 by_30; do
        shows ";callers;$caller;often " "$work/folded" || fail "recorded $1: no $caller: $(cat "$work/folded")"
    done
    ! grep -q ';slow ' "$work/folded" || fail "recorded $1: hot by samples: $(cat "$work/folded")"
}
attempt recorded 64
attempt recorded 32

written() {
    timeout -k 5 240 "$probity" climb -q --hot calls --threshold 10% -o "$work/written" -- "$victims/64/v_climb_calls" callers 4 >/dev/null 2>&1 || fail "written: exit code $?"
    "$probity" report --format folded "$work/written" | shows ';by_60;often ' || fail "written: $("$probity" report --format folded "$work/written")"
}
attempt written

# What is called most in two runs of the same work, the counted one a short one.
cat >"$work/job.py" <<'P'
import json, re, sys
def work(n):
    d = {str(i): [i, i * 2, "x" * (i % 7)] for i in range(n)}
    s = json.dumps(d)
    return len(json.loads(s)) + len(re.findall(r"[0-9]+x*", s))
print(sum(work(1000) for i in range(int(sys.argv[1]))))
P
sql() { # ROUNDS
    for ((i = 0; i < $1; i++)); do
        cat <<'S'
create table t(a integer primary key, b text, c int);
with recursive n(i) as (select 1 union all select i+1 from n where i<20000) insert into t select i, 'row' || (i*7919 % 100003), i % 977 from n;
create index tb on t(b);
select count(*), sum(length(b)) from t where b like '%77%';
select c, count(*) from t group by c order by 2 desc, 1 limit 5;
select count(*) from t x join t y on x.b = y.b;
drop table t;
S
    done
}
sql 8 >"$work/short.sql"
sql 300 >"$work/long.sql"
real() { # NAME SHORT LONG COMMAND...: the first is counted, the other climbed in; @ is in their place in the command
    local command=("${@:4}") input=/dev/null
    [ "$1" != sqlite3 ] || input=$work/$2.sql
    timeout -k 5 240 "$probity" count --json '*:*' -- "${command[@]//@/$2}" <"$input" 2>/dev/null | grep '^{' >"$work/counts" || fail "$1: count: exit code $?"
    [ "$1" != sqlite3 ] || input=$work/$3.sql
    timeout -k 5 240 "$probity" climb -q --json --hot calls --threshold 0.5% -- "${command[@]//@/$3}" <"$input" >"$work/out" || fail "$1: climb: exit code $?"
    tail -n 1 "$work/out" >"$work/real.json"
    executions_are "$1" real "$work/real.json" "$work/counts"
}
if [ -n "${PROBITY_LONG:-}" ]; then
    attempt real python 300 7000 /usr/bin/python3 "$work/job.py" @
    attempt real sqlite3 short long sqlite3 :memory:
fi

refused() { # WORD COMMAND ARG...
    local code=0
    timeout -k 5 120 "$probity" "${@:2}" >/dev/null 2>"$work/refused" || code=$?
    [ $code = 2 ] && [ "$(wc -l <"$work/refused")" = 1 ] && grep -q -e "$1" "$work/refused" || complain "${*:2}: exit code $code: $(cat "$work/refused")"
}
refused 'samples or calls' climb --hot -- true
refused 'samples or calls' climb --hot cpu -- true
refused 'says itself' climb --hot calls --metric bytes=libc:malloc:arg0 -- true
refused 'samples or calls' record --climb --hot time -- true
refused 'give --climb' record --hot calls -o "$work/refused.trace" -- true
exit $failed
