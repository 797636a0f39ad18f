#!/usr/bin/env bash
# usage: scripts/replay-worlds.sh SIM
# Replays the kept simulated worlds: every line of apps/sim/worlds.txt is a command line of `sim
# run`. Prints one line for each world, and the whole output of one that fails. Exit status 1 if any
# fails. Then replays what is known to fail, apps/sim/known.txt, with the programs beside SIM, and
# says of each whether it still fails. Neither answer changes the exit status.
set -euo pipefail
sim=$(realpath "$1")
cd "$(dirname "$0")/.."

# The lines of a file without comments and empty ones.
entries() { sed 's/#.*//; /^ *$/d' "$1"; }

failed=0
count=0
# Arguments are split at spaces on purpose: none of them contains a space.
while read -r arguments; do
    count=$((count + 1))
    # shellcheck disable=SC2086
    if told=$("$sim" run $arguments 2>&1 </dev/null); then
        printf 'ok      %s %s\n' "$(awk '/^event hash/ { print $3 }' <<<"$told")" "$arguments"
    else
        printf 'FAILED  %s\n%s\n' "$arguments" "$told"
        failed=$((failed + 1))
    fi
done < <(entries apps/sim/worlds.txt)

while read -r program arguments; do
    status=0
    # shellcheck disable=SC2086
    timeout 60 "$(dirname "$sim")/$program" $arguments >/dev/null 2>&1 </dev/null || status=$?
    case $status in
        0) printf 'mended       %s %s\n' "$program" "$arguments" ;;
        2 | 126 | 127) printf 'FAILED  %s %s: no such command\n' "$program" "$arguments" && failed=$((failed + 1)) ;;
        *) printf 'still fails  %s %s\n' "$program" "$arguments" ;;
    esac
done < <(entries apps/sim/known.txt)

[ "$count" -gt 0 ] || { echo "replay-worlds: apps/sim/worlds.txt has no world" >&2; exit 1; }
[ "$failed" -eq 0 ] || { echo "replay-worlds: $failed of $count worlds failed" >&2; exit 1; }
echo "replay-worlds: $count worlds, all as they should be"
