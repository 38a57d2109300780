#!/bin/bash
# Functions of files that have no name any more, as after an upgrade of a package or in memory of memfd_create(), are found by their old
# name and by patterns: by count, trace, record and list, with the arguments that their own debug information has, also where another
# library has taken the name. A user who may not open such a file is told so. (S0.3, issue 13.15)
# timeout: 240
. "$(dirname "$0")/lib.sh"

# Runs `probity COMMAND... -p` on the victim over one batch of its calls.
over_calls() { # FILE TIMES-READY COMMAND ARG...
    local file=$1 times=$2 code=0
    shift 2
    python3 test/live/process.py code "$victim_pid" >"$work/code"
    "${as[@]}" "$probity_used" "$@" -p "$victim_pid" >"$file" 2>"$file.err" {victim_in}>&- &
    counter_pid=$!
    started+=("$counter_pid")
    wait_until 30 attached_or_dead "$victim_pid" || fail "probity does not attach to $victim_pid: $(cat "$file.err")"
    release
    wait_ready "$times"
    kill -INT "$counter_pid" 2>/dev/null || true
    wait "$counter_pid" || code=$?
    [ $code = 0 ] || fail "$* ended with $code: $(cat "$file.err")"
}

finds() { # WIDTH WHERE PATTERN...
    local width=$1 where=$2 pattern argument times=1
    shift 2
    local name="$width-bit ${where##*/}"
    start_victim "${as[@]}" "$victims_used/$width/v_deleted" "$victims_used/$width/libv_plugin.so" "$where" -n 1000
    wait_ready
    [ -z "$other" ] || cp "$other" "$where"
    for pattern in "$@"; do
        times=$((times + 1))
        over_calls "$work/json" $times count --json "$pattern:plugin_work"
        expect_equal "$name: $pattern: counted calls" "$(count_of "$work/json" plugin_work)" 1000
        times=$((times + 1))
        argument=args.a
        [ "$pattern" != '*' ] || argument=arg0 # what it is called is looked for in one file
        over_calls "$work/out" $times trace -e "uprobe:$pattern:plugin_work { @n = count(); @most = max($argument); @[func] = count(); }"
        expect_equal "$name: $pattern: traced calls" "$(sed -n 's/^@n: //p' "$work/out")" 1000
        expect_equal "$name: $pattern: the greatest argument" "$(sed -n 's/^@most: //p' "$work/out")" 999
        expect_equal "$name: $pattern: the function's name" "$(sed -n 's/^@\[plugin_work\]: //p' "$work/out")" 1000
        times=$((times + 1))
        rm -rf "$work/t.trace"
        over_calls "$work/record" $times record --calls "$pattern:plugin_work" -o "$work/t.trace"
        run_probity report --view flat --format json "$work/t.trace" >"$work/report"
        grep -q '"plugin_work"' "$work/report" || fail "$name: $pattern: no call was recorded: $(cat "$work/record.err")"
        "${as[@]}" "$probity_used" list "$victim_pid:$pattern:plugin_work" >"$work/list" || fail "$name: $pattern: list ends with $?"
        grep -q "plugin_work$" "$work/list" || fail "$name: $pattern: not listed: $(cat "$work/list")"
    done
    text_is_the_files "$victim_pid"
    end_victim
    rm -f "$where"
    echo "$name: $# patterns"
}

for width in 64 32; do
    as=() probity_used=$probity victims_used=$victims other=
    if [ "$(id -u)" = 0 ]; then
        finds $width memfd '*memfd*'
        finds $width "$work/libv_gone.so" '*' "$work/libv_gone.so" libv_gone
        # Another library has the name now: it has no such function, or has it elsewhere.
        other=$victims/$width/libv_leaf.so
        finds $width "$work/libv_gone.so" "$work/libv_gone.so" libv_gone
        other=$victims/$((96 - width))/libv_plugin.so
        finds $width "$work/libv_gone.so" "$work/libv_gone.so"
    fi
done

if [ "$(id -u)" != 0 ] || ! command -v setpriv >/dev/null; then
    echo "not covered on this machine: a plain user beside root"
    exit 0
fi
as=(setpriv --reuid 65534 --regid 65534 --clear-groups) probity_used=$work/probity victims_used=$work other=
chmod 777 "$work"
cp "$probity" "$work"
for width in 64 32; do
    mkdir "$work/$width"
    cp "$victims/$width/v_deleted" "$victims/$width/libv_plugin.so" "$work/$width"
    finds $width memfd-kept '*memfd*' # by the process's own descriptor
    start_victim "${as[@]}" "$work/$width/v_deleted" "$work/$width/libv_plugin.so" "$work/libv_gone.so"
    wait_ready
    said='libv_gone.so (deleted): the file was deleted .* only root'
    for pattern in '*' libv_gone; do
        for command in "count -d 0.1 $pattern:plugin_work" "record -o $work/u.trace -d 0.1 --calls $pattern:plugin_work"; do
            code=0
            set -f
            "${as[@]}" "$work/probity" $command -p "$victim_pid" >"$work/out" 2>"$work/err" || code=$?
            set +f
            expect_equal "$width-bit: $command: exit code" $code 4
            grep -q "$said" "$work/err" || fail "$width-bit: $command: $(cat "$work/err")"
        done
        run=("${as[@]}" "$work/probity" trace -e "uprobe:$pattern:plugin_work { @ = count(); } interval:ms:100 { exit(); }" -p "$victim_pid")
        "${run[@]}" >"$work/out" 2>"$work/err" || true
        grep -q "$said" "$work/err" || fail "$width-bit: trace $pattern: $(cat "$work/err")"
    done
    end_victim
    echo "$width-bit: a plain user is told"
done
