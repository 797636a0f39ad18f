#!/usr/bin/env bash
# All figures: first all runs, in parallel, then the plots, and one table of all claims, claims.md.
# Ends with status 1 when a figure could not be made; the other figures exist then.
. "$(dirname "$0")/lib.sh"
figure all "$@"

options=(--out "$out" --jobs "$jobs")
[ "$quick" = 0 ] || options+=(--quick)
[ "$keep" = 0 ] || options+=(--keep)

lists=()
for each in "${figures[@]}"; do
    "$scripts/$each.sh" "${options[@]}" --plan
    lists+=("$out/$each/points.tsv")
done
[ "$plan" = 0 ] || exit 0
status=0
[ "$draw" = 1 ] || (run "${lists[@]}") || status=1
claims=()
for each in "${figures[@]}"; do
    if "$scripts/$each.sh" "${options[@]}" --draw; then
        claims+=("$out/$each/claims.json")
    else
        status=1
    fi
done
[ "${#claims[@]}" = 0 ] || "$programs/figure" claims "${claims[@]}" >"$out/claims.md"
echo "all: $out/claims.md has the claims of ${#claims[@]} figures; $((SECONDS / 60)) min $((SECONDS % 60)) s"
exit $status
