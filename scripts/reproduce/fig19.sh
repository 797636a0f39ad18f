#!/usr/bin/env bash
# Figure 19, transactions (SELCC 7.3), with the options of its parts. Part b compares with two-phase commit between
# partitions, which tpcc does not have yet (--partitioned): it is not made.
set -euo pipefail

for part in fig19a; do
    "$(dirname "$0")/$part.sh" "$@"
done
