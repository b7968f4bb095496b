"""Representations of results and sweeps in notebooks and at the prompt."""

from __future__ import annotations

import csv
import math
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from . import drawing
from .drawing import plural
from .statistics import failure_rate

if TYPE_CHECKING:
    from .results import Results
    from .sweep import Point, Sweep

#: Maximum number of sparklines in a row.
_CURVES = 12
#: Number of points of a sparkline.
_POINTS = 75


def results_line(results: Results) -> str:
    """One-line summary of a run."""
    statistics = results.statistics
    hosts = statistics["hosts"].values()
    processes = [p for h in hosts for p in h["processes"]]
    wrong = sum(not p["as_expected"] for p in processes)
    broken = len(results.violations)
    said = [f"{broken} {plural('property', broken)} not held"] if broken else []
    said += [
        "all as expected" if not wrong else f"{wrong} of {len(processes)} {plural('process', len(processes))} not as expected",
        f"{len(hosts)} {plural('host', len(hosts))}", f"{statistics['simulated_seconds']:g} s simulated",
        f"{drawing.size(sum(h['bytes_out'] for h in hosts))} sent",
    ]
    if statistics["warnings"]:
        said.append(f"{len(statistics['warnings'])} {plural('warning', len(statistics['warnings']))}")
    return f"Results({str(results.path)!r}: {', '.join(said)})"


def violation(broken: dict[str, Any]) -> str:
    """A property that does not hold, in a line."""
    said = f"property {broken['kind']} {broken['name']}: {broken['reason']}"
    if broken["host"]:
        time = "" if broken["time"] is None else f" at {_time(broken['time'])}"
        said += f"; {broken['host']}: {broken['file']}:{broken['line']}{time}"
    return said + (f": {broken['text']}" if broken["text"] else "")


def topology_drawing(topology: dict[str, Any]) -> drawing.Drawing:
    """Network of a run, drawn from `topology.json`."""
    made = drawing.Drawing()
    named = {host["node"]: host["name"] for host in topology["hosts"]}
    for node in topology["nodes"]:
        kind = node.get("kind") or "place"
        name = named.get(node["id"], "") if kind == "host" else node["label"] or str(node["id"])
        made.nodes[node["id"]] = drawing.Node(name, kind)
    for edge in topology["edges"]:
        # Both directions of an edge are one line; self-loops are not drawn.
        if edge["source"] != edge["target"]:
            said = [edge["link"]] if edge.get("link") else []
            said.append(f"{edge['latency_ns'] / 1e6:g} ms")
            said += [f"loss {edge['loss']:g}"] if edge["loss"] else []
            made.edges.append(drawing.Edge(edge["source"], edge["target"], ", ".join(said)))
    at_places = (h for h in topology["hosts"] if h["node"] in made.nodes and made.nodes[h["node"]].kind != "host")
    made.attach((h["name"], h["node"], h["address"]) for h in at_places)
    return made


def results_html(results: Results) -> str:
    """HTML fragment of a run: its network, processes (unexpected ends first), curves and warnings."""
    processes = sorted(
        ((p["as_expected"], name, p["program"], p["state"], _time(p["ended"]), p["problem"] or "")
         for name, h in results.statistics["hosts"].items() for p in h["processes"]), key=lambda row: row[0])
    warnings = results.statistics["warnings"]
    return drawing.block(
        results_line(results), topology_drawing(results.topology).svg(),
        drawing.table(["property"], [(violation(broken),) for broken in results.violations]) if results.violations else "",
        drawing.table(["host", "program", "state", "ended", "problem"], [row[1:] for row in processes]) if processes else "",
        _host_curves(results.path / "metrics" / "hosts.csv"),
        drawing.table(["warning", "times"], list(warnings.items())) if warnings else "",
    )


def _time(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.6f} s"


def _host_curves(file: pathlib.Path) -> str:
    """Sparklines of the busiest hosts: bytes sent and received over time."""
    if not file.is_file():
        return ""
    counters: dict[str, list[tuple[float, float]]] = {}
    with file.open(newline="") as text:
        for row in csv.DictReader(text):
            counters.setdefault(row["host"], []).append((float(row["time"]), float(row["bytes_in"]) + float(row["bytes_out"])))
    if not counters:
        return ""
    end = max(rows[-1][0] for rows in counters.values())
    times = sorted({0.0, *(time for rows in counters.values() for time, _ in rows)})
    # An interval shorter than the sampling period would be empty, and the next one would have twice its share.
    points = max(1, min(_POINTS, round(end / min(b - a for a, b in zip(times, times[1:])))))
    busiest = sorted(counters, key=lambda name: -counters[name][-1][1])
    parts = []
    for name in busiest[:_CURVES]:
        sums, before = [0.0] * points, 0.0
        for time, total in counters[name]:
            sums[min(points - 1, max(0, math.ceil(time / end * points - 1e-6) - 1))] += total - before
            before = total
        rate = max(sums) * points / end
        parts.append(drawing.curve(sums, f"{name}: at most {drawing.size(rate)}/s"))
    rest = len(counters) - _CURVES
    return "<div>" + "".join(parts) + (f"<p>and {rest} more hosts</p>" if rest > 0 else "") + "</div>"


def sweep_line(sweep: Sweep) -> str:
    """One-line summary of a sweep."""
    variants = len(by_parameters(sweep.points))
    said = [f"{len(sweep.points)} {plural('run', len(sweep.points))}", f"{variants} {plural('variant', variants)}",
            f"{len(sweep.failed)} not as expected"]
    reused = sum(point.reused for point in sweep.points)
    said += [f"{reused} were there already"] if reused else []
    return f"Sweep({', '.join(said)})"


def by_parameters(points: Sequence[Point]) -> dict[str, list[Point]]:
    """Points of each combination of parameters, in order."""
    variants: dict[str, list[Point]] = {}
    for point in points:
        name = ", ".join(f"{key}={value}" for key, value in point.parameters.items()) or "all"
        variants.setdefault(name, []).append(point)
    return variants


def sweep_html(sweep: Sweep) -> str:
    """HTML fragment of a sweep: a row per combination of parameters with a mark per seed, and the failures."""
    rows = []
    for name, points in by_parameters(sweep.points).items():
        marks = [("ok" if p.ok else "failed", f"seed {p.seed}" + ("" if p.ok else f": {_last_line(p.problem)}")) for p in points]
        rate = failure_rate(sum(not p.ok for p in points), len(points))
        rows.append(f'<tr><td style="text-align:left">{drawing.escape(name)}</td><td>{drawing.marks(marks)}</td>'
                    f'<td style="text-align:left">{drawing.escape(rate)}</td></tr>')
    head = '<tr><th scope="col">variant</th><th scope="col">runs by seed</th><th scope="col">failed</th></tr>'
    failed = [(", ".join(f"{k}={v}" for k, v in p.parameters.items()), p.seed, _last_line(p.problem), p.path) for p in sweep.failed]
    return drawing.block(sweep_line(sweep), f"<table><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>",
                         drawing.table(["variant", "seed", "problem", "results"], failed) if failed else "")


def _last_line(problem: str | None) -> str:
    """Line of a problem that names a process or a property, otherwise its last line."""
    lines = [line.strip() for line in (problem or "").splitlines() if line.strip()]
    return next((line for line in lines if "expected:" in line or line.startswith("FAIL property")), lines[-1] if lines else "")


def signature(point: Point, results: Results | None) -> str:
    """Failure signature of a run, independent of the seed: the processes that did not end as expected, with their
    ends, and the properties that do not hold."""
    if point.ok:
        return ""
    if results is None:
        return _last_line(point.problem)
    wrong = {f"{host}: {p['program']} {p['state']}" for host, h in results.statistics["hosts"].items()
             for p in h["processes"] if not p["as_expected"]}
    wrong |= {f"property {broken['name']}" for broken in results.violations}
    return "; ".join(sorted(wrong)) or _last_line(point.problem)
