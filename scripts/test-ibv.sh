#!/usr/bin/env bash
# What is tested on real verbs, all in one run of the virtual machine: crates/fabric/verbs-ibv, clusters of threads, and whole programs with a
# device for each process.
#   scripts/test-ibv.sh [ARGUMENTS OF THE TESTS]
set -euo pipefail
cd "$(dirname "$0")/.."
repository=$PWD
files=(crates/fabric/verbs-ibv/tests/{contract,elsewhere,failing,wake} crates/cluster/cluster/tests/{rdma,joined} apps/{ycsb,tpcc}/tests/rdma)
names=$(for file in "${files[@]}"; do echo "--test $(basename "$file")"; done | sort -u)
# Of the whole workspace, so that what its tests were built from is used.
# shellcheck disable=SC2086
artifacts=$(cargo test --workspace $names --no-run --message-format json)
tests=()
for file in "${files[@]}"; do
    test=$(sed -n "s#.*\"src_path\":\"$repository/$file\.rs\".*\"executable\":\"\([^\"]*\)\".*#\1#p" <<<"$artifacts")
    [ -n "$test" ] || { echo "test-ibv: cargo has not built $file" >&2; exit 1; }
    tests+=("$test")
done
# Each has a time limit of its own, so that the one that hangs is known. The programs are beside the tests.
# shellcheck disable=SC2016
exec scripts/rxe-vm.sh --hosts 5 --limit "${RXE_VM_LIMIT:-1200}" --share "$(dirname "$(dirname "${tests[0]}")")" bash -c '
    arguments=$1
    shift
    for test; do
        echo "running $(basename "$test")"
        # shellcheck disable=SC2086
        timeout -k 5 400 "$test" $arguments || { echo "$test failed: $?" >&2; exit 1; }
    done' test-ibv "$*" "${tests[@]}"
