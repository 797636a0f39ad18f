#!/usr/bin/env bash
# Figure 13: half of the accesses go to the line of the one before; 8 compute and 8 memory nodes, 8 GB of cache of
# 48 GB, everything shared (SELCC 7.1.2).
. "$(dirname "$0")/lib.sh"
figure fig13 "$@"

for reads in 95 50 0; do
    for threads in $(pick "16 8 4 2 1" "8 1"); do
        for series in "SELCC" "SEL" "SELCC, adaptive release"; do
            case $series in
            SELCC) flags=() ;;
            SEL) flags=(--protocol sel) ;;
            *) flags=(--release adaptive $(learned 8)) ;;
            esac
            point reads=$reads threads=$((8 * threads)) "series=$series" -- \
                microbench "${simulated[@]}" --lines $lines --scale $scale --cache-share $cache_8gb \
                --compute-nodes 8 --memory-nodes 8 --threads $threads --operations "$(operations 8)" \
                --reads $reads --locality 50 "${flags[@]}"
        done
    done
done

finish
