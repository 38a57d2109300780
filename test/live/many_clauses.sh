#!/bin/bash
# A script of 10,000 clauses on one function costs about ten times what one of 1,000 costs, and does not look for the file of the function once
# for each. (issue 13.15)
# timeout: 240
. "$(dirname "$0")/lib.sh"
program=$victims/64/v_count

script() { # CLAUSES
    for ((i = 0; i < $1; i++)); do echo "uprobe:$2:f1 { @ = count(); }"; done >"$work/script.$1"
}

# The controller's own processor time in user mode, in milliseconds.
cost() { # CLAUSES
    python3 - "$probity" "$work/script.$1" "$work/out.$1" "$program" <<'EOF'
import resource, subprocess, sys
probity, script, out, program = sys.argv[1:]
subprocess.run([probity, "trace", "-q", "-o", out, script, "--", program, "-n", "1"], check=True, stdout=subprocess.DEVNULL)
print(int(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime * 1000))
EOF
}

calls=$("$program" -n 1 | sed -n 's/^f1 //p')
for clauses in 1000 10000; do
    script $clauses "$program"
    ms[clauses]=$(cost $clauses)
    expect_equal "hits of $clauses clauses" "$(sed -n 's/^@: //p' "$work/out.$clauses")" $((clauses * calls))
    script $clauses v_count
    PATH=$victims/64:$PATH strace -o "$work/calls.$clauses" -e trace=open,openat,getdents64,readlink \
        "$probity" trace -q -o "$work/out.$clauses" "$work/script.$clauses" -- "$program" -n 1 >"$work/stdout"
    looks[clauses]=$(grep -vc '/proc/' "$work/calls.$clauses")
done
echo "1,000 clauses: ${ms[1000]} ms, ${looks[1000]} looks; 10,000: ${ms[10000]} ms, ${looks[10000]} looks"
[ "${looks[10000]}" -lt $((looks[1000] * 5)) ] || fail "${looks[10000]} looks for the files of 10,000 clauses, ${looks[1000]} for those of 1,000"
[ "${ms[10000]}" -lt $(((ms[1000] + 10) * 15)) ] || out_of_bounds "10,000 clauses take ${ms[10000]} ms, 1,000 take ${ms[1000]} ms"
