#!/bin/bash
# What a script costs the traced program, beside bpftrace with the same script: one table from one run, the median of interleaved repetitions,
# in nanoseconds of CPU time over the unprobed call. push32 is the same function of a 32-bit program. The last lines compare with the project's own bounds; exit 1 when one is not met.
# Usage: bench/trace.sh [REPETITIONS]
set -euo pipefail
cd "$(dirname "$0")/.."
repetitions=${1:-5}
probity=$PWD/build/probity
victim=$PWD/build/bench/victim
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for program in "$probity" "$victim" "${victim}32"; do
    [ -x "$program" ] || { echo "bench: $program is not built; make bench-programs builds it" >&2; exit 1; }
done

median() { # FILE
    sort -n "$1" | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}

functions=(push lea push32)
names=() programs=() calls=() bounds=()
row() { # NAME CALLS BOUND PROGRAM: FUNCTION in the program stands for the traced one
    names+=("$1") calls+=("$2") bounds+=("$3") programs+=("$4")
}
row "count()" 10000000 10 'uprobe:FUNCTION { @ = count(); }'
row "hist(arg0)" 10000000 30 'uprobe:FUNCTION { @ = hist(arg0); }'
row "latency histogram, entry + return" 2000000 100 'uprobe:FUNCTION { @ns[tid] = nsecs; } uretprobe:FUNCTION /@ns[tid]/ { @ = hist(nsecs - @ns[tid]); delete(@ns[tid]); }'
row "printf of two integers" 2000000 60 'uprobe:FUNCTION { printf("%d %d\n", arg0, arg1); }'
row "@[func] = count()" 5000000 - 'uprobe:FUNCTION { @[func] = count(); }'

# Stacks: 14 frames, of which bpftrace finds those with frame pointers.
stack_programs=('uprobe:FUNCTION { @[ustack] = count(); }' 'uprobe:FUNCTION { @[ustack(4)] = count(); }')
stack_names=("@[ustack] = count(), 14 frames" "@[ustack(4)] = count()")

# The victim prints `ns N`; what the script prints goes elsewhere.
find() { # FUNCTION: sets file and name
    name=${1%32} file=$victim${1#"${1%32}"}
}
with_probity() { # PROGRAM FUNCTION CALLS
    find "$2"
    "$probity" trace -q --lossless -o /dev/null -e "${1//FUNCTION/$file:bench_$name}" -- "$file" "$name" 1 "$3" 2>/dev/null | sed -n 's/^ns //p'
}
with_bpftrace() {
    find "$2"
    bpftrace -o /dev/null -e "${1//FUNCTION/$file:bench_$name}" -c "$file $name 1 $3" 2>/dev/null | sed -n 's/^ns //p'
}
plain() {
    find "$1"
    "$file" "$name" 1 10000000 | sed -n 's/^ns //p'
}

peer=bpftrace why=
if ! command -v bpftrace >/dev/null; then
    peer= why="bpftrace is not installed"
elif ! [ "$(with_bpftrace 'uprobe:FUNCTION { @ = count(); }' push 100)" ]; then
    peer= why="bpftrace does not run here"
fi

for ((r = 0; r < repetitions; r++)); do
    for function in "${functions[@]}"; do
        plain $function >>"$work/plain.$function"
        for i in "${!names[@]}"; do
            with_probity "${programs[$i]}" $function "${calls[$i]}" >>"$work/probity.$i.$function"
            [ -z "$peer" ] || with_bpftrace "${programs[$i]}" $function $([ $function = lea ] && echo 5000 || echo 50000) >>"$work/bpftrace.$i.$function"
        done
    done
    plain deep >>"$work/plain.deep"
    for i in "${!stack_programs[@]}"; do
        with_probity "${stack_programs[$i]}" deep 500000 >>"$work/probity.stack$i.deep"
        [ -z "$peer" ] || with_bpftrace "${stack_programs[$i]}" deep 20000 >>"$work/bpftrace.stack$i.deep"
    done
    # From the start of the program to the first line of a one-liner on a process that runs.
    "$victim" push 1 4000000000 >/dev/null &
    busy=$!
    until [ "$(readlink "/proc/$busy/exe")" = "$victim" ]; do sleep 0.01; done
    start=$EPOCHREALTIME
    read -r _ < <("$probity" trace -q -p $busy -e "uprobe:$victim:bench_push { printf(\"x\\n\"); exit(); }")
    awk "BEGIN { printf \"%.1f\n\", ($EPOCHREALTIME - $start) * 1000 }" >>"$work/first"
    wait $! # it detaches
    kill -KILL $busy
    wait $busy 2>/dev/null || true
done

over() { # TOOL ROW FUNCTION
    [ -s "$work/$1.$2.$3" ] || return 0
    awk "BEGIN { printf \"%.1f\", $(median "$work/$1.$2.$3") - $(median "$work/plain.$3") }"
}

failed=0
printf '%-36s' "ns over the unprobed call"
for function in "${functions[@]}"; do
    printf ' %15s %10s %8s' "probity $function" bpftrace ratio
done
echo
for i in "${!names[@]}"; do
    line=$(printf '%-36s' "${names[$i]}")
    for function in "${functions[@]}"; do
        ours=$(over probity "$i" $function) theirs=$(over bpftrace "$i" $function)
        ratio=-
        [ -z "$theirs" ] || ratio=$(awk "BEGIN { o = $ours < 0.5 ? 0.5 : $ours; printf \"%.0f\", $theirs / o }")
        line+=$(printf ' %15s %10s %8s' "$ours" "${theirs:--}" "$ratio")
        [ "${bounds[$i]}" = - ] || awk "BEGIN { exit !($ours <= ${bounds[$i]}) }" || { echo "NOT MET: ${names[$i]} ($function): $ours ns, bound ${bounds[$i]}" >>"$work/bad"; failed=1; }
        least=$([ $function = lea ] && echo 200 || echo 20)
        [ "$ratio" = - ] || [ "${bounds[$i]}" = - ] || [ "$ratio" -ge "$least" ] || { echo "NOT MET: ${names[$i]} ($function): $ratio times cheaper than bpftrace, bound $least" >>"$work/bad"; failed=1; }
    done
    echo "$line"
done
for i in "${!stack_programs[@]}"; do
    ours=$(over probity "stack$i" deep) theirs=$(over bpftrace "stack$i" deep)
    printf '%-36s %15s %10s %8s\n' "${stack_names[$i]}" "$ours" "${theirs:--}" "$([ -z "$theirs" ] || awk "BEGIN { printf \"%.0f\", $theirs / $ours }")"
done
[ -z "$why" ] || echo "skipped: $why"
first=$(median "$work/first")
echo "first line of a one-liner: $first ms"
awk "BEGIN { exit !($first <= 150) }" || { echo "NOT MET: first line after $first ms, bound 150" >>"$work/bad"; failed=1; }
[ ! -e "$work/bad" ] || cat "$work/bad"
exit $failed
