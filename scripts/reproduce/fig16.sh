#!/usr/bin/env bash
# Figure 16: uniform accesses, 8 compute and 8 memory nodes. SELCC runs no code on memory nodes, so
# its three configurations are one. An agent of ScaleStore has 8 cores, one, or a small share of
# one, as if other programs had the rest (SELCC 7.1.4).
. "$(dirname "$0")/lib.sh"
figure fig16 "$@"

for reads in 95 50 0; do
    compare 8 8 reads=$reads -- --reads $reads
    for each in "8 cores:--set home-cores=8" "1 core:" "a tenth of a core:--set home-share=10" \
        "a hundredth:--set home-share=1"; do
        series "ScaleStore, ${each%%:*}" "--protocol scalestore ${each#*:}" 8 8 reads=$reads -- --reads $reads
    done
done

finish
