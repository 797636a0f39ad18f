#!/usr/bin/env bash
# The table below figure 13: lines of 512 bytes to 8 KiB, write-only, with constant bytes of data
# and of cache (SELCC 7.1.2).
. "$(dirname "$0")/lib.sh"
figure fig13-table "$@"

for bytes in 512 1024 2048 4096 8192; do
    point bytes=$bytes series=SELCC -- \
        $(micro 8 8 --gcl-size $bytes --lines $((lines * 2048 / bytes)) --reads 0 --set locality=50)
done

finish
