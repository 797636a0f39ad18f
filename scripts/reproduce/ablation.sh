#!/usr/bin/env bash
# Every switch of the protocol's settings, and every value worth a test, alone against the paper's
# mechanisms, in cells of all kinds: 8 compute and 8 memory nodes of 8 workers. The rows come from
# the settings table itself.
. "$(dirname "$0")/lib.sh"
figure ablation "$@"

# The name of the row, then flags.
row() {
    local cell
    for cell in "${!cells[@]}"; do
        point "cell=${names[$cell]}" "switch=$1" -- $(micro 8 8 ${cells[$cell]} "${@:2}")
    done
}

# Cells with different limits. Uniform accesses miss. With locality, half of the accesses hit the
# line of the previous one. Zipfian accesses meet at lines that are read mostly, or written as
# often. With theta 10 all nodes write to a few lines.
if [ "$quick" = 0 ]; then
    names=("uniform 50" "uniform 0" "local 50" "zipf 95" "zipf 50" "theta 10, 0")
    cells=("--reads 50" "--reads 0" "--reads 50 --set locality=50"
        "--reads 95 --theta 0.99" "--reads 50 --theta 0.99" "--reads 0 --theta 10")
else
    names=("uniform 50" "zipf 50")
    cells=("--reads 50" "--reads 50 --theta 0.99")
fi

row "the paper's, M op/s"
row "SEL" --protocol sel
while IFS=$'\t' read -r setting value; do
    flags=()
    case "$setting $value" in
    "takeover off") value=on ;;   # It is off in the first row.
    "linger 0") continue ;;       # That means something with adaptive release only: below.
    "release adaptive") flags=($(learned 8)) ;;
    esac
    row "$setting $value" --set "$setting=$value" "${flags[@]}"
done < <("$programs/figure" switches)
# Flags that are no protocol settings, and combinations.
row "inflight 4" --inflight 4
row "inflight 8" --inflight 8
row "adaptive, linger 0" --set release=adaptive --set linger=0 $(learned 8)
row "adaptive, takeover" --set release=adaptive --set takeover=on $(learned 8)
row "blind writes" --writes blind
row "blind writes, tso" --writes blind --consistency tso
row "blind writes, tso, one at a time" --writes blind --consistency tso --set write-batch=1
row "blind writes, pso" --writes blind --consistency pso
row "takeover, 4 in flight" --set takeover=on --inflight 4
row "adaptive, takeover, 4 in flight" --set release=adaptive --set takeover=on --inflight 4 $(learned 8)

finish
