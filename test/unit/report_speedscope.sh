#!/bin/bash
# speedscope's importers read its own format, Chrome's and pprof's, and find the numbers that the flat view has.
# timeout: 240
. "$(dirname "$0")/../live/lib.sh"
make=$build/test/report/make
version=1.20.0 # the last whose importers can be loaded without a browser
package=$root/build/npm/speedscope-$version/package

command -v node >/dev/null && command -v npm >/dev/null || skip "node or npm is missing"
if [ ! -d "$package" ]; then
    mkdir -p "$work/npm"
    (cd "$work/npm" && timeout 60 npm pack "speedscope@$version" >/dev/null 2>&1) || skip "the npm registry can not be reached"
    mkdir -p "${package%/package}.new.$$"
    tar xzf "$work/npm/speedscope-$version.tgz" -C "${package%/package}.new.$$"
    mv -T "${package%/package}.new.$$" "${package%/package}"
fi

import() { # FILE: into $work/imported
    node test/report/speedscope.js "$package" "$1" >"$work/all" 2>"$work/err" || complain "seed $seed, $data: speedscope fails on $1: $(cat "$work/err")"
    # It says what it does; of our files it has nothing to complain of.
    [ "$(grep -cv '^Importing as\|^\[' "$work/all")" = 0 ] && [ ! -s "$work/err" ] ||
        complain "seed $seed, $data: speedscope complains of $1: $(grep -v '^\[' "$work/all") $(cat "$work/err")"
    grep '^\[' "$work/all" >"$work/imported" || true
}

compare() {
    python3 test/report/compare.py "$work/flat.json" speedscope "$work/imported" >&9 || complain "seed $seed, $data: $1 differs"
}

for seed in $(seq 1 "$(scale 2 100)"); do
    for data in events samples; do
        rm -rf "$work/trace"
        python3 test/report/random_trace.py "$seed" "$data" | "$make" "$work/trace"
        "$probity" report --view flat --format json -o "$work/flat.json" "$work/trace"
        "$probity" report --format speedscope -o "$work/a.speedscope.json" "$work/trace"
        import "$work/a.speedscope.json"
        compare speedscope
        "$probity" report --format pprof -o "$work/a.pb.gz" "$work/trace"
        import "$work/a.pb.gz"
        compare pprof
    done
    # Calls only: samples are instants there. Its numbers are floating point microseconds.
    data=events
    rm -rf "$work/trace"
    python3 test/report/random_trace.py "$seed" events | "$make" "$work/trace"
    "$probity" report --view flat --format json -o "$work/flat.json" "$work/trace"
    "$probity" report --format chrome -o "$work/a.trace.json" "$work/trace"
    import "$work/a.trace.json"
    python3 - "$work/imported" <<'END'
import json, sys
profiles = json.load(open(sys.argv[1]))
for profile in profiles:
    profile["frames"] = {name: [round(v * 1000) for v in value] for name, value in profile["frames"].items()}
json.dump(profiles, open(sys.argv[1], "w"))
END
    compare chrome
done
exit $failed
