"""SVG drawings for web pages: networks, curves and marks. Their colour is that of the surrounding text, so they are
legible in dark mode and in print."""

from __future__ import annotations

import dataclasses
import html
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

#: Maximum number of nodes in a drawing of a network. Hosts are first collapsed to counts; a larger network is
#: omitted.
MOST_NODES = 400
#: Maximum number of hosts drawn individually.
MOST_HOSTS = 60
#: Maximum number of nodes laid out by distance, whose cost is cubic in their number.
_FEW_NODES = 60
_WIDTH, _HEIGHT, _MARGIN = 640, 340, 40
_FILL = {"host": "#2f6fde", "place": "#8a8f98", "switch": "#2a9d6f", "router": "#e8833a", "simulator": "#8259d6", "gateway": "#c0436b", "radio": "#a98f12", "nic": "#5b6b7f", "memory": "#7a6a58"}


@dataclasses.dataclass
class Node:
    """Node of a network: a host, a graph node, a switch, a router, another simulator."""

    name: str
    kind: str
    title: str = ""


@dataclasses.dataclass
class Edge:
    """Connection of two nodes, by their keys."""

    source: object
    target: object
    title: str = ""


@dataclasses.dataclass
class Drawing:
    """Drawing of a network: nodes by key, and edges between them."""

    nodes: dict[object, Node] = dataclasses.field(default_factory=dict)
    edges: list[Edge] = dataclasses.field(default_factory=list)

    def attach(self, hosts: Iterable[tuple[str, object, str]]) -> None:
        """Attaches hosts (name, key of their node, title): as nodes while there are few, otherwise as a count at
        their node."""
        given = list(hosts)
        if len(given) <= MOST_HOSTS:
            for name, place, title in given:
                self.nodes["host", name] = Node(name, "host", title)
                self.edges.append(Edge(place, ("host", name)))
            return
        counts: dict[object, int] = {}
        for _, place, _ in given:
            counts[place] = counts.get(place, 0) + 1
        for place, count in counts.items():
            node = self.nodes[place]
            node.name = f"{node.name} ({count} host{'' if count == 1 else 's'})"

    def svg(self) -> str:
        """The drawing, or a sentence if there is nothing, or too much, to draw."""
        if not self.nodes:
            return ""
        if len(self.nodes) > MOST_NODES:
            return f"<p>{len(self.nodes)} nodes: too many to be drawn here.</p>"
        at = _layout(list(self.nodes), [(edge.source, edge.target) for edge in self.edges])
        parts = [
            f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(self._words())}" font-size="11" '
            f'font-family="sans-serif" style="max-width:{_WIDTH}px;width:100%;height:auto;color:inherit">'
        ]
        for edge in self.edges:
            (x1, y1), (x2, y2) = at[edge.source], at[edge.target]
            parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="currentColor" stroke-opacity="0.45">'
                         f"<title>{escape(edge.title)}</title></line>")
        labelled = len(self.nodes) <= _FEW_NODES
        for key, node in self.nodes.items():
            x, y = at[key]
            size = 5 if labelled else 3
            title = f"<title>{escape(node.title or node.name)}</title>"
            fill = _FILL.get(node.kind, _FILL["place"])
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size}" fill="{fill}">{title}</circle>' if node.kind == "host" else
                         f'<rect x="{x - size:.1f}" y="{y - size:.1f}" width="{2 * size}" height="{2 * size}" rx="1.5" fill="{fill}">{title}</rect>')
            if labelled:
                anchor = "start" if x < _WIDTH - 90 else "end"
                parts.append(f'<text x="{x + (8 if anchor == "start" else -8):.1f}" y="{y + 4:.1f}" text-anchor="{anchor}" '
                             f'fill="currentColor">{escape(node.name)}</text>')
        return "".join([*parts, "</svg>"])

    def _words(self) -> str:
        kinds: dict[str, int] = {}
        for node in self.nodes.values():
            kinds[node.kind] = kinds.get(node.kind, 0) + 1
        return "Network: " + ", ".join(f"{count} {plural(kind, count)}" for kind, count in kinds.items())


def plural(noun: str, count: int) -> str:
    """Noun in the singular or plural form for a number."""
    if count != 1 and noun.endswith("y"):
        return noun[:-1] + "ies"
    return noun if count == 1 else noun + ("es" if noun.endswith("ch") or noun.endswith("s") else "s")


def escape(text: object) -> str:
    """Escapes text for HTML."""
    return html.escape(str(text))


def _layout(keys: Sequence[object], pairs: Sequence[tuple[object, object]]) -> dict[object, tuple[float, float]]:
    """Deterministic layout of the nodes."""
    number = {key: n for n, key in enumerate(keys)}
    links = [(number[a], number[b]) for a, b in pairs if a in number and b in number and a != b]
    unit = _spread(len(keys), links)
    low = [min(p[axis] for p in unit) for axis in (0, 1)]
    high = [max(p[axis] for p in unit) for axis in (0, 1)]

    def scaled(value: float, axis: int, size: int) -> float:
        wide = high[axis] - low[axis]
        share = (value - low[axis]) / wide if wide > 1e-9 else 0.5
        return _MARGIN + share * (size - 2 * _MARGIN)

    return {key: (scaled(p[0], 0, _WIDTH), scaled(p[1], 1, _HEIGHT)) for key, p in zip(keys, unit)}


def _spread(count: int, links: Sequence[tuple[int, int]]) -> list[tuple[float, float]]:
    circle = [(math.cos(2 * math.pi * n / count), math.sin(2 * math.pi * n / count)) for n in range(count)]
    if count < 3:
        return [(float(n), 0.0) for n in range(count)]
    try:
        import networkx
    except ImportError:
        return circle
    graph: networkx.Graph[int] = networkx.Graph()
    graph.add_nodes_from(range(count))
    graph.add_edges_from(links)
    places: Mapping[int, Any]
    try:
        if count <= _FEW_NODES and networkx.is_connected(graph):
            places = networkx.kamada_kawai_layout(graph)
        else:
            places = networkx.spring_layout(graph, seed=1)
    except ImportError:
        return circle
    return [(float(places[n][0]), float(places[n][1])) for n in range(count)]


def curve(values: Sequence[float], label: str, *, colour: str = "#2f6fde", width: int = 150, height: int = 44) -> str:
    """Sparkline with its maximum, for display in a row."""
    most = max(values, default=0.0)
    step = width / max(len(values) - 1, 1)
    points = " ".join(f"{n * step:.1f},{height - (height - 2) * (v / most if most else 0):.1f}" for n, v in enumerate(values))
    return (f'<svg viewBox="0 -14 {width} {height + 16}" width="{width}" role="img" aria-label="{escape(label)}" font-size="10" '
            f'font-family="sans-serif" style="margin:0 12px 6px 0"><title>{escape(label)}</title>'
            f'<text x="0" y="-4" fill="currentColor">{escape(label)}</text>'
            f'<line x1="0" y1="{height}" x2="{width}" y2="{height}" stroke="currentColor" stroke-opacity="0.3"/>'
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.4"/></svg>')


def marks(outcomes: Sequence[tuple[str, str]], width: int = 320) -> str:
    """Row of marks for runs: (state, title), the state being "ok", "failed" or "missing". States differ in shape as
    well as colour."""
    size, gap = 9, 3
    per_row = max(1, width // (size + gap))
    rows = max(1, math.ceil(len(outcomes) / per_row))
    width = max(1, min(len(outcomes), per_row)) * (size + gap)
    parts = []
    for n, (state, title) in enumerate(outcomes):
        x, y = (n % per_row) * (size + gap) + 1, (n // per_row) * (size + gap) + 1
        told = f"<title>{escape(title)}</title>"
        if state == "ok":
            parts.append(f'<rect x="{x}" y="{y}" width="{size}" height="{size}" rx="2" fill="#2a9d6f">{told}</rect>')
        elif state == "failed":
            cross = f"M{x} {y}l{size} {size}M{x + size} {y}l-{size} {size}"
            parts.append(f'<path d="{cross}" stroke="#d1495b" stroke-width="2.5">{told}</path>')
        else:
            parts.append(f'<rect x="{x}" y="{y}" width="{size}" height="{size}" rx="2" fill="none" stroke="currentColor">{told}</rect>')
    high = rows * (size + gap) + 2
    counted: dict[str, int] = {}
    for state, _ in outcomes:
        counted[state] = counted.get(state, 0) + 1
    words = ", ".join(f"{count} {state}" for state, count in counted.items())
    return (f'<svg viewBox="0 0 {width} {high}" width="{width}" height="{high}" role="img" aria-label="{escape(words)}">'
            + "".join(parts) + "</svg>")


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, most: int = 20) -> str:
    """Table of at most `most` rows, with the number of omitted ones."""
    given = list(rows)
    head = "".join(f'<th scope="col" style="text-align:left">{escape(c)}</th>' for c in columns)
    body = "".join("<tr>" + "".join(f'<td style="text-align:left">{escape(cell)}</td>' for cell in row) + "</tr>" for row in given[:most])
    more = f"<p>and {len(given) - most} more</p>" if len(given) > most else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def block(title: str, *parts: str) -> str:
    """HTML representation of an object: a summary line and its parts."""
    return f'<div class="belljar"><p><b>{escape(title)}</b></p>{"".join(parts)}</div>'


def size(count: float) -> str:
    """Formats a number of bytes with a unit."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(count) < 1000:
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
