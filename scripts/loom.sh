#!/usr/bin/env bash
# Local latches, the index, queues, wake-ups and the log's commits under every interleaving, and with every
# value that a load may return: with loom's primitives in the place of the real ones
# (crates/base/runtime/src/sync.rs).
#
#   scripts/loom.sh                            all of them
#   scripts/loom.sh no_wake                    those whose name begins so
#   LOOM_MAX_PREEMPTIONS=4 scripts/loom.sh     more of the larger ones' interleavings
set -euo pipefail
cd "$(dirname "$0")/.."

# Thread switches that no thread asked for, in one run. Bugs of two or three threads need two or three.
export LOOM_MAX_PREEMPTIONS=${LOOM_MAX_PREEMPTIONS:-3}
# Of its own: everything is built anew for another cfg.
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/loom
export RUSTFLAGS="${RUSTFLAGS:-} --cfg loom"
export CARGO_PROFILE_TEST_OPT_LEVEL=2 CARGO_PROFILE_TEST_DEBUG=0 CARGO_PROFILE_DEV_DEBUG=0

printf 'runs with at most %s preemptions\n' "$LOOM_MAX_PREEMPTIONS"
# Inside the crates the other unit tests, which no model runs, stand aside.
cargo test --locked --lib -p latchwork-cache -p latchwork-verbs-shm -p latchwork-engine \
    -p latchwork-wal -- interleavings::"${1:-}"
cargo test --locked --test loom -p latchwork-cache -p latchwork-runtime -- "${1:-}"
