#!/usr/bin/env bash
# Compares the RDMA fabric with perftest's own programs, both between the same two devices of one
# virtual machine: medians, and their ratios. The two take turns, so a busy host slows both down.
# With --count no host does: the machine's time is its instructions, 2 ns each, the kernel's
# included. Then one round is enough, and the rate of messages has no meaning.
#   scripts/rdma-perf.sh [--count] [ROUNDS] [ITERATIONS]
set -euo pipefail
cd "$(dirname "$0")/.."
count=()
if [ "${1:-}" = --count ]; then
    count=(--count)
    shift
fi
rounds=${1:-5}
iterations=${2:-2000}
command -v ib_read_lat >/dev/null || { echo "rdma-perf: install the Debian package perftest" >&2; exit 2; }
cargo build --quiet --release -p latchwork-verbs-ibv --example perf
perf=$(realpath "${CARGO_TARGET_DIR:-target}/release/examples/perf")
# shellcheck disable=SC2016
scripts/rxe-vm.sh "${count[@]}" --hosts 2 --limit 600 --share "$(dirname "$perf")" bash -c '
    perf=$1 rounds=$2 iterations=$3
    # The value in a column of the last line that a client prints.
    pair() {
        local column=$1
        shift
        timeout 100 "$@" -d rxe1 -x 1 >/dev/null 2>&1 &
        local server=$!
        local tries
        for tries in 1 2 3 4 5; do
            sleep 0.5
            timeout 100 "$@" -d rxe2 -x 1 10.77.0.1 2>/dev/null >/tmp/client && break
        done
        wait "$server" || true
        grep -E "^ *[0-9]+ +[0-9]+ " /tmp/client | tail -n 1 | awk -v column="$column" "{ print \$column }"
    }
    for ((round = 1; round <= rounds; round++)); do
        "$perf" "$iterations" | sed "s/^/ours /"
        for bytes in 64 2048; do
            echo "perftest read_lat $bytes $(pair 5 ib_read_lat -s "$bytes" -n "$iterations") us"
        done
        echo "perftest atomic_lat 8 $(pair 5 ib_atomic_lat -A FETCH_AND_ADD -n "$iterations") us"
        echo "perftest send_rate 120 $(pair 5 ib_send_bw -s 120 -t 64 -n $((5 * iterations)) | awk "{ print \$1 * 1000000 }") /s"
    done' rdma-perf "$perf" "$rounds" "$iterations" | tee >(cat >&2) | awk '
    { key = $2 " " $3; unit[key] = $5; if (!(key in seen)) { order[++keys] = key; seen[key] = 1 }
      value[$1, key, ++count[$1, key]] = $4 }
    function median(who, key,    n, i, j, v, t) {
        n = count[who, key]
        for (i = 1; i <= n; i++) v[i] = value[who, key, i] + 0
        for (i = 2; i <= n; i++) for (j = i; j > 1 && v[j] < v[j - 1]; j--) { t = v[j]; v[j] = v[j - 1]; v[j - 1] = t }
        return v[int((n + 1) / 2)]
    }
    END {
        printf "\n%-16s %12s %12s %6s\n", "medians", "ours", "perftest", "ratio"
        for (i = 1; i <= keys; i++) {
            ours = median("ours", order[i]); theirs = median("perftest", order[i])
            printf "%-16s %12.2f %12.2f %6.2f %s\n", order[i], ours, theirs, theirs ? ours / theirs : 0, unit[order[i]]
        }
    }'
