#!/usr/bin/env bash
# Runs the experiments of a TOML file, and ends in one table:
#   scripts/cluster/matrix.sh scripts/cluster/fabrics.toml
# --help tells the flags. The programs are built first; CLUSTER_BIN=DIRECTORY takes those that are there.
# shellcheck source=scripts/cluster/lib.sh
source "$(dirname "$0")/lib.sh"
build
exec "$bin/cluster" matrix --vm-script "$repository/scripts/rxe-vm.sh" "$@"
