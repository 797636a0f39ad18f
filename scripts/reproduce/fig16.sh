#!/usr/bin/env bash
# Figure 16, SELCC's side: uniform accesses, 8 compute and 8 memory nodes. Memory nodes have no processor that could be
# busy in this simulation, as the protocol wants it, so the figure's three configurations are one (SELCC 7.1.4).
. "$(dirname "$0")/lib.sh"
figure fig16 "$@"

for reads in 95 50 0; do
    for protocol in selcc sel; do
        point reads=$reads series=${protocol^^} -- \
            microbench "${simulated[@]}" --lines $lines --scale $scale --cache-share $cache_8gb \
            --compute-nodes 8 --memory-nodes 8 --threads 8 --operations "$(operations 8)" \
            --reads $reads --protocol $protocol
    done
    point reads=$reads "series=SELCC, adaptive release" -- \
        microbench "${simulated[@]}" --lines $lines --scale $scale --cache-share $cache_8gb \
        --compute-nodes 8 --memory-nodes 8 --threads 8 --operations "$(operations 8)" \
        --reads $reads --release adaptive $(learned 8)
done

finish
