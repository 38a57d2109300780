#!/bin/bash
# Command lines, traces and outputs that are no good: one line that says what, the documented exit code, and what can be read is shown.
. "$(dirname "$0")/../live/lib.sh"
make=$build/test/report/make

refused() { # CODE PATTERN ARGUMENT...
    local wanted=$1 pattern=$2 code=0
    shift 2
    "$probity" "$@" >"$work/out" 2>"$work/err" </dev/null || code=$?
    [ $code = "$wanted" ] || complain "$*: exit code $code instead of $wanted: $(cat "$work/err")"
    grep -qE -- "$pattern" "$work/err" || complain "$*: does not say $pattern: $(cat "$work/err")"
    [ "$(grep -c . "$work/err")" -le 2 ] || complain "$*: says too much: $(cat "$work/err")"
    [ ! -s "$work/out" ] || complain "$*: prints: $(head -n 3 "$work/out")"
}

for n in $(seq 1 3000); do
    echo "$((n * 2)) 1.1 enter f$((n % 5))"
    echo "$((n * 2 + 1)) 1.1 return f$((n % 5))"
done | "$make" "$work/good"
mkdir "$work/empty"

refused 2 'give one trace directory' report
refused 2 'give one trace directory' report "$work/good" "$work/good"
refused 2 'needs two' report --view diff "$work/good"
refused 2 'no such choice; there are tree' report --view tea "$work/good"
refused 2 'no such choice; there are text' report --format html "$work/good"
refused 2 'no such choice; there are order' report --sort random "$work/good"
refused 2 'text or json only' report --view diff --format pprof "$work/good" "$work/good"
for share in '' x 1%% -1 101% nan 2; do refused 2 'not a share' report --min "$share" "$work/good"; done
refused 6 . report "$work/nowhere"
refused 6 . report "$work/empty"
refused 6 . report /etc/passwd
refused 2 'no metric named cycles; it has time' report --metric cycles "$work/good"
refused 1 'No such file' report -o "$work/no/such/folder" "$work/good"
refused 2 'give one trace directory' browse
refused 2 'needs a terminal' browse "$work/good"

# A file that can not be written whole is not left.
code=0
(
    ulimit -f 1
    trap '' XFSZ
    "$probity" report --format chrome -o "$work/half" "$work/good" 2>"$work/err"
) || code=$?
expect_equal "exit code of a full disk" $code 1
[ ! -e "$work/half" ] || complain "half a file is left"

# Deep recursion takes the formats that hold whole stacks no time and room without bounds; what is cut is said, and no time is lost.
awk 'BEGIN { for (i = 0; i < 300000; i++) print i, "1.1 enter f" i % 5 }' >"$work/deep"
"$probity" import --from events -o "$work/deep.trace" "$work/deep" >/dev/null
for format in pprof folded; do
    code=0
    (ulimit -f 1000000 && exec timeout 200 "$probity" report -f $format -o "$work/deep.$format" "$work/deep.trace") 2>"$work/err" || code=$?
    expect_equal "exit code of $format of deep recursion" $code 0
    grep -q 'stacks are too deep for this format: of each the innermost [0-9]* functions' "$work/err" || complain "$format: $(cat "$work/err")"
    [ "$(stat -c %s "$work/deep.$format")" -lt 500000000 ] || complain "$format of deep recursion: $(stat -c %s "$work/deep.$format") bytes"
done
expect_equal "time in the folded stacks of deep recursion" "$(awk '{ sum += $NF } END { print sum }' "$work/deep.folded")" 299999
rm "$work"/deep.*d "$work/deep.pprof"

# Nobody reads on: it ends as programs do, without a word.
("$probity" report --format chrome "$work/good" || [ $? = 141 ]) 2>"$work/err" | head -n 1 >/dev/null || complain "a closed pipe is an error"
[ ! -s "$work/err" ] || complain "a closed pipe is complained of: $(cat "$work/err")"

# A trace whose end is missing is shown up to there, with a warning.
for view in tree flat arcflow merged samples threads; do
    cp -r "$work/good" "$work/cut"
    file=$(ls -S "$work/cut" | head -n 1)
    truncate -s $(($(stat -c %s "$work/cut/$file") / 2)) "$work/cut/$file"
    code=0
    "$probity" report --view $view "$work/cut" >"$work/out" 2>"$work/err" || code=$?
    expect_equal "exit code of a cut trace, $view" $code 0
    grep -q 'this trace is cut' "$work/err" || complain "$view: it is not said that the trace is cut: $(cat "$work/err")"
    [ -s "$work/out" ] || complain "$view: nothing is shown of a cut trace"
    rm -r "$work/cut"
done

# Colours only where they are wanted.
"$probity" report --view arcflow "$work/good" >"$work/out"
! grep -q $'\033' "$work/out" || complain "colours in a file"
"$probity" report --view arcflow --color always "$work/good" >"$work/out"
grep -q $'\033\[1m' "$work/out" || complain "no colours with --color always"
script -qec "$probity report --view arcflow $work/good" /dev/null </dev/null >"$work/out"
grep -q $'\033\[1m' "$work/out" || complain "no colours on a terminal"
NO_COLOR=1 script -qec "$probity report --view arcflow $work/good" /dev/null </dev/null >"$work/out"
! grep -q $'\033' "$work/out" || complain "colours in spite of NO_COLOR"
code=0
script -qec "$probity report --format pprof $work/good" /dev/null </dev/null >"$work/out" || code=$?
expect_equal "exit code of binary output to a terminal" $code 2
exit $failed
