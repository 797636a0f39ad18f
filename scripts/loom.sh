#!/usr/bin/env bash
# Tests local latches, the index, queues, wake-ups and the log's commits under every interleaving,
# and with every value that a load may return. Loom's primitives replace the real ones
# (crates/base/runtime/src/sync.rs).
#
#   scripts/loom.sh                            all tests
#   scripts/loom.sh no_wake                    tests with this prefix
#   LOOM_MAX_PREEMPTIONS=4 scripts/loom.sh     more interleavings of the larger tests
set -euo pipefail
cd "$(dirname "$0")/.."

# Maximum number of forced thread switches in one run. A bug of two or three threads needs two or
# three.
export LOOM_MAX_PREEMPTIONS=${LOOM_MAX_PREEMPTIONS:-3}
# A separate directory, because another cfg rebuilds everything.
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/loom
export RUSTFLAGS="${RUSTFLAGS:-} --cfg loom"
export CARGO_PROFILE_TEST_OPT_LEVEL=2 CARGO_PROFILE_TEST_DEBUG=0 CARGO_PROFILE_DEV_DEBUG=0

printf 'runs with at most %s preemptions\n' "$LOOM_MAX_PREEMPTIONS"
# Inside the crates only the models run; the other unit tests are filtered out.
cargo test --locked --lib -p latchwork-cache -p latchwork-verbs-shm -p latchwork-engine \
    -p latchwork-wal -- interleavings::"${1:-}"
cargo test --locked --test loom -p latchwork-cache -p latchwork-runtime -- "${1:-}"
