#!/bin/bash
# --live-tree: the tree that is built while recording is the one that a report makes of all records; its memory and the trace stay small, and do
# not grow with the time that the recording takes. (S4.4, S4.5)
# alone: yes
# timeout: 200
. "$(dirname "$0")/lib.sh"
export ASAN_OPTIONS=$ASAN_OPTIONS:quarantine_size_mb=4 # what is freed is to be used again

flat() { # TRACE: names and calls, in order of name
    "$probity" report --view flat -f json "$1" >"$work/json" || fail "$1 can not be read"
    python3 - "$work/json" <<'P'
import json, sys
for row in sorted(json.load(open(sys.argv[1]))["parts"][0]["rows"], key=lambda row: row["name"]):
    if not row.get("root"):
        print(row["name"], row["calls"])
P
}

cpu_of() { # TRACE FUNCTION: milliseconds
    "$probity" report --view flat --raw -f json "$1" | python3 -c "
import json, sys
print(sum(row['base'] for row in json.load(sys.stdin)['parts'][0]['rows'] if row['name'] == '$2') / 1e6)"
}

# What all threads ran, and of that what was estimated when, in milliseconds.
threads_of() { # TRACE
    "$probity" report --view threads --raw -f json "$1" | python3 -c "
import json, sys
rows = json.load(sys.stdin)['parts'][0]['rows']
print(sum(row['cpu'] or 0 for row in rows) / 1e6, sum(row['estimated'] or 0 for row in rows) / 1e6)"
}

for width in 64 32; do
    for v in v_recursive v_longjmp v_exceptions; do
        [ $v = v_recursive ] && n=18 || n=500
        run_probity record -q -o "$work/all" --calls "$v:*" -- "$victims/$width/$v" -n $n >/dev/null 2>&1 </dev/null
        run_probity record -q --live-tree -o "$work/tree" --calls "$v:*" -- "$victims/$width/$v" -n $n >/dev/null 2>&1 </dev/null
        flat "$work/all" >"$work/flat.all"
        flat "$work/tree" >"$work/flat.tree"
        diff "$work/flat.all" "$work/flat.tree" || fail "$width $v: the trees differ"
        [ "$(wc -l <"$work/flat.all")" -gt 3 ] || fail "$width $v: there is no tree"
    done
    run_probity record -q --live-tree -F 999 -o "$work/tree" --calls 'v_shares:*' -- "$victims/$width/v_shares" -t 3 -m 400 >"$work/out" 2>"$work/err" || fail "$(cat "$work/err")"
    read -r ran estimated < <(threads_of "$work/tree")
    awk -v found="$(cpu_of "$work/tree" mostly)" -v ran="$ran" -v estimated="$estimated" '
        /^mostly/ { d = found - $2; if (d > 30 + estimated || d < -30 - estimated) { print "mostly: " found " ms, not " $2 " (" estimated " estimated)"; exit 1 } }
        /^all/ { d = ran - $2; if (d > $2 / 100 || d < -$2 / 100) { print "threads: " ran " ms, not " $2; exit 1 } }' "$work/out" || fail "$width: processor time"
    "$probity" report --data samples --view flat "$work/tree" | shows mostly || fail "$width: no samples in the tree"
done

# Two million calls in less than a tenth of what they take as records, and in little memory.
if command -v sqlite3 >/dev/null; then
    echo "with recursive n(i) as (select 1 union all select i+1 from n where i<30000) select count(*), sum(length(hex(i))) from n;" |
        run_probity record --live-tree --memory 1M -o "$work/tree" --calls 'libsqlite3:*' -- sqlite3 -batch :memory: >"$work/out" 2>"$work/err" || fail "$(cat "$work/err")"
    calls=$(sed -n 's/.*: \([0-9]*\) calls, .*/\1/p' "$work/err")
    bytes=$(du -sb "$work/tree" | cut -f1)
    [ "$calls" -gt 500000 ] || fail "only $calls calls"
    [ "$bytes" -lt $((calls * 16 / 10)) ] || fail "$calls calls took $bytes bytes"
    sum=$(flat "$work/tree" | awk '{ n += $2 } END { print n }')
    [ "$sum" -gt 0 ] || fail "the tree is empty"
fi

# ---- many times the work, no more memory ----

# The most memory that the recorder took, in KB. It has seen everything by then.
peak_of() { # INPUT RECORD-ARGUMENT...
    python3 - "$probity" "$work" "$@" <<'P' || fail "$(cat "$work/err")"
import os, subprocess, sys
probity, work, text, *arguments = sys.argv[1:]
command = [probity, "record", "--live-tree", "--memory", "1M", "-o", work + "/tree", *arguments]
with open(work + "/out", "w") as out, open(work + "/err", "w") as err:
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, stderr=err)
process.stdin.write(text.encode())
process.stdin.close()
_, status, usage = os.wait4(process.pid, 0)
print(usage.ru_maxrss)
sys.exit(status != 0)
P
}
expect_flat() { # TEXT FEW MANY MORE-AT-MOST
    echo "$1: $2 KB, $3 KB"
    [ "$3" -le $(($2 + $4)) ] || fail "$1: the recorder took $2 KB, and $3 KB for more of the same"
}
files_in() {
    find "$work/tree" -type f | wc -l
}

# Threads and processes that come and go.
few=$(peak_of "tasks 1000" --calls 'v_churn:*' -- "$victims/64/v_churn")
many=$(peak_of "tasks 4000" --calls 'v_churn:*' -- "$victims/64/v_churn")
expect_flat "tasks" "$few" "$many" 24576
[ "$(files_in)" -lt 600 ] || fail "tasks: $(files_in) files"
for width in 64 32; do
    # Where there is memory nothing is folded: four threads and a child of each round called it once.
    peak_of "tasks 300" --memory 256M --calls 'v_churn:*' -- "$victims/$width/v_churn" >/dev/null
    [ "$(flat "$work/tree" | sed -n 's/^leaf //p')" = 1500 ] || fail "$width: tasks: $(flat "$work/tree")"
    "$probity" report --view threads "$work/tree" | shows '\[ended\]' || fail "$width: tasks: no tree of those that have ended"
done
# Samples of stacks that are never the same.
few=$(peak_of "stacks 15000" -- "$victims/64/v_churn")
many=$(peak_of "stacks 90000" -- "$victims/64/v_churn")
expect_flat "stacks" "$few" "$many" 16384
# What is folded goes to its parents, so nothing is certain of what is far down; but the time is all there.
"$probity" report --data samples --view flat "$work/tree" >"$work/flat" || fail "stacks: report"
awk '$NF == "descend" && $(NF - 1) + 0 > 90 { found = 1 } END { exit !found }' "$work/flat" || fail "stacks: no samples: $(cat "$work/flat")"
[ "$(stat -c %s "$work/tree/definitions")" -lt 20000 ] || fail "stacks: $(stat -c %s "$work/tree/definitions") bytes of definitions"
# More calls than can be taken in time wait in their rings, which is what the recorder needs more than for a few.
if command -v sqlite3 >/dev/null; then
    statement() { # ROWS
        echo "with recursive n(i) as (select 1 union all select i + 1 from n where i < $1) select count(printf('%d %s', i, hex(i))) from n;"
    }
    few=$(peak_of "$(statement 10)" --calls 'libsqlite3:*' -- sqlite3 -batch :memory:)
    many=$(peak_of "$(statement 40000)" --calls 'libsqlite3:*' -- sqlite3 -batch :memory:)
    expect_flat "sqlite3" "$few" "$many" 46080
fi
