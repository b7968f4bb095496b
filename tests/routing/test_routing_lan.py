"""Three routers on one LAN, a network behind each: FRRouting's daemons exchange the routes, with a designated router, by
multicast and over TCP, near and far, with any number of workers."""

import re

import pytest
from conftest import contents_of
from test_links import check_captures, world

CONFIGURATIONS = {
    "ospf": "interface eth0\n ip ospf hello-interval 1\n ip ospf dead-interval 4\nrouter ospf\n ospf router-id 10.255.0.{n}\n network 10.0.0.0/8 area 0\n",
    "rip": "router rip\n network eth0\n network eth1\n",
    "bgp": "router bgp 6500{n}\n bgp router-id 10.255.0.{n}\n no bgp ebgp-requires-policy\n{neighbours} address-family ipv4 unicast\n  network 10.1.{n}.0/24\n",
    "ospf6": "interface eth0\n ipv6 ospf6 area 0\n ipv6 ospf6 hello-interval 1\n ipv6 ospf6 dead-interval 4\ninterface eth1\n ipv6 ospf6 area 0\n ipv6 ospf6 passive\nrouter ospf6\n ospf6 router-id 10.255.0.{n}\n",
}


def lan(protocol, where="auto"):
    """Routers r1 to r3 on a switch, hosts h1 to h3 behind them; h1 pings the others once the routes are there."""
    v6 = protocol == "ospf6"
    hosts, links = {}, []
    for n in (1, 2, 3):
        others = [other for other in (1, 2, 3) if other != n]
        neighbours = "".join(f" neighbor 10.0.0.{other} remote-as 6500{other}\n neighbor 10.0.0.{other} timers connect 1\n" for other in others)
        configuration = f"hostname r{n}\n" + CONFIGURATIONS[protocol].format(n=n, neighbours=neighbours)
        start = f"printf '%s' '{configuration}' > /etc/frr/frr.conf; mkdir -p /run/frr; chown -R frr:frr /run/frr /etc/frr; PATH=$PATH:/usr/lib/frr; for daemon in zebra {protocol}d; do $daemon -d -f /etc/frr/frr.conf; done"
        family = ["-6"] if v6 else []
        shown = {"ospf": "show ip ospf neighbor", "rip": "show ip rip", "bgp": "show ip bgp summary", "ospf6": "show ipv6 ospf6 neighbor"}[protocol]
        hosts[f"r{n}"] = {
            "forwarding": True,
            "routes": [],
            "interfaces": {"eth0": [f"10.0.0.{n}/24"] + [f"2001:db8::{n}/64"] * v6, "eth1": [f"10.1.{n}.1/24"] + [f"2001:db8:{n}::1/64"] * v6},
            "processes": [
                {"path": "sh", "args": ["-c", start]},
                {"path": "ip", "args": [*family, "route"], "start_time": "24 s"},
                {"path": "vtysh", "args": ["-c", shown], "start_time": "24 s"},
            ],
        }
        to = [f"2001:db8:{other}::2" if v6 else f"10.1.{other}.2" for other in others]
        pings = [{"path": "ping", "args": ["-n", "-c", "2", address], "start_time": "25 s"} for address in to] if n == 1 else []
        routes = [{"to": "default", "via": f"10.1.{n}.1"}] + ([{"to": "::/0", "via": f"2001:db8:{n}::1"}] if v6 else [])
        hosts[f"h{n}"] = {"interfaces": {"eth0": [f"10.1.{n}.2/24"] + [f"2001:db8:{n}::2/64"] * v6}, "routes": routes, "processes": pings}
        links += [{"between": [f"r{n}:eth0", "s"], "latency": "1 ms"}, {"between": [f"r{n}:eth1", f"h{n}:eth0"]}]
    for host in hosts.values():
        for process in host["processes"]:
            process["placement"] = where
    return world(hosts, links, "30 s", switches=["s"], **({"belljar": {"ipv6": True}} if v6 else {}))


def check(done, protocol):
    for n in (1, 2, 3):
        said = done.text(f"r{n}", "ip")
        for other in {1, 2, 3} - {n}:
            if protocol == "ospf6":
                expected = rf"2001:db8:{other}::/64 .*via fe80::\S+ dev eth0 proto ospf"
            else:
                expected = rf"10\.1\.{other}\.0/24 .*via 10\.0\.0\.{other} dev eth0 proto {protocol}"
            assert re.search(expected, said), f"r{n}: {said}"
    for file in done.streams("h1", "ping"):
        assert "2 received" in file.read_text(), file.read_text()
    neighbours = [done.text(f"r{n}", "vtysh") for n in (1, 2, 3)]
    if protocol == "ospf":
        # One is the designated router, one stands by, and each is seen so by the others.
        roles = sorted(re.findall(r"Full/(\w+)", "".join(neighbours)))
        assert roles == ["Backup"] * 2 + ["DR"] * 2 + ["DROther"] * 2, neighbours
    if protocol == "ospf6":
        assert len(re.findall(r"Full/", "".join(neighbours))) == 6, neighbours


@pytest.mark.needs("vtysh", "ip", "ping")
def test_ospf_on_a_lan(run_experiment):
    done = run_experiment(lan("ospf"), pcap=True)
    check(done, "ospf")
    check_captures(done)


@pytest.mark.slow
@pytest.mark.needs("vtysh", "ip", "ping")
@pytest.mark.parametrize("protocol", ["rip", "bgp", "ospf6"])
def test_other_protocols_on_a_lan(run_experiment, protocol):
    done = run_experiment(lan(protocol), pcap=True)
    check(done, protocol)
    check_captures(done)


@pytest.mark.slow
@pytest.mark.needs("vtysh", "ip", "ping")
def test_a_lan_of_routers_is_the_same_every_time(run_experiment):
    near, far = (run_experiment(lan("ospf6", where), pcap=True, args=args, name=name)
                 for name, where, args in (("one", "near", ["--parallelism", "1"]), ("two", "far", ["--parallelism", "3"])))
    both = [{name: content for name, content in contents_of(done.path).items() if name.endswith((".pcap", ".stdout"))} for done in (near, far)]
    assert both[0] == both[1] and len(both[0]) > 20
