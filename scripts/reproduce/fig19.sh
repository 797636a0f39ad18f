#!/usr/bin/env bash
# Figure 19, transactions (SELCC 7.3), with the options of its parts.
set -euo pipefail

for part in fig19a fig19b; do
    "$(dirname "$0")/$part.sh" "$@"
done
