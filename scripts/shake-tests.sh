#!/usr/bin/env bash
# usage: scripts/shake-tests.sh [--loads "LOAD ..."] [--limit SECONDS] [--built]
#                               PATTERN [ROUNDS [TEST ...]]
# Runs test programs again and again, on a machine that is idle, busy, small or halting, to find the
# tests that fail only sometimes. PATTERN is an extended regular expression for CRATE/PROGRAM, as in
# 'cluster/killed', '^verbs-tcp/' or 'ycsb/(cli|signals)$'. The tests inside a library are
# CRATE/latchwork_CRATE. TESTs are names, or parts of names, as for cargo.
#
#   idle     the machine as it is
#   busy     four busy loops for each core
#   niced    the same loops, with priority over the tests
#   small    one core for all
#   serial   one test at a time
#   crowded  all tests of a program at once, on one busy core
#   halting  all of a test's processes stand still for some seconds, again and again, as a guest of
#            a busy host
#
# Each program runs ROUNDS times (3). The output of a failed run is kept under target/shaken. The
# last lines list the failed tests and how often each failed. Exit status 1 if any did. --built
# takes the programs of the previous call.
set -euo pipefail
cd "$(dirname "$0")/.."

die() {
    echo "shake-tests: $*" >&2
    exit 2
}

loads="idle busy small serial crowded niced halting"
limit=600
built=
while [[ ${1:-} == --* ]]; do
    case $1 in
        --loads) loads=${2:?} && shift ;;
        --limit) limit=${2:?} && shift ;;
        --built) built=yes ;;
        *) die "there is no $1: see the head of this file" ;;
    esac
    shift
done
[ $# -gt 0 ] || die "which programs? For example: scripts/shake-tests.sh '^runtime/'"
pattern=$1
rounds=${2:-3}
shift $(($# < 2 ? $# : 2))

root=$PWD
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
out=$target/shaken
list=$out/programs
mkdir -p "$out"
if [ -z "$built" ]; then
    # One line for each: crate, program, folder, file.
    cargo test --workspace --no-run --message-format json |
        sed -nE 's/.*"manifest_path":"([^"]*\/([^"\/]*))\/Cargo.toml","target":\{"kind":\["(lib|bin|test)"\],.*"name":"([^"]*)","src_path.*"profile":\{[^}]*"test":true\}.*"executable":"([^"]+)".*/\2 \4 \1 \5/p' \
            >"$list.new"
    mv "$list.new" "$list"
fi
[ -s "$list" ] || die "no test program is known: once without --built"

loops=()
halter=
work=$(mktemp -d)
calm() {
    [ -z "$halter" ] || kill "$halter" 2>/dev/null || true
    [ ${#loops[@]} -eq 0 ] || kill "${loops[@]}" 2>/dev/null || true
    wait 2>/dev/null || true
    loops=() halter=
}
trap 'calm; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

# busy COUNT [COMMAND ...]: COUNT loops, each run by the command.
busy() {
    local count=$1
    shift
    while [ ${#loops[@]} -lt "$count" ]; do
        "$@" bash -c 'while :; do :; done' &
        loops+=($!)
    done
}

# Stops and continues all processes of the test's session. The file has the number of the session.
halt() {
    local session=
    trap '[ -z "$session" ] || pkill -CONT -s "$session"; exit' TERM
    while sleep $((1 + RANDOM % 3)).$((RANDOM % 10)); do
        session=$(cat "$work/session" 2>/dev/null) || continue
        pkill -STOP -s "$session" || continue
        sleep $((RANDOM % 4)).$((RANDOM % 10))
        pkill -CONT -s "$session" || true
    done
}

cores=$(nproc)
core=$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')
begin_load() {
    under=()
    case $1 in
        idle) ;;
        busy) busy $((4 * cores)) ;;
        small) under=(taskset -c "$core") ;;
        serial) under=(env RUST_TEST_THREADS=1) ;;
        crowded)
            under=(env RUST_TEST_THREADS=16 taskset -c "$core")
            busy 3 taskset -c "$core"
            ;;
        niced)
            under=(nice -n 19)
            busy $((2 * cores))
            ;;
        halting)
            halt &
            halter=$!
            ;;
        *) die "there is no load '$1'" ;;
    esac
}

runs=0
bad=0
begin=$SECONDS
# run LOAD ROUND CRATE PROGRAM FOLDER FILE [TEST ...]
run() {
    local load=$1 round=$2 name=$3/$4 folder=$5 file=$6 status=0
    shift 6
    local log=$out/$load/${name//\//.}.$round since=$SECONDS
    mkdir -p "$out/$load"
    runs=$((runs + 1))
    # In the foreground, because background processes of a shell ignore interrupts. In a separate
    # session, so that all processes that the test starts can be found.
    # shellcheck disable=SC2016
    (cd "$folder" && exec setsid --wait bash -c 'echo $$ >"$1"; shift; exec "$@"' - "$work/session" \
        "${under[@]}" timeout --kill-after 10 "$limit" "$file" "$@") >"$log" 2>&1 </dev/null || status=$?
    rm -f "$work/session"
    printf '%5d s  %-8s %s\n' $((SECONDS - since)) "$load" "$name" >>"$out/times"
    if [ "$status" -eq 0 ]; then
        rm "$log"
        return
    fi
    bad=$((bad + 1))
    {
        grep -E '^test .* (\.\.\. )?FAILED$' "$log" | sed "s|^test |$name |; s| \.\.\. FAILED||" | grep . ||
            echo "$name: status $status"
    } | sed "s|$| ($load)|" | tee -a "$work/failed"
    echo "    ${log#"$root"/}"
}

: >"$out/times"
known=$(awk -v p="$pattern" '($1 "/" $2) ~ p' "$list")
[ -n "$known" ] || die "no program is called like '$pattern'; they are in $list"
for load in $loads; do
    begin_load "$load"
    for ((round = 1; round <= rounds; round++)); do
        while read -r crate program folder file; do
            run "$load" "$round" "$crate" "$program" "$folder" "$file" "$@"
        done <<<"$known"
    done
    calm
done

echo "shake-tests: $bad of $runs runs failed, in $((SECONDS - begin)) s; the times of all are in $out/times"
[ "$bad" -eq 0 ] && exit
sort "$work/failed" | uniq -c
exit 1
