# The common parts of the figures' scripts, which source this file.
#
#   figure NAME "$@"                             reads the options, builds the programs
#   point LABEL=VALUE ... -- PROGRAM FLAG ...   requests a run, which NAME.toml names by its labels
#   micro, tree, orders, sherman                 the programs with the flags that all figures share
#   compare NODES WORKERS LABEL=VALUE ... -- FLAG ...    requests SELCC, SEL and adaptive release
#   directories NODES WORKERS LABEL=VALUE ... -- FLAG ...    requests GAM, GAM with TSO, ScaleStore
#   finish                                       makes the missing runs, in parallel, and draws
#
# A run's result is kept under the hash of its command and of its sources. A changed flag or changed
# code gives a new run; all other results are kept.
# shellcheck shell=bash disable=SC2034,SC2046,SC2086
set -euo pipefail

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
scripts=$repository/scripts/reproduce

usage() {
    cat <<TEXT
usage: ${0##*/} [--quick] [--again] [--keep] [--plan | --draw] [--out DIR] [--jobs N]
  --quick     fewer and shorter runs: minutes instead of an hour, and verdicts say so
  --again     run again what is there already
  --keep      take what is there also when it was made of other sources
  --plan      only list the runs, in DIR/FIGURE/points.tsv
  --draw      only draw, from runs that are there
  --out DIR   where everything goes [default: target/reproduce, and target/reproduce/quick with --quick]
  --jobs N    runs side by side [default: one for each core]
TEXT
}

fail() {
    echo "${0##*/}: $*" >&2
    exit 2
}

# ---- sizes ---------------------------------------------------------------------------------------

# One factor for all data: 24 million lines of 2 KiB are 24 thousand, 2 billion records are 2
# million. What is cached is the same part of them as in the paper, and the setting scale keeps
# zipfian accesses as they are at full size.
sizes() {
    scale=$(pick 1000 4000)
    lines=$((24000000 / scale))
    records=$((2000000000 / scale))
    cache_8gb=0.16667
    cache_16gb=0.33333
}

# The first value for a full run, the second for a quick one.
pick() {
    if [ "$quick" = 1 ]; then echo "$2"; else echo "$1"; fi
}

# Virtual time of ConnectX-3; the same flags give the same figures on every machine. The paper's
# mechanisms and no more, whatever the defaults are; a later flag wins.
simulated=(--fabric sim --nic connectx3 --seed 42 --set release=lazy --set takeover=off --set survive=off --inflight 1)

# Operations to measure with this number of compute nodes.
operations() {
    echo $(($(pick 40000 10000) + $1 * $(pick 20000 5000)))
}

# The warm-up for early release. The prediction for a line follows from its history, so each of the
# nodes has to meet most lines several times. The hit ratio alone is steady long before.
learned() {
    echo --warmup $(($1 * lines * $(pick 6 4)))
}

# The micro-benchmark on equal numbers of compute and memory nodes: NODES WORKERS FLAG ... Flags
# replace the defaults: a cache of 8 GB, and the number of operations above unless a time is given.
micro() {
    local length=()
    [[ " $* " == *" --time "* ]] || length=(--operations "$(operations "$1")")
    echo microbench "${simulated[@]}" --lines "$lines" --set scale="$scale" --set cache-share=$cache_8gb \
        --compute-nodes "$1" --memory-nodes "$1" --threads "$2" "${length[@]}" "${@:3}"
}

# YCSB on the B-link tree and 8 memory nodes, with small records and a cache of a fifth of the tree
# (8 GB of 40). With 2 million records the tree has 93 MiB. READS, in percent, DISTRIBUTION FLAG ...
tree() {
    echo ycsb run "${simulated[@]}" --memory-nodes 8 --gcl-size 2048 \
        --cache-mb "$(awk "BEGIN { print 20 * $records / 2000000 }")" \
        -p "recordcount=$records" -p fieldcount=1 -p fieldlength=8 \
        -p "readproportion=$(awk "BEGIN { print $1 / 100 }")" \
        -p "updateproportion=$(awk "BEGIN { print 1 - $1 / 100 }")" -p "requestdistribution=$2" \
        --warmup "$(pick 0.03 0.01)" --time "$(pick 0.02 0.005)" "${@:3}"
}

# Sherman's testbed: 8 servers, each of which is a compute node of 22 workers and a memory node,
# with ConnectX-5 NICs (Sherman 5.1). A billion records are a million. WORKLOAD SERIES DISTRIBUTION
# FLAG ...
sherman() {
    local steps=() requests=(requestdistribution=uniform)
    case $2 in
    "FG+") steps=(--index fg-plus) ;;
    "+Combine") steps=(--index fg-plus --combine on) ;;
    "+On-Chip") steps=(--index fg-plus --combine on --lock-memory chip) ;;
    "+Hierarchical") steps=(--index fg-plus --combine on --lock-memory chip --local-locks on) ;;
    "Sherman") steps=(--index sherman) ;;
    "Sherman, published check") steps=(--index sherman --leaf-check published) ;;
    esac
    [ "$3" = uniform ] || requests=(requestdistribution=zipfian-records zipfianscale=$scale)
    echo ycsb run --fabric sim --nic connectx5-stalling --set colocate=on --set chip-memory=256K --seed 42 --inflight 1 \
        --compute-nodes 8 --memory-nodes 8 --threads 22 --memory-mb 128 \
        -w "$1" -p "recordcount=$((1000000000 / scale))" "${requests[@]/#/-p }" "${steps[@]}" "${@:4}"
}

sherman_steps=("FG+" "+Combine" "+On-Chip" "+Hierarchical" "Sherman" "Sherman, published check")

# TPC-C on 8 compute and 8 memory nodes, a warehouse for each worker, with all its checks: WARMUP
# and TIME in virtual milliseconds, FLAG ... The cache of a node is an eighth of the database (8 GB
# of 64 in the paper's).
orders() {
    echo tpcc "${simulated[@]}" --compute-nodes 8 --memory-nodes 8 --gcl-size 2048 --threads "$(pick 4 2)" \
        --warehouses "$(pick 32 16)" --set items="$(pick 500 200)" --set customers="$(pick 60 30)" --cache-mb "$(pick 10 3)" \
        --warmup "$(awk "BEGIN { print $1 / 1000 }")" --time "$(awk "BEGIN { print $2 / 1000 }")" "${@:3}"
}

# All figures, in the book's order.
figures=(fig12 fig13 fig13-table fig14 fig15a fig15b fig16 fig17 fig18 fig19a fig19b beyond ablation
    home-cost chaining gam sherman-skewed sherman-uniform sherman-ranges more-nodes-tree
    more-nodes-transactions)

# ---- a figure ------------------------------------------------------------------------------------

figure() {
    name=$1
    shift
    quick=0 again=0 keep=0 plan=0 draw=0 out= jobs=$(nproc)
    while [ $# -gt 0 ]; do
        case $1 in
        --quick) quick=1 ;;
        --again) again=1 ;;
        --keep) keep=1 ;;
        --plan) plan=1 ;;
        --draw) draw=1 ;;
        --out | --jobs)
            [ $# -gt 1 ] || fail "$1 needs a value"
            if [ "$1" = --out ]; then out=$2; else jobs=$2; fi
            shift
            ;;
        --help | -h)
            usage
            exit 0
            ;;
        *) fail "there is no option $1; --help has those that there are" ;;
        esac
        shift
    done
    [[ $jobs =~ ^[1-9][0-9]*$ ]] || fail "--jobs $jobs: use a number from 1"
    [ -n "$out" ] || out=$repository/target/reproduce$(pick "" /quick)
    mkdir -p "$out" || fail "--out $out: it cannot be made"
    out=$(cd "$out" && pwd)
    sizes
    programs=${CARGO_TARGET_DIR:-$repository/target}/release
    # all.sh has built them already.
    [ -n "${REPRODUCE_SOURCES:-}" ] || build
    [ "$name" != all ] || return 0
    mkdir -p "$out/points" "$out/$name"
    points=$out/$name/points.tsv
    : >"$points"
}

# A script that runs only one of the two may set: needs=(--bin microbench).
build() {
    [ -n "${needs:-}" ] || needs=(--bin microbench --bin ycsb --bin tpcc)
    (cd "$repository" && cargo build --release --quiet --locked --bin figure "${needs[@]}") ||
        fail "the programs cannot be built"
    # The inputs of results, besides flags.
    REPRODUCE_SOURCES=$(cd "$repository" && find crates apps/microbench apps/ycsb apps/tpcc Cargo.lock \
        \( -path '*/tests/*' -o -path '*/examples/*' \) -prune -o \
        -type f \( -name '*.rs' -o -name '*.toml' -o -name Cargo.lock \) -print |
        LC_ALL=C sort | tr '\n' '\0' | xargs -0 sha256sum | sha256sum | cut -c 1-8)
    export REPRODUCE_SOURCES
}

point() {
    local labels=() hash file
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        labels+=("$1")
        shift
    done
    [ $# -gt 1 ] || fail "point ${labels[*]}: there is no command behind --"
    shift
    hash=$(printf '%s ' "$@" | sha256sum | cut -c 1-16)
    file=$hash-$REPRODUCE_SOURCES.json
    if [ "$keep" = 1 ] && [ ! -e "$out/points/$file" ]; then
        local other
        for other in "$out/points/$hash"-*.json; do
            [ ! -e "$other" ] || file=${other##*/}
        done
    fi
    printf '../points/%s\t%s' "$file" "$*" >>"$points"
    printf '\t%s' "${labels[@]}" >>"$points"
    echo >>"$points"
}

# The micro-benchmark under SELCC, SEL and SELCC with adaptive release: NODES WORKERS LABEL=VALUE
# ... -- FLAG ...
compare() {
    series "SELCC" "" "$@"
    series "SEL" "--protocol sel" "$@"
    series "SELCC, adaptive release" "--set release=adaptive $(learned $1)" "$@"
}

# The same under the protocols with directories. A memory node has one core for its agent, as in the
# paper. GAM is sequentially consistent, unless writes are buffered.
directories() {
    series "GAM" "--protocol gam" "$@"
    series "GAM, TSO" "--protocol gam --consistency tso --writes blind" "$@"
    series "ScaleStore" "--protocol scalestore" "$@"
}

# One of them: NAME FLAGS NODES WORKERS LABEL=VALUE ... -- FLAG ...
series() {
    local name=$1 own=$2 nodes=$3 workers=$4 labels=()
    shift 4
    while [ "$1" != -- ]; do
        labels+=("$1")
        shift
    done
    shift
    point "${labels[@]}" "series=$name" -- $(micro $nodes $workers "$@" $own)
}

finish() {
    [ "$plan" = 0 ] || exit 0
    [ "$draw" = 1 ] || run "$points"
    "$programs/figure" draw --spec "$(dirname "$0")/$name.toml" --points "$points" --out "$out/$name" \
        $([ "$quick" = 0 ] || echo --quick)
    echo "${name}: $out/$name/ has points.csv and plot.svg"
}

# ---- runs ----------------------------------------------------------------------------------------

children=()

stop() {
    trap - EXIT INT TERM
    local child
    for child in "${children[@]}"; do
        kill "$child" 2>/dev/null || true
    done
    wait
}

# Makes the missing runs of these files' points, up to --jobs at a time. A failed run is one line on
# standard error, and the other runs go on.
run() {
    local files=() commands=() names=() file command labels index failed=0
    declare -A seen=()
    while IFS=$'\t' read -r file command labels; do
        file=$out/points/${file##*/}
        [ -z "${seen[$file]:-}" ] || continue
        seen[$file]=1
        [ "$again" = 1 ] || [ ! -e "$file" ] || continue
        files+=("$file") commands+=("$command") names+=("${labels//$'\t'/ }")
    done < <(cat "$@")
    trap stop EXIT
    trap 'stop; exit 130' INT TERM
    for index in "${!files[@]}"; do
        while [ "${#children[@]}" -ge "$jobs" ]; do
            reap
        done
        one "${files[$index]}" "${commands[$index]}" "$((index + 1))/${#files[@]} ${names[$index]}" &
        children+=($!)
    done
    while [ "${#children[@]}" -gt 0 ]; do
        reap
    done
    trap - EXIT INT TERM
    [ "$failed" = 0 ] || fail "$failed of ${#files[@]} runs failed; the others are kept"
}

# Waits for one child. (Sets the caller's `failed`.)
reap() {
    local child ended status=0 left=()
    wait -n -p ended "${children[@]}" || status=$?
    [ "$status" = 0 ] || failed=$((failed + 1))
    for child in "${children[@]}"; do
        [ "$child" = "${ended:-}" ] || left+=("$child")
    done
    children=("${left[@]}")
}

# One run: FILE COMMAND NAME.
one() {
    local file=$1 name=$3 begin=$SECONDS child status=0 words
    read -ra words <<<"$2"
    # Also before the child has its name, and after the child has ended.
    trap 'kill "${!:-}" 2>/dev/null || true; wait || true; rm -f "$file.part" "$file.log"; exit 143' TERM INT
    trap - EXIT
    timeout -k 5 600 "$programs/${words[0]}" "${words[@]:1}" --json "$file.part" >/dev/null 2>"$file.log" &
    child=$!
    wait "$child" || status=$?
    if [ "$status" = 0 ]; then
        mv "$file.part" "$file"
        rm -f "$file.log"
        echo "$name: $((SECONDS - begin)) s"
        return 0
    fi
    local why
    why=$(grep -E "^${words[0]}:|FAILED|panicked" "$file.log" | tail -1 || true)
    [ "$status" != 124 ] || why="it took longer than 600 s"
    echo "${0##*/}: $name: ${why:-it failed with status $status}; run it alone: $2" >&2
    rm -f "$file.part" "$file.log"
    return 1
}
