#!/usr/bin/env bash
# Ends compute nodes of one cluster after the other, replaces each under the same id, and checks
# that the others go on and that the data are right at the end.
#
#   scripts/kills.sh [DEATHS [FABRIC..]]
#
# For each fabric (default: shm and tcp) and for `ycsb run` and `ycsb check`, workload A: a cluster
# of four compute nodes, in which DEATHS times (default 5), in turns,
#   - a random node is killed,
#   - a random node is stopped for longer than its lease, and goes on then,
#   - two random nodes are killed at once,
#   - the first node, which shows the results, is killed.
# At least one of the nodes that began lives to the end. It shows the results: no access has failed,
# all checks are good, and each death has a recovery. The script prints the recoveries, and the
# longest access of all workers that lived, which is how long a death held them up at most.
#
# BIN is the directory of the programs (default: target/debug, which is built first). SEED draws the
# nodes. The script ends what it started, and ends at the latest after TIME_LIMIT seconds (default:
# what the clusters need, and a minute more for each). A busy machine may lose the lease of a node
# that lives, and then the script fails.
set -euo pipefail
cd "$(dirname "$0")/.."

deaths=${1:-5}
shift $(($# < 1 ? $# : 1))
[[ $deaths =~ ^[1-9][0-9]*$ ]] || { echo "kills.sh: give the number of deaths, not '$deaths'" >&2; exit 2; }
fabrics=("$@")
for fabric in "$@"; do
    [[ $fabric =~ ^(shm|tcp)$ ]] || { echo "kills.sh: there are the fabrics shm and tcp, not '$fabric'" >&2; exit 2; }
done
[ ${#fabrics[@]} -gt 0 ] || fabrics=(shm tcp)
if [ -z "${BIN:-}" ]; then
    cargo build --locked --quiet -p latchwork-ycsb -p latchwork-memnode-app
    BIN=${CARGO_TARGET_DIR:-target}/debug
fi
RANDOM=${SEED:-1}
lease=10 gap=4
# A stop takes the lease, and the time until the process goes on and ends.
time=$((10 + deaths * (gap + 4) + (deaths + 2) / 4 * (3 * lease + 20)))

work=$(mktemp -d)
memory=$work
[ ! -d /dev/shm ] || memory=$(mktemp -d /dev/shm/kills.XXXXXX)
# What runs, by the number of the process. A child keeps its number until this shell has waited for
# it, so a signal reaches no other process.
declare -A started=()
finish() {
    local pid
    trap - EXIT INT TERM HUP
    for pid in "${!started[@]}"; do
        kill -KILL "$pid" 2>/dev/null || true
    done
    wait 2>/dev/null || true
    rm -rf "$work" "$memory"
}
trap finish EXIT
trap 'exit 130' INT TERM HUP
# The shell would print a line for each process that it kills.
exec 3>&2 2>/dev/null
sleep "${TIME_LIMIT:-$((2 * ${#fabrics[@]} * (time + 60)))}" &
clock=$!
started[$clock]=clock

fail() {
    echo "kills.sh: $*" >&3
    tail -n 4 "$cell"/*.err >&3 || true
    exit 1
}

# Waits for the end of a process, and sets `status`.
wait_for() {
    while kill -0 "$1" 2>/dev/null && [ "$(state "$1")" != Z ]; do
        kill -0 "$clock" 2>/dev/null || fail "the time is over, and ${started[$1]} still runs"
        sleep 0.1
    done
    status=0
    wait "$1" 2>/dev/null || status=$?
    unset "started[$1]"
}

# The state of a process, as a letter.
state() {
    local text
    text=$(cat "/proc/$1/stat" 2>/dev/null) || text='0 () Z'
    text=${text##*) }
    echo "${text%% *}"
}

# Starts a compute node of this id, with more flags.
node() {
    local id=$1 name
    shift
    name=$id.$((++starts))
    "$BIN/ycsb" "$command" -w a -p recordcount=2000 --threads 1 --cache-mb 8 "${flags[@]}" \
        --set member-lease="$lease" --set survive=on --set clean-interval=100ms --set deadline=60s --set node-id="$id" \
        --json "$cell/$name.json" "$@" >"$cell/$name.out" 2>"$cell/$name.err" </dev/null &
    pid[$id]=$! file[$id]=$cell/$name
    started[$!]="C$id"
}

# Sets `victim` to a random node that may die: not the last one that began, and not `$1`.
draw() {
    local began=0 id choice=()
    for id in 1 2 3 4; do
        [ "$id" = "${1:-}" ] || [ "${first[$id]}" = 0 ] || began=$((began + 1))
    done
    for id in 1 2 3 4; do
        [ "$id" = "${1:-}" ] || { [ "${first[$id]}" = 1 ] && [ "$began" -lt 2 ]; } || choice+=("$id")
    done
    victim=${choice[RANDOM % ${#choice[@]}]}
}

# One more node is dead.
dies() {
    kill "-$2" "${pid[$1]}" || fail "C$1 has ended before it was to die"
    echo "  C$1: $2"
    dead+=("$1")
}

one_cluster() {
    local fabric=$1 command=$2 cell=$work/$1-$2 id at end left
    local -A pid=() file=() first=()
    local flags=(--join "file:$memory/$1-$2/store" --fabric "$fabric")
    local starts=0 total=0 dead=()
    echo "$fabric, $command"
    mkdir "$cell" "$memory/$1-$2"
    [ "$fabric" != shm ] || flags+=(--set shm-dir="$memory/$command")
    for id in 0 1; do
        "$BIN/memnode" "${flags[@]}" --set member-lease=60 --memory-mb 64M >"$cell/memory$id.err" 2>&1 </dev/null &
        started[$!]="M$id"
        pid[m$id]=$!
    done
    # Histories are short, because the store has to carry them.
    [ "$command" != check ] || flags+=(--target 800)
    flags+=(--compute-nodes 4 --memory-nodes 2)
    for id in 1 2 3 4; do
        node "$id" --time "$time" && first[$id]=1
    done
    until grep -q '^run: ' "${file[1]}.err"; do
        kill -0 "$clock" 2>/dev/null || fail "no run has begun"
        kill -0 "${pid[1]}" 2>/dev/null || fail "the run has not begun"
        sleep 0.2
    done
    end=$((SECONDS + time))
    for ((at = 0; at < deaths; at++)); do
        dead=()
        draw
        case $((at % 4)) in
            0) dies "$victim" KILL ;;
            1) dies "$victim" STOP ;;
            2)
                dies "$victim" KILL
                first[$victim]=0
                draw "$victim"
                dies "$victim" KILL
                ;;
            3)
                # The node that shows the results, unless it is the last that began.
                for id in 4 3 2 1; do
                    [ "${first[$id]}" = 0 ] || victim=$id
                done
                [ "$((first[1] + first[2] + first[3] + first[4]))" -gt 1 ] || draw
                dies "$victim" KILL
                ;;
        esac
        total=$((total + ${#dead[@]}))
        if [ $((at % 4)) -eq 1 ]; then
            sleep $((lease + 2))
            # On shared memory the others kill it. Elsewhere it ends when it goes on.
            kill -CONT "${pid[$victim]}" 2>/dev/null || true
            wait_for "${pid[$victim]}"
            [ "$status" -ne 0 ] || fail "C$victim was stopped for longer than its lease, and goes on"
        fi
        for id in "${dead[@]}"; do
            [ $((at % 4)) -eq 1 ] || wait_for "${pid[$id]}"
            first[$id]=0
            # It ends before the run, whose table it uses.
            left=$((end - SECONDS - 6))
            [ "$left" -gt 2 ] || fail "the machine is too slow"
            node "$id" --set replaces=on --time "$left"
        done
        sleep "$gap"
    done
    local results=()
    for id in 1 2 3 4; do
        wait_for "${pid[$id]}"
        [ "$status" -eq 0 ] || fail "C$id has ended with status $status: $(tail -n 1 "${file[$id]}.err")"
        [ "${first[$id]}" = 0 ] || [ ! -s "${file[$id]}.json" ] || results+=("${file[$id]}")
    done
    [ ${#results[@]} -eq 1 ] || fail "${#results[@]} documents of the run"
    local result=${results[0]} found
    ! grep -q '"failures"' "$result.json" || fail "accesses have failed"
    found=$(grep -c '"swept_ms"' "$result.json" || true)
    [ "$found" -ge "$total" ] || fail "$found of $total deaths are recovered"
    grep -h '^death ' "$result.err" "$result.out" | sed 's/^/  /' || true
    sed -n 's/^\[\(.*\)\], MaxLatency(us), \(.*\)/\1 \2/p' "$result.out" "$result.err" |
        awk '$2 > most { most = $2 } END { printf "  longest access: %.0f ms\n", most / 1000 }'
    for id in 0 1; do
        kill -TERM "${pid[m$id]}"
        wait_for "${pid[m$id]}"
        [ "$status" -eq 0 ] || fail "M$id has ended with status $status"
    done
}

for fabric in "${fabrics[@]}"; do
    for command in run check; do
        one_cluster "$fabric" "$command"
    done
done
echo "all is right"
