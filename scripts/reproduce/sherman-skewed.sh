#!/usr/bin/env bash
# Sherman's figure 5: from FG+ to Sherman step by step, zipfian 0.99 (Sherman 5.2.1). Locks in nodes
# make one upsert in a hundred take 20 ms where most operations write, so these runs are longer.
. "$(dirname "$0")/lib.sh"
needs=(--bin ycsb)
figure sherman-skewed "$@"

for workload in write-only write-intensive read-intensive; do
    for series in "${sherman_steps[@]}"; do
        case $workload$series in
        write*"FG+" | write*"+Combine") times=(--warmup 0.02 --time "$(pick 0.3 0.05)") ;;
        *) times=(--warmup 0.005 --time "$(pick 0.03 0.005)") ;;
        esac
        point workload=$workload "series=$series" -- $(sherman $workload "$series" skewed "${times[@]}")
    done
done

finish
