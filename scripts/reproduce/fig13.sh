#!/usr/bin/env bash
# Figure 13: half of the accesses go to the line of the previous access; 8 compute and 8 memory
# nodes, 8 GB of cache of 48 GB, everything shared (SELCC 7.1.2).
. "$(dirname "$0")/lib.sh"
figure fig13 "$@"

for reads in 95 50 0; do
    for threads in $(pick "16 8 4 2 1" "8 1"); do
        compare 8 $threads set=paper reads=$reads threads=$((8 * threads)) -- --reads $reads --set locality=50
        directories 8 $threads set=paper reads=$reads threads=$((8 * threads)) -- --reads $reads --set locality=50
    done
    # Lines of the size that each was published with, and as many bytes.
    series "GAM, 512 B" "--protocol gam --gcl-size 512 --lines $((4 * lines))" \
        8 8 set=sizes reads=$reads threads=64 -- --reads $reads --set locality=50
    series "ScaleStore, 4 KiB" "--protocol scalestore --gcl-size 4096 --lines $((lines / 2))" \
        8 8 set=sizes reads=$reads threads=64 -- --reads $reads --set locality=50
done

finish
