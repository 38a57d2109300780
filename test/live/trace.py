#!/usr/bin/env python3
"""What a trace says, read with babeltrace2: an oracle for the tests of recording that shares nothing with the project's own reader.

  trace.py TRACE calls            COUNT MODULE FUNCTION of every function that was entered
  trace.py TRACE samples          NS INNERMOST;...;OUTERMOST of every stack that was sampled on a processor; `off` as the first word: off it
  trace.py TRACE threads          PID TID NAME SAMPLED_CPU_NS SAMPLED_OFF_NS SWITCHED_CPU_NS LIFE_NS of every thread
  trace.py TRACE processes        PID PARENT_PID STATUS NAME
  trace.py TRACE open             how many returns do not fit, how many calls were open at the end, and the depth
  trace.py TRACE measures         METRIC VALUE FUNCTION: what was charged to the innermost open call
"""
import collections
import re
import subprocess
import sys


class Trace:
    def __init__(self, path):
        self.function, self.module, self.frame, self.stack = {}, {}, {}, {}
        self.process, self.thread, self.metric = {}, {}, {}
        self.events = []  # (time in ns of the monotonic clock, thread, name, fields)
        run = subprocess.Popen(["babeltrace2", "--clock-cycles", path], stdout=subprocess.PIPE, text=True, errors="replace")
        line_of = re.compile(r"^\[(\d+)\] \(\S+\) (?:\S+ )?(\w+): (.*)$")
        call_of = re.compile(r"^\[(\d+)\] .* (enter|return|enter_tail): \{ thread = (\d+), .* \}, \{ function = (\d+) \}$")
        for line in run.stdout:
            match = call_of.match(line)
            if match:
                self.events.append((int(match.group(1)), int(match.group(3)), match.group(2), {"function": match.group(4)}, ""))
                continue
            match = line_of.match(line)
            if not match:
                sys.exit(f"trace.py: not understood: {line}")
            self.take(int(match.group(1)), match.group(2), match.group(3))
        if run.wait():
            sys.exit("trace.py: babeltrace2 failed")

    @staticmethod
    def fields(text):
        found = dict(re.findall(r"(\w+) = (-?\d+|0x[0-9A-Fa-f]+)", text))
        found.update(re.findall(r'(\w+) = "((?:[^"\\]|\\.)*)"', text))
        return found

    def take(self, time, name, text):
        parts = text.split(" }, { ", 1)
        fields = self.fields(parts[-1])
        head = self.fields(parts[0]) if len(parts) == 2 else {}
        if name == "function":
            self.function[int(fields["number"])] = (int(fields["module"]), fields["name"])
        elif name == "module":
            self.module[int(fields["number"])] = fields["path"]
        elif name == "frame":
            self.frame[int(fields["number"])] = int(fields["function"])
        elif name == "stack":
            self.stack[int(fields["number"])] = (int(fields["parent"]), int(fields["frame"]))
        elif name == "metric":
            self.metric[int(fields["number"])] = fields["name"]
        elif name == "process":
            self.process[int(fields["number"])] = dict(fields)
        elif name == "rename_process":
            self.process[int(fields["process"])]["name"] = fields["name"]
        elif name == "end_process":
            self.process[int(fields["process"])]["status"] = fields["status"]
        elif name == "thread":  # definitions may be written later: their own fields say when it was
            self.thread[int(fields["number"])] = dict(fields, start=int(fields["start_ns"]), end=None)
        elif name == "rename_thread":
            self.thread[int(fields["thread"])]["name"] = fields["name"]
        elif name == "end_thread":
            self.thread[int(fields["thread"])]["end"] = int(fields["time_ns"])
        if "thread" in head:
            self.events.append((time, int(head["thread"]), name, fields, parts[-1]))

    def name_of(self, function):
        return self.function[function][1]

    def module_of(self, function):
        return self.module.get(self.function[function][0], "?")

    def stack_names(self, stack):
        names = []
        while stack >= 0 and stack in self.stack:
            stack, frame = self.stack[stack]
            names.append(self.name_of(self.frame[frame]))
        return names


def print_calls(trace):
    count = collections.Counter(int(f["function"]) for _, _, name, f, _ in trace.events if name.startswith("enter"))
    for function, calls in count.items():
        print(calls, trace.module_of(function), trace.name_of(function), sep="\t")


def print_samples(trace):
    spent = collections.Counter()
    for _, _, name, fields, _ in trace.events:
        if name in ("timer", "off_cpu"):
            spent[name, int(fields["stack"])] += int(fields["value"])
    for (name, stack), value in spent.items():
        print("off" if name == "off_cpu" else "cpu", value, ";".join(trace.stack_names(stack)), sep="\t")


def print_threads(trace):
    sums = collections.defaultdict(lambda: [0, 0, 0, None, None, None])  # cpu, off, switched, running since, first, last
    for time, thread, name, fields, _ in trace.events:
        sum_ = sums[thread]
        sum_[4] = time if sum_[4] is None else sum_[4]
        sum_[5] = time
        if name == "timer":
            sum_[0] += int(fields["value"])
        elif name == "off_cpu":
            sum_[1] += int(fields["value"])
        elif name == "switch_in":
            sum_[3] = time
        elif name == "switch_out" and sum_[3] is not None:
            sum_[2] += time - sum_[3]
            sum_[3] = None
    for number, thread in trace.thread.items():
        cpu, off, switched, since, _, last = sums[number]
        end = thread["end"] or last or thread["start"]
        if since is not None:
            switched += end - since
        process = trace.process[int(thread["process"])]
        print(process["pid"], thread["tid"], thread["name"], cpu, off, switched, end - thread["start"], sep="\t")


def print_processes(trace):
    for process in trace.process.values():
        parent = trace.process.get(int(process["parent"]))
        print(process["pid"], parent["pid"] if parent else "-", process["status"], process["name"], sep="\t")


def walk_calls(trace, visit=None):
    """Calls visit(metric, value, innermost function); returns how many returns do not fit, how many calls stay open, and the depth."""
    open_ = collections.defaultdict(list)
    wrong = depth = 0
    for _, thread, name, fields, text in trace.events:
        stack = open_[thread]
        if name.startswith("enter"):
            stack.append(int(fields["function"]))
            depth = max(depth, len(stack))
        elif name == "return":
            if stack and stack[-1] == int(fields["function"]):
                stack.pop()
            else:
                wrong += 1
        elif name.startswith("place") and visit:
            visit(trace.metric[int(fields["metric"])], int(fields["value"]), trace.name_of(stack[-1]) if stack else "-")
    return wrong, sum(len(stack) for stack in open_.values()), depth


def print_open(trace):
    wrong, left, depth = walk_calls(trace)
    print(f"{wrong} wrong, {left} open, {depth} deep")


def print_measures(trace):
    sums = collections.Counter()

    def visit(metric, value, function):
        sums[metric, function] += value

    walk_calls(trace, visit)
    for (metric, function), value in sums.items():
        print(metric, value, function, sep="\t")


def main():
    what = {"calls": print_calls, "samples": print_samples, "threads": print_threads, "processes": print_processes, "open": print_open,
            "measures": print_measures}
    if len(sys.argv) != 3 or sys.argv[2] not in what:
        sys.exit(__doc__)
    what[sys.argv[2]](Trace(sys.argv[1]))


main()
