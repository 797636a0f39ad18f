#!/usr/bin/env bash
# Sherman's figure 6: from FG+ to Sherman step by step, uniform accesses (Sherman 5.2.2).
. "$(dirname "$0")/lib.sh"
needs=(--bin ycsb)
figure sherman-uniform "$@"

for workload in write-only write-intensive read-intensive; do
    for series in "${sherman_steps[@]}"; do
        point workload=$workload "series=$series" -- \
            $(sherman $workload "$series" uniform --warmup 0.005 --time "$(pick 0.02 0.005)")
    done
done

finish
