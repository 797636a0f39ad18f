#!/usr/bin/env bash
# ScaleStore's figure 6: five nodes of one worker on ConnectX-5, anticipatory chaining beside a
# queue at the home and refused requests, by the number of lines that all nodes access uniformly
# (ScaleStore 3.4). The paper has one page, and many. All lines fit into each cache, so all messages
# are about conflicts.
. "$(dirname "$0")/lib.sh"
needs=(--bin microbench)
figure chaining "$@"

for reads in 50 0; do
    for lines in $(pick "1 2 4 8 16 64 1000" "1 4 1000"); do
        for each in chaining:on queue:fifo polling:polling; do
            point reads=$reads lines=$lines series=${each%:*} -- \
                microbench "${simulated[@]}" --nic connectx5 --compute-nodes 5 --memory-nodes 5 --threads 1 \
                --lines $lines --cache-mb 64 --reads $reads --sharing 100 --operations $(pick 50000 10000) \
                --warmup 5000 --protocol scalestore --set chaining=${each#*:}
        done
    done
done

finish
