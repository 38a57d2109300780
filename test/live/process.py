#!/usr/bin/env python3
"""What a process shows from outside.
process.py text PID [NAME]  exits 1 and names the first difference when executable file mappings (of files so named) differ from their files
process.py different PID  prints how many bytes of the code of its programs and libraries (ELF files) differ from the files
process.py kill PID NAME [WHOM SIGNAL]  prints ready, waits until they differ, which may be for moments only, and kills the process then, or
                       sends that signal to another one
process.py maps PID    prints the kinds of its mappings, one a line, sorted: permissions and name of every executable or shared one, and of
                       every one that names a deleted file, a memfd or probity
process.py unnamed PID prints how many bytes its mappings without a name have
process.py code PID    prints the ranges of its executable and shared mappings"""
import os
import signal
import sys


def mappings(pid):
    with open(f"/proc/{pid}/maps") as lines:
        for line in lines:
            field = line.split(None, 5)
            low, high = (int(x, 16) for x in field[0].split("-"))
            yield low, high, field[1], int(field[2], 16), field[5].strip() if len(field) > 5 else ""


def kill(pid, only, whom=None, number=signal.SIGKILL):
    mapped = [mapping for mapping in mappings(pid) if only in mapping[4] and mapping[2][2] == "x"]
    with open(f"/proc/{pid}/mem", "rb") as memory, open(mapped[0][4], "rb") as file:
        low, high, permissions, offset, name = mapped[0]
        file.seek(offset)
        # The last bytes, behind all functions, are used while it is being attached to.
        expected, found = file.read(high - low - 128), None
        print("ready", flush=True)
        # A jump: while we are attached to, there may be other code for a moment where the program has none.
        while not found or not any(found[i] == 0xE9 != expected[i] for i in range(len(expected)) if found[i] != expected[i]):
            memory.seek(low)
            found = memory.read(high - low)
            while found[: len(expected)] == expected:
                memory.seek(low)
                found = memory.read(high - low)
    os.kill(int(whom or pid), int(number))


def code_of_files(pid, only):
    """Of each executable file mapping: name, offset, what is in memory, what is in the file."""
    with open(f"/proc/{pid}/mem", "rb") as memory:
        for low, high, permissions, offset, name in mappings(pid):
            if only not in name or permissions[2] != "x" or not name.startswith("/") or name.startswith("/memfd:") or name.endswith("(deleted)"):
                continue
            with open(name, "rb") as file:
                file.seek(offset)
                expected = file.read(high - low)
            memory.seek(low)
            yield name, offset, memory.read(len(expected)), expected


def text(pid, only=""):
    for name, offset, found, expected in code_of_files(pid, only):
        if found != expected:
            at = next(i for i in range(len(expected)) if found[i] != expected[i])
            sys.exit(f"text differs: {name} at offset {offset + at:#x}: {found[at:at+16].hex()} is {expected[at:at+16].hex()} in the file")


def is_elf(name):
    with open(name, "rb") as file:
        return file.read(4) == b"\x7fELF"


def different(pid):
    print(
        sum(
            sum(a != b for a, b in zip(found, expected))
            for name, offset, found, expected in code_of_files(pid, "")
            if found != expected and is_elf(name)
        )
    )


def maps(pid):
    kinds = sorted(
        f"{permissions} {name}"
        for low, high, permissions, offset, name in mappings(pid)
        if permissions[2] == "x" or permissions[3] == "s" or "deleted" in name or "memfd" in name or "probity" in name
    )
    print("\n".join(kinds))


def unnamed(pid):
    print(sum(high - low for low, high, permissions, offset, name in mappings(pid) if not name))


def code(pid):
    for low, high, permissions, offset, name in mappings(pid):
        if permissions[2] == "x" or permissions[3] == "s":
            print(f"{low:x}-{high:x} {permissions} {name}")


{"text": text, "different": different, "kill": kill, "maps": maps, "unnamed": unnamed, "code": code}[sys.argv[1]](*sys.argv[2:])
