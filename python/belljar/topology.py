"""Experiments whose network is made of links, switches and routers: see the guide on explicit topologies."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from .experiment import Experiment, Host

if TYPE_CHECKING:
    import networkx

_LINK_KEYS = ("name", "rate", "latency", "jitter", "packet_loss", "queue", "mtu", "cost", "overhead", "reverse")
_KINDS = ("host", "router", "switch")


class Topology(Experiment):
    """An experiment without a graph: hosts are joined by links, to each other or to switches and routers."""

    def __init__(self, **settings: Any) -> None:
        """`settings` are those of Experiment."""
        super().__init__(**settings)
        self.switches: dict[str, dict[str, Any]] = {}
        self.routers: dict[str, dict[str, Any]] = {}

    def switch(self, name: str, **settings: Any) -> str:
        """Adds a switch; gives its name."""
        self.switches[name] = settings
        return name

    def router(self, name: str, **settings: Any) -> str:
        """Adds a router; gives its name."""
        self.routers[name] = settings
        return name

    def join(self, first: str | Host, second: str | Host, **what: Any) -> Topology:
        """Adds a link between two nodes, by their names or as "name:interface"; `what` are keys of a link."""
        ends = [end.name if isinstance(end, Host) else end for end in (first, second)]
        self.link(between=ends, **what)
        return self

    @classmethod
    def from_networkx(
        cls, graph: "networkx.Graph[Any]", *, latency: str | None = None, rate: str | None = None, **settings: Any
    ) -> Topology:
        """A topology with the nodes and edges of a NetworkX graph. A node's `kind` is "host", "router" or "switch";
        without it, nodes with one edge are hosts and others routers. Edges may have `latency` and `jitter` ("10 ms"; a
        number counts milliseconds), `rate`, `packet_loss` (or `loss`), `queue`, `mtu`, `cost` and `name`; `latency` and
        `rate` here are those of edges that have none. `settings` are those of Experiment."""
        if graph.is_directed():
            raise ValueError("a link goes both ways: pass graph.to_undirected(), and reverse= on edges that differ")
        topology = cls(**settings)
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
            if kind == "host":
                topology.host(name)
            elif kind == "router":
                topology.router(name)
            else:
                topology.switch(name)
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
            topology.join(names[source], names[target], **link)
        return topology

    def to_dict(self) -> dict[str, Any]:
        """As the experiment file has it."""
        entry = super().to_dict()
        del entry["network"]
        for host in entry["hosts"].values():
            host.pop("network_node_id", None)
        for key in ("switches", "routers"):
            if getattr(self, key):
                entry[key] = getattr(self, key)
        return entry
