#!/bin/bash
# `probity import` as people call it: files, the standard input, what it says, exit codes, what stays when it fails; perf's own output where
# perf can record here.
. "$(dirname "$0")/lib.sh"
command -v babeltrace2 >/dev/null || skip "babeltrace2 is not installed"
cd "$work"

refused() { # CODE PATTERN ARG...
    local code=0 wanted=$1 pattern=$2
    shift 2
    "$probity" import "$@" >out 2>err </dev/null || code=$?
    [ $code = "$wanted" ] || complain "import $*: exit code $code instead of $wanted"
    [ "$(wc -l <err)" = 1 ] && grep -qF -- "$pattern" err || complain "import $*: \"$(cat err)\" does not say $pattern"
}

"$probity" import --from events "$root/examples/calls.events" -o calls.trace >out
grep -q '^calls.trace: 20 calls and returns, 10 samples from 31 lines$' out || complain "$(cat out)"
"$probity" import -f folded - -o stdin.trace <"$root/examples/stacks.folded" >out
grep -q ' 87 samples from 5 lines$' out || complain "$(cat out)"
(umask 0 && "$probity" import -f folded "$root/examples/stacks.folded" >out) # in the default place, private whatever the mask is
[ "$(stat -c %a probity.trace probity.trace/definitions | tr '\n' ' ')" = '700 600 ' ] || complain "modes: $(stat -c %a probity.trace/*)"

# Again, in its place: nothing of the larger one is left.
"$probity" import --from events "$root/examples/calls.events" -o probity.trace >out
[ -e probity.trace/calls.0 ] || complain "the new trace has no calls"
babeltrace2 --clock-cycles --no-delta probity.trace >all 2>err || complain "babeltrace2: $(head -1 err)"
[ ! -s err ] && [ "$(grep -cE ' (enter|return): ' all)" = 20 ] && [ "$(grep -c ' timer: ' all)" = 10 ] || complain "babeltrace2: $(head -2 err)"

printf '5 1.1 enter f\n3.5 1.1 return f\n' | "$probity" import --from events - -o odd.trace >out 2>err
grep -q '1 times went back' err && grep -q '1 times had decimals' err || complain "$(cat err)"

# Bad input leaves nothing behind, and what is no trace stays.
printf '0 1.1 enter f\n1 1.1 leave f\n' >bad
refused 6 'bad:2:7: this is none of enter, return, sample' --from events bad -o bad.trace
[ ! -e bad.trace ] || complain "a trace of bad input stays"
# A trace that is there stays until there is a whole one to replace it, whoever fails and however.
"$probity" import -f folded "$root/examples/stacks.folded" -o kept.trace >out
stays() { # WHAT
    [ -z "$(find . -maxdepth 1 -name '.probity*')" ] || complain "$1: left behind: $(ls -a)"
    "$probity" report -f folded kept.trace >now 2>err || complain "$1: $(cat err)"
    cmp -s before now || complain "$1: the trace that was there is gone"
}
"$probity" report -f folded kept.trace >before
refused 6 'bad:2:7' --from events bad -o kept.trace
stays "an import that fails"
refused 6 'holds nothing' --from folded /dev/null -o kept.trace
stays "an import of nothing"
awk 'BEGIN { for (i = 0; i < 20000; i++) print i, "1.1 enter f" i }' >many
code=0
(ulimit -f 100 && trap '' XFSZ && exec "$probity" import --from events many -o kept.trace) >out 2>err || code=$?
[ $code = 1 ] && grep -q 'File too large' err || complain "an import that finds the disk full: $code: $(cat err)"
stays "an import that finds the disk full"
mkfifo slow
exec {slow}<>slow
"$probity" import --from events slow -o kept.trace >out 2>err &
importer=$!
started+=($importer)
echo '0 1.1 enter f' >&$slow
has_begun() { gone $importer || [ -n "$(find . -maxdepth 1 -name '.probity*')" ]; }
wait_until 2 has_begun || complain "an import does not begin"
kill -KILL $importer 2>/dev/null || true
wait $importer 2>/dev/null || true
exec {slow}>&-
rm -rf .probity*
stays "an import that is killed"
code=0
"$probity" record -q -o kept.trace -p 999999999 2>err || code=$?
[ $code = 3 ] || complain "record: $code: $(cat err)"
stays "a recording of no process"
# In a directory that takes no other the trace itself is written.
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
    cp "$probity" tool && mkdir -p fixed/trace && chown -R 65534 fixed/trace && chmod 755 fixed tool
    for i in 1 2; do
        setpriv --reuid 65534 --regid 65534 --clear-groups ./tool import -f folded - -o fixed/trace <"$root/examples/stacks.folded" >out 2>err || complain "in place: $(cat err)"
        "$probity" report -f folded fixed/trace >now && cmp -s before now || complain "in place: another trace"
    done
fi

mkdir letters && echo dear >letters/letter
refused 2 'exists and is no trace' --from events "$root/examples/calls.events" -o letters
[ "$(cat letters/letter)" = dear ] || complain "a letter is gone"
refused 2 'is no directory' --from events "$root/examples/calls.events" -o bad
refused 6 'No such file' --from events nothing
refused 2 'from which format' nothing
refused 2 'no such format' --from nothing bad
refused 2 'which file' --from events
refused 2 'one file at a time' --from events bad bad
refused 2 'no such unit' --from events --unit fortnight bad
refused 2 'no period' --from events --period never bad
refused 2 'are for events' --from folded --unit ns bad
refused 2 'is for folded' --from events --weights bad
refused 2 'no such option' --nonsense

# perf's own words, samples counted by perf itself.
if command -v perf >/dev/null && perf record -q -e cpu-clock:u -g -o perf.data "$python" -c 'sum(i * i for i in range(3000000))' >/dev/null 2>&1; then
    perf script -i perf.data 2>/dev/null >perf.txt
    samples=$(grep -c 'cpu-clock:u:' perf.txt || true)
    if [ "$samples" -gt 0 ]; then
        "$probity" import --from perf-script perf.txt -o perf.trace >out || complain "perf script: import fails"
        grep -q " $samples samples from $(wc -l <perf.txt) lines$" out || complain "perf has $samples samples: $(cat out)"
        babeltrace2 perf.trace >all 2>err && [ ! -s err ] || complain "babeltrace2: $(head -1 err)"
        frames=$(grep -cE '^[[:space:]]+[0-9a-f]+ ' perf.txt)
        [ "$frames" -ge "$samples" ] || complain "perf shows no frames"
        sed -nE 's/^[[:space:]]+[0-9a-f]+ (.*)\+0x[0-9a-f]+ \(.*\)$/\1/p' perf.txt | sort -u >theirs
        sed -nE 's/.* function: .* name = "(.*)", file = .*/\1/p' all | sort -u >ours
        [ -s theirs ] && [ -z "$(comm -23 theirs ours)" ] || complain "functions that are missing: $(comm -23 theirs ours | head -3)"
        echo "perf: $samples samples, $frames frames"
    fi
fi
exit $failed
