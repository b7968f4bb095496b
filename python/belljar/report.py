"""Report page and table of a sweep. The page is self-contained: it can be mailed, printed, and viewed in dark mode."""

from __future__ import annotations

import csv
import html
import importlib
import math
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import curves, drawing, showing
from .statistics import Band, failure_rate, mean_band

if TYPE_CHECKING:
    from .results import Results
    from .sweep import Point, Sweep

Row = dict[str, Any]

_STYLE = """
:root { color-scheme: light dark; --ink: #1c1f24; --paper: #fff; --faint: #d8dbe0; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8ec; --paper: #16181c; --faint: #3a3e46; } }
@media print { :root { --ink: #000; --paper: #fff; } figure, tr { break-inside: avoid } h2, h2 + p, thead { break-after: avoid } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 68rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: .5rem 0; display: block; overflow-x: auto; }
th, td { text-align: left; padding: .2rem .8rem .2rem 0; border-bottom: 1px solid var(--faint); vertical-align: top; }
td:first-child { white-space: nowrap; }
figure { display: inline-block; vertical-align: top; margin: 0 1.5rem 1rem 0; max-width: 100%; } figure svg { max-width: 100%; height: auto; } figcaption { font-weight: 600; }
"""
#: Maximum number of rows in the tables of failures and slow runs.
_ROWS = 12


def standard(results: Results) -> Row:
    """Columns of every table."""
    hosts = results.statistics["hosts"].values()
    return {
        "simulated_seconds": results.statistics["simulated_seconds"],
        "packets_out": sum(h["packets_out"] for h in hosts), "bytes_out": sum(h["bytes_out"] for h in hosts),
        "drops": results.dropped,
        "unexpected": sum(not p["as_expected"] for h in hosts for p in h["processes"]),
    }


def rows(sweep: Sweep) -> list[Row]:
    """One row per run: parameters, seed, ok, reason of failure, results of `measure`, and `standard`. The rows do not
    depend on where and how fast the runs executed."""
    made = []
    for point in sweep.points:
        results = point.results if point.has_results else None
        row: Row = {**point.parameters, "seed": point.seed, "ok": point.ok, "failure": showing.signature(point, results)}
        if results is not None:
            row |= _measured(sweep, point, results) | {k: v for k, v in standard(results).items() if k not in row}
        made.append(row)
    return made


def _measured(sweep: Sweep, point: Point, results: Results) -> Row:
    # A failed run may lack the measured values.
    if sweep.measure is None or not point.ok:
        return {}
    value = sweep.measure(results)
    return dict(value) if isinstance(value, Mapping) else {"value": value}


def save(sweep: Sweep, folder: pathlib.Path) -> pathlib.Path:
    """Writes page and tables; returns the page's path."""
    table = rows(sweep)
    columns = list(dict.fromkeys(key for row in table for key in row))
    _write(folder / "table.csv", lambda path: _write_csv(path, table, columns))
    try:
        arrow, parquet = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError:
        pass
    else:
        content = arrow.table({c: _column(arrow, [row.get(c) for row in table]) for c in columns})
        _write(folder / "table.parquet", lambda path: parquet.write_table(content, path))
    page = folder / "report.html"
    _write(page, lambda path: path.write_text(_page(sweep, table, folder)))
    return page


def _write(path: pathlib.Path, write: Any) -> None:
    temporary = path.with_name(path.name + ".tmp")
    write(temporary)
    temporary.replace(path)


def _write_csv(path: pathlib.Path, table: Sequence[Row], columns: Sequence[str]) -> None:
    with path.open("w", newline="") as text:
        writer = csv.DictWriter(text, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(table)


def _column(arrow: Any, values: list[Any]) -> Any:
    try:
        return arrow.array(values)
    except (arrow.ArrowInvalid, arrow.ArrowTypeError):
        # The column contains values of several types.
        return arrow.array([None if v is None else str(v) for v in values])


def _page(sweep: Sweep, table: Sequence[Row], folder: pathlib.Path) -> str:
    title = f"Sweep {folder.resolve().name}"
    line = showing.sweep_line(sweep).removeprefix("Sweep(").removesuffix(")")
    parts = [f"<h1>{html.escape(title)}</h1>", f"<p>{html.escape(line)}. {html.escape(str(sweep.failure_rate()))}.</p>"]
    parts += _figures(sweep, table)
    parts += ["<h2>Runs</h2>", _variants(sweep)]
    if sweep.failed:
        parts += ["<h2>Failures by signature</h2>", _failures(sweep, table, folder)]
    parts += ["<h2>Slowest runs</h2>", _slowest(sweep, folder)]
    return (f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
            f"<title>{html.escape(title)}</title><style>{_STYLE}</style></head><body>{''.join(parts)}</body></html>\n")


def _variants(sweep: Sweep) -> str:
    body = []
    for name, points in showing.by_parameters(sweep.points).items():
        marks = [("ok" if p.ok else "failed", f"seed {p.seed}") for p in points]
        rate = failure_rate(sum(not p.ok for p in points), len(points))
        body.append(f"<tr><td>{html.escape(name)}</td><td>{drawing.marks(marks)}</td><td>{html.escape(str(rate))}</td></tr>")
    return f'<table><thead><tr><th>variant</th><th>runs in the order of seeds</th><th>failed</th></tr></thead><tbody>{"".join(body)}</tbody></table>'


def _failures(sweep: Sweep, table: Sequence[Row], folder: pathlib.Path) -> str:
    groups: dict[str, list[Point]] = {}
    for point, row in zip(sweep.points, table):
        if not point.ok:
            groups.setdefault(row["failure"], []).append(point)
    body = []
    for told, points in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))[:_ROWS]:
        links = ", ".join(_link(point, folder) for point in points[:_ROWS]) + (f" and {len(points) - _ROWS} more" if len(points) > _ROWS else "")
        body.append(f"<tr><td>{len(points)}</td><td>{html.escape(told)}</td><td>{links}</td></tr>")
    more = f"<p>and {len(groups) - _ROWS} other signatures</p>" if len(groups) > _ROWS else ""
    return f'<table><thead><tr><th>runs</th><th>what ended otherwise</th><th>results</th></tr></thead><tbody>{"".join(body)}</tbody></table>{more}'


def _slowest(sweep: Sweep, folder: pathlib.Path) -> str:
    slow = sorted(sweep.points, key=lambda p: -p.seconds)[:_ROWS]
    body = "".join(f"<tr><td>{p.seconds:.2f} s</td><td>{html.escape(p.machine)}</td><td>{_link(p, folder)}</td></tr>" for p in slow)
    total = sum(p.seconds for p in sweep.points)
    return (f"<p>{total:.1f} s of real time in all.</p><table><thead><tr><th>real time</th><th>machine</th><th>results</th></tr></thead>"
            f"<tbody>{body}</tbody></table>")


def _link(point: Point, folder: pathlib.Path) -> str:
    name = ", ".join([*(f"{k}={v}" for k, v in point.parameters.items()), f"seed {point.seed}"])
    return f'<a href="{html.escape(os.path.relpath(point.path, folder))}/">{html.escape(name)}</a>'


def _figures(sweep: Sweep, table: Sequence[Row]) -> list[str]:
    """One figure per value and numeric parameter, or one over the variants if no parameter is numeric."""
    names = list(dict.fromkeys(key for point in sweep.points for key in point.parameters))
    fixed = {*names, "seed", "ok", "failure"}
    given = [c for c in dict.fromkeys(key for row in table for key in row) if c not in fixed]
    # Measured values are preferred to the standard columns.
    own = [c for c in given if c not in ("simulated_seconds", "packets_out", "bytes_out", "drops", "unexpected")]
    numeric = {name: base for name in names if (base := _base(table, name)) is not None}
    parts = []
    for value in own or ["bytes_out", "simulated_seconds"]:
        usable = [row for row in table if row["ok"] and curves.is_number(row.get(value))]
        if not usable:
            continue
        parts += [_curves(usable, value, x, base, [n for n in names if n != x]) for x, base in numeric.items()] or [_means(usable, value, names)]
    if parts and not _has_bands():
        parts.append("<p>Without scipy there are no bands: pip install scipy.</p>")
    return ["<h2>Values</h2>", *parts] if parts else []


def _base(table: Sequence[Row], name: str) -> str | None:
    """Base unit of a parameter with different numbers, such as "s" for "10 ms" and "1 s"; `None` for other parameters."""
    found = [curves.quantity(row.get(name)) for row in table]
    known = [one for one in found if one is not None]
    if len(known) < len(found) or len(set(known)) < 2 or len({base for _, base in known if base}) > 1:
        return None
    # Numbers without a unit beside others are of another unit only if they are not 0.
    if any(not base and value for value, base in known) and any(base for _, base in known):
        return None
    return next((base for _, base in known if base), "")


def _has_bands() -> bool:
    try:
        return bool(importlib.import_module("scipy"))
    except ImportError:
        return False


def _band(values: Sequence[float]) -> Band:
    if _has_bands():
        return mean_band(values)
    return Band(sum(values) / len(values), math.nan, math.nan, len(values))


def _variant(row: Row, names: Sequence[str]) -> str:
    return ", ".join(f"{name}={row[name]}" for name in names) or "all"


def _means(table: Sequence[Row], value: str, names: Sequence[str]) -> str:
    """Dots of the runs and a table of means, for sweeps without a numeric parameter."""
    groups: dict[str, list[float]] = {}
    for row in table:
        groups.setdefault(_variant(row, names), []).append(float(row[value]))
    axis = curves.axis(value, [v for values in groups.values() for v in values])
    bands = {name: _band(values) for name, values in groups.items()}
    body = "".join(f"<tr><td>{html.escape(name)}</td><td>{curves.in_words(band, axis)}</td></tr>" for name, band in bands.items())
    more = f"<p>and {len(groups) - curves.ROWS} more variants in the table</p>" if len(groups) > curves.ROWS else ""
    return (f"<figure><figcaption>{html.escape(value)}</figcaption>{curves.dots(groups, bands, axis)}{more}</figure>"
            f"<table><thead><tr><th>variant</th><th>{html.escape(axis.label)}: mean and interval</th></tr></thead><tbody>{body}</tbody></table>")


def _curves(table: Sequence[Row], value: str, x: str, base: str, others: Sequence[str]) -> str:
    """Mean of a value against a parameter with its band, one line per combination of the other parameters."""
    groups: dict[str, dict[float, list[float]]] = {}
    for row in table:
        given = curves.quantity(row[x])
        assert given is not None, "_base() accepts a parameter only if all of its values are quantities"
        groups.setdefault(_variant(row, others), {}).setdefault(given[0], []).append(float(row[value]))
    lines: list[curves.Line] = [(name, [(at, _band(values)) for at, values in sorted(by_x.items())]) for name, by_x in groups.items()]
    across = curves.axis(x, [at for by_x in groups.values() for at in by_x], base)
    up = curves.axis(value, [band.mean for _, points in lines for _, band in points])
    more = len(lines) - curves.LINES
    rest = f"<p>and {more} more {drawing.plural('variant', more)} in grey</p>" if more > 0 else ""
    return f"<figure><figcaption>{html.escape(value)} against {html.escape(x)}</figcaption>{curves.plot(lines, across, up)}{rest}</figure>"
