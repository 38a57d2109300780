#!/usr/bin/env python3
"""Which functions of a program are hooked, seen from outside: those of which some byte in memory differs from the program's file.
climb_hooks.py watch PID PROGRAM      prints ready, then for each set of hooked functions a line with their names, until the process ends or
                                      it is ended by SIGTERM
climb_hooks.py passing SETS RESULT    checks a climb of v_climb callers (climb --json) that was watched: what is hooked below leaves when
                                      what is above is hooked, and there are never more hooks than are reported
climb_hooks.py one SETS RESULT        likewise of --hooks 1: never two, and the root is reached
climb_hooks.py seen KIND SETS         whether all that is asked of what is seen hooked has been seen by now
climb_hooks.py staying PROBITY PID PROGRAM  climbs with hooks that stay for long: the number that is said is that of the functions that are
                                      changed, and they are these
Exits 1 and says what is wrong."""
import json
import re
import signal
import subprocess
import sys
import time

CHAIN = ["leaf", "caller_60", "level_5", "level_4", "level_3", "level_2", "level_1", "main"]


def mappings(pid):
    with open(f"/proc/{pid}/maps") as lines:
        for line in lines:
            field = line.split(None, 5)
            low, high = (int(x, 16) for x in field[0].split("-"))
            yield low, high, field[1], int(field[2], 16), field[5].strip() if len(field) > 5 else ""


def functions(program):
    """Start, end and name of each function, by address."""
    found = {}
    for line in subprocess.run(["nm", "-S", program], capture_output=True, text=True, check=True).stdout.splitlines():
        field = line.split()
        if len(field) == 4 and field[2] in "tTwW":
            found[int(field[0], 16)] = (int(field[0], 16) + int(field[1], 16), field[3])
    return [(start, end, name) for start, (end, name) in sorted(found.items())]


class Text:
    """The code of a file in a process."""

    def __init__(self, pid, program):
        mine = [mapping for mapping in mappings(pid) if mapping[4] == program]
        self.low, high, _, offset, _ = next(mapping for mapping in mine if "x" in mapping[2])
        with open(program, "rb") as file:
            file.seek(offset)
            # The last bytes, behind all functions, are used while it is being attached to.
            self.expected = file.read(high - self.low - 128)
        kind = open(program, "rb").read(18)[16]
        self.bias = mine[0][0] if kind == 3 else 0  # ET_DYN
        self.memory = open(f"/proc/{pid}/mem", "rb", buffering=0)
        self.functions = functions(program)

    def read(self):
        self.memory.seek(self.low)
        return self.memory.read(len(self.expected))

    def hooked(self, found):
        names = set()
        for start, end, name in self.functions:
            at = start + self.bias - self.low
            if at >= 0 and found[at : at + end - start] != self.expected[at : at + end - start]:
                names.add(name)
        return names


def is_stopped(pid):
    """Half of a change may be done while the threads are stopped for it."""
    with open(f"/proc/{pid}/stat") as stat:
        return stat.read().rsplit(")", 1)[1].split()[0] in "tT"


def watch(pid, program):
    text, last = Text(pid, program), None
    print("ready", flush=True)
    while True:
        try:
            if is_stopped(pid):
                continue
            found = text.read()
            if is_stopped(pid) or text.read() != found:
                continue
        except OSError:
            return
        if found != last:
            print(" ".join(sorted(text.hooked(found))), flush=True)
            last = found


def wrong(message):
    sys.exit(f"wrong: {message}")


def read_sets(file):
    lines = open(file).read().splitlines()
    return [set(line.split()) for line in lines if line != "ready"]


def check_most(sets, result):
    most = max(len(hooked) for hooked in sets)
    if not most:
        wrong("nothing was seen hooked")
    if most > result["hooks_most"]:
        wrong(f"{most} functions were hooked at a time, {result['hooks_most']} are reported")


def reaches_root(result):
    links = next(spot for spot in result["hot_spots"] if spot["function"] == "leaf")["links"]
    return any(link["function"] == "main" for link in links)


def check_passing(sets):
    seen = set().union(*sets)
    if not seen & set(CHAIN[:4]) or not seen & set(CHAIN[-4:]):
        wrong(f"only these were seen hooked: {sorted(seen)}")
    # Of the outermost there may be too few calls for it in so short a time.
    for number, below in enumerate(CHAIN[:5]):
        first = next((i for i, hooked in enumerate(sets) if below in hooked), None)
        above = set(CHAIN[number + 1 :])
        later = sets[first:] if first is not None else []
        if any(hooked & above for hooked in later) and not any(hooked & above and below not in hooked for hooked in later):
            wrong(f"{below} stays hooked while functions above it are")


def check_one(sets):
    if not {"leaf", "level_1"} <= set().union(*sets):
        wrong(f"only these were seen hooked: {sorted(set().union(*sets))}")


def seen(kind, sets_file):
    (check_passing if kind == "passing" else check_one)(read_sets(sets_file))


def passing(sets_file, result_file):
    sets, result = read_sets(sets_file), json.load(open(result_file))
    check_most(sets, result)
    check_passing(sets)


def one(sets_file, result_file):
    sets, result = read_sets(sets_file), json.load(open(result_file))
    check_most(sets, result)
    if max(len(hooked) for hooked in sets) > 1 or result["hooks_most"] != 1:
        wrong(f"more than one at a time: {max(sets, key=len)}, reported {result['hooks_most']}")
    if len(set().union(*sets)) < 4 or not reaches_root(result):
        wrong(f"main is not reached; hooked were {sorted(set().union(*sets))}")


def staying(probity, pid, program):
    """Hooks that stay for long: the number that is said is that of the functions that are changed, and they are these."""
    command = [probity, "climb", "--json", "--period", "1000s", "--period", "1000000000", "-p", pid]
    climb = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    text, hooked, library = Text(pid, program), set(), {}
    start = changed = time.monotonic()
    is_asked = False
    while climb.poll() is None:
        # It takes as long as it takes on this machine until as many as there will be are hooked.
        if not is_asked and ((len(hooked) >= 4 and time.monotonic() > changed + 2) or time.monotonic() > start + 120):
            climb.send_signal(signal.SIGINT)
            is_asked = True
        time.sleep(0.02)
        if is_stopped(pid):
            continue
        now = text.hooked(text.read())
        if now: # when it detaches all of them go at once: the last ones are what it tells of
            changed = time.monotonic() if now != hooked else changed
            hooked, library = now, snapshot(pid, program)
    result, status = json.loads(climb.stdout.read()), climb.stderr.read()
    told = [function for function in result["functions"] if function["state"] == "hooked"]
    mine = {function["function"] for function in told if function["module"] == program}
    numbers = re.findall(r"(\d+) hooked now", status)
    if len(mine) < 4 or mine != hooked:
        wrong(f"functions that are changed: {sorted(hooked)}; hooked are {sorted(mine)}")
    if not numbers or int(numbers[-1]) != len(told):
        wrong(f"hooked now: {numbers}; {len(told)} functions are: {sorted(function['function'] for function in told)}")
    for function in told:
        if function["module"] != program and not is_changed(library, function):
            wrong(f"{function['function']} of {function['module']} is said to be hooked and is not changed")


def snapshot(pid, program):
    """What the code of all other files is: by name, (start, bias, bytes)."""
    found, first = {}, {}
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for low, high, permissions, offset, name in mappings(pid):
            if not name.startswith("/") or name == program:
                continue
            bias = first.setdefault(name, low)
            if "x" in permissions:
                memory.seek(low)
                found[name] = (low, bias, offset, memory.read(high - low))
    return found


def is_changed(library, function):
    low, bias, offset, found = library[function["module"]]
    at = int(function["address"], 16) + bias - low
    with open(function["module"], "rb") as file:
        file.seek(offset + at)
        return file.read(5) != found[at : at + 5]


COMMANDS = {"watch": watch, "seen": seen, "passing": passing, "one": one, "staying": staying}
if __name__ == "__main__":
    COMMANDS[sys.argv[1]](*sys.argv[2:])
