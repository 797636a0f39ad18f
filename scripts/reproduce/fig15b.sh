#!/usr/bin/env bash
# Figure 15b: one node only writes and seven only read the same few lines (theta 10): operations so
# far of the writer and of one reader. Without help for writers, with hold-offs, and with priority
# matching (SELCC 5.3.2, 7.1.3).
. "$(dirname "$0")/lib.sh"
figure fig15b "$@"

variant() { # NAME, then flags
    point "variant=$1" -- \
        $(micro 8 8 --time "$(pick 0.05 0.02)" --warmup 10000 --series-us 200 --writer-nodes 1 --theta 10 "${@:2}")
}
variant "neither" --spin-windows off --priority-matching off
variant "spin windows" --spin-windows on --priority-matching off
variant "spin windows and priorities" --spin-windows on --priority-matching on

finish
