#!/usr/bin/env bash
# Figure 18: YCSB with uniform requests as in figure 17. Three optimisations are off, then on one
# after the other: forwarding (SELCC 4.4.1), batched eviction (5.2.1), dirty bounds (5.2.2).
. "$(dirname "$0")/lib.sh"
figure fig18 "$@"

no_forwarding=(--set forwarding=off)
no_batches=(--set evict-batch=1 --set write-back-ring=0)
no_bounds=(--set dirty-bounds=off)

for reads in 0 50 95 100; do
    for series in "everything off" "with forwarding" "with batched eviction" "with dirty bounds"; do
        case $series in
        "everything off") flags=("${no_forwarding[@]}" "${no_batches[@]}" "${no_bounds[@]}") ;;
        "with forwarding") flags=("${no_batches[@]}" "${no_bounds[@]}") ;;
        "with batched eviction") flags=("${no_bounds[@]}") ;;
        *) flags=() ;;
        esac
        point reads=$reads "series=$series" -- $(tree $reads uniform --compute-nodes 8 --threads 8 "${flags[@]}")
    done
done

finish
