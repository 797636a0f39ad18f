#!/usr/bin/env bash
# Figure 14: zipfian accesses with theta 0.99; 8 compute and 8 memory nodes, 8 GB of cache of
# 48 GB, everything shared (SELCC 7.1.3).
. "$(dirname "$0")/lib.sh"
figure fig14 "$@"

for reads in 95 50 0; do
    for threads in $(pick "16 8 4 2 1" "16 8 1"); do
        compare 8 $threads set=paper reads=$reads threads=$((8 * threads)) -- --reads $reads --theta 0.99
        directories 8 $threads set=paper reads=$reads threads=$((8 * threads)) -- --reads $reads --theta 0.99
    done
done

# The authors' SEL has no local concurrency control, and retries at once. Nodes of one worker share
# nothing either.
for reads in 95 50 0; do
    for nodes in 56 32 16 8; do
        point set=alone reads=$reads threads=$nodes "series=SEL, each alone" -- \
            $(micro 8 1 --compute-nodes $nodes --memory-mb 1024 --set stripes=8 --reads $reads --theta 0.99 \
                --protocol sel --set pause=1ns --set pause-max=1ns)
    done
    point set=alone reads=$reads threads=56 "series=SELCC, 8 x 7" -- $(micro 8 7 --reads $reads --theta 0.99)
done

finish
