#!/usr/bin/env bash
# Figure 16, SELCC's side: uniform accesses, 8 compute and 8 memory nodes. Memory nodes have no
# processor in this simulation, as in the protocol. So no processor is busy, and the figure's three
# configurations are one (SELCC 7.1.4).
. "$(dirname "$0")/lib.sh"
figure fig16 "$@"

for reads in 95 50 0; do
    compare 8 8 reads=$reads -- --reads $reads
done

finish
