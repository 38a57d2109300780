#!/usr/bin/env python3
"""Checks what `probity climb --json` has learnt of executions.
climb_executions.py callers|recursion|phases RESULT TRUTH  of v_climb_calls with --hot calls; TRUTH: the calls that it printed
climb_executions.py samples RESULT                         the same program without --hot calls
climb_executions.py real RESULT COUNTS                     of a real program; COUNTS: what `probity count --json '*:*'` counted in a run of it
Exits 1 when something is wrong, 75 when only a share is out of bounds. Shares may be 15 points off; 5 with PROBITY_LONG=1, for a machine that
does nothing else."""
import json
import os
import sys

margin = 0.05 if os.environ.get("PROBITY_LONG") else 0.15


def is_thunk(name):
    """Position-independent code of 32 bits calls such a function to know where it is, as often as anything else."""
    return name.startswith("__x86.get_pc_thunk")


kind, result = sys.argv[1], json.load(open(sys.argv[2]))
hot = {spot["function"]: spot for spot in result["hot_spots"] if not is_thunk(spot["function"])}
executions = {function["function"]: function.get("executions", 0) for function in result["functions"]}
others = sum(count for name, count in executions.items() if not is_thunk(name)) / max(1, sum(executions.values()))
wrong = 0


def fail(what):
    global wrong
    print(f"wrong: {kind}: {what}")
    wrong = 1


def near(what, found, truth, off=margin):
    global wrong
    if not truth - off <= found <= truth + off:
        print(f"out of bounds: {kind}: {what} is {found:.3f}, not {truth:.3f}")
        wrong = wrong or 75


def share_above(spot, name):
    """Of the hot spot's calls, how many come through this function, wherever it is above."""
    return sum(link["share"] for link in hot[spot]["links"] if link["function"] == name)


def check_counting():
    counting = result["counting"]
    if not 0 < counting["most"] <= 2048 or counting["now"] or not counting["functions"] >= counting["most"]:
        fail(f"counting probes: {counting}")
    if not counting["rounds"] or not counting["ns"] or not counting["executions"]:
        fail(f"nothing was counted: {counting}")
    if counting["ns"] > result["elapsed_ns"]:
        fail(f"probes were there for {counting['ns']} of {result['elapsed_ns']} ns")


if result["hooks_most"] > 16 or result["hooks_now"]:
    fail(f"{result['hooks_most']} hooks at a time, {result['hooks_now']} now")
if kind == "samples":
    if list(hot) != ["slow"] or "counting" in result:
        fail(f"hot by samples: {list(hot)}")
elif kind == "real":
    check_counting()
    counts = {}
    for line in open(sys.argv[3]):
        row = json.loads(line)
        if row["point"] == "entry":
            counts[row["function"]] = counts.get(row["function"], 0) + row["count"]
    # The functions that are called most; those of about the same count may come in any order.
    order = sorted(counts, key=counts.get, reverse=True)
    shares = {name: counts[name] / sum(counts.values()) for name in order}
    print("counted:", ", ".join(f"{name} {shares[name]:.3f}" for name in order[:10]))
    print("climbed:", ", ".join(f"{name} {spot['share']:.3f}" for name, spot in list(hot.items())[:10]))
    found = sum(name in hot for name in order[:10])
    if found < 5:
        fail(f"only {found} of the ten functions that are called most are hot spots")
    near("part of the five functions that are called most that are hot spots", sum(name in hot for name in order[:5]) / 5, 1, 0.25)
    near("what the hot spots have of all calls", sum(shares.get(name, 0) for name in list(hot)[:10]), sum(shares[name] for name in order[:10]))
    for name in order[:5]:
        if name in hot:
            near(f"share of {name}", hot[name]["share"], shares[name], margin / 3)
else:
    check_counting()
    truth = {line.split()[0]: int(line.split()[1]) for line in open(sys.argv[3]) if len(line.split()) == 2}
    calls = {name: count for name, count in truth.items() if "<" not in name}
    most = {"callers": ["often"], "recursion": ["descend"], "phases": ["first", "second"]}[kind]
    if kind == "phases":  # what comes later may be found late
        near("part of what is called most that was found", len(set(most) & set(hot)) / len(most), 1)
    if not set(hot) or not set(hot) <= set(most) or (kind != "phases" and len(hot) < len(most)):
        fail(f"hot by calls: {list(hot)}")
    for name in set(most) & set(hot):
        near(f"share of {name}", hot[name]["share"] / others, calls[name] / sum(calls.values()))
        callers = {key.split("<")[1]: count for key, count in truth.items() if key.startswith(name + "<")}
        for caller, count in callers.items():
            near(f"calls of {name} by {caller}", share_above(name, caller), count / sum(callers.values()))
        near(f"calls of {name}, of what they were", executions[name] / calls[name], 1, 0.4)
        above = {"callers": ["callers", "main"], "recursion": ["recursion", "main"], "phases": ["runs_" + name, "main"]}[kind]
        for caller in above:
            near(f"calls of {name} below {caller}", share_above(name, caller), 1)
sys.exit(wrong)
