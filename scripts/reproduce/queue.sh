#!/usr/bin/env bash
# TPC-C's table NEW-ORDER is a queue: new orders append, deliveries remove the oldest. The rate of
# both as the run goes on, in six windows of ten seconds. Real time: use --jobs 1 on a free machine.
. "$(dirname "$0")/lib.sh"
needs=(--bin tpcc)
figure queue "$@"

window=$(pick 10 1)
for number in 0 1 2 3 4 5; do
    begin=$((number * window))
    point begin=$begin window=$number "series=SELCC, one worker" -- tpcc -w 1 --set items=1000 \
        --set customers=30 --compute-nodes 1 --threads 1 --gcl-size 2048 --memory-mb 5000 \
        --cache-mb 3000 --weight 91,0,0,9,0 --warmup "$begin" --time "$window"
done

finish
