ip netns add far
for n in 0 1 2; do ip link set w$n netns far; ip -n far link set w$n up; done
ip netns exec far sh -c 'echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6; echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6'
ip -n far link add br0 address 02:00:00:00:03:00 type bridge; ip -n far addr add 10.0.0.9/24 dev br0; ip -n far link set br0 up
for n in 0 1 2; do ip -n far link set w$n master br0; done
received() { grep -o '[0-9]* received'; }
states() {
    for n in 0 1 2; do ip -d link show v$n | clean | grep -o '<.*>\|bond_slave.*failure_count [0-9]*'; done
    ip -d link show bond0 | clean | grep -o '<.*>\|active_slave [a-z0-9]*'
}
for mode in "active-backup primary_reselect always" "active-backup primary_reselect failure" "active-backup updelay 400 downdelay 400" balance-rr balance-xor broadcast; do
    echo "== $mode"
    ip link add bond0 address 02:00:00:00:02:00 type bond mode $mode miimon 100
    for n in 0 1 2; do ip link set v$n down; ip link set v$n master bond0; done
    case $mode in *reselect*) ip link set bond0 type bond primary v0;; esac
    ip addr add 10.0.0.1/24 dev bond0; ip link set bond0 up
    sleep 1.5
    states
    ping -q -c 4 -i 0.1 -W 0.5 10.0.0.9 | received
    ip -n far neigh show dev br0 | cut -d' ' -f1-3
    ip netns exec far bridge fdb show br br0 | grep 02:00:00:00:02:00 | grep -v permanent | cut -d' ' -f1-3
    echo "w0 loses its carrier"
    ip -n far link set w0 down
    sleep 1.5
    states
    # Without an announcement, it depends on when the far end asks for the address again.
    [ "${mode#balance}" != "$mode" ] || ip netns exec far bridge fdb show br br0 | grep 02:00:00:00:02:00 | grep -v permanent | cut -d' ' -f1-3
    ping -q -c 4 -i 0.1 -W 0.5 10.0.0.9 | received
    ip -n far link set w1 down; ip -n far link set w2 down
    sleep 1.5
    states
    ip -n far link set w0 up
    sleep 1.5
    states
    ping -q -c 2 -i 0.1 -W 0.5 10.0.0.9 | received
    ip -n far link set w1 up; ip -n far link set w2 up
    sleep 1.5
    states
    cat /proc/net/bonding/bond0 | clean
    ip link del bond0
    ip neigh flush all; ip -n far neigh flush all
    for n in 0 1 2; do ip link show v$n | clean; done
done
