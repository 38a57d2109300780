#!/bin/bash
# The layer check: fails when an #include in a source folder goes against the table below, which is the architecture's, or when
# something that belongs to one folder only is used elsewhere. Usage: tool/layers.sh [FOLDER-OF-SOURCES]
set -euo pipefail
cd "$(dirname "$0")/.."

exec awk '
BEGIN {
    # folder: folders whose headers it may include ("gen": what the build generates). Each may include its own.
    allow("wire", "")
    allow("base", "")
    allow("insn", "")
    allow("symbol", "base wire insn")
    allow("script", "base wire")
    allow("target", "base wire")
    allow("load", "base wire symbol insn target stream jit drain unwind gen")
    allow("stream", "base wire script")
    allow("jit", "base wire stream")
    allow("agent", "wire stream unwind")
    allow("drain", "base wire stream")
    allow("sample", "base wire target")
    allow("unwind", "base wire symbol target")
    allow("trace", "base")
    allow("tree", "base trace")
    allow("report", "base trace tree")
    allow("climb", "base wire symbol insn target stream load drain sample unwind trace")
    allow("record", "base wire symbol insn target script stream load drain sample unwind trace tree live climb")
    allow("print", "base wire script drain")
    allow("live", "base wire symbol insn target script stream load drain sample unwind print")
    allow("cmd", "base wire symbol insn target script stream jit load drain sample unwind trace tree report record climb print live gen")
    # folder: the only headers from outside the project it may include.
    only("wire", "stdint.h stddef.h stdbool.h assert.h")
    only("agent", "stdint.h stddef.h stdbool.h stdatomic.h stdarg.h limits.h asm/unistd.h asm/unistd_32.h asm/unistd_64.h linux/futex.h linux/errno.h")
    only("insn", "stdint.h stddef.h stdbool.h string.h limits.h Zydis/Zydis.h Zydis/Decoder.h Zydis/Encoder.h Zycore/Zycore.h")
}
function allow(folder, list, part, n, i) {
    known[folder] = 1
    edge[folder, folder] = 1
    n = split(list, part, " ")
    for (i = 1; i <= n; i++)
        edge[folder, part[i]] = 1
}
function only(folder, list, part, n, i) {
    limited[folder] = 1
    n = split(list, part, " ")
    for (i = 1; i <= n; i++)
        system_header[folder, part[i]] = 1
}
function complain(text) {
    printf "%s:%d: %s\n", FILENAME, FNR, text
    failed = 1
}
FNR == 1 {
    folder = substr(FILENAME, length(root) + 2)
    sub(/\/.*/, "", folder)
    if (!known[folder]) {
        complain("folder " folder "/ has no row in tool/layers.sh")
        known[folder] = 1
    }
}
match($0, /^[ \t]*#[ \t]*include[ \t]*["<][^">]*[">]/) {
    name = $0
    sub(/^[ \t]*#[ \t]*include[ \t]*/, "", name)
    quote = substr(name, 1, 1)
    name = substr(name, 2)
    sub(/[">].*/, "", name)
    if (quote == "\"") {
        if (name == "agent_blob.h" || name ~ /^gen\//)
            name = "gen/" name
        to = name
        if (!sub(/\/.*/, "", to))
            complain("include of \"" name "\" does not name its folder")
        else if (!((folder, to) in edge))
            complain(folder "/ may not include " to "/ (\"" name "\")")
    } else if (limited[folder] && !((folder, name) in system_header))
        complain(folder "/ may not include <" name ">")
}
folder != "target" && /<sys\/ptrace\.h>|<linux\/ptrace\.h>|[^a-z_]ptrace\(|PTRACE_[A-Z]/ {
    complain("ptrace belongs to target/")
}
folder != "target" && /"\/proc\/[%0-9]/ {
    complain("/proc/PID belongs to target/")
}
# What a process can write is behind functions that check it. To know where in it something is takes no pointer.
folder != "agent" && folder != "wire" && FILENAME !~ /\/load\/live\.c$/ && /struct wire_live[^a-z_]/ && !/offsetof\(struct wire_live,/ {
    complain("struct wire_live belongs to load/live.c")
}
END {
    exit failed
}
' root="${1:-src}" $(find "${1:-src}" -name '*.[chS]' -o -name '*.def' | sort)
