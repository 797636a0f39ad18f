#!/usr/bin/env bash
# Sherman's table 3: ranges of 100 and 1000 records, alone and beside upserts, zipfian 0.99 (Sherman
# 5.3).
. "$(dirname "$0")/lib.sh"
needs=(--bin ycsb)
figure sherman-ranges "$@"

for workload in range-only range-write; do
    for records in 100 1000; do
        for series in "FG+" "Sherman" "Sherman, published check"; do
            point workload=$workload records=$records "series=$series" -- \
                $(sherman $workload "$series" skewed -p minscanlength=$records -p maxscanlength=$records \
                    --warmup 0.005 --time "$(pick 0.02 0.005)")
        done
    done
done

finish
