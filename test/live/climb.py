#!/usr/bin/env python3
"""Checks what `probity climb --json` has learnt of v_climb.
climb.py KIND RESULT [TRUTH]
Exits 1 when something is wrong, 75 when only a share is out of bounds. Shares may be 15 points off, which tells callers apart whatever else the
machine does; 5 points with PROBITY_LONG=1, for a machine that does nothing else.
Names of functions that were taken from a stripped program are looked up: climb.py KIND RESULT TRUTH NM, with what nm prints of the whole one."""
import json
import os
import re
import sys

margin = 0.05 if os.environ.get("PROBITY_LONG") else 0.15
kind, text = sys.argv[1], open(sys.argv[2]).read()
if len(sys.argv) > 4:
    names = {int(line.split()[0], 16): line.split()[2] for line in open(sys.argv[4]) if len(line.split()) == 3}
    result = json.loads(text)
    for spot in result["hot_spots"]:
        if not spot["function"].startswith("sub_"):
            sys.exit(f"wrong: {kind}: hot spot {spot['function']} has a name")
    text = re.sub(r'"sub_([0-9a-f]+)"', lambda found: f'"{names.get(int(found[1], 16), found[0][1:-1])}"', text)
result = json.loads(text)
hot = {spot["function"]: spot for spot in result["hot_spots"]}
module = {function["function"]: function["module"] for function in result["functions"]}
wrong = 0
# Processor time by function, as the program measured it.
truth = {}
for line in open(sys.argv[3]) if len(sys.argv) > 3 else []:
    if len(line.split()) == 2:
        truth[line.split()[0]] = float(line.split()[1])


def expect(what, found, low, high):
    global wrong
    if not low <= found <= high:
        print(f"out of bounds: {kind}: {what} is {found:.3f}, not {low:.3f} to {high:.3f}")
        wrong = wrong or 75


def paths(spot):
    """Chains of a hot spot, each from the hot spot upwards, with its share: of every link that nothing is above."""
    links = hot[spot]["links"]
    below = {link["below"] for link in links}
    for number, link in enumerate(links):
        if number in below:
            continue
        path, at = [], number
        while at >= 0:
            path.append(links[at]["function"])
            at = links[at]["below"]
        yield path[::-1], link["share"]


def share(spot, *wanted):
    """Of the hot spot's time, how much has this sequence of callers directly above it."""
    return sum(part for path, part in paths(spot) if path[: len(wanted) + 1] == [spot, *wanted])


def reached(spot, name):
    return sum(part for path, part in paths(spot) if name in path)


def near(what, found, truth):
    expect(what, found, truth - margin, truth + margin)


def root(spot):
    near(f"part of {spot} that was climbed to the root", sum(link["share"] for link in hot[spot]["links"] if link.get("end") == "root"), 1)


if result["hooks_most"] > 16:
    print(f"wrong: {kind}: {result['hooks_most']} hooks at a time")
    wrong = 1
if kind == "valued":
    for percent in (60, 30, 10):
        near(f"caller_{percent}", share("leaf", f"caller_{percent}", "level_5", "level_4", "level_3"), percent / 100)
elif kind == "memory":
    # By bytes: by calls it would be 5, 30 and 65 %.
    for percent in (60, 30, 10):
        near(f"take_{percent}", share(next(iter(hot)), f"take_{percent}", "take_all", "main"), percent / 100)
elif kind == "bare":
    # No function is known: hot spots are places of the module, and stacks lead to where the C library calls main.
    place = re.compile(r"v_climb-bare\+0x[0-9a-f]+")
    near("share of places", sum(spot["share"] for spot in hot.values() if place.fullmatch(spot["function"])), 1)
    for spot in hot:
        near(f"{spot} below the C library", sum(part for path, part in paths(spot) if not place.fullmatch(path[-1])), 1)
elif kind == "callers":
    above = ["level_5", "level_4", "level_3", "level_2", "level_1", "main"]
    for percent in (60, 30, 10):
        near(f"caller_{percent}", share("leaf", f"caller_{percent}", *above), percent / 100)
    near("share of leaf", hot["leaf"]["share"], 1)
elif kind == "followed":
    # First as callers, then as tail: one file, whose functions are the same, with other callers.
    first = sum(share("leaf", f"caller_{percent}", "level_5") for percent in (60, 30, 10))
    second = share("leaf", "near", "main") + share("leaf", "far", "main")
    # How much is learnt of each in their times differs; some of both is.
    expect("part of callers", first, max(0.02, 0.5 - 6 * margin), min(0.98, 0.5 + 6 * margin))
    near("part of callers and of tail", first + second, 1)
elif kind == "mutual":
    for name in ("even", "odd", "start_even", "main"):
        near(f"leaf below {name}", reached("leaf", name), 1)
elif kind == "virtual":
    near("circle", share("leaf", "circle::draw()", "draw_all", "main"), 0.75)
    near("square", share("leaf", "square::draw()", "draw_all", "main"), 0.25)
elif kind == "tail":
    near("near", share("leaf", "near", "main"), 0.8)
    near("far", share("leaf", "far", "main"), 0.2)
elif kind == "library":
    for percent in (60, 30, 10):
        near(f"caller_{percent}", share("leaf_loop", "leaf_work", f"caller_{percent}", "all_callers", "main"), percent / 100)
    near("share of leaf_loop", hot["leaf_loop"]["share"], 1)
    if not module["leaf_loop"].endswith("/libv_leaf.so"):
        print(f"wrong: library: leaf_loop is in {module['leaf_loop']}")
        wrong = 1
elif kind == "threads":
    for name in truth:
        near(f"share of {name}", hot[name]["share"], truth[name] / sum(truth.values()))
        near(f"{name} below thread_main", reached(name, "thread_main"), 1)
elif kind == "phases":
    for name in ("first", "second", "third"):
        near(f"share of {name}", hot[name]["share"], truth[name] / sum(truth.values()))
        near(f"{name} below runs_{name}", share(name, f"runs_{name}", "main"), 1)
for spot in hot:
    if kind != "bare":
        root(spot)
sys.exit(wrong)
