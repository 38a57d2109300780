#!/bin/bash
# Other programs read what is exported, and find the numbers that the flat view has: pprof of Debian's Go, callgrind_annotate, flamegraph.pl.
# timeout: 240
. "$(dirname "$0")/../live/lib.sh"
make=$build/test/report/make
flamegraph=/usr/share/perl5/Devel/NYTProf/flamegraph.pl
for tool in go callgrind_annotate "$flamegraph"; do
    command -v "$tool" >/dev/null || [ -r "$tool" ] || skip "$tool is missing"
done

compare() { # KIND FILE
    python3 test/report/compare.py "$work/flat.json" "$1" "$2" >&9 || complain "seed $seed, $data: $1 differs"
}

check_exports() {
    local trace=$work/trace
    rm -rf "$trace"
    python3 test/report/random_trace.py "$seed" "$data" | "$make" "$trace"
    "$probity" report --view flat --format json -o "$work/flat.json" "$trace"

    "$probity" report --format pprof -o "$work/p.pb.gz" "$trace"
    gzip -t "$work/p.pb.gz" || complain "pprof: not gzip"
    go tool pprof -top -cum -nodecount 1000 -nodefraction 0 -edgefraction 0 -unit ns "$work/p.pb.gz" >"$work/p.txt" 2>"$work/p.err" ||
        complain "pprof fails: $(cat "$work/p.err")"
    grep -q '^Type: time$' "$work/p.txt" || complain "pprof shows another type: $(head -n 3 "$work/p.txt")"
    compare pprof "$work/p.txt"

    "$probity" report --format callgrind -o "$work/callgrind.out" "$trace"
    callgrind_annotate --threshold=100 "$work/callgrind.out" >"$work/self.txt" 2>&1 || complain "callgrind_annotate fails"
    compare callgrind-self "$work/self.txt"
    callgrind_annotate --threshold=100 --inclusive=yes "$work/callgrind.out" >"$work/cum.txt" 2>&1 || complain "callgrind_annotate fails"
    compare callgrind-cum "$work/cum.txt"

    "$probity" report --format folded "$trace" | perl "$flamegraph" --minwidth 0 >"$work/flame.svg" || complain "flamegraph.pl fails"
    compare flamegraph "$work/flame.svg"
}

for seed in $(seq 1 "$(scale 2 100)"); do
    for data in events samples; do check_exports; done
done

# Places, modules and inlined functions of samples in pprof.
rm -rf "$work/trace"
"$make" "$work/trace" <<'END'
0 1.1 sample /bin/a!main=m.c:10;/lib/b.so!work=w.c:3;~/lib/b.so!inlined=w.h:7 10
1 1.1 sample /bin/a!main=m.c:11;/lib/b.so!work=w.c:4 30
END
"$probity" report --format pprof -o "$work/p.pb.gz" "$work/trace"
go tool pprof -raw "$work/p.pb.gz" >"$work/raw.txt" 2>/dev/null
for line in 'samples/count time/nanoseconds\[dflt\]' ' 1 +30: ' 'M=2 inlined w.h:7' '^ +work w.c:3' 'M=2 work w.c:4' 'M=1 main m.c:10' \
    '/lib/b.so cafe[0-9a-f]{2} \[FN\]\[FL\]\[LN\]\[IN\]'; do
    grep -qE "$line" "$work/raw.txt" || complain "pprof has no line like $line: $(cat "$work/raw.txt")"
done
exit $failed
