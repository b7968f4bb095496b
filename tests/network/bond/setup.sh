[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd
mount -t tmpfs tmpfs /run
ip link set lo up
echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6; echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6
for n in 0 1 2; do ip link add v$n address 02:00:00:00:00:0$n type veth peer name w$n address 02:00:00:00:01:0$n; done
r() { echo "\$ $*"; "$@" 2>&1 | clean; }
settle() { sleep 1.5; }
clean() {
    sed -E -e 's/^[0-9]+: //; s/@if?[^:]*//; s/ minmtu.*//; s/ promiscuity.*//; s/ permaddr.*//; s/ link-netns .*//; s/ qdisc [a-z_]+//; s/ addrgenmode.*//; s/ numtxqueues.*//; s/ +$//' \
        -e 's/ coupled_control [a-z]+//; s/ broadcast_neighbor [a-z]+//; s/^(Ethernet Channel Bonding Driver:).*/\1/'
}
