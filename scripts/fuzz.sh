#!/usr/bin/env bash
# Runs each fuzz target of the program `latchwork-fuzz` for some seconds, as many targets at a time
# as there are cores. The first argument is the program. Ends with status 1 if an input failed.
#
#   scripts/fuzz.sh target/debug/latchwork-fuzz --time 60 --seed 7
set -euo pipefail

if [ $# -lt 1 ] || [ ! -x "$1" ]; then
    echo "fuzz: name the program: scripts/fuzz.sh target/debug/latchwork-fuzz [FLAG..]" >&2
    exit 2
fi
program=$(realpath "$1")
shift
cd "$(dirname "$0")/.."
# The target `matrix` lives beside its parser and runs in that parser's tests.
find fuzz/corpus -mindepth 1 -maxdepth 1 -type d ! -name matrix -printf '%f\n' | sort |
    xargs -P "$(nproc)" -I TARGET "$program" "$@" TARGET || exit 1
