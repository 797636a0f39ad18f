#!/usr/bin/env bash
# Compares the structures and constants of libibverbs in crates/fabric/verbs-ibv with those that
# bindgen makes from its headers. Needs cmake and libclang, which the normal build must not need.
#   scripts/check-ibv-layout.sh [--prepare | ARGUMENTS OF CARGO TEST]
# --prepare only installs what is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
missing=()
command -v cmake >/dev/null || missing+=(cmake)
command -v cc >/dev/null || missing+=(build-essential)
command -v pkg-config >/dev/null || missing+=(pkg-config)
[ -e /usr/include/infiniband/verbs_api.h ] || missing+=(libibverbs-dev)
pkg-config --exists libnl-3.0 libnl-route-3.0 2>/dev/null || missing+=(libnl-3-dev libnl-route-3-dev)
ls /usr/lib/llvm-*/lib/libclang.so* /usr/lib/*/libclang*.so* >/dev/null 2>&1 || missing+=(libclang-dev)
if [ ${#missing[@]} -gt 0 ]; then
    command -v apt-get >/dev/null && [ "$(id -u)" -eq 0 ] ||
        { echo "check-ibv-layout: install these Debian packages: ${missing[*]}" >&2; exit 2; }
    timeout 300 apt-get -qq update >&2 || true
    DEBIAN_FRONTEND=noninteractive timeout 900 apt-get -qq -y --no-install-recommends -o DPkg::Lock::Timeout=600 install "${missing[@]}" >&2
fi
[ "${1:-}" != --prepare ] || exit 0
CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/layout exec cargo test --locked --manifest-path crates/fabric/verbs-ibv/layout/Cargo.toml "$@"
