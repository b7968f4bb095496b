"""Networks of links, switches and routers: see the guide on explicit topologies."""

from __future__ import annotations

import dataclasses
import fnmatch
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Union

from . import drawing
from .keywords import check_keywords
from .sites import Site, caller, part

if TYPE_CHECKING:
    import networkx
    from typing_extensions import Self, Unpack

#: "10 ms"; a number counts seconds.
Time = Union[str, float]
#: "10.0.0.1/24", several of them, or `Interface(...)`.
Addresses = Union[str, Sequence[str], "Interface"]

_LINK_KEYS = ("name", "rate", "latency", "jitter", "packet_loss", "queue", "mtu", "cost", "overhead", "reverse",
              "reordering", "duplication", "corruption", "token_bucket")
_KINDS = ("host", "router", "switch")


class Line(TypedDict, total=False):
    """Properties of one direction of a link."""

    #: "100 Mbit", or "unlimited".
    rate: str
    #: Propagation delay.
    latency: Time
    #: Maximum deviation of the latency.
    jitter: Time
    #: Probability of loss of a frame, or `gilbert_elliott(...)`.
    packet_loss: float | Mapping[str, Any]
    #: Reordering, {"probability": 0.01, "delay": "2 ms"}.
    reordering: Mapping[str, Any]
    #: Probabilities of duplication, and of a bit error, of a frame.
    duplication: float
    corruption: float
    #: Queue: `drop_tail(packets=50)`, `codel()`, `fq_codel()`, `red(...)`, `priority(...)`.
    queue: Mapping[str, Any]
    #: Token bucket, {"rate": "10 Mbit", "burst": "32 KB"}.
    token_bucket: Mapping[str, Any]
    #: Overhead of a frame on the wire in bytes.
    overhead: str


class LinkOptions(Line, total=False):
    """Properties of a link in both directions, unless `reverse` overrides the direction from the second end to the
    first."""

    #: Name of the link in events and results.
    name: str
    #: Maximum length of an IP packet.
    mtu: int
    #: Cost of the link for shortest paths.
    cost: int
    #: Overrides for the direction from the second end to the first.
    reverse: Line


def _given(**keys: Any) -> dict[str, Any]:
    return {key: value for key, value in keys.items() if value is not None}


def drop_tail(
    *, packets: int | None = None, bytes: str | int | None = None, ecn_threshold: int | str | None = None
) -> dict[str, Any]:
    """Drop-tail queue, limited in packets or in bytes ("64 KB"). With `ecn_threshold`, packets that find more than
    that queued are marked."""
    if (packets is None) == (bytes is None):
        raise ValueError("a queue is limited by packets= or by bytes=")
    return _given(packets=packets, bytes=f"{bytes} B" if isinstance(bytes, int) else bytes, ecn_threshold=ecn_threshold)


def codel(
    *, packets: int | None = None, target: Time | None = None, interval: Time | None = None, ecn: bool | None = None,
    ce_threshold: Time | None = None,
) -> dict[str, Any]:
    """CoDel queue; with `ecn` it marks instead of dropping."""
    return {"codel": _given(packets=packets, target=target, interval=interval, ecn=ecn, ce_threshold=ce_threshold)}


def fq_codel(
    *, packets: int | None = None, bytes: str | None = None, flows: int | None = None, quantum: str | None = None,
    target: Time | None = None, interval: Time | None = None, ecn: bool | None = None, ce_threshold: Time | None = None,
) -> dict[str, Any]:
    """FQ-CoDel: one CoDel queue per group of flows."""
    return {"fq_codel": _given(packets=packets, bytes=bytes, flows=flows, quantum=quantum, target=target, interval=interval, ecn=ecn,
                               ce_threshold=ce_threshold)}


def red(
    *, min: str, max: str, limit: str, probability: float | None = None, weight: float | None = None,
    average_packet: str | None = None, ecn: bool | None = None,
) -> dict[str, Any]:
    """Random early detection, by the average queue length in bytes."""
    return {"red": _given(min=min, max=max, limit=limit, probability=probability, weight=weight, average_packet=average_packet, ecn=ecn)}


def priority(
    bands: Sequence[Mapping[str, Any]], *, dscp: Mapping[int, int] | None = None, default: int | None = None
) -> dict[str, Any]:
    """Strict priority queues; `dscp` maps code points to bands."""
    return {"priority": _given(bands=[dict(band) for band in bands], dscp=None if dscp is None else dict(dscp), default=default)}


def gilbert_elliott(
    *, to_bad: float, to_good: float, loss_bad: float | None = None, loss_good: float | None = None
) -> dict[str, Any]:
    """Gilbert-Elliott loss model: bursts of losses on a link that alternates between a good and a bad state."""
    return {"gilbert_elliott": _given(to_bad=to_bad, to_good=to_good, loss_bad=loss_bad, loss_good=loss_good)}


@dataclasses.dataclass
class Interface:
    """Interface at the end of a link: addresses ("10.0.0.1/24"; an empty list means none, None means automatic) and
    hardware address."""

    addresses: str | Sequence[str] | None = None
    mac: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Representation in the experiment file."""
        addresses = [self.addresses] if isinstance(self.addresses, str) else self.addresses
        given = {"addresses": None if addresses is None else list(addresses), "mac": self.mac}
        return {key: value for key, value in given.items() if value is not None}


@dataclasses.dataclass
class Route:
    """Route to a network or "default", by the next router (or several, for multipath), or directly onto the link of
    the interface `dev`."""

    to: str
    via: str | Sequence[str] | None = None
    dev: str | None = None
    metric: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Representation in the experiment file."""
        via = self.via if self.via is None or isinstance(self.via, str) else list(self.via)
        given = {"to": self.to, "via": via, "dev": self.dev, "metric": self.metric}
        return {key: value for key, value in given.items() if value is not None}


@dataclasses.dataclass
class Station:
    """Base class of hosts and routers: interfaces by name, and routes instead of shortest paths (or in addition to
    them: `routing="shortest_path"`)."""

    interfaces: Mapping[str, Addresses] = dataclasses.field(default_factory=dict, kw_only=True)
    routes: Sequence[Route] = dataclasses.field(default=(), kw_only=True)
    routing: Literal["shortest_path", "static"] | None = dataclasses.field(default=None, kw_only=True)

    def station_dict(self) -> dict[str, Any]:
        """Representation in the experiment file."""
        entry: dict[str, Any] = {}
        if self.interfaces:
            entry["interfaces"] = {name: _interface(own) for name, own in self.interfaces.items()}
        if self.routes:
            entry["routes"] = [route.to_dict() for route in self.routes]
        if self.routing is not None:
            entry["routing"] = self.routing
        return entry


@dataclasses.dataclass
class Switch:
    """Learning switch; a station's entry expires after `ageing` without a frame."""

    name: str
    ageing: Time | None = None

    def to_dict(self) -> dict[str, Any]:
        """Representation in the experiment file."""
        return {} if self.ageing is None else {"ageing": self.ageing}


@dataclasses.dataclass
class Management:
    """Management interface of a P4 switch: servers of P4Runtime and of BMv2's Thrift interface at the end of a link,
    `exp.link("controller", "s1:mgmt")`. `device_id` defaults to the number at the end of the switch's name; each
    update of a write takes `control_latency`."""

    interface: str | None = None
    address: str | None = None
    port: int | Sequence[int] | None = None
    thrift_port: int | None = None
    device_id: int | None = None
    control_latency: Time | None = None

    def to_dict(self) -> dict[str, Any]:
        """Representation in the experiment file."""
        port = self.port if self.port is None or isinstance(self.port, int) else list(self.port)
        return _given(interface=self.interface, address=self.address, port=port, thrift_port=self.thrift_port,
                      device_id=self.device_id, control_latency=self.control_latency)


@dataclasses.dataclass
class P4Switch:
    """Switch programmed in P4; created by `exp.p4_switch(...)`. The number at the end of an interface's name is the
    P4 port: `switch.port(1)` is the end of a link at port 1."""

    name: str
    p4: str | None = None
    runtime: str | Sequence[str] = ()
    commands: str | Sequence[str] = ()
    management: Management | None = None
    include: str | Sequence[str] = ()
    define: Mapping[str, str | int] = dataclasses.field(default_factory=dict)
    p4info: str | None = None
    cpu_port: int | None = None
    latency: Time | None = None
    packets_per_second: int | None = None
    input_packets: int | None = None
    queue_packets: int | None = None
    queue_bytes: str | int | None = None
    queues: int | None = None
    timestamps: Literal["us", "ns"] | None = None
    trace: bool | None = None

    def port(self, number: int) -> str:
        """P4 port as the end of a link."""
        return f"{self.name}:p{number}"

    def to_dict(self) -> dict[str, Any]:
        """Representation in the experiment file."""
        entry = _given(
            p4=self.p4, p4info=self.p4info, cpu_port=self.cpu_port, latency=self.latency, packets_per_second=self.packets_per_second,
            input_packets=self.input_packets, queue_packets=self.queue_packets, queue_bytes=self.queue_bytes, queues=self.queues,
            timestamps=self.timestamps, trace=self.trace, management=None if self.management is None else self.management.to_dict())
        for key, files in (("runtime", self.runtime), ("commands", self.commands), ("include", self.include)):
            if files:
                entry[key] = files if isinstance(files, str) else list(files)
        if self.define:
            entry["define"] = {name: str(value) for name, value in self.define.items()}
        return entry


@dataclasses.dataclass
class Router(Station):
    """Router; it clamps the MSS option of forwarded TCP connections to the MTU of its links (`clamp_mss="path_mtu"`)
    or to a number of bytes."""

    name: str
    clamp_mss: Literal["path_mtu"] | int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Representation in the experiment file."""
        entry = self.station_dict()
        return entry if self.clamp_mss is None else {**entry, "clamp_mss": self.clamp_mss}


#: A host, a switch, a router, or its name, optionally with an interface: "alice:eth1".
End = Union[str, Switch, P4Switch, Router, Station]


@dataclasses.dataclass
class Simulator:
    """Another simulator, with a channel at each of its ports; created by `exp.simulator(...)`."""

    name: str
    command: str | Sequence[str] | None = None
    ports: Mapping[str, Mapping[str, str]] = dataclasses.field(default_factory=dict)
    sync: bool | None = None
    latency: Time | None = None
    sync_interval: Time | None = None
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)
    working_directory: str | None = None
    start_timeout: Time | None = None
    ends: Literal["with run", "with peer"] | None = None
    devices: Sequence[Mapping[str, Any]] = ()

    def port(self, name: str) -> str:
        """Port as the end of a link."""
        return f"{self.name}:{name}"

    def to_dict(self) -> dict[str, Any]:
        """Representation in the experiment file."""
        command = self.command if self.command is None or isinstance(self.command, str) else list(self.command)
        entry = _given(
            command=command, sync=self.sync, latency=self.latency, sync_interval=self.sync_interval,
            working_directory=self.working_directory, start_timeout=self.start_timeout, ends=self.ends)
        if self.ports:
            entry["ports"] = {name: dict(port) for name, port in self.ports.items()}
        if self.environment:
            entry["environment"] = dict(self.environment)
        if self.devices:
            entry["devices"] = [dict(device) for device in self.devices]
        return entry


class RadioOptions(TypedDict, total=False):
    """Settings of a radio channel, documented in the guide on wireless networks."""

    range: float
    carrier_sense_range: float
    log_distance: Mapping[str, float]
    capture: float | str
    packet_loss: float
    rate: str
    basic_rate: str
    preamble: Time
    overhead: str | int
    slot: Time
    sifs: Time
    window: Sequence[int]
    retries: int
    queue: int
    latency: Time


@dataclasses.dataclass
class Gateway:
    """Interface of this machine at the end of a link; created by `exp.gateway(...)`."""

    name: str
    interface: str
    address: str | None = None
    namespace: str | None = None
    hard_limit: Time | None = None

    def to_dict(self) -> dict[str, Any]:
        """Representation in the experiment file."""
        return _given(interface=self.interface, address=self.address, namespace=self.namespace, hard_limit=self.hard_limit)


@dataclasses.dataclass
class Nic:
    """Network controller of the e1000 family, created by `exp.nic(...)`. A host drives it, `exp.host(...,
    devices=[{"pci": "nic0", "driver": "e1000"}])`, and a link ends at it."""

    name: str
    mac: str | None = None
    fetch: Time | None = None
    write_back: Time | None = None
    register: Time | None = None

    def to_dict(self) -> dict[str, Any]:
        """Representation in the experiment file."""
        return _given(mac=self.mac, fetch=self.fetch, write_back=self.write_back, register=self.register)


@dataclasses.dataclass
class Memory:
    """Memory that simulators access over channels; created by `exp.memory(...)`."""

    name: str
    size: str | int
    access: Time | None = None

    def to_dict(self) -> dict[str, Any]:
        """Representation in the experiment file."""
        return _given(size=self.size, access=self.access)


class Links:
    """Links of an experiment, with its switches, routers and radio channels."""

    def __init__(self) -> None:
        #: Lines of the program that made the parts, by section and name.
        self.sites: dict[tuple[str, str], Site | None] = {}
        self.switches: dict[str, Switch | P4Switch] = {}
        self.routers: dict[str, Router] = {}
        self.simulators: dict[str, Simulator] = {}
        self.radios: dict[str, dict[str, Any]] = {}
        self.gateways: dict[str, Gateway] = {}
        self.nics: dict[str, Nic] = {}
        self.memories: dict[str, Memory] = {}
        self.links: list[dict[str, Any]] = []

    def switch(self, name: str, *, ageing: Time | None = None) -> Switch:
        """Adds a switch."""
        self.switches[self._new("switches", name)] = made = Switch(name, ageing)
        return made

    def p4_switch(
        self, name: str, p4: str | None = None, *, runtime: str | Sequence[str] = (), commands: str | Sequence[str] = (),
        management: bool | Management = False, include: str | Sequence[str] = (), define: Mapping[str, str | int] | None = None,
        p4info: str | None = None, cpu_port: int | None = None, latency: Time | None = None, packets_per_second: int | None = None,
        input_packets: int | None = None, queue_packets: int | None = None, queue_bytes: str | int | None = None,
        queues: int | None = None, timestamps: Literal["us", "ns"] | None = None, trace: bool | None = None,
    ) -> P4Switch:
        """Adds a switch programmed in P4: source (.p4) or BMv2 JSON. `management=True` gives it a P4Runtime server at
        the link end `"name:mgmt"`; without `p4` a controller installs the program. `trace` records its decisions for
        each packet."""
        if p4 is None and not management:
            raise ValueError(f"switch '{name}' has neither p4= nor management=: nobody would bring a program")
        served = Management() if management is True else management or None
        made = P4Switch(name, p4, runtime, commands, served, include, dict(define or {}), p4info, cpu_port, latency,
                        packets_per_second, input_packets, queue_packets, queue_bytes, queues, timestamps, trace)
        self.switches[self._new("switches", name)] = made
        return made

    def router(
        self, name: str, *, interfaces: Mapping[str, Addresses] | None = None, routes: Sequence[Route] = (),
        routing: Literal["shortest_path", "static"] | None = None, clamp_mss: Literal["path_mtu"] | int | None = None,
    ) -> Router:
        """Adds a router."""
        made = Router(name, clamp_mss, interfaces=dict(interfaces or {}), routes=routes, routing=routing)
        self.routers[self._new("routers", name)] = made
        return made

    def simulator(
        self, name: str, command: str | Sequence[str] | None = None, *, ports: Mapping[str, Mapping[str, str]] | None = None,
        sync: bool | None = None, latency: Time | None = None, sync_interval: Time | None = None,
        environment: Mapping[str, str] | None = None, working_directory: str | None = None, start_timeout: Time | None = None,
        ends: Literal["with run", "with peer"] | None = None, devices: Sequence[Mapping[str, Any]] = (),
    ) -> Simulator:
        """Adds another simulator, which exchanges frames over channels. In its command, `{PORT}` stands for the
        adapter URL of a port, which a link to `"name:PORT"` creates. `ports` lists ports that listen, {"left":
        {"role": "listen"}}, or use a given socket. `ends="with peer"` lets it end with status 0 during the run. `devices` are the PCI devices of a simulated machine, [{"pci":
        "nic0"}]."""
        made = Simulator(
            name, command, dict(ports or {}), sync, latency, sync_interval, dict(environment or {}), working_directory, start_timeout,
            ends, devices)
        self.simulators[self._new("simulators", name)] = made
        return made

    def radio(
        self, name: str, stations: Sequence[str] | Mapping[str, Any], *, mobility: Mapping[str, Any] | None = None, **what: Unpack[RadioOptions],
    ) -> Self:
        """Adds a radio channel of these hosts or routers: names or patterns if `mobility` defines their positions,
        such as `{"ns2": "scenario.tcl"}` or `{"random_waypoint": {"area": [1000, 1000], "speed": [1, 10]}}`;
        otherwise a mapping to positions. Returns the experiment."""
        check_keywords("radio", what, RadioOptions.__annotations__)
        given = dict(stations) if isinstance(stations, Mapping) else list(stations)
        more = {} if mobility is None else {"mobility": dict(mobility)}
        self.radios[self._new("radios", name)] = {"stations": given, **more, **what}
        return self

    def gateway(
        self, name: str, interface: str, *, address: str | None = None, namespace: str | None = None, hard_limit: Time | None = None,
    ) -> Gateway:
        """Adds a gateway to an interface of this machine: the name of an existing one, "tap:NAME" or "unix:PATH". The
        experiment then runs in real time. `address` is the machine's at a TAP interface; a frame sent later than
        `hard_limit` ends the run."""
        self.gateways[self._new("gateways", name)] = made = Gateway(name, interface, address, namespace, hard_limit)
        return made

    def nic(
        self, name: str, *, mac: str | None = None, fetch: Time | None = None, write_back: Time | None = None, register: Time | None = None,
    ) -> Nic:
        """Adds a network controller of the e1000 family, driven by a host or a simulator."""
        self.nics[self._new("nics", name)] = made = Nic(name, mac, fetch, write_back, register)
        return made

    def memory(self, name: str, size: str | int, *, access: Time | None = None) -> Memory:
        """Adds a memory for simulators: `exp.simulator(..., devices=[{"memory": name}])`."""
        self.memories[self._new("memories", name)] = made = Memory(name, size, access)
        return made

    def _new(self, section: str, name: str) -> str:
        if any(name in there for there in (self.switches, self.routers, self.simulators, self.radios, self.gateways, self.nics, self.memories)):
            raise ValueError(f"there is a switch, router, simulator, radio, gateway, nic or memory '{name}' already")
        self.sites[section, name] = caller()
        return name

    def link(self, first: End, second: End, **what: Unpack[LinkOptions]) -> Self:
        """Adds a link between two interfaces of hosts, switches, routers, simulators or gateways. Returns the
        experiment."""
        check_keywords("link", what, LinkOptions.__annotations__)
        check_keywords("reverse", what.get("reverse") or {}, Line.__annotations__)
        ends = [end if isinstance(end, str) else getattr(end, "name") for end in (first, second)]
        self.links.append(part({"between": ends, **what}))
        return self

    def linked(self) -> set[str]:
        """Names of the nodes at the ends of links."""
        stations = {station.partition(":")[0] for radio in self.radios.values() for station in radio["stations"]}
        return stations | {end.partition(":")[0] for link in self.links for end in link["between"]}

    def draw_links(
        self, made: drawing.Drawing, hosts: Mapping[str, object], linked: Iterable[str], devices: Sequence[tuple[str, str]],
    ) -> None:
        """Adds linked nodes and their links to a drawing. `linked` are the hosts with links, `devices` hosts and
        their PCI devices."""
        kinds = {**dict.fromkeys(hosts, "host"), **dict.fromkeys(self.switches, "switch"), **dict.fromkeys(self.routers, "router"),
                 **dict.fromkeys(self.simulators, "simulator"), **dict.fromkeys(self.gateways, "gateway"),
                 **dict.fromkeys(self.nics, "nic"), **dict.fromkeys(self.memories, "memory"), **dict.fromkeys(self.radios, "radio")}
        ends = {end.partition(":")[0] for link in self.links for end in link["between"]} | {device for _, device in devices}
        shown = {*linked, *ends, *(name for name, kind in kinds.items() if kind != "host")}
        for name in [name for name in kinds if name in shown] + sorted(ends - kinds.keys()):
            made.nodes["station", name] = drawing.Node(name, kinds.get(name, "host"))
        for link in self.links:
            said = [str(link[key]) for key in ("name", "rate", "latency") if key in link]
            first, second = (("station", end.partition(":")[0]) for end in link["between"])
            made.edges.append(drawing.Edge(first, second, ", ".join(said)))
        for radio, settings in self.radios.items():
            patterns = [station.partition(":")[0] for station in settings["stations"]]
            for name, kind in kinds.items():
                if kind in ("host", "router") and any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns):
                    made.edges.append(drawing.Edge(("station", name), ("station", radio)))
        made.edges += [drawing.Edge(("station", host), ("station", device), "PCI") for host, device in devices]

    def links_dict(self) -> dict[str, Any]:
        """Representation in the experiment file."""
        entry = {
            "switches": {name: switch.to_dict() for name, switch in self.switches.items()},
            "routers": {name: router.to_dict() for name, router in self.routers.items()},
            "simulators": {name: simulator.to_dict() for name, simulator in self.simulators.items()},
            "radios": self.radios,
            "gateways": {name: gateway.to_dict() for name, gateway in self.gateways.items()},
            "nics": {name: nic.to_dict() for name, nic in self.nics.items()},
            "memories": {name: memory.to_dict() for name, memory in self.memories.items()},
            "links": self.links,
        }
        return {key: value for key, value in entry.items() if value}

    def _add_graph(self, graph: networkx.Graph[Any], latency: str | None, rate: str | None) -> None:
        if graph.is_directed():
            raise ValueError("a link goes both ways: pass graph.to_undirected(), and reverse= on edges that differ")
        names: dict[Any, str] = {}
        for node, more in graph.nodes(data=True):
            name = re.sub(r"[^a-z0-9.-]", "-", str(node).lower()).strip("-.")
            name = f"n{name}" if name.isdigit() or not name else name
            if name in names.values():
                raise ValueError(f"two nodes of the graph would be called '{name}'")
            names[node] = name
            kind = more.get("kind", "host" if graph.degree(node) <= 1 else "router")
            if kind not in _KINDS:
                raise ValueError(f"the kind of node {node!r} is {kind!r}: it must be one of {', '.join(_KINDS)}")
            getattr(self, kind)(name)
        for source, target, more in graph.edges(data=True):
            link = {key: more[key] for key in _LINK_KEYS if key in more}
            if "loss" in more:
                link.setdefault("packet_loss", float(more["loss"]))
            for key, usual in (("latency", latency), ("rate", rate)):
                if usual is not None:
                    link.setdefault(key, usual)
            for key in ("latency", "jitter"):
                if isinstance(link.get(key), (int, float)):
                    link[key] = f"{link[key]} ms"
            self.links.append(part({"between": [names[source], names[target]], **link}))


def _interface(own: Addresses) -> Any:
    if isinstance(own, Interface):
        return own.to_dict()
    return own if isinstance(own, str) else list(own)
