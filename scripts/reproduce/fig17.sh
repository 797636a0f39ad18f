#!/usr/bin/env bash
# Figure 17, without DEX: YCSB on the B-link tree, 8 compute and 8 memory nodes of 8
# workers, a cache of a fifth of the tree (8 GB of 40), 0 to 100 % reads, uniform and zipfian 0.99
# (SELCC 7.2).
#
# The paper's SEL has no local concurrency control: each thread locks and reads for itself, and
# retries at once. SEL here shares a grant among the workers of a node, and backs off. "SEL, 56 x 1"
# has 56 nodes of one worker, which share nothing and do not back off; compare it with SELCC on 8
# nodes of 7.
#
# In the authors' benchmark the rank of a record in the zipfian is its key, so that hot records are
# neighbours ("key order"). All other series hash the numbers of records, as YCSB does.
#
# Sherman has keys of 8 bytes, as in its paper, nodes of 1 KiB, and locks in host memory, because
# ConnectX-3 has no memory on chip.
. "$(dirname "$0")/lib.sh"
figure fig17 "$@"

ordered=(-p insertorder=ordered -p zeropadding=12)
declare -A requests=([uniform]=uniform [skewed]=zipfian-records)
for distribution in uniform skewed; do
    for reads in 0 50 95 100; do
        for series in "SELCC" "SEL" "SELCC, adaptive release" "SELCC, 8 x 7" "SEL, 56 x 1" "GAM" "ScaleStore" "Sherman" \
            "SELCC, key order" "SEL, key order"; do
            flags=(--compute-nodes 8 --threads 8)
            case $series in
            SEL) flags+=(--protocol sel) ;;
            "SEL, 56 x 1") flags=(--compute-nodes 56 --threads 1 --protocol sel --memory-mb 1024 --set stripes=8
                    --set pause=1ns --set pause-max=1ns) ;;
            GAM | ScaleStore) flags+=(--protocol ${series,,}) ;;
            Sherman) flags+=(--index sherman -p keyencoding=binary) ;;
            "SELCC, key order") flags+=("${ordered[@]}") ;;
            "SEL, key order") flags+=(--protocol sel "${ordered[@]}") ;;
            *7) flags=(--compute-nodes 8 --threads 7) ;;
            *adaptive*) flags+=(--set release=adaptive) ;;
            esac
            point distribution=$distribution reads=$reads "series=$series" -- \
                $(tree $reads ${requests[$distribution]} "${flags[@]}")
        done
    done
done

finish
