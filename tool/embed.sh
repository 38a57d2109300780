#!/bin/sh
# embed.sh AGENT64.elf AGENT32.elf: prints C source with the agents' flat bytes.
set -eu
temporary=$(mktemp)
trap 'rm -f "$temporary"' EXIT
echo '#include "load/agent_blob.h"'
for width in 64 32; do
    objcopy -O binary -j .text "$1" "$temporary"
    echo "const uint8_t load_agent$width[] = {"
    od -An -v -tu1 "$temporary" | sed 's/  */,/g; s/^,//; s/$/,/'
    echo "};"
    echo "const size_t load_agent${width}_bytes = sizeof load_agent$width;"
    shift
done
