#!/usr/bin/env bash
# Real verbs without RDMA hardware. Boots a stock Debian kernel with Soft-RoCE (rdma_rxe) in QEMU,
# with several RDMA devices on an Ethernet bridge. Runs a command there as root, streams its output,
# and ends with its exit status.
#   scripts/rxe-vm.sh [--hosts N] [--limit SECONDS] [--memory MIB] [--share DIRECTORY]...
#                     [--env NAME=VALUE]... [--console] [--count] COMMAND [ARGUMENT]...
#   scripts/rxe-vm.sh --prepare          only fetches and unpacks the kernel
# The command sees the host's /usr, this repository, its own directory and the shared ones, all
# read-only at their own paths. Host i of N (default: 3) is the device rxe<i> with the address
# 10.77.0.<i>. The machine has no network card, so nothing reaches the outside.
# With --count there is one processor, and time is its executed instructions, 2 ns each, however
# busy the host is: a program that measures itself counts instructions, its own and the kernel's.
# As cargo's runner:
#   CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER=$PWD/scripts/rxe-vm.sh cargo test -p ..
# Exit status: the command's; 124 out of time; 125 no virtual machine; 2 wrong usage.
set -euo pipefail

usage() { sed -n '2,15s/^# \?//p' "$0" >&2; exit 2; }
die() { echo "rxe-vm: $1" >&2; exit "${2:-125}"; }
number() { [[ ${1:-} =~ ^[1-9][0-9]{0,5}$ ]] || die "not a positive number: ${1:-}" 2; }

repository=$(realpath "$(dirname "$0")/..")
hosts=3 limit=600 memory=2048 prepare='' console='' count='' shares=("$repository") variables=()
while [ $# -gt 0 ]; do
    case $1 in
        --hosts) number "${2:-}"; hosts=$2; shift 2 ;;
        --limit) number "${2:-}"; limit=$2; shift 2 ;;
        --memory) number "${2:-}"; memory=$2; shift 2 ;;
        --share) shares+=("$(realpath -e -- "${2:?}")") || die "no such directory: $2" 2; shift 2 ;;
        --env) [[ ${2:-} =~ ^[A-Za-z_][A-Za-z0-9_]*= ]] || die "not NAME=VALUE: ${2:-}" 2; variables+=("$2"); shift 2 ;;
        --console) console=yes; shift ;;
        --count) count=yes; shift ;;
        --prepare) prepare=yes; shift ;;
        -*) usage ;;
        *) break ;;
    esac
done
[ -n "$prepare" ] || [ $# -gt 0 ] || usage
[ "$hosts" -le 32 ] || die "at most 32 hosts" 2

# ---- what the host lacks -------------------------------------------------------------------------

PATH=$PATH:/usr/sbin:/sbin
missing=()
needs() { command -v "$1" >/dev/null || missing+=("$2"); }
needs qemu-system-x86_64 qemu-system-x86
needs cpio cpio
needs depmod kmod
needs xz xz-utils
needs ip iproute2
needs flock util-linux
[ -e /etc/libibverbs.d/rxe.driver ] || missing+=(ibverbs-providers)
# Busybox runs before the host's libraries are there, so it must be static.
if [ ! -x /bin/busybox ] || ldd /bin/busybox >/dev/null 2>&1; then missing+=(busybox-static); fi
updated=
update() {
    [ -z "$updated" ] || return 0
    updated=yes
    [ "$(id -u)" -ne 0 ] || timeout 300 apt-get -qq -o DPkg::Lock::Timeout=240 update >&2 || true
}
if [ ${#missing[@]} -gt 0 ]; then
    command -v apt-get >/dev/null && [ "$(id -u)" -eq 0 ] || die "install these Debian packages: ${missing[*]}"
    update
    DEBIAN_FRONTEND=noninteractive timeout 900 apt-get -qq -y --no-install-recommends -o DPkg::Lock::Timeout=600 \
        install "${missing[@]}" >&2 || die "these Debian packages could not be installed: ${missing[*]}"
fi

# ---- what ends with this script ------------------------------------------------------------------

work=$(mktemp -d)
started=()
finish() {
    local pid
    for pid in "${started[@]}"; do kill "$pid" 2>/dev/null || true; done
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# ---- the kernel, fetched and unpacked once -------------------------------------------------------

# The guest's modules; their dependencies are added. Modules that a kernel has built in are skipped.
modules=(virtio_pci virtio_console 9pnet_virtio 9p ib_uverbs rdma_ucm crc32_generic rdma_rxe veth bridge sch_netem)
cache=${XDG_CACHE_HOME:-${HOME:-${TMPDIR:-/tmp}}/.cache}/latchwork/rxe-vm
# For another package: RXE_VM_KERNEL=linux-image-6.12-amd64, for instance.
package=${RXE_VM_KERNEL:-linux-image-amd64}
kernel=$cache/$package-1
mkdir -p "$cache"
exec 9>"$cache/lock"
flock -w 900 9 || die "another run has held $cache/lock for a quarter of an hour"
if [ ! -e "$kernel/complete" ]; then
    apt-cache show "$package" >/dev/null 2>&1 || update
    # The package depends on the package of the newest kernel.
    newest=$(apt-cache depends "$package" | awk '$1 == "Depends:" && $2 ~ /^linux-image-[0-9]/ { print $2; exit }')
    mkdir "$work/download" "$work/unpacked"
    # The package lists may name a kernel that has been replaced since.
    download() { (cd "$work/download" && timeout 600 apt-get -qq download "${newest:-$package}" >"$work/apt.log" 2>&1); }
    download || { update; download; } || { cat "$work/apt.log" >&2; die "cannot fetch the Debian package ${newest:-$package}"; }
    dpkg-deb -x "$work"/download/*.deb "$work/unpacked"
    version=$(ls "$work/unpacked/lib/modules")
    depmod -b "$work/unpacked" "$version"
    mkdir -p "$work/base/modules" "$work/base/bin"
    for module in "${modules[@]}"; do
        modprobe -d "$work/unpacked" -S "$version" --show-depends "$module" 2>/dev/null || true
    done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' >"$work/order"
    while read -r file; do
        name=$(basename "$file" .xz)
        case $file in *.xz) xz -dc "$file" ;; *) cat "$file" ;; esac >"$work/base/modules/$name"
        echo "$name" >>"$work/base/modules/order"
    done <"$work/order"
    grep -qx rdma_rxe.ko "$work/base/modules/order" || die "${newest:-$package} has no Soft-RoCE: RXE_VM_KERNEL names another package"
    cp /bin/busybox "$work/base/bin/"
    rm -rf "$kernel"
    mkdir "$kernel"
    cp "$work"/unpacked/boot/vmlinuz-* "$kernel/vmlinuz"
    (cd "$work/base" && find . | cpio -o -H newc --quiet) >"$kernel/base.cpio"
    rm -rf "$work/download" "$work/unpacked" "$work/base"
    touch "$kernel/complete"
fi
flock -u 9
[ -z "$prepare" ] || exit 0

# ---- the rest of the guest's first file system ---------------------------------------------------

case $1 in */*) [ ! -e "$1" ] || shares+=("$(dirname -- "$(realpath -e -- "$1")")") ;; esac
guest=$work/guest
mkdir -p "$guest"/{dev,etc,proc,root,run,sys,tmp,usr,var}
cp "$repository/scripts/rxe-vm-init.sh" "$guest/init"
chmod +x "$guest/init"
for file in libibverbs.d ld.so.cache ld.so.conf ld.so.conf.d passwd group nsswitch.conf alternatives; do
    [ ! -e "/etc/$file" ] || cp -a "/etc/$file" "$guest/etc/"
done
echo "127.0.0.1 localhost" >"$guest/etc/hosts"
echo "$hosts" >"$guest/run/hosts"
options=() index=0
# Outer directories come first, because inner ones are mounted over them.
while read -r directory; do
    [ "$directory" != / ] || die "/ cannot be shared" 2
    options+=(-fsdev "local,id=share$index,path=${directory//,/,,},security_model=none,multidevs=remap,readonly=on"
        -device "virtio-9p-pci,fsdev=share$index,mount_tag=share$index")
    echo "share$index $directory" >>"$guest/run/shares"
    index=$((index + 1))
done < <(printf '%s\n' /usr "${shares[@]}" | sort -u)
{
    echo "export RXE_HOSTS=$hosts"
    for name in RUST_BACKTRACE RUST_LOG RUST_TEST_THREADS; do
        [ -z "${!name:-}" ] || printf 'export %s=%q\n' "$name" "${!name}"
    done
    for variable in "${variables[@]}"; do printf 'export %s=%q\n' "${variable%%=*}" "${variable#*=}"; done
    printf 'cd %q 2>/dev/null || cd /\nexec' "$PWD"
    printf ' %q' "$@"
} >"$guest/run/command"
{ cat "$kernel/base.cpio"; (cd "$guest" && find . | cpio -o -H newc --quiet); } >"$work/initrd"

# ---- boots ---------------------------------------------------------------------------------------

# Two processors, or one with a clock that counts its instructions.
processors=(-accel 'tcg,thread=multi' -smp 2)
# One on which the kernel's memcpy, with which Soft-RoCE copies, does not use `rep movsb`. QEMU
# executes that instruction byte by byte, so that a reader on the other processor sees half a word.
# No RDMA device shows that.
model=max,-erms,-fsrm
[ -z "$count" ] || processors=(-accel tcg -icount 'shift=1,sleep=off' -smp 1)
# Always emulated: a boot takes seconds, and is the same on machines with and without KVM.
boot_limit=${RXE_VM_BOOT_LIMIT:-120}
deadline=$((SECONDS + limit))
over='rxe-vm: \(ready\|failed\)'
mkfifo "$work/out" "$work/err"

# The guest's clock is the processor's counter, which is cheap to read: QEMU emulates any other
# clock as a device.
# Boots once. Afterwards the file `status` has the command's status, if the command ran. Sets
# `ended` to QEMU's exit status.
boot() {
    : >"$work/status"
    : >"$work/console"
    cat <"$work/out" &
    local out=$!
    cat <"$work/err" >&2 &
    local err=$!
    timeout -k 5 $((deadline - SECONDS)) qemu-system-x86_64 "${processors[@]}" -cpu "$model" -m "$memory" \
        -machine q35 -nodefaults -no-user-config -display none -no-reboot -kernel "$kernel/vmlinuz" -initrd "$work/initrd" \
        -append "console=ttyS0 ${console:+loglevel=7 }quiet panic=-1 mitigations=off audit=0 random.trust_cpu=on preempt=full clocksource=tsc tsc=reliable" \
        -serial "file:$work/console" -device virtio-serial-pci \
        -chardev "file,id=out,path=$work/out" -device virtserialport,nr=1,chardev=out \
        -chardev "file,id=err,path=$work/err" -device virtserialport,nr=2,chardev=err \
        -chardev "file,id=status,path=$work/status" -device virtserialport,nr=3,chardev=status \
        "${options[@]}" </dev/null >"$work/qemu.log" 2>&1 &
    local qemu=$!
    {
        for ((second = 0; second < boot_limit; second++)); do
            ! grep -q "$over" "$work/console" || exit 0
            sleep 1
        done
        touch "$work/stuck"
        kill "$qemu"
    } >/dev/null 2>&1 &
    local watchdog=$!
    started=("$out" "$err" "$qemu" "$watchdog")
    ended=0
    wait "$qemu" || ended=$?
    # Readers of pipes that QEMU never opened would wait without end.
    kill "$watchdog" 2>/dev/null || true
    if [ ! -s "$work/status" ]; then (exec 3<>"$work/out" 4<>"$work/err") || true; fi
    wait "$out" "$err" || true
    started=()
    [ -z "$console" ] || cat "$work/console" >&2
}

# Now and then emulation loses a race with the kernel while it boots (the kernel patches its own
# code). A guest that has not reached the command is booted again.
for attempt in 1 2 3; do
    rm -f "$work/stuck"
    [ "$SECONDS" -lt "$deadline" ] || { ended=124; break; }
    boot
    status=$(tr -dc 0-9 <"$work/status")
    [ -z "$status" ] || exit "$status"
    [ "$ended" -ne 124 ] && [ "$ended" -ne 137 ] || [ -e "$work/stuck" ] || break
    ! grep -q "$over" "$work/console" || break
    echo "rxe-vm: boot $attempt of 3 did not come to the command" >&2
done
{ cat "$work/qemu.log"; tail -n 25 "$work/console"; } >&2
[ "$ended" -ne 124 ] && [ "$ended" -ne 137 ] || die "out of time after $limit s" 124
die "the virtual machine ended without a result"
