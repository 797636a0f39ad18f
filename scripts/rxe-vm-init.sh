#!/bin/busybox sh
# The first process of the guest of rxe-vm.sh. It loads modules, mounts the shares, connects RDMA
# devices by a bridge, and runs the command.
b=/bin/busybox
tell() { echo "rxe-vm: $*"; }
fail() { tell "failed: $*"; $b dmesg | $b tail -n 20; $b poweroff -f; }
$b mount -t proc proc /proc
$b mount -t sysfs sysfs /sys
$b mount -t devtmpfs dev /dev
$b mkdir -p /dev/shm
$b mount -t tmpfs -o mode=1777 tmpfs /dev/shm
$b mount -t tmpfs -o mode=1777 tmpfs /tmp
$b ln -s /proc/self/fd /dev/fd
$b ln -s fd/0 /dev/stdin
$b ln -s fd/1 /dev/stdout
$b ln -s fd/2 /dev/stderr
while read -r module; do $b insmod "/modules/$module" || fail "module $module"; done </modules/order
while read -r tag directory; do
    $b mkdir -p "$directory"
    $b mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144,cache=loose,ro "$tag" "$directory" || fail "share $directory"
done </run/shares
# From here on the host's programs are used, at their places in Debian.
$b mv /bin /bin.first
b=/bin.first/busybox
for name in bin sbin lib lib64; do [ ! -e "/usr/$name" ] || $b ln -s "/usr/$name" "/$name"; done
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin HOME=/root LANG=C.UTF-8
ip=/usr/sbin/ip
[ -x $ip ] || ip=/usr/bin/ip
rdma=/usr/sbin/rdma
[ -x $rdma ] || rdma=/usr/bin/rdma

# All devices are in one network namespace, because this kernel's Soft-RoCE receives only in the
# first one. Each device has its own link to a bridge in another namespace. All addresses are local
# here, so the kernel would deliver frames directly. Rules before the local table send each frame
# through its link, so that it crosses the bridge.
read -r hosts </run/hosts
$ip link set lo up
for which in all default; do
    cd "/proc/sys/net/ipv4/conf/$which"
    echo 1 >accept_local
    echo 0 >rp_filter
    echo 1 >arp_ignore
    echo 2 >arp_announce
done
cd /
$ip rule add pref 1000 lookup local && $ip rule del pref 0 || fail "routing rules"
$ip netns add bridge
$ip -n bridge link add bridge0 type bridge mcast_snooping 0
$ip -n bridge link set bridge0 mtu 9000 up
host=1
while [ "$host" -le "$hosts" ]; do
    address=10.77.0.$host table=$((100 + host))
    $ip link add "host$host" mtu 9000 type veth peer name "port$host" mtu 9000 netns bridge || fail "link $host"
    $ip addr add "$address/24" dev "host$host" noprefixroute
    $ip link set "host$host" up
    $ip route add 10.77.0.0/24 dev "host$host" src "$address" table "$table"
    # Received frames, frames to the device itself, frames to others.
    $ip rule add pref 10 iif "host$host" lookup local
    $ip rule add pref 20 oif "host$host" to "$address" lookup local
    $ip rule add pref 30 oif "host$host" lookup "$table"
    $ip -n bridge link set "port$host" master bridge0 up
    $rdma link add "rxe$host" type rxe netdev "host$host" || fail "device rxe$host"
    host=$((host + 1))
done
host=1 tries=0
while [ "$host" -le "$hosts" ]; do
    port=/sys/class/infiniband/rxe$host/ports/1
    state=$($b cat "$port/state" "$port/gids/1" 2>/dev/null | $b tr '\n' ' ')
    case $state in
        *ACTIVE*:ffff:*) host=$((host + 1)) ;;
        *) tries=$((tries + 1)); [ "$tries" -lt 200 ] || fail "rxe$host does not come up: $state"; $b usleep 50000 ;;
    esac
done
tell ready

ulimit -l unlimited
# A port can be opened only once, and commands may open their outputs again.
$b mkfifo /run/out /run/err
$b cat </run/out >/dev/vport0p1 &
out=$!
$b cat </run/err >/dev/vport0p2 &
err=$!
/bin/bash /run/command </dev/null >/run/out 2>/run/err
status=$?
# Processes that the command has left may hold its outputs open.
($b sleep 3; kill $out $err) 2>/dev/null &
wait $out $err 2>/dev/null
echo "$status" >/dev/vport0p3
$b poweroff -f
