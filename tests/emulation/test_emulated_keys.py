"""Keys that act in emulations do: one short run whose hosts, links and events differ in the keys, and show their effect."""

import json
import os
import re

import pytest
import yaml
from conftest import execute, frames_of
from errors import keys

SHOW = """echo $0; printenv LEVEL; id -u; cat /proc/sys/net/ipv4/ip_default_ttl; cat /proc/net/if_inet6 | wc -l; ip -o addr show; ip route; cat /etc/resolv.conf; getent hosts www.example.com; cat shared.txt; cat from-template
ls /; date +%s.%N"""
PING = "ping -c {count} -i 0.02 -W 1 {to}"
#: Keys whose effect the run shows: section, things, names.
OBSERVED = [
    ("general", [""], "stop_time data_directory template_directory"), ("host_option_defaults", [""], "shared"),
    ("belljar", [""], "ipv6 address_pool dns dns.address dns.records"), ("network", [""], "graph graph.inline"),
    ("hosts", [keys.GRAPH], "network_node_id ip_addr host_options.shared"),
    ("hosts", [keys.LINKS], "host_options.pcap_enabled host_options.pcap_capture_size host_options.pcap_filter host_options.sysctls ipv6 setup interfaces routes forwarding processes "
     "processes.path processes.args processes.arg0 processes.environment processes.user processes.start_time processes.shutdown_time processes.shutdown_signal processes.expected_final_state "
     "processes.expected_final_state.exited processes.expected_final_state.signaled"),
    ("interfaces", [""], "addresses mac"), ("route", [""], "to via metric"), ("links", ["host"], "between name latency packet_loss rate queue duplication mtu"), ("queue", ["queue"], "packets"),
    ("events", [""], "at for"), ("events", ["link"], "link_change link_down latency packet_loss"), ("events", ["path"], "link_change latency"),
]


def sh(text, **more):
    return {"path": "sh", "args": ["-c", text], **more}


def experiment(folder):
    loud = {"pcap_enabled": True}
    return {
        "general": {"stop_time": "4 s", "template_directory": str(folder / "template"), "data_directory": str(folder / "data")},
        "host_option_defaults": {"shared": [str(folder / "shared")]},
        "belljar": {"ipv6": True, "address_pool": "11.7.0.0/16", "dns": {"address": "10.1.0.53", "records": ["www.example.com A 10.77.0.7"]}},
        "network": {"graph": {"type": "gml", "inline": """graph [ directed 0
            node [ id 0 host_bandwidth_up "50 Mbit" host_bandwidth_down "50 Mbit" ] node [ id 1 host_bandwidth_up "50 Mbit" host_bandwidth_down "50 Mbit" ]
            edge [ source 0 target 0 latency "1 ms" ] edge [ source 1 target 1 latency "1 ms" ] edge [ source 0 target 1 latency "40 ms" ] ]"""}},
        "hosts": {
            "a": {
                "interfaces": {"eth0": {"addresses": "10.1.0.1/24", "mac": "02:00:00:00:00:aa"}}, "routes": [{"to": "10.2.0.0/16", "via": "10.1.0.2", "metric": 77}],
                "host_options": {**loud, "pcap_capture_size": "60 B", "pcap_filter": "icmp", "sysctls": {"net.ipv4.ip_default_ttl": 33}, "shared": [str(folder / "shared")]},
                "setup": ["ip addr add 10.99.0.1/32 dev lo"],
                "processes": [
                    sh(f"cp {folder}/shared/x shared.txt; {SHOW}", arg0="shell", environment={"LEVEL": "5"}, user="daemon", expected_final_state="any"),
                    sh(PING.format(count=5, to="10.1.0.2"), start_time="500 ms"), sh(PING.format(count=20, to="10.2.0.1"), start_time="500 ms", expected_final_state="any"),
                    sh("trap 'echo interrupted; exit 3' INT; while :; do sleep 0.05; done", shutdown_time="1 s", shutdown_signal="SIGINT", expected_final_state={"exited": 3}),
                    sh("sleep 0.3; kill -TERM $$", expected_final_state={"signaled": "SIGTERM"}),
                    {"path": "sleep", "args": ["60"], "expected_final_state": "running"},
                ],
            },
            "r": {"interfaces": {"eth0": "10.1.0.2/24", "eth1": "10.2.0.2/24"}, "forwarding": True, "processes": []},
            "b": {"ipv6": False, "interfaces": {"eth0": "10.2.0.1/24"}, "routes": [{"to": "10.1.0.0/24", "via": "10.2.0.2"}],
                  "processes": [sh("cat /proc/net/if_inet6 | wc -l"), sh(PING.format(count=20, to="10.2.0.2"), start_time="2 s", expected_final_state="any")]},
            "c": {"network_node_id": 0, "host_options": {"shared": [str(folder / "own")]}, "processes": [sh(f"echo c > {folder}/own/c"), sh(PING.format(count=3, to="11.7.0.99"), start_time="500 ms"), sh(PING.format(count=20, to="d"), start_time="2 s", expected_final_state="any")]},
            "d": {"network_node_id": 1, "ip_addr": "11.7.0.99", "processes": [sh(f"ip -o addr show eth0; echo d > {folder}/shared/d")]},
            "e": {"interfaces": {"eth0": "10.3.0.1/24"}, "processes": [sh("cat /sys/class/net/eth0/mtu; ping -c 20 -i 0.01 -s 1200 -W 1 10.3.0.2 & ping -q -f -c 60 -s 1200 -W 1 10.3.0.2; wait", expected_final_state="any"), sh(PING.format(count=40, to="10.3.0.2"), start_time="1500 ms", expected_final_state="any")]},
            "f": {"interfaces": {"eth0": "10.3.0.2/24"}, "processes": []},
        },
        "links": [
            {"name": "near", "between": ["a", "r:eth0"], "latency": "30 ms"}, {"name": "far", "between": ["r:eth1", "b"], "packet_loss": 0.5},
            {"name": "thin", "between": ["e", "f"], "rate": "500 Kbit", "queue": {"packets": 2}, "duplication": 0.5, "mtu": 1300},
        ],
        "events": [
            {"at": "1900 ms", "link_change": "far", "packet_loss": 0, "latency": "25 ms"}, {"at": "1900 ms", "link_change": ["c", "d"], "latency": "70 ms"},
            {"at": "1900 ms", "for": "300 ms", "link_down": "thin"},
        ],
    }


def stdouts(folder, host):
    files = sorted((folder / "hosts" / host).glob("*.stdout"), key=lambda file: int(file.name.split(".")[1]))
    return [file.read_text(errors="replace") for file in files]


def round_trips(text):
    return [float(value) for value in re.findall(r"time=([0-9.]+) ms", text)]


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user has the users and namespaces alone that the machine lends")
@pytest.mark.needs("ping", "ip")
def test_keys_act_in_an_emulation(belljar, workdir):
    for name, text in {"template/hosts/a/from-template": "of the template\n", "shared/x": "of all hosts\n", "own/x": ""}.items():
        (workdir / name).parent.mkdir(parents=True, exist_ok=True)
        (workdir / name).write_text(text)
    (workdir / "experiment.yaml").write_text(yaml.safe_dump(experiment(workdir), sort_keys=False))
    done = execute([belljar, "emulate", workdir / "experiment.yaml", "--no-progress"], cwd=workdir)
    data = workdir / "data"
    text = {host: stdouts(data, host) for host in "abcdef"}
    assert done.status == 0 and "4.000 s emulated" in done.out, (done, text)
    own = next(part for part in text["a"] if "shell\n" in part)
    for line in ("shell\n5\n1\n33\n", " 10.1.0.1/24 ", " 10.99.0.1/32 ", "fe80::ff:fe00:aa/64", "2001:db8:a01::1/64", "10.2.0.0/16 via 10.1.0.2 dev eth0 proto static metric 77",
                 "nameserver 10.1.0.53", "10.77.0.7", "of all hosts\n", "of the template\n"):
        assert line in own, (line, own)
    assert text["b"][0] == "0\n" and "11.7.0.99/" in text["d"][0], text
    assert (workdir / "own/c").read_text() == "c\n" and (workdir / "shared/d").read_text() == "d\n"
    # A busy machine makes times longer, never shorter.
    for host, peer, least in (("a", "10.1.0.2", 60), ("b", "10.2.0.2", 50), ("c", "11.7.0.99", 80), ("c", "d(", 140), ("e", "10.3.0.2", 39)):
        pings = next(part for part in text[host] if f"PING {peer}" in part)
        assert round_trips(pings) and min(round_trips(pings)) >= least, (host, peer, pings)
    counts = {host: [int(n) for part in text[host] for n in re.findall(r"(\d+) received", part)] for host in "abe"}
    assert any(0 < n < 20 for n in counts["a"]) and counts["b"] == [20], (counts, text)
    assert text["e"][0].startswith("1300\n") and "DUP!" in "".join(text["e"]), text
    assert "interrupted\n" in text["a"] and re.search(r"exited 3 +at 1\.\d", done.out) and "signaled SIGTERM" in done.out, done
    dropped = {reason for account in json.loads((data / "sim-stats.json").read_text())["packets"].values() for reason in account.get("drops", {})}
    assert {"egress_full", "packet_loss"} <= dropped and dropped & {"interface_down", "link_down"}, dropped
    frames = list(frames_of(data / "hosts/a/eth0.pcap"))
    assert all(frame[23] == 1 for frame in frames), "not ICMP"
    assert frames and max(map(len, frames)) == 60 and not (data / "hosts/b/eth0.pcap").exists(), frames


def test_the_table_says_that_they_act():
    table = {(row.section, key, thing): row.verdicts["emulate"] for row in keys.ROWS for key in row.keys for thing in row.things}
    for section, things, names in OBSERVED:
        for cell in ((section, name, thing) for name in names.split() for thing in things):
            assert keys.verdict(table[cell])[0] == keys.ACTS, (cell, table.get(cell))
