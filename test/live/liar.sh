#!/bin/bash
# Processes that mean harm to whoever traces them, also of another user: they lie in the memory that they share with the controller, word by
# word and all at once, take its descriptors as they pass by and cut, punch and write what is behind, and have memory that says it is what
# an earlier controller left. The controller counts or refuses with one line; nothing of its is left behind; the process lives. (S2.2, S2.5)
# timeout: 240
. "$(dirname "$0")/lib.sh"

as_user=()
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
    as_user=(setpriv --reuid 65534 --regid 65534 --clear-groups)
fi
for width in 64 32; do
    mkdir -m 755 "$work/$width"
    cp "$victims/$width/v_liar" "$victims/$width/libv_plugin.so" "$work/$width/"
    chmod 755 "$work/$width/"*
done

start_liar() { # WIDTH USER MODE ARG...
    local as=()
    [ "$2" = own ] || as=("${as_user[@]}")
    liar=$work/$1/v_liar
    start_victim "${as[@]}" "$liar" "$3" "$4" "$work/$1/libv_plugin.so" "${@:5}"
    wait_ready
}

end_liar() {
    text_is_the_files "$victim_pid"
    release
    end_victim
    ! shows ' can be ' "$victim_err" || fail "what must not be possible is: $(cat "$victim_err")"
    rm -f "$work"/std* "$work"/json*
}

lies() { # WIDTH USER MODE SEED
    echo "$*"
    start_liar "$@" "$(scale 16 600)"
    start_count "$work/json" "$victim_pid" --json "$work/$1/*:*"
    wait_ready 2
    end_count
    [ "$3" != thief ] || grep -q '^stolen [1-9]' "$victim_out" || echo 'nothing was stolen'
    end_liar
}

forges() { # WIDTH USER KIND
    local code=0
    echo "$1 $2 forge $3"
    start_liar "$1" "$2" forge "$3"
    run_probity count -p "$victim_pid" -d 0.1 --json "$liar:work" >"$work/json" 2>"$work/json.err" || code=$?
    case $code in
    0) [ "$(count_of "$work/json" work)" -gt 0 ] || fail "kind $3: nothing was counted" ;;
    7) expect_equal "kind $3: lines of the refusal" "$(wc -l <"$work/json.err")" 1 && cat "$work/json.err" ;;
    *) fail "kind $3: probity ended with $code: $(tail -n 3 "$work/json.err")" ;;
    esac
    end_liar
}

# The user and the width change from one to the next; in the long run there are all of both.
users=(own other)
widths=(64 32)
number=0
each() { # FUNCTION ARG...
    if [ -n "${PROBITY_LONG:-}" ]; then
        local width user
        for width in 64 32; do for user in own other; do "$1" $width $user "${@:2}"; done; done
    else
        "$1" "${widths[number % 2]}" "${users[number / 2 % 2]}" "${@:2}"
    fi
    number=$((number + 1))
}
for ((seed = 1; seed <= $(scale 1 20); seed++)); do
    for mode in words all thief; do
        each lies $mode $seed
        each lies $mode $((seed + 1000))
    done
done
for ((kind = 0; kind < 10; kind++)); do each forges $kind; done
