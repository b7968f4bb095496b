"""IPv6 gives the same bytes for every number of workers and every placement: addresses that hosts make themselves and ask for
first, reports of groups, fragments, flow labels, and an address that somebody else has already."""

import pytest
from conftest import contents_of
from test_links import python, world

TALK = """
import os, socket, struct, subprocess, sys, time
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
s.bind(("::", 7))
s.settimeout(0.2)
link = socket.if_nametoindex("eth0")
s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, socket.inet_pton(socket.AF_INET6, "ff05::77") + struct.pack("I", link))
s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, link)
subprocess.run(["ip", "-6", "addr", "add", "2001:db8:1::5/64", "dev", "eth0"])
until = time.monotonic() + 6
while time.monotonic() < until:
    try:
        s.sendto(os.urandom(40), ("ff05::77", 7))
        s.sendto(os.urandom(4000), (sys.argv[1], 7))
        while True:
            data, who = s.recvfrom(9000)
            print(time.monotonic_ns(), who, len(data), data[:8].hex(), flush=True)
    except OSError as error:
        print(time.monotonic_ns(), repr(error), flush=True)
"""
WAYS = [("near", "1"), ("far", "1"), ("near", "3")]


@pytest.mark.needs("ip")
def test_ipv6_is_the_same_every_time(run_experiment):
    def run(number, where, workers, seed=7):
        hosts = {name: {"interfaces": {"eth0": [f"10.0.1.{n}/24", "slaac"]}, "processes": [python(TALK, "2001:db8:1::5", placement=where)]} for n, name in enumerate("abc", 1)}
        routers = {"r": {"interfaces": {"eth0": {"addresses": ["10.0.1.254/24", "2001:db8:1::fe/64"], "advertise": True}}}}
        links = [{"between": [end, "s"], "latency": "1 ms", "packet_loss": 0.02} for end in ("a", "b", "c", "r:eth0")]
        experiment = world(hosts, links, "9 s", switches=["s"], routers=routers, belljar={"ipv6": True})
        done = run_experiment(experiment, args=["--parallelism", workers], seed=seed, pcap=True, name=f"run{number}")
        return {name: data for name, data in contents_of(done.path).items() if name.endswith((".pcap", ".stdout"))}

    first, *others = (run(number, *way) for number, way in enumerate(WAYS))
    # Each has been heard by the others, and of those who want the same address one has it at most.
    assert len(first) >= 10 and all(b"2001:db8:1:0" in first[f"hosts/{name}/python3.1000.stdout"] for name in "abc")
    for number, other in enumerate(others, 1):
        assert other == first, f"{WAYS[number]}: {[name for name in first if first[name] != other.get(name)]}"
    assert run(9, *WAYS[0], seed=8) != first, "another seed, other bytes"
