"""Experiments that differ in the value of one key, for each key that acts on `run` in the table of keys (`keys.py`).

A group is an experiment, the path of the thing whose keys are tried, and for each key one value or two: with one, it is compared with
the experiment without it. A key that stands for a whole mapping (`reverse`) is held by its parts."""

import copy

import yaml

from . import keys

MIDDLEBOX = str(keys.ROOT / "adapters/cosim/middlebox.py")

ABSENT = object()


class Group:
    """Keys of one thing in one experiment."""

    def __init__(self, section, things, experiment, path, values, prefix="", whole="", cut="", name="", slow=False):
        """`path` leads to the mapping that has the keys. The table lists them behind `prefix`, without `cut`, or as `name`; `whole`
        are keys of mappings that are held by the keys in them."""
        self.section = section
        self.things = (things,) if isinstance(things, str) else things
        self.experiment = yaml.safe_load(experiment) if isinstance(experiment, str) else experiment
        self.path = path
        self.values = {key: value if isinstance(value, tuple) else (ABSENT, value) for key, value in values.items()}
        self.names = {key: name or prefix + str(key).removeprefix(cut) for key in values}
        self.whole = set(whole.split())
        self.slow = slow

    def cells(self):
        """The cells of the table that this group holds."""
        return {(self.section, key, thing) for key in {*self.names.values(), *self.whole} for thing in self.things}

    def pair(self, key):
        """Two experiments that differ in the key."""
        return [self._with(key, value) for value in self.values[key]]

    def _with(self, key, value):
        experiment = copy.deepcopy(self.experiment)
        at = experiment
        for step in self.path:
            at = at[step]
        *outer, last = key.split(".") if isinstance(key, str) else [key]
        for step in outer:
            at = at.setdefault(step, {}) if isinstance(at, dict) else at[int(step)]
        if value is ABSENT:
            at.pop(last, None)
        else:
            at[last] = copy.deepcopy(value)
        return experiment


GROUPS = []


def group(*arguments, **options):
    GROUPS.append(Group(*arguments, **options))



# Shell commands that show what the experiment gives their host: network, clocks, files, user, environment.
SHOW = """head -1 /proc/meminfo; cat /proc/net/if_inet6 /proc/net/fib_trie /proc/sys/net/ipv4/ip_forward; ip route; nproc; date +%s.%N; sleep 0.2; date +%s.%N; id
echo $0; printenv LEVEL; ping -c 1 -W 0.2 b; nslookup -timeout=1 -retry=0 www.example.com; echo written > /tmp/acting.shared"""
SINK = {"model": {"type": "sink", "port": 9, "protocol": "udp"}}
QUIET = {"path": "sh", "args": ["-c", SHOW], "expected_final_state": "any"}


def sender(peer, rate="8 Mbit", **more):
    return {"model": {"type": "constant_rate", "to": f"{peer}:9", "rate": rate, "duration": "200 ms"}, "start_time": "10 ms", **more}


# --- general, network, belljar, experimental

TWO_NODES = """
network:
  graph:
    type: gml
    inline: |
      graph [ directed 0
        node [ id 0 host_bandwidth_up "5 Mbit" host_bandwidth_down "5 Mbit" ]
        node [ id 1 host_bandwidth_up "5 Mbit" host_bandwidth_down "5 Mbit" ]
        node [ id 2 host_bandwidth_up "5 Mbit" host_bandwidth_down "5 Mbit" ]
        edge [ source 0 target 0 latency "1 ms" ]
        edge [ source 1 target 1 latency "1 ms" ]
        edge [ source 2 target 2 latency "1 ms" ]
        edge [ source 0 target 1 latency "30 ms" packet_loss 0.1 ]
        edge [ source 0 target 2 latency "2 ms" ]
        edge [ source 2 target 1 latency "2 ms" ] ]
"""
OTHER_GRAPH = """graph [ directed 0
  node [ id 0 host_bandwidth_up "5 Mbit" host_bandwidth_down "5 Mbit" ] node [ id 1 host_bandwidth_up "5 Mbit" host_bandwidth_down "5 Mbit" ]
  edge [ source 0 target 0 latency "1 ms" ] edge [ source 1 target 1 latency "1 ms" ] edge [ source 0 target 1 latency "7 ms" ] ]"""
GRAPHED = {
    "general": {"stop_time": "1 s"},
    "host_option_defaults": {"pcap_enabled": True},
    "belljar": {"ipv6": True},
    **yaml.safe_load(TWO_NODES),
    "hosts": {
        "a": {"network_node_id": 0, "processes": [QUIET, SINK, sender("b")]},
        "b": {"network_node_id": 1, "processes": [SINK, sender("a")]},
    },
}
LINKED = {
    "general": {"stop_time": "1 s"},
    "host_option_defaults": {"pcap_enabled": True},
    "belljar": {"ipv6": True},
    "hosts": {
        "a": {"interfaces": {"eth0": "10.0.0.1/24"}, "processes": [QUIET, SINK, sender("b")]},
        "b": {"interfaces": {"eth0": "10.0.0.2/24"}, "processes": [SINK, sender("a")]},
    },
    "links": [{"between": ["a", "b"], "rate": "5 Mbit", "latency": "1 ms"}],
}


def changed(experiment, **parts):
    """A copy of an experiment with other values at dotted paths (`__` in place of the dot)."""
    made = copy.deepcopy(experiment)
    for path, value in parts.items():
        at = made
        *outer, last = path.split("__")
        for step in outer:
            at = at[int(step)] if step.isdigit() else at.setdefault(step, {})
        at[int(last) if last.isdigit() else last] = value
    return made


group("general", "", GRAPHED, ["general"], {
    "stop_time": ("1 s", "100 ms"), "data_directory": "elsewhere", "template_directory": "template", "seed": 2, "bootstrap_end_time": "100 ms",
    "progress": True, "model_unblocked_syscall_latency": True,
})
group("general", "", changed(GRAPHED, general__progress=True), ["general"], {"log_level": "error", "heartbeat_interval": "100 ms"})
group("network", "", GRAPHED, ["network"], {
    "use_shortest_path": False, "graph.inline": (GRAPHED["network"]["graph"]["inline"], OTHER_GRAPH),
    "graph": (GRAPHED["network"]["graph"], {"type": "gml", "inline": OTHER_GRAPH}),
})
group("network", "", changed(GRAPHED, network={"graph": {"type": "gml", "file": {"path": "one.gml"}}}), ["network"], {
    "graph.file.path": ("one.gml", "other.gml"), "graph.file": ({"path": "one.gml"}, {"path": "other.gml"}),
})
SWITCHED = changed(GRAPHED, network={"graph": {"type": "1_gbit_switch"}}, hosts__b__network_node_id=0)
group("network", "", SWITCHED, ["network"], {"graph": ({"type": "1_gbit_switch"}, {"type": "gml", "inline": OTHER_GRAPH})}, name="graph.type")
group("network", "", changed(GRAPHED, network={"graph": {"type": "gml", "file": {"path": "one.gml"}}}), ["network"], {
    "graph.file": ({"path": "one.gml"}, {"path": "packed", "compression": "xz"})}, name="graph.file.compression")
group("belljar", "", changed(GRAPHED, belljar__dns={"records": ["www.example.com. 300 IN CNAME b"]}), ["belljar"], {
    "address_pool": "10.7.0.0/16", "start_date": "2026-01-31T12:00:00Z", "ipv6": (True, False), "metrics": {"interval": "100 ms"}, "metrics.interval": ("100 ms", "50 ms"),
    "dns.address": "11.255.255.53", "dns.records": (["www.example.com. 300 IN CNAME b"], ["www.example.com. 300 IN CNAME a"]),
}, whole="dns")

group("experimental", "", changed(GRAPHED, experimental={}, general__model_unblocked_syscall_latency=True), ["experimental"], {
    "strace_logging_mode": "standard", "unblocked_syscall_latency": "100 us", "unblocked_vdso_latency": "100 us",
    "max_unapplied_cpu_latency": "1 ms",
})
BULK = changed(GRAPHED, experimental={}, network__use_shortest_path=False, network__graph__inline=OTHER_GRAPH.replace("7 ms", "50 ms"), hosts__a__processes=[{"model": {"type": "bulk", "to": "b:5001", "size": "300 KB"}}],
               hosts__b__processes=[{"model": {"type": "sink", "port": 5001}}])
group("experimental", "", BULK, ["experimental"], {
    "socket_recv_buffer": "5 KB", "socket_send_autotune": False, "socket_recv_autotune": False,
})
# One that grows does so when the connection is established, as Linux's.
group("experimental", "", changed(BULK, experimental={"socket_send_autotune": False}), ["experimental"], {"socket_send_buffer": "5 KB"})

# --- hosts

OF_HOST = {
    "host_options.pcap_enabled": (True, False), "host_options.pcap_capture_size": "60 B", "host_options.pcap_filter": "tcp",
    "host_options.shared": ["/tmp"], "host_options.sysctls": {"net.ipv4.ip_default_ttl": 33}, "ipv6": False,
    "clock.offset": "1 h", "clock.drift_ppm": 400, "clock.reading": "5 us", "cpu_count": 4, "memory": "64 MiB", "forwarding": True,
    "setup": ["ip addr add 192.0.2.1/32 dev lo"],
}
group("hosts", keys.GRAPH, GRAPHED, ["hosts", "a"], {
    **OF_HOST, "network_node_id": (0, 2), "ip_addr": "11.0.0.9", "ip6_addr": "fd00::9", "bandwidth_up": "1 Mbit", "bandwidth_down": "1 Mbit",
    "host_options.queue": {"packets": 3},
}, whole="host_options clock")
group("hosts", keys.LINKS, LINKED, ["hosts", "a"], {
    **OF_HOST, "interfaces": ({"eth0": "10.0.0.1/24"}, {"eth0": "10.0.0.9/24"}), "routes": [{"to": "192.0.2.0/24", "via": "10.0.0.2"}],
}, whole="host_options clock")
READS_HARDWARE = "import os, time; fd = os.open('/dev/ptp0', os.O_RDWR); print(time.clock_gettime_ns((~fd << 3) | 3))"
group("hosts", keys.LINKS, changed(LINKED, hosts__a__processes=[{"path": "python3", "args": ["-c", READS_HARDWARE], "start_time": "100 ms"}]), ["hosts", "a"], {
    "clock.hardware_offset": "1 h", "clock.hardware_drift_ppm": 400})
for thing, experiment in ((keys.GRAPH, GRAPHED), (keys.LINKS, LINKED)):
    group("hosts", thing, changed(experiment, general__progress=True), ["hosts", "a"], {"host_options.log_level": "error"})
    group("hosts", thing, changed(experiment, hosts__a__cpu={"packet": "2 ms"}), ["hosts", "a"], {"cpu.backlog": (1000, 3)})
    working = changed(experiment, hosts__a__cpu={"syscall": "1 us", "packet": "1 us"})
    group("hosts", thing, working, ["hosts", "a"], {
        "cpu.syscall": ("1 us", "9 us"), "cpu.packet": ("1 us", "9 us"), "cpu.byte": "100 ns", "cpu.interrupt": "9 us"}, whole="cpu")
    rooted = changed(experiment, hosts__a__processes=[{"path": "/rooted", "expected_final_state": "any"}], hosts__b__processes=[])
    group("hosts", thing, rooted, ["hosts", "a"], {"root": ("root", "other-root")})
    group("hosts", thing, changed(experiment, hosts__a__processes=[{"path": "sh", "args": ["-c", "trap 'echo end' INT; sleep 0.5; echo $0; id; printenv LEVEL"],
          "arg0": "sh", "expected_final_state": "any"}, SINK]), ["hosts", "a", "processes", 0], {
        "path": ("sh", "bash"), "args": (["-c", "echo one"], ["-c", "echo other"]), "environment": {"LEVEL": "3"}, "arg0": ("sh", "other"),
        "user": "daemon", "start_time": "100 ms", "shutdown_time": "200 ms", "expected_final_state": ("any", "running"),
    }, prefix="processes.", whole="processes")
    for name, one, other in (("exited", 0, 9), ("signaled", "SIGHUP", "SIGTERM")):
        ended = [{"path": "sh", "args": ["-c", "kill -HUP $$" if name == "signaled" else "true"], "expected_final_state": {name: one}}]
        group("hosts", thing, changed(experiment, hosts__a__processes=ended), ["hosts", "a", "processes", 0, "expected_final_state"], {name: (one, other)},
              prefix="processes.expected_final_state.")
    group("hosts", thing, changed(experiment, hosts__a__processes=[{"path": "sh", "args": ["-c", "trap 'echo end' INT; sleep 0.5; echo more"],
          "shutdown_time": "200 ms", "expected_final_state": "any"}]), ["hosts", "a", "processes", 0], {"shutdown_signal": "SIGINT"}, prefix="processes.")

DRIVEN = {
    "general": {"stop_time": "1 s"},
    "host_option_defaults": {"pcap_enabled": True},
    "nics": {"nic0": {"mac": "02:00:00:00:00:09", "fetch": "50 us"}, "nic1": {"mac": "02:00:00:00:00:19"}},
    "switches": ["s"],
    "hosts": {
        "a": {"devices": [{"pci": "nic0", "driver": "e1000", "interrupt_interval": "5 ms"}], "processes": [QUIET, SINK, sender("b", "80 Mbit")]},
        "b": {"processes": [SINK, sender("a", "80 Mbit")]},
        "c": {"devices": [{"pci": "nic1", "driver": "e1000", "interface": "ens9"}], "processes": []},
    },
    "links": [{"between": ["nic0:eth", "s"]}, {"between": ["b", "s"]}, {"between": ["nic1:eth", "s"]}],
}
OF_DEVICE = {"interface": "ens1", "latency": "5 us", "mtu": 1000, "interrupt_interval": ("5 ms", "300 us"), "ring": (256, 8)}
group("hosts", keys.LINKS, DRIVEN, ["hosts", "a", "devices", 0], OF_DEVICE, prefix="devices.", whole="devices")
group("hosts", keys.GRAPH, changed(DRIVEN, network={"graph": {"type": "1_gbit_switch"}}, hosts__a__network_node_id=0), ["hosts", "a", "devices", 0],
      OF_DEVICE, prefix="devices.", whole="devices")
for experiment, thing in ((DRIVEN, keys.LINKS), (changed(DRIVEN, network={"graph": {"type": "1_gbit_switch"}}, hosts__a__network_node_id=0), keys.GRAPH)):
    swapped = copy.deepcopy(experiment["hosts"])
    swapped["a"]["devices"], swapped["c"]["devices"] = [{"pci": "nic1", "driver": "e1000"}], [{"pci": "nic0", "driver": "e1000", "interface": "ens9"}]
    group("hosts", thing, experiment, [], {"hosts": (experiment["hosts"], swapped)}, name="devices.pci")
group("nics", "", DRIVEN, ["nics", "nic0"], {"mac": ("02:00:00:00:00:09", "02:00:00:00:00:29"), "fetch": "5 us", "write_back": "5 us", "register": "5 us"})

BOTH = changed(GRAPHED, hosts__a__interfaces={"eth1": "10.9.9.1/24"}, hosts__b__interfaces={"eth1": "10.9.9.2/24"},
               links=[{"between": ["a:eth1", "b:eth1"]}])
group("hosts", keys.GRAPH, BOTH, ["hosts", "a"], {"interfaces": ({"eth1": "10.9.9.1/24"}, {"eth1": "10.9.9.9/24"})})

# --- models: host a has the client, host b the server

DRAWN = {"exponential": "20 ms"}
MODELS = [
    ({"type": "bulk", "to": "b:5001", "size": "50 KB", "count": 2, "pause": "20 ms"}, {"type": "sink", "port": 5001}, {
        "to": ("b:5001", "b:5002"), "size": ("50 KB", "20 KB"), "count": (2, 3), "pause": ("20 ms", "50 ms"), "name": "own",
    }),
    ({"type": "bulk", "to": "b:5001", "size": "5 KB", "count": 2, "interval": "20 ms"}, {"type": "sink", "port": 5001}, {"interval": ("20 ms", "50 ms")}),
    ({"type": "http", "to": "b", "count": 2}, {"type": "http_server"}, {
        "path": "/other", "request_size": "3 KB", "keep_alive": False, "timeout": "1 ms",     }),
    ({"type": "on_off", "to": "b:9", "rate": "1 Mbit", "duration": "300 ms", "burst": "20 ms", "silence": "30 ms"}, SINK["model"], {
        "rate": ("1 Mbit", "2 Mbit"), "datagram_size": "500 B", "duration": ("300 ms", "200 ms"), "burst": ("20 ms", "40 ms"), "silence": ("30 ms", "10 ms"),
    }),
    ({"type": "dns", "names": ["a"], "to": "b", "timeout": "50 ms"}, SINK["model"], {"names": (["a"], ["b"]), "retries": 1}),
]
SERVERS = [
    ({"type": "http", "to": "b", "count": 2}, {"type": "http_server"}, {"response_size": "3 KB", "delay": "20 ms", "port": 81}),
    ({"type": "bulk", "to": "b:9", "size": "5 KB"}, {"type": "sink", "port": 9}, {"protocol": "udp"}),
]
for thing, experiment in ((keys.GRAPH, GRAPHED), (keys.LINKS, LINKED)):
    for clients, served in ((MODELS, False), (SERVERS, True)):
        for client, server, values in clients:
            both = changed(experiment, hosts__a__processes=[{"model": client}], hosts__b__processes=[{"model": server}])
            group("hosts", thing, both, ["hosts", "b" if served else "a", "processes", 0, "model"], values, prefix="processes.model.")
    both = changed(experiment, hosts__a__processes=[], hosts__b__processes=[{"model": {"type": "source", "port": 5001, "size": "5 KB"}}])
    up, down = ([{"model": {"type": "bulk", "to": "b:5001", "direction": direction, **more}}] for direction, more in (("up", {"size": "5 KB"}), ("down", {})))
    group("hosts", thing, both, ["hosts", "a"], {"processes": (up, down)}, name="processes.model.direction")
    group("hosts", thing, both, ["hosts", "a"], {"processes": (down, [{"model": {"type": "http", "to": "b:5001"}}])}, name="processes.model.type")
    group("hosts", thing, changed(experiment, hosts__a__processes=[sender("b")]), ["hosts", "a"], {"processes": ([sender("b")], [])}, whole="processes.model")
REPEATED = changed(GRAPHED, hosts__a__processes=[{"model": {"type": "bulk", "to": "b:5001", "size": "5 KB", "count": 5, "pause": "9 ms"}}],
                   hosts__b__processes=[{"model": {"type": "sink", "port": 5001}}])
for section, key, one, most in (("draw_time", "pause", "20 ms", "60 ms"), ("draw_size", "size", "20 KB", "60 KB")):
    path = ["hosts", "a", "processes", 0, "model"]
    for kind, value in (("exponential", one), ("uniform", [one, most]), ("pareto", {"mean": one, "shape": 1.5})):
        group(section, "", REPEATED, path, {key: (one, {kind: value})}, name=kind)
    drawn = changed(REPEATED, **{f"hosts__a__processes__0__model__{key}": {"pareto": {"mean": one, "shape": 1.5, "max": most}}})
    group(section, "", drawn, path, {f"{key}.pareto.mean": (one, most), f"{key}.pareto.shape": (1.5, 2.5), f"{key}.pareto.max": (most, one)}, cut=f"{key}.")

# --- devices

LAN = changed(LINKED, switches={"s": {"ageing": "300 s"}}, links=[{"between": [host, "s"], "rate": "5 Mbit"} for host in "abc"],
              hosts__c={"processes": [{**sender("a"), "start_time": "300 ms"}]}, hosts__a__processes=[SINK, sender("b"), {**sender("c"), "start_time": "20 ms"}])
group("switches", keys.LEARNING, LAN, ["switches", "s"], {"ageing": ("300 s", "5 ms")})
ROUTED = {
    "general": {"stop_time": "1 s"}, "host_option_defaults": {"pcap_enabled": True}, "belljar": {"ipv6": True},
    "routers": {"r": {"interfaces": {"eth0": "10.0.0.254/24", "eth1": "10.0.1.254/24"}}, "q": {"interfaces": {"eth0": "10.0.1.253/24"}}},
    "hosts": {
        "a": {"interfaces": {"eth0": "10.0.0.1/24"}, "processes": [{"model": {"type": "bulk", "to": "b:5001", "size": "20 KB"}}, sender("192.0.2.9", "1 Mbit")]},
        "b": {"interfaces": {"eth0": "10.0.1.1/24"}, "processes": [{"model": {"type": "sink", "port": 5001}}]},
    },
    "switches": ["s"],
    "links": [{"between": ["a:eth0", "r:eth0"], "rate": "5 Mbit"}, {"between": ["r:eth1", "s"]}, {"between": ["b:eth0", "s"], "mtu": 1500}, {"between": ["q:eth0", "s"]}],
}
group("routers", "", ROUTED, ["routers", "r"], {
    "interfaces": (ROUTED["routers"]["r"]["interfaces"], {"eth0": "10.0.0.253/24", "eth1": "10.0.1.254/24"}),
    "routes": [{"to": "192.0.2.0/24", "via": "10.0.1.253"}], "clamp_mss": 900,
})

ADVERTISING = changed(ROUTED, routers__r__interfaces__eth1={"addresses": ["10.0.1.254/24", "2001:db8:9::1/64"]},
                      hosts__b__interfaces__eth0=["10.0.1.1/24", "slaac"])
group("interfaces", "router", ADVERTISING, ["routers", "r", "interfaces", "eth1"], {"advertise": True})
ADDRESSED = changed(LINKED, hosts__a__interfaces__eth0={"addresses": "10.0.0.1/24"})
group("interfaces", "", ADDRESSED, ["hosts", "a", "interfaces", "eth0"], {"addresses": ("10.0.0.1/24", "10.0.0.9/24"), "mac": "02:00:00:00:00:77"})
MULTIHOMED = changed(LINKED, hosts__a__routes=[{"to": "192.0.2.0/24", "via": "10.0.0.2"}])
group("route", "", MULTIHOMED, ["hosts", "a", "routes", 0], {
    "to": ("192.0.2.0/24", "192.0.3.0/24"), "via": ("10.0.0.2", "10.0.0.3"), "metric": 7})
group("route", "", MULTIHOMED, ["hosts", "a", "routes"], {0: (MULTIHOMED["hosts"]["a"]["routes"][0], {"to": "192.0.2.0/24", "dev": "eth0"})}, name="dev")

P4 = {
    "general": {"stop_time": "1 s"}, "host_option_defaults": {"pcap_enabled": True},
    "switches": {"s": {"p4": "bridge.p4", "runtime": "bridge.json"}},
    "hosts": {"a": {"processes": [SINK, sender("b")]}, "b": {"processes": [SINK, sender("a")]}, "c": {"processes": []}},
    "links": [{"between": ["a", "s:p1"], "rate": "10 Mbit"}, {"between": ["b", "s:p2"], "rate": "6 Mbit"}, {"between": ["c", "s:p3"]}],
}
group("switches", keys.P4, P4, ["switches", "s"], {
    "runtime": ("bridge.json", ABSENT), "commands": "table_set_default ingress.stations ingress.forward 3\n",
    "queue_packets": 2, "queue_bytes": "3 KB", "latency": "5 ms", "packets_per_second": 700, "trace": True,
})
group("switches", keys.P4, changed(P4, switches__s={"p4": "cross.p4"}), ["switches", "s"], {"p4": ("cross.p4", "drop.p4")})
group("switches", keys.P4, changed(P4, switches__s__packets_per_second=700), ["switches", "s"], {"input_packets": (ABSENT, 3)})
group("switches", keys.P4, changed(P4, switches__s={"p4": "defined.p4"}), ["switches", "s"], {"define": {"OUT": 2}})
group("switches", keys.P4, changed(P4, switches__s={"p4": "included.p4", "include": "one"}), ["switches", "s"], {"include": ("one", "other")})
group("switches", keys.P4, changed(P4, switches__s={"p4": "priorities.p4"}), ["switches", "s"], {"queues": (1, 8)})
group("switches", keys.P4, changed(P4, switches__s={"p4": "timed.p4"}), ["switches", "s"], {"timestamps": ("us", "ns")})

# --- events

CHANGING = {
    "path": (GRAPHED, ["a", "b"]), "edge": (GRAPHED, {"edge": [0, 2]}), "link": (changed(LINKED, links__0__name="wire"), "wire"),
}
OTHER_LINE = {"latency": "3 ms", "jitter": "900 us", "packet_loss": 0.3, "rate": "3 Mbit", "reordering": {"probability": 0.3, "delay": "9 ms"},
              "duplication": 0.3, "corruption": 0.3, "queue": {"packets": 3}, "token_bucket": {"rate": "3 Mbit", "burst": "3 KB"}}
for thing, (experiment, target) in CHANGING.items():
    only = OTHER_LINE if thing == "link" else {key: OTHER_LINE[key] for key in ("latency", "jitter", "packet_loss")}
    plain = changed(experiment, events=[{"at": "50 ms", "link_change": target, "latency": "2 ms"}])
    group("events", thing, plain, ["events", 0], {**only, "latency": ("2 ms", "3 ms")})
    undone = [{"at": "50 ms", "link_down": target}, {"at": "60 ms", "link_change": target, "latency": "5 ms"}]
    group("events", thing, changed(experiment, events=[]), [], {"events": ([], undone[:1])}, name="link_down")
    group("events", thing, changed(experiment, events=[]), [], {"events": ([], undone[1:])}, name="link_change")
    group("events", thing, experiment, [], {"events": (undone[:1], [undone[0], {"at": "90 ms", "link_up": target}])}, name="link_up")
    group("events", thing, experiment, [], {"events": (undone[1:], [undone[1], {"at": "90 ms", "link_reset": target}])}, name="link_reset")
    if thing != "edge":
        split = [{"at": "50 ms", "partition": [["a"], ["b"]]}]
        group("events", thing, experiment, [], {"events": ([], split)}, name="partition")
        group("events", thing, experiment, [], {"events": (split, [*split, {"at": "90 ms", "heal": "all"}])}, name="heal")
BEHIND = changed(LAN, hosts__c={"processes": []})
group("events", "hosts behind switches of no group", BEHIND, [], {"events": ([], [{"at": "50 ms", "partition": [["a"], ["b"]]}])}, name="partition")
group("events", "hosts behind switches of no group", BEHIND, [], {"events": (
    [{"at": "50 ms", "partition": [["a"], ["b"]]}], [{"at": "50 ms", "partition": [["a"], ["b"]]}, {"at": "90 ms", "heal": "all"}])}, name="heal")
DOWN = changed(GRAPHED, events=[{"at": "50 ms", "link_down": ["a", "b"]}])
group("events", "", DOWN, ["events", 0], {"at": ("50 ms", "70 ms"), "for": "20 ms"})
OFTEN = changed(GRAPHED, events=[{"every": "50 ms", "between": ["50 ms", "900 ms"], "crash": {"one_of": ["a", "b"]}, "for": "20 ms"}])
group("events", "", OFTEN, ["events", 0], {"every": ("50 ms", "70 ms"), "between": (["50 ms", "900 ms"], ["60 ms", "900 ms"]), "probability": 0.3, "name": "own"})
group("hosts", "set of hosts in an event", OFTEN, ["events", 0], {"crash.one_of": (["a", "b"], ["b"])}, cut="crash.")
group("events", keys.GRAPH, changed(GRAPHED, events=[{"at": "50 ms", "bandwidth": "a", "up": "2 Mbit", "down": "3 Mbit"}]), ["events", 0], {
    "bandwidth": ("a", "b"), "up": ("2 Mbit", "1 Mbit"), "down": ("3 Mbit", "1 Mbit")})
LIVING = [{"path": "sh", "args": ["-c", "trap 'date +%s.%N' HUP; nslookup -timeout=1 -retry=0 www.example.com; sleep 0.2; sleep 0.2; cat kept; echo x > kept; "
          "nslookup -timeout=1 -retry=0 www.example.com; date +%s.%N"], "expected_final_state": "any"}, SINK, sender("b")]
for experiment in (GRAPHED, LINKED):
    living = changed(experiment, hosts__a__processes=LIVING, hosts__b__processes=[{**LIVING[0], "start_time": "never"}, SINK, {**sender("a"), "start_time": "never"}])
    for name, one, other in (
        ("crash", [], [{"at": "50 ms", "crash": "a"}]),
        ("restart", [{"at": "50 ms", "crash": "a"}], [{"at": "50 ms", "crash": "a"}, {"at": "90 ms", "restart": "a"}]),
        ("pause", [], [{"at": "50 ms", "pause": "a"}]),
        ("cpu", [], [{"at": "50 ms", "cpu": "a", "share": 0.2}]),
        ("period", [{"at": "50 ms", "cpu": "a", "share": 0.2}], [{"at": "50 ms", "cpu": "a", "share": 0.2, "period": "50 ms"}]),
        ("resume", [{"at": "50 ms", "pause": "a"}], [{"at": "50 ms", "pause": "a"}, {"at": "90 ms", "resume": "a"}]),
        ("dns_down", [], [{"at": "50 ms", "dns_down": "a"}]),
        ("dns_up", [{"at": "50 ms", "dns_down": "a"}], [{"at": "50 ms", "dns_down": "a"}, {"at": "90 ms", "dns_up": "a"}]),
        ("start", [], [{"at": "50 ms", "start": "sh", "hosts": "b"}]),
        ("stop", [], [{"at": "50 ms", "stop": "constant_rate", "hosts": "a"}]),
        ("signal", [{"at": "50 ms", "signal": "SIGHUP", "hosts": "a", "process": "sh"}], [{"at": "50 ms", "signal": "SIGKILL", "hosts": "a", "process": "sh"}]),
        ("process", [], [{"at": "50 ms", "signal": "SIGHUP", "hosts": "a", "process": "sh"}]),
        ("hosts", [{"at": "50 ms", "signal": "SIGHUP", "hosts": "a", "process": "sh"}], [{"at": "50 ms", "signal": "SIGHUP", "hosts": "b", "process": "sh"}]),
        ("files", [{"at": "450 ms", "crash": "a", "for": "20 ms"}], [{"at": "450 ms", "crash": "a", "for": "20 ms", "files": "lost"}]),
        ("step", [{"at": "50 ms", "clock": "a", "step": "1 s"}], [{"at": "50 ms", "clock": "a", "step": "2 s"}]),
        ("drift_ppm", [{"at": "50 ms", "clock": "a", "drift_ppm": 100}], [{"at": "50 ms", "clock": "a", "drift_ppm": 400}]),
        ("clock", [{"at": "50 ms", "clock": "a", "drift_ppm": 100}], [{"at": "50 ms", "clock": "b", "drift_ppm": 100}]),
    ):
        group("events", "host", living, [], {"events": (one, other)}, name=name)
group("events", keys.P4, P4, [], {"events": ([], [{"at": "50 ms", "p4": "s", "commands": "table_set_default ingress.stations ingress.forward 3\n"}])}, name="p4")
group("events", keys.P4, changed(P4, events=[{"at": "50 ms", "p4": "s", "commands": "table_set_default ingress.stations ingress.forward 3\n"}]), ["events", 0], {
    "commands": ("table_set_default ingress.stations ingress.forward 3\n", "table_set_default ingress.stations ingress.forward 2\n")})
group("events", keys.P4, changed(P4, switches__s={"p4": "bridge.p4"}, events=[{"at": "50 ms", "p4": "s", "runtime": "bridge.json"}]), ["events", 0], {"runtime": ("bridge.json", "other.json")})
AIR = {
    "general": {"stop_time": "1 s"}, "host_option_defaults": {"pcap_enabled": True},
    "hosts": {"a": {"processes": [SINK, sender("b"), sender("c", "100 Kbit")]}, "b": {"processes": [SINK, sender("a")]}, "c": {"processes": [SINK, sender("b")]}},
    "radios": {"air": {"stations": {"a": [0, 0], "b": {"position": [200, 0]}, "c": [400, 0]}, "rate": "11 Mbit"}},
}
group("events", "station of a radio", AIR, [], {"events": ([], [{"at": "50 ms", "move": "b", "to": [900, 0]}])}, name="move")
group("events", "station of a radio", changed(AIR, events=[{"at": "50 ms", "move": "b", "to": [900, 0], "speed": 4000}]), ["events", 0], {
    "to": ([900, 0], [100, 0]), "speed": (4000, 8000)})
group("radios", "", AIR, ["radios", "air"], {
    
    "range": 150, "carrier_sense_range": 600, "packet_loss": 0.2, "rate": ("11 Mbit", "2 Mbit"), "basic_rate": "1 Mbit", "preamble": "400 us", "overhead": "60 B",
    "slot": "50 us", "sifs": "30 us", "window": [63, 1023], "retries": 1, "queue": 3, "latency": "300 us",
})

# --- values with keys of their own

HEAVY = changed(LINKED, hosts__a__processes=[{"model": {"type": "bulk", "to": "b:5001", "size": "300 KB"}}, sender("b", "4 Mbit")],
                hosts__b__processes=[{"model": {"type": "sink", "port": 5001}}, SINK], hosts__a__host_options={"sysctls": {"net.ipv4.tcp_ecn": 1}},
                hosts__b__host_options={"sysctls": {"net.ipv4.tcp_ecn": 1}})
CODEL = {"target": ("5 ms", "1 ms"), "interval": ("30 ms", "10 ms"), "packets": (1000, 5), "ce_threshold": "1 ms"}
group("queue", "queue", changed(HEAVY, links__0__queue={"packets": 20}), ["links", 0, "queue"], {
    "packets": (20, 5), "ecn_threshold": {"packets": 5}})
group("queue", "queue", changed(HEAVY, links__0__queue={"packets": 20, "ecn_threshold": {"packets": 9}}), ["links", 0, "queue"], {
    "ecn_threshold.packets": (9, 5)})
group("queue", "queue", changed(HEAVY, links__0__queue={"bytes": "20 KB"}), ["links", 0, "queue"], {"bytes": ("20 KB", "5 KB")})
group("queue", "queue", changed(HEAVY, links__0__queue={"bytes": "20 KB", "ecn_threshold": {"bytes": "9 KB"}}), ["links", 0, "queue"], {
    "ecn_threshold.bytes": ("9 KB", "3 KB")})
group("queue", "queue", changed(HEAVY, links__0__queue={"codel": {"target": "5 ms", "interval": "30 ms"}}), ["links", 0, "queue", "codel"], {
    **CODEL, "ecn": True}, prefix="codel.")
group("queue", "queue", changed(HEAVY, links__0__queue={"fq_codel": {"target": "5 ms", "interval": "30 ms"}}), ["links", 0, "queue", "fq_codel"], {
    **CODEL, "ecn": False, "bytes": "5 KB", "flows": 1, "quantum": "200 B"}, prefix="fq_codel.")
RED = {"min": "6 KB", "max": "12 KB", "limit": "60 KB", "weight": 0.1, "probability": 0.5}
group("queue", "queue", changed(HEAVY, links__0__queue={"red": RED}), ["links", 0, "queue", "red"], {
    "min": ("6 KB", "3 KB"), "max": ("12 KB", "20 KB"), "limit": ("60 KB", "13 KB"), "probability": (0.5, 0.02), "weight": (0.1, 0.5),
    "ecn": True}, prefix="red.")
PRIORITY = {"bands": [{"packets": 3}, {"packets": 30}], "dscp": {46: 0}, "default": 1}
group("queue", "queue", changed(HEAVY, links__0__queue={"priority": PRIORITY}), ["links", 0, "queue", "priority"], {
    "bands": ([{"packets": 3}, {"packets": 30}], [{"packets": 3}, {"packets": 9}]), "dscp": ({46: 0}, {0: 0}), "default": (1, 0)}, prefix="priority.")
for name in ("codel", "fq_codel"):
    group("queue", "queue", HEAVY, ["links", 0], {"queue": ({"packets": 1000}, {name: {"target": "1 ms"}})}, name=name)
group("queue", "queue", HEAVY, ["links", 0], {"queue": ({"packets": 1000}, {"red": RED})}, name="red")
group("queue", "queue", HEAVY, ["links", 0], {"queue": ({"packets": 1000}, {"priority": {**PRIORITY, "default": 0}})}, name="priority")
LOSS = {"to_bad": 0.1, "to_good": 0.3, "loss_bad": 0.9, "loss_good": 0.01}
group("loss", "", changed(LINKED, links__0__packet_loss={"gilbert_elliott": LOSS}), ["links", 0, "packet_loss"], {
    f"gilbert_elliott.{key}": (value, value / 2) for key, value in LOSS.items()}, whole="gilbert_elliott")
group("reordering", "", changed(LINKED, links__0__reordering={"probability": 0.3, "delay": "9 ms"}), ["links", 0, "reordering"], {
    "probability": (0.3, 0.6), "delay": ("9 ms", "5 ms")})
group("token_bucket", "", changed(LINKED, links__0__token_bucket={"rate": "3 Mbit", "burst": "3 KB"}), ["links", 0, "token_bucket"], {
    "rate": ("3 Mbit", "2 Mbit"), "burst": ("3 KB", "9 KB")})
BOX = {"command": ["python3", MIDDLEBOX, "{left}", "{right}"], "latency": "500 us"}
# Links from host a to each kind of end: behind it is r, a path to b as long as that by p. The properties of links are tried in test_keys.py.
PATHS = {
    "general": {"stop_time": "100 ms"}, "host_option_defaults": {"pcap_enabled": True}, "routers": ["p", "r", "z"],
    "hosts": {"a": {"routing": "shortest_path", "processes": [sender("b", "1 Mbit")]}, "b": {"processes": [SINK]}},
}
REST = [{"between": ["a", "p"]}, {"between": ["r", "z"]}, {"between": ["p", "z"], "cost": 2}, {"between": ["z", "b"]}]
ENDS = {
    "router": (["a", "r"], {}, []),
    "host": (["a", "r"], {"routers": ["p", "z"], "hosts__r": {"forwarding": True, "routing": "shortest_path", "processes": []}}, []),
    "switch": (["a", "s"], {"switches": ["s"]}, [{"between": ["s", "r"]}]),
    "P4 switch": (["a", "s:p1"], {"switches": {"s": {"p4": "cross.p4"}}}, [{"between": ["s:p2", "r"]}]),
    "radio": (["a", "air"], {"radios": {"air": {"stations": {"a": [0, 0], "r": [9, 0]}, "rate": "54 Mbit"}}}, [{"between": ["r", "air"]}]),
    "simulator": (["a", "box:left"], {"simulators": {"box": BOX}}, [{"between": ["box:right", "r"]}]),
    "NIC": (["nic0:eth", "r"], {"nics": ["nic0"], "hosts__a__devices": [{"pci": "nic0", "driver": "e1000"}]}, []),
}
for thing, (between, parts, behind) in ENDS.items():
    paths = changed(PATHS, links=[{"between": between}, *behind, *REST], **parts)
    other = [{"NIC": between[0]}.get(thing, "a:eth7"), between[1] if thing != "NIC" else "r:eth7"]
    group("links", thing, paths, ["links", 0], {"cost": 9, "name": "wire", "between": (between, other)})
BY_MAPPING = changed(PATHS, simulators={"box": BOX, "tin": BOX}, hosts__t1={"processes": []}, hosts__t2={"processes": []}, links=[
    {"between": ["a", {"simulator": "box", "port": "left"}]}, {"between": ["box:right", "r"]}, {"between": ["tin:left", "t1"]}, {"between": ["tin:right", "t2"]}, *REST])
group("links", "simulator", BY_MAPPING, [], {"links": (BY_MAPPING["links"], [
    {"between": ["a", {"simulator": "box", "port": "right"}]}, {"between": ["box:left", "r"]}, *BY_MAPPING["links"][2:]])}, name="between.port")
group("links", "simulator", BY_MAPPING, [], {"links": (BY_MAPPING["links"], [
    {"between": ["a", {"simulator": "tin", "port": "left"}]}, {"between": ["tin:right", "r"]}, {"between": ["box:left", "t1"]}, {"between": ["box:right", "t2"]}, *REST])},
    name="between.simulator")
ROUNDABOUT = changed(ROUTED, routers={"r": {}, "q": {}, "p": {}}, switches=[], links=[
    {"between": ["a", "r"]}, {"between": ["r", "q"]}, {"between": ["r", "p"]}, {"between": ["p", "q"]}, {"between": ["q", "b"]}])
for host in ROUNDABOUT["hosts"].values():
    del host["interfaces"]
group("routers", "", ROUNDABOUT, ["routers", "r"], {"routing": "static"})
group("hosts", keys.LINKS, ROUNDABOUT, ["hosts", "a"], {"routing": "static"})
CUT = changed(ROUNDABOUT, belljar__ipv6=False, events=[{"at": "50 ms", "link_down": "r:eth1-q:eth0"}], hosts__a__processes=[QUIET])
group("belljar", "", CUT, ["belljar"], {"route_log": True})

DEFAULTS = changed(GRAPHED, general__progress=True, host_option_defaults={})
group("host_option_defaults", "", DEFAULTS, ["host_option_defaults"], {
    "pcap_enabled": True, "shared": ["/tmp"], "queue": {"packets": 3}, "log_level": "error"})
group("host_option_defaults", "", GRAPHED, ["host_option_defaults"], {"clock.reading": "5 us"}, whole="clock")
group("host_option_defaults", "", GRAPHED, ["host_option_defaults"], {"sysctls": {"net.ipv4.ip_default_ttl": 33}, "pcap_capture_size": "60 B", "pcap_filter": "tcp"})
# Two shells write in turns that the order of their threads decides.
RACING = [{"path": "sh", "args": ["-c", f"n=0; while [ $n -lt 300 ]; do echo {name}; n=$((n+1)); done >> race"]} for name in ("one", "other")]
for experiment, thing in ((GRAPHED, keys.GRAPH), (LINKED, keys.LINKS)):
    group("hosts", thing, changed(experiment, hosts__a__processes=RACING), ["hosts", "a"], {"host_options.scheduling": ("fifo", "random")})
group("host_option_defaults", "", changed(GRAPHED, hosts__a__processes=RACING), ["host_option_defaults"], {"scheduling": ("fifo", "random")})
PREEMPTED = {"points": 40, "calls": 400, "instructions": 200}
BY_PRIORITIES = changed(GRAPHED, hosts__a__processes=RACING, hosts__a__host_options={"scheduling": {"priorities": PREEMPTED}})
group("scheduling", "", BY_PRIORITIES, ["hosts", "a", "host_options", "scheduling"], {"priorities": (PREEMPTED, {"points": 1})})
group("scheduling", "", BY_PRIORITIES, ["hosts", "a", "host_options", "scheduling", "priorities"],
      {"points": (40, 1), "calls": (400, 40), "instructions": (200, 1_000_000)}, prefix="priorities.")
DISTANT = {"exponent": 3, "reception_threshold": -88, "carrier_sense_threshold": -96}
SPREAD = changed(AIR, radios__air={"stations": {"a": [0, 0], "b": [100, 0], "c": [180, 0]}, "log_distance": DISTANT})
group("radios", "", SPREAD, ["radios", "air", "log_distance"], {
    "exponent": (3, 3.6), "reference_loss": 60, "transmit_power": 3, "reception_threshold": (-88, -70), "carrier_sense_threshold": (-96, -89)},
    prefix="log_distance.")
group("radios", "", SPREAD, ["radios", "air"], {"capture": 1, "log_distance": (DISTANT, ABSENT)})
WAYPOINTS = {"area": [500, 500], "speed": [100, 200], "pause": "10 ms", "steady_state": True}
group("radios", "", changed(AIR, radios__air={"stations": ["a", "b", "c"], "mobility": {"random_waypoint": WAYPOINTS}}),
      ["radios", "air", "mobility", "random_waypoint"], {
    "area": ([500, 500], [300, 500]), "speed": ([100, 200], [300, 400]), "pause": ("10 ms", "200 ms"), "steady_state": (True, False)},
    prefix="mobility.random_waypoint.", whole="mobility mobility.random_waypoint")
group("radios", "", AIR, ["radios", "air", "stations"], {"b": ({"position": [200, 0]}, {"position": [260, 0]})}, name="stations.position", whole="stations")
group("radios", "", AIR, ["radios", "air", "stations"], {"b": ({"position": [200, 0]}, {"path": [["0 s", 200, 0], ["500 ms", 900, 0]]})}, name="stations.path")
for source, one, other in (("ns2", "one.tcl", "other.tcl"), ("bonnmotion", "one.movements", "other.movements")):
    group("radios", "", changed(AIR, radios__air={"stations": ["a", "b", "c"], "mobility": {source: one}}), ["radios", "air", "mobility"], {source: (one, other)},
          prefix="mobility.")
group("radios", "", changed(AIR, radios__air={"stations": ["a", "b", "c"], "mobility": {"bonnmotion": "space.movements", "dimensions": 3}}),
      ["radios", "air", "mobility"], {"dimensions": (3, ABSENT)}, prefix="mobility.")
BOXED = {
    "general": {"stop_time": "20 ms"}, "host_option_defaults": {"pcap_enabled": True}, "simulators": {"box": BOX},
    "hosts": {"a": {"processes": [SINK, sender("b", "1 Mbit")]}, "b": {"processes": [SINK]}},
    "links": [{"between": ["a", "box:left"]}, {"between": ["b", "box:right"]}],
}
group("simulators", "", BOXED, ["simulators", "box"], {
    "command": (BOX["command"], [*BOX["command"], "--delay", "300"]), "latency": ("500 us", "900 us"), 
    "environment": {"PYTHONVERBOSE": "1"}, "sync": False,
})
group("simulators", "", changed(BOXED, simulators__box={**BOX, "command": ["python3", "box.py", "{left}", "{right}"]}), ["simulators", "box"], {
    "working_directory": ("boxes", "other-boxes")})
group("simulators", "", changed(BOXED, simulators__box={**BOX, "command": ["sh", "-c", "sleep 1; exit 1"]}), ["simulators", "box"], {"start_timeout": ("10 s", "100 ms")})
ENDING = f"import sys; sys.path.insert(0, {str(keys.ROOT / 'adapters/cosim')!r}); from belljar_channel import Simulator; s = Simulator(); [s.channel(url) for url in sys.argv[1:]]; s.run(5_000_000_000)"
group("simulators", "", changed(BOXED, simulators__box={**BOX, "command": ["python3", "-c", ENDING, "{left}", "{right}"]}), ["simulators", "box"], {"ends": ("with run", "with peer")})
BURSTY = changed(LINKED, hosts__a__processes=[{"model": {"type": "on_off", "to": "b:9", "rate": "8 Mbit", "duration": "900 ms", "burst": "20 ms", "silence": "30 ms"}}],
                 hosts__b__processes=[SINK], links__0__queue={"red": {**RED, "min": "1 KB", "max": "4 KB"}})
group("queue", "queue", BURSTY, ["links", 0, "queue", "red"], {"average_packet": (1000, 100)}, prefix="red.")
group("switches", keys.P4, changed(P4, switches__s={"p4": "cpu.p4"}), ["switches", "s"], {"cpu_port": 510})
group("hosts", keys.LINKS, changed(LINKED, network={"graph": {"type": "1_gbit_switch"}}, hosts__a={"processes": [QUIET]}), ["hosts", "a"], {"network_node_id": 0})

# Keys without an effect on a run: two values each, which give the same results.
UNCHANGED = []


def unchanged(*arguments, **options):
    UNCHANGED.append(Group(*arguments, **options))


unchanged("general", "", GRAPHED, ["general"], {"parallelism": (1, 2)})
unchanged("belljar", "", GRAPHED, ["belljar"], {"placement": ("near", "far")})
unchanged("experimental", "", changed(GRAPHED, experimental={}), ["experimental"], {
    "use_cpu_pinning": (True, False), "runahead": "5 ms", "scheduler": "thread-per-core", "use_memory_manager": True, "use_new_tcp": True,
    "interface_qdisc": "round-robin", "use_dynamic_runahead": True, "use_object_counters": False, "use_preload_libc": False,
    "use_preload_openssl_crypto": False, "use_preload_openssl_rng": False, "use_sched_fifo": False, "use_syscall_counters": False,
    "use_worker_spinning": False, "report_errors_to_stderr": False, "native_preemption_enabled": False,
})
for thing, experiment in ((keys.GRAPH, GRAPHED), (keys.LINKS, LINKED)):
    unchanged("hosts", thing, experiment, ["hosts", "a", "processes", 0], {"placement": ("near", "far")}, prefix="processes.")
unchanged("hosts", keys.LINKS, DRIVEN, ["hosts", "a", "devices", 0], {"interrupts": ("msi", "intx")}, prefix="devices.")
unchanged("simulators", "", BOXED, ["simulators", "box"], {"sync_interval": ("500 us", "100 us")})

# Machines: a run takes seconds, so these are for ./test --all.
MACHINE_SHOW = """ip addr; ip route; ip -6 route; cat /proc/sys/net/ipv4/ip_forward /proc/sys/net/ipv4/tcp_ecn /proc/cmdline /etc/services; date; env; free
echo $0; ping -c 3 -i 0.1 b; echo written > /tmp/acting.shared; trap 'echo end' INT; sleep 1; sleep 1"""
MACHINES = {
    "general": {"stop_time": "8 s"}, "host_option_defaults": {"pcap_enabled": True},
    "hosts": {
        "a": {"machine": {"type": "qemu"}, "interfaces": {"eth0": "10.0.0.1/24"}, "processes": [
            {"path": "busybox", "args": ["sh", "-c", MACHINE_SHOW], "expected_final_state": "any"}]},
        "b": {"interfaces": {"eth0": "10.0.0.2/24"}, "processes": []},
    },
    "links": [{"between": ["a", "b"], "latency": "1 ms", "rate": "100 Mbit", "name": "wire"}],
}
group("hosts", (keys.LINKS, keys.MACHINE), MACHINES, ["hosts", "a", "machine"], {
    "kernel_args": ["nokaslr"], "memory": "128 MiB", "nic": ("virtio-net", "e1000"), "shift": 1, "quantum": "200 us", "files": ["/etc/services"],
    "args": ["-rtc", "base=2001-01-01,clock=vm"],
}, prefix="machine.", whole="machine machine.type", slow=True)
group("hosts", keys.MACHINE, changed(MACHINES, belljar__ipv6=True), ["hosts", "a"], {
    "ipv6": (True, False), "forwarding": True, "interfaces": ({"eth0": "10.0.0.1/24"}, {"eth0": "10.0.0.9/24"}),
    "routes": [{"to": "192.0.2.0/24", "via": "10.0.0.2"}], "host_options.pcap_enabled": (True, False), "host_options.pcap_capture_size": "60 B",
    "host_options.pcap_filter": "arp", "host_options.sysctls": {"net.ipv4.tcp_ecn": 1},
}, whole="host_options", slow=True)
group("hosts", keys.MACHINE, changed(MACHINES, general__progress=True), ["hosts", "a"], {"host_options.log_level": "error"}, slow=True)
group("hosts", keys.MACHINE, MACHINES, ["hosts", "a", "processes", 0], {
    "args": (["sh", "-c", MACHINE_SHOW], ["echo"]), "environment": {"LEVEL": "3"}, "start_time": "2 s", "shutdown_time": "4 s",
    "expected_final_state": ("any", "running"),
}, prefix="processes.", whole="processes", slow=True)
group("hosts", keys.MACHINE, changed(MACHINES, hosts__a__processes__0__shutdown_time="4500 ms"), ["hosts", "a", "processes", 0], {"shutdown_signal": "SIGINT"},
      prefix="processes.", slow=True)
for name, one, other in (("exited", 0, 9), ("signaled", "SIGHUP", "SIGTERM")):
    ended = {"path": "busybox", "args": ["sh", "-c", "kill -HUP $$" if name == "signaled" else "true"], "expected_final_state": {name: one}}
    group("hosts", keys.MACHINE, changed(MACHINES, hosts__a__processes=[ended]), ["hosts", "a", "processes", 0, "expected_final_state"], {name: (one, other)},
          prefix="processes.expected_final_state.", slow=True)
NARROW = {"rate": "1 Mbit", "latency": "3 ms", "jitter": "900 us", "packet_loss": 0.3, "reordering": {"probability": 0.3, "delay": "9 ms"}, "duplication": 0.3,
          "corruption": 0.3, "queue": {"packets": 1}, "token_bucket": {"rate": "100 Kbit", "burst": "3 KB"}, "overhead": "200 B"}
group("links", "machine", MACHINES, ["links", 0], NARROW, slow=True)
group("links", "machine", MACHINES, ["links", 0], {f"reverse.{key}": value for key, value in NARROW.items()}, whole="reverse", slow=True)
group("links", "machine", MACHINES, ["links", 0], {
    "name": "other", "mtu": 600}, slow=True)
group("links", "machine", changed(MACHINES, hosts__b={"processes": []}), ["links", 0], {"between": (["a", "b"], ["a", "b:eth7"])}, slow=True)

# --- properties
WRITES = {
    "general": {"stop_time": "9 s"},
    "network": {"graph": {"type": "1_gbit_switch"}},
    "hosts": {
        "a": {"network_node_id": 0, "processes": [
            {"path": "sh", "args": ["-c", "echo took 5 ms; echo panic >&2; echo saved > log.txt; sleep 3; echo served"]},
            {"path": "busybox", "args": ["echo", "idle"]}]},
        "b": {"network_node_id": 0, "processes": [{"path": "busybox", "args": ["echo", "other"]}]},
    },
    "events": [{"at": "1 s", "clock": "b", "step": "1 s"}],
}


def claims(properties, **more):
    return {**WRITES, "properties": [properties], **more}


def event(kind, value):
    return f'{{"process": 0, "type": "{kind}", "f": "write", "value": {value}}}'


PROPERTY = ["properties", 0]
group("properties", "", claims({"name": "p", "never": "panic"}), PROPERTY, {"name": ("p", "q"), "never": ("panic", "x"), "files": "stdout", "process": "busybox"})
group("properties", "", claims({"name": "p", "always": "e"}), PROPERTY, {"always": ("e", "x"), "lines": "served", "hosts": ("b", "a")})
group("properties", "", claims({"name": "p", "sometimes": "took (?<ms>[0-9]+)"}), PROPERTY, {"sometimes": ("took (?<ms>[0-9]+)", "(?<ms>9)"), "where": "ms > 5"})
SOON = claims({"name": "p", "eventually": {"matches": "served", "within": "1 s", "after": "faults"}})
group("properties", "", SOON, [*PROPERTY, "eventually"], {"matches": ("served", "took"), "within": ("1 s", "5 s"), "after": ("faults", "2500 ms")}, prefix="eventually.")
group("properties", "", SOON, ["properties"], {0: (SOON["properties"][0], {"name": "p", "eventually": {"matches": "x", "within": "1 s"}})}, name="eventually")
REPORTED = '{"antithesis_assert": {"hit": true, "must_hit": true, "assert_type": "always", "message": "m", "condition": true}}'
ASSERTED = claims({"name": "p", "assertions": "sdk.jsonl"},
                  hosts={**WRITES["hosts"], "a": {"network_node_id": 0, "processes": [{"path": "sh", "args": ["-c", f"echo '{REPORTED}' > sdk.jsonl; echo > g.jsonl"]}]}})
group("properties", "", ASSERTED, PROPERTY, {"assertions": ("sdk.jsonl", "g.jsonl")})
NOTES = "\n".join([event("invoke", 1), event("ok", 1)])
NOTED = claims({"name": "p", "history": "h.jsonl", "model": "register", "hosts": "a"},
               hosts={**WRITES["hosts"], "a": {"network_node_id": 0, "processes": [{"path": "sh", "args": ["-c", f"echo '{NOTES}' > h.jsonl; echo > g.jsonl"]}]}})
group("properties", "of one host", NOTED, PROPERTY, {"history": ("h.jsonl", "g.jsonl")})
group("properties", "", NOTED, PROPERTY, {"model": ("register", "queue")})
BOTH_NOTE = changed(NOTED, hosts__b=NOTED["hosts"]["a"], properties__0={"name": "p", "history": "h.jsonl", "model": "register"})
group("properties", "of several hosts", BOTH_NOTE, PROPERTY, {"history": ("g.jsonl", "h.jsonl")})
WRITE_SKEW = "\n".join(f'{{"process": {n}, "type": "{kind}", "f": "txn", "value": [["r", "{read}", {got}], ["w", "{write}", {n + 1}]]}}'
                       for kind, got in (("invoke", "null"), ("ok", "null")) for n, read, write in ((0, "x", "y"), (1, "y", "x")))
SKEWED = changed(NOTED, hosts__a__processes__0__args=["-c", f"echo '{WRITE_SKEW}' > h.jsonl"], properties__0__model="rw-register")
group("properties", "", SKEWED, PROPERTY, {"consistency": ("serializable", "read-committed")})

SENDS = claims({"name": "p", "never": "UDP", "packets": "eth0", "filter": "udp"},
               hosts={**WRITES["hosts"], "a": {"network_node_id": 0, "processes": [{"path": "bash", "args": ["-c", "echo x > /dev/udp/b/9; sleep 3; echo x > /dev/udp/b/9"]}]}})
group("properties", "", SENDS, PROPERTY, {"packets": ("eth0", "lo"), "filter": ("udp", "icmp")})
for claimed in ("always", "never", "sometimes"):
    group("properties", "", changed(SENDS, properties__0={"name": "p", claimed: {"filter": "udp"}, "packets": "eth0"}), [*PROPERTY, claimed],
          {"filter": ("ip", "port 99")}, prefix=f"{claimed}.")
group("properties", "", changed(SENDS, properties__0={"name": "p", "eventually": {"filter": "udp", "within": "1 s", "after": "2500 ms"}, "packets": "eth0"}),
      [*PROPERTY, "eventually"], {"filter": ("udp", "port 99")}, prefix="eventually.")

# Cells that runs here do not try, with the test or the reason. Files are those below tests/, and have the keys in their text.
SIDES = ["rate", "latency", "jitter", "packet_loss", "reordering", "duplication", "corruption", "queue", "token_bucket", "overhead"]
BOTH_SIDES = " ".join(["reverse", "mtu", *SIDES, *(f"reverse.{key}" for key in SIDES)])
HELD = [
    ("experimental", "", "native_preemption_sim_interval", "determinism/test_spinning.py"),
    ("events", "host", "disk", "command/test_disks.py"),
    ("events", "host", "disk_fault disk_heal sync_time sync_errors full read_errors bit_rot path connection_reset ends call_faults results share pid call number",
     "command/test_faults.py"),
    ("events", "host", "root keep", "kernel/test_new_roots.py"),
    ("events", "host", "kill upgrade grace memory limit dns_answers names answer", "command/test_faults.py"),
    ("gateways", "", "interface address hard_limit namespace", "emulation/test_gateways.py"),
    ("hosts", keys.GRAPH, "devices.driver", "simulators/test_devices.py"),
    ("hosts", keys.LINKS, "devices.driver", "simulators/test_devices.py"),
    *(("hosts", thing, "machine.kernel machine.qemu machine.busybox machine.modules", "simulators/test_machines.py") for thing in (keys.LINKS, keys.MACHINE)),
    ("hosts", keys.MACHINE, "root processes.path", "simulators/test_machines.py"),
    ("memories", "", "size access", "simulators/test_devices.py"),
    ("simulators", "", "devices devices.interface devices.latency devices.memory devices.pci ports ports.role ports.socket", "simulators/test_devices.py"),
    ("switches", keys.P4, "management management.interface management.port management.device_id management.control_latency p4info", "p4/test_p4_control.py"),
    ("switches", keys.P4, "management.thrift_port", "p4/test_p4_thrift.py"),
    *(("links", end, BOTH_SIDES, "errors/test_keys.py") for end in ("host", "switch", "P4 switch", "router", "radio", "simulator", "NIC")),
]
ARGUED = [
    ("", "", "general network hosts host_option_defaults links events properties belljar experimental switches routers simulators radios nics memories gateways",
     "a section acts by its keys"),
    ("", "", "explore", "command/test_explore.py"),
    ("explore", "", keys.EXPLORE, "crates/explore/src/tests.rs draws faults within their bounds"),
    ("links", "gateway", f"name between cost {BOTH_SIDES}", "runs with gateways are in real time; a host's side of the link is that of a link to a simulator"),
    ("hosts", keys.MACHINE, "routing", "its routes are computed as those of a host on links"),
    ("links", "machine", "cost", "the machine's routes are those of a host on links"),
    ("links", "two simulators", "name between between.simulator between.port latency reverse reverse.latency cost",
     "simulators/test_simulators.py has their channel, which a cost does not change: no route leads through it"),
    ("switches", keys.P4, "management.address", "an address like that of any interface"),
    ("experimental", "", "edge_bandwidth_algorithm edge_bandwidth_burst_ratio edge_bandwidth_limiting_enabled native_preemption_native_interval",
     "of Shadow, ignored with a note as the others"),
    ("hosts", keys.GRAPH, "devices.interrupts", "as on hosts on links"),
    ("hosts", keys.MACHINE, "processes.placement", "the machine's kernel runs its processes"),
    ("switches", keys.LEARNING, "p4 management management.interface management.address management.port management.thrift_port management.device_id "
     "management.control_latency", "with it the switch is a P4 switch"),
]
