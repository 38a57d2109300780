#!/bin/bash
# Every row of the unwind tables of real files says what `readelf --debug-dump=frames-interp` says: CFA, saved registers and return address,
# 64 and 32 bit. What readelf only calls an expression must be one in ours, or unknown; a register that readelf has no place for, or one
# beside such an expression, may be lost in ours.
# timeout: 300
set -euo pipefail
cd "$(dirname "$0")/../.."
exec python3 - "${BUILD:-build}/test/unit/symbol_unwind" <<'END'
import bisect
import os
import re
import subprocess
import sys

tool = sys.argv[1]
files = ["/lib/x86_64-linux-gnu/libc.so.6", "/lib/x86_64-linux-gnu/libcrypto.so.3", "/lib/x86_64-linux-gnu/libstdc++.so.6",
         "/lib64/ld-linux-x86-64.so.2", "/lib32/libc.so.6", "/lib32/ld-linux.so.2", "/lib32/libstdc++.so.6", "build/victim/64/v_stacks",
         "build/victim/32/v_stacks", "build/victim/64/v_count-static", "build/i386/usr/bin/sqlite3"]
kept = {64: ["rbx", "rbp", "r12", "r13", "r14", "r15"], 32: ["ebx", "ebp", "esi", "edi"]}
failed = False


def our_rows(path):
    starts, rows = [], []
    for line in subprocess.run([tool, "--rows", path], stdout=subprocess.PIPE, check=True, text=True).stdout.splitlines():
        words = line.split()
        starts.append(int(words[0], 16))
        rows.append(words[1:])
    return starts, rows


# Yields lists of (address, end, CFA, {register: rule}), one for each FDE.
def their_fdes(path):
    text = subprocess.run(["readelf", "--debug-dump=frames-interp", path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    rows, columns, end, is_fde = [], [], 0, False
    for line in text.splitlines() + ["0 0 0 CIE"]:
        if " CIE " in line or line.endswith("CIE") or "ZERO terminator" in line or " FDE " in line or line.startswith("Contents of"):
            if rows and is_fde:
                yield [(a, b, c, d) for (a, c, d), b in zip(rows, [row[0] for row in rows[1:]] + [end])]
            rows = []
            found = re.search(r"pc=([0-9a-f]+)\.\.([0-9a-f]+)", line)
            is_fde = bool(found)
            end = int(found[2], 16) if found else 0
        elif line.strip().startswith("LOC"):
            columns = line.split()[2:]
        elif re.match(r"^[0-9a-f]{8,16} ", line):
            words = re.sub(r" \(\w+\)", "", line).split()
            rows.append((int(words[0], 16), words[1], dict(zip(columns, words[2:]))))


def compare(path):
    width = 64 if open(path, "rb").read(5)[4] == 2 else 32
    starts, rows = our_rows(path)
    fdes = [fde for fde in their_fdes(path) if fde]
    firsts = sorted(set(fde[0][0] for fde in fdes))
    same = different = lost = other = unknown = 0
    for fde in fdes:
        # A CFA at or below the stack pointer can not be: symbol/unwind_repair.c.
        is_wrong = width == 32 and any(re.match(r"esp(\+[0-3]|-\d+)$", row[2]) for row in fde)
        after = bisect.bisect_right(firsts, fde[0][0])
        limit = firsts[after] if after < len(firsts) else 1 << 64
        for va, end, cfa, saved in fde:
            if va >= min(end, limit) or is_wrong:
                continue
            at = bisect.bisect_right(starts, va) - 1
            ours = rows[at] if at >= 0 else ["none"]
            if saved.get("ra") == "u":
                expected = ["end"]
            elif cfa == "exp" or saved.get("ra") in ("exp", "vexp") or saved.get("rsp", "u") != "u" or saved.get("esp", "u") != "u":
                other += "exp" in ours
                unknown += "exp" not in ours
                continue
            else:
                expected = [cfa] + [saved.get(name, "u").replace("s", "u") for name in kept[width]] + [saved.get("ra", "u")]
            if expected == ours and at >= 0:
                same += 1
            elif len(expected) == len(ours) and all(
                    want == have or (have == "lost" and (want == "u" or "exp" in expected)) for want, have in zip(expected, ours)):
                lost += 1
            else:
                different += 1
                if different <= 5:
                    print("%s: %x: readelf %s, ours %s" % (path, va, " ".join(expected), " ".join(ours)))
    print("%s: %d rows equal, %d different, %d with a lost register, %d expressions, %d of them unknown" %
          (path, same, different, lost, other + unknown, unknown))
    return same > 50 and different == 0 and lost < 10 and unknown < 10


for path in files:
    if not os.path.exists(path):
        print("FAIL %s is not there" % path)
        failed = True
    elif not compare(path):
        failed = True
sys.exit(1 if failed else 0)
END
