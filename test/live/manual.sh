#!/bin/bash
# Every example of the man pages works as printed, with process ids put in (1234: a python program with sqlite, 5678: a 32-bit program).
# timeout: 240
. "$(dirname "$0")/lib.sh"

cat >"$work/job.py" <<'END'
import select, sqlite3, sys
db = sqlite3.connect(":memory:")
poll = select.epoll()
print("ready", flush=True)
while True:
    poll.poll(0.001)
    db.execute("select count(*), randomblob(10)").fetchall()
END
start_victim /usr/bin/python3 "$work/job.py"
first=$victim_pid
wait_ready
start_victim "$victims/32/v_storm"
wait_ready

# Files that examples read, in a directory of their own, where they also write.
mkdir "$work/files"
cp examples/calls.events examples/stacks.folded "$work/files"
for name in probity before after; do
    "$probity" import --from events examples/calls.events -o "$work/files/$name.trace" >/dev/null
done

mkdir "$work/bin"
ln -s "$probity" "$work/bin/probity"
PATH=$work/bin:$PATH
examples=0
while read -r line; do
    line=${line//1234/$first}
    line=${line//5678/$victim_pid}
    code=0
    (cd "$work/files" && exec timeout -s INT -k 30 3 bash -o pipefail -c "$line") >"$work/out" 2>"$work/err" </dev/null || code=$?
    # 124: it was ended as Ctrl-C ends it.
    [ $code = 0 ] || [ $code = 124 ] || fail "$line: exit code $code: $(tail -n 2 "$work/err")"
    [ -s "$work/out" ] || fail "$line prints nothing"
    examples=$((examples + 1))
done < <(sed -n 's/^\.Dl //p' doc/man/*.1 | sed 's/\\e/\\/g')
[ $examples -ge 8 ] || fail "only $examples examples found"
text_is_the_files "$first"
end_victim
echo "$examples examples"
