#!/bin/bash
# Reached through a link named bpftrace: its options, messages, lists and exit codes. (S0.7)
# timeout: 120
. "$(dirname "$0")/lib.sh"

ln -s "$probity" "$work/bpftrace"
v=$victims/64/v_corpus

# Runs it; sets out, err and code.
run() { # ARG...
    code=0
    timeout --foreground -k 10 150 "$work/bpftrace" "$@" >"$work/out" 2>"$work/err" || code=$?
    out=$(cat "$work/out") err=$(cat "$work/err")
}
check() { # WHAT CODE OUT-PATTERN ERR-PATTERN
    [ $code = "$2" ] || complain "$1: exit code $code instead of $2: $err"
    [[ $out == $3 ]] || complain "$1: prints: $out"
    [[ $err == $4 ]] || complain "$1: says: $err"
}

run -V
check version 0 'bpftrace v0.26.0 (probity *)' ''
run --info
check info 0 '*uprobe: yes*' ''
run --help
check help 0 'USAGE:*-e *' ''
run -Z
check 'an unknown option' 1 '' 'ERROR: *--help*'
run
check 'no script' 1 '' 'ERROR: *filename*'
run "$work/nothing.bt"
check 'no such file' 1 '' 'ERROR: *No such file*'
run -e 'begin { print('
check 'a syntax error' 1 '' 'stdin:1:*: ERROR: syntax error*'
run -f xml -e 'begin { exit(); }'
check 'a bad format' 1 '' 'ERROR: -f: xml*'

# What does not match is known before anything is started.
run -e 'uprobe:libc:mallocc { } begin { print("started"); }' -c "touch $work/started"
check 'a function that is not there' 1 '' 'ERROR: No probes to attach: *mallocc*malloc*'
[ ! -e "$work/started" ] || complain "the command was started though nothing matched"
run -e 'uprobe:/no/such/file:f { }'
check 'a file that is not there' 1 '' 'ERROR: No probes to attach: *no such file'
run -e "config = { missing_probes = warn; } uprobe:libc:mallocc, uprobe:$v:add { @ = count(); }" -c "$v"
check 'a warning instead' 0 '*@: 11' '*WARNING: *mallocc*'
BPFTRACE_MISSING_PROBES=ignore run -e "uprobe:libc:mallocc, uprobe:$v:add { @ = count(); }" -c "$v"
check 'nothing instead' 0 '*@: 11' 'Attached 1 probe'

# Libraries that are not mapped yet count.
run -e 'uprobe:libc:malloc { } uretprobe:libc:free { } begin { }' -c "$v"
check 'the number of probes' 0 '' 'Attached 3 probes'
run -q -e 'begin { exit(5); }'
check 'the exit code of exit()' 5 '' ''
run -e 'begin { }' -c 'bash -c "exit 4"'
check 'the exit code of a command' 0 '' 'Attached 1 probe'

# What follows -- is the script's.
run -q -e 'begin { print((str($1), $#, getopt("n", 1), getopt("on"))); exit(); }' word -- --n=7 --on
check 'parameters' 0 '(word, 1, 7, true)' ''
printf '#!%s\nbegin { print($1); exit(); }\n' "$work/bpftrace" >"$work/script.bt"
chmod +x "$work/script.bt"
expect_equal 'a script with #!' "$("$work/script.bt" 12 2>/dev/null | head -n 1)" 12

# Lists.
run -l "uprobe:$v:op_*"
check 'a list' 0 "uprobe:$v:op_close"$'\n'"uprobe:$v:op_read"$'\n'"uprobe:$v:op_write" ''
run -lv "uprobe:$v:take_shape"
check 'a list with parameters' 0 "uprobe:$v:take_shape"$'\n''    struct shape \* shape' ''
run -l "usdt:$victims/64/v_usdt"
check 'a list of USDT probes' 0 "usdt:*:v_usdt:guarded*usdt:*:v_usdt:plain" ''
run -l -e "uprobe:$v:add { } end { }"
check 'the list of a script' 0 "END"$'\n'"uprobe:$v:add" ''
run -l 'kprobe:tcp*'
check 'a list of the kernel' 1 '' '*need the kernel*'

# Dumps, formats and files.
run -d ast -e 'begin { print(1); }'
check 'the tree' 0 '*CALL print*' ''
run -dd -e 'begin { print(1); }'
check 'the tree and the stream' 0 '*CALL print*clause*' ''
run -f json -o "$work/file" -e 'begin { print(1); exit(); }'
check 'a file' 0 '' '*'
grep -q '{"type": "value", "data": 1}' "$work/file" || complain "-o has: $(cat "$work/file")"
run -B line -k -kk --usdt-file-activation --no-warnings --unsafe -q -e 'begin { system("echo hi"); exit(); }'
check 'options that are accepted' 0 'hi' ''
run --no-warnings -q -e 'begin { warnf("careful"); errorf("wrong"); exit(); }'
check 'no warnings' 0 '' '*ERROR: wrong'
[[ $err != *careful* ]] || complain "--no-warnings: says: $err"
BPFTRACE_MAX_STRLEN=6 run -q -e "uprobe:$v:take_text /arg1 == 7/ { print(str(arg0)); }" -c "$v"
check 'BPFTRACE_MAX_STRLEN' 0 'alpha..' ''
BPFTRACE_MAX_STRLEN=no run -e 'begin { exit(); }'
check 'a bad variable' 1 '' 'ERROR: BPFTRACE_MAX_STRLEN: no*'
exit $failed
