#!/usr/bin/env bash
# ScaleStore's table against GAM, the part between nodes: YCSB with one worker a node on ConnectX-5,
# all data cached, reads only and half reads (ScaleStore 6.4).
. "$(dirname "$0")/lib.sh"
needs=(--bin ycsb)
figure gam "$@"

for reads in 100 50; do
    for nodes in 4 2 1; do
        for series in ScaleStore GAM SELCC; do
            point reads=$reads nodes=$nodes series=$series -- \
                ycsb run "${simulated[@]}" --nic connectx5 --compute-nodes $nodes --memory-nodes $nodes --threads 1 \
                --protocol ${series,,} --cache-mb 256 -p recordcount=$(pick 200000 50000) -p fieldcount=1 \
                -p fieldlength=128 -p readproportion=$(awk "BEGIN { print $reads / 100 }") \
                -p updateproportion=$(awk "BEGIN { print 1 - $reads / 100 }") -p requestdistribution=uniform \
                --warmup 0.05 --time 0.05
        done
    done
done

finish
