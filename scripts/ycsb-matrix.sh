#!/usr/bin/env bash
# Runs YCSB A to F under both protocols with several numbers of compute nodes, for the table of
# docs/evidence/results.md. The table has the median throughput of REPEATS runs, in thousands of
# operations per second. A run with a failed check ends the script. Further arguments go to every
# run.
#
#   scripts/ycsb-matrix.sh [FLAG ...]          REPEATS=3 NODES="1 2 4" WORKLOADS="a b c d e f"
set -euo pipefail
cd "$(dirname "$0")/.."

repeats=${REPEATS:-3}
read -ra nodes <<<"${NODES:-1 2 4}"
read -ra workloads <<<"${WORKLOADS:-a b c d e f}"

cargo build --release --quiet --bin ycsb
program=${CARGO_TARGET_DIR:-target}/release/ycsb

throughput() { # workload, protocol, compute nodes, further flags
    local output
    output=$("$program" run -w "$1" --protocol "$2" --compute-nodes "$3" "${@:4}" 2>/dev/null) || {
        echo "ycsb-matrix: workload $1, $2, $3 nodes: the run failed" >&2
        return 1
    }
    awk -F', ' '/^\[OVERALL\], Throughput/ { printf "%.1f\n", $3 / 1000 }' <<<"$output"
}

# The repetitions are the outer loop, so that a drift affects all cells alike.
table=$(mktemp)
trap 'rm -f "$table"' EXIT
for ((round = 0; round < repeats; round++)); do
    for workload in "${workloads[@]}"; do
        for protocol in selcc sel; do
            for count in "${nodes[@]}"; do
                result=$(throughput "$workload" "$protocol" "$count" "$@")
                echo "$workload $protocol $count $result" >>"$table"
            done
        done
    done
done

printf '| workload | protocol |'
printf ' %s nodes |' "${nodes[@]}"
printf '\n| --- | --- |'
printf ' --- |%.0s' "${nodes[@]}"
echo
for workload in "${workloads[@]}"; do
    for protocol in selcc sel; do
        printf '| %s | %s |' "${workload^^}" "$protocol"
        for count in "${nodes[@]}"; do
            awk -v w="$workload" -v p="$protocol" -v n="$count" \
                '$1 == w && $2 == p && $3 == n { print $4 }' "$table" | sort -n |
                awk '{ v[NR] = $1 } END { printf " %s (%s to %s) |", v[int((NR + 1) / 2)], v[1], v[NR] }'
        done
        echo
    done
done
