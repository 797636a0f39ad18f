#!/usr/bin/env bash
# Puts what all.sh made into the book: the plots, the claims, the ablation. Takes all.sh's --out.
. "$(dirname "$0")/lib.sh"
figure all "$@"

[ "$quick" = 0 ] || fail "short runs do not belong into the book"
for plot in "$out"/*/plot.svg; do
    [ -e "$plot" ] || fail "$out has no plots; run scripts/reproduce/all.sh first"
    each=${plot%/plot.svg}
    cp "$plot" "$repository/docs/reproduction/${each##*/}.svg"
done
"$programs/figure" page "$repository/docs/reproduction.md" \
    "claims=$out/claims.md" "ablation=$out/ablation/table.md"
