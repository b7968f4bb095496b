"""Bonds on simulated hosts: Debian's iproute2 sees what it sees on Linux, and another port takes over as there."""

from pathlib import Path

import pytest
from conftest import assert_same_hosts, recorded

RECORDS = Path(__file__).parent / "bond"


@pytest.mark.needs("ip", "bridge", "ping")
@pytest.mark.parametrize("name", ["settings", "failover"])
def test_as_on_linux(exec_guest, name):
    """The output of a script that was recorded on Linux."""
    script, expected = recorded(RECORDS, name)
    ours = exec_guest(["bash", "-c", script])
    assert ours.out == expected, ours


def shell(*lines):
    return {"path": "bash", "args": ["-c", "\n".join(lines)]}


def lab(mode):
    """A host with a bond over two switches that a third joins, another host behind that, and a link that fails for two seconds."""
    ports = "for p in eth0 eth1; do ip addr flush dev $p; ip link set $p down; ip link set $p master bond0; done"
    bond = shell(f"ip link add bond0 type bond mode {mode} miimon 100", ports, "ip link set bond0 up", "ip addr add 10.1.0.1/24 dev bond0",
                 "sleep 1", "ping -q -c 40 -i 0.1 -W 0.5 10.1.0.2 | grep -o '[0-9]* received'", "grep -E 'Active|Failure|Status' /proc/net/bonding/bond0", "ls /proc/net/bonding")
    links = [("a:eth0", "s1:p1"), ("a:eth1", "s2:p1"), ("s1:p2", "s3:p1"), ("s2:p2", "s3:p2"), ("b:eth0", "s3:p3")]
    return {"general": {"stop_time": "10 s"}, "switches": {"s1": {}, "s2": {}, "s3": {}},
            "hosts": {"a": {"interfaces": {"eth0": "10.1.1.1/24", "eth1": "10.1.2.1/24"}, "processes": [bond]}, "b": {"interfaces": {"eth0": "10.1.0.2/24"}}},
            "links": [{"between": list(ends), "latency": "1 ms", **({"name": "first"} if not n else {})} for n, ends in enumerate(links)],
            "events": [{"at": "2.5 s", "link_down": "first", "for": "2 s"}]}


@pytest.mark.needs("ip", "ping")
def test_a_port_takes_over_when_a_link_of_the_experiment_fails(run_experiment):
    """At most the ping of one interval of the monitor is lost, and the same bytes come with more workers and far."""
    runs = [run_experiment(lab("active-backup"), args=args, pcap=True, name=f"bond{n}")
            for n, args in enumerate((["--parallelism", "1"], ["--parallelism", "3"], ["--placement", "far"]))]
    received, *lines = runs[0].text("a", "bash").splitlines()
    assert int(received.split()[0]) >= 39, received
    assert lines == ["Currently Active Slave: eth1", "MII Status: up", "MII Status: up", "Link Failure Count: 1", "MII Status: up", "Link Failure Count: 0", "bond0"], lines
    assert_same_hosts(runs)


@pytest.mark.needs("ip")
def test_files_of_an_interface_are_those_of_the_one_with_its_name(exec_guest):
    """An interface that is deleted and made again has its settings and, if it is a bond, its file."""
    run = exec_guest(["bash", "-c", """
        for n in 1 2; do
            ip link add d0 type dummy; echo $n > /proc/sys/net/ipv4/conf/d0/arp_ignore; cat /proc/sys/net/ipv4/conf/d0/arp_ignore
            ip link add b0 type bond mode $((n - 1)); grep Mode /proc/net/bonding/b0
            ip link del d0; ip link del b0; ls -d /proc/sys/net/ipv4/conf/d0 /proc/net/bonding 2>/dev/null
        done
        ip link add d0 type dummy; cat /proc/sys/net/ipv4/conf/d0/arp_ignore"""])
    assert run.out == "1\nBonding Mode: load balancing (round-robin)\n2\nBonding Mode: fault-tolerance (active-backup)\n0\n", run


def test_not_supported_is_refused_and_named(exec_guest):
    run = exec_guest(["bash", "-c", """
        for mode in 802.3ad balance-tlb balance-alb; do ip link add b0 type bond mode $mode; done
        ip link add b0 type bond fail_over_mac active
        ip link add b0 type bond arp_interval 100 arp_ip_target 10.0.0.1
    """])
    assert run.err.count("Error: attribute not supported.") == 5, run
    for named in ("mode '802.3ad'", "mode 'balance-tlb'", "mode 'balance-alb'", "attribute 13 (IFLA_BOND_*)", "attribute 7 (IFLA_BOND_*)"):
        assert named in run.err, run.err
