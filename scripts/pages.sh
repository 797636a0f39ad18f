#!/usr/bin/env bash
# usage: scripts/pages.sh [PAGE..]
# Runs the commands of the pages, or of those that are named, as a reader does, at a small size:
# - Each block `sh` is a script, which has to end with status 0 in five minutes.
# - The next block `text` of the section is its output: each line has to appear, however it is
#   wrapped. There `...` is any text, and a number any number.
# - `<!-- pages: FILE -->` above a block: the block is this file. `<!-- pages: other -->`: it is the
#   output of something else.
# Each flag and setting that a page names has to be one that the help of a program lists; so it is
# for the pages on concepts and internals. Prints each fault; exit status 1 when there is any.
# PAGES_BIN=DIRECTORY takes programs that exist. All files are in a scratch directory, also those
# that a page has in /tmp.
set -euo pipefail
cd "$(dirname "$0")/.."
exec </dev/null

# What is left out: what the block has, and why.
left_out='
cargo new shared|a project of the reader; a test compares it with an example
^cargo run --release$|the same project
latchwork-harness/etcd|etcd, protoc and several machines
file:/tmp/two memory|two terminals; a test starts the same processes
ibv_devices|RDMA devices
modprobe|a kernel with Soft-RoCE, and root
rxe-vm.sh --hosts|a virtual machine, which the step soft-roce has
--on ssh|several machines
--plant no-settling|minutes of shrinking, and seeds that are other worlds by now
run --scenario hunt-failures|what that hunt found
just compare-spatial|a build of its own, with crates of others
'
# What is smaller than in the page, or another name, where the command itself says it.
smaller='
s#/tmp/bank 20000#/tmp/bank 300#
s#/tmp/#'"\$SCRATCH"'/#g
s/--minutes [0-9.]+/--minutes 0.05/
s/--worlds [0-9]+( --time [0-9]+)?/--worlds 3/
s/--operations [0-9]{5,}/--operations 2000/
s/recordcount=[0-9]{5,}/recordcount=2000/
s/--warmup 0.03 --time 0.02/--warmup 1ms --time 1ms/
s/--memory-mb [0-9]+M/--memory-mb 64M/
s/spatial (-- )?bench/& --entries 500 --operations 1000/
s/\beager\b/sel/g
/^sim shrink found.toml/d
s#matrix.sh scripts/cluster/fabrics.toml#& --only shm#
s#matrix.sh scripts/cluster/placement.toml#& --dry-run#
'
pages=("$@")
[ $# -gt 0 ] || pages=(README.md docs/start/*.md docs/guides/*.md docs/reference/{tpcc,spatial,settings}.md docs/internals/simulation.md)
named=("$@")
[ $# -gt 0 ] || named=(README.md docs/{start,guides,reference,concepts,internals}/*.md)

bin=${PAGES_BIN:-}
if [ -z "$bin" ]; then
    # As the tests build them: another profile and other packages would be built anew.
    cargo build --quiet --profile test --workspace --bins --examples --locked
    bin=${CARGO_TARGET_DIR:-target}/debug
fi
work=$(mktemp -d "${TMPDIR:-/tmp}/latchwork-pages.XXXXXX")
group=
trap 'end; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
bin=$(realpath "$bin")
export bin repository=$PWD SCRATCH=$work/tmp CLUSTER_BIN=$bin LATCHWORK_CONFIG=$work/small.toml
programs="cluster memnode ycsb tpcc microbench spatial sim histories figure"
mkdir "$work/bin" "$SCRATCH"
for program in $programs; do ln -s "$bin/$program" "$work/bin"; done

# Ends what the present block has started.
end() { [ -z "$group" ] || kill -- "-$group" 2>/dev/null || true; }

# The commands stay as a reader types them: this file is for all programs.
cat >"$LATCHWORK_CONFIG" <<'END'
threads = 1
cache-mb = 16
[ycsb]
property = "recordcount=2000"
warmup = "20ms"
time = "50ms"
[tpcc]
items = 100
customers = 30
warmup = "50ms"
time = "300ms"
[microbench]
lines = 2000
warmup = 2000
operations = 20000
END

# What a reader builds first is there. Tests are not run: their packages and names have to exist.
cargo() {
    local command=$1 program=none
    shift
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        case $1 in
            --bin) program=$2 && shift && [ -x "$bin/$program" ] ;;
            --example) program=examples/$2 && shift && [ -x "$bin/$program" ] ;;
            -p) grep -rqxF "name = \"$2\"" --include=Cargo.toml "$repository"/{apps,crates,fuzz,benches} && shift ;;
            --test) compgen -G "$repository/*/*/*/tests/$2*" >/dev/null && shift ;;
            --release | --bins | --workspace) ;;
            *) false ;;
        esac || { echo "cargo $command: there is no $*" >&2; return 2; }
        shift
    done
    [ "$command" != run ] || "$bin/$program" "${@:2}"
}
# A recipe, without `just`.
just() {
    bash -euc "$(awk -v recipe="$1" '/^[^ ]/ { on = $1 == recipe || $1 == recipe ":"; next } on' \
        "$repository/justfile" | grep . || echo "echo there is no recipe; exit 2")" "$@"
}
export -f cargo just

# The flags and settings that a program lists, and those of its commands.
listed() {
    local command
    "$bin/$1" --help
    for command in $("$bin/$1" --help | awk '/^Commands:/ { on = 1; next } /^[^ ]/ { on = 0 } on && /^  [a-z]/ { print $1 }' | grep -vx help); do
        "$bin/$1" "$command" --help
    done
    ! "$bin/$1" --help | grep -q -- --help-settings || "$bin/$1" --help-settings
}

faults=0
fault() {
    echo "pages: $*" >&2
    faults=$((faults + 1))
}

# Writes LINE.sh for each block with commands of a page, LINE.out for its output, and the files.
blocks() {
    awk -v at="$work/blocks" -v files="$work/here" '
        /^ *```/ && to { to = ""; next }
        /^ *```/ {
            indent = index($0, "`"); kind = substr($0, indent + 3); to = "/dev/null"
            if (kind == "sh") { to = at "/" NR ".sh"; wants = at "/" NR ".out" }
            else if (file && file != "other") to = files "/" file
            else if (!file && kind == "text" && wants) { to = wants; wants = "" }
            file = ""
        }
        to { if (!/^ *```/) print substr($0, indent) >to; next }
        /<!-- pages: .* -->/ { file = $3 }
        /^#/ { wants = "" }' "$1"
}

# Runs a block: the page and its line, the script. What it leaves in the background ends with it.
run() {
    local place=$1 script=$2 status=0 line pattern
    sed -E -i "$smaller" "$script"
    (cd "$work/here" && PATH="$work/bin:$PATH" exec timeout --kill-after 5 300 bash -eo pipefail "$script") >"$work/log" 2>&1 &
    group=$!
    wait "$group" || status=$?
    end
    if [ "$status" != 0 ]; then
        fault "$place: exit status $status: $(head -n 1 "$script")"
        tail -n 8 "$work/log" | sed 's/^/    /' >&2
    elif [ -f "${script%.sh}.out" ]; then
        tr -s '\n ' ' ' <"$work/log" >"$work/words"
        while read -r line; do
            pattern=$(sed -E 's/[][\\.*^$+?(){}|]/\\&/g; s/\\\.\\\.\\\./.*/g; s/ +/ /g
                s/[0-9]+(\\\.[0-9]+)*( [kM]\b)?/[0-9.]+( [kM])?/g' <<<"$line")
            grep -qE -- "(^| )$pattern( |\$)" "$work/words" || fault "$place: its output has no line $line"
        done <"${script%.sh}.out"
    fi
}

# Runs the commands of a page.
commands() {
    local page=$1 script place begin why has reason
    rm -rf "$work/blocks" "$work/here"
    mkdir -p "$work/blocks" "$work/here/target"
    ln -s "$PWD"/{apps,crates,docs,scripts,justfile} "$work/here"
    ln -s "$bin" "$work/here/target/release"
    (cd "$work/here" && awk 'BEGIN {
        print "ident,le_longitude_deg,le_latitude_deg,he_longitude_deg,he_latitude_deg" >"runways.csv"
        print "ident,longitude_deg,latitude_deg" >"navaids.csv"
        for (i = 0; i < 60; i++) {
            printf "R%d,%d.5,%d.1,%d.52,%d.11\n", i, i, i % 50, i, i % 50 >"runways.csv"
            printf "N%d,%d.45,%d.2\n", i, i, i % 50 >"navaids.csv"
        }
    }')
    blocks "$page"
    for script in $(find "$work/blocks" -name '*.sh' | sort -V); do
        place=$page:$(basename "$script" .sh) begin=$SECONDS why=
        while IFS='|' read -r has reason; do
            [[ -z $has || ! $(<"$script") =~ $has ]] || why=$reason used+="$has|"
        done <<<"$left_out"
        if [ -n "$why" ]; then
            echo "left out  $place: $why"
        else
            run "$place" "$script"
            printf '%5d s   %s\n' $((SECONDS - begin)) "$place"
        fi
    done
}

# Compares the flags and settings of a page with those of the programs. The others are flags of
# cargo, its tests, etcd, Elle, grep, Docker and this project's benchmarks.
names() {
    local name others='release|bin|bins|example|test|workspace|no-deps|open|features|nocapture|exact|ignored'
    others+='|data-dir|(advertise|listen)-client-urls|prefix|consistency-models|include|ipc|boxes|check-targets'
    while read -r name; do
        grep -qE -- "^ +(-., )?$name( |=|\[|\$)" "$work/help" || fault "$1: no help lists $name"
    done < <(grep -vE 'cargo test|latchwork-benches|scripts/rdma|did you mean' "$1" |
        grep -oE -- '(^|[^a-z-])--(set )?[a-z][a-z0-9-]+' | sed -E 's/^[^-]*//; s/^--set +//' |
        grep -vxE -- "--($others)" | sort -u)
}

used='|'
for program in $programs; do listed "$program"; done >"$work/help"

# A wrong flag, which no help lists, and a line that does not appear: these three have to be found.
printf '%s\n' '```sh' 'ycsb --thread 3' '```' '```sh' ycsb '```' '```text' '[CHECK], records, no' '```' >"$work/planted.md"
{ commands "$work/planted.md" && names "$work/planted.md"; } >/dev/null 2>"$work/found"
[ "$faults" -eq 3 ] || { cat "$work/found" >&2; echo "pages: planted faults are not found" >&2; exit 1; }
faults=0

for page in "${pages[@]}"; do commands "$page"; done
for page in "${named[@]}"; do names "$page"; done
while IFS='|' read -r has reason; do
    [[ $# -gt 0 || -z $has || $used == *"|$has|"* ]] || fault "no block has $has, which is left out"
done <<<"$left_out"
[ "$faults" -eq 0 ]
