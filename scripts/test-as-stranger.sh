#!/usr/bin/env bash
# usage: scripts/test-as-stranger.sh [--user NAME] [--limit SECONDS] [--keep] [--here]
#            [CARGO ARGUMENT ...]
# Runs the tests as a user without any rights on the machine. They run from a copy of this checkout
# that no process can write, with a separate target directory, under nohup. They have no home
# directory and no variables except PATH and TMPDIR. If root starts the script, each test program
# runs as root and as NAME (`nobody`); else as the present user. CARGO ARGUMENTs select the tests,
# as in `-p latchwork-memnode-app`; without them the whole workspace is tested.
#
# The target directory is STRANGER_TARGET (default: a new one under TMPDIR, which takes a whole
# build). --keep keeps it, and the logs of failed programs. --here takes no copy: this checkout is
# read-only while the tests run, so that programs which STRANGER_TARGET has of it are used. That
# needs root. Exit status 1 if any program failed.
set -euo pipefail
cd "$(dirname "$0")/.."

die() {
    echo "test-as-stranger: $*" >&2
    exit 2
}

user=nobody
limit=900
keep=
here=
while [[ ${1:-} == --* ]]; do
    case $1 in
        --user) user=${2:?} && shift ;;
        --limit) limit=${2:?} && shift ;;
        --keep) keep=yes ;;
        --here) here=yes ;;
        --workspace | --package | --test | --lib | --bins) break ;;
        *) die "there is no $1: see the head of this file" ;;
    esac
    shift
done
[ $# -gt 0 ] || set -- --workspace

work=$(mktemp -d "${TMPDIR:-/tmp}/latchwork-stranger.XXXXXX")
copy=$work/checkout
[ -z "$here" ] || copy=$PWD
target=${STRANGER_TARGET:-$work/target}
mounted=
end() {
    # Another process may have its working directory there. The checkout must not stay read-only.
    [ -z "$mounted" ] || umount "$copy" 2>/dev/null || umount --lazy "$copy" || true
    if [ -n "$keep" ]; then
        echo "test-as-stranger: $work is kept"
    else
        [ -n "$here" ] || chmod -R u+w "$copy" 2>/dev/null || true
        rm -rf "$work"
    fi
}
trap end EXIT
trap 'exit 130' INT TERM

mkdir -p "$copy" "$target"
if [ -z "$here" ]; then
    git ls-files -z --cached --others --exclude-standard | tar --null --ignore-failed-read -T - -cf - | tar -xf - -C "$copy"
    chmod -R a+rX,a-w "$copy"
elif [ "$(id -u)" != 0 ]; then
    die "--here makes this checkout read-only for a while: only root can"
fi
chmod a+rx "$work" "$target"
# Root can write read-only files; only a read-only file system prevents that.
if [ "$(id -u)" = 0 ]; then
    mount --bind "$copy" "$copy" && mounted=yes && mount -o remount,bind,ro "$copy" ||
        die "the copy cannot be mounted read-only: root needs CAP_SYS_ADMIN for this"
fi
if touch "$copy/Cargo.toml" 2>/dev/null; then
    die "the copy can be written to"
fi

# Cargo finds its own directory by the home directory, which it does not get here either.
export CARGO_HOME=${CARGO_HOME:-${HOME:?}/.cargo} RUSTUP_HOME=${RUSTUP_HOME:-${HOME:?}/.rustup}
list=$work/programs
echo "test-as-stranger: builds in $target"
(cd "$copy" && env -u HOME CARGO_TARGET_DIR="$target" cargo test --locked --no-run --message-format json "$@") |
    sed -nE 's/.*"manifest_path":"([^"]*\/([^"\/]*))\/Cargo.toml","target":\{"kind":\["(lib|bin|test)"\],.*"name":"([^"]*)","src_path.*"profile":\{[^}]*"test":true\}.*"executable":"([^"]+)".*/\2 \4 \1 \5/p' \
        >"$list"
[ -s "$list" ] || die "there is no test program"
chmod -R a+rX "$target"

users=("$(id -un)")
[ "$(id -u)" != 0 ] || users+=("$user")
path=/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin
bad=0
runs=0
for each in "${users[@]}"; do
    as=()
    if [ "$each" != "$(id -un)" ]; then
        as=(setpriv --reuid "$each" --regid "$(id -g "$each")" --clear-groups --)
    fi
    temporary=$work/tmp-$each
    mkdir -m 1777 "$temporary"
    while read -r crate program folder file; do
        log=$work/$each.$crate.$program
        since=$SECONDS
        status=0
        # In a separate session, without a terminal.
        (cd "$folder" && exec setsid --wait timeout --kill-after 10 "$limit" "${as[@]}" \
            env -i PATH="$path" TMPDIR="$temporary" nohup "$file") >"$log" 2>&1 </dev/null || status=$?
        runs=$((runs + 1))
        if [ "$status" = 0 ]; then
            printf 'ok      %-10s %s/%s, %s s\n' "$each" "$crate" "$program" $((SECONDS - since))
        else
            bad=$((bad + 1))
            printf 'FAILED  %-10s %s/%s: status %s\n' "$each" "$crate" "$program" "$status"
            tail -n 40 "$log"
        fi
    done <"$list"
done
echo "test-as-stranger: $bad of $runs runs failed"
[ "$bad" = 0 ]
