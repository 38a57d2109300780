#!/bin/bash
# The agent's code uses no vector or x87 register and no string instruction; its part of stream/ and unwind/ needs nothing but itself and the port.
set -euo pipefail
cd "$(dirname "$0")/../.."
failed=0
for width in 64 32; do
    folder=${BUILD:-build}/test/stream/$width/obj/agent/src
    count=0
    for object in "$folder"/stream/*.o "$folder"/unwind/*.o "$folder"/agent/*.o; do
        count=$((count + 1))
        if [[ $object != */src/agent/* ]] && nm -u "$object" | grep -vE ' (port_|stream_|softfloat_|eval_|_GLOBAL_OFFSET_TABLE_)'; then
            echo "FAIL $object needs the above"
            failed=1
        fi
        if objdump -d --no-show-raw-insn "$object" | grep -E '%[xyz]mm|%st\b|%mm|%es:\(|\brep'; then
            echo "FAIL $object has the above"
            failed=1
        fi
    done
    [ $count -ge 6 ] || { echo "FAIL nothing was looked at in $folder"; failed=1; }
done
exit $failed
