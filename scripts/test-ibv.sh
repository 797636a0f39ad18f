#!/usr/bin/env bash
# The tests of crates/verbs-ibv on real verbs, and a cluster over it: all of them in one run of the virtual machine.
#   scripts/test-ibv.sh [ARGUMENTS OF THE TESTS]
set -euo pipefail
cd "$(dirname "$0")/.."
built() { cargo test "$@" --no-run --message-format json | sed -n 's/.*"executable":"\([^"]*\)".*/\1/p'; }
mapfile -t tests < <(built -p latchwork-verbs-ibv --lib --tests && built -p latchwork-cluster --test rdma)
[ ${#tests[@]} -gt 0 ] || { echo "test-ibv: cargo has built no tests" >&2; exit 1; }
# Each has a time limit of its own, so that the one that hangs is known.
# shellcheck disable=SC2016
exec scripts/rxe-vm.sh --limit "${RXE_VM_LIMIT:-900}" --share "$(dirname "${tests[0]}")" bash -c '
    arguments=$1
    shift
    for test; do
        echo "running $(basename "$test")"
        # shellcheck disable=SC2086
        timeout -k 5 300 "$test" $arguments || { echo "$test failed: $?" >&2; exit 1; }
    done' test-ibv "$*" "${tests[@]}"
