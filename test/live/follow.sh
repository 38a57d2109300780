#!/bin/bash
# Following a script that executes many programs: what is known of a file is kept from one process to the next, and it is another file's where
# the file was replaced or written over, by one of the other width too. (S2.2, S4.1)
# timeout: 200
. "$(dirname "$0")/lib.sh"

# ---- what a file was replaced with has its own code ----

# Both are equally large, so that nothing but what is in them and when they were written tells them apart.
for width in 64 32; do
    cp "$victims/$width/v_count" "$work/v$width"
    truncate -s 1M "$work/v$width"
done
cat >"$work/replace.sh" <<'EOF'
run() { for i in 1 2; do ./prog -t 2 -n 500; done; }
run
cp v32 new && mv new prog && run
cp v64 new && mv new prog && run
cat v32 >prog && run
cat v64 >prog && run
EOF
cp "$work/v64" "$work/prog"
expected=$(cd "$work" && bash replace.sh | awk '$1 == "f1" { n += $2 } END { print n }')
[ "$expected" -gt 0 ] || fail "the programs do not count"

replaced() { # LABEL ARG...: the rest of a line of probity
    local label=$1 printed
    shift
    cp "$work/v64" "$work/prog"
    printed=$(cd "$work" && run_probity "$@" -- bash replace.sh 2>"$work/err" | tee "$work/out" | awk '$1 == "f1" { n += $2 } END { print n }') ||
        fail "$label: $(tail -n 3 "$work/err")"
    expect_equal "$label: what the programs say" "$printed" "$expected"
}
replaced trace trace --follow -e "uprobe:$work/prog:f1 { @entries = count(); } uretprobe:$work/prog:f1 { @exits = count(); }"
expect_equal "trace: entries" "$(awk '$1 == "@entries:" { print $2 }' "$work/out")" "$expected"
expect_equal "trace: exits" "$(awk '$1 == "@exits:" { print $2 }' "$work/out")" "$expected"
replaced record record --follow -q -o "$work/replaced" --calls "$work/prog:*"
found=$("$probity" report --view flat --format json "$work/replaced" |
    python3 -c 'import json, sys
def calls(node):
    if isinstance(node, dict):
        yield from ([node] if node.get("name") == "f1" else [])
        node = list(node.values())
    if isinstance(node, list):
        for part in node:
            yield from calls(part)
print(sum(row.get("calls", 0) for row in calls(json.load(sys.stdin))))')
expect_equal "record: calls of f1" "$found" "$expected"

# ---- what is known is not found out again ----

# The controller's accesses to memory of processes, which are reads and writes of a file: a few for each page of code. One for each of some thousand functions is too many.
cat >"$work/storm.sh" <<'EOF'
for i in $(seq 1 "$1"); do "$2" >/dev/null; "$3" </dev/null >/dev/null; done
EOF
programs=(/bin/true /bin/cat)
# Calls to read and write, of the controller and of what it has started: the kernel adds up what a process has waited for.
accesses() { # TIMES
    bash -c '"$@" 2>"$0" >/dev/null || exit 1; awk "/^sysc[rw]:/ { n += \$2 } END { print n }" /proc/$$/io' "$work/err" \
        "$probity" record --follow -q -o "$work/storm$1.$RANDOM" --calls 'libc:*' -- bash "$work/storm.sh" "$1" "${programs[@]}" ||
        fail "record of $1 rounds: $(tail -n 3 "$work/err")"
}
known() { # LABEL
    local few many each # of 3 and 19 programs
    few=$(accesses 1) many=$(accesses 9)
    each=$(((many - few) / 16))
    echo "$1: $each reads and writes for each program that is executed"
    [ "$each" -le 3000 ] || fail "$1: $each reads and writes for each program that is executed"
    few=$(spent 1) many=$(spent 9)
    each=$(((many - few) / 16))
    echo "$1: $few ms for three programs, $each ms for each more"
    [ $((each * 5)) -le "$few" ] || out_of_bounds "$1: a program that is executed takes $each ms of processor time, where three took $few"
}

# Processor time of all, in milliseconds. That of the first process has the analysis of its files in it.
spent() { # TIMES
    local TIMEFORMAT='%U %S'
    { time "$probity" record --follow -q -o "$work/spent$1.$RANDOM" --calls 'libc:*' -- bash "$work/storm.sh" "$1" "${programs[@]}" 2>"$work/err"; } 2>&1 |
        tail -n 1 | awk '{ printf "%d\n", ($1 + $2) * 1000 }'
}
known 64-bit
programs=("$victims/32/v_count" "$victims/32/v_tail")
known 32-bit
