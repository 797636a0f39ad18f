#!/usr/bin/env bash
# Tests a cluster of programs with its membership store in etcd, which the script starts. The
# cluster has two memory nodes and three compute nodes over sockets, as processes and, if permitted,
# in network namespaces. Needs `etcd`, and `protoc` for its client.
# shellcheck source=scripts/cluster/lib.sh
CLUSTER_FEATURES=${CLUSTER_FEATURES:-latchwork-harness/etcd}
source "$(dirname "$0")/lib.sh"
build
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
small=(-p recordcount=1000 --operations 2000 --threads 1 --cache-mb 8)
run() {
    echo "== etcd, $1"
    "$bin/cluster" run --on "$1" --fabric tcp --store etcd --memory-nodes 2 --compute-nodes 3 --memory-mb 128M \
        --time-limit 120 --results "$results/$1" ycsb -- check -w a "${small[@]}" 2>"$results/$1.err" || {
        cat "$results/$1.err" >&2
        return 1
    }
}
run processes
if "$bin/cluster" run --on namespaces --dry-run ycsb >/dev/null; then run namespaces; fi
