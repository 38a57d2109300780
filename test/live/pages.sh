#!/bin/bash
# The controller is killed before each single write into the code of a program whose places lie where pages meet, while it attaches and while it
# detaches: the program computes what it should, and the next attach leaves nothing behind. (S2.2)
# timeout: 300
. "$(dirname "$0")/lib.sh"
command -v strace >/dev/null || skip "strace is not here"

# Of the system calls of a run, the numbers of those that write into the code of the file: the number of the first, and of the one behind the last.
code_writes() { # PID FILE STRACE-OUTPUT
    python3 - "$@" <<'PYTHON'
import re, sys
pid, path, trace = sys.argv[1:]
ranges = []
for line in open(f"/proc/{pid}/maps"):
    field = line.split()
    if len(field) == 6 and field[5] == path and "x" in field[1]:
        ranges.append([int(end, 16) for end in field[0].split("-")])
calls = [int(m[1]) for m in re.finditer(r"pwrite64\(.*?, (?:\.\.\., )?\d+, (\d+)\)", open(trace).read())]
at = [i + 1 for i, va in enumerate(calls) if any(low + 4096 <= va < high for low, high in ranges)]
print(at[0], at[-1] + 1, len(at))
PYTHON
}

kill_each() { # VICTIM
    local specs=("$1:*" "$1:loop_2+32" "$1:loop_8+32" "$1:loop_16+32") n round=1 first last writes
    for n in 1 2 3 4; do specs+=("$1:middle_$n+64" "$1:middle_$n:return"); done
    start_victim "$1"
    wait_ready
    strace -qq -e trace=pwrite64 -o "$work/calls" "$probity" count -p "$victim_pid" -d 0.01 "${specs[@]}" >/dev/null 2>"$work/err" {victim_in}>&- ||
        fail "$1: $(cat "$work/err")"
    read -r first last writes < <(code_writes "$victim_pid" "$1" "$work/calls")
    [ "$writes" -ge 6 ] || fail "$1: only $writes writes into its code"
    for ((n = first; n <= last; n++)); do
        (strace -qq -e trace=pwrite64 -e inject=pwrite64:signal=KILL:when=$n -o "$work/calls" "$probity" count -p "$victim_pid" -d 0.01 \
            "${specs[@]}" >/dev/null {victim_in}>&- || true) 2>/dev/null
        release
        wait_ready $((++round))
    done
    run_probity count -p "$victim_pid" -d 0.01 "${specs[@]}" >/dev/null 2>"$work/err" || fail "$1: $(cat "$work/err")"
    text_is_the_files "$victim_pid"
    end_victim
    echo "$1: killed before each of $((last - first + 1)) writes, $writes of them into its own code"
}

for width in 64 32; do
    kill_each "$victims/$width/v_pages"
done
