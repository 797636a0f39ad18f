# The common parts of the cluster scripts, which source this file.
#
#   build       builds the programs, unless CLUSTER_BIN has a directory with them; sets `bin`
#
# CLUSTER_FEATURES=latchwork-harness/etcd builds them with support for etcd.
# shellcheck shell=bash disable=SC2034
set -euo pipefail

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

build() {
    bin=${CLUSTER_BIN:-}
    if [ -n "$bin" ]; then
        bin=$(cd "$bin" && pwd)
        return
    fi
    local features=()
    [ -z "${CLUSTER_FEATURES:-}" ] || features=(--features "$CLUSTER_FEATURES")
    (cd "$repository" && cargo build --release --quiet --locked "${features[@]}" \
        --bin cluster --bin memnode --bin ycsb --bin tpcc --bin microbench --bin spatial) || exit 1
    bin=${CARGO_TARGET_DIR:-$repository/target}/release
}
