#!/bin/bash
# What a recording says of each thread's processor time is what the kernel said to the thread itself, whatever the thread does: yields,
# sleeps, takes turns, lives for a moment, changes between these; by samples and by calls, on both clocks, with live trees, of processes that
# were started and that were there, beside busy loops, in both widths. What was estimated is said. (S4.1, S4.3)
# timeout: 240
. "$(dirname "$0")/lib.sh"

cat >"$work/compare.py" <<'P'
# compare.py VICTIM-OUTPUT REPORT.json GRAIN-MS: each thread within a hundredth, a grain and a tick, all of a kind within a hundredth and a
# grain for each. The kernel's own account of a thread is up to a tick old when it ends: what it lacks then, and what a host took from the
# thread's last moments, is one to who looks. A thread also runs a little after it has looked at its clock for the last time.
import collections, json, sys, time
found = {int(row["name"].split(".")[1].split()[0]): row for row in json.load(open(sys.argv[2]))["parts"][0]["rows"]}
grain, tick, wrong = float(sys.argv[3]), time.clock_getres(6) * 1e3, []  # CLOCK_MONOTONIC_COARSE
sums = collections.defaultdict(lambda: [0, 0.0, 0.0])
for line in open(sys.argv[1]):
    words = line.split()
    if words[:1] != ["thread"]:
        continue
    tid, kind, truth = int(words[1]), words[2], int(words[3]) / 1e6
    row = found.get(tid, {})
    cpu, estimated = (row.get("cpu") or 0) / 1e6, (row.get("estimated") or 0) / 1e6
    if abs(cpu - truth) > truth / 100 + grain + tick:
        wrong.append(f"thread {tid} ({kind}): {cpu:.3f} ms, the kernel says {truth:.3f}")
    if estimated > cpu or (kind == "y" and truth > 50 and not estimated):
        wrong.append(f"thread {tid} ({kind}): {cpu:.3f} ms, of which {estimated:.3f} are estimated")
    sums[kind] = [sums[kind][0] + 1, sums[kind][1] + cpu, sums[kind][2] + truth]
for kind, (count, cpu, truth) in sums.items():
    if abs(cpu - truth) > truth / 100 + (0.1 if kind in "bz" else grain) * count + (tick if kind in "sc" else 0):
        wrong.append(f"{count} threads of {kind}: {cpu:.3f} ms, the kernel says {truth:.3f}")
print(f"{sum(s[0] for s in sums.values())} threads,", ", ".join(f"{k} {100 * c / t:.2f} %" for k, (n, c, t) in sorted(sums.items())))
if wrong or not sums:
    sys.exit("; ".join(wrong[:5]) + f" ({len(wrong)} wrong)")
P

check() { # WHAT GRAIN-MS
    "$probity" report --raw --view threads -f json "$work/trace" >"$work/json" || fail "$1: report"
    python3 "$work/compare.py" "$work/out" "$work/json" "$2" >"$work/said" 2>"$work/wrong" || complain "$1: $(cat "$work/wrong")"
    echo "$1: $(cat "$work/said")"
}

# What the tree has in all is what its threads have.
check_tree() { # WHAT DATA
    "$probity" report --raw --view tree --data "$2" -f json "$work/trace" >"$work/tree" || fail "$1: report"
    python3 - "$work/json" "$work/tree" >"$work/said" <<'P' || complain "$1: $(cat "$work/said")"
import json, sys
threads = sum(row["cpu"] for row in json.load(open(sys.argv[1]))["parts"][0]["rows"])
tree = sum(row["cum"] for part in json.load(open(sys.argv[2]))["parts"] for row in part["rows"] if row["level"] == 0)
print(f"the tree has {tree / 1e6:.3f} ms, its threads {threads / 1e6:.3f}")
sys.exit(abs(tree - threads) > threads / 100)
P
}

started_with() { # WHAT WIDTH GRAIN-MS VICTIM-OPTIONS OPTION...
    local -a victim_options
    read -ra victim_options <<<"$4"
    rm -rf "$work/trace" # one of another user is not written over
    run_probity record -q -o "$work/trace" "${@:5}" -- "$victims/$2/v_times" "${victim_options[@]}" >"$work/out" 2>"$work/err" ||
        fail "$1: $(cat "$work/err")"
    check "$1, $2 bit" "$3"
}

attached_with() { # WHAT WIDTH GRAIN-MS VICTIM-OPTIONS OPTION...
    local -a victim_options
    read -ra victim_options <<<"$4"
    start_victim "$victims/$2/v_times" -w "${victim_options[@]}"
    wait_ready
    rm -rf "$work/trace"
    run_probity record -q -o "$work/trace" "${@:5}" -p "$victim_pid" >"$work/err" 2>&1 {victim_in}>&- &
    started+=($!)
    local recorder=$!
    wait_until 60 test -e "$work/trace/metadata" || fail "$1: $(cat "$work/err")" # it is published when all is in place
    end_victim
    wait "$recorder" || fail "$1: $(cat "$work/err")"
    cp "$victim_out" "$work/out"
    check "$1, $2 bit" "$3"
}

# Without the right to hear of threads that end, what the last look has not seen is estimated; the more so where perf events are forbidden.
cat >"$work/no_perf.py" <<'P'
# no_perf.py COMMAND...: runs it under a filter that forbids perf_event_open
import ctypes, os, struct, sys
rules = [(0x20, 0, 0, 0), (0x15, 0, 1, 298), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7FFF0000)]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *rule) for rule in rules))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(rules), ctypes.addressof(code)))
libc = ctypes.CDLL(None)
libc.prctl(38, 1, 0, 0, 0)
if libc.prctl(22, 2, program, 0, 0):
    sys.exit("no filter")
os.execvp(sys.argv[1], sys.argv[1:])
P
as_user=(setpriv --reuid 65534 --regid 65534 --clear-groups)
by_user() { # WHAT PREFIX...: an ordinary user records
    local name=$1 recorder
    chmod 777 "$work"
    rm -rf "$work/trace"
    start_victim "${as_user[@]}" "$victims/64/v_times" -w -k ynpds -t 1 -m "$(scale 500 2000)"
    wait_ready
    "${@:2}" "${as_user[@]}" "$probity" record -q -o "$work/trace" -p "$victim_pid" >"$work/err" 2>&1 {victim_in}>&- &
    recorder=$!
    started+=("$recorder")
    wait_until 60 test -e "$work/trace/metadata" || fail "$name: $(cat "$work/err")"
    end_victim
    wait "$recorder" || fail "$name: $(cat "$work/err")"
    cp "$victim_out" "$work/out"
    check "$name" "$(scale 100 40)" # how far looks are apart on a loaded machine nobody knows
}

ms=$(scale 50 400)
calls=(--calls 'v_times:step')
some() { # WIDTH CHOSEN COMMAND...: in make check each way is tried in one width
    if [ -n "${PROBITY_LONG:-}" ] || [ "$1" = "$2" ]; then "${@:3}"; fi
}
for width in 64 32; do
    some $width 64 started_with plain $width 0.4 "-k sycpndbz -t 1 -m $ms"
    some $width 64 check_tree plain samples
    some $width 32 started_with calls $width 0.4 "-k sycpndb -t 1 -m $ms" "${calls[@]}"
    some $width 32 check_tree calls events
    some $width 64 started_with 'live tree' $width 0.4 "-k sycpnd -t 1 -m $ms" "${calls[@]}" --live-tree
    some $width 64 check_tree 'live tree' events
    some $width 32 started_with wall $width 0.4 "-k sycpnd -t 1 -m $ms" --clock wall
    some $width 32 attached_with attached $width 0.4 "-k sycpndb -t 1 -m $ms"
    some $width 64 attached_with 'attached, calls' $width 0.4 "-k sycpnd -t 1 -m $ms" "${calls[@]}"
done
started_with 'many threads' 64 0.4 "-k yn -t $(scale 32 250) -m $(scale 5 20)"
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
    by_user user
    by_user 'user, no perf events' python3 "$work/no_perf.py"
fi

for i in 1 2; do
    bash -c 'while :; do :; done' &
    started+=($!)
done
started_with 'beside busy loops' 64 0.4 "-k sycpndb -t 1 -m $ms" "${calls[@]}"
started_with 'beside busy loops, plain' 32 0.4 "-k sycpn -t 1 -m $ms"
exit $failed
