#!/usr/bin/env bash
# Ends compute nodes of one cluster after the other, replaces each under the same id, and checks
# that the others go on and that the data are right at the end.
#
#   scripts/kills.sh [DEATHS [FABRIC [COMMAND]]]
#
# For each fabric (shm and tcp) and command of `ycsb` (run and check), workload A, at the same time:
# a cluster of four compute nodes, in which DEATHS nodes die (default 5), in turns:
#   - a random node is killed,
#   - a random node is stopped for longer than its lease, and goes on then,
#   - two random nodes are killed at once,
#   - the first node, which shows the results, is killed.
# At least one of the nodes that began lives to the end. It shows the results: no access has failed,
# all checks are good, and each death has a recovery. The script prints the recoveries, and the
# longest access that a kill held up. Those that a stopped node held up take as long as its lease.
#
# BIN is the directory of the programs (default: target/debug, which is built first). SEED draws the
# nodes. LEASE has the seconds of all leases (default 10): a machine that is too busy to renew a
# lease in that time loses a node that lives, and then the script fails. With OTHERS only a node
# that is stopped next has such a lease, others have one of OTHERS seconds. The script ends what it
# started, and ends at the latest after TIME_LIMIT seconds (default: a minute for each death, and
# two more).
set -euo pipefail
cd "$(dirname "$0")/.."

deaths=${1:-5}
[[ $deaths =~ ^[1-9][0-9]*$ ]] || { echo "kills.sh: give the number of deaths, not '$deaths'" >&2; exit 2; }
clusters=()
for fabric in shm tcp; do
    for command in run check; do
        [ "${2:-$fabric}/${3:-$command}" != "$fabric/$command" ] || clusters+=("$fabric $command")
    done
done
[ ${#clusters[@]} -gt 0 ] || { echo "kills.sh: there are shm and tcp, and run and check, not '${*:2}'" >&2; exit 2; }
if [ -z "${BIN:-}" ]; then
    cargo build --locked --quiet -p latchwork-ycsb -p latchwork-memnode-app
    BIN=${CARGO_TARGET_DIR:-target}/debug
fi
export BIN
if [ ${#clusters[@]} -gt 1 ]; then
    scripts=() bad=0
    trap 'kill "${scripts[@]}"; wait; exit 130' INT TERM HUP
    for cluster in "${clusters[@]}"; do
        # shellcheck disable=SC2086 # two words
        scripts/kills.sh "$deaths" $cluster &
        scripts+=($!)
    done
    for script in "${scripts[@]}"; do wait "$script" || bad=1; done
    exit "$bad"
fi
read -r fabric command <<<"${clusters[0]}"
RANDOM=${SEED:-1}
lease=${LEASE:-10} others=${OTHERS:-${LEASE:-10}}

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
sleep "${TIME_LIMIT:-$((120 + 60 * deaths))}" &
clock=$!
started[$clock]=clock

say() { echo "$fabric, $command: $*"; }

fail() {
    say "$*" >&3
    grep -hE '^check ' "$work"/*.err "$work"/*.out >&3 || true
    tail -n 4 "$work"/*.err >&3 || true
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

# Starts a compute node of this id. With more flags it replaces a dead one. A signal ends its run.
node() {
    local id=$1 name=$1.$((++starts))
    shift
    first[$id]=$(($# == 0))
    "$BIN/ycsb" "$command" -w a -p recordcount=2000 --threads 1 --cache-mb 8 "${flags[@]}" --time 1h \
        --set member-lease="$others" --set clean-interval=100ms --set deadline=3m --set node-id="$id" \
        --json "$work/$name.json" "$@" >"$work/$name.out" 2>"$work/$name.err" </dev/null &
    pid[$id]=$! file[$id]=$work/$name
    started[$!]="C$id"
}

# Waits until the measured part of this node has begun.
begun() {
    until grep -q '^run: .* %, [1-9]' "${file[$1]}.err"; do
        kill -0 "$clock" 2>/dev/null || fail "the time is over, and the run of C$1 has not begun"
        [ "$(state "${pid[$1]}")" != Z ] || fail "C$1 has ended, and its run has not begun"
        sleep 0.1
    done
}

# Ends a node, by its id, or all of a run, and waits for it.
ends() {
    [ $# -gt 1 ] || kill -TERM "${pid[$1]}"
    wait_for "${pid[$1]}"
    [ "$status" -eq 0 ] || fail "$1 has ended with status $status: $(tail -n 1 "${file[$1]}.err")"
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

# Whether a process has the lock of the store.
has_lock() { grep -q "FLOCK .* $1 .*:$(stat -c %i "$memory/store/lock") " /proc/locks; }

# One more node is dead.
dies() {
    kill "-$2" "${pid[$1]}" || fail "C$1 has ended before it was to die"
    # A process that is stopped while it has the lock of the store takes the leases of all.
    while [ "$2" = STOP ] && { [ "$(state "${pid[$1]}")" != T ] || has_lock "${pid[$1]}"; }; do
        kill -CONT "${pid[$1]}"
        sleep 0.02
        kill -STOP "${pid[$1]}"
        sleep 0.02
    done
    kinds+=("$2") dead+=("$1")
    say "death ${#kinds[@]} of $deaths, after $SECONDS s: C$1, $2"
}

declare -A pid=() file=() first=()
starts=0 kinds=()
flags=(--join "file:$memory/store" --fabric "$fabric")
[ "$fabric" != shm ] || flags+=(--set shm-dir="$memory/shm")
for id in 0 1; do
    "$BIN/memnode" "${flags[@]}" --set member-lease="$((others + 50))" --memory-mb 64M >"$work/memory$id.err" 2>&1 </dev/null &
    started[$!]="M$id"
    pid[m$id]=$! file[m$id]=$work/memory$id
done
# Histories are short, because the store has to carry them.
[ "$command" != check ] || flags+=(--target 400)
flags+=(--compute-nodes 4 --memory-nodes 2)
for id in 1 2 3 4; do node "$id"; done
begun 1
for ((turn = 0; ${#kinds[@]} < deaths; turn++)); do
    dead=()
    draw
    case $((turn % 4)) in
        0) dies "$victim" KILL ;;
        1)
            # The last one that was replaced has the lease for that.
            [ "$others" = "$lease" ] || victim=$id
            dies "$victim" STOP
            sleep $((lease + 2))
            # On shared memory the others kill it. Elsewhere it ends when it goes on.
            kill -CONT "${pid[$victim]}" 2>/dev/null || true
            ;;
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
    for id in "${dead[@]}"; do
        wait_for "${pid[$id]}"
        [ "$status" -ne 0 ] || fail "C$id was stopped for longer than its lease, and goes on"
        node "$id" --set replaces=on --set member-lease="$((turn % 4 ? others : lease))"
    done
    for id in "${dead[@]}"; do begun "$id"; done
    sleep 1
done
# Others than those that began use the table of the run, so they end before it.
began=()
for id in 1 2 3 4; do
    if [ "${first[$id]}" = 1 ]; then began+=("$id"); else ends "$id"; fi
done
kill -TERM "${pid[${began[0]}]}"
for id in "${began[@]}"; do ends "$id" of-run; done
# The first one that lives shows the results.
result=${file[${began[0]}]}
[ -s "$result.json" ] || fail "there is no document of the run"
! grep -q '"failures"' "$result.json" || fail "accesses have failed"
found=$(grep -c '"swept_ms"' "$result.json" || true)
[ "$found" -eq "${#kinds[@]}" ] || fail "$found of ${#kinds[@]} deaths are recovered"
# The recoveries are in the order of the deaths.
awk -v kinds="${kinds[*]}" '
    BEGIN { split(kinds, kind, " ") }
    $1 == "\"node\":" { node = $2 }
    $1 == "\"known_ms\":" { at += 1; known = $2 / 1000; longest[at] = 0 }
    $1 == "\"swept_ms\":" { line[at] = sprintf("%s %s, known after %.1f s, swept %d ms later", node, kind[at], known, $2) }
    $1 == "\"longest_access_ms\":" { longest[at] = $2 + 0 }
    END {
        for (i = 1; i <= at; i++) {
            printf "  %s, longest access %d ms\n", line[i], longest[i]
            if (kind[i] == "KILL" && longest[i] > most) most = longest[i]
        }
        printf "  longest access that a kill held up: %d ms\n", most
    }' "$result.json"
ends m0
ends m1
say "all is right"
