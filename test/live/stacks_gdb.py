# Run by gdb (test/live/stacks_gdb.sh): stops the program at random moments and compares gdb's own frames of every thread with those that
# build/test/unit/unwind_space --serve finds from the same registers. Inlined frames and tail calls, which gdb makes up from debug
# information, are no frames of the stack; nor is what follows a pc that is no code: gdb goes on through garbage where nothing says how
# (_dl_start_user, and _Unwind_Resume while it overwrites its own frame).
#
# gdb is not always right itself: the thunks of 32-bit code (`mov (%esp),%reg; ret`) that come from crti.o have no call frame information,
# and that of the C library's 32-bit memcpy is wrong. A list of gdb's that leads into garbage, or in which a call of a thunk is the caller of
# something else, contradicts the code. Where it differs, it is counted apart.
#
# Writes `equal N of M, K contradicted` and what differs to the file STACKS_OUT.
import os
import random
import subprocess
import sys

import gdb

stops = int(os.environ["STACKS_STOPS"])
seed = int(os.environ.get("STACKS_SEED", "1"))
tool = os.environ["STACKS_TOOL"]
out = open(os.environ["STACKS_OUT"], "w")
names64 = "rax rdx rcx rbx rsi rdi rbp rsp r8 r9 r10 r11 r12 r13 r14 r15".split()
names32 = "eax ecx edx ebx esp ebp esi edi".split()


def execute(text):
    return gdb.execute(text, to_string=True)


def frames(width):
    mask = (1 << width) - 1
    found = []
    frame = gdb.newest_frame()
    while frame is not None and frame.is_valid():
        if frame.type() not in (gdb.INLINE_FRAME, gdb.TAILCALL_FRAME):
            found.append(frame.pc() & mask)
        frame = frame.older()
    return found


def registers(width):
    mask = (1 << width) - 1
    frame = gdb.newest_frame()
    return [int(frame.read_register(name)) & mask for name in (names64 if width == 64 else names32)]


def code_ranges(pid):
    with open("/proc/%d/maps" % pid) as maps:
        lines = [line.split() for line in maps]
    return [tuple(int(word, 16) for word in line[0].split("-")) for line in lines if "x" in line[1]]


def cut(pcs, ranges):
    for i, pc in enumerate(pcs):
        if not any(start <= pc < end for start, end in ranges):
            return pcs[:i]
    return pcs


def read(va, size):
    try:
        return bytes(gdb.selected_inferior().read_memory(va, size))
    except gdb.MemoryError:
        return b""


def is_thunk(va):
    code = read(va, 4)
    return len(code) == 4 and code[0] == 0x8B and code[1] & 0xC7 == 0x04 and code[2:] == b"\x24\xc3"


def contradicts(pcs, ranges):
    if len(cut(pcs, ranges)) < len(pcs):
        return True
    for callee, caller in zip(pcs, pcs[1:]):
        code = read(caller - 5, 5)
        if len(code) < 5 or code[0] != 0xE8:
            continue
        target = (caller + int.from_bytes(code[1:], "little", signed=True)) & 0xFFFFFFFF
        if is_thunk(target) and not target <= callee < target + 4:
            return True
        if (is_thunk(callee) and target != callee) or (is_thunk(callee - 3) and target != callee - 3):
            return True
    return False


class Server:
    def __init__(self, pid):
        # Its own session: the terminal's signals are for gdb.
        self.process = subprocess.Popen(
            [tool, "--serve", str(pid)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, start_new_session=True)

    def say(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def walk(self, pc, regs):
        self.say("walk " + " ".join("%x" % value for value in [pc] + regs))
        words = self.process.stdout.readline().split()
        return words[0], [int(word, 16) for word in words[1:]]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def describe(pc):
    with open("/proc/%d/maps" % gdb.selected_inferior().pid) as maps:
        for line in maps:
            words = line.split()
            start, end = (int(word, 16) for word in words[0].split("-"))
            if start <= pc < end:
                place = "%s+%x " % (words[5] if len(words) > 5 else "?", pc - start + int(words[2], 16))
                return place + execute("info symbol 0x%x" % pc).split(" in section")[0].split("\n")[0]
    return "?"


def report(number, thread, end, ours, theirs):
    same = 0
    while same < min(len(ours), len(theirs)) and ours[same] == theirs[same]:
        same += 1
    out.write("stop %d thread %d: end %s, %d frames of ours, %d of gdb's, equal up to %d:\n" %
                     (number, thread.num, end, len(ours), len(theirs), same))
    for i in range(max(same - 2, 0), same + 3):
        for who, list_ in (("ours", ours), ("gdb", theirs)):
            if i < len(list_):
                out.write("  %d %s 0x%x %s\n" % (i, who, list_[i], describe(list_[i])))


def main():
    for setting in ("pagination off", "confirm off", "backtrace past-main on", "backtrace past-entry on", "backtrace limit 4000",
                    "print thread-events off", "disable-randomization off", "debuginfod enabled off", "auto-load off", "inferior-tty /dev/null"):
        execute("set " + setting)
    execute("handle all nostop noprint pass")
    execute("handle SIGINT stop print nopass")
    execute("handle SIGTRAP stop print nopass")
    for line in os.environ.get("STACKS_ENV", "").splitlines():
        execute("set environment " + line.replace("=", " ", 1))
    execute("starti")
    width = 64 if gdb.selected_frame().architecture().name().startswith("i386:x86-64") else 32
    pid = gdb.selected_inferior().pid
    server = Server(pid)
    chance = random.Random(seed)
    equal = total = depth = contradicted = 0
    kicks = 0
    while total < stops and kicks < 4 * stops:
        # The first stops are early: the dynamic loader at work.
        server.say("kick %d" % (chance.randrange(300) if kicks < 20 else chance.randrange(200, 6000)))
        kicks += 1
        execute("continue")
        if not gdb.selected_inferior().threads():
            break
        server.say("maps")
        ranges = code_ranges(pid)
        for thread in gdb.selected_inferior().threads():
            thread.switch()
            raw = frames(width)
            end, ours = server.walk(raw[0], registers(width))
            ours, theirs = cut(ours, ranges), cut(raw, ranges)
            total += 1
            depth += len(theirs)
            if ours == theirs:
                equal += 1
            elif width == 32 and contradicts(raw, ranges):
                contradicted += 1
            else:
                report(kicks, thread, end, ours, theirs)
    out.write("equal %d of %d, %d contradicted, %d frames\n" % (equal, total, contradicted, depth))
    if gdb.selected_inferior().threads():
        execute("kill")
    server.close()
    out.close()


try:
    main()
except BaseException as error:  # gdb would go on, and end with 0
    out.write("failed: %r\n" % error)
    out.close()
    gdb.execute("quit 1")
