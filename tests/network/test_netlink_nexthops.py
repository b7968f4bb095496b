"""Next-hop objects of ip(8) and the routes by them, as this machine's kernel has them in a network namespace."""

import re

import pytest
from test_links import python, world
from test_netlink import ASK, NATIVE, normal, told_as_by_linux

NEXTHOPS = """
ip nexthop
ip nexthop add id 1 via 10.0.0.2 dev eth0
ip nexthop add id 1 via 10.0.0.2 dev eth0
ip nexthop add id 2 via 10.0.0.3 dev eth0 protocol bird
ip nexthop add id 3 via 10.77.0.3 dev eth0
ip nexthop add id 3 via 10.77.0.3 dev eth0 onlink
ip nexthop add id 4 via fe80::2 dev eth0
ip nexthop add id 5 blackhole
ip nexthop add id 6 dev eth0
ip -6 nexthop add id 7 dev eth0
ip nexthop add id 8 via 2001:db8::2
ip nexthop add id 0 via 10.0.0.2 dev eth0
ip nexthop add via 10.0.0.4 dev eth0
ip nexthop add id 10 group 1/2
ip nexthop add id 11 group 1,3/2
ip nexthop add id 12 group 1/99
ip nexthop add id 13 group 1/5
ip nexthop add id 14 group 10/2
ip nexthop add id 15 group 1/1
ip nexthop add id 16 group 4/1
ip nexthop add id 19 group 5
ip nexthop add id 22 group 1/2 type mpath
ip nexthop
ip nexthop get id 10
ip nexthop get id 99
ip nexthop show dev eth0
ip nexthop show groups
ip -6 nexthop
ip route add 10.20.0.0/16 nhid 1
ip route add 10.21.0.0/16 nhid 10
ip route add 10.22.0.0/16 nhid 11
ip route add 10.23.0.0/16 nhid 99
ip route add 10.24.0.0/16 nhid 5
ip route add 10.25.0.0/16 nhid 4
ip route add 10.26.0.0/16 nhid 6
ip route add 10.27.0.0/16 nhid 1 via 10.0.0.2
ip route add 10.27.0.0/16 nhid 1 dev eth0
ip route add 10.27.0.0/16 nhid 7
ip -6 route add 2001:db8:20::/48 nhid 4
ip -6 route add 2001:db8:21::/48 nhid 1
ip -6 route add 2001:db8:22::/48 nhid 16
ip -6 route add 2001:db8:23::/48 nhid 10
ip -6 route add 2001:db8:24::/48 nhid 5
ip route
ip -6 route show 2001:db8:20::/48
ip route get 10.20.1.1
ip route get 10.25.1.1
ip route get 10.24.1.1
ip nexthop replace id 1 via 10.0.0.77 dev eth0
ip route show 10.20.0.0/16
ip nexthop replace id 10 group 1,5/2,7
ip route show 10.21.0.0/16
ip nexthop replace id 10 via 10.0.0.2 dev eth0
ip nexthop replace id 1 group 2
ip nexthop replace id 2 blackhole
ip nexthop replace id 1 via fe80::7 dev eth0
ip nexthop replace id 4 via 10.0.0.4 dev eth0
ip nexthop replace id 30 via 10.0.0.9 dev eth0
ip route del 10.20.0.0/16 nhid 2
ip route del 10.20.0.0/16 nhid 1
ip nexthop del id 2
ip nexthop
ip route show 10.21.0.0/16
ip nexthop del id 99
ip nexthop replace via 10.0.0.9 dev eth0
ip -6 route del 2001:db8:22::/48 dev eth0
ip -6 route show 2001:db8:22::/48
ip nexthop del id 10
ip route
ip nexthop add id 40 group 1/30
ip route add 10.40.0.0/16 nhid 40
ip route replace 10.40.0.0/16 nhid 1
ip route show 10.40.0.0/16
ip addr del 10.1.0.1/24 dev eth0
ip nexthop
ip link set eth0 down
ip nexthop
ip route
ip nexthop add id 50 via 10.0.0.2 dev eth0
ip link set eth0 up
ip nexthop add id 51 via 10.0.0.2 dev eth0
ip nexthop flush
ip nexthop
"""


@pytest.mark.needs("ip", "unshare")
def test_next_hop_objects_are_linuxs(run_experiment, workdir):
    monitor = {"path": "ip", "args": ["-o", "monitor", "route", "nexthop"], "start_time": "3 s", "expected_final_state": "running"}
    own = ["10.0.0.1/24", "10.1.0.1/24", "2001:db8::1/64", "2001:db8:1::1/64"]
    hosts = {"a": {"interfaces": {"eth0": own}, "routes": [], "processes": [monitor, python(ASK, NEXTHOPS, start="4 s")]}, "b": {"processes": []}}
    done = run_experiment(world(hosts, [{"between": ["a:eth0", "b"]}], **{"belljar": {"ipv6": True}}))
    native = NATIVE.replace("monitor route rule neigh", "monitor route nexthop")

    def shown(said, heard):
        # Of objects and the routes by them all is told, in this order, but for IPv6 routes that an interface takes with it.
        return normal(said), [line for line in normal(heard) if re.search(r"\bid \d|nhid", line) and not line.startswith("Deleted 2001:")]

    told = told_as_by_linux(done, native, NEXTHOPS, workdir / "heard", shown, "id 1 via")
    assert len(told) > 30


WEIGHTS = """
import socket
for n in range(400):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind(("10.0.9.1", 0))
    s.sendto(b"x", (f"10.200.{n // 200}.{n % 200 + 1}", 9))
"""


@pytest.mark.needs("ip", "tcpdump")
def test_flows_are_spread_by_weights_of_objects(run_experiment):
    """A group of weights 3 and 1; then one of its next hops takes all."""
    setup = ("ip nexthop add id 1 via 10.0.1.2 && exit 1; ip nexthop add id 1 via 10.0.1.2 dev eth0 && ip nexthop add id 2 via 10.0.2.2 dev eth1 && "
             "ip nexthop add id 3 group 1,3/2,1 && ip route add 10.200.0.0/16 nhid 3")
    a = {"interfaces": {"eth0": "10.0.1.1/24", "eth1": "10.0.2.1/24", "eth2": "10.0.9.1/24"}, "routes": [],
         "processes": [{"path": "sh", "args": ["-c", setup]}, python(WEIGHTS, start="1 s"),
                       {"path": "sh", "args": ["-c", "ip nexthop del id 1; ip route show 10.200.0.0/16"], "start_time": "5 s"}, python(WEIGHTS, start="6 s")]}
    count = lambda own: {"interfaces": {"eth0": own}, "processes": [{"path": "sh", "args": ["-c", f"timeout {t} tcpdump -n -i eth0 udp and dst net 10.200 2>/dev/null | grep -c UDP || true"], "start_time": s} for s, t in (("0 s", 4), ("5500 ms", 3))]}
    hosts = {"a": a, "b": count("10.0.1.2/24"), "c": count("10.0.2.2/24"), "d": {"interfaces": {"eth0": "10.0.9.2/24"}, "processes": []}}
    links = [{"between": ["a:eth0", "b"]}, {"between": ["a:eth1", "c"]}, {"between": ["a:eth2", "d"]}]
    done = run_experiment(world(hosts, links))
    first, second = ([int(file.read_text()) for file in done.streams(name, "sh")] for name in ("b", "c"))
    assert first[0] + second[0] == 400 and 270 <= first[0] <= 330, (first, second)
    assert first[1] == 0 and second[1] == 400, (first, second)
    assert "10.200.0.0/16 nhid 3 via 10.0.2.2 dev eth1" in "".join(file.read_text() for file in done.streams("a", "sh"))
