#!/usr/bin/env bash
# Counts the lines of the R-tree that know of coherence, and fills the table in
# docs/guides/porting-an-index.md.
#   scripts/coherence-lines.sh            writes the page
#   scripts/coherence-lines.sh --check    writes nothing; exit status 1 when the page differs
#   scripts/coherence-lines.sh DIR        prints the table of another index: crates/index/blink/src
# Comments, empty lines and tests do not count. A line counts once, in the first row that fits.
set -euo pipefail
export LC_ALL=C
cd "$(dirname "$0")/.."

table() {
    find "$1" -name '*.rs' ! -name tests.rs | sort | xargs awk '
        FNR == 1 { test = 0; files++ }
        /^#\[cfg\(test\)\]/ { test = 1 }
        test || /^ *(\/\/|$)/ { next }
        { lines++ }
        /CoherentMemory/ { count["the memory as a type parameter"]++; next }
        /memory\.(try_)?enter\(|drop\(operation\)/ { count["begin and end of an operation"]++; next }
        /try_read|\.validate\(\)/ { count["optimistic reads, and their validation"]++; next }
        /try_write|mark_dirty|drop\(guard\)/ { count["writes under a guard"]++; next }
        /Need|memory\.ensure|_ticket/ { count["a line that is not here, and the wait for it"]++; next }
        /memory\.(allocate|free)\(/ { count["lines from the pool, and back"]++; next }
        /[Hh]int|prefetch|memory\.guess/ { count["hints: where a page probably is in the cache"]++; next }
        /\.coop\(\)/ { count["turns of other tasks"]++; next }
        { none++ }
        END {
            print "| what the lines know | lines |"
            print "| --- | --- |"
            order = "the memory as a type parameter;begin and end of an operation;optimistic reads, and their validation;writes under a guard;a line that is not here, and the wait for it;lines from the pool, and back;hints: where a page probably is in the cache;turns of other tasks"
            n = split(order, rows, ";")
            for (i = 1; i <= n; i++) printf "| %s | %d |\n", rows[i], count[rows[i]]
            printf "| together | %d |\n| nothing of coherence | %d |\n", lines - none, none
        }'
    printf '| latch words, owners, invalidation, messages | %d |\n' \
        "$(grep -rhiE 'latch_?word|invalidat|ownership|inbox|ComputeNodeId|MemoryNodeId' "$1" --include='*.rs' | grep -vcE '^ *//' || true)"
}

case ${1:-} in
'' | --check) ;;
-*)
    echo "coherence-lines: $1 is no flag; there is --check, or a directory" >&2
    exit 2
    ;;
*)
    [ -d "$1" ] || { echo "coherence-lines: $1 is no directory" >&2; exit 2; }
    table "$1"
    exit
    ;;
esac

page=docs/guides/porting-an-index.md
made=$(mktemp)
trap 'rm -f "$made" "$made.page"' EXIT
table crates/index/rtree/src >"$made"
awk -v made="$made" '
    $0 == "<!-- lines: begin -->" {
        print
        print ""
        while ((getline line < made) > 0) print line
        print ""
        skip = 1
    }
    $0 == "<!-- lines: end -->" { skip = 0 }
    !skip' "$page" >"$made.page"
if [ -z "${1:-}" ]; then
    cp "$made.page" "$page"
elif ! cmp -s "$made.page" "$page"; then
    echo "coherence-lines: $page is out of date: run scripts/coherence-lines.sh" >&2
    exit 1
fi
