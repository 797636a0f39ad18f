#!/usr/bin/env bash
# Runs the experiments of a TOML file, with one table of results:
#   scripts/cluster/matrix.sh scripts/cluster/fabrics.toml
# --help lists the flags. The programs are built first; CLUSTER_BIN=DIRECTORY takes existing ones.
# shellcheck source=scripts/cluster/lib.sh
source "$(dirname "$0")/lib.sh"
build
exec "$bin/cluster" matrix --vm-script "$repository/scripts/rxe-vm.sh" "$@"
