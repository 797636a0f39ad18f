#!/usr/bin/env bash
# Figure 19a: TPC-C's five transactions singly and the standard mix, under two-phase locking,
# timestamp ordering and optimistic concurrency control, without a log, on SELCC and on SEL; all
# data shared (SELCC 7.3.1). "Any" is the paper's: each transaction is at home in any warehouse.
# "Home": in one of its node's share of them. Each run ends with the consistency checks, and a run
# that fails them gives no point.
. "$(dirname "$0")/lib.sh"
needs=(--bin tpcc)
figure fig19a "$@"

# Deliveries end when no new order is left, so they are measured for less time. Their bars stand for
# few transactions.
declare -A kinds=([T1]=neworder [T2]=payment [T3]=orderstatus [T4]=delivery [T5]=stocklevel)
for transaction in T1 T2 T3 T4 T5 mix; do
    only=()
    [ $transaction = mix ] || only=(--weight ${kinds[$transaction]})
    times="$(pick "10 10" "4 4")"
    [ $transaction != T4 ] || times="$(pick "1 4" "1 2")"
    for cc in 2pl to occ; do
        # Timestamps are not extended, and each reader writes the read timestamp that it needs, as
        # in the paper.
        plain=()
        [ $cc != to ] || plain=(--set ts-extension=off --set read-lease=0)
        for protocol in SELCC SEL; do
            for home in any home; do
                point transaction=$transaction cc=$cc "series=$protocol, $home" -- \
                    $(orders $times "${only[@]}" --cc $cc "${plain[@]}" --protocol ${protocol,,}) \
                    --set terminals=${home/home/node}
            done
        done
    done
done

finish
