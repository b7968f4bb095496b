"""What follows from addresses, as this machine's kernel has it in a network namespace: sources of packets, broadcast addresses that are given,
metrics that change, labels and netmasks by the old requests."""

import pytest
from conftest import best
from test_links import python, world
from test_netlink import ASK, addresses, in_a_namespace

# ifreq(7) without a program that may not be installed: a label, what to set or ask for, and to what.
REQUEST = "import fcntl, socket, struct, sys\nlabel, what, *to = sys.argv[1:]\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\nnumbers = {'address': 0x8915, 'peer': 0x8917, 'broadcast': 0x8919, 'netmask': 0x891b}\nvalue = socket.inet_aton(to[0]) if to else bytes(4)\nentry = struct.pack('16sHH4s16x', label.encode(), socket.AF_INET, 0, value)\ntry:\n    got = fcntl.ioctl(s, numbers[what] + bool(to), entry)\n    print(label, what, socket.inet_ntoa(got[20:24]))\nexcept OSError as error:\n    print(label, what, error.strerror)\n"

SOURCES = """
ip addr add 10.1.0.1/24 dev eth0
ip addr add 10.2.0.1/24 dev eth0 noprefixroute
ip route add 10.2.0.128/25 dev eth0
ip route get 10.2.0.130
ip route add 10.3.0.0/16 via 10.1.0.9
ip route get 10.3.1.1
ip addr add 10.9.0.1 peer 10.9.1.0/24 dev eth0
ip route add 10.4.0.0/16 via 10.9.1.7
ip route get 10.4.1.1
ip route get 10.9.1.5
ip addr add 10.5.0.1/24 dev eth0 scope link
ip route add 10.6.0.0/16 via 10.5.0.9
ip route get 10.6.1.1
ip route get 10.5.0.3
ip route get 10.77.0.1 oif eth0
ip route get 255.255.255.255 oif eth0
ip addr add 10.7.0.1/24 brd 10.7.0.77 dev eth0
ip addr add 10.8.0.1/24 brd 10.88.0.255 dev eth0
ip addr add 10.8.0.2/24 brd 10.8.0.99 dev eth0
ip route show table local type broadcast dev eth0
ip route get 10.7.0.77
ip route get 10.7.0.255
ip route get 10.88.0.255
ip route get 10.8.0.99
ip addr del 10.8.0.1/24 dev eth0
ip route get 10.8.0.99
ip route show table local type broadcast dev eth0
ip addr change 10.1.0.1/24 dev eth0 metric 50
ip -4 -o addr show dev eth0
ip route show 10.1.0.0/24
ip addr change 10.1.0.1/24 dev eth0 metric 60 noprefixroute
ip route show 10.1.0.0/24
ip addr change 10.2.0.1/24 dev eth0 metric 70
ip route show 10.2.0.0/24
ip addr change 10.1.0.1/24 dev eth0
ip -4 -o addr show dev eth0
ip route
ip addr flush dev eth0
ip addr add 10.30.0.1/32 dev lo
ip route add 10.31.0.0/16 dev eth0
ip route get 10.31.0.1
ip addr add 10.32.0.1/32 dev eth0 scope host
ip route get 10.31.0.1
ip addr add 10.33.0.1/32 dev eth0 scope link
ip route get 10.31.0.1
ip addr flush dev eth0
ip addr add 10.20.0.1/16 brd + label eth0:x scope link dev eth0 metric 5
ask eth0 address
ask eth0 netmask 255.255.255.0
ask eth0:x address
ask eth0:x broadcast
ask eth0:x netmask 255.255.255.0
ip -4 -o addr show dev eth0
ip route
ask eth0 address 10.60.0.1
ask eth0:y address 10.61.0.1
ask eth0:y address
ip -4 -o addr show dev eth0
ask eth0:y broadcast 10.61.0.9
ask eth0:x netmask 255.255.255.255
ip -4 -o addr show dev eth0
ip addr flush dev eth0
ip addr add 10.20.0.1/16 brd + scope link dev eth0 metric 5 valid_lft 90000 preferred_lft 90000
ip addr add 10.20.0.2/16 brd + scope link dev eth0
ask eth0 netmask 255.255.255.0
ip -4 -o addr show dev eth0
ip route
ask eth0 netmask 255.255.255.254
ask eth0 netmask 255.0.255.0
ip -4 -o addr show dev eth0
ip addr flush dev eth0
ip addr add 10.21.0.1 peer 10.22.0.1/24 dev eth0
ask eth0 peer
ask eth0 netmask
ask eth0 netmask 255.255.0.0
ip -4 -o addr show dev eth0
ip route
"""
NATIVE = """
sysctl -qw net.ipv6.conf.default.accept_dad=0 && ip link set lo up && ip link add eth0 type veth peer name peer
ip link set eth0 up && ip link set peer up && /usr/bin/python3 -c "$0" "$1" "$2"
"""
# As the other tests ask, and by requests of ioctl.
COMMANDS = ASK.replace("line.split()", "[sys.executable, '-c', sys.argv[2], *line.split()[1:]] if line.startswith('ask') else line.split()")


@pytest.mark.needs("ip", "unshare")
def test_sources_broadcasts_metrics_and_labels_are_linuxs(run_experiment):
    process = python(COMMANDS, SOURCES, REQUEST, start="1 s")
    hosts = {"a": {"interfaces": {"eth0": "10.0.0.1/24"}, "routes": [], "processes": [{"path": "ip", "args": ["addr", "flush", "dev", "eth0"]}, process]}, "b": {"processes": []}}
    done = run_experiment(world(hosts, [{"between": ["a:eth0", "b"]}]))

    ours = addresses(done.text("a", "python3"))
    theirs = best(lambda: addresses(in_a_namespace(NATIVE, COMMANDS, SOURCES, REQUEST, expected="10.33.0.1")), lambda theirs: theirs == ours)
    assert ours == theirs and len(ours) > 120


BROADCASTER = """
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
for to in ("10.0.0.77", "10.0.0.255", "10.99.0.255", "10.0.0.78"):
    try:
        s.sendto(to.encode(), (to, 9))
    except OSError as error:
        print(to, error.strerror)
"""
LISTENER = """
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("", 9))
s.settimeout(5)
try:
    while True:
        data, (ip, port) = s.recvfrom(99)
        print(data.decode(), "from", ip, flush=True)
except TimeoutError:
    pass
"""


def test_packets_go_by_the_broadcast_address_that_is_given(run_experiment):
    def given(address):
        return {"path": "sh", "args": ["-c", f"ip addr flush dev eth0; ip addr add {address}/24 brd 10.0.0.77 dev eth0; ip addr add 10.98.0.{address[-1]}/24 brd 10.99.0.255 dev eth0"]}
    hosts = {"a": {"interfaces": {"eth0": "10.0.0.1/24"}, "routes": [], "processes": [given("10.0.0.1"), python(BROADCASTER, start="3 s")]},
             "b": {"interfaces": {"eth0": "10.0.0.2/24"}, "routes": [], "processes": [given("10.0.0.2"), python(LISTENER, start="2 s")]}}
    done = run_experiment(world(hosts, [{"between": ["a:eth0", "b:eth0"]}], stop="20 s"))
    assert done.text("b", "python3").splitlines() == ["10.0.0.77 from 10.0.0.1", "10.0.0.255 from 10.0.0.1", "10.99.0.255 from 10.98.0.1"]
