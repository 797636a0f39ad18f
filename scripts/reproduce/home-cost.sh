#!/usr/bin/env bash
# At which cost of a message ScaleStore falls as far behind SELCC as in the paper: figure 13's cells
# of 64 workers, by the cost of a message at a home, in multiples of the profile's. An agent with a
# share of its core pays the inverse of that share.
. "$(dirname "$0")/lib.sh"
figure home-cost "$@"

for reads in 95 50 0; do
    for cost in $(pick "1 2 3 4 5 6 8 10 20" "1 3 6"); do
        series ScaleStore "--protocol scalestore --set home-share=$(((100 + cost / 2) / cost))" \
            8 8 reads=$reads cost=$cost -- --reads $reads --set locality=50
        series SELCC "" 8 8 reads=$reads cost=$cost -- --reads $reads --set locality=50
    done
done

finish
