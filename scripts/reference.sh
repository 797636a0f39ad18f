#!/usr/bin/env bash
# Fills the table of docs/reference/settings.md: the counters of a node, with their documentation.
#   scripts/reference.sh            writes the page
#   scripts/reference.sh --check    writes nothing; exit status 1 when the page differs
set -euo pipefail
export LC_ALL=C
cd "$(dirname "$0")/.."

if [ $# -gt 0 ] && [ "$*" != --check ]; then
    echo "reference: $* is no flag; there is --check" >&2
    exit 2
fi

# The list that a macro `counters! { /// what it counts / name, .. }` has.
source=$(grep -rl --include='*.rs' '^counters! {' crates)
[ "$(wc -w <<<"$source")" = 1 ] || {
    echo "reference: the counters of a node are in one file, and not in: $source" >&2
    exit 1
}
page=docs/reference/settings.md
made=$(mktemp)
trap 'rm -f "$made"' EXIT
awk '
    FILENAME == ARGV[1] {
        if (/^counters! \{/) { inside = 1; table = "| counter | what it counts |\n| --- | --- |\n" }
        else if (inside && /^}/) inside = 0
        else if (inside && /^ *\/\/\//) { sub(/^ *\/\/\/ ?/, ""); text = text (text == "" ? "" : " ") $0 }
        else if (inside) { gsub(/[ ,]/, ""); table = table "| `" $0 "` | " text " |\n"; text = "" }
        next
    }
    $0 == "<!-- counters: begin -->" { print $0 "\n\n" table; skip = 1 }
    $0 == "<!-- counters: end -->" { skip = 0 }
    !skip' "$source" "$page" >"$made"
if [ $# -eq 0 ]; then
    cp "$made" "$page"
elif ! cmp -s "$made" "$page"; then
    echo "reference: $page is out of date: run scripts/reference.sh" >&2
    exit 1
fi
