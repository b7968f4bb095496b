"""Experiments as objects, written as YAML."""

from __future__ import annotations

import copy
import dataclasses
import os
import pathlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import yaml

from .events import Events

if TYPE_CHECKING:
    import networkx

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
class Model:
    """An endpoint without a program: its type and what the guide on modelled traffic says of it."""

    type: str
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)
    start_time: str | float = 0
    shutdown_time: str | float | None = None

    def to_dict(self) -> dict[str, Any]:
        """As the experiment file has it."""
        entry: dict[str, Any] = {"model": {"type": self.type, **self.settings}}
        if self.start_time:
            entry["start_time"] = self.start_time
        if self.shutdown_time is not None:
            entry["shutdown_time"] = self.shutdown_time
        return entry


@dataclasses.dataclass
class Host:
    """A simulated machine. What has no field of its own goes into `extra`, as the experiment file has it."""

    name: str
    node: int
    ip_addr: str | None = None
    bandwidth_up: str | None = None
    bandwidth_down: str | None = None
    pcap: bool | None = None
    extra: dict[str, Any] = dataclasses.field(default_factory=dict)
    processes: list[Process | Model] = dataclasses.field(default_factory=list)

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
        Gives the host back, so that calls can be chained."""
        self.processes.append(
            Process(os.fspath(path), [str(a) for a in args], dict(env or {}), start, stop, signal, expect, placement)
        )
        return self

    def model(self, type: str, *, start: str | float = 0, stop: str | float | None = None, **settings: Any) -> Host:
        """Adds an endpoint without a program: model("http", to="server", count=10, pause={"exponential": "2 s"}). Gives the
        host back."""
        self.processes.append(Model(type, settings, start, stop))
        return self

    def to_dict(self) -> dict[str, Any]:
        """As the experiment file has it."""
        entry: dict[str, Any] = {"network_node_id": self.node, **self.extra}
        for key in ("ip_addr", "bandwidth_up", "bandwidth_down"):
            if getattr(self, key) is not None:
                entry[key] = getattr(self, key)
        if self.pcap is not None:
            entry["host_options"] = {**entry.get("host_options", {}), "pcap_enabled": self.pcap}
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


class Experiment(Events):
    """Hosts, the programs they run, the network between them, and what happens to it."""

    def __init__(
        self,
        *,
        stop_time: str | float,
        seed: int = 1,
        network: Network | None = None,
        metrics_interval: str | None = None,
        **general: Any,
    ) -> None:
        """`general` are further keys of that section; `metrics_interval` turns time series on."""
        super().__init__()
        self.general: dict[str, Any] = {"stop_time": stop_time, "seed": seed, **general}
        self.network = network if network is not None else Network()
        self.hosts: dict[str, Host] = {}
        self.links: list[dict[str, Any]] = []
        self.experimental: dict[str, Any] = {}
        self.belljar: dict[str, Any] = {"metrics": {"interval": metrics_interval}} if metrics_interval else {}

    def host(self, name: str, *, at: object = None, **settings: Any) -> Host:
        """Adds a host at a place of the network; the first place if none is named. `settings` are fields of Host;
        others are keys of the experiment file."""
        if name in self.hosts:
            raise ValueError(f"there is a host '{name}' already")
        if at is None:
            node = 0
        elif at in self.network:
            node = self.network.node(at)
        else:
            raise ValueError(f"the network has no place {at!r}: make it with network.node() or network.edge()")
        known = {field.name for field in dataclasses.fields(Host)} - {"name", "node", "processes", "extra"}
        extra = {key: value for key, value in settings.items() if key not in known}
        host = Host(name, node, extra=extra, **{k: v for k, v in settings.items() if k in known})
        self.hosts[name] = host
        return host

    @classmethod
    def from_networkx(cls, graph: "networkx.Graph[Any]", **settings: Any) -> Experiment:
        """An experiment whose network is made of links, from a NetworkX graph: see `Topology.from_networkx`. For a graph
        of latencies without switches and routers see `Network.from_networkx`."""
        from .topology import Topology

        return (cls if issubclass(cls, Topology) else Topology).from_networkx(graph, **settings)

    def link(self, **what: Any) -> Experiment:
        """Adds an entry of section `links`."""
        self.links.append(what)
        return self

    def with_(self, **changes: Any) -> Experiment:
        """A copy with keys of section `general` changed, such as seed=2."""
        changed = copy.deepcopy(self)
        changed.general.update(changes)
        return changed

    def to_dict(self) -> dict[str, Any]:
        """As the experiment file has it."""
        entry: dict[str, Any] = {"general": dict(self.general), "network": self.network.to_dict()}
        for key in ("experimental", "belljar", "links", "events"):
            if getattr(self, key):
                entry[key] = getattr(self, key)
        entry["hosts"] = {name: host.to_dict() for name, host in self.hosts.items()}
        return entry

    def to_yaml(self) -> str:
        """The experiment file."""
        return str(yaml.dump(self.to_dict(), Dumper=_Plain, sort_keys=False, allow_unicode=True))

    def save(self, path: str | os.PathLike[str]) -> pathlib.Path:
        """Writes the experiment file."""
        file = pathlib.Path(path)
        file.write_text(self.to_yaml())
        return file

    def run(self, output: str | os.PathLike[str], **options: Any) -> Results:
        """Runs it into the folder `output`: see `belljar.run`."""
        from .run import run

        return run(self, output, **options)
