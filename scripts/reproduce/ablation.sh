#!/usr/bin/env bash
# Every switch of the protocol's settings, and every value that is worth a try, alone against the defaults, in cells of
# all kinds: 8 compute and 8 memory nodes of 8 workers. Rows come from the table of the settings itself.
. "$(dirname "$0")/lib.sh"
figure ablation "$@"

# NAME OF THE ROW, then flags.
row() {
    local cell accesses
    for cell in "${!cells[@]}"; do
        read -ra accesses <<<"${cells[$cell]}"
        point "cell=${names[$cell]}" "switch=$1" -- \
            microbench "${simulated[@]}" --lines $lines --scale $scale --cache-share $cache_8gb \
            --compute-nodes 8 --memory-nodes 8 --threads 8 --operations "$(operations 8)" "${accesses[@]}" "${@:2}"
    done
}

if [ "$quick" = 0 ]; then
    names=("uniform 95" "uniform 50" "uniform 0" "local 95" "local 50" "local 0" "zipf 95" "zipf 50" "zipf 0" "theta 10, 0")
    cells=("--reads 95" "--reads 50" "--reads 0"
        "--reads 95 --locality 50" "--reads 50 --locality 50" "--reads 0 --locality 50"
        "--reads 95 --theta 0.99" "--reads 50 --theta 0.99" "--reads 0 --theta 0.99" "--reads 0 --theta 10")
else
    names=("uniform 50" "zipf 50")
    cells=("--reads 50" "--reads 50 --theta 0.99")
fi

row "defaults, M op/s"
row "SEL" --protocol sel
while IFS=$'\t' read -r setting value; do
    flags=()
    [ "$setting $value" != "release adaptive" ] || flags=($(learned 8))
    row "$setting $value" "--$setting" "$value" "${flags[@]}"
done < <("$programs/figure" switches)
# What is no setting of the protocol, and what goes together.
row "inflight 4" --inflight 4
row "inflight 8" --inflight 8
row "adaptive, linger 0" --release adaptive --linger 0 $(learned 8)
row "adaptive, takeover" --release adaptive --takeover on $(learned 8)
row "takeover, 4 in flight" --takeover on --inflight 4
row "adaptive, takeover, 4 in flight" --release adaptive --takeover on --inflight 4 $(learned 8)

finish
