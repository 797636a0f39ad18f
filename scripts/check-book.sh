#!/usr/bin/env bash
# Checks the book without building it. Every chapter in SUMMARY.md exists, and every page is listed.
# Every relative link (also in README) leads to a file and, if it names one, to a heading. Prints
# each fault; exit status 1 if there is any.
set -euo pipefail
cd "$(dirname "$0")/.."

faults=0
fault() {
    echo "check-book: $*" >&2
    faults=$((faults + 1))
}

# Link targets in a page, one per line. Code blocks and code spans are left out.
links() {
    awk '/^ *```/ { code = !code; next } !code' "$1" | sed 's/`[^`]*`//g' |
        { grep -oE '\]\([^) ]+\)' || true; } | sed 's/^](//; s/)$//'
}

# The anchors of a page's headings, as mdBook and GitHub make them.
anchors() {
    awk '/^ *```/ { code = !code; next } !code && /^#+ /' "$1" |
        sed -E 's/^#+ +//; s/[`*]//g; s/\[([^]]*)\]\([^)]*\)/\1/g' |
        tr '[:upper:]' '[:lower:]' | sed -E 's/[^[:alnum:] _-]//g; s/ /-/g'
}

book=docs
listed=$(links $book/SUMMARY.md | sed 's/#.*//' | sort -u)
for page in $listed; do
    [ -f "$book/$page" ] || fault "SUMMARY.md lists $page, which does not exist"
done
for path in "$book"/*.md; do
    page=${path#"$book"/}
    [ "$page" = SUMMARY.md ] || grep -qxF "$page" <<<"$listed" || fault "$page is not in SUMMARY.md"
done

for page in README.md "$book"/*.md; do
    while read -r link; do
        case $link in '' | http:* | https:* | mailto:*) continue ;; esac
        file=${link%%#*}
        target=$page
        [ -z "$file" ] || target=$(dirname "$page")/$file
        if [ ! -e "$target" ]; then
            fault "$page: $link leads nowhere"
        elif [ "$link" != "$file" ] && ! anchors "$target" | grep -qxF "${link#*#}"; then
            fault "$page: $link names no heading"
        fi
    done < <(links "$page")
done

[ "$faults" -eq 0 ] || exit 1
echo "check-book: $(wc -w <<<"$listed") chapters, all links lead somewhere"
