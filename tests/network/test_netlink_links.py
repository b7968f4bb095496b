"""What the administrator sets of interfaces and IPv6 addresses beside their state, as this machine's kernel has it in a network namespace."""

import re

import pytest
from conftest import best
from test_links import python, stats, world
from test_netlink import ASK, in_a_namespace, plain

LINKS = f"""
ip link set eth0 promisc on
ip link show eth0
ip link set eth0 alias uplink group 7 txqueuelen 77 allmulticast on multicast off
ip -d link show eth0
cat /sys/class/net/eth0/ifalias /sys/class/net/eth0/netdev_group /sys/class/net/eth0/tx_queue_len /sys/class/net/eth0/flags
ip link show group 7
ip link show group 8
ip link add d0 type veth peer name d0p
ip link set d0 group 7
ip link add d1 txqueuelen 12 group 9 type veth peer name d1p
ip link show d1
ip link set group 7 down
ip link show group 7
ip link set group 7 mtu 1400
ip link show group 7
ip link set group 55 up
ip link set d0 up
ip -o link show d0
ip link set eth0 promisc off allmulticast off multicast on alias down
ip link show eth0
ip link set eth0 alias {"x" * 255}
ip link show eth0
ip link set eth0 address 01:00:00:00:00:05
ip link set eth0 address 00:00:00:00:00:00
ip link set lo address 02:00:00:00:00:05
ip link set d0 arp off
ip link show d0
ip link set d0 arp on dynamic on
ip link show d0
"""
ADDRESSES6 = """
ip -6 addr add 2001:db8::1/64 dev eth0 noprefixroute nodad
ip -6 addr add 2001:db8:1::1/64 dev eth0 metric 77 nodad
ip -6 addr add 2001:db8:2::1 peer 2001:db8:3::2/64 dev eth0 nodad
ip -6 addr add 2001:db8:4::1/64 dev eth0 home nodad
ip -6 addr show dev eth0
ip -6 route show dev eth0
ip -6 addr change 2001:db8:1::1/64 dev eth0 metric 99
ip -6 addr change 2001:db8::1/64 dev eth0
ip -6 addr show dev eth0
ip -6 route show dev eth0
ip -6 addr change 2001:db8::1/64 dev eth0 noprefixroute
ip -6 route show dev eth0
ip -6 addr add 2001:db8::9/64 dev eth0 nodad
ip -6 route show dev eth0
ip -6 addr del 2001:db8::9/64 dev eth0
ip -6 route show dev eth0
ip -6 addr del 2001:db8:2::1/64 dev eth0
ip -6 addr del 2001:db8:2::1/64 dev eth0
ip -6 route show dev eth0
ip link set eth0 down
ip -6 addr add 2001:db8:7::1/64 dev eth0 noprefixroute nodad
ip -6 addr add 2001:db8:8::1/64 dev eth0 metric 5 nodad
ip -6 route show dev eth0
ip link set eth0 up
ip -6 route show dev eth0
ip -6 addr show dev eth0 scope global
"""
WHOLE_NETWORKS = """
ip addr add 10.0.0.1/24 dev eth0
ip route add local 10.77.0.0/16 dev lo
ip route show table local 10.77.0.0/16
ip route get 10.77.1.2
ip route get 10.0.0.9 from 10.77.1.2
ip addr add 10.78.0.1/24 dev lo
ip route get 10.78.0.99
ip route add local 10.79.0.0/16 via 10.0.0.2 dev lo
ip route add local 10.79.0.0/16
ip route add local 10.77.0.0/16 dev lo
ip -6 route add local 2001:db8:77::/48 dev lo
ip -6 route show table local 2001:db8:77::/48
ip route del local 10.77.0.0/16 dev lo
ip route show table local 10.77.0.0/16
ip route get 10.77.1.2
ip -6 route del local 2001:db8:77::/48 dev lo
ip -6 route del local 2001:db8:77::/48 dev lo
"""
ALIKE = """
ip addr add 10.0.0.1/24 dev eth0
ip addr add 10.1.0.1/24 dev eth0
ip route add 10.20.0.0/16 via 10.0.0.2
ip route append 10.20.0.0/16 via 10.0.0.3
ip route append 10.20.0.0/16 via 10.0.0.3
ip route append 10.20.0.0/16 via 10.0.0.4 metric 5
ip route prepend 10.20.0.0/16 via 10.0.0.5
ip route prepend 10.20.0.0/16 via 10.0.0.2
ip route add 10.20.0.0/16 via 10.0.0.6
ip route show 10.20.0.0/16
ip route get 10.20.1.1
ip route replace 10.20.0.0/16 via 10.0.0.7
ip route replace 10.20.0.0/16 via 10.0.0.3
ip route show 10.20.0.0/16
ip route del 10.20.0.0/16 via 10.0.0.7
ip route get 10.20.1.1
ip route change 10.20.0.0/16 via 10.1.0.9 src 10.1.0.1
ip route show 10.20.0.0/16
ip route del 10.20.0.0/16
ip route get 10.20.1.1
ip route del 10.20.0.0/16 metric 5
ip route show 10.20.0.0/16
ip route append 10.30.0.0/16 via 10.0.0.2
ip route append blackhole 10.30.0.0/16
ip route show 10.30.0.0/16
ip addr del 10.0.0.1/24 dev eth0
ip route
"""
NATIVE = """
sysctl -qw net.ipv6.conf.default.accept_dad=0 && ip link set lo up && ip link add eth0 type veth peer name peer && ip link set eth0 up && ip link set peer up &&
mount -t sysfs none /sys && sleep 2 && /usr/bin/python3 -c "$0" "$1"
"""


def shown(text):
    """Without what veth is and an experiment's interface is not: its peer, its queues and how it is told."""
    text = re.sub(r"^ *veth .*$|@\w+|qdisc \w+ |numtxqueues.*$|proto kernel_ll ", "", text, flags=re.M)
    text = re.sub(r"fe80::[0-9a-f:]+/64", "fe80::OWN/64", text)
    return [line for line in plain(text) if line]


def asked(run_experiment, commands, ask=ASK):
    hosts = {"a": {"interfaces": {"eth0": "10.0.0.1/24"}, "routes": [], "processes": [{"path": "ip", "args": ["addr", "flush", "dev", "eth0", "scope", "global"]}, python(ask, commands, start="3 s")]},
             "b": {"processes": []}}
    done = run_experiment(world(hosts, [{"between": ["a:eth0", "b"]}], **{"belljar": {"ipv6": True}}))
    return done, shown(done.text("a", "python3"))


def theirs(commands, ours, ask=ASK):
    script = f"unshare -m sh -c '{NATIVE}' \"$0\" \"$1\""
    return best(lambda: shown(in_a_namespace(script, ask, commands)), lambda theirs: theirs == ours)


@pytest.mark.needs("ip", "unshare")
def test_settings_of_interfaces_are_linuxs(run_experiment):
    done, ours = asked(run_experiment, LINKS)
    assert ours == theirs(LINKS, ours) and len(ours) > 60
    assert not [warning for warning in stats(done).get("warnings", {}) if "rtnetlink" in warning], stats(done)["warnings"]


@pytest.mark.needs("ip", "unshare")
def test_ipv6_addresses_are_linuxs(run_experiment):
    _, ours = asked(run_experiment, ADDRESSES6)
    assert ours == theirs(ADDRESSES6, ours) and len(ours) > 60


@pytest.mark.needs("ip", "unshare")
def test_networks_that_are_local_are_linuxs(run_experiment):
    _, ours = asked(run_experiment, WHOLE_NETWORKS)
    assert ours == theirs(WHOLE_NETWORKS, ours) and len(ours) > 25


@pytest.mark.needs("ip", "unshare")
def test_routes_that_are_alike_are_linuxs(run_experiment):
    """The same prefix and metric several times, in the order in which they are tried."""
    in_order = ASK.replace("sorted(done.stdout.splitlines(True))", "done.stdout.splitlines(True)")
    _, ours = asked(run_experiment, ALIKE, in_order)
    assert ours == theirs(ALIKE, ours, in_order) and len(ours) > 45


SERVES = """
ip route add local 10.0.0.128/25 dev lo
python3 -c "import socket; taken, who = socket.create_server(('10.0.0.201', 80)).accept(); print(taken.getsockname()[0], who[0])"
"""
ASKS = """
ping -c 1 -W 1 10.0.0.200 >/dev/null && echo answered
python3 -c "import socket; print(socket.create_connection(('10.0.0.201', 80)).getpeername()[0])"
"""


@pytest.mark.needs("ip", "ping")
def test_a_whole_network_is_a_hosts_own(run_experiment):
    """AnyIP: every address of a network is the host's; it answers ARP for them, and programs listen on any."""
    hosts = {name: {"interfaces": {"eth0": f"10.0.0.{n}/24"}, "processes": [{"path": "sh", "args": ["-c", script], "start_time": f"{n} s"}]}
             for n, (name, script) in enumerate((("a", SERVES), ("b", ASKS)), 1)}
    done = run_experiment(world(hosts, [{"between": ["a:eth0", "b:eth0"]}], stop="20 s"))
    assert done.text("a", "sh").split() == ["10.0.0.201", "10.0.0.2"]
    assert done.text("b", "sh").split() == ["answered", "10.0.0.201"]


SILENT = """
ping -c 1 -W 1 10.0.0.2 >/dev/null && echo answered
ip link set eth0 arp off
ping -c 1 -W 1 10.0.0.2 >/dev/null || echo lost
ip neigh add 10.0.0.2 lladdr 02:00:00:00:00:02 dev eth0
ping -c 1 -W 1 10.0.0.2 >/dev/null || echo lost
"""


def test_without_arp_neighbours_are_those_that_are_given(run_experiment):
    """One that does not ask knows nobody; that other knows it still, and what it is told of it counts."""
    mac = "02:00:00:00:00:02"
    hosts = {"a": {"interfaces": {"eth0": "10.0.0.1/24"}, "processes": [{"path": "sh", "args": ["-c", SILENT], "start_time": "1 s"}]},
             "b": {"interfaces": {"eth0": {"addresses": "10.0.0.2/24", "mac": mac}}, "processes": []}}
    done = run_experiment(world(hosts, [{"between": ["a:eth0", "b:eth0"]}], stop="20 s"))
    assert done.text("a", "sh").split() == ["answered", "lost"]
