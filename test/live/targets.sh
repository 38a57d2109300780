#!/bin/bash
# Programs as they come: PIE, non-PIE, static, static-PIE, stripped, musl, both widths; Java, node, python3, Go; another user's own process.
# Started and attached, counts exact where the program counts itself. (S0.3, S2.6)
# timeout: 300
. "$(dirname "$0")/lib.sh"

variants() { # WIDTH
    local width=$1 kind program entry name
    for kind in "" -nopie -static -static-pie -stripped -musl -musl-static; do
        program=$victims/$width/v_count$kind
        if [ ! -x "$program" ]; then
            echo "$width-bit v_count$kind: not built here"
            missing="$missing $width-bit$kind"
            continue
        fi
        entry=f1
        if [ "$kind" = -stripped ]; then entry=$(nm "$victims/$width/v_count" | awk '$3 == "f1" { print "0x" $1 }'); fi
        run_probity count --json "$program:$entry" -- "$program" -t 4 -n 3000 >"$work/started" || fail "$program: exit code $?"
        expect_equal "$width-bit$kind started" "$(total_of "$work/started")" 12000
        start_victim "$program" -w -t 4 -n 3000
        wait_ready
        start_count "$work/attached" "$victim_pid" --json "$program:$entry"
        release
        wait_ready 2
        end_count
        expect_equal "$width-bit$kind attached" "$(total_of "$work/attached")" 12000
        text_is_the_files "$victim_pid"
        end_victim
        echo "$width-bit v_count$kind: exact, started and attached"
    done
}

# A program that works in rounds: a line on stdin, a line of result. The same results with probes as without.
rounds() { # NAME SPEC COMMAND...
    local name=$1 spec=$2 i
    shift 2
    start_victim "$@"
    wait_ready
    release
    wait_until 60 lines_are "$victim_out" '^result ' 1 || fail "$name: no result by itself: $(tail -n 3 "$victim_err")"
    for i in 2 3 4; do
        start_count "$work/rounds" "$victim_pid" --json "$spec" "$spec:return"
        release
        wait_until 60 lines_are "$victim_out" '^result ' $i || fail "$name: no result under probes: $(tail -n 3 "$victim_err")"
        end_count
        [ "$(total_of "$work/rounds")" -gt 100 ] || fail "$name: only $(total_of "$work/rounds") hits"
        alive "$victim_pid" || fail "$name died"
    done
    release
    wait_until 60 lines_are "$victim_out" '^result ' 5 || fail "$name: no result after detaching"
    expect_equal "$name: different results" "$(grep '^result ' "$victim_out" | sort -u | wc -l)" 1
    text_is_the_files "$victim_pid"
    end_victim
    echo "$name: 3 attaches, $(total_of "$work/rounds") hits in the last"
}

missing=
variants 64
variants 32

cat >"$work/job.py" <<'END'
import sys
print('ready', flush=True)
for line in sys.stdin:
    d = {}
    for i in range(20000):
        d[str(i % 97)] = d.get(str(i % 97), 0) + i * i % 11
    print('result', sorted(d.items())[:3], sum(d.values()), flush=True)
END
rounds python3 '*python3*:Py*' "$python" "$work/job.py"

if command -v node >/dev/null; then
    cat >"$work/job.js" <<'END'
console.log('ready');
require('readline').createInterface({input: process.stdin}).on('line', () => {
    const m = new Map();
    for (let i = 0; i < 50000; i++) m.set('k' + i % 997, (m.get('k' + i % 997) || 0) + i % 13);
    console.log('result ' + require('crypto').createHash('sha256').update(JSON.stringify([...m])).digest('hex'));
});
END
    rounds node 'libc:*' node "$work/job.js"
else
    missing="$missing node"
fi

if command -v java >/dev/null; then
    cat >"$work/Job.java" <<'END'
import java.util.*;
public class Job {
    static int depth(int[] a, int i) { try { return a[i] + a.length; } catch (NullPointerException | ArrayIndexOutOfBoundsException e) { return 1; } }
    public static void main(String[] args) throws Exception {
        Scanner in = new Scanner(System.in);
        System.out.println("ready");
        while (in.hasNextLine()) {
            in.nextLine();
            Map<String, Long> m = new TreeMap<>();
            for (int i = 0; i < 100000; i++) m.merge("k" + i % 101, (long) depth(i % 7 == 0 ? null : new int[]{i}, i % 3 == 0 ? 0 : 1), Long::sum);
            System.gc();
            System.out.println("result " + m.hashCode());
        }
    }
}
END
    rounds java 'libc:*' java -Xmx128m "$work/Job.java"
    rounds "java, libjvm" 'libjvm:*' java -Xmx128m "$work/Job.java"
else
    missing="$missing java"
fi

if command -v go >/dev/null; then
    cat >"$work/job.go" <<'END'
package main

import (
	"bufio"
	"fmt"
	"os"
)

//go:noinline
func collatz(n uint64) (steps int) {
	for ; n != 1; steps++ {
		if n%2 == 0 {
			n /= 2
		} else {
			n = 3*n + 1
		}
	}
	return
}

func main() {
	fmt.Println("ready")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		done := make(chan int)
		for w := 0; w < 4; w++ {
			go func(w int) {
				sum := 0
				for i := 1; i < 5000; i++ {
					sum += collatz(uint64(i*4 + w))
				}
				done <- sum
			}(w)
		}
		sum := 0
		for w := 0; w < 4; w++ {
			sum += <-done
		}
		fmt.Println("result", sum)
	}
}
END
    (cd "$work" && HOME=$work GOFLAGS=-mod=mod go build -o job job.go)
    rounds go "$work/job:main.*" "$work/job"
else
    missing="$missing go"
fi

# A user without privilege and a process of the same user.
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
    cp "$probity" "$victims/64/v_count" "$victims/32/v_count-static" "$work"
    as_user() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }
    for name in v_count v_count-static; do
        as_user "$work/probity" count --json "$work/$name:f1" -- "$work/$name" -n 1000 >"$work/started" || fail "as a plain user: exit code $?"
        expect_equal "$name started as a plain user" "$(count_of "$work/started" f1)" 2000
        start_victim setpriv --reuid 65534 --regid 65534 --clear-groups "$work/$name" -w -n 1000
        wait_ready
        as_user "$work/probity" count --json -p "$victim_pid" -d 0.5 "$work/$name:f1" >"$work/attached" || fail "attach as a plain user: exit code $?"
        release
        wait_ready 2
        end_victim
    done
    echo "a plain user's own process: started and attached"
else
    missing="$missing a-second-user"
fi
[ -z "$missing" ] || echo "not covered on this machine:$missing"
