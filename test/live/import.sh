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
