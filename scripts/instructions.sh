#!/usr/bin/env bash
# Counts instructions by callgrind: of each measurement of benches/examples/costs, and of a TPC-C
# transaction. Each row runs with two counts of executions, and the difference gives the figures of
# one. Rows that wait for another thread are left out.
#
#   scripts/instructions.sh FILE                 all rows; half an hour
#   scripts/instructions.sh FILE "tree get"      those with this prefix
#   scripts/instructions.sh --check [PREFIX]     the rows of benches/instructions.txt; minutes
#   scripts/instructions.sh --keep               counts those, and writes the file anew
#
# FILE gets a line for each row: name, instructions, misses of the first cache (48 KiB), misses of
# the second (2 MiB), separated by tabs. --check fails when a row grew by more than 1 %. A commit
# that needs the growth changes the number of the row. A row that shrank by more is named, so that
# its number follows. Seeds are fixed, and one node runs on one thread, so the counts of a tree of
# files are the same on any day.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ $# -lt 1 ]; then
    echo "instructions: name the file to write, --check or --keep: scripts/instructions.sh FILE [NAME]" >&2
    exit 2
fi
if ! command -v valgrind >/dev/null; then
    echo "instructions: there is no valgrind here: install it" >&2
    exit 2
fi
file=$1 begins=${2:-}
kept=benches/instructions.txt transaction="TPC-C transaction"
cargo build --release --locked -p latchwork-benches --example costs
cargo build --release --locked -p latchwork-tpcc --bin tpcc
programs=${CARGO_TARGET_DIR:-target}/release
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
caches=(--cache-sim=yes --I1=32768,8,64 --D1=49152,12,64 --LL=2097152,16,64)

# The smaller of two runs: instructions, misses of the first cache, misses of the last, of data,
# reads and writes.
count() {
    { count_once "$@" && count_once "$@"; } | sort -n | head -n 1
}

count_once() {
    local command=() costs=("$programs/examples/costs" --far-mib 16 --far-keys 150000 --only "$1" --count "$2")
    # Far data exceed the second cache. They are smaller than on the real machine, as valgrind is
    # slow. Where the time of a run shows, in epochs or in tables of latencies, only what happens
    # inside an operation is counted.
    case $1 in
        "$transaction") command=(--toggle-collect='tpcc::transactions::attempt::*' "$programs/tpcc"
            -w 1 --compute-nodes 1 --threads 1 --seed 7 --set items=1000 --set customers=100
            --operations "$2") ;;
        cached* | lock* | tree*) command=(--toggle-collect='costs::measure::poll*' "${costs[@]}") ;;
        *) command=("${costs[@]}") ;;
    esac
    valgrind --tool=callgrind "${caches[@]}" --callgrind-out-file="$folder/out" --fair-sched=try \
        "${command[@]}" >"$folder/log" 2>&1 || {
        cat "$folder/log" >&2
        return 1
    }
    # Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw
    awk '/^(totals|summary):/ { ir = $2; first = $6 + $7; last = $9 + $10 }
        END { if (!ir) exit 1; print ir, first, last }' "$folder/out" ||
        { echo "instructions: callgrind saw nothing of: $1" >&2; return 1; }
}

# The line of a row.
row() {
    local few=2000 more=32000 ir1 first1 last1 ir2 first2 last2
    [ "$1" != "$transaction" ] || more=12000
    read -r ir1 first1 last1 <<<"$(count "$1" "$few")"
    read -r ir2 first2 last2 <<<"$(count "$1" "$more")"
    awk -v name="$1" -v n=$((more - few)) -v ir=$((ir2 - ir1)) -v first=$((first2 - first1)) \
        -v last=$((last2 - last1)) '
            function each(count) { return count > 0 ? count / n : 0 }
            BEGIN { printf "%s\t%.1f\t%.2f\t%.2f\n", name, each(ir), each(first), each(last) }'
}

# Another compiler, or another memcpy, has other counts.
tools="$(rustc --version | cut -d' ' -f1,2), $(valgrind --version), glibc $(getconf GNU_LIBC_VERSION | cut -d' ' -f2)"

case $file in
    --check | --keep) ;;
    *)
        : >"$file"
        { "$programs/examples/costs" --names && echo "$transaction"; } | while read -r name; do
            [[ $name != "$begins"* ]] || row "$name" | tee -a "$file"
        done
        exit
        ;;
esac

caches=()
if [ "$file" = --check ] && ! grep -qxF "# Counted with $tools." "$kept"; then
    echo "skipped: the rows were not counted with $tools: see $kept, and scripts/instructions.sh --keep"
    exit
fi
grep -v '^#' "$kept" | while IFS=$'\t' read -r name was; do
    [[ $file == --keep || $name == "$begins"* ]] || continue
    row "$name" | awk -F '\t' -v OFS='\t' -v was="$was" '{ print $1, was, $2 }'
done >"$folder/rows"
if [ "$file" = --keep ]; then
    sed -i "s/^# Counted with .*/# Counted with $tools./" "$kept"
    { grep '^#' "$kept"; cut -f 1,3 "$folder/rows"; } >"$folder/kept"
    cp "$folder/kept" "$kept"
fi
awk -F '\t' '
    {
        verdict = $3 > $2 * 1.01 ? "grew" : $3 < $2 * 0.99 ? "shrank" : ""
        grown += verdict == "grew"
        printf "%-40s %10.1f %10.1f %+6.1f %% %s\n", $1, $2, $3, ($3 / $2 - 1) * 100, verdict
    }
    END { exit grown > 0 }' "$folder/rows" || [ "$file" = --keep ] || {
    echo "instructions: a row grew by more than 1 %: mend it, or change its number in $kept and say why" >&2
    exit 1
}
