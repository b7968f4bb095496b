"""IPv6 between hosts, over the graph and over links; what tshark says of it; the same transfers as over IPv4."""

import re

import pytest
from conftest import EXAMPLES
from test_links import check_captures, python, world

GRAPH = {"graph": {"type": "1_gbit_switch"}}
ON = {"belljar": {"ipv6": True}}

# Receives so many connections' bytes and says from whom and how many.
SINK = """
import socket, sys
s = socket.create_server((sys.argv[1], 80), family=socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET, dualstack_ipv6=sys.argv[1] == '::')
while True:
    c, a = s.accept()
    n = 0
    while d := c.recv(65536): n += len(d)
    print(a[0], n, flush=True)
    c.sendall(b'ok')
    c.close()
"""
SEND = """
import socket, sys, time
before = time.monotonic_ns()
s = socket.create_connection((sys.argv[1], 80))
mss = s.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG)
for i in range(int(sys.argv[2]) // 1000): s.sendall(bytes(1000))
s.shutdown(socket.SHUT_WR)
assert s.recv(9) == b'ok'
print(s.getsockname()[0], s.getpeername()[0], mss, time.monotonic_ns() - before)
"""


def graph(hosts, stop="20 s", **more):
    hosts = {name: {"network_node_id": 0, **host} for name, host in hosts.items()}
    return {"general": {"stop_time": stop}, "network": GRAPH, **ON, "hosts": hosts, **more}


def programs(*processes):
    return {"processes": list(processes)}


def test_tcp_over_the_graph(run_experiment):
    done = run_experiment(
        graph({
            "a": programs(python(SEND, "b", 200_000), python(SEND, "11.0.0.2", 200_000, start="5 s"), python(SEND, "::ffff:11.0.0.2", 1000, start="8 s")),
            "b": programs(python(SINK, "::", start="0 s")),
        }),
        pcap=True,
    )
    by_name, by_v4, mapped = (done.text("a", f"python3.{pid}").split() for pid in (1000, 1001, 1002))
    assert by_name[:3] == ["2001:db8::b00:1", "2001:db8::b00:2", "1428"]
    assert by_v4[:3] == ["11.0.0.1", "11.0.0.2", "1448"] and mapped[:2] == ["::ffff:11.0.0.1", "::ffff:11.0.0.2"]
    # Twenty bytes more for each packet: a round more in slow start.
    assert 1 < int(by_name[3]) / int(by_v4[3]) < 1.2
    assert done.text("b") == "2001:db8::b00:1 200000\n::ffff:11.0.0.1 200000\n::ffff:11.0.0.1 1000\n"
    check_captures(done)


def test_the_transfer_over_links_takes_as_many_packets_as_with_ipv4(run_experiment):
    """The same bytes in segments of the same length: the same number of packets, at the same distance."""
    hosts = {
        "a": programs(python(SEND, "2001:db8:a00::2", 300_000), python(SEND, "10.0.0.2", 300_000, start="9 s")),
        "b": programs(python(SINK, "::", start="0 s")),
    }
    links = [{"between": ["a", "b"], "rate": "10 Mbit", "latency": "5 ms", "mtu": 1500}]
    done = run_experiment(world(hosts, links, stop="20 s", **ON), pcap=True)
    v6, v4 = (done.text("a", f"python3.{pid}").split() for pid in (1000, 1001))
    assert v6[:2] == ["2001:db8:a00::1", "2001:db8:a00::2"]
    # Headers are 94 bytes with those of Ethernet and TCP's timestamps instead of 66 + 12.
    expected = (1428 + 86) / 1428 / ((1448 + 66) / 1448)
    assert abs(int(v6[3]) / int(v4[3]) / expected - 1) < 0.03, (v6, v4)
    check_captures(done)


DATAGRAMS = """
import errno, socket, struct, sys, time
peer = sys.argv[1]
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
s.settimeout(1)
for name in (socket.IPV6_RECVPKTINFO, socket.IPV6_RECVHOPLIMIT, socket.IPV6_RECVTCLASS): s.setsockopt(socket.IPPROTO_IPV6, name, 1)
s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS, 9)
s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, 0x20)
for size in (10, 1452, 1453, 9000, 60000):
    s.sendto(bytes(size), (peer, 7))
    data, control, flags, source = s.recvmsg(70000, 200)
    assert len(data) == size and source[0] == peer, (size, len(data), source)
    seen = {name: value for level, name, value in control}
    print(size, struct.unpack('i', seen[socket.IPV6_HOPLIMIT])[0], struct.unpack('i', seen[socket.IPV6_TCLASS])[0], socket.inet_ntop(socket.AF_INET6, seen[socket.IPV6_PKTINFO][:16]))
IPV6_MTU_DISCOVER, IPV6_RECVERR = 23, 25
s.setsockopt(socket.IPPROTO_IPV6, IPV6_MTU_DISCOVER, 2)
try: s.sendto(bytes(1453), (peer, 7))
except OSError as e: print(errno.errorcode[e.errno])
s.setsockopt(socket.IPPROTO_IPV6, IPV6_RECVERR, 1)
s.sendto(b'nobody', (peer, 9))
time.sleep(0.5)
data, control, flags, source = s.recvmsg(100, 200, socket.MSG_ERRQUEUE)
code, origin, kind, sub = struct.unpack('IBBB', control[-1][2][:7])
print(data, errno.errorcode[code], origin, kind, sub, source[:2], socket.inet_ntop(socket.AF_INET6, control[-1][2][24:40]))
c = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
c.connect((peer, 9))
c.send(b'x')
time.sleep(0.5)
try: c.send(b'y')
except OSError as e: print(errno.errorcode[e.errno])
t = socket.socket(socket.AF_INET6)
try: t.connect((peer, 9))
except OSError as e: print(errno.errorcode[e.errno])
for to, scope in (('fe80::1', 0), ('2001:db8:ffff::1', 0)):
    try: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).connect((to, 9, 0, scope)); print('connected')
    except OSError as e: print(errno.errorcode[e.errno])
o = socket.socket(socket.AF_INET6)
o.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
o.bind(('::', 4000))
f = socket.socket()
f.bind(('', 4000))
print('both')
"""
ECHO = """
import socket
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
s.bind(('::', 7))
s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, 0x40)
while True: s.sendto(*s.recvfrom(70000))
"""


def test_datagrams_fragments_options_and_errors(run_experiment):
    done = run_experiment(graph({"a": programs(python(DATAGRAMS, "2001:db8::b00:2")), "b": programs(python(ECHO, start="0 s"))}), pcap=True)
    lines = done.text("a").splitlines()
    assert lines[:5] == [f"{size} 64 64 2001:db8::b00:1" for size in (10, 1452, 1453, 9000, 60000)]
    assert lines[5] == "EMSGSIZE"
    assert lines[6] == "b'nobody' ECONNREFUSED 3 1 4 ('2001:db8::b00:2', 9) 2001:db8::b00:2"
    # A link-local address needs its link; where everybody is on the link, nobody is beyond it.
    assert lines[7:] == ["ECONNREFUSED", "ECONNREFUSED", "EINVAL", "connected", "both"]
    check_captures(done)


@pytest.mark.needs("ping", "ip", "curl")
def test_links_routers_and_what_they_say(run_experiment):
    def ping(*args, start):
        return {"path": "/usr/bin/ping", "args": ["-6", *args], "start_time": start, "expected_final_state": "any"}

    def ip(*args, start):
        return {"path": "/usr/sbin/ip", "args": ["-6", *args], "start_time": start}

    hosts = {
        "a": {
            "interfaces": {"eth0": ["10.0.1.1/24", "2001:db8:1::1/64"]},
            "processes": [
                ping("-c", "2", "c", start="3 s"),
                ping("-c", "3", "-s", "1440", "c", start="6 s"),
                ping("-c", "1", "-t", "1", "c", start="10 s"),
                ping("-c", "1", "-W", "5", "2001:db8:1::77", start="11 s"),
                ping("-c", "1", "ff02::1%eth0", start="16 s"),
                ip("neigh", start="17 s"),
                ip("route", start="17 s"),
                python(SEND, "c", 100_000, start="18 s"),
            ],
        },
        "b": {"interfaces": {"eth0": ["10.0.1.2/24", "slaac"]}, "processes": [ip("addr", start="4 s"), ip("route", start="4 s"), ping("-c", "1", "c", start="5 s")]},
        "c": programs(python(SINK, "::", start="0 s")),
    }
    links = [{"between": ["a", "s"]}, {"between": ["b", "s"]}, {"between": ["r:eth0", "s"]}, {"between": ["r:eth1", "c"], "mtu": 1400, "latency": "5 ms"}]
    routers = {"r": {"interfaces": {"eth0": {"addresses": ["10.0.1.254/24", "2001:db8:1::fe/64"], "advertise": True}}}}
    done = run_experiment(world(hosts, links, stop="30 s", switches=["s"], routers=routers, **ON), pcap=True)
    out = [done.text("a", f"ping.{1000 + n}") for n in range(5)]
    assert "icmp_seq=2 ttl=63 time=10.0 ms" in out[0], out[0]
    assert "From r (2001:db8:1::fe) icmp_seq=1 Packet too big: mtu=1400" in out[1] and "3 packets transmitted, 2 received" in out[1], out[1]
    assert "From r (2001:db8:1::fe) icmp_seq=1 Time exceeded: Hop limit" in out[2], out[2]
    assert "Destination unreachable: Address unreachable" in out[3], out[3]
    assert len(re.findall("bytes from fe80::[0-9a-f:]*%eth0", out[4])) == 1 and "1 received" in out[4], out[4]
    assert re.search(r"2001:db8:1::fe dev eth0 lladdr [0-9a-f:]{17} (router )?(REACHABLE|STALE|DELAY)", done.text("a", "ip.1005"))
    assert "2001:db8:1::/64 dev eth0 proto kernel metric 256" in done.text("a", "ip.1006")
    made = re.search(r"inet6 (2001:db8:1:0:[0-9a-f:]+ff:fe[0-9a-f:]+)/64 scope global dynamic", done.text("b", "ip.1000"))
    assert made and "tentative" not in done.text("b", "ip.1000")
    assert re.search(r"default via fe80::[0-9a-f:]+ dev eth0 proto ra metric 1024", done.text("b", "ip.1001"))
    assert "1 received" in done.text("b", "ping.1002")
    assert done.text("c").endswith(" 100000\n")
    check_captures(done)


ADDRESSES = """
import errno, socket, subprocess, sys
def ip(*args): print(subprocess.run(['ip', '-6', *args], capture_output=True, text=True))
def bind(address):
    s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    try: s.bind((address, 0)); return 'bound'
    except OSError as e: return errno.errorcode[e.errno]
import time
def add(address):
    subprocess.run(['ip', '-6', 'addr', 'add', address + '/64', 'dev', 'eth0'], check=True)
    first = bind(address); time.sleep(3); print(address, first, bind(address))
add('2001:db8:a00::9')
add('2001:db8:a00::2')
print('dadfailed' in subprocess.run(['ip', '-6', 'addr'], capture_output=True, text=True).stdout)
subprocess.run(['ip', '-6', 'addr', 'del', '2001:db8:a00::9/64', 'dev', 'eth0'], check=True)
print(bind('2001:db8:a00::9'))
subprocess.run(['ip', '-6', 'route', 'add', '2001:db8:5::/64', 'via', '2001:db8:a00::3'], check=True)
print(subprocess.run(['ip', '-6', 'route', 'get', '2001:db8:5::1'], capture_output=True, text=True).stdout)
subprocess.run(['ip', '-6', 'route', 'del', '2001:db8:5::/64'], check=True)
print(subprocess.run(['ip', '-6', 'route', 'add', '2001:db8:6::/64', 'via', '2001:db8:77::2'], capture_output=True, text=True).stderr)
"""


@pytest.mark.needs("ip")
def test_addresses_that_come_later_are_asked_for_first(run_experiment):
    done = run_experiment(world({"a": programs(python(ADDRESSES)), "b": programs()}, [{"between": ["a", "b"]}], stop="20 s", **ON), pcap=True)
    free, taken, failed, gone, get, *_, unreachable, _ = done.text("a").splitlines()
    assert free == "2001:db8:a00::9 EADDRNOTAVAIL bound" and taken == "2001:db8:a00::2 EADDRNOTAVAIL EADDRNOTAVAIL"
    assert (failed, gone) == ("True", "EADDRNOTAVAIL")
    assert "via 2001:db8:a00::3 dev eth0" in get, get
    assert "No route to host" in unreachable, unreachable
    check_captures(done)


GROUPS = """
import socket, struct, sys
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
s.bind(('::', 5000))
link = socket.if_nametoindex('eth0')
s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, socket.inet_pton(socket.AF_INET6, 'ff02::1234') + struct.pack('I', link))
try: s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, socket.inet_pton(socket.AF_INET6, 'ff02::1234') + struct.pack('I', link))
except OSError as e: print(e.errno, flush=True)
for n in range(2):
    data, source = s.recvfrom(99)
    print(data, source[0][:6], source[3] == link, flush=True)
"""
# The same with a `struct group_req`, and what Linux answers to requests that cannot be.
GROUP_REQUESTS = """
import socket, struct
JOIN, LEAVE = 42, 45
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
s.bind(('::', 5000))
link = socket.if_nametoindex('eth0')
def request(group, family=socket.AF_INET6, index=link):
    address = struct.pack('HHI', family, 0, 0) + socket.inet_pton(socket.AF_INET6, group)
    return struct.pack('I4x', index) + address.ljust(128, b'\\0')
def says(option, value):
    try: s.setsockopt(socket.IPPROTO_IPV6, option, value)
    except OSError as e: return e.errno
    return 0
print(says(JOIN, request('ff02::1234')), says(JOIN, request('ff02::1234')), says(JOIN, request('ff02::1', socket.AF_INET)),
      says(JOIN, request('fe80::1')), says(JOIN, request('ff02::2', index=99)), says(JOIN, request('ff02::2')[:100]), flush=True)
print(*s.recvfrom(99)[0:1], flush=True)
print(says(LEAVE, request('ff02::1234')), says(LEAVE, request('ff02::1234')))
"""
TO_GROUP = """
import socket
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, socket.if_nametoindex('eth0'))
s.sendto(b'by option', ('ff02::1234', 5000))
s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_LOOP, 0)
s.sendto(b'by scope', ('ff02::1234', 5000, 0, socket.if_nametoindex('eth0')))
"""


def test_groups_on_a_link(run_experiment):
    """Who has joined receives, the sender too unless it does not want to; MLD tells routers of it."""
    hosts = {"a": programs(python(GROUPS), python(TO_GROUP, start="5 s")), "b": programs(python(GROUPS)), "c": programs(),
             "d": programs(python(GROUP_REQUESTS))}
    links = [{"between": [name, "s"]} for name in hosts]
    done = run_experiment(world(hosts, links, switches=["s"], **ON), pcap=True)
    assert done.text("b") == "98\nb'by option' fe80:: True\nb'by scope' fe80:: True\n"
    assert done.text("d") == "0 98 99 22 19 22\nb'by option'\n0 99\n"
    assert done.text("a", "python3.1000").splitlines()[1].startswith("b'by option' fe80::")
    assert len(done.text("a", "python3.1000").splitlines()) == 2
    check_captures(done)


@pytest.mark.needs("curl")
def test_the_example(run_experiment):
    done = run_experiment(EXAMPLES / "ipv6.yaml", pcap=True)
    assert done.text("desk", "curl") == done.text("laptop", "curl") == "2001:db8:a00::2 200 100000\n"
    assert done.text("printer", "curl") == "10.0.0.2 200 100000\n"
    check_captures(done)


def test_hosts_of_one_family_only(run_experiment):
    """Who has no IPv6 asks for it in vain, and is reached by IPv4."""
    names = "import socket; print([a[4][0] for a in socket.getaddrinfo('{}', 80, type=socket.SOCK_STREAM)])"
    hosts = {"a": programs(python(names.format("b")), python(names.format("c"), start="2 s"), python(SEND, "b", 1000, start="3 s")),
             "b": {"ipv6": False, **programs(python(SINK, "0.0.0.0", start="0 s"))}, "c": programs(), "d": {"ipv6": False, **programs(python(SEND, "2001:db8::b00:1", 1))}}
    done = run_experiment(graph(hosts))
    assert done.text("a", "python3.1000") == "['11.0.0.2']\n"
    assert done.text("a", "python3.1001") == "['2001:db8::b00:3', '11.0.0.3']\n"
    assert done.text("b") == "11.0.0.1 1000\n"
    assert "Network is unreachable" in done.streams("d", kind="stderr")[0].read_text()


def test_nothing_of_ipv4_changes(run_experiment):
    """Where only IPv4 is spoken the same packets go at the same times, whether there is IPv6 or not."""
    def run(on):
        hosts = {"a": {"network_node_id": 0, **programs(python(SEND, "11.0.0.2", 50_000))}, "b": {"network_node_id": 0, **programs(python(SINK, "0.0.0.0", start="0 s"))}}
        return run_experiment({"general": {"stop_time": "10 s"}, "network": GRAPH, "belljar": {"ipv6": on}, "hosts": hosts}, pcap=True)
    captures = [[path.read_bytes() for path in sorted(run(on).path.rglob("eth0.pcap"))] for on in (False, True)]
    assert captures[0] == captures[1] and all(captures[0])


@pytest.mark.needs("ip")
def test_an_address_from_before_an_interface_is_up(run_experiment):
    """The route to its network comes with the interface, as for a VPN that sets its TUN device up."""
    set_up = "ip tuntap add dev tun9 mode tun && ip address add 200:1::1/7 dev tun9 && ip -6 route show dev tun9; ip link set tun9 up && ip -6 route show dev tun9"
    done = run_experiment(world({"a": programs({"path": "sh", "args": ["-c", set_up]}), "b": programs()}, [{"between": ["a", "b"]}], **ON))
    assert done.text("a").startswith("200::/7 proto kernel metric 256"), done.text("a")
