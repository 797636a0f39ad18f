#!/usr/bin/env bash
# usage: scripts/long.sh [STEP..]
# The checks that the gate (.ci/run) leaves out, in some twenty minutes, or only the steps that
# are named: sockets loom rustdoc mdbook shared-writes instructions libibverbs soft-roce reproduce
# pages matrix fuzz worlds hunt rtree queue txn recovery. Prints a line for each step, keeps its
# output under target/long, and goes on after a failure. Exit status 1 if a step failed.
# LONG_MINUTES sets the time of each hunt (2), LONG_SEED the first seed of the hunts and of the
# fuzzer; without it the clock draws one, which is printed.
set -uo pipefail
cd "$(dirname "$0")/.."
exec </dev/null
export CARGO_TERM_COLOR=never CARGO_INCREMENTAL=0

target=${CARGO_TARGET_DIR:-target}
minutes=${LONG_MINUTES:-2}
seed=${LONG_SEED:-$(date +%s%N)}
out=$target/long
mkdir -p "$out"
wanted=" $* "
known=" sockets loom rustdoc mdbook shared-writes instructions libibverbs soft-roce reproduce pages matrix fuzz worlds hunt rtree queue txn recovery "
for each; do
    [[ $known == *" $each "* ]] || { echo "long: there is no step $each; there are$known" >&2; exit 2; }
done

failed=0
# step NAME COMMAND..: runs the step if it is wanted.
step() {
    local name=$1 begin=$SECONDS verdict=ok
    shift
    [[ $wanted == "  " || $wanted == *" $name "* ]] || return 0
    "$@" >"$out/$name.log" 2>&1 || verdict=FAILED
    ! grep -qE '^warning(:|\[)' "$out/$name.log" || verdict=FAILED
    case $(tail -n 1 "$out/$name.log") in skipped:*) verdict=$(tail -n 1 "$out/$name.log") ;; esac
    [ "$verdict" != FAILED ] || failed=$((failed + 1))
    printf '%5d s  %-13s %s\n' $((SECONDS - begin)) "$name" "$verdict$([ "$verdict" != FAILED ] || echo ", see $out/$name.log")"
}

# What a step needs and this machine cannot have is a line, and no failure.
or_skip() {
    "$1" --prepare || { echo "skipped: $2"; return; }
    shift 2
    "$@"
}
rustdoc() { RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked; }
book() {
    if command -v mdbook >/dev/null; then mdbook build docs; else echo "skipped: no mdbook"; fi
}
with_valgrind() {
    if ! command -v valgrind >/dev/null; then
        { apt-get update -qq && apt-get install -y -qq valgrind; } ||
            { echo "skipped: no valgrind"; return; }
    fi
    "$@"
}
matrix() { LATCHWORK_TEST_FUZZ_SECONDS=60 cargo test --locked -p latchwork-cluster-app matrix::fuzz; }
fuzz() {
    # As the tests build it: a smaller selection of packages has other features.
    cargo test --workspace --no-run && scripts/fuzz.sh "$target/debug/latchwork-fuzz" --time 60 --seed "$seed"
}
release() { cargo build --release --locked -p latchwork-sim --features strict; }
worlds() { release && scripts/replay-worlds.sh "$target/release/sim"; }
hunt() { release && "$target/release/sim" hunt --from-seed "$seed" --minutes "$minutes" "$@"; }

echo "long: seed $seed, hunts of $minutes minutes"
# Programs want sockets, so the gate's lints see all crates with them. Libraries do without.
step sockets cargo clippy -p latchwork-cluster --all-targets --locked -- -D warnings
step loom scripts/loom.sh
step rustdoc rustdoc
step mdbook book
step shared-writes with_valgrind scripts/shared-writes.sh
step instructions with_valgrind scripts/instructions.sh --check
step libibverbs or_skip scripts/check-ibv-layout.sh "no cmake or libclang" scripts/check-ibv-layout.sh
step soft-roce or_skip scripts/rxe-vm.sh "no virtual machine" scripts/test-ibv.sh
step reproduce scripts/reproduce/check.sh
step pages scripts/pages.sh
step matrix matrix
step fuzz fuzz
step worlds worlds
step hunt hunt
step rtree hunt --workload rtree
step queue hunt --workload queue
step txn hunt --workload txn
step recovery hunt --workload lines --protocol selcc --set survive=on --compute-nodes 5 \
    --faults kill=3,told-us=1000,fail=1/50,repeat=1/100,delay=1/50,pause=2
printf '%5d s  in all, %d failed\n' "$SECONDS" "$failed"
[ "$failed" -eq 0 ]
