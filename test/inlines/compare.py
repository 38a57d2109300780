"""Functions and lines at addresses, against addr2line of binutils.

  compare.py addresses PROGRAM FILE EVERY   `PROGRAM --inlines FILE` for each EVERY-th instruction of FILE
  compare.py trace DIRECTORY FILE           frames of FILE in a recorded trace, whole stacks

Depth, files and lines are equal at every address. A name is equal, or differs for one of two reasons that lie with addr2line:
  1. Functions of internal linkage that are inlined everywhere have no mangled name in DWARF. addr2line shows the bare name, we add the
     scopes around it.
  2. Where the innermost or the outermost function has no mangled name, it may show the symbol of the code instead.
Symbols that it shows where there is no DWARF at all are not compared.
"""
import bisect
import os
import re
import subprocess
import sys

LEAST = {"addresses": 1000, "trace": 50}


def run(*command, **keywords):
    return subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True, **keywords).stdout


def read_levels(text):
    """What follows each address: pairs of a name and a place."""
    levels = {}
    for line in text.splitlines():
        if line.startswith("0x"):
            now = levels.setdefault(int(line, 16), [])
            now.clear()
        else:
            now.append(line)
    return {va: list(zip(lines[::2], lines[1::2])) for va, lines in levels.items()}


def ask_addr2line(file, addresses):
    text = "".join("%x\n" % va for va in addresses)
    mangled = run(os.environ.get("ADDR2LINE", "addr2line"), "-a", "-i", "-f", "-e", file, input=text)
    # LLVM's own demangler spells some names otherwise.
    return read_levels(run("c++filt", input=mangled))


class Symbols:
    def __init__(self, file):
        rows = [line.split(None, 2) for line in run("nm", "-C", "--defined-only", file).splitlines()]
        self.names = {}
        for va, _, name in (row for row in rows if len(row) == 3):
            self.names.setdefault(int(va, 16), set()).add(name)
        self.starts = sorted(self.names)

    def at(self, va):
        index = bisect.bisect_right(self.starts, va)
        return self.names[self.starts[index - 1]] if index else set()


def split_place(place):
    place = re.sub(r" \(discriminator.*", "", place)
    path, _, line = place.rpartition(":")
    return path, (int(line) if line.isdigit() else 0)


def is_same_place(place, our_place):
    (path, line), (our_path, our_line) = split_place(place), split_place(our_place)
    return line == our_line and (not line or os.path.normpath(path).endswith(os.path.normpath(our_path).lstrip("./")))


class Comparison:
    def __init__(self, file):
        self.symbols = Symbols(file)
        self.wrong = 0
        self.count = {"addresses": 0, "levels": 0, "inlined": 0, "scoped": 0, "by symbol": 0}

    def complain(self, va, what, theirs, ours):
        self.wrong += 1
        if self.wrong <= 10:
            print("%#x: %s: addr2line %s, we %s" % (va, what, theirs, ours))

    def compare_name(self, va, is_end, theirs, ours):
        if theirs == ours:
            return
        if ours.endswith("::" + theirs):
            self.count["scoped"] += 1
        elif is_end and theirs in self.symbols.at(va):
            self.count["by symbol"] += 1
        else:
            self.complain(va, "name", theirs, ours)

    def compare(self, va, theirs, ours):
        self.count["addresses"] += 1
        if len(theirs) != len(ours):
            self.complain(va, "depth", theirs, ours)
            return
        for level, ((name, place), (our_name, our_place)) in enumerate(zip(theirs, ours)):
            self.count["levels"] += 1
            self.count["inlined"] += level > 0
            if not is_same_place(place, our_place):
                self.complain(va, "place", place, our_place)
            self.compare_name(va, level in (0, len(theirs) - 1), name, our_name)

    def end(self, least):
        print(", ".join("%d %s" % (n, what) for what, n in self.count.items()), "%d wrong" % self.wrong)
        if self.count["addresses"] < least:
            print("too few addresses")
        return 0 if not self.wrong and self.count["addresses"] >= least else 1


def compare_addresses(program, file, every):
    text = run("objdump", "-d", "-j", ".text", "--no-show-raw-insn", file)
    addresses = [int(match, 16) for match in re.findall(r"^ *([0-9a-f]+):\t", text, re.M)][:: int(every)]
    ours = read_levels(run(program, "--inlines", file, input="".join("%x\n" % va for va in addresses)))
    theirs = ask_addr2line(file, addresses)
    comparison = Comparison(file)
    for va in addresses:
        # What binutils' says of padding between functions depends on what it was asked before: asked anew, it says what it knows.
        if not all(is_same_place(place, our_place) for (_, place), (_, our_place) in zip(theirs[va], ours[va])):
            theirs[va] = ask_addr2line(file, [va])[va]
        comparison.compare(va, theirs[va], ours[va])
    return comparison.end(LEAST["addresses"])


# ---- traces ----


def read_trace(directory):
    """Definitions by kind and number; the stacks of samples."""
    kinds, sampled = {"module": {}, "function": {}, "frame": {}, "stack": {}}, set()
    for line in run("babeltrace2", directory).splitlines():
        match = re.match(r"\[.*?\] \(.*?\) \S+ (\w+): (.*)", line)
        if not match:
            continue
        # A record has the context of its stream before it.
        items = dict(re.findall(r'(\w+) = ("(?:[^"\\]|\\.)*"|[^ ,}]+)', match.group(2)))
        if match.group(1) in kinds:
            kinds[match.group(1)][int(items["number"])] = items
        elif match.group(1) == "timer":
            sampled.add(int(items["stack"]))
    return kinds, sampled


def unquote(text):
    return re.sub(r"\\(.)", r"\1", text[1:-1])


def code_of_stack(kinds, number, module):
    """(address that is meant, levels) of each place of the stack that is in the module: inlined frames go with the frame they are in."""
    levels, is_innermost = [], True
    while number >= 0:
        stack = kinds["stack"][number]
        frame = kinds["frame"][int(stack["frame"])]
        function = kinds["function"][int(frame["function"])]
        levels.append((unquote(function["name"]), "%s:%s" % (unquote(frame["file"]) or "??", frame["line"])))
        if frame["is_inlined"] == "0":
            if function["module"] == module:
                yield int(frame["offset"], 16) - (not is_innermost), levels
            levels, is_innermost = [], False
        number = int(stack["parent"])
    if levels:
        raise SystemExit("a stack ends in an inlined function: %s" % levels)


def core(name):
    """The identifier alone, without scopes, arguments of templates and parameters."""
    # What of operators' names looks like brackets.
    name = re.sub(r"operator(\(\)|[<>=-]+)", lambda match: "operator" + match.group(1).translate(str.maketrans("()<>", "__LG")), name)
    longer = None
    while name != longer:
        longer, name = name, re.sub(r"<[^<>()]*>|\([^<>()]*\)|\{[^{}]*\}", "", name)
    name = re.sub(r" \[clone .*|( const)+$", "", name)
    return re.split(r"::| ", name.strip())[-1]


class TraceComparison(Comparison):
    """Functions in a trace are called as their symbols, also inlined ones that have an out-of-line copy."""

    def compare_name(self, va, is_end, theirs, ours):
        if core(theirs) != core(ours) and not (theirs == "??" and ours.endswith("@plt")):
            super().compare_name(va, is_end, theirs, ours)


def compare_trace(directory, file):
    kinds, sampled = read_trace(directory)
    module = [number for number, items in kinds["module"].items() if unquote(items["path"]) == os.path.realpath(file)]
    found = {}
    for number in sampled:
        for va, levels in code_of_stack(kinds, number, str(module[0])):
            if found.setdefault(va, levels) != levels:
                raise SystemExit("%#x has two meanings: %s, %s" % (va, levels, found[va]))
    theirs = ask_addr2line(file, sorted(found))
    comparison = TraceComparison(file)
    for va, levels in sorted(found.items()):
        comparison.compare(va, theirs[va], levels)
    return comparison.end(LEAST["trace"])


sys.exit(compare_addresses(*sys.argv[2:]) if sys.argv[1] == "addresses" else compare_trace(*sys.argv[2:]))
