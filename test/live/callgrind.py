#!/usr/bin/env python3
"""Compares the calls that a trace holds with those that callgrind counted in the same run: callgrind.py CALLGRIND-OUT TRACE MESSAGES

Functions are told apart by module and address, since names differ (aliases, stripped code). CALLGRIND-OUT was written with --dump-instr=yes
--collect-jumps=yes --compress-pos=no --compress-strings=no; TRACE is read with babeltrace2; MESSAGES is what `probity record -v` printed.

What callgrind counts as a call to an address is its `calls=` to it, and jumps to it from other functions: callgrind takes a jump as a call
only where a symbol says that a function begins there. Not compared, each for a reason that is checked here:
  - the loader, which sees valgrind itself: its preloaded object, its processor, its auxiliary vector;
  - calls that the loader makes before it announces the libraries, so before they can have probes: resolvers of indirect functions,
    __libc_early_init, and what these call;
  - code that neither a symbol nor an unwind table calls a function (the C runtime's start files in a stripped module);
  - .init and .fini, which valgrind attributes to no object;
  - functions that MESSAGES name as having no probe at their entry.
"""
import bisect
import collections
import os
import re
import subprocess
import sys

LOADER = re.compile(r"/ld-linux[^/]*$")


def real(path):
    return os.path.realpath(path) if path.startswith("/") else path


class Callgrind:
    """calls[(object, address)]; edges of calls by the name of their caller; jumps."""

    def __init__(self, path):
        self.calls, self.name, self.jumps = collections.Counter(), {}, []
        self.edges = collections.defaultdict(list)  # (object, caller's name) -> [(callee, calls)]
        where = called = caller = callee_name = jump = None
        for line in open(path):
            key, _, value = line.rstrip("\n").partition("=")
            if key == "ob":
                where = real(value)
            elif key == "fn":
                caller = value
            elif key == "cob":
                called = real(value)
            elif key == "cfn":
                callee_name = value
            elif key == "calls":
                count, address = value.split()[:2]
                callee = (called or where, int(address, 16))
                self.calls[callee] += int(count)
                self.name.setdefault(callee, callee_name)
                self.edges[where, caller].append((callee, int(count)))
                called = None
            elif key in ("jump", "jcnd"):
                count, address = value.split()[:2]
                jump = (int(count.split("/")[0]), int(address, 16))
            elif jump:
                self.jumps.append((where, int(line.split()[0], 16), jump[1], jump[0]))
                jump = None

    def add_jumps(self, entries):
        """Jumps to entries, unless they come from between the entry and the next one: those are loops."""
        starts = collections.defaultdict(list)
        for where, address in sorted(set(self.calls) | set(entries)):
            starts[where].append(address)
        for where, source, target, count in self.jumps:
            at = bisect.bisect(starts[where], source) - 1
            if (where, target) in entries and (at < 0 or starts[where][at] != target):
                self.calls[where, target] += count

    def take_out_early(self, modules):
        """Removes what the loader calls before libraries have probes: with LD_BIND_NOW, all that those of its functions call which call a
        resolver or __libc_early_init. Returns how many calls that were."""
        early, todo, done = collections.Counter(), [], set()
        for (where, _), edges in self.edges.items():
            outside = [edge for edge in edges if LOADER.search(where) and not LOADER.search(edge[0][0]) and edge[0][0] != "???"]
            if any(callee[1] in modules[callee[0]].before_probes for callee, _ in outside):
                todo += outside
        while todo:
            callee, count = todo.pop()
            early[callee] += count
            if early[callee] == self.calls[callee] and callee not in done:
                done.add(callee)
                todo += self.edges.get((callee[0], self.name[callee]), [])
        for callee, count in early.items():
            self.calls[callee] -= count
        return sum(early.values())


def read_trace(path):
    module, function, count = {}, {}, collections.Counter()
    run = subprocess.Popen(["babeltrace2", path], stdout=subprocess.PIPE, text=True, errors="replace")
    function_of = re.compile(r'number = (\d+), module = (-?\d+), offset = 0x([0-9A-F]+), name = "((?:[^"\\]|\\.)*)"')
    module_of = re.compile(r'number = (\d+), path = "((?:[^"\\]|\\.)*)"')
    for line in run.stdout:
        if " enter: " in line or " enter_tail: " in line:
            count[line[line.rindex("= ") + 2:-3]] += 1
        elif " function: " in line:
            match = function_of.search(line)
            function[match[1]] = (match[2], int(match[3], 16), match[4])
        elif " module: " in line:
            match = module_of.search(line)
            module[match[1]] = real(match[2])
    if run.wait():
        sys.exit("callgrind.py: babeltrace2 failed")
    calls, name = collections.Counter(), {}
    for number, n in count.items():
        where = (module.get(function[number][0], "?"), function[number][1])
        calls[where] += n
        name[where] = function[number][2]
    return calls, name


class Module:
    """What readelf knows of a file: its sections, and where its functions are."""

    def __init__(self, path):
        self.sections, self.starts, self.before_probes = [], set(), set()
        for line in self.readelf("-SW", path):
            match = re.match(r"\s*\[\s*\d+\] (\S+)\s+\S+\s+([0-9a-f]+) [0-9a-f]+ ([0-9a-f]+)", line)
            if match:
                self.sections.append((match[1], int(match[2], 16), int(match[3], 16)))
        for line in self.readelf("-sW", path):
            match = re.match(r"\s*\d+: ([0-9a-f]+)\s+\d+ (FUNC|IFUNC) +\S+ +\S+ +(\S+) (\S+)", line)
            if match and match[3] != "UND":
                self.starts.add(int(match[1], 16))
                if match[2] == "IFUNC" or match[4].startswith("__libc_early_init@"):
                    self.before_probes.add(int(match[1], 16))
        for line in self.readelf("--debug-dump=frames", path):
            match = re.search(r" FDE .*pc=([0-9a-f]+)\.\.", line)
            if match:
                self.starts.add(int(match[1], 16))

    @staticmethod
    def readelf(option, path):
        return subprocess.run(["readelf", option, path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout.splitlines()

    def section(self, address):
        return next((name for name, start, size in self.sections if start <= address < start + size and start), "")


def refused(path):
    found = set()
    for line in open(path, errors="replace"):
        match = re.match(r"probity: (/[^:]*):.* at 0x([0-9a-f]+): no probe at its entry: ", line)
        if match:
            found.add((real(match[1]), int(match[2], 16)))
    return found


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    counted = Callgrind(sys.argv[1])
    traced, names = read_trace(sys.argv[2])
    without_probe = refused(sys.argv[3])
    counted.add_jumps(set(traced) | without_probe)
    modules = {path: Module(path) for path in {path for path, _ in set(counted.calls) | set(traced)} if path.startswith("/")}
    early = counted.take_out_early(modules)
    why, compared, calls, wrong = collections.Counter(), 0, 0, 0
    for where in sorted(set(counted.calls) | set(traced)):
        path, address = where
        if path not in modules or LOADER.search(path) or (not counted.calls[where] and not traced[where]):
            continue
        module = modules[path]
        if module.section(address) in (".init", ".fini"):
            why["are .init or .fini"] += 1
        elif where in without_probe and not traced[where]:
            why["have no probe, as was said"] += 1
        elif address not in module.starts and where not in traced:
            why["are known as functions to nobody"] += 1
        else:
            compared += 1
            calls += counted.calls[where]
            if counted.calls[where] != traced[where]:
                wrong += 1
                print(f"wrong: {path} 0x{address:x} {names.get(where) or counted.name.get(where)}: callgrind counted {counted.calls[where]}, "
                      f"the trace has {traced[where]}")
    print(f"{compared} functions of {len(modules)} modules, {calls} calls: {wrong} differ")
    print(f"not compared: {early} calls that the loader made before; " + ", ".join(f"{n} that {text}" for text, n in sorted(why.items())))
    if wrong or compared < 500 or calls < 1000000:
        sys.exit(1)


main()
