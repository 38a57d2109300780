#!/bin/bash
# The build refuses an agent that could not run at any address: one with an address in it, with a load from the GOT, with data, with a name that has no
# place; in both widths. (S2.2)
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

good='
__asm__(".section .text.entry,\"ax\",@progbits\n.globl agent_entry\nagent_entry: .quad 0\n.text\n");
extern const volatile int agent_entry __attribute__((visibility("hidden")));
int read_word(void);
int read_word(void) { return agent_entry; }'

embed() { # SOURCE: what the build makes of an agent with this source
    rm -rf "$work/build"
    echo "$1" >"$work/agent.c"
    make -s BUILD="$work/build" AGENT_SRC="$work/agent.c" "$work/build/gen/agent_blob.c" >"$work/log" 2>&1
}

embed "$good" || { cat "$work/log"; echo "a good agent is refused"; exit 1; }
grep -q load_agent32_bytes "$work/build/gen/agent_blob.c"

refuses() { # WHAT SAYS SOURCE
    ! embed "$good
$3" || { echo "$1: is not refused"; exit 1; }
    grep -qE "$2" "$work/log" || { echo "$1: refused for another reason:"; cat "$work/log"; exit 1; }
    [ ! -e "$work/build/gen/agent_blob.c" ] || { echo "$1: the refused agent is there"; exit 1; }
}
only() { # WIDTH: what is left out in the other one
    [ "$1" = 64 ] && echo '#if defined __x86_64__' || echo '#if defined __i386__'
}
for width in 64 32; do
    refuses "$width: an address in code" 'R_(X86_64|386)_' "$(only $width)
int *where(void); int *where(void) { void *at; __asm__(\"mov \$agent_entry,%0\" : \"=r\"(at)); return at; }
#endif"
    refuses "$width: a table of addresses" 'R_(X86_64|386)_' "$(only $width)
__asm__(\".text\\ntable: .dc.a read_word\\n\");
#endif"
    refuses "$width: a name that nobody has" 'R_(X86_64|386)_' "$(only $width)
extern int nobody(void) __attribute__((weak, visibility(\"hidden\"))); int (*find(void))(void); int (*find(void))(void) { return nobody; }
#endif"
    refuses "$width: data" 'writable data' "$(only $width)
int count = 1;
#endif"
    refuses "$width: another section" 'can not be copied.* \.odd' "$(only $width)
__attribute__((section(\".odd\"), used)) static int odd(void) { return 1; }
#endif"
done
# Of 32 bits the linker makes a load from an address of what the compiler would have loaded from the GOT.
refuses '32: a name that may be elsewhere' 'R_386_32 of elsewhere' '
#if defined __i386__
__asm__(".text\n.globl elsewhere\nelsewhere: .long 1\n");
extern const volatile int elsewhere; int read_elsewhere(void); int read_elsewhere(void) { return elsewhere; }
#endif'
echo "11 bad agents are refused"
