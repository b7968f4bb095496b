"""The form of an experiment: what it is called, which figure it repeats, and what a measurement of it gives."""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import shutil
import sys
from collections.abc import Callable
from typing import Any

SIZES = ("small", "usual", "full")

#: Papers by their short names, in the order of the list.
PAPERS = {
    "phantom": "Phantom (USENIX ATC 2022)",
    "elfs": "Shadow with dynamic ELFs (USENIX CSET 2018)",
    "simbricks": "SimBricks (SIGCOMM 2022)",
    "vt": "VT-BMv2 (SIGSIM-PADS 2023)",
    "ns3": "Fast prototyping with ns-3 (thesis, Porto 2015)",
}


@dataclasses.dataclass(frozen=True)
class Size:
    """Size of a run: `small` for tests, `usual` for minutes on two cores, `full` as in the paper."""

    name: str

    def pick(self, small: Any, usual: Any, full: Any) -> Any:
        return dict(zip(SIZES, (small, usual, full)))[self.name]


@dataclasses.dataclass
class Row:
    """A value of the paper beside ours."""

    quantity: str
    paper: str
    ours: str


@dataclasses.dataclass
class Claim:
    """A statement of the paper, and whether our measurement shows it. `shown` is None for what this machine cannot show. One that is `timed` is
    about the machine's time or memory, and is not judged by a run of the small size. One that is `idle`, such as a comparison of numbers of
    workers, is judged on a machine without other work only."""

    text: str
    shown: bool | None
    timed: bool = False
    idle: bool = False


@dataclasses.dataclass
class Plot:
    """Points of the figure: (variant, x, y)."""

    x: str
    y: str
    points: list[tuple[str, float, float]]
    log_x: bool = False
    log_y: bool = False


@dataclasses.dataclass
class Result:
    """What a measurement gives."""

    rows: list[Row]
    claims: list[Claim]
    plot: Plot | None = None

    def verdict(self) -> str:
        """`shown`, `in part`, `not shown`, or `open` where nothing could be judged."""
        judged = [claim.shown for claim in self.claims if claim.shown is not None]
        if not judged:
            return "open"
        return "shown" if all(judged) else "in part" if any(judged) else "not shown"


@dataclasses.dataclass(frozen=True)
class Experiment:
    """An experiment of a paper. `measure` takes a Size and gives a Result; `differs` says what is not as in the paper, and why."""

    name: str
    figure: str
    about: str
    minutes: float
    differs: str
    measure: Callable[[Size], Result]
    full: str
    needs: tuple[str, ...] = ()
    root: bool = False

    @property
    def paper(self) -> str:
        return PAPERS[self.name.partition("-")[0]]

    def lacks(self) -> str | None:
        """What is missing for a run, with the remedy; None if nothing is."""
        for need in self.needs:
            what, _, package = need.partition(":")
            if not is_there(what):
                return f"{what.removeprefix('python3-')} is missing: apt-get install {package or what}"
        if self.root and os.geteuid() != 0:
            return "network namespaces with veths between them need root: run it with sudo"
        return None


def is_there(what: str) -> bool:
    """Whether a program is in PATH; or a file exists, if the name is its path; or a module of Python, if it is Debian's name of one."""
    if what.startswith("python3-"):
        return importlib.util.find_spec(what.removeprefix("python3-")) is not None
    return os.path.exists(what) if what.startswith("/") else shutil.which(what) is not None


EXPERIMENTS: dict[str, Experiment] = {}


def experiment(name: str, figure: str, *, minutes: float, full: str, differs: str, needs: tuple[str, ...] = (), root: bool = False) -> Callable[..., Any]:
    """Registers a function as the measurement of an experiment. Its docstring is the description."""
    def register(measure: Callable[[Size], Result]) -> Callable[[Size], Result]:
        about = " ".join((measure.__doc__ or "").split())
        EXPERIMENTS[name] = Experiment(name, figure, about, minutes, " ".join(differs.split()), measure, full, needs, root)
        return measure

    return register


def progress(text: str) -> None:
    """Says on standard error what has been measured."""
    print(f"  {text}", file=sys.stderr, flush=True)


def ratio(one: float, other: float) -> float:
    """One by the other; not a number where the other is too small to be measured."""
    return one / other if other > 0 else float("nan")


def positive(value: float, what: str) -> float:
    """The value of a measurement; fails where a difference of two runs is nothing, which other work on the machine makes."""
    if not value > 0:
        raise RuntimeError(f"{what} could not be measured, since the longer of two runs took no more: let the machine do nothing else, and run it again")
    return value


def number(value: float, unit: str = "") -> str:
    """A value with three significant digits."""
    text = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{text} {unit}".strip()


def slope(points: list[tuple[float, float]]) -> float:
    """Least-squares slope of y over x."""
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)


def correlation(points: list[tuple[float, float]]) -> float:
    """Pearson's r."""
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    xy = sum((x - mean_x) * (y - mean_y) for x, y in points)
    xx, yy = sum((x - mean_x) ** 2 for x, _ in points), sum((y - mean_y) ** 2 for _, y in points)
    return float(xy / (xx * yy) ** 0.5) if xx and yy else 0.0
