"""Stacks as gdb shows them, and as probity printed them (ustack(raw)): compares the two.

  stacks.py gdb PID FUNCTION HITS FILE              becomes gdb, makes FILE.ready when its breakpoint is there, and writes the stack of each
                                                    hit to FILE
                                                    (FUNCTION: addresses as gdb writes them, with commas; HITS 0: up to a call of puts())
  stacks.py compare FILE-OF-GDB FILE-OF-PROBITY     the same stacks, each at least once in both
  stacks.py among FILE-OF-GDB FILE-OF-PROBITY       we have what gdb has, but for one in fifty, of a program that goes on meanwhile
  stacks.py within FILE-OF-GDB FILE-OF-PROBITY      gdb has all that we have, with at least two places
"""
import os
import sys

SCRIPT = r"""
import gdb
gdb.execute('set pagination off')
gdb.execute('set confirm off')
gdb.execute('set backtrace past-main on')
gdb.execute('set backtrace limit 2000')
gdb.execute('handle SIGUSR1 SIGUSR2 SIGINT nostop noprint pass')
for place in '%(function)s'.split(','):
    gdb.execute('break *' + place)
open('%(file)s.ready', 'w').close()
with open('%(file)s', 'w') as out:
    end = 0 if %(hits)d else int(gdb.parse_and_eval('(unsigned long)&puts'))
    if end:
        gdb.execute('break *puts')
    for hit in range(%(hits)d or 100000):
        gdb.execute('continue')
        frame, pcs = gdb.newest_frame(), []
        if frame.pc() == end:
            break
        while frame is not None and frame.is_valid():
            # Frames that exist: not what gdb concludes from debug information.
            if frame.type() not in (gdb.INLINE_FRAME, gdb.TAILCALL_FRAME):
                pcs.append('%%x' %% frame.pc())
            frame = frame.older()
        out.write(' '.join(pcs) + '\n')
gdb.execute('delete')
gdb.execute('detach')
"""


def take(pid, function, hits, file):
    script = SCRIPT % {"function": function, "file": file, "hits": hits}
    with open(file + ".py", "w") as out:
        out.write(script)
    os.execvp("gdb", ["gdb", "-q", "-nx", "-batch", "-p", pid, "-x", file + ".py"])


def read_gdb(file):
    return [tuple(line.split()) for line in open(file) if line.strip()]


def read_probity(file):
    stacks, now = [], None
    for line in open(file):
        line = line.strip()
        if line == "stack":
            now = []
        elif line == "end":
            stacks.append(tuple(now))
            now = None
        elif now is not None and line:
            now.append(line)
    return stacks


def within(first, second):
    theirs, ours = set(read_gdb(first)), set(read_probity(second))
    for stack in sorted(ours - theirs):
        print("only we have (%d frames):" % len(stack), " ".join(stack[:60]))
    print(len(ours), "stacks at", len({stack[0] for stack in ours}), "places are gdb's")
    return 1 if ours - theirs or len({stack[0] for stack in ours}) < 2 else 0


def among(first, second):
    theirs, ours = read_gdb(first), set(read_probity(second))
    missing = [stack for stack in theirs if stack not in ours]
    for stack in missing:
        print("only gdb has (%d frames):" % len(stack), " ".join(stack[:60]))
    print(len(theirs) - len(missing), "of", len(theirs), "stacks of gdb's are among ours")
    return 1 if len(missing) * 50 > len(theirs) or not theirs else 0


def compare(first, second):
    theirs, ours = set(read_gdb(first)), set(read_probity(second))
    only_theirs, only_ours = theirs - ours, ours - theirs
    for stack in sorted(only_theirs):
        print("only gdb has (%d frames):" % len(stack), " ".join(stack[:60]))
    for stack in sorted(only_ours):
        print("only we have (%d frames):" % len(stack), " ".join(stack[:60]))
    print(len(theirs & ours), "stacks are the same")
    return 1 if only_theirs or only_ours or not ours else 0


if sys.argv[1] == "gdb":
    take(sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5])
elif sys.argv[1] == "among":
    sys.exit(among(sys.argv[2], sys.argv[3]))
elif sys.argv[1] == "within":
    sys.exit(within(sys.argv[2], sys.argv[3]))
else:
    sys.exit(compare(sys.argv[2], sys.argv[3]))
