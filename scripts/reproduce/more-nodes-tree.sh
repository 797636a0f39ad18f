#!/usr/bin/env bash
# YCSB A by the number of compute nodes, with the programs' defaults: how many memory nodes there
# are, how many records share a line, and whether neighbours in key order are equally popular. Each
# panel varies one of them.
. "$(dirname "$0")/lib.sh"
needs=(--bin ycsb)
figure more-nodes-tree "$@"

tree=(ycsb --fabric sim --nic connectx3 --seed 42 -p recordcount=100000
    --warmup "$(pick 0.02 0.01)" --time "$(pick 0.02 0.005)")
for nodes in 1 2 4 8; do
    for memory in 1 2 4 8; do
        point panel=memory nodes=$nodes "series=memory nodes: $memory" -- "${tree[@]}" \
            --compute-nodes $nodes --memory-nodes $memory
    done
    small=("${tree[@]}" --compute-nodes $nodes --memory-nodes 8 -p fieldcount=1)
    for line in 512 2048 8192; do
        point panel=line nodes=$nodes "series=lines of $line bytes" -- "${small[@]}" --gcl-size $line
    done
    for order in hashed ordered; do
        point panel=order nodes=$nodes "series=keys $order" -- "${small[@]}" --gcl-size 2048 \
            -p requestdistribution=zipfian-records -p insertorder=$order
    done
done

finish
