#!/usr/bin/env bash
# Checks the book without building it:
# - every chapter that SUMMARY.md lists exists, in one of the folders, and is listed once;
# - every page in every folder is listed;
# - every relative link (README included) leads to a file and, where it names one, to a heading;
# - every page that code, scripts or settings name (`docs/FOLDER/PAGE.md#heading`) exists;
# - every picture is what its text says (scripts/draw.sh), and stands in a page;
# - the table of counters is what the source says (scripts/reference.sh), and so are the counted
#   lines of the R-tree (scripts/coherence-lines.sh).
# Prints each fault; exit status 1 when there is any.
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

# Reports a link of a page that leads nowhere: PAGE LINK TARGET, where TARGET is a path from here.
follow() {
    local page=$1 link=$2 target=$3
    if [ ! -e "$target" ]; then
        fault "$page: $link leads nowhere"
    elif [[ $link == *'#'* ]] && ! anchors "$target" | grep -qxF "${link#*#}"; then
        fault "$page: $link names no heading"
    fi
}

book=docs
chapters=$(links $book/SUMMARY.md | sed 's/#.*//')
listed=$(sort -u <<<"$chapters")
while read -r twice; do
    [ -z "$twice" ] || fault "SUMMARY.md lists $twice twice"
done < <(sort <<<"$chapters" | uniq -d)
for page in $listed; do
    [ -f "$book/$page" ] || fault "SUMMARY.md lists $page, which does not exist"
    [[ $page == */* ]] || fault "SUMMARY.md lists $page, which is in no folder of the book"
done
pages=$(find $book -path $book/book -prune -o -name '*.md' -print | sort)
for path in $pages; do
    page=${path#"$book"/}
    [ "$page" = SUMMARY.md ] || grep -qxF "$page" <<<"$listed" || fault "$page is not in SUMMARY.md"
done

for page in README.md $pages; do
    while read -r link; do
        case $link in '' | http:* | https:* | mailto:*) continue ;; esac
        file=${link%%#*}
        target=$page
        [ -z "$file" ] || target=$(dirname "$page")/$file
        follow "$page" "$link" "$target"
    done < <(links "$page")
done

# Pages that something outside the book names.
while IFS=: read -r file name; do
    follow "$file" "$name" "${name%%#*}"
done < <(grep -rnoIE --exclude-dir={target,.git,book} --exclude=glossary.md \
    '\bdocs/[a-z/-]+\.md(#[a-z0-9_-]+)?' . | sed -E 's/^\.\///; s/:[0-9]+:/:/' | sort -u)

scripts/draw.sh --check || fault "pictures are not what their texts say"
scripts/reference.sh --check || fault "the counters are not what the source says"
scripts/coherence-lines.sh --check || fault "the R-tree's lines have changed"
for picture in "$book"/pictures/*.svg; do
    grep -qF "pictures/${picture##*/})" $pages || fault "$picture stands in no page"
    [ -f "${picture%.svg}.txt" ] || fault "$picture has no text"
done

[ "$faults" -eq 0 ] || exit 1
echo "check-book: $(wc -w <<<"$listed") chapters, all links lead somewhere"
