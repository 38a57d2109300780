#!/bin/bash
# The browser on a real terminal (tmux): what is shown after keys, in another size, after a signal; and that the terminal is as it was.
. "$(dirname "$0")/lib.sh"
command -v tmux >/dev/null || skip "tmux is missing"
export LC_ALL=C.UTF-8

cat >"$work/events" <<'END'
0 1.1 enter main
10 1.1 enter parse
20 1.1 return parse
20 1.1 enter évaluer
30 1.1 enter parse
60 1.1 return parse
90 1.1 return évaluer
100 1.1 return main
END
"$probity" import --from events -o "$work/trace" "$work/events" >/dev/null

terminal() { # COMMAND...: of a server of its own
    tmux -S "$work/tmux" "$@"
}
stop_terminal() {
    local code=$?
    terminal kill-server 2>/dev/null || true
    (exit $code)
    stop_all
}
trap stop_terminal EXIT

screen_shows() { # PATTERN
    terminal capture-pane -p -t browser | shows -E -- "$1"
}
expect() { # PATTERN WHAT
    wait_until 20 screen_shows "$1" || fail "$2: nothing like $1 on the screen: $(terminal capture-pane -p -t browser)"
}
start_shell() {
    terminal -f /dev/null new-session -d -s browser -x 80 -y 24 "stty -a >$work/before; sh; exec cat"
    wait_until 20 test -s "$work/before" || fail "no terminal"
    pane=$(terminal display-message -p -t browser '#{pane_id}')
}
keys() {
    terminal send-keys -t browser "$@"
}

browse() { # [RUNNER]
    rm -f "$work/pid" "$work/after"
    keys "clear; sh -c 'echo \$\$ >$work/pid; exec ${1:-} $probity browse $work/trace'" Enter
    wait_until 20 test -s "$work/pid" || fail "the browser does not start"
    expect '1 of 2 .*q quit' "start"
}
ended_with() { # CODE: it ended, with the terminal as it was but for its size
    wait_until 20 gone "$(cat "$work/pid")" || fail "the browser does not end"
    keys "echo code \$?; stty -a >$work/after.new; mv $work/after.new $work/after" Enter
    wait_until 20 test -e "$work/after" || fail "no shell: $(terminal capture-pane -p -t browser)"
    expect "(^|# )code $1" "exit code" # a prompt may come late
    diff <(sed 's/rows [0-9]*; columns [0-9]*//' "$work/before") <(sed 's/rows [0-9]*; columns [0-9]*//' "$work/after") ||
        fail "the terminal is not as it was"
}

start_shell
browse
expect '▾ 1\.1' "start"
keys '*'
expect '▾ évaluer' "open all"
keys / p a r s e Enter
expect '3 of 5|4 of 5' "search"
keys a
expect 'Self +parse' "callers and callees"
expect 'Parent +évaluer' "callers and callees"
keys '?'
expect 'search names' "help"
keys x
terminal resize-window -t browser -x 100 -y 30
expect 'Self +parse' "another size"
wait_until 20 test "$(terminal display-message -p -t browser '#{pane_height}')" = 30 || fail "not resized"
last_line() { terminal capture-pane -p -t browser | tail -n 1 | shows 'q quit'; }
wait_until 20 last_line || fail "the last line is elsewhere in the larger window: $(terminal capture-pane -p -t browser)"
keys q
ended_with 0

# The size changes while the screen is being written, which takes long here: it is noticed once that is done.
browse "env ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0 strace -o /dev/null -e trace=write -e inject=write:delay_exit=200000"
browser_is() { [ "$(ps -o stat= -p "$(pgrep -P "$(cat "$work/pid")")" | head -c 1)" = "$1" ]; }
wait_until 20 browser_is S || fail "keys are not waited for"
keys j
wait_until 20 browser_is t || fail "nothing is written"
terminal resize-window -t browser -x 110 -y 33
wait_until 20 last_line || fail "a new size was not noticed: $(terminal capture-pane -p -t browser)"
keys q
ended_with 0

for signal in TERM INT HUP QUIT; do
    browse
    kill -$signal "$(cat "$work/pid")"
    ended_with $((128 + $(kill -l $signal)))
done

code=0
"$probity" browse "$work/trace" </dev/null >"$work/out" 2>"$work/err" || code=$?
expect_equal "exit code without a terminal" $code 2
