#!/bin/bash
# Where scripts can fire and what they see there: arguments and results by debug information, source lines and locals, USDT probes with
# semaphores, offsets and addresses, globs, follow over fork and exec, processes found by their file. (S0.3, S2.6)
# timeout: 120
. "$(dirname "$0")/lib.sh"

cat >"$work/job.c" <<'END'
#include <stdio.h>
#include <string.h>
#include <stdlib.h>
struct pair { double ratio; long count; };
struct large { int value[10]; };
__attribute__((noipa)) long many(int a, const char *name, double d, float f, long e, long g, long h, long i, struct pair pair, struct large large)
{
    int local = a * 2;
    char text[8];
    strcpy(text, "here");
    local += (int)strlen(text); /* line of interest */
    return local + i + large.value[3] + (long)(pair.ratio + d + f) + e + g + h + (long)strlen(name) + pair.count;
}
__attribute__((noipa)) double half(double x) { return x / 2; }
__attribute__((noipa)) long long wide(int x) { return 0x123456789abcLL + x; }
__attribute__((noipa)) int negative(void) { return -7; }
int main(void)
{
    struct large large = {{1, 2, 3, 44}};
    struct pair pair = {2.5, 77};
    for (int i = 0; i < 3; i++)
        printf("%ld %g %lld %d\n", many(21 + i, "hello", 3.25, 1.5f, 5, 6, 7, 8, pair, large), half(i + 5), wide(i), negative());
    return 0;
}
END
line=$(grep -n 'line of interest' "$work/job.c" | cut -d: -f1)

points() { # WIDTH
    local job=$work/job$1
    gcc -m"$1" -g -O0 -o "$job" "$work/job.c"
    run_probity trace -q -o "$work/out" -e "uprobe:$job:many { printf(\"%d %s %g %g %ld %ld %g %ld %d\n\", args.a, str(args.name), args.d, args.f, args.h, args.i, args.pair.ratio, args.pair.count, args.large.value[3]); }" -- "$job" >/dev/null
    grep . "$work/out" >"$work/found"
    for a in 21 22 23; do echo "$a hello 3.25 1.5 7 8 2.5 77 44"; done | diff - "$work/found" >&9 || fail "$1-bit arguments"
    run_probity trace -q -o "$work/out" -e "uretprobe:$job:half { printf(\"half %g\n\", retval); } uretprobe:$job:wide { printf(\"wide %llx\n\", retval); } uretprobe:$job:negative { printf(\"negative %d\n\", retval); }" -- "$job" >/dev/null
    grep . "$work/out" | sort >"$work/found"
    printf '%s\n' 'half 2.5' 'half 3' 'half 3.5' 'negative -7' 'negative -7' 'negative -7' 'wide 123456789abc' 'wide 123456789abd' 'wide 123456789abe' | diff - "$work/found" >&9 || fail "$1-bit results"
    run_probity trace -q -o "$work/out" -e "uprobe:$job@job.c:$line { printf(\"%d %s %d\n\", local, str(text), a); }" -- "$job" >/dev/null
    grep . "$work/out" >"$work/found"
    for a in 21 22 23; do echo "$((a * 2)) here $a"; done | diff - "$work/found" >&9 || fail "$1-bit locals at a line"

    local v=$victims/$1/v_usdt
    run_probity trace -q -o "$work/out" -e "usdt:$v:v_usdt:mixed { @id[arg0] = count(); @small = sum((int16)arg3); @ratio = max(arg4); }
        usdt:$v:plain { @name[str(arg1)] = count(); } usdt:$v:v_usdt:guarded { @guarded = count(); }" -- "$v" -n 1000 >"$work/said" 2>&1
    grep . "$work/out" >"$work/found"
    printf '%s\n' '@guarded: 1001' '@id[1]: 250' '@id[2]: 250' '@id[3]: 250' '@id[4]: 250' '@name[four]: 250' '@name[one]: 250' '@name[three]: 250' '@name[two]: 250' '@ratio: 249' '@small: -5000' |
        diff - "$work/found" >&9 || fail "$1-bit USDT"

    # Variables of the program by name, and of the thread.
    run_probity trace -q -o "$work/out" -e "uprobe:$v:mixed { @v = max(*(int32 *)uaddr(\"v_usdt_global\")); self->n++; @n = max(self->n); }
        uretprobe:$v:mixed { @r = max(*(int32 *)uaddr(\"v_usdt_global\")); }" -- "$v" -n 100 >/dev/null 2>&1
    printf '%s\n' '@n: 100' '@r: 17' '@v: 17' | diff - <(grep . "$work/out") >&9 || fail "$1-bit variables"

    # Several clauses on one place, several places for one clause, instructions inside.
    v=$victims/$1/v_count
    local offset
    offset=$("$v" --offsets | awk '$1 == "f1" { print $2 }')
    run_probity trace -q -o "$work/out" -e "uprobe:$v:f1, uprobe:$v:f2 { @a[func] = count(); } uprobe:$v:f1 { @b = count(); } uprobe:$v:f1$offset { @c[probe] = count(); }" -- "$v" -n 1000 >"$work/said"
    printf '%s\n' "@a[f1]: 2000" "@a[f2]: 2000" "@b: 2000" "@c[uprobe:$v:f1$offset]: 2000" | sort >"$work/expected"
    grep . "$work/out" | sed "s/+\([0-9]\)/+\1/" | sort | diff "$work/expected" - >&9 || fail "$1-bit places"
}

# A thread has a name, and its process has another.
thread_names() { # WIDTH
    local v=$victims/$1/v_shares
    run_probity trace -q -o "$work/out" -e "uprobe:$v:mostly /pcomm == \"v_shares\" && comm != pcomm/ { @[comm, comm(pid)] = count(); }
        uprobe:$v:mostly /pcomm != \"v_shares\"/ { @other = count(); }" -- "$v" -t 2 -m 20 >/dev/null
    expect_equal "$1-bit names" "$(sed -n 's/^\(.*\): [0-9]*$/\1/p' "$work/out" | sort | paste -sd ' ')" '@[share0, v_shares] @[share1, v_shares]'
}

for width in 64 32; do
    points $width
    thread_names $width
done

# fork and exec, from a 64-bit shell to both widths and back.
cat >"$work/family.sh" <<END
$victims/64/v_count -n 10
($victims/32/v_count -n 10)
exec $victims/32/v_count -n 10
END
printf '%s\n' '@[32]: 40' '@[64]: 20' '@exit: 3' | sort >"$work/expected"
for i in $(seq 8); do # a program may be executed while the controller waits for something else
    run_probity trace -q -o "$work/out" --follow -e 'uprobe:*v_count:f1 { @[model] = count(); } uprobe:libc:exit { @exit = count(); }' -- bash "$work/family.sh" >/dev/null
    grep . "$work/out" | sort | diff "$work/expected" - >&9 || fail "--follow, time $i"
done

# Names are compared, too.
v=$victims/64/v_count
run_probity trace -q -o "$work/out" -e "uprobe:$v:f? /func == \"f3\"/ { @[func] = count(); } uprobe:$v:f1 /probe != \"uprobe:$v:f1\"/ { @other = count(); }
    BEGIN /probe == \"BEGIN\"/ { printf(\"begun\n\"); }" -- "$v" -n 1000 >/dev/null
printf '%s\n' '@[f3]: 2000' begun >"$work/expected"
grep . "$work/out" | sort | diff "$work/expected" - >&9 || fail "comparison of names"

# What was speculated is printed when it is committed, and not when it is discarded.
run_probity trace -q -o "$work/out" -e "uprobe:$v:f1 { speculate(); printf(\"kept %d\n\", @n % 10); if (@n % 10 == 3) { commit(); } else { discard(); } @n++; }" -- "$v" -t 1 -n 500 >/dev/null
expect_equal "committed" "$(grep -c '^kept 3$' "$work/out")" 50
expect_equal "discarded" "$(grep '^kept' "$work/out" | grep -vc ' 3$' || true)" 0

is_probed() { # PID: it has the session's memory, and the controller waits again
    grep -q probity_session "/proc/$1/maps" && grep -qE '^(7|271) ' "/proc/$counter_pid/syscall" 2>/dev/null
}

# Without a process or a command: those that map the file, now or later; names of addresses when they have ended. The file is one that no other
# test executes.
cp "$v" "$work/v_count"
v=$work/v_count
start_victim "$v" -w -n 1000
wait_ready
first=$victim_pid first_in=$victim_in
"$probity" trace -q -o "$work/out" -e "uprobe:$v:f1 { @[usym(reg(\"ip\"))] = count(); @p[pid] = count(); }" {first_in}>&- 2>"$work/err" &
counter_pid=$!
started+=("$counter_pid")
wait_until 30 is_probed "$first" || fail "a running process is not found"
start_victim "$v" -w -n 1000
wait_ready
wait_until 30 is_probed "$victim_pid" || fail "a new process is not found"
second=$victim_pid
release
end_victim
# One that was there before it executed the program: for a moment, and for longer than is waited for that.
late=()
for seconds in 0.5 2; do
    start_victim bash -c "sleep $seconds; exec '$v' -w -n 1000"
    wait_ready
    wait_until 30 is_probed "$victim_pid" || fail "a process that executes the program after $seconds s is not found"
    late+=("$victim_pid")
    release
    end_victim
done
victim_pid=$first victim_in=$first_in
release
end_victim
kill -INT "$counter_pid"
wait "$counter_pid" || fail "probity ended with $?: $(cat "$work/err")"
printf '%s\n' '@[f1]: 2000' '@[f1]: 2000' '@[f1]: 2000' '@[f1]: 2000' "@p[$first]: 2000" "@p[$second]: 2000" "@p[${late[0]}]: 2000" "@p[${late[1]}]: 2000" | sort >"$work/expected"
grep . "$work/out" | sort | diff "$work/expected" - >&9 || fail "processes found by their file"
