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

# The lists of the macros `counters! { /// what it counts / name, .. }`: the engine's, and those of
# the protocols, in which a name in quotes follows a variant.
sources=$(grep -rl --include='*.rs' '^counters! {' crates | sort)
page=docs/reference/settings.md
made=$(mktemp)
trap 'rm -f "$made"' EXIT
awk '
    BEGIN { table = "| counter | what it counts |\n| --- | --- |\n" }
    FILENAME != ARGV[ARGC - 1] {
        if (/^counters! \{/) inside = 1
        else if (inside && /^}/) inside = 0
        else if (inside && /^ *\/\/\//) { sub(/^ *\/\/\/ ?/, ""); text = text (text == "" ? "" : " ") $0 }
        else if (inside) { gsub(/^ *([A-Z][A-Za-z]* )?|[",]/, ""); table = table "| `" $0 "` | " text " |\n"; text = "" }
        next
    }
    $0 == "<!-- counters: begin -->" { print $0 "\n\n" table; skip = 1 }
    $0 == "<!-- counters: end -->" { skip = 0 }
    !skip' $sources "$page" >"$made"
if [ $# -eq 0 ]; then
    cp "$made" "$page"
elif ! cmp -s "$made" "$page"; then
    echo "reference: $page is out of date: run scripts/reference.sh" >&2
    exit 1
fi
