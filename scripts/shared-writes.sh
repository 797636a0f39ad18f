#!/usr/bin/env bash
# Checks whether readers of one cluster write CPU cache lines that other readers touch. Valgrind
# counts every load and store of each read path, of each reader. Then the check runs twice with
# seeded bugs, which it must find. Without valgrind the script counts nothing, and prints one line
# that says so.
#
#   scripts/shared-writes.sh            with the seeded bugs
#   scripts/shared-writes.sh --quick    without them
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v valgrind >/dev/null; then
    echo "shared-writes: skipped, there is no valgrind here"
    exit 0
fi
cargo build --release --locked -p latchwork-benches --example shared_writes
count=${CARGO_TARGET_DIR:-target}/release/examples/shared_writes

"$count"
[ "${1:-}" != --quick ] || exit 0
for spoil in counter neighbour; do
    status=0
    "$count" --spoil "$spoil" >/dev/null || status=$?
    if [ "$status" -ne 1 ]; then
        echo "shared-writes: the variant '$spoil' was not found out (exit status $status)" >&2
        exit 1
    fi
    echo "shared-writes: a spoilt variant is found out: $spoil"
done
