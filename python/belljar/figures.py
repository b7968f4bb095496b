"""Figures typical of papers on networks. Each saves the tidy table that it shows as `.csv` next to the figure, prints
the number of runs, and draws no band for fewer than three runs."""

from __future__ import annotations

import io
import os
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

from .statistics import group_band, quantile_band

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from typing_extensions import Required, Unpack

#: Colours distinguishable with colour vision deficiency.
COLOURS = ("#2f6fde", "#e8833a", "#2a9d6f", "#c94f7c", "#8259d6", "#b59b1f")
STYLES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)))

Runs = Sequence[Iterable[float]]


class CdfOptions(TypedDict, total=False):
    """Options of `cdf` without `tail`."""

    xlabel: Required[str]
    path: str | os.PathLike[str] | None
    confidence: float
    resolution: float
    log_x: bool


def _axes(x: str, y: str) -> tuple[Figure, Axes]:
    # Independent of a display and of pyplot's global state.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    class Shown(Figure):
        """Figure that displays in notebooks, which otherwise only pyplot's figures do."""

        def _repr_png_(self) -> bytes:
            data = io.BytesIO()
            self.savefig(data, format="png", dpi=110)
            return data.getvalue()

    figure = Shown(figsize=(5.2, 3.4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _save(figure: Figure, table: pd.DataFrame, path: str | os.PathLike[str] | None) -> None:
    if path is not None:
        file = pathlib.Path(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(file, dpi=200)
        table.to_csv(file.with_suffix(".csv"), index=False)


def _named(name: str, runs: int) -> str:
    return f"{name} ({runs} run{'' if runs == 1 else 's'})"


def _curves(axes: Axes, table: pd.DataFrame, x: str, vertical: bool = True) -> None:
    for n, (name, part) in enumerate(table.groupby("variant", sort=False)):
        look: dict[str, Any] = {"color": COLOURS[n % len(COLOURS)], "linestyle": STYLES[n % len(STYLES)]}
        label = _named(str(name), int(part["runs"].max()))
        fill = axes.fill_between if vertical else axes.fill_betweenx
        axes.plot(*((part[x], part["mean"]) if vertical else (part["mean"], part[x])), label=label, **look)
        if part["low"].notna().any():
            fill(part[x], part["low"], part["high"], color=look["color"], alpha=0.2, linewidth=0)
    axes.legend(frameon=False, fontsize="small")


def cdf(
    variants: Mapping[str, Runs], *, xlabel: str, path: str | os.PathLike[str] | None = None, tail: bool = False,
    confidence: float = 0.95, resolution: float = 0.0, log_x: bool = False,
) -> tuple[Figure, pd.DataFrame]:
    """Distributions with bands: `variants` maps a name to the values of each of its runs. With `tail`, the axis is
    that of tail latencies: 0, 0.9, 0.99, 0.999."""
    import numpy as np
    import pandas as pd

    parts = []
    for name, runs in variants.items():
        band = quantile_band(runs, confidence, resolution=resolution)
        band.insert(0, "variant", name)
        parts.append(band)
    table = pd.concat(parts, ignore_index=True)
    figure, axes = _axes(xlabel, "fraction of values")
    if tail:
        shown = table[table["quantile"] < 1].copy()
        shown["nines"] = -np.log10(1 - shown["quantile"])
        _curves(axes, shown, "nines", vertical=False)
        marks = [0, 0.9, 0.99, 0.999]
        axes.set_yticks([-np.log10(1 - m) for m in marks], [f"{m:g}" for m in marks])
        axes.set_ylim(0, 3)
    else:
        _curves(axes, table, "quantile", vertical=False)
        axes.set_ylim(0, 1)
    if log_x:
        axes.set_xscale("log")
    _save(figure, table, path)
    return figure, table


def tail_cdf(variants: Mapping[str, Runs], **options: Unpack[CdfOptions]) -> tuple[Figure, pd.DataFrame]:
    """`cdf` with the axis of tail latencies."""
    return cdf(variants, tail=True, **options)


def _grouped(
    frame: pd.DataFrame, x: str, y: str, variant: str | None, run: str | None, confidence: float
) -> pd.DataFrame:
    for column in (x, y, variant, run):
        if column is not None and column not in frame:
            raise ValueError(f"the frame has no column {column!r}: it has {', '.join(map(repr, frame.columns))}")
    if run is None and "seed" in frame:
        run = "seed"
    if run is None:
        run = "one run"
        frame = frame.assign(**{run: 0})
        _demand_one_row_each(frame, x, y, variant)
    if variant is None:
        frame, variant = frame.assign(variant=y), "variant"
    table = group_band(frame, y, [variant, x], run=run, confidence=confidence)
    return table.rename(columns={variant: "variant"})


def _demand_one_row_each(frame: pd.DataFrame, x: str, y: str, variant: str | None) -> None:
    """Rejects a frame of one run that has several values at a point: their mean is that of no run."""
    by = [x] if variant is None else [x, variant]
    if not frame.duplicated(by).any():
        return
    apart = [c for c in frame.columns if c not in (*by, y) and not frame.duplicated([x, c]).any()]
    remedy = f"add variant={apart[0]!r}" if apart else "select the rows of one curve, or add variant= with the column that names the curve"
    raise ValueError(f"several rows have the same {' and '.join(map(repr, by))}, and there is no column 'seed': "
                     f"{remedy}; run= is the column that names the run, if there are several")


def time_series(
    frame: pd.DataFrame, *, value: str, time: str = "time", variant: str | None = None, run: str | None = None, xlabel: str = "simulated time / s",
    ylabel: str | None = None, path: str | os.PathLike[str] | None = None, confidence: float = 0.95,
) -> tuple[Figure, pd.DataFrame]:
    """Mean of `value` over runs at each time, with its band. The frame is tidy; all runs have the same times
    (`Results.series(every=...)`). `run` is the column that names the run, "seed" if there is one; a frame without it
    is of one run, such as `results.series(every=0.5)` with `variant="host"`."""
    table = _grouped(frame, time, value, variant, run, confidence)
    figure, axes = _axes(xlabel, ylabel or value)
    _curves(axes, table, time)
    _save(figure, table, path)
    return figure, table


def parameter_curve(
    frame: pd.DataFrame, *, parameter: str, value: str, variant: str | None = None, run: str | None = None,
    xlabel: str | None = None, ylabel: str | None = None, path: str | os.PathLike[str] | None = None,
    confidence: float = 0.95, strip: bool = True,
) -> tuple[Figure, pd.DataFrame]:
    """`value` against a numeric parameter with its band; with `strip`, each run is also drawn as a dot."""
    table = _grouped(frame, parameter, value, variant, run, confidence)
    figure, axes = _axes(xlabel or parameter, ylabel or value)
    if strip:
        names = [None] if variant is None else list(dict.fromkeys(frame.sort_values(variant)[variant]))
        for n, name in enumerate(names):
            part = frame if name is None else frame[frame[variant] == name]
            axes.plot(part[parameter], part[value], ".", color=COLOURS[n % len(COLOURS)], alpha=0.3, markersize=4)
    _curves(axes, table, parameter)
    _save(figure, table, path)
    return figure, table


def throughput_latency(
    frame: pd.DataFrame, *, load: str, throughput: str, latency: str, variant: str | None = None, run: str | None = None,
    xlabel: str | None = None, ylabel: str | None = None, path: str | os.PathLike[str] | None = None,
    confidence: float = 0.95,
) -> tuple[Figure, pd.DataFrame]:
    """Latency against throughput: a point per offered load, with both confidence intervals."""
    import numpy as np
    import pandas as pd

    parts = [_grouped(frame, load, column, variant, run, confidence).set_index(["variant", load]) for column in (throughput, latency)]
    if variant is None:
        parts = [part.droplevel("variant") for part in parts]
    table = parts[0].drop(columns="runs").add_prefix("throughput_").join(parts[1].add_prefix("latency_")).reset_index()
    table = table.rename(columns={"latency_runs": "runs"})
    if "variant" not in table:
        table.insert(0, "variant", latency)
    figure, axes = _axes(xlabel or throughput, ylabel or latency)
    for n, (name, part) in enumerate(table.groupby("variant", sort=False)):
        part = part.sort_values(load)
        bars: dict[str, Any] = {
            axis: np.nan_to_num(np.stack([part[f"{c}_mean"] - part[f"{c}_low"], part[f"{c}_high"] - part[f"{c}_mean"]]))
            for axis, c in (("xerr", "throughput"), ("yerr", "latency"))
        }
        axes.errorbar(part["throughput_mean"], part["latency_mean"], **bars, marker="o", markersize=4, capsize=2,
                      color=COLOURS[n % len(COLOURS)], label=_named(str(name), int(part["runs"].max())))
    axes.legend(frameon=False, fontsize="small")
    _save(figure, pd.DataFrame(table), path)
    return figure, table
