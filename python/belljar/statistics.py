"""Statistics over runs. The sample is the run (a seed, a sampled network), never the packet: every function here
takes one value, or one set of values, per run."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

#: Minimum number of runs for an estimate of the spread.
FEWEST_RUNS = 3


@dataclasses.dataclass(frozen=True)
class FailureRate:
    """Share of failed runs with Wilson's interval, which is valid for few runs and for no failures."""

    failed: int
    runs: int
    low: float
    high: float
    confidence: float

    @property
    def rate(self) -> float:
        return self.failed / self.runs if self.runs else math.nan

    def __str__(self) -> str:
        return (f"{self.failed} of {self.runs} runs failed: {100 * self.rate:.1f} % "
                f"({100 * self.confidence:g} % interval {100 * self.low:.1f} % to {100 * self.high:.1f} %)")


def failure_rate(failed: int, runs: int, confidence: float = 0.95) -> FailureRate:
    """Failure rate for `failed` of `runs` runs."""
    from statistics import NormalDist

    if not 0 <= failed <= runs:
        raise ValueError(f"{failed} of {runs} runs cannot have failed")
    if runs == 0:
        return FailureRate(0, 0, 0.0, 1.0, confidence)
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    p, n = failed / runs, runs
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    low = 0.0 if failed == 0 else max(0.0, middle - half)
    high = 1.0 if failed == runs else min(1.0, middle + half)
    return FailureRate(failed, runs, low, high, confidence)


@dataclasses.dataclass(frozen=True)
class Band:
    """Mean over runs with its confidence interval; `low` and `high` are NaN for fewer than three runs."""

    mean: float
    low: float
    high: float
    runs: int

    @property
    def half_width(self) -> float:
        return (self.high - self.low) / 2


def mean_band(values: Iterable[float], confidence: float = 0.95, resolution: float = 0.0) -> Band:
    """Mean of one value per run, with Student's t interval. `resolution` is that of the measurement, whose variance
    is added."""
    import numpy as np
    from scipy import stats

    sample = np.asarray(list(values), dtype=float)
    k = len(sample)
    if k == 0:
        raise ValueError("there are no runs")
    mean = float(sample.mean())
    if k < FEWEST_RUNS:
        return Band(mean, math.nan, math.nan, k)
    # Uniform distribution within one resolution step.
    variance = float(sample.var(ddof=1)) + resolution**2 / 12
    half = float(stats.t.ppf((1 + confidence) / 2, k - 1)) * math.sqrt(variance / k)
    return Band(mean, mean - half, mean + half, k)


def quantile_band(
    runs: Sequence[Iterable[float]], confidence: float = 0.95, quantiles: int = 1000, resolution: float = 0.0
) -> pd.DataFrame:
    """For each of `quantiles` quantiles the mean over the runs of each run's own quantile, with a Student-t band:
    columns quantile, mean, low, high, runs. Runs without values are omitted."""
    import numpy as np
    import pandas as pd
    from scipy import stats

    samples = [np.asarray(list(run), dtype=float) for run in runs]
    samples = [sample[~np.isnan(sample)] for sample in samples]
    samples = [sample for sample in samples if len(sample)]
    if not samples:
        raise ValueError("there are no values")
    at = np.linspace(0, 1, quantiles)
    values = np.stack([np.quantile(sample, at) for sample in samples])
    k = len(samples)
    mean = values.mean(axis=0)
    low = high = np.full(quantiles, np.nan)
    if k >= FEWEST_RUNS:
        deviation = np.sqrt((values.var(axis=0, ddof=1) + resolution**2 / 12) / k)
        half = stats.t.ppf((1 + confidence) / 2, k - 1) * deviation
        low, high = mean - half, mean + half
    return pd.DataFrame({"quantile": at, "mean": mean, "low": low, "high": high, "runs": k})


def group_band(
    frame: pd.DataFrame, value: str, by: str | list[str], *, run: str = "seed", confidence: float = 0.95
) -> pd.DataFrame:
    """Mean of `value` with its band for each group of `by`. Several rows of a run in a group are averaged first,
    because they are one observation."""
    import pandas as pd

    keys = [by] if isinstance(by, str) else list(by)
    each_run = frame.groupby([*keys, run], sort=True)[value].mean().reset_index()
    rows = []
    for key, part in each_run.groupby(keys, sort=True):
        band = mean_band(part[value], confidence)
        names = dict(zip(keys, key if isinstance(key, tuple) else (key,)))
        rows.append({**names, "mean": band.mean, "low": band.low, "high": band.high, "runs": band.runs})
    return pd.DataFrame(rows)


def runs_needed(values: Iterable[float], half_width: float, confidence: float = 0.95) -> int:
    """Number of runs for an interval of mean +- `half_width`, estimated from the spread of the present runs: the
    least n with n >= (t s / h)^2, with t for n runs."""
    import numpy as np
    from scipy import stats

    sample = np.asarray(list(values), dtype=float)
    if len(sample) < 2:
        raise ValueError("two runs are needed to know how they spread")
    if half_width <= 0:
        raise ValueError("the half-width must be more than 0")
    s = float(sample.std(ddof=1))
    def too_few(n: int) -> bool:
        return n < float(stats.t.ppf((1 + confidence) / 2, n - 1) * s / half_width) ** 2

    # The requirement decreases with n: the least sufficient n is the intersection.
    low, high = 1, 2
    while too_few(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if too_few(middle) else (low, middle)
    return high


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Paired comparison of two variants by seed: the mean of b - a, its interval, and p of the paired t-test."""

    difference: float
    low: float
    high: float
    p_value: float
    runs: int
    #: Mean of a, for a relative difference.
    base: float

    @property
    def is_clear(self) -> bool:
        """True if the interval excludes 0."""
        return not math.isnan(self.low) and (self.low > 0 or self.high < 0)

    def __str__(self) -> str:
        share = f" ({100 * self.difference / self.base:+.1f} %)" if self.base else ""
        if math.isnan(self.low):
            return f"{self.difference:+.6g}{share} over {self.runs} common seeds: too few for an interval"
        verdict = "clear" if self.is_clear else "not told from 0"
        return (f"{self.difference:+.6g}{share}, interval {self.low:+.6g} to {self.high:+.6g}, p = {self.p_value:.3g}, "
                f"{self.runs} common seeds: {verdict}")


def paired(a: Mapping[Any, float], b: Mapping[Any, float], confidence: float = 0.95) -> Comparison:
    """Compares two variants by their common seeds (dicts or pandas series by seed)."""
    from scipy import stats

    common = sorted(set(a.keys()) & set(b.keys()))
    if not common:
        raise ValueError("the two variants have no seed in common")
    before, after = [float(a[seed]) for seed in common], [float(b[seed]) for seed in common]
    differences = [y - x for x, y in zip(before, after)]
    band = mean_band(differences, confidence)
    p = math.nan
    if band.runs >= FEWEST_RUNS:
        # Equal differences have no variance to test against.
        same = max(differences) == min(differences)
        p = (1.0 if differences[0] == 0 else 0.0) if same else float(stats.ttest_rel(after, before).pvalue)
    return Comparison(band.mean, band.low, band.high, p, band.runs, sum(before) / len(before))
