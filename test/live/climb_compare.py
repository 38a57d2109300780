#!/usr/bin/env python3
"""Compares what `probity climb --json` has learnt with all calls of a run of the same program.
climb_compare.py CLIMB FOLDED: the second is `probity report --format folded` of a trace with every call.
Prints `edges FOUND OF ALL overlap SHARE hits N`. Contexts are compared with recursion folded: a function counts once on a stack, at its innermost
place, as climbing sees it."""
import json
import sys
from collections import defaultdict

climb = json.load(open(sys.argv[1]))
HOT_EDGE = 0.02
# What a program does once, when it starts and ends, is as much in a short run as in a long one, but not as large a part of it.
ONCE = {"_dl_start", "_dl_init", "_dl_fini", "exit", "Py_InitializeFromConfig", "Py_FinalizeEx", "PyImport_ImportModuleLevelObject", "perl_construct", "perl_parse", "perl_destruct"}


def fold(stack):
    """Innermost first, each function once."""
    seen, out = set(), []
    for name in reversed(stack):
        if name not in seen:
            seen.add(name)
            out.append(name)
    return out


full, edges = defaultdict(float), defaultdict(float)
total = 0
for line in open(sys.argv[2]):
    stack, value = line.rsplit(" ", 1)
    stack, value = stack.split(";"), float(value)
    if ONCE & set(stack):
        continue
    total += value
    for edge in set(zip(stack, stack[1:])):
        edges[edge] += value
    path = fold(stack)
    for depth in range(len(path)):
        full[tuple(path[depth:])] += value  # inclusive: the context of each caller on the way
hot_edges = {edge for edge, value in edges.items() if value >= HOT_EDGE * total and edge[0] != edge[1]}
known = {(caller["function"], function["function"]) for function in climb["functions"] for caller in function["callers"]}
found = hot_edges & known

ours = defaultdict(float)
for spot in climb["hot_spots"]:
    links = spot["links"]
    left = [link["share"] for link in links]
    for link in links:
        if link["below"] >= 0:
            left[link["below"]] -= link["share"]
    for number, part in enumerate(left):
        path, at = [], number
        while at >= 0:
            path.append(links[at]["function"])
            at = links[at]["below"]
        path.reverse()
        for depth in range(len(path)):
            ours[tuple(path[depth:])] += max(part, 0) * spot["share"]
covered = sum(spot["share"] for spot in climb["hot_spots"])
weight = sum(full.values())
mine = sum(ours.values())
overlap = sum(min(value / weight, ours[path] / mine) for path, value in full.items() if path in ours)
print(f"edges {len(found)} of {len(hot_edges)} overlap {overlap:.3f} covered {covered:.3f} hits {climb['hits']} hooks {climb['hooks_most']}")
for edge in sorted(hot_edges - known, key=lambda e: -edges[e])[:10]:
    print(f"  missing {edge[0]} -> {edge[1]} {edges[edge] / total:.3f}", file=sys.stderr)
if len(sys.argv) > 3:
    for path, value in sorted(full.items(), key=lambda item: -abs(item[1] / weight - ours[item[0]] / mine))[:15]:
        print(f"  {value / weight:.4f} {ours[path] / mine:.4f} {';'.join(path)}", file=sys.stderr)
