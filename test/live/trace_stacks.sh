#!/bin/bash
# ustack in scripts: at the same places of the same process as gdb's, in both widths, through code without frame pointers, signal frames,
# thread starts and libraries that come and go. Totals are exact; what the program prints is unchanged; nothing is left behind. (S4.1, S2.2)
# timeout: 400
. "$(dirname "$0")/lib.sh"

start_trace() { # ARG...
    : >"$work/err"
    "$probity" trace "$@" >"$work/out" 2>"$work/err" {victim_in}>&- &
    tracer_pid=$!
    started+=("$tracer_pid")
    wait_until 30 grep -q '^Attached' "$work/err" || fail "probity does not attach: $(cat "$work/err")"
}

end_trace() {
    kill -INT "$tracer_pid"
    wait_until 20 gone "$tracer_pid" || fail "probity does not end"
    wait "$tracer_pid" || fail "probity ended with $?: $(cat "$work/err")"
}

start_gdb() { # PID FUNCTION HITS
    rm -f "$work/gdb.ready"
    python3 test/live/stacks.py gdb "$1" "$2" "$3" "$work/gdb" >"$work/gdb.log" 2>&1 {victim_in}>&- &
    gdb_pid=$!
    started+=("$gdb_pid")
    wait_until 60 test -e "$work/gdb.ready" || fail "gdb does not attach: $(tail -n 5 "$work/gdb.log")"
}

end_gdb() {
    wait_until 100 gone "$gdb_pid" || fail "gdb does not end: $(tail -n 5 "$work/gdb.log")"
    wait "$gdb_pid" || fail "gdb ended with $?: $(tail -n 5 "$work/gdb.log")"
}

same_as_gdb() { # NAME: what both wrote
    python3 test/live/stacks.py compare "$work/gdb" "$work/out" >"$work/difference" || fail "$1: $(head -c 3000 "$work/difference")"
    echo "$1: $(tail -n 1 "$work/difference")"
}

# One round for us, the next for gdb, in one process.
victim_as_gdb() { # WIDTH
    local v=$victims/$1/v_marks marks
    marks=$("$v" | sed -n 's/^mark //p')
    start_victim "$v" -r 2 -w
    wait_ready
    mapping_kinds "$victim_pid" >"$work/before"
    start_trace -p "$victim_pid" -e "uprobe:$v:mark { printf(\"stack\n%s\nend\n\", ustack(raw, 1000)); }"
    release
    wait_ready 2
    end_trace
    text_is_the_files "$victim_pid"
    mapping_kinds "$victim_pid" | diff "$work/before" - || fail "$1-bit: mappings were left behind"
    start_gdb "$victim_pid" mark "$marks"
    release
    end_gdb
    same_as_gdb "$1-bit v_marks"
    wait_ready 3
    end_victim
}

# At every instruction of some functions that can have a probe: prologues, epilogues, between them, with a red zone or a frame that is aligned.
inside_as_gdb() { # WIDTH FUNCTION
    local v=$victims/$1/v_marks offsets place probes= breaks=
    offsets=$(objdump -d --no-show-raw-insn "$v" | awk -v name="<$2>:" '$2 == name { inside = 1; next } !NF { inside = 0 } inside { sub(":", "", $1); print $1 }')
    local first=$((16#${offsets%%$'\n'*}))
    for place in $offsets; do
        probes+=${probes:+, }uprobe:$v:$2+$((16#$place - first))
        breaks+=${breaks:+,}$2+$((16#$place - first))
    done
    start_victim "$v" -r 2 -w
    wait_ready
    start_trace -p "$victim_pid" -e "$probes { printf(\"stack\n%s\nend\n\", ustack(raw, 1000)); }"
    release
    wait_ready 2
    end_trace
    start_gdb "$victim_pid" "$breaks" 0
    release
    end_gdb
    python3 test/live/stacks.py within "$work/gdb" "$work/out" >"$work/difference" || fail "$1-bit $2: $(head -c 3000 "$work/difference")"
    echo "$1-bit $2: $(tail -n 1 "$work/difference")"
    wait_ready 3
    end_victim
}

# A program of the distribution that obeys its standard input: the same input for us and for gdb, after it was given once.
program_as_gdb() { # NAME FUNCTION SPEC INPUT DONE COMMAND...
    local name=$1 function=$2 spec=$3 input=$4 done=$5 hits
    shift 5
    start_victim "$@"
    say() { # N: gives it the input for the N-th time
        printf '%s\n' "$input" "${done/FILE/$work/done.$1}" >&"$victim_in"
    }
    rm -f "$work"/done.*
    say 1
    wait_until 30 test -e "$work/done.1" || fail "$name: no answer: $(cat "$victim_err")"
    start_trace -p "$victim_pid" -e "uprobe:$spec { printf(\"stack\n%s\nend\n\", ustack(raw, 1000)); }"
    say 2
    wait_until 30 test -e "$work/done.2" || fail "$name: no answer"
    end_trace
    hits=$(grep -c '^stack$' "$work/out")
    [ "$hits" -ge 20 ] || fail "$name: only $hits hits"
    start_gdb "$victim_pid" "$function" "$hits"
    say 3
    end_gdb
    same_as_gdb "$name"
    wait_until 30 test -e "$work/done.3" || fail "$name: no answer"
    exec {victim_in}>&-
    wait "$victim_pid" || fail "$name ended with $?"
}

# The sum over all stacks of @NAME is what was counted.
total_of_stacks() { # FILE NAME
    awk -v name="$2" 'index($0, name "[") == 1 { inside = 1 } inside && /^\]: / { n += $2; inside = 0 } END { print n + 0 }' "$1"
}

# One stack a line, without offsets, lines and inlined functions.
names() {
    sed -E '/^ +\[inlined\] /d; s/^ +//; s/\+[0-9]+(@.*)?$//' | tr '\n' ' ' | sed 's/\]: [0-9]* /]\n/g'
}

exact() { # WIDTH
    local v=$victims/$1/v_marks marks
    run_probity trace -q -e "uprobe:$v:mark { @[ustack] = count(); @three[ustack(3)] = count(); @n = count(); }
        uretprobe:$v:inner { @from[ustack(2)] = count(); }" -- "$v" -t 8 -n 20000 >"$work/out" 2>"$work/err"
    "$v" -t 8 -n 20000 >"$work/native"
    grep -E '^(mark|sum) ' "$work/out" | cmp - "$work/native" || fail "$1-bit: another output"
    marks=$(sed -n 's/^mark //p' "$work/native")
    expect_equal "$1-bit stacks" "$(total_of_stacks "$work/out" @)" "$marks"
    expect_equal "$1-bit short stacks" "$(total_of_stacks "$work/out" @three)" "$marks"
    # tail() calls inner() by a jump.
    expect_equal "$1-bit stacks of returns" "$(total_of_stacks "$work/out" @from)" $((marks - 1 - 3))
    [ ! -s "$work/err" ] || fail "$1-bit: $(cat "$work/err")"
    # recurse() from many(), to where a thread begins.
    names <"$work/out" | grep -E 'mark inner outer recurse recurse recurse many [a-z_0-9]+ [a-z_0-9]+ \]' >/dev/null ||
        fail "$1-bit: $(grep -B4 -A3 many "$work/out" | head -n 40)"
    # Where a function returns it is not on the stack any more.
    names <"$work/out" | grep '@from\[ outer recurse \]' >/dev/null || fail "$1-bit: $(grep -A3 @from "$work/out")"
}

# No room for more than some: what is lost is said, counts stay exact.
bounded() { # WIDTH
    local v=$victims/$1/v_marks
    run_probity trace -q -e "config = { max_stack_nodes = 40 } uprobe:$v:mark { @[ustack] = count(); }" -- "$v" >"$work/out" 2>"$work/err"
    expect_equal "$1-bit stacks without room" "$(sed -n 's/^\(@.*\)*\]: //p' "$work/out" | awk '{ n += $1 } END { print n }')" 19
    grep -q 'stacks were lost for want of room' "$work/err" || fail "$1-bit: no word of lost stacks: $(cat "$work/err")"
}

# Stacks that make no sense: the program does not notice.
wild() { # WIDTH
    local v=$victims/$1/v_wild_stack rounds
    rounds=$(scale 2000 40000)
    "$v" -n "$rounds" >"$work/native"
    run_probity trace -q -e "uprobe:$v:mark { @[ustack] = count(); @deep[ustack(1024)] = count(); @n = count(); }" -- "$v" -n "$rounds" >"$work/out" 2>"$work/err" ||
        fail "$1-bit: the program ends with $?"
    grep -E '^(mark|sum) ' "$work/out" | cmp - "$work/native" || fail "$1-bit: another output"
    expect_equal "$1-bit wild stacks" "$(sed -n 's/^@n: //p' "$work/out")" "$(sed -n 's/^mark //p' "$work/native")"
}

# A library that comes and goes, with the table that it brings: from its constructor on.
plugin() { # WIDTH
    local v=$victims/$1/v_dlopen
    run_probity trace -q -e "uprobe:$victims/$1/libv_plugin.so:plugin_work { @[ustack(perf, 3)] = count(); }
        uprobe:$victims/$1/libv_plugin.so:plugin_load { @load[ustack(2)] = count(); }" -- "$v" -n 30 >"$work/out" 2>"$work/err"
    expect_equal "$1-bit stacks in a plugin" "$(total_of_stacks "$work/out" @)" 3000
    expect_equal "$1-bit stacks of constructors" "$(total_of_stacks "$work/out" @load)" 30
    grep -q "plugin_work+0 ($victims/$1/libv_plugin.so)" "$work/out" || fail "$1-bit: $(head -n 5 "$work/out")"
    grep -q "main+[0-9]* ($v)" "$work/out" || fail "$1-bit: $(head -n 5 "$work/out")"
    grep -qE 'call_init|_dl_init|sub_' "$work/out" || fail "$1-bit: nobody called the constructor: $(grep -A3 @load "$work/out")"
}

# Both data models and forked children in one session, symbols of all of them after they have ended.
both_models() {
    start_victim "$victims/32/v_marks" -r 1 -w
    local pid=$victim_pid in=$victim_in out=$victim_out
    wait_ready
    start_victim "$victims/64/v_marks" -r 1 -w
    wait_ready
    start_trace -p "$pid" -p "$victim_pid" -e 'uprobe:*v_marks:mark { @[model, ustack] = count(); }'
    echo >&"$in"
    release
    wait_ready 2
    wait_until 30 lines_are "$out" '^ready$' 2 || fail "the 32-bit program does not go on"
    echo >&"$in"
    release
    wait "$pid" && wait "$victim_pid" || fail "a program ended with $?"
    wait_until 20 gone "$tracer_pid" || fail "probity does not end"
    wait "$tracer_pid" || fail "probity ended with $?: $(cat "$work/err")"
    local model
    for model in 32 64; do
        expect_equal "stacks of $model bit" "$(awk -v m="@[$model," 'index($0, m) == 1 { inside = 1 } inside && /^\]: / { n += $2; inside = 0 } END { print n + 0 }' "$work/out")" 19
    done
    grep -q '    through_libc+' "$work/out" || fail "$(head -n 50 "$work/out")"
}

# Handlers interrupt clauses that take stacks, take stacks themselves, and jump out of both.
interrupted() { # WIDTH VICTIM
    local v=$victims/$1/$2
    "$v" >"$work/native" 2>/dev/null
    run_probity trace -q -o "$work/lines" -e "uprobe:$v:* { @[func, ustack] = count(); }" -- "$v" >"$work/traced" 2>"$work/err" || fail "$1-bit $2 ends with $?"
    cmp "$work/native" "$work/traced" || fail "$1-bit $2: another output"
    names <"$work/lines" | grep ' main ' >/dev/null || fail "$1-bit $2: $(head -n 20 "$work/lines")"
}

# Static probe points, and children that were forked: with their own process each.
other_places() { # WIDTH
    local v=$victims/$1/v_usdt
    run_probity trace -q -e "usdt:$v:v_usdt:plain { @[ustack(2)] = count(); }" -- "$v" -n 10 >"$work/out" 2>"$work/err"
    names <"$work/out" | grep -E '@\[ plain [a-z_]+ \]' >/dev/null || fail "$1-bit usdt: $(cat "$work/out" "$work/err")"
    v=$victims/$1/v_fork
    run_probity trace -q -e "uprobe:$v:fork_work { @[pid, ustack] = count(); @n = count(); }" -- "$v" -n 100 >"$work/out" 2>"$work/err"
    expect_equal "$1-bit stacks of children" "$(total_of_stacks "$work/out" @)" "$(sed -n 's/^@n: //p' "$work/out")"
    [ "$(names <"$work/out" | grep -cE '@\[[0-9]+, +fork_work (work )?main .*_start \]')" -ge 4 ] || fail "$1-bit fork: $(names <"$work/out")"
}

# C++ with inlining, exceptions and timers whose handlers interrupt clauses: the same stacks as gdb's, and it outlives coming and going.
timers() { # WIDTH
    local v=$victims/$1/v_stacks
    start_victim "$v"
    wait_ready
    for _ in $(seq "$(scale 3 30)"); do
        run_probity trace -q -e 'uprobe:libc.so.6:malloc { @[comm, str(reg("sp"))] = count(); @s[ustack(raw, 1000)] = count(); } interval:s:1 { exit(); }' \
            -p "$victim_pid" >"$work/out" 2>"$work/err" {victim_in}>&- || fail "$1-bit v_stacks: $(cat "$work/err")"
        alive "$victim_pid" || fail "$1-bit: the program with timers did not live"
    done
    text_is_the_files "$victim_pid"
    start_gdb "$victim_pid" malloc 150
    end_gdb
    sed -n '/^@s\[/,/^\]/p' "$work/out" | sed 's/^@s\[.*/stack/; s/^\]: .*/end/' >"$work/ours"
    python3 test/live/stacks.py among "$work/gdb" "$work/ours" >"$work/difference" || fail "$1-bit v_stacks: $(head -c 3000 "$work/difference")"
    echo "$1-bit v_stacks: $(tail -n 1 "$work/difference")"
    kill -KILL "$victim_pid"
    exec {victim_in}>&-
    wait "$victim_pid" 2>/dev/null || true
}

# Samples: to where the thread began.
sampled() { # WIDTH
    local v=$victims/$1/v_shares all whole
    run_probity trace -q -e "profile:hz:499 { @[ustack] = count(); @n = count(); } uprobe:$v:mostly { @in[ustack] = count(); }" -- "$v" -t 2 -m 500 >"$work/out" 2>"$work/err"
    all=$(sed -n 's/^@n: //p' "$work/out")
    expect_equal "$1-bit sampled stacks" "$(total_of_stacks "$work/out" @)" "$all"
    whole=$(sed -E '/^ +\[inlined\] /d; s/^ +//; s/\+[0-9]+(@.*)?$//' "$work/out" | tr '\n' ' ' | grep -oE '@\[ (mostly|rarely) work [a-z_0-9]+ [a-z_0-9]+ \]: [0-9]+' | awk '{ n += $NF } END { print n + 0 }')
    [ "$all" -ge 300 ] && [ $((whole * 100)) -ge $((all * 95)) ] || fail "$1-bit: $whole of $all samples are whole: $(names <"$work/out" | head -n 40)"
    names <"$work/out" | grep -E '@in\[ mostly work [a-z_0-9]+ [a-z_0-9]+ \]' >/dev/null || fail "$1-bit: $(grep -A5 @in "$work/out")"
}

# The controller is killed while threads take stacks.
killed() { # WIDTH
    local v=$victims/$1/v_marks
    "$v" -r 3 -t 8 -n 20000 >"$work/native"
    start_victim "$v" -r 3 -w -t 8 -n 20000
    wait_ready
    mapping_kinds "$victim_pid" >"$work/before"
    start_trace -p "$victim_pid" -e "uprobe:$v:mark { @[ustack] = count(); }"
    release
    wait_ready 2
    kill -KILL "$tracer_pid"
    wait "$tracer_pid" 2>/dev/null || true
    release
    wait_ready 3
    start_trace -p "$victim_pid" -e "uprobe:$v:mark { @[ustack] = count(); }"
    release
    wait_ready 4
    end_trace
    text_is_the_files "$victim_pid"
    mapping_kinds "$victim_pid" | diff "$work/before" - || fail "$1-bit: mappings were left behind"
    grep -v ready "$victim_out" | cmp - "$work/native" || fail "$1-bit: another output"
    end_victim
}

sql='create temp table if not exists t(a, b); delete from t;
insert into t values (3, "x"), (1, "y"), (2, "z"); select a, count(*) from t group by b order by a;'
code='x = [bytes(600 + i) for i in range(9)]; y = sorted(x, key=lambda s: bytearray(700)); z = {len(k): k + k for k in y}'

victim_as_gdb 64
victim_as_gdb 32
for width in 64 32; do
    inside_as_gdb $width with_alignment
    inside_as_gdb $width with_alloca
    inside_as_gdb $width tail
done
program_as_gdb sqlite3 malloc libc.so.6:malloc "$sql" '.shell : >FILE' sqlite3 :memory:
program_as_gdb python3 malloc libc.so.6:malloc "$code" 'open("FILE", "w").close()' "$python" -i -q
both_models
for width in 64 32; do
    exact $width
    bounded $width
    wild $width
    plugin $width
    killed $width
    interrupted $width v_signals
    interrupted $width v_sigjmp
    other_places $width
    sampled $width
    timers $width
done
