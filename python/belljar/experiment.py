"""Experiments as objects, written as YAML."""

from __future__ import annotations

import copy
import dataclasses
import fnmatch
import os
import pathlib
import subprocess
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict, overload

import yaml

from . import drawing, models
from .binary import BelljarError, find_binary
from .events import Events
from .keywords import check_keywords
from .models import Model
from .properties import Properties
from .sites import Site, caller, located, site_of
from .topology import Addresses, Links, Route, Station
from .units import with_units

if TYPE_CHECKING:
    import networkx
    from typing_extensions import Unpack

    from .results import Results


class General(TypedDict, total=False):
    """Keys of section `general` besides the stop time and the seed."""

    parallelism: int
    bootstrap_end_time: str | float
    log_level: str
    heartbeat_interval: str | None
    data_directory: str
    template_directory: str | None
    progress: bool
    model_unblocked_syscall_latency: bool


class Settings(General, total=False):
    """Arguments of Experiment besides the stop time."""

    seed: int
    metrics_interval: str | None
    route_log: bool


class Changes(General, total=False):
    """Keys of section `general`."""

    stop_time: str | float
    seed: int


class RunOptions(TypedDict, total=False):
    """Options of `belljar.run`."""

    seed: int | None
    settings: Mapping[str, Any] | None
    strace: bool
    pcap: bool
    choices: str | os.PathLike[str] | None
    record_choices: str | os.PathLike[str] | None
    parallelism: int | None
    check: bool
    overwrite: bool
    timeout: float | None
    progress: bool | None
    binary: str | os.PathLike[str] | None
    arguments: Sequence[str]


@dataclasses.dataclass
class Process:
    """Program run by a host."""

    path: str
    args: list[str] = dataclasses.field(default_factory=list)
    environment: dict[str, str] = dataclasses.field(default_factory=dict)
    start_time: str | float = 0
    shutdown_time: str | float | None = None
    shutdown_signal: str = "SIGTERM"
    expect: int | str | Mapping[str, Any] = 0
    placement: str | None = None
    #: Line of the program that added it.
    site: Site | None = dataclasses.field(default=None, compare=False, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Representation in the experiment file."""
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
    """Modelled endpoint, with its start and stop times."""

    model: Model | Mapping[str, Any]
    start_time: str | float = 0
    shutdown_time: str | float | None = None
    site: Site | None = dataclasses.field(default=None, compare=False, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Representation in the experiment file."""
        entry: dict[str, Any] = {"model": self.model.to_dict() if isinstance(self.model, Model) else dict(self.model)}
        if self.start_time:
            entry["start_time"] = self.start_time
        if self.shutdown_time is not None:
            entry["shutdown_time"] = self.shutdown_time
        return entry


class Clock(TypedDict, total=False):
    """Clock of a host: its error at the start, as an offset and a drift in microseconds per second, the time that each
    reading takes, and the error of the PTP hardware clocks of its interfaces, where it differs."""

    offset: str
    drift_ppm: float
    reading: str
    hardware_offset: str
    hardware_drift_ppm: float


class Cpu(TypedDict, total=False):
    """Simulated CPU time of operations on a host's single core, such as {"syscall": "1 us", "packet": "2 us", "byte":
    "0.25 ns"}."""

    syscall: str
    packet: str
    byte: str
    interrupt: str
    #: Maximum number of packets queued for reception.
    backlog: int


class HostOptions(TypedDict, total=False):
    """Options of a host's constructor: see the fields of Host."""

    ip_addr: str
    ip6_addr: str
    ipv6: bool
    bandwidth_up: str
    bandwidth_down: str
    interfaces: Mapping[str, Addresses]
    routes: Sequence[Route]
    routing: Literal["shortest_path", "static"]
    forwarding: bool
    clock: Clock
    cpu: Cpu
    cpu_count: int
    #: Memory, such as "512 MiB"; no limit unless given.
    memory: int | str
    setup: Sequence[str]
    pcap: bool
    pcap_filter: str | Mapping[str, str | bool]
    pcap_size: str | int
    log_level: str
    shared: Sequence[str]
    root: str
    machine: str | Mapping[str, Any]
    sysctls: Mapping[str, object]
    queue: Mapping[str, Any]
    scheduling: str | Mapping[str, Any]
    devices: Sequence[Mapping[str, Any]]
    extra: Mapping[str, Any]


@dataclasses.dataclass
class Host(Station):
    """Simulated machine. Keys of the experiment file without a field of their own go into `extra`."""

    name: str
    #: Graph node of the host; None: the first node, unless the host has links.
    node: int | None = None
    _: dataclasses.KW_ONLY
    ip_addr: str | None = None
    ip6_addr: str | None = None
    #: False: the host has no IPv6.
    ipv6: bool | None = None
    bandwidth_up: str | None = None
    bandwidth_down: str | None = None
    #: True if the host forwards packets.
    forwarding: bool | None = None
    clock: Clock | None = None
    cpu: Cpu | None = None
    #: Number of processors that programs see; 1.
    cpu_count: int | None = None
    memory: int | str | None = None
    #: Commands of a shell that run before the processes start, such as "nft -f rules.nft".
    setup: Sequence[str] = ()
    #: Packet capture: whether, of which packets, and how many bytes of each.
    pcap: bool | None = None
    pcap_filter: str | Mapping[str, str | bool] | None = None
    pcap_size: str | int | None = None
    log_level: str | None = None
    #: Directories of this machine that the host's programs read and write directly.
    shared: Sequence[str] = ()
    #: Root file system instead of this machine's: a directory, or an image as written by `docker save`.
    root: str | None = None
    #: "qemu" for a whole machine; or {"type": "qemu", "memory": "1 GiB"} with further keys.
    machine: str | Mapping[str, Any] | None = None
    #: Kernel parameters, such as {"net.ipv4.tcp_ecn": 1}.
    sysctls: Mapping[str, object] = dataclasses.field(default_factory=dict)
    #: Queueing discipline of the interface to the graph: `fq_codel()` and others.
    queue: Mapping[str, Any] | None = None
    #: "random": the seed decides the order of the host's threads; "fifo".
    scheduling: str | Mapping[str, Any] | None = None
    #: PCI devices, such as [{"pci": "nic0", "driver": "e1000"}].
    devices: Sequence[Mapping[str, Any]] = ()
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
        """Adds a program. `expect` is its exit status, the name of the signal that ends it, "running" or "any". With
        start="never" it is started by an event. Returns the host for chaining."""
        self.processes.append(
            Process(os.fspath(path), [str(a) for a in args], dict(env or {}), start, stop, signal, expect, placement, caller())
        )
        return self

    @overload
    def model(self, model: Model, *, start: str | float = 0, stop: str | float | None = None) -> Host: ...

    @overload
    def model(self, model: str, *, start: str | float = 0, stop: str | float | None = None, **settings: Any) -> Host: ...

    def model(self, model: Model | str, *, start: str | float = 0, stop: str | float | None = None, **settings: Any) -> Host:
        """Adds a modelled endpoint: model(Http(to="server", count=10)), by a class in `belljar.models`, or with the
        keys of the experiment file, model("http", to="server", count=10). With start="never" it is started by an
        event. Returns the host."""
        if isinstance(model, str):
            check_keywords("model", settings, [*models.keys(model), "start", "stop"])
        elif settings:
            raise TypeError(f"model() takes settings {', '.join(settings)} with the name of a type, and not with a model: give them to {type(model).__name__}()")
        self.processes.append(ModelItem({"type": model, **settings} if isinstance(model, str) else model, start, stop, caller()))
        return self

    def pci_devices(self) -> Sequence[Mapping[str, Any]]:
        """PCI devices, as an argument or in `extra`."""
        return self.devices or self.extra.get("devices") or ()

    def to_dict(self) -> dict[str, Any]:
        """Representation in the experiment file, without the graph node."""
        entry: dict[str, Any] = dict(self.extra)
        for key in ("ip_addr", "ip6_addr", "ipv6", "bandwidth_up", "bandwidth_down", "forwarding", "clock", "cpu", "cpu_count", "memory", "root", "machine"):
            if getattr(self, key) is not None:
                entry[key] = getattr(self, key)
        options = {"pcap_enabled": self.pcap, "pcap_filter": self.pcap_filter, "pcap_capture_size": self.pcap_size,
                   "log_level": self.log_level, "shared": list(self.shared) or None, "sysctls": dict(self.sysctls) or None, "queue": self.queue, "scheduling": self.scheduling}
        options = {key: value for key, value in options.items() if value is not None}
        if options:
            entry["host_options"] = {**entry.get("host_options", {}), **options}
        if self.setup:
            entry["setup"] = list(self.setup)
        if self.devices:
            entry["devices"] = [dict(device) for device in self.devices]
        entry |= self.station_dict()
        entry["processes"] = [process.to_dict() for process in self.processes]
        return entry


class Network:
    """Network graph: nodes, named or numbered, and edges. Without nodes it is a single switch of 1 Gbit/s."""

    def __init__(self, *, bandwidth: str = "1 Gbit", loop_latency: str = "1 ms", directed: bool = False) -> None:
        self.bandwidth, self.loop_latency, self.directed = bandwidth, loop_latency, directed
        self.use_shortest_path = True
        self._ids: dict[object, int] = {}
        self._nodes: dict[int, dict[str, str]] = {}
        self._edges: list[tuple[int, int, dict[str, object]]] = []
        # Lines of the program that made the nodes and edges.
        self._node_sites: list[Site | None] = []
        self._edge_sites: list[Site | None] = []

    def node(self, name: object, *, up: str | None = None, down: str | None = None) -> int:
        """Number of a graph node, which is created on first use. `up` and `down` are the bandwidths of its hosts."""
        if name not in self._ids:
            self._ids[name] = len(self._ids)
            self._nodes[self._ids[name]] = {"label": str(name)}
            self._node_sites.append(caller())
        number = self._ids[name]
        for key, value in (("host_bandwidth_up", up), ("host_bandwidth_down", down)):
            if value is not None:
                self._nodes[number][key] = value
        return number

    def edge(
        self, source: object, target: object, *, latency: str, loss: float = 0.0, jitter: str | None = None
    ) -> Network:
        """Connects two graph nodes, or a node with itself: the path between hosts at one node."""
        more: dict[str, object] = {"latency": latency}
        if loss:
            more["packet_loss"] = loss
        if jitter is not None:
            more["jitter"] = jitter
        self._edges.append((self.node(source), self.node(target), more))
        self._edge_sites.append(caller())
        return self

    @classmethod
    def from_networkx(cls, graph: "networkx.Graph[Any]", *, bandwidth: str = "1 Gbit", latency: str | None = None) -> Network:
        """Builds a network from a NetworkX graph. Edges have `latency` ("10 ms"; a number counts milliseconds), and
        may have `packet_loss` (or `loss`) and `jitter`; nodes may have `host_bandwidth_up` and `host_bandwidth_down`.
        `latency` is the default for edges without one."""
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
        """Edge between two graph nodes, for link events."""
        for name in (source, target):
            if name not in self:
                raise ValueError(f"the network has no place {name!r}")
        return {"edge": [self._ids[source], self._ids[target]]}

    def __contains__(self, name: object) -> bool:
        return name in self._ids

    def draw(self) -> drawing.Drawing:
        """Draws nodes and edges."""
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
        """The graph as GML; a node without a self-loop gets one."""
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

    def site_of_line(self, number: int) -> Site | None:
        """Line of the program that made the node or edge in a line of `to_gml()`, which has two lines before them."""
        made = [*self._node_sites, *self._edge_sites]
        return made[number - 3] if 0 <= number - 3 < len(made) else None

    def to_dict(self) -> dict[str, Any]:
        """Representation in the experiment file."""
        if not self._nodes:
            return {"graph": {"type": "1_gbit_switch"}}
        return {"graph": {"type": "gml", "inline": self.to_gml()}, "use_shortest_path": self.use_shortest_path}


def _words(edge: Mapping[str, object]) -> list[str]:
    """Properties of an edge in words."""
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
    """YAML dumper without anchors: repeated values are written repeatedly."""

    def ignore_aliases(self, data: object) -> bool:
        return True


class Experiment(Events, Links, Properties):
    """Experiment: hosts, their programs, the network, events and properties. The network is a graph (`network`), or links
    between hosts, switches and routers (`link`), or both."""

    def __init__(
        self,
        *,
        stop_time: str | float,
        seed: int = 1,
        network: Network | None = None,
        metrics_interval: str | None = None, route_log: bool = False,
        **general: Unpack[General],
    ) -> None:
        """`general` are further keys of that section; `metrics_interval` enables time series, `route_log` the log of
        route changes."""
        check_keywords("Experiment", general, [*General.__annotations__, "stop_time", "seed", "network", "metrics_interval", "route_log"])
        self.site = caller()
        Events.__init__(self)
        Links.__init__(self)
        Properties.__init__(self)
        self.general: dict[str, Any] = {"stop_time": stop_time, "seed": seed, **general}
        self.network = network if network is not None else Network()
        self.hosts: dict[str, Host] = {}
        self.experimental: dict[str, Any] = {}
        self.host_option_defaults: dict[str, Any] = {}
        self.belljar: dict[str, Any] = {"metrics": {"interval": metrics_interval}} if metrics_interval else {}
        if route_log:
            self.belljar["route_log"] = True

    def host(self, name: str, *, at: object = None, **options: Unpack[HostOptions]) -> Host:
        """Adds a host at a graph node, if named; otherwise it is attached by its links or, without links, to the
        first node."""
        if name in self.hosts:
            raise ValueError(f"there is a host '{name}' already")
        if at is not None and at not in self.network:
            raise ValueError(f"the network has no place {at!r}: make it with network.node() or network.edge()")
        node = None if at is None else self.network.node(at)
        check_keywords("host", options, [*HostOptions.__annotations__, "at"])
        check_keywords("clock", options.get("clock") or {}, Clock.__annotations__)
        if isinstance(cpu := options.get("cpu"), Mapping):
            check_keywords("cpu", cpu, Cpu.__annotations__)
        self.hosts[name] = host = Host(name, node, **options)
        self.sites["hosts", name] = caller()
        return host

    @classmethod
    def from_networkx(
        cls, graph: networkx.Graph[Any], *, stop_time: str | float, latency: str | None = None, rate: str | None = None,
        **settings: Unpack[Settings],
    ) -> Experiment:
        """Builds an experiment whose network consists of links from a NetworkX graph. A node's `kind` is "host",
        "router" or "switch"; without it, nodes with one edge are hosts and others routers. Edges may have `latency`
        and `jitter` ("10 ms"; a number counts milliseconds), `rate`, `packet_loss` (or `loss`), `queue`, `mtu`,
        `cost` and `name`; `latency` and `rate` here are defaults for edges without them. `settings` are those of
        Experiment. For a graph of latencies without switches and routers see `Network.from_networkx`."""
        experiment = cls(stop_time=stop_time, **settings)
        experiment._add_graph(graph, latency, rate)
        return experiment

    def with_(self, **changes: Unpack[Changes]) -> Experiment:
        """Copy with changed keys of section `general`, such as seed=2."""
        check_keywords("with_", changes, Changes.__annotations__)
        changed = copy.deepcopy(self)
        changed.general.update(changes)
        return changed

    def to_dict(self) -> dict[str, Any]:
        """Representation in the experiment file."""
        linked = self._linked_hosts()
        hosts = {}
        for name, host in self.hosts.items():
            place = 0 if host.node is None and name not in linked else host.node
            hosts[name] = {**({} if place is None else {"network_node_id": place}), **host.to_dict()}
        entry: dict[str, Any] = {"general": dict(self.general)}
        if any("network_node_id" in host for host in hosts.values()) or not (linked or self.linked()):
            entry["network"] = self.network.to_dict()
        for key in ("experimental", "belljar", "host_option_defaults", "events", "properties"):
            if getattr(self, key):
                entry[key] = getattr(self, key)
        made: dict[str, Any] = with_units({**entry, **self.links_dict(), "hosts": hosts})
        return made

    def to_yaml(self) -> str:
        """The experiment file as text."""
        entry = self.to_dict()
        try:
            return str(yaml.dump(entry, Dumper=_Plain, sort_keys=False, allow_unicode=True))
        except yaml.representer.RepresenterError:
            _name_foreign(entry, [], self)
            raise

    def save(self, path: str | os.PathLike[str]) -> pathlib.Path:
        """Writes the experiment file."""
        file = pathlib.Path(path)
        file.write_text(self.to_yaml())
        return file

    def _linked_hosts(self) -> set[str]:
        """Hosts with links, radios or PCI devices."""
        # Stations of radios may be given as patterns.
        patterns = self.linked()
        return {name for name, host in self.hosts.items()
                if host.pci_devices() or any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)}

    def draw(self) -> drawing.Drawing:
        """Draws the network with its hosts: graph nodes, links, devices and radio channels."""
        linked = self._linked_hosts()
        in_graph = [host for name, host in self.hosts.items() if host.node is not None or name not in linked]
        made = self.network.draw() if in_graph else drawing.Drawing()
        if in_graph and not made.nodes:
            made.nodes[0] = drawing.Node("switch of 1 Gbit/s", "switch")
        devices = [(name, str(device["pci"])) for name, host in self.hosts.items() for device in host.pci_devices() if "pci" in device]
        self.draw_links(made, self.hosts, linked, devices)
        made.attach((host.name, host.node or 0, _programs(host)) for host in in_graph if host.name not in linked)
        # A host with links and a graph node is drawn once, with an edge to the node.
        made.edges += [drawing.Edge(("station", h.name), h.node or 0) for h in in_graph if h.name in linked]
        return made

    def __repr__(self) -> str:
        parts = [f"{len(self.hosts)} {drawing.plural('host', len(self.hosts))}"]
        for noun, some in (("switch", self.switches), ("router", self.routers), ("simulator", self.simulators), ("gateway", self.gateways),
                           ("radio", self.radios), ("nic", self.nics), ("memory", self.memories), ("link", self.links), ("event", self.events), ("property", self.properties)):
            if some:
                parts.append(f"{len(some)} {drawing.plural(noun, len(some))}")
        return f"Experiment({', '.join(parts)}, stop_time={self.general.get('stop_time')!r}, seed={self.general.get('seed')!r})"

    def _repr_html_(self) -> str:
        rows = [(host.name, host.ip_addr or "", _programs(host)) for host in self.hosts.values()]
        return drawing.block(repr(self), self.draw().svg(), drawing.table(["host", "address", "runs"], rows) if rows else "")

    def to_networkx(self) -> networkx.Graph[Any]:
        """The network as a NetworkX graph, as `belljar draw` sees it: nodes are hosts, devices and nodes of the graph, by
        name, with `kind` and `addresses`; edges have `link`, `latency`, `jitter`, `packet_loss` and `rate` (in bits per
        second), as far as they have them."""
        import networkx

        read = networkx.parse_graphml(self._drawn("graphml").decode())
        made: networkx.Graph[Any] = networkx.MultiGraph() if read.is_multigraph() else networkx.Graph()
        # Names may occur twice: a node of the graph may be called like a host.
        names: dict[Any, str] = {}
        for key, data in read.nodes(data=True):
            name = data.pop("label")
            names[key] = name if name not in made else f"{name} ({data['kind']})"
            made.add_node(names[key], **data)
        for source, target, data in read.edges(data=True):
            rate = data.pop("LinkSpeedRaw", None)
            made.add_edge(names[source], names[target], **data, **({} if rate is None else {"rate": rate}))
        return made

    def save_drawing(self, path: str | os.PathLike[str]) -> pathlib.Path:
        """Writes a drawing of the network: .svg, .png, .dot or .graphml, by `belljar draw`."""
        file = pathlib.Path(path)
        file.write_bytes(self._drawn(file.suffix.removeprefix(".")))
        return file

    def _drawn(self, format: str) -> bytes:
        command = [str(find_binary()), "draw", "-", "--format", format]
        text = self.to_yaml()
        done = subprocess.run(command, input=text.encode(), capture_output=True)
        if done.returncode:
            raise BelljarError(located(done.stderr.decode().strip(), text, self))
        return done.stdout

    def run(self, output: str | os.PathLike[str] | None = None, **options: Unpack[RunOptions]) -> Results:
        """Runs the experiment; results are in the folder `output`, or in a new one in `belljar.data`: see
        `belljar.run`."""
        from .run import run

        check_keywords("run", options, RunOptions.__annotations__)
        try:
            return run(self, output, **options)
        except BelljarError as error:
            # The message says what is wrong; the calls within the package do not.
            raise error.with_traceback(None) from None


def _name_foreign(value: Any, path: list[Any], experiment: Experiment) -> None:
    """Names the first key or value that YAML does not have, such as a number of numpy, with the line that gave it."""
    kind = type(value)
    if kind not in _Plain.yaml_representers:
        site = site_of(path, experiment)
        raise BelljarError(
            f"{site or 'the experiment'}: {'.'.join(map(str, path))} is {value!r} of type {kind.__module__}.{kind.__qualname__}: "
            "an experiment has texts, numbers, lists and mappings, such as str(...) or float(...) of it")
    if isinstance(value, Mapping):
        for key, inner in value.items():
            _name_foreign(key, [*path, key], experiment)
            _name_foreign(inner, [*path, key], experiment)
    elif isinstance(value, (list, tuple)):
        for n, inner in enumerate(value):
            _name_foreign(inner, [*path, n], experiment)


def _programs(host: Host) -> str:
    """Description of a host's programs."""
    said = []
    for item in host.processes:
        if isinstance(item, Process):
            said.append(" ".join([os.path.basename(item.path), *item.args]))
        else:
            model = item.model.to_dict() if isinstance(item.model, Model) else item.model
            said.append(f"model {model.get('name') or model.get('type')}")
    return "; ".join(one if len(one) <= 60 else one[:57] + "..." for one in said)
