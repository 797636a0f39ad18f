#!/usr/bin/env bash
# Starts memory nodes and compute nodes, runs a program on them, collects results, and leaves
# nothing behind:
#   scripts/cluster/run.sh --memory-nodes 2 --compute-nodes 3 --fabric tcp ycsb -- check -w a
# --help lists the flags. The programs are built first; CLUSTER_BIN=DIRECTORY takes existing ones.
# shellcheck source=scripts/cluster/lib.sh
source "$(dirname "$0")/lib.sh"
build
exec "$bin/cluster" run --vm-script "$repository/scripts/rxe-vm.sh" "$@"
