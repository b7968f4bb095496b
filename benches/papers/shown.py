"""Reports and figures of experiments, and the page docs/papers.md."""

from __future__ import annotations

import csv
import json
import pathlib
import sys
from typing import Any

from common import ROOT, table

from .claims import EXPERIMENTS, PAPERS, Experiment, Plot, Result

PAGE = ROOT / "docs" / "papers.md"
MEASURED = pathlib.Path(__file__).with_name("measured.json")
BEGIN, END = "<!-- The tables are generated: belljar reproduce --page -->", "<!-- End of the generated tables -->"
MARKS = {True: "shown", False: "not shown", None: "not judged"}


def report(one: Experiment, result: Result, size: str, took: float, machine: str) -> str:
    """The report of a run, in Markdown."""
    claims = "\n".join(f"- {MARKS[claim.shown]}: {claim.text}" for claim in result.claims)
    values = table(["", "paper", "ours"], [[row.quantity, row.paper, row.ours] for row in result.rows])
    return (f"# {one.name}: {one.figure} of {one.paper}\n\n{one.about}\n\n{values}\n\n{claims}\n\n"
            f"Verdict: {result.verdict()}. Differences: {one.differs}\n\nSize {size}, {took:.0f} s, {machine}.\n")


def as_data(one: Experiment, result: Result, size: str, took: float, machine: str) -> dict[str, Any]:
    """The same as data; the form of measured.json."""
    return {
        "name": one.name, "size": size, "took_seconds": round(took), "machine": machine, "verdict": result.verdict(),
        "rows": [[row.quantity, row.paper, row.ours] for row in result.rows],
        "claims": [[claim.text, claim.shown] for claim in result.claims],
    }


def save_figure(plot: Plot, path: pathlib.Path) -> str | None:
    """Writes the figure, and its points beside it as CSV. Returns why there is no figure, if there is none."""
    with open(path.with_suffix(".csv"), "w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["variant", plot.x, plot.y])
        rows.writerows(plot.points)
    sys.path.append(str(ROOT / "python"))
    try:
        from belljar.figures import COLOURS, STYLES, _axes
    except ImportError as error:
        return f"there is no figure, only its points: {error} (pip install matplotlib pandas pyyaml, or name a Python that has them by BELLJAR_PYTHON)"
    try:
        figure, axes = _axes(plot.x, plot.y)
    except ImportError as error:
        return f"there is no figure, only its points: {error} (pip install matplotlib, or name a Python that has it by BELLJAR_PYTHON)"
    for n, variant in enumerate(dict.fromkeys(name for name, _, _ in plot.points)):
        points = sorted((x, y) for name, x, y in plot.points if name == variant)
        axes.plot(*zip(*points), marker="o", markersize=4, color=COLOURS[n % len(COLOURS)], linestyle=STYLES[n // len(COLOURS) % len(STYLES)], label=variant)
    if plot.log_x:
        axes.set_xscale("log")
    if plot.log_y:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    axes.legend(frameon=False, fontsize="small")
    figure.savefig(path)
    return None


def page() -> str:
    """The generated part of docs/papers.md: from what is registered and measured.json."""
    measured = json.loads(MEASURED.read_text())
    parts = []
    for key, paper in PAPERS.items():
        of_paper = [one for one in EXPERIMENTS.values() if one.name.startswith(f"{key}-")]
        rows = []
        for one in of_paper:
            done = measured.get(one.name)
            took = f"{max(1, round(done['took_seconds'] / 60))} min" if done else f"about {one.minutes:g} min"
            rows.append([f"`belljar reproduce {one.name}`", one.figure, took, done["verdict"] if done else "not measured"])
        parts.append(f"## {paper}\n\n{table(['command', 'repeats', 'time', 'verdict'], rows)}\n")
        parts += [details(one, measured.get(one.name)) for one in of_paper]
    return "\n".join(parts)


def details(one: Experiment, done: dict[str, Any] | None) -> str:
    """The section of one experiment."""
    lines = [f"### {one.name}", "", one.about, ""]
    if done:
        lines += [table(["", "paper", "ours"], done["rows"]), ""]
        lines += [f"- {MARKS[shown]}: {text}" for text, shown in done["claims"]] + [""]
    lines += [f"Differences: {one.differs}", "", f"`--full`: {one.full}", ""]
    return "\n".join(lines)


def write_page() -> None:
    """Puts the generated part into docs/papers.md."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n\n{page()}\n{END}{after}")


def record(folder: pathlib.Path) -> list[str]:
    """Takes the results of runs of the usual size in a folder into measured.json. Returns their names."""
    measured = json.loads(MEASURED.read_text()) if MEASURED.exists() else {}
    taken = []
    for path in sorted(folder.glob("*/result.json")):
        done = json.loads(path.read_text())
        if done["size"] == "usual" and done["name"] in EXPERIMENTS:
            measured[done["name"]] = {key: value for key, value in done.items() if key != "name"}
            taken.append(done["name"])
    MEASURED.write_text(json.dumps({name: measured[name] for name in EXPERIMENTS if name in measured}, indent=1) + "\n")
    return taken
