# The project's common tasks. `just` alone lists them; without `just`, run a recipe's line in a shell.

set positional-arguments

_default:
    @just --list --unsorted

# YCSB, workload A on two compute nodes; flags are passed on: `just ycsb check -w f`.
ycsb *ARGS:
    cargo run --release --bin ycsb -- "$@"

# TPC-C, two warehouses on two compute nodes: `just tpcc --cc occ -w 4 --set interval=1`.
tpcc *ARGS:
    cargo run --release --bin tpcc -- "$@"

# The micro-benchmark of GAM and SELCC: `just microbench --fabric sim --compute-nodes 8 --set locality=50`.
microbench *ARGS:
    cargo run --release --bin microbench -- "$@"

# Places and boxes of CSV files in an R-tree: `just spatial query nearest 8.55,47.45 --data FILE --great-circle`.
spatial *ARGS:
    cargo run --release --bin spatial -- "$@"

# A cluster of processes, and a program on it: `just cluster --memory-nodes 2 --fabric tcp ycsb -- check -w a -p recordcount=100000`.
cluster *ARGS:
    scripts/cluster/run.sh "$@"

# Experiments on clusters of processes, with one table of results: `just matrix scripts/cluster/fabrics.toml`.
matrix *ARGS:
    scripts/cluster/matrix.sh "$@"

# A simulated world, replayed: `just sim run --seed 7`; `just sim --help` lists all commands.
sim *ARGS:
    cargo run --release --bin sim -- "$@"

# New simulated worlds until one fails, for a minute by default: `just hunt --minutes 30`.
hunt *ARGS:
    cargo run --release --bin sim -- hunt "$@"

# Generated inputs for all parsers of files and sockets: `just fuzz --time 600 log`.
fuzz *ARGS:
    cargo run --profile test -p latchwork-fuzz -- "$@"

# The kept simulated worlds: each failed once, or shows a case.
worlds:
    cargo build --release --bin sim
    scripts/replay-worlds.sh target/release/sim

# The rules of the house: circles of imports, layers, words, comments.
house:
    cargo xtask house

# Formatting, the rules of the house, lints, documentation, the book's links.
check:
    cargo fmt --all --check
    cargo xtask house
    cargo clippy --workspace --all-targets -- -D warnings
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps
    scripts/check-book.sh

# What the gate leaves out, a line for each step, in some twenty minutes: `just long loom fuzz` runs two of them.
long *STEPS:
    scripts/long.sh "$@"

# What is known within a minute of a small change in one crate: formatting, lints and tests of that package.
quick PACKAGE:
    cargo fmt --all --check
    cargo clippy --package {{ PACKAGE }} --all-targets -- -D warnings
    cargo test --package {{ PACKAGE }} --quiet

# All tests. With cargo-nextest they run in parallel, and doctests follow.
test *ARGS:
    #!/usr/bin/env bash
    set -euo pipefail
    if cargo nextest --version >/dev/null 2>&1; then
        cargo nextest run --workspace "$@"
        cargo test --workspace --doc
    else
        cargo test --workspace "$@"
    fi

# Repeated runs of test programs on a machine that is busy, small or halting: `just shake '^membership/' 5`.
shake *ARGS:
    scripts/shake-tests.sh "$@"

# Exhaustive searches of the protocol, and of the order of a death, that take minutes and gigabytes.
model *ARGS:
    cargo test --release -p latchwork-latch --test model -- --ignored --nocapture --skip larger:: "$@"
    cargo test --release -p latchwork-peers --test model -- --ignored --nocapture "$@"

# The larger searches, by name; without a name, the list of names: `just model-larger four_writers`.
model-larger *ARGS:
    cargo test --release -p latchwork-latch --test model -- --ignored \
        {{ if ARGS == "" { "--list larger::" } else { "--nocapture --exact larger::" + ARGS } }}

# Local latches, the index, queues and wake-ups under every interleaving; a prefix selects tests.
loom *ARGS:
    scripts/loom.sh "$@"

# The cost of an access, beside the machine's limits; fills docs/evidence/costs.md. `just costs --repeats 31`.
costs *ARGS:
    mkdir -p target/costs
    scripts/instructions.sh target/costs/instructions.tsv
    cargo run --release -p latchwork-benches --example costs -- --instructions target/costs/instructions.tsv --markdown docs/evidence/costs.md "$@"

# Instructions of an operation, into a file; `--check` fails when a kept row grew, `--keep` counts those rows anew.
instructions *ARGS:
    scripts/instructions.sh "$@"

# The RDMA fabric on Soft-RoCE, in a virtual machine; flags go to the tests.
rdma *ARGS:
    scripts/check-ibv-layout.sh
    scripts/test-ibv.sh "$@"

# The RDMA fabric beside perftest, in one virtual machine: `just rdma-perf ROUNDS ITERATIONS`.
rdma-perf *ARGS:
    scripts/rdma-perf.sh "$@"

# Membership on etcd, which the tests start, and a cluster of programs; needs `etcd`, and `protoc` for its client.
test-etcd *ARGS:
    cargo test -p latchwork-membership --features etcd-tls "$@"
    scripts/cluster/test-etcd.sh

# CPU cache lines that readers share and write, counted under valgrind: there must be none.
shared-writes *ARGS:
    scripts/shared-writes.sh "$@"

# YCSB A and TPC-C beside one busy thread for each core, in turns with a quiet machine: `just busy ROUNDS SECONDS`.
busy *ARGS:
    scripts/beside-busy.sh "$@"

# Criterion benchmarks of the layers; a name selects one: `just bench tree`.
bench *ARGS:
    cargo bench -p latchwork-benches -- "$@"

# The SELCC paper's figures in the simulator, with a result for each claim: `just reproduce --quick`.
reproduce *ARGS:
    scripts/reproduce/all.sh "$@"

# This project's tree beside structures of other crates; fills docs/evidence/comparison.md. `just compare --keys 10M`.
compare *ARGS:
    cargo run --release --manifest-path benches/compare/Cargo.toml --target-dir target/compare -- --markdown docs/evidence/comparison.md --plot docs/evidence/comparison/plot.svg --json target/compare/comparison.json "$@"

# The R-tree beside R-trees of other crates; fills docs/reference/spatial.md. `just compare-spatial --boxes 100k`.
compare-spatial *ARGS:
    cargo run --release --manifest-path benches/compare/Cargo.toml --target-dir target/compare -- spatial --markdown docs/reference/spatial.md --plot docs/evidence/comparison-spatial/plot.svg --json target/compare/comparison-spatial.json "$@"

# The book's pictures and its table of counters, after a change of their sources.
book:
    scripts/draw.sh
    scripts/reference.sh
    scripts/check-book.sh

# The API documentation, and the book if mdbook is installed.
docs:
    cargo doc --workspace --no-deps
    if command -v mdbook >/dev/null; then mdbook build docs; fi

# Format everything.
fmt:
    cargo fmt --all
