#!/usr/bin/env bash
# Counts instructions and cache misses of each measurement of benches/examples/costs, by callgrind.
# Each measurement runs with two counts of executions, and the difference gives the figures of one.
# Writes a line for each: name, instructions, misses of the first cache (48 KiB), misses of the
# second (2 MiB), separated by tabs. Measurements that wait for another thread are left out.
#
#   scripts/instructions.sh FILE                  all measurements; some minutes
#   scripts/instructions.sh FILE "tree get"       those with this prefix
set -euo pipefail
cd "$(dirname "$0")/.."

if [ $# -lt 1 ]; then
    echo "instructions: name the file to write: scripts/instructions.sh FILE [NAME]" >&2
    exit 2
fi
if ! command -v valgrind >/dev/null; then
    echo "instructions: there is no valgrind here: install it" >&2
    exit 2
fi
file=$1 begins=${2:-}
few=2000 more=32000
cargo build --release --locked -p latchwork-benches --example costs
costs=${CARGO_TARGET_DIR:-target}/release/examples/costs
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Instructions, misses of the first cache, misses of the last: of data, reads and writes. The
# smaller of two runs counts, because a thread that waits a little longer spins for more
# instructions.
count() {
    { count_once "$@" && count_once "$@"; } | sort -n | head -n 1
}

count_once() {
    # Far data exceed the second cache. They are smaller than on the real machine, as valgrind is
    # slow.
    valgrind --tool=callgrind --cache-sim=yes --callgrind-out-file="$folder/out.$2" \
        --I1=32768,8,64 --D1=49152,12,64 --LL=2097152,16,64 --fair-sched=try \
        "$costs" --far-mib 16 --far-keys 150000 --only "$1" --count "$2" >"$folder/log" 2>&1 || {
        cat "$folder/log" >&2
        return 1
    }
    # Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw
    awk '/^(totals|summary):/ { ir = $2; first = $6 + $7; last = $9 + $10 }
        END { print ir, first, last }' "$folder/out.$2"
}

: >"$file"
"$costs" --names | while read -r name; do
    [[ $name == "$begins"* ]] || continue
    read -r ir1 first1 last1 <<<"$(count "$name" "$few")"
    read -r ir2 first2 last2 <<<"$(count "$name" "$more")"
    awk -v name="$name" -v n=$((more - few)) -v ir=$((ir2 - ir1)) -v first=$((first2 - first1)) \
        -v last=$((last2 - last1)) '
            function each(count) { return count > 0 ? count / n : 0 }
            BEGIN { printf "%s\t%.1f\t%.2f\t%.2f\n", name, each(ir), each(first), each(last) }' |
        tee -a "$file"
done
