#!/usr/bin/env bash
# A small TPC-C by the number of compute nodes, with the programs' defaults: how many rows of
# WAREHOUSE and DISTRICT share a line, where transactions are at home, and the scheme. Each
# panel varies one of them.
. "$(dirname "$0")/lib.sh"
needs=(--bin tpcc)
figure more-nodes-transactions "$@"

small=(tpcc --fabric sim --nic connectx3 --seed 42 --memory-nodes 8 --gcl-size 2048 --cache-mb 32
    --warehouses 8 --set items=500 --set customers=60 --threads 2 --inflight 1
    --warmup "$(pick 0.01 0.005)" --time "$(pick 0.03 0.005)")
for nodes in 1 2 4 8; do
    run=("${small[@]}" --compute-nodes $nodes)
    for rows in 1 2 5 0; do
        point panel=rows nodes=$nodes "series=rows per line: ${rows/#0/what fits}" -- "${run[@]}" \
            --warehouses 32 --weight payment --set rows-per-line=$rows
    done
    for home in any standard node; do
        point panel=home nodes=$nodes series=terminals=$home -- "${run[@]}" --set terminals=$home
    done
    [ $nodes = 1 ] || point panel=home nodes=$nodes series=partitioned -- "${run[@]}" --partitioned
    for scheme in 2pl to occ; do
        point panel=scheme nodes=$nodes series=$scheme -- "${run[@]}" --cc $scheme
    done
done

finish
