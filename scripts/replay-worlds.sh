#!/usr/bin/env bash
# usage: scripts/replay-worlds.sh SIM
# Replays the kept simulated worlds: every line of apps/sim/worlds.txt is a command line of `sim
# run`. Prints one line for each world, and the whole output of one that fails. Exit status 1 if any
# fails.
set -euo pipefail
sim=$(realpath "$1")
cd "$(dirname "$0")/.."

failed=0
count=0
while IFS= read -r line; do
    arguments=${line%%#*}
    [ -n "${arguments// /}" ] || continue
    count=$((count + 1))
    # Split at spaces on purpose: no argument of a kept world contains a space.
    # shellcheck disable=SC2086
    if told=$("$sim" run $arguments 2>&1 </dev/null); then
        printf 'ok      %s %s\n' "$(awk '/^event hash/ { print $3 }' <<<"$told")" "$arguments"
    else
        printf 'FAILED  %s\n%s\n' "$arguments" "$told"
        failed=$((failed + 1))
    fi
done <apps/sim/worlds.txt

[ "$count" -gt 0 ] || { echo "replay-worlds: apps/sim/worlds.txt has no world" >&2; exit 1; }
[ "$failed" -eq 0 ] || { echo "replay-worlds: $failed of $count worlds failed" >&2; exit 1; }
echo "replay-worlds: $count worlds, all as they should be"
