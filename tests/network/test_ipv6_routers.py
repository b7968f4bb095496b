"""What a host makes of what a router says, the router being a program that says what it likes: announcements, questions for
groups."""

import pytest
from test_ipv6 import ON
from test_links import check_captures, python, world
from test_routing import tshark

SAY = """
import socket, struct, subprocess, sys, time
subprocess.run(["ip", "addr", "add", "fe80::9/64", "dev", "eth0", "nodad"], check=True)
s = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
link = socket.if_nametoindex("eth0")
s.bind(("fe80::9", 0, 0, link))
def say(message, hops):
    s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, hops)
    s.sendto(message, ("ff02::1", 0, 0, link))
def announce(lifetime, prefixes, valid):
    options = b"".join(struct.pack("!BBBBIII", 3, 4, 64, 0xc0, valid, valid, 0) + socket.inet_pton(socket.AF_INET6, prefix) for prefix in prefixes)
    say(struct.pack("!BBHBBHII", 134, 0, 0, 64, 0, lifetime, 0, 0) + options, 255)
def ask(group, version):
    say(struct.pack("!BBHHH", 130, 0, 0, 500, 0) + socket.inet_pton(socket.AF_INET6, group) + bytes(4 * (version == 2)), 1)
exec(sys.argv[1])
"""


def ip(*args, start):
    return {"path": "ip", "args": ["-6", *args], "start_time": start}


def talk(run_experiment, code, *processes, **more):
    hosts = {"a": {"interfaces": {"eth0": ["10.0.0.1/24", "slaac"]}, "routes": [], "processes": list(processes)}, "r": {"processes": [python(SAY, code, start="4 s")]}}
    done = run_experiment(world(hosts, [{"between": ["a:eth0", "r"]}], "12 s", **ON, **more), pcap=True)
    assert not done.streams("r", kind="stderr")[0].read_text()
    return done


@pytest.mark.needs("ip")
def test_what_an_announcement_brings_goes_with_it_and_nothing_else(run_experiment):
    code = "networks = [f'2001:db8:{n}::' for n in range(5, 35)]\nannounce(1800, networks, 7200)\ntime.sleep(3)\nannounce(0, networks, 0)"
    done = talk(run_experiment, code, ip("addr", "add", "2001:db8:5::1/64", "dev", "eth0", start="2 s"),
                ip("route", "add", "2001:db8:77::/48", "via", "fe80::9", "dev", "eth0", start="2 s"),
                ip("addr", "show", "dev", "eth0", start="6 s"), ip("route", start="6 s"), ip("route", start="9 s"))
    addresses, before, after = (done.text("a", f"ip.{pid}") for pid in (1002, 1003, 1004))
    # As many as max_addresses: the link's own, the administrator's, and made ones.
    assert addresses.count("inet6 ") == 16, addresses
    assert "default via fe80::9 dev eth0 proto ra" in before and before.count("proto kernel") == 31, before
    assert "default" not in after and "2001:db8:77::/48 via fe80::9" in after, after
    assert "2001:db8:5::/64 dev eth0 proto kernel" in after and after.count("proto kernel") == 2, after
    check_captures(done)


@pytest.mark.needs("ip")
def test_another_router_takes_over_from_one_that_leaves(run_experiment):
    code = "announce(1800, [], 0)\ns2 = 'fe80::a'\nsubprocess.run(['ip', 'addr', 'add', s2 + '/64', 'dev', 'eth0', 'nodad'])\nfirst = s\ns = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)\ns.bind((s2, 0, 0, link))\nannounce(1800, [], 0)\ntime.sleep(3)\ns = first\nannounce(0, [], 0)"
    done = talk(run_experiment, code, ip("route", start="6 s"), ip("route", start="9 s"))
    assert [("via fe80::9" in text, "via fe80::a" in text) for text in (done.text("a", "ip.1000"), done.text("a", "ip.1001"))] == [(True, False), (False, True)]


JOIN = "import socket, struct, time\ns = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)\ns.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, socket.inet_pton(socket.AF_INET6, 'ff05::77') + struct.pack('I', socket.if_nametoindex('eth0')))\ntime.sleep(99)"


def test_who_asks_for_members_is_answered(run_experiment):
    """All groups for a general question, one for a question about it, none for one about another; to those who speak MLDv1 only
    in its words. No later than they allow."""
    code = "ask('::', 2)\ntime.sleep(1)\nask('ff05::77', 2)\ntime.sleep(1)\nask('ff05::78', 2)\ntime.sleep(1)\nask('ff05::77', 1)"
    done = talk(run_experiment, code, python(JOIN, start="0 s"))
    seen = tshark(done.host("r") / "eth0.pcap", "icmpv6.type in {131, 143} && frame.time_relative > 3", "frame.time_relative", "icmpv6.type", "icmpv6.mldr.mar.record_type", "icmpv6.mldr.mar.multicast_address", "icmpv6.mld.multicast_address", "ipv6.dst", "ipv6.hlim")
    own = [(float(when) - float(seen[0][0]), *what) for when, *what in seen if "ff05::77" in what[2] + what[3]]
    assert [what[1:3] for what in own] == [("143", own[0][2]), ("143", "2"), ("131", "")], own
    assert set(own[0][2].split(",")) == {"2"} and "ff02::1:ff" in own[0][3] and own[1][3] == "ff05::77", own
    assert own[2][4:] == ("ff05::77", "ff05::77", "1"), own
    check_captures(done)
