"""ipvlan on simulated hosts: Debian's iproute2 sees what it sees on Linux, and packets go where Linux passes them."""

import json
import re
from pathlib import Path

import pytest
from conftest import assert_same_hosts, recorded

RECORDS = Path(__file__).parent / "ipvlan"


def shell(script, **more):
    return {"path": "bash", "args": ["-c", script], **more}


def lab(mode, **hosts):
    """Hosts on a switch, the first of which has ipvlans of 10.1.0.11 and .12 on its interface."""
    setup = "".join(f"""
        ip link add link eth0 i{n} type ipvlan mode {mode}; ip link set i{n} up; ip addr add 10.1.0.1{n}/32 dev i{n}
        ip route add 10.1.0.0/24 dev i{n} table {n}; ip rule add from 10.1.0.1{n} table {n}
    """ for n in (1, 2))
    scripts = {"a": setup + hosts.pop("a"), **hosts}
    return {"general": {"stop_time": "20 s"}, "switches": {"hub": {}},
            "hosts": {name: {"interfaces": {"eth0": f"10.1.0.{number}/24"}, "processes": [shell(script)]} for number, (name, script) in enumerate(scripts.items(), 1)},
            "links": [{"between": [f"{name}:eth0", f"hub:p{number}"], "latency": "1 ms"} for number, name in enumerate(scripts)]}


@pytest.mark.needs("ip", "ping", "python3", "sysctl")
@pytest.mark.parametrize("name", ["settings", "traffic"])
def test_as_on_linux(exec_guest, name):
    """The output of a script that was recorded on Linux."""
    script, expected = recorded(RECORDS, name)
    ours = exec_guest(["bash", "-c", script])
    assert ours.out == expected, ours


ASK = "sleep 1; for n in 11 12; do ping -q -c 2 -i 0.2 -W 0.5 10.1.0.$n | grep -o '[0-9]* received'; done; ip neigh | sort | cut -d' ' -f1-5"
SEND = "sleep 4; for n in 11 12; do ping -q -c 2 -i 0.2 -W 0.5 -I 10.1.0.$n 10.1.0.2 | grep -o '[0-9]* received'; done"


@pytest.mark.needs("ip", "ping")
@pytest.mark.parametrize("mode", ["l2", "l3", "l3s"])
def test_hosts_of_the_experiment(run_experiment, mode):
    """Other hosts reach ipvlans on an experiment's interface: in mode l3 by a route to it, as it answers no ARP requests for them."""
    route = "" if mode == "l2" else "ip route add 10.1.0.11 via 10.1.0.1; ip route add 10.1.0.12 via 10.1.0.1; "
    runs = [run_experiment(lab(mode, a=SEND, b=route + ASK), args=args, pcap=True, name=f"{mode}{n}")
            for n, args in enumerate((["--parallelism", "1"], ["--parallelism", "3"], ["--placement", "far"]))]
    asked = runs[0].text("b", "bash")
    assert asked.count("2 received") == 2, asked
    assert asked.count("lladdr") == (2 if mode == "l2" else 1), asked
    assert runs[0].text("a", "bash").count("2 received") == 2
    assert_same_hosts(runs)


@pytest.mark.needs("ip", "nft", "ping")
def test_hooks_of_mode_l3s(run_experiment):
    """Packet hooks see a packet to an ipvlan on the lower interface in mode l3s, and on the ipvlan in mode l3."""
    rules = "\nnft 'add table t; add chain t in { type filter hook input priority 0; }; add rule t in icmp type echo-request meta iifname vmap { i1 : accept, eth0 : drop }'\n"
    for mode, received in (("l3", 1), ("l3s", 0)):
        ask = "ip route add 10.1.0.11 via 10.1.0.1; sleep 1; ping -q -c 1 -W 0.5 10.1.0.11 | grep -o '[0-9]* received'"
        run = run_experiment(lab(mode, a=rules, b=ask), name=mode)
        assert run.text("b", "bash") == f"{received} received\n"


@pytest.mark.needs("ip", "ping")
def test_drops_are_in_the_account(run_experiment):
    run = run_experiment(lab("l3", a="""
        ip route add 224.1.1.1 dev i1 table 1; ip route add default via 10.1.0.99 table 2 dev i2 onlink; ip route add blackhole 192.0.2.0/24
        python3 -c 'import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("10.1.0.11", 0)); [s.sendto(b"x", ("224.1.1.1", 9)) for _ in range(3)]
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("10.1.0.12", 0)); [s.sendto(b"x", ("192.0.2.1", 9)) for _ in range(2)]'
    """, b="true"))
    text = json.dumps(json.loads((run.path / "sim-stats.json").read_text())["packets"])
    for counted in (r'"ipvlan": 3\b', r'"no_route": 2\b'):
        assert re.search(counted, text), counted + text


@pytest.mark.needs("ip")
def test_not_supported_is_refused_and_named(exec_guest):
    run = exec_guest(["bash", "-c", """
        mount -t tmpfs tmpfs /run; ip netns add far
        ip link add v0 type veth peer name w0
        ip link add link v0 i0 netns far type ipvlan mode l2
        ip link add link v0 i0 type ipvlan mode l2
        ip link set i0 netns far
        ip link show type ipvlan | wc -l
    """])
    assert run.out == "2\n", run
    assert "Error: attribute not supported." in run.err and "The interface netns is immutable" in run.err, run
    assert "ipvlan: interfaces in another network namespace" in run.err and "macvlans and ipvlans stay in their network namespace" in run.err, run
