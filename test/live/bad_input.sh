#!/bin/bash
# What can not be done is refused with one line that says what and why, the documented exit code, and the target as it was.
# timeout: 240
. "$(dirname "$0")/lib.sh"
v=$victims/64/v_count

# Runs probity, which must end with one of CODES (a list like "3" or "0 3") and, unless it is 0, print one line matching PATTERN.
refused() { # CODES PATTERN ARG...
    local codes=$1 pattern=$2 code=0
    shift 2
    timeout 240 "${as[@]}" "$probity" "$@" >"$work/out" 2>"$work/all" </dev/null || code=$?
    grep -v ': placing [0-9]* probes$' "$work/all" >"$work/err" || true # progress is no error
    [[ " $codes " == *" $code "* ]] || complain "probity $*: exit code $code instead of $codes: $(cat "$work/err")"
    [ $code != 0 ] || return 0
    [ "$(wc -l <"$work/err")" = 1 ] || complain "probity $*: not one line: $(cat "$work/err")"
    grep -qiE -- "$pattern" "$work/err" || complain "probity $*: \"$(cat "$work/err")\" does not say $pattern"
}
as=()

# Command lines.
refused 2 . count
refused 2 . list
refused 2 . nonsense
refused 2 . count --nonsense "$v:f1" -- "$v"
for command in count trace record list; do refused 2 "option|traps" $command --traps=all "$v:f1" -- "$v"; done
refused 2 . count -d soon "$v:f1" -- "$v"
refused 2 . count -p twelve "$v:f1"
refused 2 . count -p 1
refused 2 . count "$v:f1"
refused 2 . list ':::'

# Files and names.
refused 6 'ELF' list /etc/passwd:main
refused 6 'ELF' count "/etc/passwd:main" -- "$v"
refused 5 'no file|no such file' list /no/such/file:main
head -c 1000 "$v" >"$work/short"
refused "5 6" . list "$work/short:*"
cp "$v" "$work/arm"
printf '\267\0' | dd of="$work/arm" bs=1 seek=18 conv=notrunc status=none
refused 6 'architecture|machine|x86' list "$work/arm:f1"
refused 5 'malloc' list libc:mallok
refused 5 'f5_tail' count "$v:f5_tai" -- "$v"
refused 8 . count "$v:f5+0x1" -- "$v"
refused "1 5" 'no such|not found|No such' count "$v:f1" -- /no/such/program

# Processes.
"$v" -n 1 >/dev/null &
ended=$!
wait "$ended"
refused 3 "$ended" count -p "$ended" "$v:f1"
python3 -c 'import os, time
pid = os.fork()
if pid == 0: os._exit(0)
print(pid, flush=True)
time.sleep(600)' >"$work/zombie" &
started+=($!)
wait_until 20 test -s "$work/zombie"
zombie=$(cat "$work/zombie")
wait_until 20 gone "$zombie"
refused 3 'zombie|ended' count -p "$zombie" "$v:f1"
# Every command has the same words for it.
for line in "count $zombie:libc:malloc" "record -q -o $work/none -d 1" "record -q -o $work/none -d 1 --calls libc:malloc" 'climb -d 1'; do
    read -ra words <<<"$line"
    [ "${words[0]}" = count ] || words+=(-p "$zombie")
    refused 3 "^probity: process $zombie: is a zombie, nothing is left to trace\$" "${words[@]}"
done

# A process that ends while probity works on it.
for ((i = 0; i < $(scale 40 400); i++)); do
    "$v" -n 1 -t 8 >/dev/null &
    ending=$!
    refused "0 3" . count -p "$ending" '*:*'
    wait "$ending" || fail "the process ended with $?"
done

unharmed() { # the victim that waits goes on, exactly as it would have
    text_is_the_files "$victim_pid"
    release
    wait_ready 2
    grep -v '^ready$' "$victim_out" | cmp - "$work/native" || fail "the target computes something else"
    end_victim
}
"$v" -n 100 >"$work/native"

start_victim "$v" -w -n 100
wait_ready
refused 5 . count -p "$victim_pid" "$v:no_such_function_at_all"
refused 8 . count -d 1 -p "$victim_pid" "$v:f5+0x1"
refused 8 . count -d 1 -p "$victim_pid" "$v:f1" "$v:f5+0x1"
unharmed

if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
    cp "$probity" "$v" "$work"
    start_victim "$v" -w -n 100
    wait_ready
    as=(setpriv --reuid 65534 --regid 65534 --clear-groups)
    ours=$probity
    probity=$work/probity
    refused 4 'CAP_SYS_PTRACE|same user' count -p "$victim_pid" "$work/v_count:f1"
    probity=$ours
    as=()
    unharmed
fi

start_victim "$v" -w -n 100
wait_ready
strace -o /dev/null -p "$victim_pid" 2>/dev/null &
tracer=$!
started+=("$tracer")
wait_until 20 traced_by "$victim_pid" "$tracer" || fail "strace does not attach"
refused 7 'traced|strace|debugger' count -p "$victim_pid" "$v:f1"
kill -INT "$tracer"
wait "$tracer" || true
unharmed

# A seccomp filter that kills: privileged, probity may suspend it and count; else it must refuse. The target lives either way.
for width in 64 32; do
    start_victim "$victims/$width/v_seccomp"
    wait_ready
    refused "0 7" 'seccomp' count --json -p "$victim_pid" -d 0.2 '*v_seccomp:confined_work'
    alive "$victim_pid" || fail "the confined process died"
    text_is_the_files "$victim_pid"
    release
    wait_ready 2
    grep -q '^confined_work 1000$' "$victim_out" || fail "the confined process computes something else"
    end_victim
done

# Two at once: shared or refused, and the first goes on counting exactly.
start_victim "$v" -w -n 100
wait_ready
start_count "$work/first" "$victim_pid" --json "$v:f1"
refused "0 7" 'probity|attached' count -d 0.1 -p "$victim_pid" "$v:f1" "$v:f2"
release
wait_ready 2
end_count
expect_equal "count of the first" "$(count_of "$work/first" f1)" 200
text_is_the_files "$victim_pid"
end_victim

# Damaged files: an error or fewer symbols, never a crash or a hang.
for width in 64 32; do
    for ((i = 0; i < $(scale 150 3000); i++)); do
        cp "$victims/$width/v_tail" "$work/hostile"
        python3 - "$work/hostile" $i <<'END'
import random, sys
random.seed(int(sys.argv[2]))
with open(sys.argv[1], "r+b") as f:
    data = bytearray(f.read())
    tables = int.from_bytes(data[40:48], "little") if data[4] == 2 else int.from_bytes(data[32:36], "little")
    for _ in range(random.randint(1, 12)):
        low, high = random.choice([(16, 64), (64, 1200), (tables, len(data)), (0, len(data))])
        at = random.randrange(low, max(high, low + 1)) % len(data)
        data[at] = random.choice([0, 1, 0x7f, 0x80, 0xff, random.randrange(256)])
    if random.random() < 0.2:
        data = data[: random.randrange(len(data))]
    f.seek(0)
    f.write(data)
    f.truncate(len(data))
END
        code=0
        timeout 120 "$probity" list "$work/hostile:*" >/dev/null 2>"$work/err" || code=$?
        [ $code -lt 9 ] || { cp "$work/hostile" "$build/log/hostile"; fail "damaged file $i ($width): exit code $code; it is $build/log/hostile"; }
    done
done
exit $failed
