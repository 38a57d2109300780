#!/bin/bash
# What a probe takes of the program's stack, seen in a handler on an alternate stack of 8 KB: below 1,024 bytes, whatever the clause does. Where
# the kernel's frame has large vector registers, such a stack has some 4,000 bytes left. (issue 13.9)
# timeout: 240
. "$(dirname "$0")/lib.sh"
most=1024

used() { # FILE
    sed -n 's/^used //p' "$1"
}
check() { # WHAT LEAST PROGRAM BASE COMMAND...
    local what=$1 least=$2 program=$3 base=$4
    shift 4
    "$@" -- "$program" >"$work/out" 2>"$work/err" || complain "$what: exit code $?: $(cat "$work/err")"
    grep -q '^sum' "$work/out" || { complain "$what: the program did not end well: $(cat "$work/err")"; return; }
    local bytes=$(($(used "$work/out") - base))
    echo "$what: $bytes bytes"
    [ $bytes -gt "$least" ] || complain "$what: only $bytes bytes: nothing of ours can have run"
    [ $bytes -le $most ] || complain "$what takes $bytes bytes of the program's stack, more than $most"
}

clauses=(
    'uprobe:*:probed { @ = count(); }'
    'uprobe:*:probed { @[arg0] = hist(arg1); @t[tid] = tseries(arg0, 1s, 4); }'
    'uprobe:*:probed { printf("%d %s %s %d\n", arg0, str(arg1), comm, tid); }'
    'uprobe:*:probed { @[arg0, comm] = nsecs; delete(@[arg0 - 1, comm]); if (strcontains(str(arg1), "of")) { @n++; } }'
    'uprobe:*:probed { @[ustack] = count(); @s[ustack(3)] = sum(arg0); }'
    'uprobe:*:deeper { @[ustack(perf), str(arg1), comm] = stats(arg0); printf("%s %r", usym(reg("ip")), buf(reg("sp"), 64)); }'
    'uretprobe:*:probed { printf("%s", ustack); @x[str(reg("sp"), 64)] = lhist(retval, 0, 100, 1); print(@x); }'
    'uretprobe:PROGRAM:x87 { @ = max(elapsed); printf("%f", retval); }'
    'uprobe:*:deeper { for ($i : 0..10) { @[$i, arg0] = avg($i * arg0); } @f[func, probe, cpu, rand] = min(arg0); }'
    'uprobe:PROGRAM:probed { printf("%f %s", args.real, str(args.text)); @ = sum((int64)args.real); }'
)
for width in 64 32; do
    program=$victims/$width/v_stack_use
    "$program" >"$work/alone"
    base=$(used "$work/alone")
    for clause in "${clauses[@]}"; do check "$width bit, $clause" 400 "$program" "$base" "$probity" trace -q -o "$work/trace" -e "${clause/PROGRAM/$program}"; done
    check "$width bit, --lossless" 400 "$program" "$base" "$probity" trace -q --lossless -o "$work/trace" -e 'uprobe:*:* { printf("%s %s", func, ustack(50)); }'
    check "$width bit, count" -1 "$program" "$base" "$probity" count '*:*' '*:*:return'
    check "$width bit, calls" 40 "$program" "$base" "$probity" record -q --calls '*' -o "$work/named.trace"
done
exit $failed
