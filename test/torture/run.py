#!/usr/bin/env python3
"""make torture: programs and servers at work, while probity attaches to them in every way, ends in every way, and is killed and stopped.

run.py [--minutes N] [--only NAME]... [--seed N] [--table FILE]

Every program checks what it computes, every client every answer. After each run of probity that ended by itself or by a signal that it can
catch, the code of the processes must be that of their files. The table says what was done and what went wrong; anything wrong ends it with 1."""
import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import targets

root = targets.root
probity = f"{root}/{os.environ.get('BUILD', 'build')}/probity"
HUNG = 150  # seconds after which a run that should have ended is said to hang
AT_ONCE = 2


def modes(pids, one, seconds, work):
    """Every way to attach. Scripts and durations end the run by themselves."""
    every = [word for pid in pids for word in ("-p", str(pid))]
    this = ["-p", str(one)]
    end = f" interval:ms:{int(seconds * 1000)} {{ exit(); }}"
    stacks = "uprobe:*:* { @[func] = count(); @s[ustack(4)] = count(); }" + end
    prints = 'uprobe:*:*a* { printf("%d %s %lx\\n", tid, func, arg0); @[tid] = hist(arg1); } uretprobe:*:*e* { @r[func] = stats(retval); }' + end
    length = ["-d", str(seconds)]
    return {
        "count": ["count", *every, *length, "*:*"],
        "count returns": ["count", *every, *length, "*:*", "*:*:return"],
        "trace --lossless": ["trace", "--lossless", "-o", f"{work}/trace.out", *this, "-e", stacks],
        "trace": ["trace", "-o", f"{work}/trace.out", *this, "-e", prints],
        "record": ["record", "-q", "-o", f"{work}/trace", *every, *length],
        "record --calls": ["record", "-q", "-o", f"{work}/trace", *this, *length, "--calls", "*"],
        "record --live-tree": ["record", "-q", "-o", f"{work}/trace", *this, *length, "--live-tree", "--climb", "--clock", "wall", "--calls", "*:*a*"],
        "climb": ["climb", "-q", *this, "-d", str(2 * seconds)],
    }


ENDINGS = ["itself"] * 5 + ["kill"] * 3 + ["interrupt", "terminate", "stop", "stop and kill"]


class Account:
    def __init__(self):
        self.cycles = self.kills = self.stops = self.requests = self.wrong = self.lost = self.different = self.crashed = self.hung = self.failed = 0
        self.notes = []

    def note(self, text):
        self.notes.append(text)
        print(f"    {text}", flush=True)


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def is_left_alone(pid):
    """Nobody traces it and it is not stopped."""
    try:
        with open(f"/proc/{pid}/status") as file:
            fields = dict(line.split(":", 1) for line in file)
        return fields["TracerPid"].strip() == "0" and fields["State"].strip()[0] not in "tT"
    except OSError:
        return True


def backtrace(pid):
    result = subprocess.run(["gdb", "-p", str(pid), "-batch", "-ex", "bt 12"], capture_output=True, text=True, errors="replace")
    return " < ".join(line.split("(")[0].split(" in ")[-1].strip() for line in result.stdout.splitlines() if line.startswith("#"))


# Of what a killed controller left, the next one that puts probes in rids the process.
PATCHES = ["count", "count returns", "trace", "trace --lossless", "record --calls"]


def check_code(account, name, pids):
    for pid in pids:
        check = subprocess.run(["python3", f"{root}/test/live/process.py", "different", str(pid)], capture_output=True, text=True)
        if check.returncode == 0 and int(check.stdout):
            account.different += int(check.stdout)
            account.note(f"{name}: {check.stdout.strip()} bytes of process {pid} differ")


def run_once(target, account, dice, work, dirty):
    pids = [pid for pid in target.pids() if is_alive(pid)]
    if not pids:
        time.sleep(0.05)
        return
    seconds = dice.choice([0.1, 0.3, 0.6])
    pids = pids[:8]
    one = dice.choice(pids)
    mode, arguments = dice.choice(sorted(modes(pids, one, seconds, work).items()))
    attached = pids if arguments.count("-p") > 1 else [one]
    ending = dice.choice(ENDINGS)
    name = f"{target.name} {target.width}, {mode}, ended by {ending}"
    with open(f"{work}/probity.err", "w") as errors:
        run = subprocess.Popen([probity, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors, cwd=work)
    account.cycles += 1
    sent = set()

    def send(number):
        if run.poll() is None:
            run.send_signal(number)
            sent.add(-number)

    if ending != "itself":
        time.sleep(dice.choice([dice.uniform(0, 0.3), dice.uniform(0, 2)]))
    if ending == "interrupt":
        send(signal.SIGINT)
    if ending == "terminate":
        send(signal.SIGTERM)
    if ending.startswith("stop"):
        send(signal.SIGSTOP)
        account.stops += 1
        time.sleep(dice.uniform(0.5, 2))
    if ending.endswith("kill"):
        send(signal.SIGKILL)
        account.kills += 1
    if ending == "stop":
        send(signal.SIGCONT)
    try:
        run.wait(HUNG)
    except subprocess.TimeoutExpired:
        account.hung += 1
        account.note(f"{name}: hangs at {backtrace(run.pid)}; {targets.states(pids)}")
        send(signal.SIGKILL)
        run.wait()
    killed = -signal.SIGKILL in sent
    if run.returncode < 0 and run.returncode not in sent or run.returncode in (98, 99):
        account.crashed += 1
        account.note(f"{name}: probity ended with {run.returncode}: {targets.tail(f'{work}/probity.err')}")
    elif run.returncode > 0 and not killed and all(is_alive(pid) for pid in attached):
        account.failed += 1
        account.note(f"{name}: exit code {run.returncode}: {targets.tail(f'{work}/probity.err')}")
    for pid in pids:
        if not targets.wait_until(HUNG, lambda: is_left_alone(pid)):
            account.lost += 1
            account.note(f"{name}: is still held: {targets.states([pid])}")
            target.program.kill()
            return
    if killed:
        dirty.update(attached)
    elif not target.is_over():
        if run.returncode == 0 and mode in PATCHES:
            dirty.difference_update(attached)
        check_code(account, name, [pid for pid in attached if pid not in dirty])


def torture(target, seconds, seed):
    account, dice = Account(), random.Random(seed)
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 5:
        work = tempfile.mkdtemp()
        os.chmod(work, 0o755)
        try:
            target.start(work, int(left))
            time.sleep(0.3)
            dirty = set()
            while time.monotonic() < end - 3 and not target.is_over():
                run_once(target, account, dice, work, dirty)
            requests, wrong, died = target.end(HUNG + left)
        except (RuntimeError, OSError, subprocess.CalledProcessError) as error:
            account.lost += 1
            account.note(f"{target.name}: {error}")
            break
        finally:
            shutil.rmtree(work, ignore_errors=True)
        account.requests += requests
        if wrong:
            account.wrong += 1
            account.note(f"{target.name} {target.width}: {wrong}")
        if died:
            account.lost += 1
            account.note(died)
    return account


COLUMNS = ["cycles", "kills", "stops", "requests", "wrong", "lost", "different", "crashed", "hung", "failed"]
HEADS = ["cycles", "SIGKILLs", "SIGSTOPs", "requests", "wrong answers", "targets lost", "bytes different", "crashed", "hung", "exit code > 0"]


def table(rows):
    lines = ["| target | width | " + " | ".join(HEADS) + " |", "|---|---|" + "---|" * len(HEADS)]
    for target, account in rows:
        lines.append(f"| {target.name} | {target.width} | " + " | ".join(str(getattr(account, column)) for column in COLUMNS) + " |")
    sums = [str(sum(getattr(account, column) for _, account in rows)) for column in COLUMNS]
    lines.append("| all | | " + " | ".join(sums) + " |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--only", action="append")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--table")
    options = parser.parse_args()
    targets.make()
    chosen = [target for target in targets.all_targets() if not options.only or target.name in options.only]
    seconds = options.minutes * 60 * AT_ONCE / len(chosen)
    print(f"seed {options.seed}: {len(chosen)} targets, {AT_ONCE} at a time, {seconds:.0f} s each", flush=True)
    waiting, rows, lock = list(enumerate(chosen)), {}, threading.Lock()

    def work():
        while True:
            with lock:
                if not waiting:
                    return
                index, target = waiting.pop(0)
            print(f"{target.name} {target.width}-bit", flush=True)
            rows[index] = (target, torture(target, seconds, f"{options.seed} {index}"))

    threads = [threading.Thread(target=work) for _ in range(min(AT_ONCE, len(chosen)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = [rows[index] for index in sorted(rows)]
    text = table(found)
    print(text)
    if options.table:
        with open(options.table, "w") as file:
            file.write(text)
    good = len(found) == len(chosen) and all(
        account.requests and not (account.wrong or account.lost or account.different or account.crashed or account.hung) for _, account in found
    )
    sys.exit(not good)


main()
