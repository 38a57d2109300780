#!/usr/bin/env python3
"""Checks chains that a climb has left in a trace of v_climb, as `probity report --format folded --metric climb` prints them.
record_climb.py KIND FOLDED
Exits 1 when something is wrong, 75 when only a share is out of bounds: by 15 points, or by 5 with
PROBITY_LONG=1, as climb.py has it."""
import os
import sys

margin = 0.05 if os.environ.get("PROBITY_LONG") else 0.15
kind = sys.argv[1]
stacks = {}
for line in open(sys.argv[2]):
    path, _, value = line.strip().rpartition(" ")
    stacks[tuple(path.split(";"))] = stacks.get(tuple(path.split(";")), 0) + int(value)
total = sum(stacks.values())
wrong = 0


def share(*inner):
    """Of all that was found, how much ends in this sequence of callers, outermost first."""
    return sum(value for path, value in stacks.items() if path[-len(inner) :] == inner) / total


def out_of_bounds(text):
    global wrong
    print(f"out of bounds: {kind}: {text}")
    wrong = wrong or 75


def near(what, found, truth):
    if abs(found - truth) > margin:
        out_of_bounds(f"{what} is {found:.3f}, not {truth:.2f}")


if not total:
    sys.exit(f"wrong: {kind}: nothing was found")
if kind == "callers":
    # Recording every call makes the callers' own time longer, and that of what they and the leaf call to find their data.
    above = ("main", "level_1", "level_2", "level_3", "level_4", "level_5")
    leaf = {path: value for path, value in stacks.items() if "leaf" in path}
    if sum(leaf.values()) < 0.85 * total:
        out_of_bounds(f"leaf is {sum(leaf.values()) / total:.3f}")
    for percent in (60, 30, 10):
        chain = (*above, f"caller_{percent}", "leaf")
        found = sum(value for path, value in leaf.items() if path[path.index("leaf") - len(above) - 1 :][: len(chain)] == chain)
        near(f"caller_{percent}", found / sum(leaf.values()), percent / 100)
    near("what begins at _start", sum(value for path, value in stacks.items() if "_start" in path[:2]) / total, 1)
elif kind == "threads":
    for name in ("first", "second", "third"):
        if share("thread_main", f"runs_{name}", name) < 0.03:
            out_of_bounds(f"{name} is not there")
    near("below thread_main", sum(value for path, value in stacks.items() if "thread_main" in path) / total, 1)
elif kind == "wall":
    if share("thread_main", "nanosleep", "clock_nanosleep") < 0.2:
        out_of_bounds("waiting is not there")
sys.exit(wrong)
