#!/usr/bin/env bash
# Figure 15a: the throughput of each node when all write to the same few lines (theta 10). The line
# lease, the number of waiting local accesses that go before a requesting node, is 0, 256, or
# unbounded (SELCC 5.3.1, 7.1.3).
. "$(dirname "$0")/lib.sh"
figure fig15a "$@"

for lease in 0 256 inf; do
    point lease=$lease "series=lease $lease" -- \
        $(micro 8 8 --time "$(pick 0.2 0.05)" --reads 0 --theta 10 --set lease=$lease)
done

finish
