#!/bin/bash
# Every fuzzer runs on random input, under sanitizers.
# timeout: 300
set -euo pipefail
cd "$(dirname "$0")/../.."
runs=100000
[ -z "${PROBITY_LONG:-}" ] || runs=5000000
found=0
for source in fuzz/*.c; do
    name=$(basename "$source" .c)
    case $name in
    symbol_dwarf) input=(build/victim/64/v_usdt build/victim/32/v_exceptions build/victim/32/v_count) ;;
    symbol_*) input=(build/victim/64/v_exceptions build/victim/32/v_tail build/victim/64/v_count-stripped) ;; # files to mutate
    *) input=() ;;
    esac
    share=1 # of the runs: inputs that take long get fewer
    [ ${#input[@]} -eq 0 ] || share=10
    [ "$name" != script_check ] || share=5
    [[ $name != trace_* ]] || share=20 # files are written and read each time
    [[ $name != report_* ]] || share=100 # and all of a report is made
    [[ $name != drain_* ]] || share=1000 # forty calls of the controller each
    "${BUILD:-build}/fuzz/$name" --runs $((runs / share)) "${input[@]}"
    found=$((found + 1))
done
[ $found -gt 0 ]
