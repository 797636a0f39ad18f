#!/usr/bin/env bash
# Beyond the paper: figure 12's fully shared accesses with several operations in flight, adaptive
# release and takeover of shared lines, one at a time and together.
. "$(dirname "$0")/lib.sh"
figure beyond "$@"

for reads in 95 50 0; do
    for nodes in $(pick "16 8 4 2 1" "16 1"); do
        for series in "SELCC" "4 in flight" "8 in flight" "adaptive release" "takeover" "takeover, 4 in flight" "all three"; do
            case $series in
            SELCC) flags=() ;;
            "4 in flight") flags=(--inflight 4) ;;
            "8 in flight") flags=(--inflight 8) ;;
            "adaptive release") flags=(--set release=adaptive $(learned $nodes)) ;;
            takeover) flags=(--set takeover=on) ;;
            "takeover, 4 in flight") flags=(--set takeover=on --inflight 4) ;;
            *) flags=(--set release=adaptive --set takeover=on --inflight 4 $(learned $nodes)) ;;
            esac
            # The middle numbers of nodes are only for these three series.
            [[ $nodes == @(1|16) || $series == @(SELCC|"takeover, 4 in flight"|"all three") ]] || continue
            point reads=$reads nodes=$nodes "series=$series" -- \
                $(micro $nodes 8 --set cache-share=$cache_16gb --reads $reads --sharing 100 "${flags[@]}")
        done
    done
done

finish
