#!/usr/bin/env python3
"""What a tool costs a process that it is attached to: twins.py ROUNDS SECONDS INPUT ATTACH COMMAND ARG...
Machines that are shared run the same work at speeds that differ by a fifth from second to second. So two processes do the same work on one
processor, which changes between them every few milliseconds: what disturbs one disturbs the other, and how their speeds compare stays within
half a percent. The tool is attached to one of them, then to the other, in turns; between that both are left alone for SECONDS.

What the command has written to its standard output tells how far it is. It must have one thread, which waits for nothing but a processor; it is killed
at the end. ATTACH is a shell command with the process in $pid, which ends by itself. INPUT is the standard input of the command.

Prints for each round the slowdown in percent, and its two parts: how much longer the process ran for a piece of work, and for how much of the
time it stood still, which is neither running nor waiting for the processor. Standing still is a part of all the time, not of the half that a twin
has the processor: the tool stops a process that has it all as often."""
import os
import select
import subprocess
import sys
import time

LOOK_S = 0.005


class Twin:
    """A process; `progress` is what it had written, and how long it had run, when it last wrote something."""

    def __init__(self, command, source):
        self.process = subprocess.Popen(["taskset", "-c", "0", *command], stdin=open(source, "rb"), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.out = self.process.stdout.fileno()
        os.set_blocking(self.out, False)
        self.progress = 0, 0.0

    def times(self):
        """For how long it ran and waited, and now."""
        with open(f"/proc/{self.process.pid}/schedstat") as file:
            ran, waited, _ = (int(field) / 1e9 for field in file.read().split())
        return ran, waited, time.monotonic()

    def look(self):
        try:
            piece = os.read(self.out, 1 << 20)
        except BlockingIOError:
            return
        if not piece:
            sys.exit("twins: the command has ended")
        self.progress = self.progress[0] + len(piece), self.times()[0]


def look(twins, is_over):
    while not is_over():
        select.select([twin.out for twin in twins], [], [], 4 * LOOK_S)
        time.sleep(LOOK_S)
        for twin in twins:
            twin.look()


def compare(twins, is_over):
    """Until something is over: the speed of the first over that of the second, and the parts of the time that they stood still."""
    progress, times = [twin.progress for twin in twins], [twin.times() for twin in twins]
    look(twins, is_over)
    speed, still = [], []
    for twin, a, b in zip(twins, progress, times):
        written, over = (y - x for x, y in zip(a, twin.progress))
        ran, waited, elapsed = (y - x for x, y in zip(b, twin.times()))
        speed.append(written / over)
        still.append(1 - (ran + waited) / elapsed)
    return speed[0] / speed[1], still


def main():
    rounds, seconds, source, attach = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3], sys.argv[4]

    def passed(seconds):
        end = time.monotonic() + seconds
        return lambda: time.monotonic() >= end

    def attached(twin):
        with open(os.devnull, "r+b") as null:
            tool = subprocess.Popen(["sh", "-c", attach], env=dict(os.environ, pid=str(twin.process.pid)), stdin=null, stdout=null, stderr=null)
        result = compare(twins, lambda: tool.poll() is not None)
        if tool.returncode:
            sys.exit(f"twins: the tool's exit code is {tool.returncode}")
        return result

    twins = [Twin(sys.argv[5:], source) for _ in range(2)]
    try:
        look(twins, passed(1))
        before, _ = compare(twins, passed(seconds))
        for number in range(rounds):
            who = number % 2
            during, still = attached(twins[who])
            after, _ = compare(twins, passed(seconds))
            ratio = (before + after) / 2 / during
            longer, stood = (ratio if who == 0 else 1 / ratio) - 1, still[who] - still[1 - who]
            print(f"{100 * (longer + stood):.2f} {100 * longer:.2f} {100 * stood:.2f}", flush=True)
            before = after
    finally:
        for twin in twins:
            twin.process.kill()
            twin.process.wait()


main()
