#!/usr/bin/env bash
# Figure 19b: new orders under two-phase locking with a log, on shared memory and on partitions with
# two-phase commit between them, by the share of distributed orders (SELCC 7.3.2). "Fully shared" is
# the paper's: any node works on any warehouse. "At home" each node works in its own share of them,
# as with partitions. Each run ends with the consistency checks.
. "$(dirname "$0")/lib.sh"
needs=(--bin tpcc)
figure fig19b "$@"

# More items than in part a: a remote line then rarely meets another order's lock of a neighbour.
more=(--set items="$(pick 2000 500)" --cache-mb "$(pick 20 6)" --weight neworder --cc 2pl --wal sync)
for sync in 50 1000; do
    times="$(pick "10 10" "4 4")"
    [ $sync = 50 ] || times="$(pick "30 60" "10 20")"
    for ratio in 0 20 40 60 80 100; do
        labels=("sync=$sync" ratio=$ratio)
        run=($(orders $times "${more[@]}" --set sync-us=$sync --distribution-ratio $ratio))
        point "${labels[@]}" "series=fully shared" -- "${run[@]}" --set terminals=any
        point "${labels[@]}" "series=shared, at home" -- "${run[@]}"
        point "${labels[@]}" "series=partitioned, 2PC" -- "${run[@]}" --partitioned
    done
done

finish
