#!/bin/bash
# The sources keep to the layers, and the check sees each kind of violation.
set -euo pipefail
cd "$(dirname "$0")/../.."
tool/layers.sh

seeded=$(mktemp -d)
trap 'rm -rf "$seeded"' EXIT
expect() { # FOLDER LINE MESSAGE
    rm -rf "$seeded/src"
    mkdir -p "$seeded/src/$1"
    printf '#include <stdint.h>\n%s\n' "$2" >"$seeded/src/$1/seeded.c"
    if output=$(tool/layers.sh "$seeded/src"); then
        echo "not seen: $2 in $1/"
        exit 1
    fi
    case $output in
    *"/$1/seeded.c:2: $3"*) ;;
    *) echo "wrong message for $2 in $1/: $output"; exit 1 ;;
    esac
}
accept() { # FOLDER LINE
    rm -rf "$seeded/src"
    mkdir -p "$seeded/src/$1"
    printf '%s\n' "$2" >"$seeded/src/$1/seeded.c"
    tool/layers.sh "$seeded/src"
}
expect symbol '#include "target/target.h"' 'symbol/ may not include target/'
expect insn '#include "base/err.h"' 'insn/ may not include base/'
expect agent '#include "base/err.h"' 'agent/ may not include base/'
expect agent '#include <stdlib.h>' 'agent/ may not include <stdlib.h>'
expect insn '# include <stdlib.h>' 'insn/ may not include <stdlib.h>'
expect cmd '#include "agent/agent.h"' 'cmd/ may not include agent/'
expect drain '#include "drain.h"' 'include of "drain.h" does not name its folder'
expect load 'int f(void) { return ptrace(0, 0, 0, 0); }' 'ptrace belongs to target/'
expect load 'const char *p = "/proc/%d/maps";' '/proc/PID belongs to target/'
expect load 'uint32_t f(const struct wire_live *live) { return live->load_events; }' 'struct wire_live belongs to load/live.c'
expect drain 'void f(void *m) { ((struct wire_live *)m)->load_events = 0; }' 'struct wire_live belongs to load/live.c'
accept load 'enum { AT = offsetof(struct wire_live, agent_off) };'
accept agent 'void f(struct wire_live *live);'
accept target '#include "base/err.h"'
accept load '#include "target/target.h"'
if output=$(mkdir -p "$seeded/src/heap" && echo >"$seeded/src/heap/a.c" && tool/layers.sh "$seeded/src"); then
    echo "an unknown folder was accepted"
    exit 1
fi
