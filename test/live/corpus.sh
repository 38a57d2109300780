#!/bin/bash
# The scripts of test/corpus print what bpftrace 0.17 prints, byte for byte; those of test/corpus26, which use what 0.17 does not have, what
# the documentation of 0.26 says, in programs of both widths: NAME.out, or NAME.32.out where a 32-bit program differs. (S0.7)
#
#   corpus.sh                   against the stored outputs, test/corpus/NAME.out
#   corpus.sh --bpftrace        against bpftrace itself, as check-long does
#   corpus.sh --store NAME...   stores what bpftrace prints; without a name, for every script
#
# Lines of a script: `// args: WORD...` what follows it on the command line, `// options: ...`, `// victim: NAME ARG...`,
# `// differs: REASON` bpftrace 0.17 prints something else by design: the stored output is ours.
# timeout: 300
. "$(dirname "$0")/lib.sh"

ln -s "$probity" "$work/bpftrace"

directive() { # FILE NAME
    sed -n "s,^// $2: ,,p" "$1"
}

# What may differ: addresses of the process, how far a compiler comes in main() until it calls something, and the path in the name of a probe, which is absolute here and as written there.
normalise() {
    sed -E "s/0x[0-9a-f]{8,16}\b/0xADDRESS/g; s,/victim/32/,/victim/64/,g; s,:$root/,:./,g; s/\\bmain\\+[0-9]+/main+OFFSET/g"
}

run_script() { # PROGRAM FILE [OPTION...]: prints what the script prints; with a program of ${width:-64} bits
    local width=${width:-64} program=$1 file=$2 out=$work/out code=0 victim
    local -a args options command
    shift 2
    read -ra args <<<"$(directive "$file" args)" || true
    read -ra options <<<"$(directive "$file" options)" || true
    victim=$(directive "$file" victim)
    read -ra command <<<"$victims/$width/${victim:-v_corpus}"
    timeout --foreground -k 10 150 "$program" "$@" "${options[@]}" -c "${command[*]}" "$file" "${args[@]}" >"$out" 2>"$work/err" || code=$?
    normalise <"$out"
    [ $code = 0 ] || { echo "exit code $code"; sed -E '/RLIMIT_MEMLOCK|^Attached/d' "$work/err"; }
}

# Where values are equal, 0.17 leaves the order open: such a run of lines of one map is sorted in both outputs. A histogram is one entry.
sort_equal() {
    python3 test/live/corpus.py
}

compare() { # FILE EXPECTED [OPTION...]
    local file=$1 expected=$2
    shift 2
    run_script "$work/bpftrace" "$file" "$@" >"$work/found"
    if ! cmp -s "$expected" "$work/found" &&
        ! diff -u --label expected --label found <(sort_equal <"$expected") <(sort_equal <"$work/found") >"$work/diff"; then
        complain "$file"
        sed 's/^/    /' "$work/diff" >&9
        return
    fi
    agreed=$((agreed + 1))
}

agreed=0
mode=${1:-}
[ -z "${PROBITY_LONG:-}" ] || mode=--bpftrace
if [ "$mode" = --bpftrace ] && { ! command -v bpftrace >/dev/null || [ "$(id -u)" != 0 ]; }; then
    echo "bpftrace is missing, or this is not root: comparing with stored outputs"
    mode=
fi
files=(test/corpus/*.bt)
if [ "$mode" = --store ]; then
    shift
    [ $# = 0 ] || files=()
    for name in "$@"; do files+=("test/corpus/$name.bt"); done
    for file in "${files[@]}"; do
        if [ -z "$(directive "$file" differs)" ]; then run_script bpftrace "$file" >"${file%.bt}.out"; fi
    done
    exit 0
fi
for file in "${files[@]}"; do
    expected=${file%.bt}.out
    if [ "$mode" = --bpftrace ] && [ -z "$(directive "$file" differs)" ]; then
        expected=$work/expected
        run_script bpftrace "$file" >"$expected"
    fi
    compare "$file" "$expected" --dialect 0.17
done
for file in test/corpus26/*.bt; do
    [ -e "$file" ] || continue
    compare "$file" "${file%.bt}.out"
    expected=${file%.bt}.32.out
    [ -e "$expected" ] || expected=${file%.bt}.out
    sed 's,/victim/64/,/victim/32/,g' "$file" >"$work/${file##*/}"
    width=32 compare "$work/${file##*/}" "$expected"
done
echo "$agreed scripts agree"
exit $failed
