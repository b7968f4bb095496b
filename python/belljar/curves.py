"""Curves and dots of a sweep's page as SVG, with units on both axes."""

from __future__ import annotations

import dataclasses
import html
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from .drawing import plural
from .statistics import FEWEST_RUNS, Band

COLOURS = ("#2f6fde", "#e8833a", "#2a9d6f", "#c94f7c", "#8259d6", "#a98f12")
DASHES = ("", "6 3", "6 2 2 2", "2 3", "8 3 2 3 2 3", "10 4")
#: Maximum number of lines with a colour and a name, and of rows of dots.
LINES = 6
ROWS = 12
#: Width of a character of 11 px.
_CHARACTER = 6.2

#: Prefixes and times of the experiment file, as crates/net/src/units.rs has them.
_PREFIXES = {
    "": 1.0, "K": 1e3, "kilo": 1e3, "Ki": 2**10, "kibi": 2**10, "M": 1e6, "mega": 1e6, "Mi": 2**20, "mebi": 2**20,
    "G": 1e9, "giga": 1e9, "Gi": 2**30, "gibi": 2**30, "T": 1e12, "tera": 1e12, "Ti": 2**40, "tebi": 2**40,
}
_TIMES = {
    1e-9: ("ns", "nanosecond", "nanoseconds"), 1e-6: ("us", "μs", "microsecond", "microseconds"), 1e-3: ("ms", "millisecond", "milliseconds"),
    1.0: ("s", "sec", "secs", "second", "seconds"), 60.0: ("m", "min", "mins", "minute", "minutes"), 3600.0: ("h", "hr", "hrs", "hour", "hours"),
}
#: Units of the experiment file: the base unit and the size in it. A prefix alone can be of bits or of bytes, and is none.
_UNITS: dict[str, tuple[str, float]] = {
    **{name: ("s", size) for size, names in _TIMES.items() for name in names},
    **{prefix + unit: ("bit/s", size) for prefix, size in _PREFIXES.items() for unit in ("bit", "bits")},
    **{prefix + unit: ("B", size) for prefix, size in _PREFIXES.items() for unit in ("B", "byte", "bytes")},
}
#: Units of an axis, from the largest: the first one that the largest value reaches is taken.
_SHOWN: dict[str, Sequence[tuple[str, float]]] = {
    "s": (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9)),
    "bit/s": (("Gbit/s", 1e9), ("Mbit/s", 1e6), ("kbit/s", 1e3), ("bit/s", 1.0)),
    "B": (("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 1.0)),
}


@dataclasses.dataclass(frozen=True)
class Axis:
    """An axis: its label with the unit, and the size of the unit, by which values are divided."""

    label: str
    unit: float = 1.0


def is_number(value: Any) -> bool:
    """True for a finite number."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def quantity(value: Any) -> tuple[float, str] | None:
    """A number and its base unit: 5 is (5.0, ""), "10 ms" is (0.01, "s"), "1 Mbit" is (1e6, "bit/s"). `None` for
    other values."""
    if is_number(value):
        return float(value), ""
    found = re.fullmatch(r"\s*([-+]?(?:\d+\.?\d*|\.\d+))\s*([A-Za-zμ]+)\s*", value) if isinstance(value, str) else None
    if found is None or found[2] not in _UNITS:
        return None
    base, size = _UNITS[found[2]]
    return float(found[1]) * size, base


def axis(name: str, values: Sequence[float], base: str = "") -> Axis:
    """Axis of a column in the unit that suits its largest value. Without `base`, seconds and bytes are known by the
    column's name (`simulated_seconds`, `bytes_out`); a name such as "time / ms" has its unit already."""
    if not base and "/" not in name:
        words = re.split(r"[_. ]+", name.lower())
        base = "s" if words[-1] in ("seconds", "secs") else "B" if "bytes" in words else ""
    if base not in _SHOWN:
        return Axis(name)
    most = max(map(abs, values), default=0.0)
    unit, size = next(((u, s) for u, s in _SHOWN[base] if most >= s * 0.999), _SHOWN[base][0])
    return Axis(f"{name} / {unit}", size)


def in_words(band: Band, axis: Axis = Axis("")) -> str:
    """A band in words, in the unit of an axis."""
    if band.runs < FEWEST_RUNS or math.isnan(band.half_width):
        return f"{band.mean / axis.unit:.6g} ({band.runs} {plural('run', band.runs)})"
    return f"{band.mean / axis.unit:.6g} ± {band.half_width / axis.unit:.2g} ({band.runs} runs)"


Place = tuple[float, float]
Line = tuple[str, list[tuple[float, Band]]]


def plot(lines: Sequence[Line], x: Axis, y: Axis) -> str:
    """Means against a parameter with their bands. Lines beyond the first `LINES` are thin, grey and without names."""
    lines = [(name, [(at / x.unit, _scaled(band, y.unit)) for at, band in points]) for name, points in lines]
    bands = [(at, band) for _, points in lines for at, band in points]
    heights = [v for _, b in bands for v in (b.mean, b.low, b.high) if not math.isnan(v)]
    y_low, y_high = _bounds(heights)
    values = scale(y_low, y_high)
    y_low, y_high = min(y_low, values[0]), max(y_high, values[-1])
    texts = [f"{v:.6g}" for v in values]
    wide, high, bottom, right = 520, 280, 38, 14
    left = 26 + _CHARACTER * max(map(len, texts))
    across = _Across([at for at, _ in bands], left + 8, wide - right - 8)

    def down(v: float) -> float:
        return 10 + (1 - (v - y_low) / (y_high - y_low)) * (high - bottom - 18)

    def place(at: float, v: float) -> Place:
        return across(at), down(v)

    named = lines[:LINES]
    parts = [f'<svg viewBox="0 0 {wide} {high + 16 * len(named)}" width="{wide}" role="img" font-size="11" font-family="sans-serif" '
             f'aria-label="{html.escape(y.label)} against {html.escape(x.label)}">', _vertical(y.label, (high - bottom) / 2)]
    for v, text in zip(values, texts):
        row = down(v)
        parts.append(f'<line x1="{left:.1f}" x2="{wide - right}" y1="{row:.1f}" y2="{row:.1f}" stroke="currentColor" stroke-opacity="0.15"/>'
                     f'<text x="{left - 5:.1f}" y="{row + 4:.1f}" text-anchor="end" fill="currentColor">{text}</text>')
    for at, column in across.marks(wide):
        parts.append(f'<line x1="{column:.1f}" x2="{column:.1f}" y1="{high - bottom - 2}" y2="{high - bottom + 3}" stroke="currentColor" stroke-opacity="0.5"/>'
                     f'<text x="{column:.1f}" y="{high - bottom + 15}" text-anchor="middle" fill="currentColor">{at:g}</text>')
    parts.append(f'<text x="{(left + wide - right) / 2:.1f}" y="{high - 6}" text-anchor="middle" fill="currentColor">{html.escape(x.label)}</text>')
    for name, points in lines[LINES:]:
        path = _path([place(at, b.mean) for at, b in points])
        parts.append(f'<polyline points="{path}" fill="none" stroke="currentColor" stroke-opacity="0.35"><title>{html.escape(name)}</title></polyline>')
    for n, (name, points) in enumerate(named):
        colour, dashes = COLOURS[n % len(COLOURS)], DASHES[n % len(DASHES)]
        known = [(at, b) for at, b in points if not math.isnan(b.low)]
        if known:
            edge = [place(at, b.high) for at, b in known] + [place(at, b.low) for at, b in reversed(known)]
            parts.append(f'<polygon points="{_path(edge)}" fill="{colour}" fill-opacity="0.18"/>')
        parts.append(f'<polyline points="{_path([place(at, b.mean) for at, b in points])}" fill="none" stroke="{colour}" stroke-width="1.8" '
                     f'stroke-dasharray="{dashes}"/>')
        for at, band in points:
            column, row = place(at, band.mean)
            parts.append(f'<circle cx="{column:.1f}" cy="{row:.1f}" r="3" fill="{colour}">'
                         f"<title>{html.escape(f'{x.label} = {at:g}: {in_words(band)}')}</title></circle>")
        row = high + 16 * n + 8
        runs = min(b.runs for _, b in points)
        parts.append(f'<line x1="{left:.1f}" x2="{left + 26:.1f}" y1="{row - 4}" y2="{row - 4}" stroke="{colour}" stroke-width="2" stroke-dasharray="{dashes}"/>'
                     f'<text x="{left + 32:.1f}" y="{row}" fill="currentColor">{html.escape(name)} ({runs} {plural("run", runs)} each)</text>')
    return "".join([*parts, "</svg>"])


def dots(groups: Mapping[str, Sequence[float]], bands: Mapping[str, Band], x: Axis) -> str:
    """A row for each variant: a dot for each run, and the mean with its interval."""
    rows = list(groups)[:ROWS]
    low, high = _bounds([v / x.unit for name in rows for v in (*groups[name], *(e for e in (bands[name].low, bands[name].high) if not math.isnan(e)))])
    values = scale(low, high)
    low, high = min(low, values[0]), max(high, values[-1])
    wide, step, names = 520, 30, min(200.0, 12 + _CHARACTER * max(map(len, rows)))
    across = _Across([low, high], names + 12, wide - 24)
    bottom = 10 + step * len(rows)
    parts = [f'<svg viewBox="0 0 {wide} {bottom + 38}" width="{wide}" role="img" font-size="11" font-family="sans-serif" aria-label="{html.escape(x.label)}">']
    for v in values:
        parts.append(f'<line x1="{across(v):.1f}" x2="{across(v):.1f}" y1="6" y2="{bottom}" stroke="currentColor" stroke-opacity="0.15"/>'
                     f'<text x="{across(v):.1f}" y="{bottom + 14}" text-anchor="middle" fill="currentColor">{v:.6g}</text>')
    for n, name in enumerate(rows):
        y, colour, band = 10 + step * n + step / 2, COLOURS[n % len(COLOURS)], _scaled(bands[name], x.unit)
        shown = name if len(name) * _CHARACTER < names else name[: int(names / _CHARACTER) - 2] + "…"
        parts.append(f'<text x="{names:.1f}" y="{y + 4}" text-anchor="end" fill="currentColor">{html.escape(shown)}<title>{html.escape(name)}</title></text>')
        parts += [f'<circle cx="{across(v / x.unit):.1f}" cy="{y}" r="3" fill="{colour}" fill-opacity="0.35"/>' for v in groups[name]]
        if not math.isnan(band.low):
            parts.append(f'<line x1="{across(band.low):.1f}" x2="{across(band.high):.1f}" y1="{y}" y2="{y}" stroke="{colour}" stroke-width="2.5"/>')
        parts.append(f'<line x1="{across(band.mean):.1f}" x2="{across(band.mean):.1f}" y1="{y - 8}" y2="{y + 8}" stroke="{colour}" stroke-width="2.5">'
                     f"<title>{html.escape(in_words(band))}</title></line>")
    parts.append(f'<text x="{(names + wide) / 2:.1f}" y="{bottom + 32}" text-anchor="middle" fill="currentColor">{html.escape(x.label)}</text>')
    return "".join([*parts, "</svg>"])


class _Across:
    """Positions of values along the horizontal axis, logarithmic where values span more than 50 to 1."""

    def __init__(self, values: Sequence[float], left: float, right: float) -> None:
        self.values = sorted(set(values))
        self.left, self.right = left, right
        self.logarithmic = len(self.values) > 3 and self.values[0] > 0 and self.values[-1] / self.values[0] >= 50

    def __call__(self, value: float) -> float:
        low, high, at = self.values[0], self.values[-1], value
        if self.logarithmic:
            low, high, at = math.log(low), math.log(high), math.log(value)
        return self.left + ((at - low) / (high - low) if high > low else 0.5) * (self.right - self.left)

    def marks(self, wide: float) -> list[tuple[float, float]]:
        """The values with their positions; round numbers instead, or some of the values of a logarithmic axis, where their
        texts would touch."""
        marks = self._apart(self.values, wide)
        if len(marks) < len(self.values) and not self.logarithmic:
            low, high = self.values[0], self.values[-1]
            marks = self._apart([v for v in scale(low, high) if low <= v <= high], wide)
        return marks

    def _apart(self, values: Sequence[float], wide: float) -> list[tuple[float, float]]:
        marks: list[tuple[float, float]] = []
        end = -math.inf
        for value in values:
            half = _CHARACTER * len(f"{value:g}") / 2
            column = min(self(value), wide - half)
            if column - half > end + 8:
                marks.append((value, column))
                end = column + half
        return marks


def _scaled(band: Band, unit: float) -> Band:
    return Band(band.mean / unit, band.low / unit, band.high / unit, band.runs)


def _bounds(values: Sequence[float]) -> tuple[float, float]:
    """Bounds of an axis: it starts at 0 unless all values are far from it."""
    low, high = min(values), max(values)
    low = 0.0 if 0 < low < high / 2 else low
    return low, high if high > low else low + max(1.0, abs(low) * 1e-6)


def scale(low: float, high: float) -> list[float]:
    """Four to seven round numbers from about `low` to beyond `high`, 1, 2, 2.5 or 5 times a power of ten apart."""
    least = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(least))
    step = next(power * n for n in (1, 2, 2.5, 5, 10) if power * n >= least * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    # A band that goes a little below 0 needs no mark of its own.
    first += low - step * first > 0.8 * step
    return [float(f"{step * n:.12g}") for n in range(first, last + 1)]


def _vertical(text: str, middle: float) -> str:
    return f'<text transform="translate(12 {middle:.0f}) rotate(-90)" text-anchor="middle" fill="currentColor">{html.escape(text)}</text>'


def _path(places: Sequence[Place]) -> str:
    return " ".join(f"{column:.1f},{row:.1f}" for column, row in places)
