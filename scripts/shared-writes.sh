#!/usr/bin/env bash
# Whether readers of one cluster write CPU cache lines that other readers touch, by counting under
# valgrind: every load and store of each read path, of each reader. Then twice with readers that are
# spoilt, which must be found. Without valgrind nothing is counted, and one line says so.
#
#   scripts/shared-writes.sh            all of it
#   scripts/shared-writes.sh --quick    not the spoilt ones
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
