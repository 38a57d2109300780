#!/bin/bash
# What signal handlers see of the interrupted pc and registers is what they see natively: handlers of faults and of timers that interrupt each
# other, with and without SA_SIGINFO, installed before we attach, after, and again, with probes that come and go; handlers that throw, go on behind the fault, or have it
# repeated; Go's and Java's own. Every entry and return is probed, and the counts are the victims' own. (S2.2)
# timeout: 420
. "$(dirname "$0")/lib.sh"

compare() { # NAME MINIMUM FILE-OF-COUNTS FILE...
    local compared
    grep '/v_' "$3" >"$work/own" || fail "$1: no function of the victim was counted"
    cat "${@:4}" >"$work/said"
    compared=$(compare_counts "$work/said" "$work/own") || fail "$1: $compared"
    [ "$compared" -ge "$2" ] || fail "$1: only $compared counts compared"
    echo "$1: $compared counts equal"
}

started() { # MINIMUM SPECS VICTIM ARG...
    local minimum=$1 specs code=0 name=${3#"$victims"/}
    read -ra specs <<<"$2"
    shift 2
    [ -s "$1" ] || return 0
    "$@" >"$work/native" 2>/dev/null || fail "$name fails by itself"
    run_probity count --json "${specs[@]}" -- "$@" >"$work/json" 2>"$work/err" </dev/null || code=$?
    [ $code = 0 ] || fail "$name: exit code $code: $(tail -n 3 "$work/err")"
    compare "$name" "$minimum" "$work/json" "$work/json" "$work/err"
}

attached() { # VICTIM ARG...
    start_victim "$@"
    wait_ready
    mapping_kinds "$victim_pid" >"$work/before"
    start_count "$work/json" "$victim_pid" --json '*:*' '*:*:return'
    release
    wait_ready 2
    end_count
    compare "attached ${1#"$victims"/} ${*:2}" 5 "$work/json" "$victim_err"
    text_is_the_files "$victim_pid"
    mapping_kinds "$victim_pid" | diff "$work/before" - || fail "$1: mappings were left behind"
    end_victim
}

# Probes come and go under the handlers.
cycles() { # VICTIM
    start_victim "$1" -n 100000000
    for _ in $(seq "$(scale 20 100)"); do
        run_probity count -p "$victim_pid" -d 0.2 'v_handlers:*' 'v_handlers:*:return' >/dev/null 2>"$work/err" ||
            fail "cycles ${1#"$victims"/}: $(tail -n 1 "$work/err" "$victim_err")"
    done
    alive "$victim_pid" || fail "cycles ${1#"$victims"/}: $(tail -n 1 "$victim_err")"
    text_is_the_files "$victim_pid"
    kill -KILL "$victim_pid"
    exec {victim_in}>&-
    wait "$victim_pid" || true
    echo "cycles ${1#"$victims"/}: as it was"
}

# Every instruction of a function whose state is known at each.
instructions() { # PATH FUNCTION
    objdump -d --no-show-raw-insn --disassemble="$2" "$1" | sed -nE "s|^ +([0-9a-f]+):.*|$1:0x\1|p" | tr '\n' ' '
}

everything='*:* *:*:return'
for width in 64 32; do
    v=$victims/$width
    for kind in "" -nopie -static -static-pie -musl -musl-static; do
        attempt started 1 "$everything" "$v/v_altstack$kind" -n 300 --pc
    done
    attempt started 4 "$everything" "$v/v_fault_throw" -n 300
    attempt started 4 "$everything" "$v/v_fault_throw-static" -n 300
    attempt started 5 "$everything" "$v/v_handlers" -n 3000
    attempt started 5 "$v/v_handlers:* $(instructions "$v/v_handlers" steps)" "$v/v_handlers" -n 3000
    attached "$v/v_handlers" -w -n 3000
    attached "$v/v_handlers" -w --late -n 3000
    cycles "$v/v_handlers"
done

missing=
if command -v go >/dev/null; then
    GOCACHE=$work/go GOFLAGS=-mod=mod go build -o "$work/v_recover" test/victim/v_recover.go || fail "v_recover does not build"
    expected=$("$work/v_recover")
    found=$(run_probity count 'v_recover:*' 'v_recover:*:return' -- "$work/v_recover" 2>"$work/err" | head -n 1) || true
    [ "$found" = "$expected" ] || complain "v_recover: $found instead of $expected: $(head -n 5 "$work/err")"
    echo "Go: $found"
else
    missing="$missing go"
fi
if command -v java >/dev/null; then
    cat >"$work/Null.java" <<'END'
public class Null {
    int value;
    static int load(Null n) { return n.value; }
    public static void main(String[] args) {
        int caught = 0;
        for (int i = 0; i < 200000; i++) {
            try {
                load(i % 4 == 0 ? null : new Null());
            } catch (NullPointerException e) {
                caught++;
            }
        }
        System.out.println("caught " + caught);
    }
}
END
    found=$(run_probity count 'libjvm:*' -- java -Xmx128m -XX:-OmitStackTraceInFastThrow "$work/Null.java" 2>"$work/err" | head -n 1) || true
    [ "$found" = "caught 50000" ] || complain "java: $found: $(tail -n 5 "$work/err")"
    echo "java: $found"
else
    missing="$missing java"
fi
[ -z "$missing" ] || echo "not here:$missing"
exit $failed
