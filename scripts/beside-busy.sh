#!/usr/bin/env bash
# Compares YCSB A and TPC-C beside busy foreign threads, one for each core, with the same programs
# on the machine as it is, in turns.
#
#   scripts/beside-busy.sh [ROUNDS [SECONDS [CASE..]]]
#
# Each run first warms up for twice SECONDS. Beside busy threads the caches fill more slowly, so
# with cold caches the comparison would be of two warm-ups.
#
# A case is PROGRAM:FABRIC:NODES, as ycsb:shm:2. Without a case: both programs, over shm and tcp,
# with one node and with two. BIN is the directory of the programs (default: target/release, which
# is built first). OTHER=DIR compares with other builds of the same programs, in the same turns.
#
# The fair share of W workers beside B busy threads on C cores is C / (W + B) of a core each.
# Without the busy threads it is min(1, C / W). The last column is the ratio of the two medians,
# divided by the ratio of the two fair shares.
set -euo pipefail
cd "$(dirname "$0")/.."

rounds=${1:-5} seconds=${2:-3}
shift $(($# < 2 ? $# : 2))
cases=("$@")
if [ ${#cases[@]} -eq 0 ]; then
    cases=({ycsb,tpcc}:{shm,tcp}:{1,2})
fi
if [ -z "${BIN:-}" ]; then
    cargo build --release --locked --quiet --bin ycsb --bin tpcc
    BIN=${CARGO_TARGET_DIR:-target}/release
fi
cores=$(nproc)
work=$(mktemp -d)
busy=()
calm() {
    [ ${#busy[@]} -eq 0 ] || kill "${busy[@]}" 2>/dev/null || true
    [ ${#busy[@]} -eq 0 ] || wait "${busy[@]}" 2>/dev/null || true
    busy=()
}
trap 'calm; rm -rf "$work"' EXIT
disturb() {
    local core
    for ((core = 0; core < cores; core++)); do
        timeout 300 sh -c 'while :; do :; done' &
        busy+=($!)
    done
}

# A setting of tpcc. As a variable it has the same name in builds of all ages.
export LATCHWORK_CHECK=false

# Throughput of one run, per second.
once() { # DIRECTORY PROGRAM FABRIC NODES
    local flags=(--fabric "$3" --compute-nodes "$4" --threads 1 --json "$work/r.json")
    case $2 in
    ycsb) flags=(run -w a -p recordcount=200000 -p operationcount=0 --time "$seconds" --warmup $((2 * seconds)) "${flags[@]}") ;;
    tpcc) flags=(--time "$seconds" --warmup $((2 * seconds)) "${flags[@]}") ;;
    esac
    rm -f "$work/r.json"
    "$1/$2" "${flags[@]}" >"$work/out" 2>&1 || { cat "$work/out" >&2; exit 1; }
    awk -F'[:,]' '/^ *"throughput_ops_s"/ {v = $2} END {printf "%.0f\n", v}' "$work/r.json"
}

median() { sort -n | awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)]}'; }

builds=("$BIN" ${OTHER:+"$OTHER"})
printf '%-12s %-24s %12s %12s %8s %10s\n' case build quiet busy ratio "of share"
for case in "${cases[@]}"; do
    IFS=: read -r program fabric nodes <<<"$case"
    for ((round = 0; round < rounds; round++)); do
        for mode in quiet busy; do
            [ $mode = quiet ] || disturb
            for build in "${!builds[@]}"; do
                once "${builds[build]}" "$program" "$fabric" "$nodes" >>"$work/$case.$build.$mode"
            done
            calm
        done
    done
    for build in "${!builds[@]}"; do
        quiet=$(median <"$work/$case.$build.quiet") beside=$(median <"$work/$case.$build.busy")
        awk -v n="$case" -v b="${builds[build]}" -v q="$quiet" -v x="$beside" -v c="$cores" -v w="$nodes" 'BEGIN {
            own = c / w; if (own > 1) own = 1
            share = c / (w + c); if (share > 1) share = 1
            printf "%-12s %-24s %12d %12d %8.2f %10.2f\n", n, b, q, x, x / q, x / q / (share / own) }'
    done
done
