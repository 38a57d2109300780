#!/bin/bash
# babeltrace2 reads our traces without a word on stderr, and what it prints is, record for record, what our reader hands out.
set -euo pipefail
cd "$(dirname "$0")/../.."
tool=${BUILD:-build}/test/unit/trace_round_trip
if ! command -v babeltrace2 >/dev/null; then
    echo "babeltrace2 is not installed"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Lines of records: thread, pid, tid, channel, time, record; of definitions: how many there are of each kind that matters.
by_channel() {
    sed -E 's/^(\[[0-9]+\]) (([a-z_]+): )\{ thread = ([0-9]+), pid = ([0-9]+), tid = ([0-9]+) \}, /\4 \5 \6 \3 \1 \2/' |
        awk '/^\[/ { definitions[$2]++; next }
            { sub(/^(timer|timer_metric|off_cpu|pc|pc_metric|off_cpu_pc|switch_in|switch_out|ran)$/, "samples", $4); sub(/^(enter|return|enter_tail|place|tree)$/, "calls", $4); print }
            END { split("function stack module thread", kind, " "); for (i = 1; i <= 4; i++) print kind[i], definitions[kind[i] ":"] + 0 >"'"$work/definitions"'" }' |
        sort -s -k1,1n -k4,4
}

records=0
for seed in 1 2 3 4 5; do
    rm -rf "$work/trace"
    "$tool" --make "$work/trace" $seed
    "$tool" --print "$work/trace" >"$work/ours"
    babeltrace2 --clock-cycles --no-delta --names=payload,context "$work/trace" 2>"$work/stderr" >"$work/all" || { cat "$work/stderr"; exit 1; }
    if [ -s "$work/stderr" ]; then
        echo "babeltrace2 complains:"
        head -5 "$work/stderr"
        exit 1
    fi
    # The name of the host stands before that of the event; it has none of these.
    sed 's/^\(\[[0-9]*\]\) a "host"? /\1 /' "$work/all" | by_channel >"$work/records"
    cat "$work/definitions" "$work/records" | diff - "$work/ours" | head -20
    records=$((records + $(wc -l <"$work/records")))
done
[ $records -gt 50000 ] || { echo "only $records records were compared"; exit 1; }
echo "$records records are the same"
