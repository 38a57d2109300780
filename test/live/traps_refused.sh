#!/bin/bash
# Without --traps nothing takes a trap: such places are refused by name and counted in the summary, and no thread of the program is held. sbcl,
# which has a handler of SIGTRAP of its own, goes on when a controller is killed, with --traps and without. (S2.2, S2.6, issue 13.10)
# timeout: 120
. "$(dirname "$0")/lib.sh"

hint='--traps allows'
# The entries of three functions, which are their exits as well.
for width in 64 32; do
    v=$victims/$width/v_blocked
    run_probity list --json "$v:tiny*" >"$work/list"
    expect_equal "$width-bit: refused" "$(grep -c '"kind":"refused","reason":"trap-only"' "$work/list")" 3
    run_probity list --json --traps "$v:tiny*" >"$work/list"
    expect_equal "$width-bit: traps" "$(grep -c '"kind":"trap"' "$work/list")" 3

    run_probity count --json "$v:*" -- "$v" >"$work/out" 2>"$work/err"
    grep -q "^probity: 3 .*$hint" "$work/err" || fail "$width-bit count: $(cat "$work/err")"
    expect_equal "$width-bit: calls" "$(count_of "$work/out" blocked_work)" 8000
    code=0
    one=$victims/$width/v_trapped
    run_probity count "$one:tiny" -- "$one" >"$work/out" 2>"$work/err" </dev/null || code=$?
    expect_equal "$width-bit: a single place" "$code $(grep -c "tiny:entry: can not be probed: .*$hint" "$work/err")" "8 1"

    run_probity trace -v -e "uprobe:$v:* { @all = count(); }" -- "$v" >"$work/out" 2>"$work/err"
    shows -- "$hint" <"$work/err" || fail "$width-bit trace: $(cat "$work/err")"
    run_probity trace -q --traps -o "$work/lines" -e "uprobe:$v:tiny1 { @ = count(); }" -- "$v" >/dev/null
    grep -q '^@: 8000$' "$work/lines" || fail "$width-bit trace --traps: $(cat "$work/lines")"
    run_probity record -o "$work/trace" --calls "*v_blocked:*" -- "$v" >/dev/null 2>"$work/err"
    grep -q "^probity: 6 .*$hint" "$work/err" || fail "$width-bit record: $(cat "$work/err")"
    run_probity record --traps -o "$work/trace.traps" --calls "*v_blocked:*" -- "$v" >/dev/null 2>"$work/err"
    ! grep -e '--traps' "$work/err" || fail "$width-bit record --traps: $(cat "$work/err")"
    "$probity" report --view flat --format json "$work/trace.traps" | shows tiny3 || fail "$width-bit record --traps: no tiny3"

    start_victim "$victims/$width/v_trapped" own
    wait_ready
    start_count "$work/out" "$victim_pid" '*:*' '*:*:return'
    # It runs untraced.
    expect_equal "$width-bit: tracer" "$(awk '/^TracerPid/ { print $2 }' "/proc/$victim_pid/status")" 0
    end_count
    end_victim
done

command -v sbcl >/dev/null || exit 0
cat >"$work/work.lisp" <<'LISP'
(defun churn (n) (let ((l nil)) (dotimes (i n) (push (make-array 50 :initial-element i) l)) (reduce #'+ l :key (lambda (a) (aref a 3)))))
(format t "ready~%") (finish-output)
(loop while (not (read-char-no-hang *standard-input* nil :end)) do
  (unless (= (churn 20000) 199990000) (sb-ext:exit :code 3 :abort t)))
(format t "ok~%") (finish-output)
LISP
for option in "" --traps; do
    start_victim sbcl --no-userinit --no-sysinit --disable-debugger --non-interactive --load "$work/work.lisp"
    wait_ready
    for ((i = 0; i < $(scale 2 20); i++)); do
        start_count "$work/out" "$victim_pid" $option '*:*' '*:*:return'
        kill -KILL "$counter_pid"
        wait "$counter_pid" 2>/dev/null || true
        sleep 0.3
        alive "$victim_pid" || fail "sbcl died after kill $i: $(tail -n 3 "$victim_err")"
    done
    run_probity count -p "$victim_pid" -d 0.1 libc:malloc >/dev/null || fail "sbcl can not be probed again"
    ! grep 'memfd:probity' "/proc/$victim_pid/maps" || fail "sbcl: mappings were left behind"
    end_victim
    grep -q '^ok$' "$victim_out" || fail "sbcl: $(cat "$victim_out" "$victim_err")"
    echo "sbcl $option: killed"
done
