#!/usr/bin/env bash
# Measures group commit through the whole engine: acknowledged payments per second with 64
# transactions in flight. Just before and just after, one writer's fdatasyncs per second are
# measured on the same disk. Prints the medians of the rounds.
#   scripts/group-commit.sh [DIRECTORY] [ROUNDS] [FLAGS OF tpcc]
# The directory (default: target/group-commit) must not exist. It must be on the disk to measure.
set -euo pipefail
cd "$(dirname "$0")/.."
directory=${1:-target/group-commit}
rounds=${2:-5}
shift $(($# < 2 ? $# : 2))
[ ! -e "$directory" ] || { echo "group-commit: $directory exists: name a directory that does not" >&2; exit 2; }
target=${CARGO_TARGET_DIR:-target}
cargo build --quiet --release -p latchwork-tpcc -p latchwork-wal --bin tpcc --example syncs
mkdir -p "$directory"
trap 'rm -rf "$directory"' EXIT

for round in $(seq "$rounds"); do
    before=$("$target/release/examples/syncs" "$directory/before")
    # Each of the 64 has its own warehouses: contention is not the point.
    "$target/release/tpcc" --weight payment --wal sync --wal-dir "$directory/log" --compute-nodes 1 --threads 2 --inflight 32 \
        --distribution-ratio 0 --warehouses 128 --set items=20 --set customers=60 --warmup 0.5 --time 2 --set interval=0 \
        --set check=off "$@" >/dev/null 2>"$directory/run.log" ||
        { cat "$directory/run.log" >&2; exit 1; }
    after=$("$target/release/examples/syncs" "$directory/after")
    rm -rf "$directory/log"
    awk -v round="$round" -v syncs="$(((before + after) / 2))" '
        $1 == "run" && $3 == "transactions" { commits = $2 / $5 }
        $1 == "log" { each = $10; takes = $(NF - 4) }
        END { printf "%d %d %.0f %.1f %s %s\n", round, syncs, commits, commits / syncs, each, takes }' "$directory/run.log"
done | tee "$directory/rounds" | awk '
    BEGIN { print "round  fdatasyncs/s  commits/s  ratio  commits/sync  sync us" }
    { printf "%5s  %12s  %9s  %5s  %12s  %7s\n", $1, $2, $3, $4, $5, $6 }'
sort -n -k4 "$directory/rounds" | awk '{ ratio[NR] = $4 } END { print "median ratio:", ratio[int((NR + 1) / 2)] }'
