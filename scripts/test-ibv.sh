#!/usr/bin/env bash
# Runs all tests on real verbs, in one run of the virtual machine: crates/fabric/verbs-ibv, clusters
# of threads, and whole programs with a device for each process.
#   scripts/test-ibv.sh [ARGUMENTS OF THE TESTS]
set -euo pipefail
cd "$(dirname "$0")/.."
repository=$PWD
# A folder, and the modules of its tests that need a device.
wanted=(
    "crates/fabric/verbs-ibv contract:: elsewhere:: failing:: wake::"
    "crates/cluster/cluster rdma:: joined::"
    "apps/ycsb rdma::"
    "apps/tpcc rdma::"
)
# All tests of the workspace, as `cargo test` builds them. A smaller selection has other features of
# shared dependencies, and is built anew.
artifacts=$(cargo test --workspace --no-run --message-format json)
tests=()
for each in "${wanted[@]}"; do
    read -r folder modules <<<"$each"
    test=$(sed -n "s#.*\"src_path\":\"$repository/$folder/tests/suite/main\.rs\".*\"executable\":\"\([^\"]*\)\".*#\1#p" <<<"$artifacts")
    [ -n "$test" ] || { echo "test-ibv: cargo has not built the tests of $folder" >&2; exit 1; }
    for module in $modules; do
        tests+=("$test $module")
    done
done
# Each module has its own time limit, so that a hanging one is known. The programs are beside the
# tests.
# shellcheck disable=SC2016
exec scripts/rxe-vm.sh --hosts 5 --limit "${RXE_VM_LIMIT:-1200}" --share "$(dirname "$(dirname "${tests[0]% *}")")" bash -c '
    arguments=$1
    shift
    for each; do
        read -r test module <<<"$each"
        echo "running $(basename "$test") $module"
        # shellcheck disable=SC2086
        timeout -k 5 400 "$test" "$module" $arguments || { echo "$test $module failed: $?" >&2; exit 1; }
    done' test-ibv "$*" "${tests[@]}"
