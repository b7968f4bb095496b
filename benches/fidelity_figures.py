#!/usr/bin/env python3
"""Tables (Markdown) and figures of what `fidelity.py` measured: takes its JSON files, both sides in one or in several, and puts
figures, each with the table of its runs beside it, into a folder."""

import argparse
import csv
import json
import pathlib
import sys

from common import ROOT

sys.path.insert(0, str(ROOT / "python"))
from belljar.figures import COLOURS  # noqa: E402

SIDES = {"linux": "Linux", "belljar": "Belljar"}
LOOK = {"linux": {"color": COLOURS[1], "marker": "s"}, "belljar": {"color": COLOURS[0], "marker": "o"}}


def figure(width, height, columns=1):
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    made = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(made)
    axes = made.subplots(1, columns, squeeze=False)[0]
    for each in axes:
        each.grid(alpha=0.25)
        each.spines[["top", "right"]].set_visible(False)
    return made, axes


def read(paths):
    """Rows by what was measured: `flows` falls into grid, loss and size."""
    kinds = {}
    for path in paths:
        result = json.loads(pathlib.Path(path).read_text())
        for row in result["rows"]:
            kind = result["what"] if result["what"] != "flows" else "size" if result["size"] else "loss" if row["loss"] else "grid"
            row["size"], row["work"] = result["size"], result["work"]
            if kind == "traces" and not result["queue"]:
                kind = "writer"
            kinds.setdefault(kind, []).append(row)
    return kinds


NAMES = {"grid": ("rate_mbit", "latency_ms"), "loss": ("rate_mbit", "latency_ms", "loss"), "size": ("rate_mbit", "latency_ms", "size"),
         "pairs": ("rate_mbit", "pair"), "traces": ("rate_mbit", "latency_ms", "congestion"), "writer": ("rate_mbit", "latency_ms", "work")}


def joined(kind, rows):
    """The rows of both sides of each case, in order."""
    cases = {}
    for row in rows:
        cases.setdefault(tuple(row[name] for name in NAMES[kind]), {})[row["side"]] = row
    order = (lambda case: (case[0], 0)) if kind in ("pairs", "traces") else (lambda case: case)
    return {case: cases[case] for case in sorted(cases, key=order)}


def shown(row, key, digits):
    if row is None:
        return ""
    band = row[key]
    half = f" ± {band['high'] - band['mean']:.{digits}f}" if band["high"] is not None else ""
    return f"{band['mean']:.{digits}f}{half}"


def verdict(sides, key):
    """By how much Belljar's mean differs from the kernel's, and whether the intervals meet."""
    if len(sides) < 2:
        return ""
    ours, theirs = sides["belljar"][key], sides["linux"][key]
    meet = all(x["low"] is not None for x in (ours, theirs)) and ours["low"] <= theirs["high"] and theirs["low"] <= ours["high"]
    within = ours["low"] is None and theirs["low"] is not None and theirs["low"] <= ours["mean"] <= theirs["high"]
    return f"{(ours['mean'] / theirs['mean'] - 1) * 100:+.1f} %{', meet' if meet else ', within' if within else ''}" if theirs["mean"] else ""


def table(kind, cases):
    digits = 3 if kind == "size" else 2
    keys = {"grid": ["steady", "server"], "loss": ["steady"], "size": ["seconds", "client_seconds"], "pairs": ["first", "second", "both"],
            "traces": ["slow_start_s", "slow_start_cwnd", "cwnd", "srtt_ms", "reductions", "retransmitted", "steady"], "writer": ["steady"]}[kind]
    if kind == "traces":  # a line for each number
        print("| flow | | Linux | Belljar | difference |\n|---|---|---:|---:|---:|")
        for case, sides in cases.items():
            for key in keys:
                print(f"| {case[2]}, {case[0]:g} Mbit/s, {case[1]:g} ms | {key} | {' | '.join(shown(sides.get(side), key, digits) for side in SIDES)} | {verdict(sides, key)} |")
        return
    limit = ["limit"] if kind == "grid" else []
    head = [*NAMES[kind], *limit, *(f"{key}, {side}" for key in keys for side in SIDES.values()), *(f"{key} differs" for key in keys), "runs (spoilt)"]
    print("| " + " | ".join(head) + " |\n" + "|---:" * len(head) + "|")
    for case, sides in cases.items():
        bound = [f"{next(iter(sides.values()))['limit_mbit']:.2f}"] if limit else []
        values = [shown(sides.get(side), key, digits) for key in keys for side in SIDES]
        runs = f"{sides['linux']['n']} ({sides['linux']['spoilt']})" if "linux" in sides else ""
        print("| " + " | ".join([*map(str, case), *bound, *values, *(verdict(sides, key) for key in keys), runs]) + " |")


def points(axes, cases, value):
    """A point with its interval for each case and side, cases side by side; `value` gives a band and what it is divided by."""
    for n, (side, name) in enumerate(SIDES.items()):
        at, mean, below, above = [], [], [], []
        for x, sides in enumerate(cases.values()):
            if side in sides:
                band, unit = value(sides[side])
                at.append(x + 0.16 * (n - 0.5))
                mean.append(band["mean"] / unit)
                below.append((band["mean"] - (band["low"] if band["low"] is not None else band["mean"])) / unit)
                above.append(((band["high"] if band["high"] is not None else band["mean"]) - band["mean"]) / unit)
        axes.errorbar(at, mean, [below, above], fmt=LOOK[side]["marker"], color=LOOK[side]["color"], markersize=4, capsize=2, linewidth=1, label=name)
    axes.set_xticks(range(len(cases)))
    axes.legend(frameon=False, fontsize="small")


def grid(cases):
    made, (axes,) = figure(7.2, 3)
    axes.axhspan(95, 105, color="0.5", alpha=0.12, linewidth=0)
    points(axes, cases, lambda row: (row["steady"], row["limit_mbit"] / 100))
    axes.set_xticklabels([f"{rate:g}\n{latency:g}" for rate, latency in cases], fontsize="x-small")
    axes.set_xlabel("Mbit/s over ms one way")
    axes.set_ylabel("% of min(rate, window / RTT)")
    return made


def loss(cases):
    made, (axes,) = figure(5.2, 3.2)
    for side, name in SIDES.items():
        for n, rate in enumerate(sorted({case[0] for case in cases})):
            rows = [(case[2] * 100, sides[side]["steady"]) for case, sides in cases.items() if case[0] == rate and side in sides]
            x, y = [loss for loss, _ in rows], [band["mean"] for _, band in rows]
            spread = [[band["mean"] - (band["low"] or band["mean"]) for _, band in rows], [(band["high"] or band["mean"]) - band["mean"] for _, band in rows]]
            axes.errorbar(x, y, spread, color=LOOK[side]["color"], marker=LOOK[side]["marker"], linestyle=("-", "--", ":")[n % 3],
                          markersize=4, capsize=2, linewidth=1, label=f"{name}, {rate:g} Mbit/s")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("loss each way, %")
    axes.set_ylabel("Mbit/s")
    axes.legend(frameon=False, fontsize="small")
    return made


def pairs(cases):
    made, (axes,) = figure(7.2, 3)
    axes.axhline(50, color="0.5", linewidth=0.8)
    points(axes, cases, lambda row: (row["share"], 0.01))
    axes.set_xticklabels([f"{rate:g} Mbit/s\n" + pair.replace("+", "\n") for rate, pair in cases], fontsize="x-small")
    axes.set_ylabel("the first flow's share, %")
    return made


def traces(cases):
    made, all_axes = figure(3.2 * len(cases), 2.8, len(cases))
    for axes, (case, sides) in zip(all_axes, cases.items()):
        for side, name in SIDES.items():
            for n, run in enumerate(sides[side]["samples"] if side in sides else []):
                axes.plot([t for t, _ in run], [cwnd for _, cwnd in run], color=LOOK[side]["color"], linewidth=1.1 if side == "belljar" else 0.6,
                          alpha=1 if side == "belljar" else 0.6, label=None if n else name)
        axes.set_title(f"{case[2]}, {case[0]:g} Mbit/s, {case[1]:g} ms", fontsize="small")
        axes.set_xlabel("s")
    all_axes[0].set_ylabel("congestion window, segments")
    all_axes[0].legend(frameon=False, fontsize="small")
    return made


FIGURES = {"grid": grid, "loss": loss, "pairs": pairs, "traces": traces}
STEP = 0.2  # seconds between the rows that a trace's table keeps


def tidy(kind, cases, path):
    """One line for each run, or of traces for each moment of a run."""
    with open(path, "w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        if kind == "traces":
            out.writerow([*NAMES[kind], "side", "run", "time", "cwnd"])
        else:
            keys = [key for key, value in next(iter(next(iter(cases.values())).values())).items() if isinstance(value, dict)]
            out.writerow([*NAMES[kind], "side", "run", *keys])
        for case, sides in cases.items():
            for side, row in sides.items():
                if kind != "traces":
                    out.writerows([*case, side, n + 1, *(f"{row[key]['values'][n]:.6g}" for key in keys)] for n in range(row["n"]))
                    continue
                for n, run in enumerate(row["samples"]):
                    due = 0.0
                    for time, cwnd in run:
                        if time >= due:
                            out.writerow([*case, side, n + 1, f"{due:.1f}", cwnd])
                            due += STEP


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", nargs="+", help="JSON files of fidelity.py")
    parser.add_argument("--folder", type=pathlib.Path, help="where figures go")
    a = parser.parse_args()
    for kind, rows in read(a.results).items():
        cases = joined(kind, rows)
        print(f"\n{kind}\n")
        table(kind, cases)
        if a.folder and kind in FIGURES:
            a.folder.mkdir(parents=True, exist_ok=True)
            FIGURES[kind](cases).savefig(a.folder / f"fidelity-{kind}.png", dpi=110)
            tidy(kind, cases, a.folder / f"fidelity-{kind}.csv")


if __name__ == "__main__":
    main()
