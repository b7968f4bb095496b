"""Bridges made inside a host: scripts of iproute2 give on a simulated host what they give in namespaces of this machine's kernel, and frames go where
the states of ports, VLANs and the spanning tree let them."""

import json
import re

import pytest
from conftest import EXAMPLES, assert_same_hosts, execute, in_namespaces

# Interfaces as both kernels make them, without traffic of IPv6. `r` shows a command before its output, without what depends on the
# build of the kernel or on memberships of multicast groups.
SETUP = """
ip link set lo up
echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6; echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6
for n in 0 1 2; do ip link add v$n address 02:00:00:00:00:0$n type veth peer name w$n address 02:00:00:00:01:0$n; done
r() { echo "\\$ $*"; "$@" 2>&1 | clean; }
# The kernel notices carriers once a second.
settle() { sleep 1.2; }
clean() {
    sed -E -e 's/ minmtu.*//; s/ promiscuity.*//; s/ addrgenmode.*//; s/(gc|forward_delay|message_age)_timer +[0-9.]+//g; s/@if?[^:]*//' \\
        -e 's/(vlan_protocol|vlan_default_pvid|vlan_stats_enabled|vlan_stats_per_port) [^ ]+ //g; s/^[0-9]+: //' \\
        -e 's/ qdisc [a-z_]+//; s/ allmulti [0-9]//; s/numtxqueues.*//; s/ +$//' | grep -vE ' self | vlan 1 |^ *veth *$'
}
"""

SCRIPTS = {
    "settings": """
        r ip link add br0 type bridge
        r ip link set br0 address 02:00:00:00:02:00
        r ip -d link show br0
        r ip link add br0 type bridge
        r ip link set br0 type bridge ageing_time 1000 stp_state 0 priority 4096 forward_delay 400 hello_time 300 max_age 1500
        r ip -d link show br0
        r ip link set br0 type bridge hello_time 1
        r ip link set br0 type bridge max_age 5000
        r ip link set br0 type bridge group_fwd_mask 1
        r ip link set br0 type bridge group_fwd_mask 8 group_address 01:80:c2:00:00:0e no_linklocal_learn 1
        r ip link set br0 type bridge group_address 01:80:c2:00:00:02
        r ip link set br0 type bridge nf_call_iptables 0
        r ip -d link show br0
        r ip link set br0 type bridge stp_state 2
        r ip link set br0 type vlan id 5
        r ip link set v0 master br0
        r ip link set v0 master br0
        r ip link set lo master br0
        r ip link set v1 master v0
        r ip link add br1 type bridge
        r ip link set br1 master br0
        r ip link set v0 type bridge_slave cost 5 priority 7 hairpin on guard on root_block on learning off flood off mcast_flood off bcast_flood off
        r ip link set v0 type bridge_slave cost 0
        r ip link set v0 type bridge_slave cost 65536
        r ip link set v0 type bridge_slave priority 64
        r ip link set v0 type bridge_slave isolated on neigh_suppress on locked on group_fwd_mask 8
        r ip -d link show v0
        r ip link set v1 type bridge_slave cost 5
        r bridge link show
        r bridge -d link show
        r bridge link set dev v0 cost 9 learning on flood on
        r bridge link set dev v0 state 3
        r bridge link set dev v1 cost 9
        r bridge link show dev v0
        r ip link set v0 master br1
        r ip link show master br1
        r ip link show type bridge
        r ip link show master br0
        r ip link set v0 nomaster
        r ip link show v0
        r ip link show br1
        r ip link del br0
        r ip link del br0
        r ip link show type bridge
    """,
    "states": """
        ip link add br0 type bridge
        ip link show br0 | clean | grep -v ether
        ip link set br0 up; settle
        ip link show br0 | clean | grep -v ether
        ip link set v0 master br0
        r ip link show br0
        ip link set v0 up; settle
        r ip link show v0
        r ip link show br0
        r bridge link show
        ip link set w0 up; settle
        r bridge link show
        r ip link show br0
        ip link set v1 master br0 mtu 1400
        r ip link show br0
        ip link set v1 up; ip link set w1 up; settle
        r bridge link show
        ip link set v0 down
        r bridge link show
        r ip link show br0
        ip link set br0 down
        r bridge link show
        ip link set br0 up; settle
        r bridge link show
        ip link set v1 nomaster
        r ip link show br0
        ip link set v1 master br0
        ip link set br0 address 02:00:00:00:02:00 mtu 1300
        ip link set v0 up; settle
        r ip link show br0
        r bridge link show
        ip link del v1
        r bridge link show
        ip link del br0
        r ip link show v0
        r ip link show type bridge
    """,
    # A veth interface, then a bridge, that loses its carrier loses its neighbours and next hops.
    "carriers": """
        ip link add br0 type bridge; ip link set br0 up
        ip link set v0 up; ip link set w0 up; ip link set v1 master br0 up; ip link set w1 up; settle
        for n in 0 1; do
            device=$([ $n = 0 ] && echo v0 || echo br0)
            ip addr add 10.$n.0.1/24 dev $device
            ip neigh add 10.$n.0.2 lladdr 02:00:00:00:09:02 nud stale dev $device
            ip neigh add 10.$n.0.3 lladdr 02:00:00:00:09:03 nud permanent dev $device
            ip nexthop add id $((7 + n)) via 10.$n.0.2 dev $device
        done
        r ip neigh | sort; r ip nexthop
        ip link set w0 down; settle
        r ip neigh | sort; r ip nexthop; r ip route | grep -v default
        ip link set w1 down; settle
        r ip neigh | sort; r ip nexthop; r ip route | grep -v default; r ip link show br0
        ip link set w0 up; ip link set w1 up; settle
        r ip neigh | sort; r ip nexthop; r ip route | grep -v default; r ip link show br0
    """,
    "entries": """
        ip link add br0 address 02:00:00:00:02:00 type bridge
        for n in 0 1; do ip link set v$n master br0 up; ip link set w$n up; done
        ip link set br0 up
        r bridge fdb show br br0
        r bridge fdb add 02:00:00:00:03:01 dev v0 master
        r bridge fdb add 02:00:00:00:03:01 dev v0 master
        r bridge fdb add 02:00:00:00:03:02 dev v0 master static
        r bridge fdb add 02:00:00:00:03:03 dev v0 master dynamic
        r bridge fdb add 02:00:00:00:03:04 dev v1 master static sticky
        r bridge fdb add 02:00:00:00:03:05 dev v1 master extern_learn
        r bridge fdb add 02:00:00:00:03:06 dev v2 master
        r bridge fdb add 02:00:00:00:03:07 dev br0 self
        r bridge fdb add 02:00:00:00:03:08 dev br0 self dynamic
        r bridge fdb add 00:00:00:00:00:00 dev v0 master
        r bridge fdb show br br0
        r bridge fdb show brport v1
        r bridge fdb show dynamic
        r bridge fdb replace 02:00:00:00:03:03 dev v1 master static
        r bridge fdb change 02:00:00:00:03:09 dev v1 master
        r bridge fdb append 02:00:00:00:03:03 dev v1 master
        r bridge fdb del 02:00:00:00:03:02 dev v1 master
        r bridge fdb del 02:00:00:00:03:02 dev v0 master
        r bridge fdb del 02:00:00:00:03:02 dev v0 master
        r bridge fdb get 02:00:00:00:03:03 br br0
        r bridge fdb get 02:00:00:00:03:33 br br0
        r bridge fdb show br br0
        r ip link set v0 type bridge_slave fdb_flush
        r bridge fdb show br br0
        ip link set v0 address 02:00:00:00:03:55
        r bridge fdb show br br0
        ip link set v0 nomaster
        r bridge fdb show br br0
        ip link set br0 type bridge fdb_flush
        r bridge fdb show br br0
    """,
    # Learning, forwarding, isolated ports, ageing.
    "traffic": """
        mount -t tmpfs tmpfs /run
        ip link add br0 address 02:00:00:00:02:00 type bridge
        for n in 0 1 2; do
            ip netns add n$n; ip link set w$n netns n$n
            ip netns exec n$n sh -c 'echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6'
            ip -n n$n addr add 10.0.0.1$n/24 dev w$n; ip -n n$n link set w$n up
            ip link set v$n master br0 up
        done
        ip addr add 10.0.0.1/24 dev br0; ip link set br0 up
        sleep 0.1
        r ip netns exec n0 ping -q -c 3 -i 0.2 10.0.0.11 | grep -o '[0-9]* received'
        r bridge fdb show br br0 | clean | grep -v permanent | sort
        ping -q -c 2 -i 0.2 10.0.0.12 | grep -o '[0-9]* received'
        ip netns exec n1 ping -q -c 2 -i 0.2 10.0.0.1 | grep -o '[0-9]* received'
        bridge fdb show br br0 | clean | grep -v permanent | sort
        ip link set v0 type bridge_slave isolated on; ip link set v1 type bridge_slave isolated on
        ip netns exec n0 ping -q -c 1 -W 0.3 10.0.0.11 | grep -o '[0-9]* received'
        ip netns exec n0 ping -q -c 1 -W 0.3 10.0.0.12 | grep -o '[0-9]* received'
        ip link set v0 type bridge_slave isolated off learning off
        bridge fdb del 02:00:00:00:01:00 dev v0 master
        ip netns exec n0 ping -q -c 2 -i 0.2 10.0.0.12 | grep -o '[0-9]* received'
        bridge fdb show br br0 | clean | grep -v permanent | sort
        ip link set v0 type bridge_slave learning on
        ip link set br0 type bridge ageing_time 0
        ip netns exec n0 ping -q -c 2 -i 0.2 10.0.0.12 | grep -o '[0-9]* received'
        bridge fdb show br br0 | clean | grep -v permanent | sort
        ip link set br0 type bridge ageing_time 100
        ip netns exec n0 ping -q -c 1 10.0.0.12 | grep -o '[0-9]* received'
        bridge fdb show br br0 | clean | grep -v permanent | sort
        sleep 1.5
        bridge fdb show br br0 | clean | grep -v permanent | sort
        ip link set v2 type bridge_slave state 4
        ip netns exec n0 ping -q -c 1 -W 0.3 10.0.0.12 | grep -o '[0-9]* received'
        bridge link show dev v2 | grep -o 'state.*'
    """,
    # Two bridges joined twice: one port blocks, and takes over when the other link ends.
    "stp": """
        for n in 0 1; do
            ip link add br$n address 02:00:00:00:02:0$n type bridge stp_state 1 forward_delay 200 hello_time 100 max_age 600
            ip link set br$n up
        done
        for n in 0 1; do
            ip link set v$n master br0; ip link set w$n master br1
            ip link set v$n up; ip link set w$n up
        done
        r bridge link show
        sleep 2.5
        r bridge link show
        sleep 4
        r bridge link show
        r ip -d link show br1
        r ip -d link show w1
        ip link set v0 down
        sleep 0.2
        r bridge link show
        sleep 5
        r bridge link show
        ip link set br1 type bridge priority 4096
        sleep 6
        r ip -d link show br0
        r bridge link show
        ip link set br0 type bridge stp_state 0
        r ip -d link show br0
    """,
}


def compare(exec_guest, workdir, script):
    """The output of a script in namespaces of this machine and on a simulated host."""
    script = SETUP + script
    ours = exec_guest(["bash", "-c", script])
    probe = "ip link add br0 type bridge && ip link add v0 type veth peer name v1"
    if execute(["unshare", "-nm", "sh", "-c", probe]).status != 0:
        pytest.skip("this machine's kernel has no bridges, or namespaces are denied")
    linux = in_namespaces(script, workdir / "real", lambda run: run.out == ours.out)
    assert linux.out.count("\n") > 8, linux
    assert ours.out == linux.out, f"{linux}\n{ours}"


@pytest.mark.needs("ip", "bridge", "unshare", "ping")
@pytest.mark.parametrize("name", SCRIPTS)
def test_as_on_linux(exec_guest, workdir, name):
    """Bridges and their settings."""
    compare(exec_guest, workdir, SCRIPTS[name])

VXLAN = {
    "settings": """
        ip addr add 10.0.0.1/24 dev v0; ip link set v0 up; ip link set w0 up
        r ip link add vx0 address 02:00:00:00:03:00 type vxlan id 10 dstport 4789 local 10.0.0.1 remote 10.0.0.2 dev v0
        r ip link add vx1 address 02:00:00:00:03:01 type vxlan id 11 group 239.1.1.1 dstport 0 dev v0 ttl 5 nolearning
        r ip link add vx2 type vxlan id 10 dstport 4789 dev v0
        r ip link add vx2 address 02:00:00:00:03:02 type vxlan id 10 dstport 4790 tos 8 df set ageing 60 maxaddress 3 srcport 5000 6000 noudpcsum
        r ip link add vx5 address 02:00:00:00:03:05 type vxlan id 15 dstport 4789 local 2001:db8::1 nolearning udp6zerocsumtx
        r ip link add vx6 type vxlan dstport 4789
        r ip link set vx5 up
        r ip -d link show type vxlan
        r ip link set vx0 type vxlan id 20
        r ip link set vx0 type vxlan dstport 20
        r ip link set vx0 type vxlan ageing 20 remote 10.0.0.99 ttl 9
        r ip -d link show vx0
        r bridge fdb show dev vx0
        r ip link set vx0 mtu 9000
        r ip link set vx0 mtu 1400
        r ip link show vx0
        r ip link set vx0 up
        r ip link show vx0
        r ip link del vx0
        r ip link show vx0
    """,
    "entries": """
        ip addr add 10.0.0.1/24 dev v0; ip link set v0 up; ip link set w0 up
        ip link add vx0 type vxlan id 10 dstport 4789 local 10.0.0.1 remote 10.0.0.2 dev v0
        ip link set vx0 up
        clean() { sed 's/ self / own /; s/ self$/ own/'; }
        r bridge fdb show dev vx0
        r bridge fdb add 02:00:00:00:00:01 dev vx0 dst 10.0.0.3
        r bridge fdb append 00:00:00:00:00:00 dev vx0 dst 10.0.0.4
        r bridge fdb append 00:00:00:00:00:00 dev vx0 dst 10.0.0.4
        r bridge fdb add 00:00:00:00:00:00 dev vx0 dst 10.0.0.5
        r bridge fdb append 02:00:00:00:00:01 dev vx0 dst 10.0.0.5
        r bridge fdb replace 02:00:00:00:00:01 dev vx0 dst 10.0.0.6 vni 99 port 5000 via v0
        r bridge fdb add 02:00:00:00:00:03 dev vx0
        r bridge fdb add 02:00:00:00:00:03 dev vx0 dst 2001:db8::1
        r bridge fdb add 02:00:00:00:00:03 dev vx0 dst 10.0.0.8 dynamic self extern_learn
        r bridge fdb replace 00:00:00:00:00:00 dev vx0 dst 10.0.0.8
        r bridge fdb show dev vx0
        r bridge fdb del 00:00:00:00:00:00 dev vx0 dst 10.0.0.2
        r bridge fdb del 00:00:00:00:00:00 dev vx0 dst 10.0.0.4
        r bridge fdb del 02:00:00:00:00:09 dev vx0 dst 10.0.0.2
        r bridge fdb show dev vx0
        r ip link set vx0 down
        r bridge fdb show dev vx0
        r bridge fdb del 02:00:00:00:00:01 dev vx0
        r bridge fdb show dev vx0
    """,
    # Three hosts, each with a bridge between a station and a VXLAN: learning, flooding to several remotes, a multicast group.
    "traffic": """
        mount -t tmpfs tmpfs /run
        on() { ip netns exec $1 "${@:2}"; }
        for n in 0 1 2; do
            ip netns add h$n; ip netns add s$n
            ip link set w$n netns h$n
            on h$n sh -c 'echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6; echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6'
            on s$n sh -c 'echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6; echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6'
            on h$n ip addr add 10.0.0.1$n/24 dev w$n; on h$n ip link set w$n up
            on h$n ip link add p$n type veth peer name e$n address 02:00:00:00:05:0$n netns s$n
            on s$n ip addr add 192.168.0.1$n/24 dev e$n; on s$n ip link set e$n up
            on h$n ip link add br0 type bridge; on h$n ip link set br0 up
            on h$n ip link set p$n master br0 up
        done
        # The network below: a bridge here.
        ip link add br0 type bridge; ip link set br0 up
        for n in 0 1 2; do ip link set v$n master br0 up; done
        for n in 0 1 2; do
            on h$n ip link add vx0 address 02:00:00:00:06:0$n type vxlan id 7 dstport 4789 local 10.0.0.1$n
            for m in 0 1 2; do
                if [ $m != $n ]; then on h$n bridge fdb append 00:00:00:00:00:00 dev vx0 dst 10.0.0.1$m; fi
            done
            on h$n ip link set vx0 master br0 up
        done
        sleep 0.1
        on s0 ping -q -c 3 -i 0.2 192.168.0.11 | grep -o '[0-9]* received'
        on s2 ping -q -c 3 -i 0.2 192.168.0.10 | grep -o '[0-9]* received'
        for n in 0 1 2; do on h$n bridge fdb show dev vx0 | grep -v '33:33\\|01:00:5e\\|02:00:00:00:06' | sort; done
        on s1 ping -q -c 1 -s 1422 -M do 192.168.0.12 2>&1 | grep -o '[0-9]* received'
        for n in 0 1 2; do on h$n ip link del vx0; done
        on s0 ping -q -c 1 -W 0.3 192.168.0.11 2>&1 | grep -o '[0-9]* received'
        for n in 0 1 2; do
            on h$n ip link add vx0 type vxlan id 8 dstport 4789 dev w$n group 239.1.1.1 ttl 3
            on h$n ip link set vx0 master br0 up
        done
        sleep 0.1
        on s0 ping -q -c 3 -i 0.2 192.168.0.11 | grep -o '[0-9]* received'
        on s1 ping -q -c 3 -i 0.2 192.168.0.12 | grep -o '[0-9]* received'
        on h1 bridge fdb show dev vx0 | grep -v '33:33\\|01:00:5e' | grep '05:0' | sort
    """,
}


@pytest.mark.needs("ip", "bridge", "unshare", "ping")
@pytest.mark.parametrize("name", VXLAN)
def test_vxlan_as_on_linux(exec_guest, workdir, name):
    """Settings and forwarding entries of VXLAN interfaces, and frames that they carry."""
    compare(exec_guest, workdir, VXLAN[name])


def test_carriers_of_vlans(exec_guest):
    """A change of the carrier reaches VLANs, VLANs on these, and the bridge whose port one is (`vlan_device_event`)."""
    out = exec_guest(["bash", "-c", SETUP + """
        ip link add br0 type bridge; ip link set br0 up
        ip link add link v0 name five type vlan id 5; ip link add link five name six type vlan id 6; ip link set six master br0
        for n in v0 five six; do ip link set $n up; done
        ip addr add 10.5.0.1/24 dev five
        show() {
            for n in five six br0; do ip link show $n | grep -o 'state [A-Z]*'; done
            bridge link show | grep -o 'state [a-z]*'; ip neigh show dev five
        }
        show
        ip link set w0 up
        ip neigh add 10.5.0.2 lladdr 02:00:00:00:09:02 nud stale dev five
        show
        ip link set w0 down
        show
    """]).out
    without, carried = ["LOWERLAYERDOWN", "LOWERLAYERDOWN", "DOWN", "disabled"], ["UP", "UP", "UP", "forwarding"]
    assert re.findall("state (.*)", out) == [*without, *carried, *without], out
    assert out.count("10.5.0.2 lladdr") == 1, out


def test_vlans_keep_ports_apart(exec_guest):
    """A bridge with VLAN filtering: untagged and tagged members, the VLAN of a port, and the bridge's own VLANs."""
    out = exec_guest(["bash", "-c", SETUP + """
        on() { ip netns exec $1 "${@:2}"; }
        ip link add br0 address 02:00:00:00:02:00 type bridge vlan_filtering 1; ip link set br0 up
        for n in 0 1 2; do
            ip netns add n$n; ip link set w$n netns n$n; ip -n n$n link set w$n up; ip -n n$n addr add 10.0.0.1$n/24 dev w$n
            ip link set v$n master br0 up
        done
        loss() { on $1 ping -q -c 1 -W 3 $2 | grep -oE '[0-9]+% packet loss'; }
        bridge vlan show
        loss n0 10.0.0.11
        bridge vlan add dev v0 vid 10 pvid untagged
        loss n0 10.0.0.11
        bridge vlan add dev v1 vid 10 pvid untagged
        bridge vlan del dev v1 vid 1
        bridge vlan add dev v2 vid 10-12
        bridge vlan add dev v2 vid 4095
        bridge vlan del dev v2 vid 99
        bridge vlan show
        bridge -compressvlans vlan show dev v2
        loss n0 10.0.0.11
        # n2 receives them tagged alone.
        loss n0 10.0.0.12
        ip -n n2 link add link w2 ten type vlan id 10; ip -n n2 link set ten up; ip -n n2 addr del 10.0.0.12/24 dev w2; ip -n n2 addr add 10.0.0.12/24 dev ten
        loss n0 10.0.0.12
        # The host itself is in VLAN 1 until it is added.
        ip addr add 10.0.0.1/24 dev br0
        loss n0 10.0.0.1
        bridge vlan add dev br0 vid 10 self
        ip addr del 10.0.0.1/24 dev br0
        ip link add link br0 b10 type vlan id 10; ip link set b10 up; ip addr add 10.0.0.1/24 dev b10
        loss n0 10.0.0.1
        bridge fdb show br br0 | grep -E '02:00:00:00:01:0[01]' | sort
        ip link set br0 type bridge vlan_filtering 0
        ip -d link show br0 | grep -o 'vlan_filtering [01]'
    """]).out
    losses = re.findall(r"(\d+)% packet loss", out)
    assert losses == ["0", "100", "0", "100", "0", "100", "0"], out
    assert "v0                1 Egress Untagged" in out and "10 PVID Egress Untagged" in out, out
    assert re.search(r"v2 +1 PVID Egress Untagged\n +10\n +11\n +12\n", out), out
    assert "10-12" in out and "vlan_filtering 0" in out, out
    assert re.search(r"02:00:00:00:01:00 dev v0 vlan 10 master br0 *\n02:00:00:00:01:01 dev v1 vlan 10 master br0", out), out


VRF = """
    on() { ip netns exec $1 "${@:2}"; }
    # Two tenants with the same addresses, each with two networks at this host.
    for tenant in red blue; do
        for n in 1 2; do
            ip netns add $tenant$n
            ip link add $tenant$n type veth peer name eth0 netns $tenant$n
            ip -n $tenant$n link set lo up; ip -n $tenant$n link set eth0 up
            ip -n $tenant$n addr add 10.$n.0.2/24 dev eth0; ip -n $tenant$n route add default via 10.$n.0.1
        done
    done
    sysctl -qw net.ipv4.ip_forward=1
    ip link add red type vrf table 10
    ip link add blue type vrf table 20
    for tenant in red blue; do
        ip link set $tenant up
        for n in 1 2; do
            ip link set $tenant$n master $tenant
            ip link set $tenant$n up
            ip addr add 10.$n.0.1/24 dev $tenant$n
        done
    done
"""


@pytest.mark.needs("ip", "ping", "sysctl")
def test_vrfs(exec_guest):
    out = exec_guest(["bash", "-c", VRF + """
        loss() { "$@" | grep -oE '[0-9]+% packet loss'; }
        ip rule show
        ip route show vrf red
        ip route show
        ip -d link show red
        ip -d link show red1 | grep -o 'vrf_slave.*table 10'
        ip link show vrf blue | grep -c master
        # Between the networks of a tenant, from the host by a tenant, and to the host.
        loss on red1 ping -q -c 2 10.2.0.2
        loss on blue1 ping -q -c 2 10.2.0.2
        loss on red1 ping -q -c 1 10.1.0.1
        loss on red1 ping -q -c 1 10.2.0.1
        loss ping -I red -q -c 1 10.2.0.2
        loss ping -I blue -q -c 1 10.1.0.1
        loss ping -q -c 1 -W 0.3 10.2.0.2
        # A route of one tenant alone.
        on blue2 ip addr add 10.9.0.1/32 dev lo
        ip route add 10.9.0.0/24 via 10.2.0.2 vrf blue
        loss on blue1 ping -q -c 1 -W 0.3 10.9.0.1
        loss on red1 ping -q -c 1 -W 0.3 10.9.0.1
        ip route get 10.2.0.2 vrf blue
        # A network that is local as a whole, asked for by ARP from outside of the VRFs.
        ip netns add out; ip link add out type veth peer name eth0 netns out; ip link set out up
        ip -n out addr add 10.3.0.2/24 dev eth0; ip -n out link set eth0 up; ip addr add 10.3.0.1/24 dev out
        ip route add local 10.77.0.0/16 dev lo; ip -n out route add 10.77.0.0/16 dev eth0
        loss on out ping -q -c 1 -W 0.3 10.77.1.2
        # Outside of the VRF again.
        ip link set red1 nomaster
        ip route show
        ip link del blue
        ip link show blue1
        ip route show table 20
    """]).out
    losses = re.findall(r"(\d+)% packet loss", out)
    assert losses == ["0"] * 6 + ["100", "0", "100", "0"], out
    assert "1000:\tfrom all lookup [l3mdev-table]" in out, out
    for shown in ("vrf table 10", "vrf_slave table 10", "10.1.0.0/24 dev red1 proto kernel scope link src 10.1.0.1"):
        assert shown in out, out
    assert re.search(r"red: <NOARP,MASTER,UP,LOWER_UP> mtu 65575", out), out


# Sockets of one port, each bound to a device; the far ends of two networks send to them.
BOUND = """
import errno, functools, socket, subprocess
print = functools.partial(print, flush=True)
def run(line): subprocess.run(line, shell=True, check=True)
run("ip link set lo up; mount -t tmpfs tmpfs /run")
for n in (0, 1):
    run(f"ip link add v{n} type veth peer name w{n}; ip netns add n{n}; ip link set w{n} netns n{n}")
    run(f"ip addr add 10.{n}.0.1/24 dev v{n}; ip link set v{n} up; ip -n n{n} addr add 10.{n}.0.2/24 dev w{n}; ip -n n{n} link set w{n} up")
    run(f"ip -n n{n} route add default via 10.{n}.0.1")
def bound(kind, device, port):
    s = socket.socket(socket.AF_INET, kind)
    if device: s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device.encode())
    try: s.bind(("", port))
    except OSError as error: return errno.errorcode[error.errno]
    if kind == socket.SOCK_STREAM: s.listen()
    s.settimeout(0.3)
    return s
def got(s):
    try: return s.recv(100).decode() if s.type == socket.SOCK_DGRAM else s.accept()[1][0]
    except OSError as error: return type(error).__name__
def send(n, to, text, kind="DGRAM"):
    code = f"import socket; s = socket.socket(socket.AF_INET, socket.SOCK_{kind}); s.settimeout(0.3)\\nr = s.connect_ex(('{to}', 7)); print(r) if r else s.send(b'{text}')"
    subprocess.run(["ip", "netns", "exec", f"n{n}", "python3", "-c", code])
UDP, TCP = socket.SOCK_DGRAM, socket.SOCK_STREAM
a, b = bound(UDP, "v0", 7), bound(UDP, "v1", 7)
print(bound(UDP, "v0", 7), bound(UDP, "", 7))
send(0, "10.0.0.1", "zero"); send(1, "10.1.0.1", "one"); send(0, "10.1.0.1", "across")
print(got(a), got(b), got(a), got(b))
b.close()
send(1, "10.1.0.1", "lost")
print(got(a))
any_, a2 = bound(UDP, "", 8), bound(UDP, "v0", 8)
print(any_ if isinstance(any_, str) else "bound", a2)
c = bound(TCP, "v0", 7)
print(bound(TCP, "", 7))
send(0, "10.0.0.1", "x", "STREAM"); print(got(c))
send(1, "10.1.0.1", "x", "STREAM"); print(got(c))
d = bound(TCP, "v1", 7)
send(1, "10.1.0.1", "x", "STREAM"); print(got(c), got(d))
"""


@pytest.mark.needs("ip", "unshare")
def test_sockets_of_a_device(exec_guest, workdir):
    """A socket that is bound to a device receives what comes by it alone, as in namespaces of this machine."""
    ours = exec_guest(["python3", "-c", BOUND])
    (workdir / "bound.py").write_text(BOUND)
    linux = execute(["unshare", "-nm", "python3", str(workdir / "bound.py")])
    if linux.status != 0:
        pytest.skip("namespaces are denied")
    assert linux.out.count("\n") > 8, linux
    assert ours.out == linux.out, f"{linux}\n{ours}"


@pytest.mark.needs("ip")
def test_sockets_of_a_vrf(exec_guest):
    """Two servers of one port in two VRFs get the datagrams of their own."""
    run = exec_guest(["python3", "-c", BOUND.split("UDP, TCP =")[0] + """
for n, name in enumerate(("red", "blue")):
    run(f"ip link add {name} type vrf table 1{n}; ip link set {name} up; ip link set v{n} master {name}")
a, b, c = bound(socket.SOCK_DGRAM, "red", 7), bound(socket.SOCK_DGRAM, "blue", 7), bound(socket.SOCK_STREAM, "red", 7)
send(0, "10.0.0.1", "zero"); send(1, "10.1.0.1", "one")
print(got(a), got(b), got(a), got(b))
send(0, "10.0.0.1", "x", "STREAM"); print(got(c))
send(1, "10.1.0.1", "x", "STREAM"); print(got(c))
"""])
    assert run.out == "zero one TimeoutError TimeoutError\n10.0.0.2\n111\nTimeoutError\n", run


TUNNELS = {
    "gre": ("type gre local 10.0.0.{a} remote 10.0.0.{b} key 7 csum seq ttl 64", 1464, "gre remote 10.0.0.2 local 10.0.0.1 ttl 64 ikey 0.0.0.7 okey 0.0.0.7 iseq oseq icsum ocsum"),
    "gretap": ("type gretap local 10.0.0.{a} remote 10.0.0.{b}", 1462, "gretap remote 10.0.0.2 local 10.0.0.1 ttl inherit"),
    "ipip": ("type ipip local 10.0.0.{a} remote 10.0.0.{b} ttl 9", 1480, "ipip any remote 10.0.0.2 local 10.0.0.1 ttl 9 pmtudisc"),
    "sit": ("type sit local 10.0.0.{a} remote 10.0.0.{b} mode any", 1480, "sit any remote 10.0.0.2 local 10.0.0.1"),
    "ip6tnl": ("type ip6tnl local 2001:db8::{a} remote 2001:db8::{b} mode any", 1452, "ip6tnl any remote 2001:db8::2 local 2001:db8::1"),
    "geneve": ("type geneve id 5 remote 10.0.0.{b}", 1450, "geneve id 5 remote 10.0.0.2"),
}


@pytest.mark.needs("ip", "ping")
@pytest.mark.parametrize("kind", TUNNELS)
def test_tunnels(run_experiment, kind):
    """Packets of both families through each tunnel, in packets of the protocol that it has."""
    options, mtu, shown = TUNNELS[kind]
    script = f"""
        on() {{ ip netns exec n$1 "${{@:2}}"; }}
        for n in 1 2; do ip netns add n$n; done
        ip link add e1 netns n1 type veth peer name e2 netns n2
        for n in 1 2; do
            on $n ip addr add 10.0.0.$n/24 dev e$n; on $n ip addr add 2001:db8::$n/64 dev e$n nodad; on $n ip link set e$n up
        done
        on 1 ip link add t0 {options.format(a=1, b=2)}
        on 2 ip link add t0 {options.format(a=2, b=1)}
        for n in 1 2; do
            on $n ip link set t0 up; on $n ip addr add 192.168.0.$n/24 dev t0; on $n ip addr add 2001:db8:1::$n/64 dev t0 nodad
        done
        on 1 ip -d link show t0
        on 1 ping -q -c 3 -i 0.2 192.168.0.2 | grep loss
        on 1 ping -q -c 1 -s 6000 192.168.0.2 | grep loss
        on 1 ping -q -c 3 -i 0.2 2001:db8:1::2 | grep loss
        on 1 ip -s link show t0 | tail -1
        on 2 ip link set t0 down
        on 1 ping -q -c 1 -W 0.3 192.168.0.2 | grep -o '100% packet loss'
        on 1 ip link del t0
    """
    process = {"path": "bash", "args": ["-c", script]}
    done = run_experiment({
        "general": {"stop_time": "20 s"},
        "belljar": {"ipv6": True},
        "hosts": {"a": {"interfaces": {"eth0": "10.77.0.1/24"}, "processes": [process]}, "b": {"interfaces": {"eth0": "10.77.0.2/24"}}},
        "links": [{"between": ["a:eth0", "b:eth0"]}],
    })
    out = done.text("a", "bash")
    v6 = kind not in ("ipip",)
    losses = re.findall(r", (\d+)% packet loss", out)
    assert losses[:3] == ["0", "0", "0" if v6 else "100"], out
    assert f"mtu {mtu} " in out and shown in out, out
    assert out.rstrip().endswith("100% packet loss"), out


def test_drops_are_in_the_account(run_experiment):
    done = run_experiment({
        "general": {"stop_time": "5 s"},
        "hosts": {
            "a": {"interfaces": {"eth0": "10.0.0.1/24"}, "processes": [{"path": "bash", "args": ["-c", """
                ip link add br0 type bridge; ip link set br0 up
                ip link add v0 type veth peer name v1; ip link set v0 master br0 up; ip link set v1 up
                ip addr add 10.1.0.1/24 dev v1; ip neigh add 10.1.0.2 lladdr 02:00:00:00:00:09 dev v1
                ip link add vx0 type vxlan id 5 dstport 4789; ip link set vx0 up; ip addr add 10.2.0.1/24 dev vx0
                ip neigh add 10.2.0.2 lladdr 02:00:00:00:00:09 dev vx0
                # Two VXLAN interfaces that carry each other's datagrams.
                ip link add r1 type vxlan id 6 dstport 4789 remote 10.3.0.2; ip link set r1 up; ip addr add 10.3.0.1/24 dev r1
                ip neigh add 10.3.0.2 lladdr 02:00:00:00:00:09 dev r1
                python3 -c 'import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for to in ["10.1.0.2"] * 5 + ["10.2.0.2"] * 7 + ["10.3.0.2"] * 3: s.sendto(b"x", (to, 9))'"""]}]},
            "b": {"interfaces": {"eth0": "10.0.0.2/24"}},
        },
        "links": [{"between": ["a:eth0", "b:eth0"]}],
    })
    text = json.dumps(json.loads((done.path / "sim-stats.json").read_text())["packets"])
    for counted in (r'"bridge": [5-9]\b', r'"tunnel": (7|8|9|1\d)\b', r'"device_loop": 3\b'):
        assert re.search(counted, text), text


@pytest.mark.needs("ip", "bridge", "ping")
def test_fabric(run_experiment):
    done = run_experiment(EXAMPLES / "fabric.yaml")
    assert re.findall(r", (\d+)% packet loss", "".join(stream.read_text() for stream in done.streams("red1", "ping"))) == ["0", "100"]
    assert ", 0% packet loss" in "".join(stream.read_text() for stream in done.streams("blue1", "ping"))
    shown = "".join(stream.read_text() for stream in done.streams("leaf1", "bridge"))
    assert re.search(r"dev vx10 vlan 10 master br0", shown) and "dst 10.0.2.2" in shown, shown


@pytest.mark.needs("ip", "bridge", "ping")
def test_same_bytes(run_experiment):
    """A run with bridges and tunnels is the same far and near, and with more workers."""
    runs = [run_experiment(EXAMPLES / "fabric.yaml", args=args, pcap=True, name=f"fabric{n}")
            for n, args in enumerate((["--parallelism", "1"], ["--parallelism", "1"], ["--parallelism", "3"], ["--placement", "far"]))]
    assert_same_hosts(runs)


def test_not_supported_is_refused_and_named(exec_guest):
    run = exec_guest(["bash", "-c", """
        ip link add b0 type team
        ip link add br0 type bridge mcast_querier 1
        ip link add br0 type bridge
        ip link set br0 type bridge nf_call_iptables 1
        ip link add v0 type veth peer name v1; ip link set v0 master br0
        ip link set v0 type bridge_slave fastleave on
        ip link set v0 type bridge_slave neigh_suppress on
        ip link add vx0 type vxlan dstport 4789 external
        ip link add g0 type gre external
        bridge fdb add 02:00:00:00:00:01 dev v1 self
    """])
    assert run.err.count("Error: attribute not supported.") == 5 and "Unknown device type" in run.err, run
    for named in ("interfaces of kind 'team'", "IFLA_BR_*", "IFLA_BRPORT_*", "neigh_suppress of ports is accepted without effect",
                  "vxlan: 'external'", "gre: metadata mode", "address filters of interfaces"):
        assert named in run.err, run.err


MACVLAN = {
    "settings": """
        ip link add link v0 m0 address 02:00:00:00:04:00 type macvlan
        ip link add link v0 m1 address 02:00:00:00:04:01 type macvlan mode bridge
        r ip link add link v0 m2 address 02:00:00:00:04:02 type macvlan mode private
        r ip link add link v0 m4 type macvlan mode passthru
        r ip link add link w0 m4 type macvlan mode passthru
        r ip link add link w0 m5 type macvlan mode bridge
        r ip link add link lo m6 type macvlan mode bridge
        r ip link add m6 type macvlan mode bridge
        r ip link add link m0 m7 address 02:00:00:00:04:07 type macvlan mode bridge
        r ip link add link v0 m8 address 02:00:00:00:04:07 type macvlan mode bridge
        r ip -d link show type macvlan
        r ip link set m0 up
        r ip link show m0
        ip link set v0 up; ip link set w0 up
        sleep 0.1
        r ip link show m0
        r ip link set m0 type macvlan mode vepa
        r ip link set m0 type macvlan mode passthru
        ip link set v0 mtu 1400
        r ip link show m0
        r ip link set m0 mtu 1450
        r ip link set m0 mtu 1300
        ip link add br0 type bridge
        r ip link set v0 master br0
        r ip link set m0 master br0
        ip link set v0 down
        r ip link show m0
        r ip link set m1 address 02:00:00:00:04:12
        r ip link set m1 address 02:00:00:00:00:00
        # Devices that would lie upon themselves.
        ip link add link br0 b0 type macvlan; ip link add vx0 type vxlan id 5 dev br0 dstport 4789
        r ip link set b0 master br0
        r ip link set vx0 master br0
        r ip link set vx0 type vxlan dev vx0
        ip link add vx1 type vxlan id 6 dev v0 dstport 4789
        r ip link del v0
        r ip link show type macvlan | grep -v ether
        r ip link show vx1
    """,
    # Frames between macvlans of each mode, and with the far end of their interface.
    "traffic": """
        mount -t tmpfs tmpfs /run
        ip netns add far; ip link set w0 netns far
        ip netns exec far sh -c 'echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6'
        ip -n far addr add 10.0.0.9/24 dev w0; ip -n far link set w0 up
        ip link set v0 up
        sysctl -qw net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_filter=0
        for mode in bridge private vepa; do
            for n in 1 2; do
                ip link add link v0 m$n address 02:00:00:00:04:0$n type macvlan mode $mode
                ip link set m$n up; ip addr add 10.0.0.$n/32 dev m$n
                ip route add 10.0.0.9 dev m$n table $n; ip rule add from 10.0.0.$n table $n pref 10$n
            done
            sleep 0.1
            for n in 1 2; do ping -q -c 2 -i 0.2 -W 0.3 -I 10.0.0.$n 10.0.0.9 | grep -o '[0-9]* received'; done
            ip netns exec far ping -q -c 1 10.0.0.1 | grep -o '[0-9]* received'
            ip neigh add 10.0.0.77 lladdr 02:00:00:00:04:02 dev m1
            ip route add 10.0.0.77 dev m1
            ping -q -c 1 -W 0.2 10.0.0.77 | grep -o '[0-9]* received'
            for n in 1 2; do ip rule del pref 10$n; ip link del m$n; done
        done
    """,
}


@pytest.mark.needs("ip", "unshare", "ping", "sysctl")
@pytest.mark.parametrize("name", MACVLAN)
def test_macvlan_as_on_linux(exec_guest, workdir, name):
    compare(exec_guest, workdir, MACVLAN[name])
