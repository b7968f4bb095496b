"""Stopping rules of sweeps: seeds are added until a mean is known with a given precision."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .binary import BelljarError
from .statistics import FEWEST_RUNS, mean_band, runs_needed

if TYPE_CHECKING:
    from .results import Results
    from .sweep import Point


@dataclasses.dataclass(frozen=True)
class HalfWidth:
    """Adds seeds to each combination of parameters until the half width of the mean's interval is within a limit.
    Created by `half_width`."""

    width: float
    #: True if `width` is a share of the mean.
    relative: bool
    of: str | None
    confidence: float
    most: int

    def more(self, points: Sequence[Point], measure: Callable[[Results], Any]) -> list[tuple[dict[str, Any], int]]:
        """Runs to execute next, by parameters and seed; none when the precision is reached or `most` runs exist."""
        variants: dict[str, list[Point]] = {}
        for point in points:
            variants.setdefault(repr(point.parameters), []).append(point)
        wave = []
        for some in variants.values():
            values = [self._value(measure(p.results)) for p in some if p.ok]
            more = min(self._lacking(values, len(some)), self.most - len(some))
            first = max(p.seed for p in some) + 1
            wave += [(some[0].parameters, seed) for seed in range(first, first + more)]
        return wave

    def _lacking(self, values: Sequence[float], made: int) -> int:
        """Number of runs to add to the existing ones; at most their number, because a poorly known spread
        overestimates the need."""
        if len(values) < FEWEST_RUNS:
            return max(FEWEST_RUNS - len(values), made)
        band = mean_band(values, self.confidence)
        wanted = self.width * abs(band.mean) if self.relative else self.width
        if band.half_width <= wanted:
            return 0
        needed = runs_needed(values, wanted, self.confidence) if wanted > 0 else 2 * made
        return min(max(needed - len(values), 1), made)

    def _value(self, measured: Any) -> float:
        if not isinstance(measured, Mapping):
            return float(measured)
        if self.of is None:
            if len(measured) != 1:
                raise BelljarError(f"half_width: of= must say which, measure gives {', '.join(measured)}")
            return float(next(iter(measured.values())))
        if self.of not in measured:
            raise BelljarError(f"half_width: measure gives no '{self.of}', it gives {', '.join(measured)}")
        return float(measured[self.of])


def half_width(width: float | str, of: str | None = None, *, confidence: float = 0.95, most: int = 1000) -> HalfWidth:
    """Requests intervals of the mean +- `width`: a number, or a share of the mean, "5 %". `of` names one of several
    values of `measure`. No combination of parameters gets more than `most` runs.

    The interval is evaluated repeatedly while runs complete, so its coverage is slightly below `confidence`; start
    with ten seeds or more where that matters."""
    text = str(width).strip()
    relative = text.endswith("%")
    try:
        number = float(text.removesuffix("%"))
    except ValueError:
        number = math.nan
    if not number > 0 or math.isinf(number):
        raise ValueError(f"half_width({width!r}): give a number above 0, or a share of the mean such as \"5 %\"")
    return HalfWidth(number / 100 if relative else number, relative, of, confidence, most)
