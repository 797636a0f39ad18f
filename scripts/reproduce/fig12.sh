#!/usr/bin/env bash
# Figure 12: throughput from 1 to 16 compute nodes, uniform accesses, the same number of memory
# nodes, 16 GB of cache of 48 GB. Bars: operations that needed an invalidation. The losses by
# sharing are with 8 GB (SELCC 7.1.1).
. "$(dirname "$0")/lib.sh"
figure fig12 "$@"

for reads in 95 50 0; do
    for nodes in $(pick "16 8 4 2 1" "16 1"); do
        flags=(--set cache-share=$cache_16gb --reads $reads)
        for sharing in $(pick "0 25 50 75 100" "0 100"); do
            point set=paper reads=$reads nodes=$nodes "series=SELCC, $sharing % shared" -- \
                $(micro $nodes 8 "${flags[@]}" --sharing $sharing)
        done
        point set=paper reads=$reads nodes=$nodes series=SEL -- \
            $(micro $nodes 8 "${flags[@]}" --sharing 100 --protocol sel)
        point set=beyond reads=$reads nodes=$nodes "series=SELCC, 100 % shared, adaptive release" -- \
            $(micro $nodes 8 "${flags[@]}" --sharing 100 --set release=adaptive $(learned $nodes))
    done
    for sharing in 0 100; do
        point set=small reads=$reads nodes=16 "series=SELCC, $sharing % shared, 8 GB" -- \
            $(micro 16 8 --reads $reads --sharing $sharing)
    done
done

finish
