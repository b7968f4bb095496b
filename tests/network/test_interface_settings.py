"""Settings of interfaces (`/proc/sys/net/ipv4/conf`, `ipv6/conf`) with their effect; interfaces that are made while a host runs; and
addresses that do not stay for ever."""

import re

import pytest
from test_ipv6 import ON
from test_ipv6_routers import SAY
from test_links import python, world
from test_routing import tshark


def shell(text, start="1 s", **more):
    return {"path": "sh", "args": ["-c", text], "start_time": start, "expected_final_state": "any", **more}


def received(text):
    return int(re.search(r"(\d+) received", text).group(1))


@pytest.mark.needs("ip", "ping")
@pytest.mark.parametrize("own, of_all, passes", [(0, 0, True), (1, 0, False), (0, 1, False), (2, 1, True)])
def test_rp_filter_drops_what_comes_by_the_wrong_way(run_experiment, own, of_all, passes):
    """a sends from an address of b's network, which the router would send elsewhere: strictly (1) that is dropped, loosely (2) not; the
    greater one of the two settings counts."""
    settings = {"net.ipv4.conf.eth0.rp_filter": own, "net.ipv4.conf.all.rp_filter": of_all}
    forge = "import socket, time\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\ns.bind(('10.0.2.77', 0))\ns.sendto(b'forged', ('10.0.2.2', 9))\n" \
        "t = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\nt.sendto(b'honest', ('10.0.2.2', 9))"
    hear = "import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\ns.bind(('', 9))\nwhile True: print(s.recvfrom(99)[0].decode(), flush=True)"
    show = "import re; names, counts = [l.split() for l in open('/proc/net/netstat') if l.startswith('TcpExt')]; print(dict(zip(names, counts))['IPReversePathFilter'], open('/proc/sys/net/ipv4/conf/eth0/rp_filter').read())"
    hosts = {
        "a": {"interfaces": {"eth0": "10.0.1.2/24"}, "processes": [shell("ip addr add 10.0.2.77/32 dev lo"), python(forge, start="2 s")]},
        "b": {"interfaces": {"eth0": "10.0.2.2/24"}, "processes": [python(hear, start="0 s")]},
        "r": {"forwarding": True, "interfaces": {"eth0": "10.0.1.1/24", "eth1": "10.0.2.1/24"}, "host_options": {"sysctls": settings}, "processes": [python(show, start="5 s")]},
    }
    done = run_experiment(world(hosts, [{"between": ["a:eth0", "r:eth0"]}, {"between": ["b:eth0", "r:eth1"]}]))
    assert done.text("b").split() == (["forged", "honest"] if passes else ["honest"])
    assert done.text("r").split() == ["0" if passes else "1", str(own)]


@pytest.mark.needs("ip", "ping")
def test_arp_is_answered_as_the_settings_say(run_experiment):
    """For an address of another interface (arp_ignore), and for one that is elsewhere (proxy_arp)."""
    ask = "for a in 10.0.9.1 10.0.2.2; do ping -n -c 1 -W 1 $a | grep -o '[0-9]* received'; done"
    def answers(**settings):
        settings = {f"net.ipv4.conf.{name.replace('__', '.')}": value for name, value in settings.items()}
        hosts = {
            "a": {"interfaces": {"eth0": "10.0.1.2/24"}, "routes": [], "processes": [shell(f"ip route add 10.0.9.0/24 dev eth0; ip route add 10.0.2.0/24 dev eth0; {ask}", "2 s")]},
            "b": {"interfaces": {"eth0": "10.0.2.2/24"}, "processes": []},
            "r": {"forwarding": True, "interfaces": {"eth0": "10.0.1.1/24", "eth1": "10.0.2.1/24"}, "host_options": {"sysctls": settings},
                  "processes": [shell("ip addr add 10.0.9.1/32 dev lo")]},
        }
        done = run_experiment(world(hosts, [{"between": ["a:eth0", "r:eth0"]}, {"between": ["b:eth0", "r:eth1"]}]))
        return [int(line.split()[0]) for line in done.text("a").splitlines()]
    assert answers() == [1, 0]
    assert answers(eth0__arp_ignore=1, eth0__proxy_arp=1) == [0, 1]
    assert answers(all__arp_ignore=8, default__proxy_arp=1) == [0, 1], "what is ignored are questions for its own addresses"


@pytest.mark.needs("ip", "ping")
@pytest.mark.parametrize("send, accept", [(1, 1), (0, 1), (1, 0)])
def test_redirects_are_told_and_heeded(run_experiment, send, accept):
    """r1 passes packets on to r2 by the link that they came by: it tells their sender, who sends the next ones to r2."""
    sysctls = lambda name, value: {"host_options": {"sysctls": {f"net.ipv4.conf.{scope}.{name}": value for scope in ("all", "eth0")}}}  # noqa: E731
    hosts = {
        "a": {"interfaces": {"eth0": "10.0.0.2/24"}, "routes": [{"to": "default", "via": "10.0.0.3"}], **sysctls("accept_redirects", accept),
              "processes": [shell("ping -n -c 1 10.0.0.4 > /dev/null; ping -n -c 4 10.9.0.1; ip route get 10.9.0.1", "2 s")]},
        "r1": {"forwarding": True, "interfaces": {"eth0": "10.0.0.3/24"}, "routes": [{"to": "10.9.0.0/24", "via": "10.0.0.4"}], **sysctls("send_redirects", send), "processes": []},
        "r2": {"forwarding": True, "interfaces": {"eth0": "10.0.0.4/24"}, "processes": [shell("ip addr add 10.9.0.1/24 dev lo")]},
    }
    links = [{"between": [f"{host}:eth0", "s"]} for host in hosts]
    done = run_experiment(world(hosts, links, "12 s", switches={"s": {}}), pcap=True)
    said = done.text("a")
    assert received(said) == 4, said
    told = tshark(done.host("a") / "eth0.pcap", "icmp.type == 5", "icmp.redir_gw")
    assert told[:1] == ([["10.0.0.4"]] if send else []), told
    heeded = send and accept
    assert f"10.9.0.1 via {'10.0.0.4' if heeded else '10.0.0.3'} dev eth0" in said, said
    # A redirect quotes the request as it is passed on, too.
    passed_on = tshark(done.host("r1") / "eth0.pcap", "icmp.type == 8 && ip.dst == 10.9.0.1 && ip.ttl == 63 && !(icmp.type == 5)", "ip.ttl")
    assert len(passed_on) == (1 if heeded else 4), passed_on


@pytest.mark.needs("ip")
def test_flows_are_spread_by_ports_where_the_policy_says_so(run_experiment):
    """Over two next hops of equal cost: by addresses alone all flows of two hosts go one way."""
    send = "import socket\nfor n in range(60):\n    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('10.9.1.1', 0)); s.sendto(b'x', ('10.9.0.1', 9))"
    counts = "print([int(l.split(':')[1].split()[9]) for l in open('/proc/net/dev') if 'eth' in l])"
    def sent(policy):
        hosts = {
            "a": {"interfaces": {"eth0": "10.0.1.1/24", "eth1": "10.0.2.1/24"}, "routes": [], "host_options": {"sysctls": {"net.ipv4.fib_multipath_hash_policy": policy}},
                  "processes": [shell("ip addr add 10.9.1.1/32 dev lo; ip route add 10.9.0.0/24 nexthop via 10.0.1.2 nexthop via 10.0.2.2"),
                                python(send, start="2 s"), python(counts, start="4 s")]},
            "b": {"interfaces": {"eth0": "10.0.1.2/24", "eth1": "10.0.2.2/24"}, "processes": []},
        }
        done = run_experiment(world(hosts, [{"between": ["a:eth0", "b:eth0"]}, {"between": ["a:eth1", "b:eth1"]}]))
        return eval([text for text in (file.read_text() for file in done.streams("a")) if text.startswith("[")][0])
    by_addresses, by_ports = sent(0), sent(1)
    assert min(by_addresses) <= 3 and max(by_addresses) >= 60, by_addresses
    assert min(by_ports) >= 15, by_ports


@pytest.mark.needs("ip", "ping")
def test_forwarding_is_a_matter_of_each_interface(run_experiment):
    """Written for all it counts for each; what is written for one counts for what comes in there."""
    change = "echo 1 > /proc/sys/net/ipv4/conf/all/forwarding; echo 0 > /proc/sys/net/ipv4/conf/eth1/forwarding; cat /proc/sys/net/ipv4/ip_forward /proc/sys/net/ipv4/conf/eth*/forwarding; sysctl -n net.ipv4.conf.eth0.forwarding"
    ping = lambda to: shell(f"ping -n -c 1 -W 1 {to}", "3 s")  # noqa: E731
    hosts = {
        "a": {"interfaces": {"eth0": "10.0.1.2/24"}, "routes": [{"to": "default", "via": "10.0.1.1"}], "processes": [python("import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('10.0.2.2', 9))", start="3 s")]},
        "b": {"interfaces": {"eth0": "10.0.2.2/24"}, "routes": [{"to": "default", "via": "10.0.2.1"}], "processes": [
            python("import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('', 9)); print(s.recv(9))", start="0 s"), ping("10.0.1.2")]},
        "r": {"interfaces": {"eth0": "10.0.1.1/24", "eth1": "10.0.2.1/24"}, "processes": [shell(change)]},
    }
    done = run_experiment(world(hosts, [{"between": ["a:eth0", "r:eth0"]}, {"between": ["b:eth0", "r:eth1"]}]))
    assert done.text("r").split() == ["1", "1", "0", "1"]
    assert done.text("b", "python3") == "b'x'\n" and received(done.text("b", "sh")) == 0


def test_what_has_no_effect_is_told(run_experiment):
    write = shell("echo 1 > /proc/sys/net/ipv4/conf/all/log_martians; cat /proc/sys/net/ipv4/conf/all/log_martians; ls /proc/sys/net/ipv4/conf /proc/sys/net/ipv6/conf/lo | tr '\\n' ' '")
    hosts = {"a": {"host_options": {"sysctls": {"net.ipv4.conf.eth0.arp_notify": 1, "net.ipv4.conf.wlan0.rp_filter": 1}}, "processes": [write]}, "b": {"processes": []}}
    done = run_experiment(world(hosts, [{"between": ["a", "b"]}]))
    assert done.text("a").startswith("1\n") and "all default eth0 lo" in done.text("a") and " use_tempaddr" in done.text("a")
    said = done.out + done.err
    for warning in ("net.ipv4.conf.all.log_martians is accepted without effect", "net.ipv4.conf.eth0.arp_notify is accepted without effect",
                    "net.ipv4.conf.wlan0.rp_filter: there is no such interface at the start"):
        assert warning in said, said


@pytest.mark.needs("ip", "ping")
def test_dummies_and_vlans(run_experiment):
    """A dummy has addresses that others reach; two VLANs of one link do not meet, and frames have their tags."""
    setup = """ip link add dummy0 type dummy && ip addr add 10.66.0.{n}/32 dev dummy0 && ip link set dummy0 up
        for id in 10 20; do ip link add link eth0 name eth0.$id type vlan id $id && ip addr add 10.$id.0.{n}/16 dev eth0.$id && ip link set eth0.$id up; done"""
    ask = """ip -o link show dev dummy0; ip -d -o link show dev eth0.10; ip link add dummy0 type dummy; ip link add x type bogus
        ip link add link eth0 name y type vlan id 10; for to in 10.10.0.2 10.20.0.2 10.66.0.2; do ping -n -c 2 -W 1 $to | grep -o '[0-9]* received'; done
        ip link set eth0 down; ip -br link show dev eth0.10; ip link del eth0.10; ip link show dev eth0.10"""
    hosts = {
        "a": {"interfaces": {"eth0": "10.0.0.1/24"}, "processes": [shell(setup.format(n=1) + "\nip route add 10.66.0.2 via 10.10.0.2"), shell("exec 2>&1\n" + ask, "4 s")]},
        "b": {"interfaces": {"eth0": "10.0.0.2/24"}, "processes": [shell(setup.format(n=2) + "\nip link del eth0.20")]},
    }
    done = run_experiment(world(hosts, [{"between": ["a:eth0", "b:eth0"]}], "20 s", **ON), pcap=True)
    said = done.streams("a")[1].read_text()
    assert re.search(r"dummy0: <BROADCAST,NOARP,UP,LOWER_UP> mtu 1500 qdisc noqueue state UNKNOWN", said), said
    assert re.search(r"eth0\.10@eth0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 .*vlan protocol 802.1Q id 10 <REORDER_HDR>", said), said
    assert re.findall(r"(\d) received", said) == ["2", "0", "2"], said
    for error in ("RTNETLINK answers: File exists", "Error: Unknown device type.", "Error: 8021q: VLAN device already exists.|Error: VLAN device already exists."):
        assert re.search(error, said), (error, said)
    assert re.search(r"eth0\.10@eth0 +DOWN|eth0\.10@eth0 +LOWERLAYERDOWN", said) and 'Device "eth0.10" does not exist' in said, said
    tags = tshark(done.host("b") / "eth0.pcap", "icmp.type == 8", "vlan.id")
    assert [tag for (tag,) in tags] == ["10"] * 4, tags


@pytest.mark.needs("ip")
def test_an_address_with_a_lifetime_goes(run_experiment):
    """Deprecated after two seconds, gone after five; replaced, it starts anew."""
    setup = "for a in 10.5.0.1/24 10.6.0.1/24 2001:db8:5::1/64; do ip addr add $a dev eth0 valid_lft 5 preferred_lft 2; done; sleep 4; ip addr replace 10.6.0.1/24 dev eth0 valid_lft 60 preferred_lft 60; ip addr change 10.6.0.1/24 dev eth0 valid_lft 50 preferred_lft forever; ip -o addr show dev eth0"
    setup = setup.replace(" preferred_lft forever", " preferred_lft 50")
    monitor = {"path": "ip", "args": ["-o", "-ts", "monitor", "address"], "expected_final_state": "running"}
    hosts = {"a": {"interfaces": {"eth0": ["10.0.0.1/24", "2001:db8::1/64"]}, "routes": [], "processes": [monitor, shell(setup, "2 s"), shell("ip -o addr show dev eth0", "8 s"), shell("ip route", "8 s")]}, "b": {"processes": []}}
    done = run_experiment(world(hosts, [{"between": ["a:eth0", "b"]}], "12 s", **ON))
    during, after, routes = (file.read_text() for file in done.streams("a", "sh"))
    assert re.search(r"10\.5\.0\.1/24 .*scope global deprecated.* valid_lft 1sec preferred_lft 0sec", during), during
    assert re.search(r"10\.6\.0\.1/24 .* valid_lft 50sec preferred_lft 50sec", during), during
    assert re.search(r"10\.0\.0\.1/24 .* valid_lft forever preferred_lft forever", during), during
    assert re.search(r"2001:db8:5::1/64 .*deprecated", during), during
    assert "10.5.0.1" not in after and "2001:db8:5::1" not in after and "10.6.0.1" in after, after
    assert "10.5.0.0/24" not in routes and "10.6.0.0/24" in routes
    told = done.text("a", "ip")
    gone = re.findall(r"Deleted \d+: eth0 +inet6? ([0-9a-f.:]+)/", told)
    assert sorted(gone) == ["10.5.0.1", "2001:db8:5::1"], told


def announced(run_experiment, settings, *processes, stop="12 s", code="announce(1800, ['2001:db8:5::'], 7200)"):
    hosts = {"a": {"interfaces": {"eth0": ["10.0.0.1/24", "slaac"]}, "routes": [], "processes": [shell("ip -6 -o addr show dev eth0; ip -6 route", "8 s"), *processes],
                   "host_options": {"sysctls": {f"net.ipv6.conf.eth0.{name}": value for name, value in settings.items()}}},
             "r": {"processes": [python(SAY, code, start="4 s")]}}
    return run_experiment(world(hosts, [{"between": ["a:eth0", "r"]}], stop, **ON))


@pytest.mark.needs("ip")
@pytest.mark.parametrize("settings, address, router", [
    ({}, True, True), ({"accept_ra": 0}, False, False), ({"autoconf": 0}, False, True), ({"accept_ra_defrtr": 0}, True, False), ({"accept_ra_pinfo": 0}, False, True)])
def test_settings_of_what_routers_announce(run_experiment, settings, address, router):
    said = announced(run_experiment, settings).text("a")
    assert ("inet6 2001:db8:5:" in said, "default via fe80::9" in said) == (address, router), said


@pytest.mark.needs("ip")
def test_temporary_addresses(run_experiment):
    """With use_tempaddr 2 a second address, made at random, that packets come from; one that lives briefly is replaced in time, and
    the same seed makes the same ones."""
    talk = python("import socket\ns = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)\ns.connect(('2001:db8:9::1', 9))\nprint(s.getsockname()[0])", start="8 s")
    done = announced(run_experiment, {"use_tempaddr": 2}, talk)
    said, own = done.text("a", "sh"), done.text("a", "python3").strip()
    temporary = re.findall(r"inet6 (2001:db8:5:\S+)/64 scope global temporary dynamic", said)
    assert len(temporary) == 1 and own == temporary[0] and "ff:fe" not in own, said
    assert re.search(r"inet6 2001:db8:5:\S+ff:fe\S+/64 scope global dynamic", said), said
    again = announced(run_experiment, {"use_tempaddr": 2}, talk)
    assert again.text("a", "python3").strip() == own
    # A minute's preference less up to ten minutes of desynchronisation would be none: so 700 s.
    late = announced(run_experiment, {"use_tempaddr": 1, "temp_prefered_lft": 700, "temp_valid_lft": 800}, shell("ip -6 -o addr show dev eth0", "720 s"), stop="730 s")
    said = late.streams("a", "sh")[1].read_text()
    found = re.findall(r"inet6 (2001:db8:5:\S+)/64 scope global temporary( deprecated)? dynamic", said)
    assert len(found) >= 2 and any(not old for _, old in found) and any(old for _, old in found), said


@pytest.mark.needs("ip", "ping")
def test_ipv6_is_turned_off_and_on(run_experiment):
    code = "for v in 1 0; do echo $v > /proc/sys/net/ipv6/conf/eth0/disable_ipv6; cat /proc/sys/net/ipv6/conf/eth0/disable_ipv6; ip -6 -o addr show dev eth0; ip -6 addr add 2001:db8::7/64 dev eth0; sleep 3; done; ip -6 -br addr show dev eth0"
    hosts = {"a": {"interfaces": {"eth0": ["10.0.0.1/24", "2001:db8::1/64"]}, "processes": [shell("exec 2>&1\n" + code)]}, "b": {"processes": []}}
    said = run_experiment(world(hosts, [{"between": ["a:eth0", "b"]}], "12 s", **ON)).text("a")
    assert said.startswith("1\nError: ipv6: IPv6 is disabled on this device.\n0\n"), said
    assert re.search(r"eth0@?\S* +UP +2001:db8::7/64 fe80::", said) and "2001:db8::1/64" not in said, said
