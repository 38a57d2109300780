#!/bin/bash
# What `probity trace` can not do is refused with the documented exit code and said why; output that can not be written is an error, never a
# crash; what a target has in its strings does nothing to a terminal.
# timeout: 120
. "$(dirname "$0")/lib.sh"
v=$victims/64/v_count

# Runs `probity trace ARG...`, which must end with CODE and say something that matches PATTERN.
refused() { # CODE PATTERN ARG...
    local expected=$1 pattern=$2 code=0
    shift 2
    timeout 240 "$probity" trace "$@" >"$work/out" 2>"$work/err" </dev/null || code=$?
    [ $code = "$expected" ] || complain "probity trace $(head -c 200 <<<"$*"): exit code $code instead of $expected: $(head -c 500 "$work/err")"
    grep -qiE -- "$pattern" "$work/err" || complain "probity trace $(head -c 200 <<<"$*"): does not say $pattern: $(head -c 500 "$work/err")"
}

clause="uprobe:$v:f1 { @ = count(); }"
run=(-- "$v" -n 10)

# Command lines.
refused 2 'which script'
refused 2 'option' --nonsense -e "$clause" "${run[@]}"
refused 2 'option|value' -e
refused 2 'no command' -e "$clause" --
refused 2 'not a process id' -p twelve -e "$clause"
refused 2 'not a process id' -p 99999999999 -e "$clause"
refused 2 'text or json' -f xml -e "$clause" "${run[@]}"
refused 5 'can not be started' -e "$clause" -- /no/such/program

# Scripts.
refused 2 'no probes' -e '' "${run[@]}"
refused 6 'No such file' /no/such/script "${run[@]}"
refused 2 'is a directory' / "${run[@]}"
refused 2 '1:7' -e 'BEGIN {' "${run[@]}"
refused 5 'no function nosuch' -e "uprobe:$v:nosuch { @ = count(); }" "${run[@]}"
refused 6 'no program or library' -e 'uprobe:/etc/passwd:x { @ = count(); }' "${run[@]}"
refused 2 'division by zero' -e 'BEGIN { @ = 1 / 0; }' "${run[@]}"
refused 2 'not enough arguments' -e "uprobe:$v:f1 { printf(\"%d %d\n\", arg0); }" "${run[@]}"
for nested in '(' '-' 'if (1) {'; do
    python3 -c "import sys; print('BEGIN { ' + sys.argv[1] * 100000)" "$nested" >"$work/deep.bt"
    refused 2 'nested too deeply' "$work/deep.bt" "${run[@]}"
done
head -c 5000 /dev/zero >"$work/zeros.bt"
refused 2 'expected a probe' "$work/zeros.bt" "${run[@]}"
python3 -c 'import random, sys; random.seed(1); sys.stdout.buffer.write(random.randbytes(50000))' >"$work/noise.bt"
refused 2 'ERROR' "$work/noise.bt" "${run[@]}"

# What goes wrong while it runs is said where, and how often.
refused 0 '^stdin:1:[1-9][0-9]*: .*division by zero: 20 times' -e "uprobe:$v:f1 { \$z = arg0 - arg0; @ = 1 / \$z; }" "${run[@]}"
refused 0 '@ has no room.*: [0-9]+ times' -e "config = { max_map_keys = 4 } uprobe:$v:f1 { @[nsecs] = 1; }" "${run[@]}"
refused 0 'loop ran' -e "uprobe:$v:f1 { while (1) { @++; } }" "${run[@]}"

# Output.
refused 1 'No such file' -o /no/such/directory/file -e "$clause" "${run[@]}"
refused 1 '/dev/full: .*(No space left|is the disk full)' -o /dev/full -e "$clause" "${run[@]}"
printing="uprobe:$v:f1 { printf(\"%d\\n\", arg0); @ = count(); }"
unwritable() { # CODE NAME
    [ "$1" = 1 ] || complain "$2: exit code $1 instead of 1"
    grep -q 'standard output' "$work/err" || complain "$2: $(cat "$work/err")"
}
# The command ends while it is being let go of, at any moment.
for ((i = 0; i < 20; i++)); do
    code=0
    timeout -k 5 120 "$probity" trace -q -e "$printing" -- "$v" -n $((500 + i * 50)) >/dev/full 2>"$work/err" || code=$?
    unwritable $code "a full disk"
done
code=0
timeout 240 "$probity" trace -q -e "$printing" -- "$v" -n 1000 >&- 2>"$work/err" || code=$?
unwritable $code "a closed stdout"
code=0
timeout 240 "$probity" trace -q -e "$printing" -- "$v" -n 1000 <&- >&- 2>&- || code=$?
expect_equal "exit code with nothing open" $code 1
timeout 240 "$probity" trace -q -e "$printing" -- "$v" -n 100000 2>"$work/err" | head -n 1 >"$work/out" || true
! grep -v '^Lost' "$work/err" >&9 || complain "a reader that has gone is no error"

# Strings of the target.
cat >"$work/text.c" <<'END_C'
__attribute__((noipa)) void say(const char *text) { __asm__ volatile("" : : "r"(text) : "memory"); }
int main(void) { say("red \033[31m bell \a back \b\b \233 tab \t end"); return 0; }
END_C
gcc -O1 -o "$work/text" "$work/text.c"
if command -v script >/dev/null; then
    script -qec "timeout 240 '$probity' trace -q -e 'uprobe:$work/text:say { printf(\"%s\\n\", str(arg0)); @[str(arg0)] = count(); }' -- '$work/text'" /dev/null </dev/null >"$work/out" || complain "script: $?"
    grep -q 'red' "$work/out" || complain "nothing on the terminal"
    ! LC_ALL=C grep -qP '\x1b|\a|\x08|\x9b' "$work/out" || complain "control characters reach the terminal: $(cat -v "$work/out")"
fi
exit $failed

# A semaphore that is not in the process's memory.
for width in 64 32; do
    python3 - "$victims/$width/v_usdt" "$work/v_broken" "$width" <<'END'
import re, struct, subprocess, sys
source, broken, width = sys.argv[1], sys.argv[2], int(sys.argv[3])
notes = subprocess.run(["readelf", "-nW", source], capture_output=True, text=True).stdout
place, base, semaphore = (int(x, 16) for x in re.search(r"Name: guarded\s+Location: (\S+), Base: (\S+), Semaphore: (\S+)", notes).groups())
word = "<QQQ" if width == 64 else "<III"
image = open(source, "rb").read()
old = struct.pack(word, place, base, semaphore)
assert image.count(old) == 1
open(broken, "wb").write(image.replace(old, struct.pack(word, place, base, 0x7ff00000)))
END
    chmod 755 "$work/v_broken"
    code=0
    run_probity trace -e "usdt:$work/v_broken:v_usdt:guarded { @ = count(); }" -- "$work/v_broken" -n 10 >"$work/out" 2>"$work/err" || code=$?
    [ $code != 0 ] || fail "$width-bit: a semaphore that can not be set is no error"
    grep -q 'usdt:.*guarded: its semaphore can not be set' "$work/err" || fail "$width-bit: $(cat "$work/err")"
done
