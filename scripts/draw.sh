#!/usr/bin/env bash
# Draws the pictures of the book: docs/pictures/NAME.txt becomes docs/pictures/NAME.svg.
#   scripts/draw.sh            draws all of them
#   scripts/draw.sh --check    draws nothing; exit status 1 when a picture is not its text's
# A text has one element a line; `|` in TEXT begins a new line of it, and `#` begins a comment.
#   title TEXT
#   lane ID TEXT               a column, for a part that acts; `margin N`, `spacing N` say where
#   verb|message|local A B TEXT    an arrow from lane A to lane B, below what came before
#   note|word A TEXT           a step of lane A; the value of a word that lies there
#   part TEXT, gap N           a heading across all lanes; room
#   means KIND TEXT            what the legend says of a kind of arrow
#   size W H                   a picture without lanes, with these:
#   box X Y W H node|step|state TEXT, arrow X1 Y1 X2 Y2 KIND TEXT, text X Y TEXT
# Needs awk only.
set -euo pipefail
export LC_ALL=C
cd "$(dirname "$0")/.."

case ${1-} in
'' | --check) ;;
*)
    echo "draw: $1 is no flag; there is --check" >&2
    exit 2
    ;;
esac

status=0
drawn=$(mktemp)
trap 'rm -f "$drawn"' EXIT
for text in docs/pictures/*.txt; do
    picture=${text%.txt}.svg
    awk -f scripts/draw.awk "$text" >"$drawn" || exit 1
    if [ "${1-}" != --check ]; then
        cp "$drawn" "$picture"
    elif ! cmp -s "$drawn" "$picture"; then
        echo "draw: $picture is not what $text says: run scripts/draw.sh" >&2
        status=1
    fi
done
exit $status
