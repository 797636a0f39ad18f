#!/usr/bin/env bash
# Figure 15b: one node only writes and seven only read the same few lines (theta 10): operations so
# far of the writer and of one reader. Without help for writers, with hold-offs, and with priority
# matching (SELCC 5.3.2, 7.1.3).
. "$(dirname "$0")/lib.sh"
figure fig15b "$@"

variant() { # NAME, then flags
    point "variant=$1" -- \
        $(micro 8 8 --time "$(pick 0.05 0.02)" --warmup 10000 --set series-us=200 --set writer-nodes=1 --theta 10 "${@:2}")
}
variant "neither" --set spin-windows=off --set priority-matching=off
variant "spin windows" --set spin-windows=on --set priority-matching=off
variant "spin windows and priorities" --set spin-windows=on --set priority-matching=on

finish
