#!/bin/bash
# The requirements name tests and files that exist, and the check sees when they do not.
set -euo pipefail
cd "$(dirname "$0")/../.."
tool/check-requirements.sh

seeded=$(mktemp)
trap 'rm -f "$seeded"' EXIT
expect() { # SED-EXPRESSION MESSAGE
    sed "$1" doc/requirements.md >"$seeded"
    if output=$(tool/check-requirements.sh "$seeded"); then
        echo "not seen: $1"
        exit 1
    fi
    case $output in
    *"$2"*) ;;
    *) echo "wrong message for $1: $output"; exit 1 ;;
    esac
}
expect '/^| S2.2 /d' 'S2.2 is missing'
expect 's,test/live/storm.sh,test/live/no_such_test.sh,' 'test/live/no_such_test.sh does not exist'
expect '/^| S1.9 /s/planned/soon/' 'S1.9 names no test and is not planned'
