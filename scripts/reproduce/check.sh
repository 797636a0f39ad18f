#!/usr/bin/env bash
# Checks the scripts themselves with a tiny figure, in seconds. The figure is made, nothing runs
# twice, each error is one line, and an interrupted script leaves no process behind.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

die() {
    echo "check: $*" >&2
    [ ! -e "$work/log" ] || sed 's/^/    /' "$work/log" >&2
    exit 1
}

# A figure of four runs with these further flags.
tiny() {
    cat >"$work/tiny.sh" <<TEXT
. "$here/lib.sh"
needs=(--bin microbench)
figure tiny "\$@"
for nodes in 1 2; do
    for protocol in selcc sel; do
        point nodes=\$nodes series=\$protocol -- microbench "\${simulated[@]}" --compute-nodes \$nodes \\
            --memory-nodes 2 --threads 2 --lines 500 --operations 2000 --protocol \$protocol $*
    done
done
finish
TEXT
}

cat >"$work/tiny.toml" <<'TEXT'
title = "Tiny"
[plot]
kind = "lines"
x = "nodes"
series = "series"
[[claim]]
text = "no protocol is a thousand times the other"
source = "check"
kind = "ratio"
of = { series = "selcc", nodes = "2" }
to = { series = "sel", nodes = "2" }
at-most = 1000.0
TEXT

# Runs the tiny figure. Its status is in `status`, its output in $work/log.
make() {
    status=0
    bash "$work/tiny.sh" --out "$work/out" "$@" >"$work/log" 2>&1 || status=$?
}

runs() {
    grep -cE '^[0-9]+/[0-9]+ .*: [0-9]+ s$' "$work/log" || true
}

tiny ""
make
[ "$status" = 0 ] || die "a tiny figure cannot be made"
[ "$(runs)" = 4 ] || die "four points are not four runs"
grep -q "thousand times.*holds" "$work/log" || die "the claim is not told"
[ "$(wc -l <"$work/out/tiny/points.csv")" = 5 ] || die "points.csv has not four points"
[ "$(tail -n 1 "$work/out/tiny/plot.svg")" = "</svg>" ] || die "plot.svg has no end"

first=$(cat "$work/out/tiny/points.csv" "$work/out/tiny/plot.svg" | sha256sum)
make
[ "$status" = 0 ] && [ "$(runs)" = 0 ] || die "what is there is run again"
make --again --jobs 1
[ "$status" = 0 ] && [ "$(runs)" = 4 ] || die "--again does not run all again"
[ "$(cat "$work/out/tiny/points.csv" "$work/out/tiny/plot.svg" | sha256sum)" = "$first" ] ||
    die "the same runs have other results"

make --often
[ "$status" = 2 ] && grep -q "no option --often" "$work/log" || die "an unknown option goes unnoticed"

tiny '$([ $nodes = 1 ] || echo --lease-of-life 3)'
make
[ "$status" = 2 ] || die "runs that fail go unnoticed"
[ "$(grep -c "nodes=2 series=.*--lease-of-life.*run it alone: microbench" "$work/log")" = 2 ] ||
    die "a run that fails is not one line with its reason"
grep -q "2 of 2 runs failed" "$work/log" || die "how many runs failed is not said"

tiny ""
sed -i 's/nodes = "2" }/nodes = "3" }/' "$work/tiny.toml"
make
[ "$status" = 2 ] && grep -q 'claim no protocol.*`of` selects no point' "$work/log" ||
    die "a claim about nothing goes unnoticed"

tiny "--time 1000 --operations 1000000000"
bash "$work/tiny.sh" --out "$work/out" --jobs 2 >"$work/log" 2>&1 &
script=$!
running() { pgrep -f -- "--json $work/out/" >/dev/null; }
# A build without work comes before them, but it may have to wait for another build.
for _ in $(seq 1200); do
    ! running || break
    kill -0 "$script" 2>/dev/null || die "the script of endless runs ends before they begin"
    sleep 0.1
done
running || die "endless runs do not begin"
kill "$script"
status=0
wait "$script" || status=$?
[ "$status" = 130 ] || die "an interrupted script ends with status $status"
! running || die "an interrupted script leaves runs behind"
[ -z "$(find "$work/out/points" -name '*.part' -o -name '*.log')" ] || die "an interrupted run leaves files behind"

echo "check: a tiny figure is made, kept, refused and interrupted as it should be"
