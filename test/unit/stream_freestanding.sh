#!/bin/bash
# What of stream/ runs in the agent needs nothing but itself and the port, uses no vector or x87 register and no string instruction.
set -euo pipefail
cd "$(dirname "$0")/../.."
failed=0
for width in 64 32; do
    folder=${BUILD:-build}/test/stream/$width/obj/agent/src/stream
    count=0
    for object in "$folder"/*.o; do
        count=$((count + 1))
        if nm -u "$object" | grep -vE ' (port_|stream_|softfloat_|eval_|_GLOBAL_OFFSET_TABLE_)'; then
            echo "FAIL $object needs the above"
            failed=1
        fi
        if objdump -d --no-show-raw-insn "$object" | grep -E '%[xyz]mm|%st\b|%mm|%es:\(|\brep'; then
            echo "FAIL $object has the above"
            failed=1
        fi
    done
    [ $count -ge 4 ] || { echo "FAIL nothing was looked at in $folder"; failed=1; }
done
agent=${BUILD:-build}/agent
if objdump -d --no-show-raw-insn "$agent"64.elf "$agent"32.elf | grep -E '%[xyz]mm|%es:\(|\brep'; then
    echo "FAIL the agent has the above"
    failed=1
fi
exit $failed
