"""Routing daemons and network tools on hosts with links: BIRD, FRRouting, tcpdump, VPNs, VRRP, multicast."""

import re
import shutil
import subprocess

import pytest
from conftest import EXAMPLES
from programs.networks import extended_routers, unnumbered_routers, unnumbered_ways
from test_links import check_captures, python, stats, world


def hops(text):
    return re.findall(r"^ *\d+  ([\d.]+)", text, re.M)


def tshark(path, filter, *fields):
    """The chosen fields of the packets that a filter lets through; nothing without tshark."""
    if shutil.which("tshark") is None:
        pytest.skip("tshark is not installed")
    options = [option for field in fields for option in ("-e", field)]
    read = subprocess.run(["tshark", "-r", path, "-Y", filter, "-T", "fields", *options], capture_output=True, text=True, timeout=600)
    assert read.returncode == 0, read.stderr
    return [line.split("\t") for line in read.stdout.splitlines()]


@pytest.mark.needs("bird", "vtysh", "ping", "traceroute")
def test_routing_example(run_experiment):
    done = run_experiment(EXAMPLES / "routing.yaml", pcap=True)
    before, between, after = (hops(file.read_text()) for file in done.streams("alice", "traceroute"))
    assert before == ["10.1.0.1", "10.0.12.2", "192.168.2.2", "172.16.0.2"]
    assert between == ["10.1.0.1", "10.0.13.3", "192.168.2.2", "172.16.0.2"]
    assert after == ["10.1.0.1", "10.0.13.3", "192.168.3.2", "172.16.0.2"]
    said = done.text("alice", "ping")
    times = {int(n): round(float(ms)) for n, ms in re.findall(r"icmp_seq=(\d+) .*time=([\d.]+)", said)}
    # 28 ms by r2; 49 by r3 and r2 while the core is down; back; 54 by r3 once the session of r2 is gone
    assert [times[n] for n in (3, 15, 36, 55)] == [28, 49, 28, 54], said
    assert len(times) >= 57
    neighbours = done.text("r3", "vtysh")
    assert len(re.findall(r"Full/", neighbours)) == 2 and "B>* 172.16.0.0/24" in neighbours, neighbours
    assert "to_x       BGP        ---        up" in done.text("r2", "birdc")
    assert re.search(r"\*> +172.16.0.0/24", done.text("x", "vtysh"))
    check_captures(done)
    states = {int(kind) for (kind,) in tshark(done.host("r2") / "eth0.pcap", "ospf", "ospf.msg") if kind}
    assert states == {1, 2, 3, 4, 5}, "hello, description, request, update, acknowledgment"


@pytest.mark.needs("tcpdump", "ping")
def test_tcpdump_inside_a_host(run_experiment):
    hosts = {
        "a": {"processes": [
            {"path": "tcpdump", "args": ["-n", "-i", "eth0", "-c", "4"]},
            {"path": "tcpdump", "args": ["-n", "-i", "any", "-c", "4", "icmp and host 127.0.0.1 or icmp[0] == 8"]},
            {"path": "tcpdump", "args": ["-n", "-i", "eth0", "-w", "written.pcap", "icmp"], "shutdown_time": "9 s"},
            {"path": "ping", "args": ["-n", "-c", "2", "b"], "start_time": "2 s"},
            {"path": "ping", "args": ["-n", "-c", "1", "127.0.0.1"], "start_time": "5 s"},
        ]},
        "b": {"processes": []},
    }
    done = run_experiment(world(hosts, [{"between": ["a", "b"], "latency": "1 ms"}]), pcap=True)
    first, second = (done.streams("a", "tcpdump")[n].read_text().splitlines() for n in (0, 1))
    assert [re.sub(r"^\S+ ", "", line).split(",")[0] for line in first] == [
        "ARP", "ARP", "IP 10.0.0.1 > 10.0.0.2: ICMP echo request", "IP 10.0.0.2 > 10.0.0.1: ICMP echo reply"], first
    assert first[0].startswith("00:00:02.000000 ") and "who-has 10.0.0.2 tell 10.0.0.1" in first[0]
    assert [line.split()[1] for line in second] == ["eth0", "eth0", "lo", "lo"], second
    assert len(tshark(done.host("a") / "written.pcap", "icmp", "frame.number")) == 4
    check_captures(done)


LISTEN = """
import socket, struct
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("", 4000))
own = socket.gethostbyname(socket.gethostname())
s.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton("239.1.2.3") + socket.inet_aton(own))
s.settimeout(6)
try:
    while True: print(*s.recvfrom(99), flush=True)
except TimeoutError: pass
"""
SPEAK = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
own = socket.gethostbyname(socket.gethostname())
s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(own))
s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 3)
s.sendto(sys.argv[1].encode(), ("239.1.2.3", 4000))
"""


def test_multicast_reaches_the_members_of_a_link(run_experiment):
    hosts = {
        "a": {"processes": [python(SPEAK, "to all", start="2 s")]},
        "b": {"processes": [python(LISTEN, start="0 s")]},
        "c": {"processes": [python(LISTEN.replace("239.1.2.3", "239.1.2.4"), start="0 s")]},
        "d": {"processes": [python(LISTEN, start="0 s"), python(SPEAK, "from a member", start="3 s")]},
    }
    links = [{"between": [name, "s"], "latency": "1 ms"} for name in hosts]
    done = run_experiment(world(hosts, links, switches=["s"]), pcap=True)
    both = "b'to all' ('10.0.0.1', 0)\nb'from a member' ('10.0.0.4', 0)\n"
    heard = {name: re.sub(r", \d+\)", ", 0)", done.streams(name, "python3")[0].read_text()) for name in "bcd"}
    assert heard == {"b": both, "c": "", "d": both}
    check_captures(done)
    # joined twice, for one report can get lost, and left when the socket is closed
    reports = tshark(done.host("b") / "eth0.pcap", "igmp && ip.src == 10.0.0.2", "igmp.record_type", "igmp.maddr", "ip.dst", "ip.ttl")
    joined, left = ["4", "239.1.2.3", "224.0.0.22", "1"], ["3", "239.1.2.3", "224.0.0.22", "1"]
    assert reports == [joined, joined, left, left], reports
    ttl = tshark(done.host("b") / "eth0.pcap", "udp.dstport == 4000", "eth.dst", "ip.ttl")
    assert ["01:00:5e:01:02:03", "3"] in ttl


KEEPALIVED = """
vrrp_instance V {
  state BACKUP
  interface eth0
  virtual_router_id 51
  priority %d
  advert_int 1
  virtual_ipaddress { 10.0.0.100/24 }
}
"""


@pytest.mark.needs("keepalived", "ping")
def test_vrrp_moves_an_address(run_experiment, workdir):
    hosts = {"a": {"processes": [{"path": "ping", "args": ["-n", "-c", "20", "10.0.0.100"], "start_time": "8 s", "expected_final_state": "any"}]}}
    for name, priority in (("m1", 150), ("m2", 100)):
        conf = workdir / f"{name}.conf"
        conf.write_text(KEEPALIVED % priority)
        hosts[name] = {"processes": [{"path": "keepalived", "args": ["-n", "-l", "-f", str(conf)], "expected_final_state": "any"}]}
    events = [{"at": "15.5 s", "crash": "m1"}]
    links = [{"between": [name, "s"], "latency": "1 ms"} for name in hosts]
    done = run_experiment(world(hosts, links, "40 s", switches=["s"], events=events), pcap=True)
    got = [int(n) for n in re.findall(r"icmp_seq=(\d+) ttl=64", done.text("a", "ping"))]
    assert set(range(1, 8)) <= set(got) and set(range(14, 21)) <= set(got) and not {9, 10} & set(got), got
    check_captures(done)


@pytest.mark.needs("openvpn", "ping", "curl")
def test_openvpn_between_two_hosts(run_experiment, workdir):
    key = workdir / "static.key"
    subprocess.run(["openvpn", "--genkey", "secret", key], check=True, capture_output=True)
    def vpn(peer, own, other):
        args = ["--dev", "tun", "--proto", "udp", "--remote", peer, "--ifconfig", own, other, "--secret", str(key), "--cipher", "AES-256-CBC"]
        return {"path": "openvpn", "args": args, "expected_final_state": "running"}
    serve = {"path": "/usr/bin/python3", "args": ["-m", "http.server", "80", "-d", "/usr/share/common-licenses"], "expected_final_state": "running"}
    hosts = {
        "a": {"processes": [vpn("b", "10.8.0.1", "10.8.0.2"), {"path": "ping", "args": ["-n", "-c", "3", "10.8.0.2"], "start_time": "5 s"},
                            {"path": "curl", "args": ["-sS", "-o", "got", "http://10.8.0.2/GPL-3"], "start_time": "9 s"}]},
        "b": {"processes": [vpn("a", "10.8.0.2", "10.8.0.1"), serve]},
    }
    done = run_experiment(world(hosts, [{"between": ["a", "b"], "latency": "1 ms"}], "15 s"), pcap=True)
    assert "3 received" in done.text("a", "ping")
    with open("/usr/share/common-licenses/GPL-3", "rb") as file:
        assert (done.host("a") / "got").read_bytes() == file.read()
    assert (done.host("a") / "tun0.pcap").exists()
    assert not tshark(done.host("a") / "eth0.pcap", "http", "frame.number"), "what goes through the tunnel cannot be read outside"


@pytest.mark.needs("traceroute", "mtr", "hping3", "nping", "arping")
def test_tools_with_raw_sockets(run_experiment):
    tool = lambda second, path, *args: {"path": path, "args": list(args), "start_time": f"{second} s", "expected_final_state": "any"}
    hosts = {
        "a": {"processes": [
            tool(1, "traceroute", "-n", "b"), tool(7, "traceroute", "-n", "-I", "b"), tool(8, "traceroute", "-n", "-T", "b"),
            tool(20, "mtr", "-n", "-r", "-c", "2", "b"), tool(30, "hping3", "-S", "-p", "80", "-c", "2", "b"),
            tool(34, "nping", "--icmp", "-c", "2", "b"), tool(38, "arping", "-c", "2", "10.0.0.2")]},
        "b": {"processes": [{"path": "/usr/bin/python3", "args": ["-m", "http.server", "80"], "expected_final_state": "running"}]},
    }
    links = [{"between": ["a", "r"], "latency": "1 ms"}, {"between": ["r", "b"], "latency": "1 ms"}]
    done = run_experiment(world(hosts, links, "45 s", routers=["r"]))
    for said in (file.read_text() for file in done.streams("a", "traceroute")):
        assert hops(said) == ["10.0.0.2", "10.0.1.2"], said
    assert re.search(r"2\.\|-- 10\.0\.1\.2 +0\.0%", done.text("a", "mtr"))
    assert done.text("a", "hping3").count("flags=SA") == 2
    assert done.text("a", "nping").count("RCVD") == 2, done.text("a", "nping")
    # Debian has two programs of this name, in arping and in iputils-arping.
    assert len(re.findall("42 bytes from|Unicast reply from", done.text("a", "arping"))) == 2


@pytest.mark.needs("tcpdump")
def test_a_forwarding_host_needs_no_configuration(run_experiment):
    send = "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.sendto(b'x', ('10.9.2.2', 9))"
    forward = "echo 1 > /proc/sys/net/ipv4/ip_forward"
    hosts = {
        "a": {"interfaces": {"eth0": "10.9.1.2/24"}, "routes": [{"to": "default", "via": "10.9.1.1"}],
              "processes": [python(send, start="1 s"), python(send, start="3 s")]},
        "r": {"interfaces": {"eth0": "10.9.1.1/24", "eth1": "10.9.2.1/24"}, "processes": [{"path": "sh", "args": ["-c", forward], "start_time": "2 s"}]},
        "b": {"interfaces": {"eth0": "10.9.2.2/24"}, "processes": [{"path": "tcpdump", "args": ["-n", "-i", "eth0", "udp"], "shutdown_time": "9 s"}]},
    }
    links = [{"between": ["a:eth0", "r:eth0"]}, {"between": ["r:eth1", "b:eth0"]}]
    done = run_experiment(world(hosts, links))
    seen = [line for line in done.streams("b", "tcpdump")[0].read_text().splitlines() if " UDP" in line]
    assert len(seen) == 1 and seen[0].startswith("00:00:03."), seen
    assert stats(done)["hosts"]["b"]["packets_in"] >= 1


@pytest.mark.needs("ip", "ping", "tcpdump")
def test_a_forwarding_host_holds_packets_to_the_mtu_of_a_route(run_experiment):
    """What Linux does in three namespaces: it says so of packets that must not be cut, and cuts the others."""
    limit = "echo 1 > /proc/sys/net/ipv4/ip_forward; ip route change 10.9.2.0/24 dev eth1 mtu 1000"
    shell = lambda text, **more: {"path": "sh", "args": ["-c", text], "expected_final_state": "any", **more}  # noqa: E731
    ask = "ping -c1 -W1 -M do -s 1200 10.9.2.2; ip route flush cache; ping -c1 -W1 -M dont -s 1200 10.9.2.2"
    hosts = {
        "a": {"interfaces": {"eth0": "10.9.1.2/24"}, "routes": [{"to": "default", "via": "10.9.1.1"}], "processes": [shell(ask, start_time="1 s")]},
        "r": {"interfaces": {"eth0": "10.9.1.1/24", "eth1": "10.9.2.1/24"}, "processes": [shell(limit)]},
        "b": {"interfaces": {"eth0": "10.9.2.2/24"}, "routes": [{"to": "default", "via": "10.9.2.1"}],
              "processes": [{"path": "tcpdump", "args": ["-nv", "-i", "eth0", "icmp[icmptype]==8 or ip[6:2]&0x1fff!=0"], "shutdown_time": "9 s"}]},
    }
    done = run_experiment(world(hosts, [{"between": ["a:eth0", "r:eth0"]}, {"between": ["r:eth1", "b:eth0"]}]))
    said = done.text("a")
    assert "From 10.9.1.1 icmp_seq=1 Frag needed and DF set (mtu = 1000)" in said and "1208 bytes from 10.9.2.2: icmp_seq=1 ttl=63" in said, said
    pieces = re.findall(r"offset (\d+), flags \[(.*?)\].*length (\d+)\)", done.text("b"))
    assert pieces == [("0", "+", "996"), ("976", "none", "252")], done.text("b")


@pytest.mark.needs("tracepath")
def test_tracepath_learns_of_its_own_interface(run_experiment):
    """Its first datagram is too long for the link, which only the queue of errors tells."""
    hosts = {"a": {"interfaces": {"eth0": "10.9.1.2/24"}, "routes": [{"to": "default", "via": "10.9.1.1"}],
                   "processes": [{"path": "tracepath", "args": "-n 10.9.2.2", "start_time": "1 s"}]},
             "b": {"interfaces": {"eth0": "10.9.2.2/24"}, "routes": [{"to": "default", "via": "10.9.2.1"}], "processes": []}}
    links = [{"between": ["a:eth0", "r:eth0"], "mtu": 1400}, {"between": ["r:eth1", "b:eth0"], "mtu": 1300}]
    done = run_experiment(world(hosts, links, routers={"r": {"interfaces": {"eth0": "10.9.1.1/24", "eth1": "10.9.2.1/24"}}}))
    said = done.text("a")
    assert re.search(r"1\?: \[LOCALHOST\] +pmtu 1400", said) and re.search(r"pmtu 1300", said) and "Resume: pmtu 1300 hops 2" in said, said


def test_who_is_answered_does_not_ask_for_its_neighbour_again(run_experiment):
    """A connection that goes on for two minutes shows that its neighbour is there; one that only receives still asks."""
    sink = "import socket; l = socket.create_server(('', 7)); c, _ = l.accept()\nwhile c.recv(9): pass"
    talk = "import socket, time; s = socket.create_connection(('10.9.1.1', 7))\nfor _ in range(120): s.send(b'x'); time.sleep(1)"
    hosts = {"a": {"interfaces": {"eth0": "10.9.1.2/24"}, "processes": [python(talk)]},
             "b": {"interfaces": {"eth0": "10.9.1.1/24"}, "processes": [python(sink, start="0 s")]}}
    done = run_experiment(world(hosts, [{"between": ["a:eth0", "b:eth0"]}], stop="130 s"), pcap=True)
    asked = [who for (who,) in tshark(done.pcap("a"), "arp.opcode == 1", "arp.src.proto_ipv4")]
    assert asked.count("10.9.1.2") == 1 and asked.count("10.9.1.1") >= 1, asked


@pytest.mark.needs("vtysh", "ping", "ip", "traceroute")
def test_unnumbered_bgp_of_frr(run_experiment):
    """Routers without IPv4 addresses on their links learn IPv4 routes with IPv6 next hops (RFC 8950), by two links at once."""
    more = [{"path": "traceroute", "args": ["-n", "-s", "10.255.0.1", "10.255.0.2"], "start_time": "45 s"}]
    done = run_experiment(unnumbered_routers(more), pcap=True)
    routes = done.text("r1", "ip")
    assert unnumbered_ways(routes) == {"eth0", "eth1"}, routes
    assert "3 received" in done.text("r1", "ping") and hops(done.text("r1", "traceroute")) == ["10.255.0.2"]
    check_captures(done)


@pytest.mark.needs("bird", "ping", "ip")
def test_extended_next_hops_of_bird(run_experiment):
    """A session over IPv6 brings IPv4 routes."""
    done = run_experiment(extended_routers())
    assert re.search(r"10\.255\.0\.2 via inet6 \S+ dev eth0 proto bird", done.text("r1", "ip")), done.text("r1", "ip")
    assert "3 received" in done.text("r1", "ping")
