#!/usr/bin/env bash
# Puts the results of all.sh into the book: the plots, the claims, the ablation. Takes all.sh's
# --out and --quick.
. "$(dirname "$0")/lib.sh"
figure all "$@"

mkdir -p "$repository/docs/evidence/reproduction"
: >"$out/figures.md"
for each in "${figures[@]}"; do
    [ -e "$out/$each/plot.svg" ] || fail "$out has no plot of $each; run scripts/reproduce/all.sh first"
    cp "$out/$each/plot.svg" "$repository/docs/evidence/reproduction/$each.svg"
    printf '![%s](reproduction/%s.svg)\n\n' "$each" "$each" >>"$out/figures.md"
done
"$programs/figure" page "$repository/docs/evidence/reproduction.md" \
    "claims=$out/claims.md" "figures=$out/figures.md" "ablation=$out/ablation/table.md"
