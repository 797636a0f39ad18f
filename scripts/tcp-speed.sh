#!/usr/bin/env bash
# Compares READs of 64 bytes over sockets with Redis' GETs of 64 bytes, in turn, with server and
# client each on its own core. Also compares the latency of one READ with a bare ping-pong of the
# same size. Needs Debian's redis-server and redis-tools, and two cores. Defaults: ROUNDS=3,
# SECONDS_EACH=1.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${ROUNDS:-3} each=${SECONDS_EACH:-1}
for tool in redis-server redis-benchmark taskset; do
    command -v "$tool" >/dev/null || { echo "$tool is missing: apt-get install redis-server redis-tools util-linux" >&2; exit 1; }
done
[ -n "${SPEED:-}" ] || cargo build --release --example speed -p latchwork-verbs-tcp
speed=${SPEED:-${CARGO_TARGET_DIR:-target}/release/examples/speed}
work=$(mktemp -d)
agent= redis= echo_=
trap 'for p in $agent $redis $echo_; do kill "$p" 2>/dev/null || :; done; rm -rf "$work"' EXIT

# CPU time of a process, in hundredths of a second.
cpu() { awk '{ print $14 + $15 }' "/proc/$1/stat"; }
# The first line that a server prints: its address.
await() {
    for _ in $(seq 100); do
        [ ! -s "$1" ] || { head -n 1 "$1"; return; }
        sleep 0.05
    done
    echo "a server did not start" >&2
    return 1
}

mkfifo "$work/open"
taskset -c 0 "$speed" serve <"$work/open" >"$work/agent" &
agent=$!
exec 7>"$work/open"
at=$(await "$work/agent")
port=$((20000 + RANDOM % 20000))
taskset -c 0 redis-server --port "$port" --bind 127.0.0.1 --save '' --appendonly no >"$work/redis" &
redis=$!
for _ in $(seq 100); do redis-cli -p "$port" ping >/dev/null 2>&1 && break || sleep 0.05; done

echo "| connections | under way on each | server | thousand/s | thousand per second of the server's CPU |"
echo "| --- | --- | --- | --- | --- |"
for shape in "1 64" "4 64" "50 16"; do
    read -r connections depth <<<"$shape"
    for _ in $(seq "$rounds"); do
        before=$(cpu "$agent") rate=$(taskset -c 1 "$speed" reads "$at" "$connections" "$depth" "$each")
        used=$(($(cpu "$agent") - before))
        # The uncounted first tenth of the time uses the server as well.
        awk -v r="$rate" -v u="$used" -v t="$each" -v c="$connections" -v d="$depth" \
            'BEGIN { printf "| %d | %d | agent | %.0f | %.0f |\n", c, d, r / 1e3, r * t * 1.1 / (u / 100) / 1e3 }'
        # A count that takes about the same time.
        count=$(awk -v t="$each" 'BEGIN { printf "%d", 800000 * t }')
        before=$(cpu "$redis")
        rate=$(taskset -c 1 redis-benchmark -p "$port" -t get -d 64 -c "$connections" -P "$depth" -n "$count" --csv 2>/dev/null |
            awk -F'"' '/GET/ { print $4 }')
        used=$(($(cpu "$redis") - before))
        awk -v r="$rate" -v u="$used" -v n="$count" -v c="$connections" -v d="$depth" \
            'BEGIN { printf "| %d | %d | redis | %.0f | %.0f |\n", c, d, r / 1e3, n / (u / 100) / 1e3 }'
    done
done
kill "$redis" && redis=

echo
echo "| one at a time | median, us | 99 % |"
echo "| --- | --- | --- |"
for _ in $(seq "$rounds"); do
    read -r median late < <(taskset -c 1 "$speed" latency "$at" "$each")
    echo "| READ | $median | $late |"
    taskset -c 0 "$speed" echo >"$work/echo" &
    echo_=$!
    read -r median late < <(taskset -c 1 "$speed" ping "$(await "$work/echo")" "$each")
    wait "$echo_" && echo_=
    : >"$work/echo"
    echo "| ping-pong | $median | $late |"
done
