"""The table of keys: complete, documented, and true of the loader and of simulations."""

import copy
import json
import re
import sys

import pytest
import yaml
from conftest import EXAMPLES, ROOT, execute

from . import keys

PLAIN = {"general": {"stop_time": "9 s"}}
GRAPH = {**PLAIN, "network": {"graph": {"type": "1_gbit_switch"}}}


def idle():
    return {"processes": []}


def test_every_key_has_a_verdict_at_each_thing():
    schema = keys.keys_of_schema(json.loads(keys.SCHEMA.read_text()))
    listed = {(row.section, key) for row in keys.ROWS for key in row.keys}
    assert schema - listed == set(), "keys of the schema without a row in tests/errors/keys.py"
    assert listed - schema == set(), "rows of tests/errors/keys.py without a key in the schema"
    cells = [(row.section, key, thing) for row in keys.ROWS for key in row.keys for thing in row.things]
    twice = {cell for cell in cells if cells.count(cell) > 1}
    assert not twice, f"two verdicts: {twice}"
    for row in keys.ROWS:
        assert set(row.verdicts) == set(keys.BACKENDS) and all(row.verdicts.values()), row
    things = {(row.section, key): set() for row in keys.ROWS for key in row.keys}
    for section, key, thing in cells:
        things[section, key].add(thing)
    for (section, key), covered in things.items():
        if section == "links" and not key.startswith("between."):
            assert covered == set(keys.ENDS), (key, set(keys.ENDS) - covered)
        if section == "hosts" and key != "one_of":
            assert covered == set(keys.HOSTS), (key, set(keys.HOSTS) - covered)
        if section == "switches":
            assert covered == set(keys.SWITCHES), (key, covered)
    changes = "link_down link_up link_change link_reset latency jitter packet_loss rate reordering duplication corruption queue token_bucket"
    for key in changes.split():
        assert things["events", key] == set(keys.TARGETS), key


def test_the_generator_refuses_a_key_without_a_row(capsys):
    schema = json.loads(keys.SCHEMA.read_text())
    schema["properties"]["general"]["properties"]["brand_new"] = {"type": "string"}
    before = keys.PAGE.read_text()
    assert keys.main(schema) == 1 and "without a row: [('general', 'brand_new')]" in capsys.readouterr().out
    assert keys.PAGE.read_text() == before


def test_the_page_is_up_to_date():
    assert keys.PAGE.read_text() == keys.page(), "write docs/keys.md again: python tests/errors/keys.py"


# Keys that the loader refuses: an experiment with the key at the thing. The values are valid elsewhere.

LINE = {"rate": "10 Mbit", "latency": "1 ms", "jitter": "1 us", "packet_loss": 0.1, "reordering": {"probability": 0.1, "delay": "1 ms"},
        "duplication": 0.1, "corruption": 0.1, "queue": {"packets": 9}, "token_bucket": {"rate": "1 Mbit", "burst": "9 KB"}, "overhead": "9 B",
        "mtu": 1400}
NIC = {"pci": "nic0", "driver": "e1000"}
OF_HOSTS = {
    "network_node_id": 0, "ip_addr": "11.0.0.9", "ip6_addr": "fd00::9", "bandwidth_up": "1 Mbit", "bandwidth_down": "1 Mbit",
    "host_options.queue": {"packets": 9}, "host_options.scheduling": "random", "routing": "static", "routes": [{"to": "default", "via": "10.0.0.1"}], "machine": "qemu",
    "clock.hardware_offset": {"hardware_offset": "1 s"}, "clock.hardware_drift_ppm": {"hardware_drift_ppm": 5},
    "clock": {"offset": "1 s"}, "cpu": {"syscall": "1 us"}, "cpu_count": 2, "memory": "64 MiB", "devices": [NIC], "setup": ["true"],
    "processes.user": [{"path": "true", "user": "daemon"}], "processes.arg0": [{"path": "true", "arg0": "other"}], "host_options.shared": ["/tmp"], "processes.model": [{"model": {"type": "sink", "port": 9}}],
}
OF_P4 = {
    "include": ".", "define": {"A": 1}, "p4info": "x", "runtime": "x", "commands": "x", "queue_packets": 9, "queue_bytes": "9 KB", "queues": 2,
    "input_packets": 9, "latency": "1 us", "packets_per_second": 9, "timestamps": "ns", "trace": True, "cpu_port": 9,
}
BOXES = {"box": {"command": "/bin/true"}, "far": {"command": "/bin/true"}}


def channel(**own):
    return {**PLAIN, "hosts": {"a": idle(), "c": {**idle(), "devices": [NIC]}, "d": idle()}, "simulators": BOXES, "nics": ["nic0"],
            "links": [{"between": ["a", "box:in"]}, {"between": ["nic0:eth", "d"]}, {"between": ["box:out", "far:p"], "name": "channel", **own}]}


def at_host(key, thing):
    value = OF_HOSTS[next(known for known in OF_HOSTS if key == known or key.startswith(f"{known}."))]
    top, _, rest = key.partition(".")
    host = idle()
    if thing == keys.GRAPH:
        host["network_node_id"] = 0
    if thing == keys.MACHINE:
        host["machine"] = "qemu"
    if top == "processes":
        host["processes"] = value
    else:
        host[top] = {rest: value} if top == "host_options" else value
    # With what it is refused beside: a host on links, a controller.
    links = [] if thing == keys.GRAPH and top != "devices" else [{"between": ["a", "s"]}]
    return {**GRAPH, "belljar": {"ipv6": True}, "hosts": {"a": host, "b": idle()}, "switches": ["s"], "nics": ["nic0"] if top == "devices" else [],
            "links": [*links, {"between": ["b", "s"]}, *([{"between": ["nic0:eth", "s"]}] if top == "devices" else [])]}


def at_event(key, thing):
    own = {key: LINE[key]} if key in LINE else {}
    if thing in ("link of two simulators", "PCI connection"):
        name = "channel" if thing.startswith("link") else "c:eth0-nic0:pci"
        kind = key if key.startswith("link_") else "link_change"
        event = {"at": "1 s", kind: name, **({"latency": "1 ms"} if kind == "link_change" else {}), **own}
        undone = [{"at": "1 s", "link_down": "a:eth0-box:in"}, {"at": "1 s", "link_change": "a:eth0-box:in", "latency": "1 ms"}]
        return {**channel(), "events": [event, *undone]}
    linked = {**GRAPH, "hosts": {"a": idle(), "b": idle(), "g": {**idle(), "network_node_id": 0}, "h": {**idle(), "network_node_id": 0}},
              "links": [{"between": ["a", "b"]}]}
    event = {
        "path": {"link_change": ["g", "h"], **own}, "edge": {"link_change": {"edge": [0, 0]}, **own},
        keys.LINKS: {"bandwidth": "a", "up": "1 Mbit", "down": "1 Mbit"}, "host": {"move": "a", "to": [0, 0], "speed": 1},
        "machine": {"clock": "a", "step": "1 s", "drift_ppm": 5},
    }[thing]
    if thing == "machine":
        linked["hosts"]["a"]["machine"] = "qemu"
    return {**linked, "events": [{"at": "1 s", **event}]}


def refused(section, key, thing):
    """An experiment that is refused for the key."""
    if section == "links":
        outer, _, inner = key.partition(".")
        return channel(**({"reverse": {inner: LINE[inner]}} if outer == "reverse" else {outer: LINE[outer]}))
    if section == "hosts":
        return at_host(key, thing)
    if section == "switches":
        own = {key: OF_P4[key]} if thing == keys.LEARNING else {"p4": str(EXAMPLES / "p4-bridge.p4"), "ageing": "9 s"}
        return {**PLAIN, "hosts": {"a": idle(), "b": idle()}, "switches": {"s": own}, "links": [{"between": ["a", "s:p1"]}, {"between": ["b", "s:p2"]}]}
    if section == "events":
        return at_event(key, thing)
    if section == "queue":
        kind = key.partition(".")[0]
        value = {"red": {"min": "9 KB", "max": "20 KB", "limit": "90 KB"}, "priority": {"bands": [{"packets": 9}, {"packets": 9}]}}.get(kind, {})
        queue = {"packets": 9, "ecn_threshold": 5} if kind == "ecn_threshold" else {kind: value}
        return {**PLAIN, "hosts": {"a": idle(), "b": idle()}, "switches": {"s": {"p4": str(EXAMPLES / "p4-bridge.p4")}},
                "links": [{"between": ["a", "s:p1"], "queue": queue}, {"between": ["b", "s:p2"]}]}
    assert section == "interfaces"
    interface = {"addresses": "10.0.0.1/24", "advertise": True}
    return {**PLAIN, "belljar": {"ipv6": True}, "hosts": {"a": {**idle(), "interfaces": {"eth0": interface}}, "b": idle()}, "links": [{"between": ["a", "b"]}]}


REFUSED = [(row.section, key, thing) for row in keys.ROWS if keys.verdict(row.verdicts["run"])[0] == keys.REFUSED
           for key in row.keys for thing in row.things]


@pytest.mark.parametrize("section", sorted({section for section, *_ in REFUSED}))
def test_what_is_refused_is_refused_with_its_line(belljar, workdir, section):
    for _, key, thing in (case for case in REFUSED if case[0] == section):
        if section == "hosts" and key.startswith("machine.") or section == "events" and thing == "machine":
            continue  # needs QEMU and a kernel: the loader's own tests have it
        file = workdir / "refused.yaml"
        text = yaml.safe_dump(refused(section, key, thing))
        file.write_text(text)
        done = execute([belljar, "validate", file])
        case = f"{section}.{key} at {thing}:\n{text}\n{done}"
        assert done.status == 2 and len(re.findall("^error", done.err, re.M)) == 1, case
        line = re.search(r"refused\.yaml:(\d+):", done.err)
        assert line, case
        names = {"events": [thing.split()[0], "channel", "connection", "only valid for links", "graph", "station"]}.get(section, [key.rpartition(".")[2], key.partition(".")[0], "model"])
        assert any(name in done.err for name in names), case


# Keys of links that act: two runs with another value, one for each direction, beside the one that has the usual values.

USUAL = {"rate": "5 Mbit", "latency": "1 ms", "queue": {"packets": 20}}
OTHER = {
    "rate": ("5 Mbit", "3 Mbit"), "latency": ("1 ms", "3 ms"), "jitter": ("0 ms", "900 us"), "packet_loss": (0, 0.3),
    "reordering": ("none", {"probability": 0.3, "delay": "9 ms"}), "duplication": (0, 0.3), "corruption": (0, 0.3),
    "queue": ({"packets": 20}, {"packets": 5}), "token_bucket": ("none", {"rate": "3 Mbit", "burst": "3 KB"}), "overhead": ("0 B", "200 B"),
}
MODELS = [{"model": {"type": "sink", "port": 9, "protocol": "udp"}}]


def pair(end):
    """Two hosts that send each other more than the first link, between host a and this, carries."""
    def host(to):
        return {"processes": [*MODELS, {"model": {"type": "constant_rate", "to": f"{to}:9", "rate": "8 Mbit", "duration": "200 ms"}, "start_time": "10 ms"}]}

    experiment = {"general": {"stop_time": "300 ms"}, "host_option_defaults": {"pcap_enabled": True}, "hosts": {"a": host("b"), "b": host("a")}}
    box = [sys.executable, str(ROOT / "adapters/cosim/middlebox.py"), "{left}", "{right}"]
    first, more = {
        "host": (["a", "b"], {}),
        "switch": (["a", "s"], {"switches": ["s"], "links": [{"between": ["b", "s"]}]}),
        "router": (["a", "r"], {"routers": ["r"], "links": [{"between": ["b", "r"]}]}),
        "P4 switch": (["a", "s:p1"], {"switches": {"s": {"p4": str(EXAMPLES / "p4-bridge.p4"), "runtime": str(EXAMPLES / "p4-bridge-runtime.json")}},
                                      "links": [{"between": ["b", "s:p2"]}]}),
        "radio": (["a", "air"], {"radios": {"air": {"stations": {"a": [0, 0], "b": [9, 0]}, "rate": "54 Mbit"}}}),
        "simulator": (["a", "box:left"], {"simulators": {"box": {"command": box}}, "links": [{"between": ["b", "box:right"]}]}),
        "NIC": (["a", "nic0:eth"], {"nics": ["nic0"]}),
    }[end]
    experiment |= {"links": [], **more}
    link = {"between": first, **USUAL}
    if end == "NIC":
        # The controller is host b's.
        experiment["hosts"]["b"]["devices"] = [NIC]
    return experiment, link


# Each of the many runs beside a simulator in Python takes seconds.
SIMULATOR = pytest.param("simulator", marks=pytest.mark.slow)


@pytest.mark.parametrize("end", ["host", "switch", "router", "P4 switch", "radio", SIMULATOR, "NIC"])
def test_each_key_of_a_link_acts_in_both_directions(belljar, workdir, end):
    experiment, link = pair(end)

    def seen(name, **own):
        made = copy.deepcopy(experiment)
        made["links"] = [{**link, **own}, *made["links"]]
        file, out = workdir / f"{name}.yaml", workdir / f"{name}.data"
        file.write_text(yaml.safe_dump(made))
        done = execute([belljar, "run", file, "-o", out, "--no-progress"])
        assert done.status == 0, f"{yaml.safe_dump(made)}\n{done}"
        return [(out / f"hosts/{host}/eth0.pcap").read_bytes() for host in "ab"]

    usual = seen("usual")
    assert usual == seen("again"), "runs differ without a reason"
    assert len(usual[0]) > 20_000, "nothing is sent"
    for key, (one, other) in OTHER.items():
        assert seen(f"{key}-there", **{key: other, "reverse": {key: one}}) != usual, f"{key} has no effect towards {end}"
        assert seen(f"{key}-back", reverse={key: other}) != usual, f"reverse.{key} has no effect from {end}"
    assert seen("mtu", mtu=600) != usual, f"mtu has no effect at {end}"


@pytest.mark.parametrize("end", ["radio", SIMULATOR])
def test_events_change_both_directions_of_a_link(belljar, workdir, end):
    experiment, link = pair(end)
    names = {"radio": "air", "simulator": "box"}
    seen = {}
    for name, own in {"usual": {}, **{f"{key}-{node}": {key: OTHER[key][1], "from": node} for key in ("rate", "queue", "token_bucket", "latency")
                                      for node in ("a", names[end])}}.items():
        made = copy.deepcopy(experiment)
        made["links"] = [{**link, "name": "wire"}, *made["links"]]
        if own:
            node = own.pop("from")
            made["events"] = [{"at": "50 ms", "link_change": {"link": "wire", "from": node}, **own}]
        file, out = workdir / f"{name}.yaml", workdir / f"{name}.data"
        file.write_text(yaml.safe_dump(made))
        done = execute([belljar, "run", file, "-o", out, "--no-progress"])
        assert done.status == 0, str(done)
        seen[name] = [(out / f"hosts/{host}/eth0.pcap").read_bytes() for host in "ab"]
        assert not own or seen[name] != seen["usual"], f"{name} has no effect"


def test_a_rate_holds_for_frames_from_a_simulator(belljar, workdir):
    """The middlebox passes 8 Mbit/s on: through the link's 2 Mbit/s to host a come 2, and what is too much is dropped by its queue."""
    experiment, link = pair("simulator")
    experiment["general"]["stop_time"] = "130 ms"
    for host in experiment["hosts"].values():
        host["processes"][-1]["model"]["duration"] = "80 ms"
    received = {}
    for name, own in {"both": {"rate": "2 Mbit"}, "there": {"rate": "2 Mbit", "reverse": {"rate": "unlimited"}}}.items():
        made = copy.deepcopy(experiment)
        made["links"] = [{**link, **own}, *made["links"]]
        file, out = workdir / f"{name}.yaml", workdir / f"{name}.data"
        file.write_text(yaml.safe_dump(made))
        done = execute([belljar, "run", file, "-o", out, "--no-progress"])
        assert done.status == 0, str(done)
        received[name] = json.loads((out / "sim-stats.json").read_text())["hosts"]["a"]["bytes_in"]
    # 120 ms of 2 Mbit/s; 80 ms of 8 Mbit/s.
    assert 15_000 < received["both"] < 32_000 and received["there"] > 75_000, received
