"""Experiments as objects, written as YAML."""

from __future__ import annotations

import copy
import dataclasses
import fnmatch
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict, overload

import yaml

from . import drawing
from .events import Events
from .models import Model
from .topology import Addresses, Links, Route, Station

if TYPE_CHECKING:
    import networkx
    from typing_extensions import Unpack

    from .results import Results


@dataclasses.dataclass
class Process:
    """A program that a host runs."""

    path: str
    args: list[str] = dataclasses.field(default_factory=list)
    environment: dict[str, str] = dataclasses.field(default_factory=dict)
    start_time: str | float = 0
    shutdown_time: str | float | None = None
    shutdown_signal: str = "SIGTERM"
    expect: int | str | Mapping[str, Any] = 0
    placement: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """As the experiment file has it."""
        expected = {"exited": self.expect} if isinstance(self.expect, int) else self.expect
        if isinstance(expected, str) and expected not in ("running", "any"):
            expected = {"signaled": expected}
        entry: dict[str, Any] = {"path": self.path, "args": list(self.args), "expected_final_state": expected}
        if self.environment:
            entry["environment"] = dict(self.environment)
        if self.start_time:
            entry["start_time"] = self.start_time
        if self.shutdown_time is not None:
            entry |= {"shutdown_time": self.shutdown_time, "shutdown_signal": self.shutdown_signal}
        if self.placement is not None:
            entry["placement"] = self.placement
        return entry


@dataclasses.dataclass
class ModelItem:
    """An endpoint without a program, and when it starts and is stopped."""

    model: Model | Mapping[str, Any]
    start_time: str | float = 0
    shutdown_time: str | float | None = None

    def to_dict(self) -> dict[str, Any]:
        """As the experiment file has it."""
        entry: dict[str, Any] = {"model": self.model.to_dict() if isinstance(self.model, Model) else dict(self.model)}
        if self.start_time:
            entry["start_time"] = self.start_time
        if self.shutdown_time is not None:
            entry["shutdown_time"] = self.shutdown_time
        return entry


class Clock(TypedDict, total=False):
    """How a host's clock is wrong from the start: ahead by so much, gaining so many microseconds a second."""

    offset: str
    drift_ppm: float


class Cpu(TypedDict, total=False):
    """Simulated time that work takes on a host's one core, such as {"syscall": "1 us", "packet": "2 us", "byte": "0.25 ns"}."""

    syscall: str
    packet: str
    byte: str
    interrupt: str
    #: Packets that can wait to be received.
    backlog: int


class HostOptions(TypedDict, total=False):
    """What a host can be given when it is made: see the fields of Host."""

    ip_addr: str
    bandwidth_up: str
    bandwidth_down: str
    interfaces: Mapping[str, Addresses]
    routes: Sequence[Route]
    routing: Literal["shortest_path", "static"]
    forwarding: bool
    clock: Clock
    cpu: Cpu
    pcap: bool
    pcap_filter: str | Mapping[str, str | bool]
    pcap_size: str | int
    log_level: str
    shared: Sequence[str]
    root: str
    machine: str | Mapping[str, Any]
    sysctls: Mapping[str, object]
    queue: Mapping[str, Any]
    extra: Mapping[str, Any]


@dataclasses.dataclass
class Host(Station):
    """A simulated machine. What has no field of its own goes into `extra`, as the experiment file has it."""

    name: str
    #: Its place in the graph; None: the first one, unless the host has links.
    node: int | None = None
    _: dataclasses.KW_ONLY
    ip_addr: str | None = None
    bandwidth_up: str | None = None
    bandwidth_down: str | None = None
    #: Whether it passes packets of others on.
    forwarding: bool | None = None
    clock: Clock | None = None
    cpu: Cpu | None = None
    #: Whether its packets are captured, which of them, and how many bytes of each.
    pcap: bool | None = None
    pcap_filter: str | Mapping[str, str | bool] | None = None
    pcap_size: str | int | None = None
    log_level: str | None = None
    #: Directories of this machine that its programs see and write as they are.
    shared: Sequence[str] = ()
    #: Its files instead of this machine's: a directory, or an image as `docker save` writes it.
    root: str | None = None
    #: "qemu": a whole machine in the host's place; {"type": "qemu", "memory": "1 GiB"} and the like.
    machine: str | Mapping[str, Any] | None = None
    #: Such as {"net.ipv4.tcp_ecn": 1}.
    sysctls: Mapping[str, object] = dataclasses.field(default_factory=dict)
    #: What waits to be sent to the graph: `fq_codel()` and others.
    queue: Mapping[str, Any] | None = None
    extra: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    processes: list[Process | ModelItem] = dataclasses.field(default_factory=list)

    def run(
        self,
        path: str | os.PathLike[str],
        *args: object,
        start: str | float = 0,
        stop: str | float | None = None,
        signal: str = "SIGTERM",
        expect: int | str | Mapping[str, Any] = 0,
        env: Mapping[str, str] | None = None,
        placement: str | None = None,
    ) -> Host:
        """Adds a program. `expect` is its exit status, the name of the signal that ends it, "running" or "any".
        With start="never" an event starts it. Gives the host back, so that calls can be chained."""
        self.processes.append(
            Process(os.fspath(path), [str(a) for a in args], dict(env or {}), start, stop, signal, expect, placement)
        )
        return self

    @overload
    def model(self, model: Model, *, start: str | float = 0, stop: str | float | None = None) -> Host: ...

    @overload
    def model(self, model: str, *, start: str | float = 0, stop: str | float | None = None, **settings: Any) -> Host: ...

    def model(self, model: Model | str, *, start: str | float = 0, stop: str | float | None = None, **settings: Any) -> Host:
        """Adds an endpoint without a program: model(Http(to="server", count=10)), by one of the classes in `belljar.models`;
        or by the words of the experiment file, model("http", to="server", count=10). With start="never" an event starts it.
        Gives the host back."""
        self.processes.append(ModelItem({"type": model, **settings} if isinstance(model, str) else model, start, stop))
        return self

    def to_dict(self) -> dict[str, Any]:
        """As the experiment file has it, but for its place in the graph."""
        entry: dict[str, Any] = dict(self.extra)
        for key in ("ip_addr", "bandwidth_up", "bandwidth_down", "forwarding", "clock", "cpu", "root", "machine"):
            if getattr(self, key) is not None:
                entry[key] = getattr(self, key)
        options = {"pcap_enabled": self.pcap, "pcap_filter": self.pcap_filter, "pcap_capture_size": self.pcap_size,
                   "log_level": self.log_level, "shared": list(self.shared) or None, "sysctls": dict(self.sysctls) or None, "queue": self.queue}
        options = {key: value for key, value in options.items() if value is not None}
        if options:
            entry["host_options"] = {**entry.get("host_options", {}), **options}
        entry |= self.station_dict()
        entry["processes"] = [process.to_dict() for process in self.processes]
        return entry


class Network:
    """The graph: places, named or numbered, and what joins them. Without any place it is one switch of 1 Gbit/s."""

    def __init__(self, *, bandwidth: str = "1 Gbit", loop_latency: str = "1 ms", directed: bool = False) -> None:
        self.bandwidth, self.loop_latency, self.directed = bandwidth, loop_latency, directed
        self.use_shortest_path = True
        self._ids: dict[object, int] = {}
        self._nodes: dict[int, dict[str, str]] = {}
        self._edges: list[tuple[int, int, dict[str, object]]] = []

    def node(self, name: object, *, up: str | None = None, down: str | None = None) -> int:
        """The number of a place, which is made on first use. `up` and `down` are bandwidths of hosts there."""
        if name not in self._ids:
            self._ids[name] = len(self._ids)
            self._nodes[self._ids[name]] = {"label": str(name)}
        number = self._ids[name]
        for key, value in (("host_bandwidth_up", up), ("host_bandwidth_down", down)):
            if value is not None:
                self._nodes[number][key] = value
        return number

    def edge(
        self, source: object, target: object, *, latency: str, loss: float = 0.0, jitter: str | None = None
    ) -> Network:
        """Joins two places (or a place with itself: the way between hosts at one place)."""
        more: dict[str, object] = {"latency": latency}
        if loss:
            more["packet_loss"] = loss
        if jitter is not None:
            more["jitter"] = jitter
        self._edges.append((self.node(source), self.node(target), more))
        return self

    @classmethod
    def from_networkx(cls, graph: "networkx.Graph[Any]", *, bandwidth: str = "1 Gbit", latency: str | None = None) -> Network:
        """A network from a NetworkX graph. Edges have `latency` ("10 ms"; a number counts milliseconds), and may have
        `packet_loss` (or `loss`) and `jitter`; nodes may have `host_bandwidth_up` and `host_bandwidth_down`. `latency`
        is that of edges that have none."""
        network = cls(bandwidth=bandwidth, directed=graph.is_directed())
        for name, more in graph.nodes(data=True):
            network.node(name, up=more.get("host_bandwidth_up"), down=more.get("host_bandwidth_down"))
        for source, target, more in graph.edges(data=True):
            own = more.get("latency", latency)
            if own is None:
                raise ValueError(f"the edge from {source!r} to {target!r} has no 'latency': give it one, or pass latency=")
            jitter = more.get("jitter")
            network.edge(
                source, target, latency=_milliseconds(own), loss=float(more.get("packet_loss", more.get("loss", 0.0))),
                jitter=None if jitter is None else _milliseconds(jitter),
            )
        return network

    def between(self, source: object, target: object) -> dict[str, Any]:
        """The edge between two places, for events about links."""
        for name in (source, target):
            if name not in self:
                raise ValueError(f"the network has no place {name!r}")
        return {"edge": [self._ids[source], self._ids[target]]}

    def __contains__(self, name: object) -> bool:
        return name in self._ids

    def draw(self) -> drawing.Drawing:
        """The places and what joins them."""
        made = drawing.Drawing()
        for name, number in self._ids.items():
            made.nodes[number] = drawing.Node(str(name), "place")
        for source, target, more in self._edges:
            if source != target:
                made.edges.append(drawing.Edge(source, target, ", ".join(_words(more))))
        return made

    def __repr__(self) -> str:
        if not self._nodes:
            return "Network(one switch of 1 Gbit/s)"
        joined = sum(source != target for source, target, _ in self._edges)
        return f"Network({len(self._nodes)} {drawing.plural('place', len(self._nodes))}, {joined} {drawing.plural('edge', joined)})"

    def _repr_html_(self) -> str:
        return drawing.block(repr(self), self.draw().svg())

    def to_gml(self) -> str:
        """The graph as GML; every place gets a way to itself unless it has one."""
        lines = ["graph [", f"  directed {int(self.directed)}"]
        for number, more in self._nodes.items():
            entry = {"host_bandwidth_up": self.bandwidth, "host_bandwidth_down": self.bandwidth, **more}
            lines.append(f"  node [ id {number} " + " ".join(f"{k} {_gml(v)}" for k, v in entry.items()) + " ]")
        own = {source for source, target, _ in self._edges if source == target}
        loops: list[tuple[int, int, dict[str, object]]] = [(n, n, {"latency": self.loop_latency}) for n in self._nodes if n not in own]
        for source, target, attributes in [*self._edges, *loops]:
            entry_text = " ".join(f"{k} {_gml(v)}" for k, v in attributes.items())
            lines.append(f"  edge [ source {source} target {target} {entry_text} ]")
        return "\n".join([*lines, "]", ""])

    def to_dict(self) -> dict[str, Any]:
        """As the experiment file has it."""
        if not self._nodes:
            return {"graph": {"type": "1_gbit_switch"}}
        return {"graph": {"type": "gml", "inline": self.to_gml()}, "use_shortest_path": self.use_shortest_path}


def _words(edge: Mapping[str, object]) -> list[str]:
    """An edge's properties for people."""
    said = [str(edge["latency"])]
    if "jitter" in edge:
        said.append(f"jitter {edge['jitter']}")
    if "packet_loss" in edge:
        said.append(f"loss {edge['packet_loss']}")
    return said


def _milliseconds(value: object) -> str:
    return f"{value} ms" if isinstance(value, (int, float)) else str(value)


def _gml(value: object) -> str:
    if isinstance(value, (int, float)):
        return repr(value)
    return '"' + str(value).replace("&", "&amp;").replace('"', "&quot;") + '"'


class _Plain(yaml.SafeDumper):  # type: ignore[misc, unused-ignore]
    """Writes what is there twice twice: no anchors."""

    def ignore_aliases(self, data: object) -> bool:
        return True


class Experiment(Events, Links):
    """Hosts, the programs they run, the network between them, and what happens to it. The network is a graph (`network`), or
    links between hosts, switches and routers (`link`), or both."""

    def __init__(
        self,
        *,
        stop_time: str | float,
        seed: int = 1,
        network: Network | None = None,
        metrics_interval: str | None = None, route_log: bool = False,
        **general: Any,
    ) -> None:
        """`general` are further keys of that section; `metrics_interval` turns time series on, `route_log` that of routes."""
        Events.__init__(self)
        Links.__init__(self)
        self.general: dict[str, Any] = {"stop_time": stop_time, "seed": seed, **general}
        self.network = network if network is not None else Network()
        self.hosts: dict[str, Host] = {}
        self.experimental: dict[str, Any] = {}
        self.host_option_defaults: dict[str, Any] = {}
        self.belljar: dict[str, Any] = {"metrics": {"interval": metrics_interval}} if metrics_interval else {}
        if route_log:
            self.belljar["route_log"] = True

    def host(self, name: str, *, at: object = None, **options: Unpack[HostOptions]) -> Host:
        """Adds a host, at a place of the network if one is named; otherwise where its links lead, or at the first place if it
        has none."""
        if name in self.hosts:
            raise ValueError(f"there is a host '{name}' already")
        if at is not None and at not in self.network:
            raise ValueError(f"the network has no place {at!r}: make it with network.node() or network.edge()")
        node = None if at is None else self.network.node(at)
        # What this version knows no option for is left to the command to judge.
        known = HostOptions.__annotations__
        extra = {**options.get("extra", {}), **{key: value for key, value in options.items() if key not in known}}
        given: dict[str, Any] = {key: value for key, value in options.items() if key in known and key != "extra"}
        self.hosts[name] = host = Host(name, node, extra=extra, **given)
        return host

    @classmethod
    def from_networkx(
        cls, graph: networkx.Graph[Any], *, stop_time: str | float, latency: str | None = None, rate: str | None = None,
        **settings: Any,
    ) -> Experiment:
        """An experiment whose network is made of links, with the nodes and edges of a NetworkX graph. A node's `kind` is
        "host", "router" or "switch"; without it, nodes with one edge are hosts and others routers. Edges may have `latency`
        and `jitter` ("10 ms"; a number counts milliseconds), `rate`, `packet_loss` (or `loss`), `queue`, `mtu`, `cost` and
        `name`; `latency` and `rate` here are those of edges that have none. `settings` are those of Experiment. For a graph of
        latencies without switches and routers see `Network.from_networkx`."""
        experiment = cls(stop_time=stop_time, **settings)
        experiment._add_graph(graph, latency, rate)
        return experiment

    def with_(self, **changes: Any) -> Experiment:
        """A copy with keys of section `general` changed, such as seed=2."""
        changed = copy.deepcopy(self)
        changed.general.update(changes)
        return changed

    def to_dict(self) -> dict[str, Any]:
        """As the experiment file has it."""
        linked = self._linked_hosts()
        hosts = {}
        for name, host in self.hosts.items():
            place = 0 if host.node is None and name not in linked else host.node
            hosts[name] = {**({} if place is None else {"network_node_id": place}), **host.to_dict()}
        entry: dict[str, Any] = {"general": dict(self.general)}
        if any("network_node_id" in host for host in hosts.values()) or not (linked or self.linked()):
            entry["network"] = self.network.to_dict()
        for key in ("experimental", "belljar", "host_option_defaults", "events"):
            if getattr(self, key):
                entry[key] = getattr(self, key)
        return {**entry, **self.links_dict(), "hosts": hosts}

    def to_yaml(self) -> str:
        """The experiment file."""
        return str(yaml.dump(self.to_dict(), Dumper=_Plain, sort_keys=False, allow_unicode=True))

    def save(self, path: str | os.PathLike[str]) -> pathlib.Path:
        """Writes the experiment file."""
        file = pathlib.Path(path)
        file.write_text(self.to_yaml())
        return file

    def _linked_hosts(self) -> set[str]:
        """Hosts with links, radios or PCI devices."""
        # Stations of radios may be named by patterns.
        patterns = self.linked()
        return {name for name, host in self.hosts.items()
                if host.extra.get("devices") or any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)}

    def draw(self) -> drawing.Drawing:
        """The network with its hosts: places of the graph, links, devices and radio channels."""
        linked = self._linked_hosts()
        in_graph = [host for name, host in self.hosts.items() if host.node is not None or name not in linked]
        made = self.network.draw() if in_graph else drawing.Drawing()
        if in_graph and not made.nodes:
            made.nodes[0] = drawing.Node("switch of 1 Gbit/s", "switch")
        devices = [(name, str(device["pci"])) for name, host in self.hosts.items() for device in host.extra.get("devices") or () if "pci" in device]
        self.draw_links(made, self.hosts, linked, devices)
        made.attach((host.name, host.node or 0, _programs(host)) for host in in_graph if host.name not in linked)
        # One that has links and a place in the graph is drawn once, with an edge to that place.
        made.edges += [drawing.Edge(("station", h.name), h.node or 0) for h in in_graph if h.name in linked]
        return made

    def __repr__(self) -> str:
        parts = [f"{len(self.hosts)} {drawing.plural('host', len(self.hosts))}"]
        for noun, some in (("switch", self.switches), ("router", self.routers), ("simulator", self.simulators), ("gateway", self.gateways),
                           ("radio", self.radios), ("nic", self.nics), ("memory", self.memories), ("link", self.links), ("event", self.events)):
            if some:
                parts.append(f"{len(some)} {drawing.plural(noun, len(some))}")
        return f"Experiment({', '.join(parts)}, stop_time={self.general.get('stop_time')!r}, seed={self.general.get('seed')!r})"

    def _repr_html_(self) -> str:
        rows = [(host.name, host.ip_addr or "", _programs(host)) for host in self.hosts.values()]
        return drawing.block(repr(self), self.draw().svg(), drawing.table(["host", "address", "runs"], rows) if rows else "")

    def run(self, output: str | os.PathLike[str] | None = None, **options: Any) -> Results:
        """Runs it into the folder `output`, or into a new one in `belljar.data`: see `belljar.run`."""
        from .run import run

        return run(self, output, **options)


def _programs(host: Host) -> str:
    """What a host runs, for people."""
    said = []
    for item in host.processes:
        if isinstance(item, Process):
            said.append(" ".join([os.path.basename(item.path), *item.args]))
        else:
            model = item.model.to_dict() if isinstance(item.model, Model) else item.model
            said.append(f"model {model.get('name') or model.get('type')}")
    return "; ".join(one if len(one) <= 60 else one[:57] + "..." for one in said)
