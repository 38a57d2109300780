#!/bin/bash
# One script, one session, a 32-bit and a 64-bit process: what it prints is what the programs print themselves. (S0.2, S0.6)
# timeout: 120
. "$(dirname "$0")/lib.sh"

# Runs the script in FILE on both victims at once. What each of them printed itself is in $work/said, what the script printed in $work/traced.
both() { # FILE
    local first first_in first_out code=0
    start_victim "$victims/64/v_model" -w
    wait_ready
    first=$victim_pid first_in=$victim_in first_out=$victim_out
    start_victim "$victims/32/v_model" -w
    wait_ready
    "$probity" trace -q -p "$first" -p "$victim_pid" "$1" >"$work/traced" 2>"$work/err" {first_in}>&- {victim_in}>&- &
    counter_pid=$!
    started+=("$counter_pid")
    wait_until 30 placed_or_dead "$first" "$victim_pid" || fail "no probes: $(cat "$work/err")"
    release
    echo >&"$first_in"
    wait "$counter_pid" || code=$?
    expect_equal "exit code of $1: $(cat "$work/err")" $code 0
    end_victim
    cat "$first_out" "$victim_out" | grep -v ready >"$work/said"
    victim_pid=$first victim_in=$first_in victim_out=$first_out
    end_victim
}

placed_or_dead() { # PID...
    gone "$counter_pid" && return 0
    for pid in "$@"; do grep -q probity_session "/proc/$pid/maps" || return 1; done
    grep -qE '^(7|271) ' "/proc/$counter_pid/syscall" 2>/dev/null
}

compare() { # WORD
    grep "^$1" "$work/said" | sort >"$work/said.sorted"
    grep "^$1" "$work/traced" | sort >"$work/traced.sorted"
    [ "$(wc -l <"$work/said.sorted")" = 2 ] || fail "not two lines of $1"
    diff "$work/said.sorted" "$work/traced.sorted" >&9 || fail "$1: the script and the programs do not agree"
}

cat >"$work/action.bt" <<'END'
#include <signal.h>
uprobe:libc:sigaction /arg0 == 10 && arg1/ {
    $s = (struct sigaction *)arg1;
    printf("action %d %p %lx %x %d %d\n", model, $s->sa_handler, $s->sa_mask.__val[0], $s->sa_flags, sizeof(struct sigaction), sizeof(unsigned long));
}
END
both "$work/action.bt"
compare action

# The same struct declared in the script, and from the debug information.
{
    sed -n '/^enum colour/,/^struct outer/{/^struct outer/!p}' test/victim/v_model.c
    sed -n '/^struct outer/,/^};/p' test/victim/v_model.c
    cat <<'END'
uprobe:*v_model:look {
    $o = (struct outer *)arg0;
    printf("look %d %ld %lld %d %d %lx %s %d %lx %ld %lld %d %lx %s %ld %d ", $o->in.tag, $o->in.first, $o->in.second, $o->in.low, $o->in.middle, $o->in.high, str($o->in.name), $o->pad,
        $o->number, $o->link->first, $o->link->second, $o->link->middle, $o->link->high, str($o->link->name), $o->table[1], $o->colour);
    printf("%g %d %d\n", $o->ratio, sizeof(struct outer), sizeof(struct inner));
}
END
} >"$work/declared.bt"
both "$work/declared.bt"
sed -i -E 's/^(look.* [0-9]+ [0-9]+) -9 .*/\1/' "$work/said"
compare look

for width in 64 32; do
    cat <<END
uprobe:$victims/$width/v_model:look {
    printf("look %d %ld %lld %d %d %lx %s %d %lx %ld %lld ", args.o->in.tag, args.o->in.first, args.o->in.second, args.o->in.low, args.o->in.middle, args.o->in.high, str(args.o->in.name),
        args.o->pad, args.o->number, args.o->link->first, args.o->link->second);
    printf("%d %lx %s %ld %d %g %d %d ", args.o->link->middle, args.o->link->high, str(args.o->link->name), args.o->table[1], args.o->colour, args.o->ratio, sizeof(struct outer), sizeof(struct inner));
    printf("%ld %lld %g %ld %s\n", args.a, args.b, args.c, args.by_value.first, str(args.by_value.name));
}
END
done >"$work/debug.bt"
both "$work/debug.bt"
compare look
