#!/bin/bash
# `probity count` as a command: counts, output forms, intervals, several processes of both widths, exit codes, detaching. (S0.3, S2.6)
# timeout: 180
. "$(dirname "$0")/lib.sh"

for width in 64 32; do
    v=$victims/$width/v_count

    run_probity count --json "$v:f[1-5]" "$v:f[1-5]:return" -- "$v" -t 4 -n 5000 >"$work/started"
    for f in f1 f2 f3 f4 f5; do
        calls=$(awk -v f=$f '$1 == f { print $2 }' "$work/started")
        expect_equal "$width-bit $f entry, started" "$(count_of "$work/started" $f)" "$calls"
        expect_equal "$width-bit $f return, started" "$(count_of "$work/started" $f return)" "$calls"
    done

    specs=()
    while read -r f offset; do specs+=("$v:$f$offset"); done < <("$v" --offsets)
    run_probity count --json "${specs[@]}" -- "$v" -n 5000 >"$work/mid"
    while read -r f offset; do
        expect_equal "$width-bit $f$offset" "$(count_of "$work/mid" $f "$offset")" "$(awk -v f="$f+mid" '$1 == f { print $2 }' "$work/mid")"
    done < <("$v" --offsets)

    start_victim "$v" -w -t 4 -n 5000
    wait_ready
    start_count "$work/attached" "$victim_pid" --json "$v:f1" "$v:f1:return"
    release
    wait_ready 2
    end_count
    expect_equal "$width-bit f1 entry, attached" "$(count_of "$work/attached" f1)" 20000
    expect_equal "$width-bit f1 return, attached" "$(count_of "$work/attached" f1 return)" 20000
    text_is_the_files "$victim_pid"
    end_victim
done

# Text output: sorted by count, most first or last, all five there.
run_probity count "$v:f[1-5]" -- "$v" -n 100 >"$work/text"
for f in f1 f2 f3 f4 f5; do grep -q "\<$f\>" "$work/text" || fail "no $f in the text output"; done
grep -vE '^(f[1-5](\+mid)?|sum) ' "$work/text" | grep -oE '\<(200|800)\>' >"$work/order"
sort -n "$work/order" | cmp -s - "$work/order" || sort -rn "$work/order" | cmp -s - "$work/order" || fail "text output is not sorted"

# -d ends by itself; -i prints more than once; SIGTERM detaches too; both widths in one session.
start_victim "$victims/64/v_storm"
first=$victim_pid first_in=$victim_in
wait_ready
start_victim "$victims/32/v_storm"
wait_ready
run_probity count --json -d 1 -i 0.25 -p "$first" -p "$victim_pid" '*v_storm:storm_work' >"$work/both"
[ "$(grep -c storm_work "$work/both")" -ge 4 ] || fail "no output per interval: $(cat "$work/both")"
for width in 64 32; do
    grep "$width/v_storm" "$work/both" >"$work/one"
    [ "$(count_of "$work/one" storm_work)" -gt 0 ] || fail "the $width-bit process was not counted"
done
start_count "$work/term" "$first" '*v_storm:storm_work'
kill -TERM "$counter_pid"
wait "$counter_pid" || fail "SIGTERM gives exit code $?"
text_is_the_files "$first"
end_victim
victim_pid=$first victim_in=$first_in
end_victim

# -p ends with the process; CMD's exit code is probity's.
start_victim "$victims/64/v_count" -w -n 10
wait_ready
start_count "$work/ended" "$victim_pid" --json "$victims/64/v_count:f1"
release
wait_ready 2
end_victim
wait_until 30 gone "$counter_pid" || fail "probity goes on after the end of the process"
expect_equal "f1 of a process that ended" "$(count_of "$work/ended" f1)" 20

for expected in 0 1 42; do
    code=0
    run_probity count 'libc:exit' -- bash -c "exit $expected" >/dev/null || code=$?
    expect_equal "exit code" "$code" "$expected"
done
code=0
run_probity count 'libc:exit' -- bash -c 'kill -TERM $$' >/dev/null || code=$?
expect_equal "exit code after a signal" "$code" 143
