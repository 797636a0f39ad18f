#!/usr/bin/env bash
# Fills the tables, the plot and the picture of docs/reference/spatial.md. All benchmark figures are
# virtual: the same on every machine. Takes some minutes; JOBS=1 runs side by side.
#
#   scripts/spatial.sh              builds spatial and figure, and runs everything
#   scripts/spatial.sh DIR          takes the built programs in DIR
#
# The picture needs the file of runways in ../shared/data. Without it the old picture stays.
set -euo pipefail
export LC_ALL=C
cd "$(dirname "$0")/.."

programs=${1:-}
if [ -z "$programs" ]; then
    cargo build --release --locked --quiet --bin spatial --bin figure
    programs=${CARGO_TARGET_DIR:-target}/release
fi
page=docs/reference/spatial.md pictures=docs/evidence/spatial
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/points" "$pictures"

# The benchmark with the flags that all points share.
common=(bench --fabric sim --threads 4 --inflight 2 --entries 100000 --warmup 4ms --time 10ms)

# One run: FILE FLAG ...
one() {
    "$programs/spatial" "${common[@]}" "${@:2}" --json "$work/points/$1.json" >/dev/null 2>"$work/$1.log" || {
        echo "spatial: ${*:2} failed:" >&2
        tail -n 3 "$work/$1.log" >&2
        return 1
    }
    echo "spatial: ${*:2}" >&2
}

# A field of a result document: FILE NAME. The last one counts: the load has a throughput, too.
field() { sed -nE "s/^ *\"$2\": ([-0-9.e]+),?\$/\1/p" "$work/points/$1.json" | tail -n 1; }

running=0
start() {
    one "$@" &
    running=$((running + 1))
    if [ "$running" -ge "${JOBS:-1}" ]; then
        wait -n
        running=$((running - 1))
    fi
}

for workload in query mixed move; do
    for distribution in uniform clustered hotspots; do
        for nodes in 1 2 4 8; do
            name=$workload-$distribution-$nodes
            flags=(--compute-nodes "$nodes" -w "$workload" --distribution "$distribution")
            start "$name" "${flags[@]}"
            printf 'points/%s.json\tspatial %s\tworkload=%s\tseries=%s\tnodes=%s\n' "$name" \
                "${common[*]} ${flags[*]}" "$workload" "$distribution" "$nodes" >>"$work/points.tsv"
        done
    done
done
selectivities=(0.0001 0.001 0.01 0.1 1)
for percent in "${selectivities[@]}"; do
    start "window-$percent" --compute-nodes 4 -w window=1 --selectivity "$percent"
done
wait

mkdir "$work/drawn"
"$programs/figure" draw --spec scripts/spatial.toml --points "$work/points.tsv" --out "$work/drawn" >/dev/null
cp "$work/drawn/plot.svg" "$pictures/plot.svg"

# Operations per second in millions: FILE.
rate() { field "$1" throughput_ops_s | awk '{ printf "%.2f", $1 / 1e6 }'; }
{
    echo "| workload | distribution | 1 node | 2 nodes | 4 nodes | 8 nodes | messages per operation, 8 nodes |"
    echo "| --- | --- | --- | --- | --- | --- | --- |"
    for workload in query mixed move; do
        for distribution in uniform clustered hotspots; do
            point=$workload-$distribution
            messages=$(field "$point-8" messages_per_op | awk '{ printf "%.2f", $1 }')
            echo "| $workload | $distribution | $(rate "$point-1") | $(rate "$point-2") | $(rate "$point-4") | $(rate "$point-8") | $messages |"
        done
    done
} >"$work/scaling.md"
{
    echo "| part of the square | entries found | M windows/s | mean latency, us |"
    echo "| --- | --- | --- | --- |"
    for percent in "${selectivities[@]}"; do
        found=$(field "window-$percent" found_per_window | awk '{ printf "%.1f", $1 }')
        mean=$(field "window-$percent" mean | awk '{ printf "%.1f", $1 }')
        echo "| $percent % | $found | $(rate "window-$percent") | $mean |"
    done
} >"$work/selectivity.md"
"$programs/figure" page "$page" "scaling=$work/scaling.md" "selectivity=$work/selectivity.md"

runways=../shared/data/runways.csv
if [ -e "$runways" ]; then
    "$programs/spatial" load "$runways" --great-circle --gcl-size 2048 --compute-nodes 1 --threads 1 \
        --fabric sim --svg "$pictures/runways.svg" >/dev/null 2>&1
else
    echo "spatial: there is no $runways: the picture stays as it is" >&2
fi
