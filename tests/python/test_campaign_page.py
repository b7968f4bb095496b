"""A campaign's page in a real browser: 300 runs, in the light, in the dark and on paper."""

import functools
import math
import re

import pytest
from conftest import look

from belljar import Experiment, Point, Sweep, curves
from belljar.report import _figures

@pytest.fixture
def browse(browser, workdir):
    return functools.partial(look, browser, workdir)


@pytest.fixture
def page(workdir):
    """The page about 300 runs with two parameters, made from two that were."""
    exp = Experiment(stop_time="2 s")
    exp.host("a").run("/bin/sh", "-c", "exit 0", expect="any")
    good = exp.run(workdir / "good").path
    exp.host("b").run("/bin/sh", "-c", "exit 3", expect="any")
    bad = exp.run(workdir / "bad", settings={"hosts.b.processes.0.expected_final_state": {"exited": 0}}, check=False).path
    points = []
    for n in range(300):
        fails = n % 17 == 0
        points.append(Point({"load": n // 60, "kind": "<i>new</i>" if n % 2 else "old"}, n, bad if fails else good, not fails,
                            "FAIL" if fails else None, seconds=n / 10, machine=f"node{n % 7}"))
    # All good runs are one, so the values differ by the order in which they are measured.
    loads = iter([p.parameters["load"] for p in points if p.ok])
    runs = Sweep(points, lambda results: {"delay": results.statistics["simulated_seconds"] + next(loads) ** 2})
    (workdir / "sweep").mkdir()
    return runs.save(workdir / "sweep")


def test_it_is_whole(page, browse, workdir):
    dom = browse(page, "--dump-dom")
    assert page.stat().st_size < 300_000
    for heading in ("Values", "Runs", "Failures by signature", "Slowest runs"):
        assert f"<h2>{heading}</h2>" in dom
    assert "delay against load" in dom and "<i>new" not in dom, "what experiments say is text"
    assert dom.count("<title>seed") == 300 and "b: sh exited 3" in dom and "NaN" not in dom and "29.90 s" in dom
    assert re.search(r"<td>18</td><td>b: sh exited 3</td>", dom), "18 of 300"
    browse(page, f"--print-to-pdf={workdir / 'page.pdf'}")
    assert (workdir / "page.pdf").stat().st_size > 20_000


def test_it_is_read_in_the_dark(page, browse, workdir):
    image = pytest.importorskip("PIL.Image")
    brightness = {}
    for name, more in (("light", []), ("dark", ["--blink-settings=preferredColorScheme=0"])):
        browse(page, f"--screenshot={workdir / name}.png", "--window-size=1000,900", *more)
        shot = image.open(workdir / f"{name}.png").convert("L")
        values = shot.resize((100, 90)).tobytes()
        brightness[name] = sum(values) / len(values)
        assert (workdir / f"{name}.png").stat().st_size > 20_000, "a page that is blank compresses to next to nothing"
    assert brightness["light"] > 200 and brightness["dark"] < 80, brightness


def figures(parameters, measured):
    """Figures of a sweep without results: each run measures what is given for it."""
    points = [Point(p, seed, None, True) for p in parameters for seed in range(2)]
    table = [{**point.parameters, "seed": point.seed, "ok": True, "failure": "", **measured(point)} for point in points]
    return "".join(_figures(Sweep(points), table))


def texts(svg):
    return re.findall(r"<text[^>]*>([^<]*)<", svg)


def test_axes_have_units():
    """Parameters with units are numbers, in the unit that the largest one reaches."""
    shown = figures([{"latency": v, "kind": k} for v in ("5 ms", "20 ms", "0.1 s") for k in ("a", "b")],
                    lambda p: {"bytes_sent": 1e6 * (3 if p.parameters["latency"] == "5 ms" else 1)})
    assert shown.count("<polyline") == 2 and {"latency / ms", "bytes_sent / MB", "5", "20", "100", "kind=a (2 runs each)"} <= set(texts(shown)), texts(shown)
    own = figures([{"rate": v} for v in ("1 Mbit", "1 Gbit")], lambda p: {"time / ms": p.seed})
    assert {"rate / Gbit/s", "time / ms", "0.001", "1"} <= set(texts(own))
    # Quantities of different kinds have no common axis: a row of dots for each.
    rows = figures([{"value": v} for v in ("1 ms", "1 Mbit")], lambda p: {"elapsed_seconds": 0.25 * (1 + p.seed)})
    assert "<polyline" not in rows and rows.count("<circle") == 4 and {"value=1 ms", "value=1 Mbit", "elapsed_seconds / ms", "250", "500"} <= set(texts(rows))
    assert [curves.quantity(v) for v in ("10 ms", "2 KiB", 7, "ten", True, "3 furlongs")] == [(0.01, "s"), (2048, "B"), (7, ""), None, None, None]


def test_eighty_variants_have_a_line_each():
    shown = figures([{"loss": x, "hosts": f"h{n}"} for x in range(40) for n in range(80)], lambda p: {"delay": float(p.parameters["hosts"][1:])})
    assert shown.count("<polyline") == 80 and "and 74 more variants in grey" in shown and "<title>hosts=h79</title>" in shown
    marks = {float(text) for text in texts(shown) if re.fullmatch(r"[\d.]+", text)}
    assert marks == {0, 10, 20, 30, 40, 60, 80}


@pytest.mark.parametrize("low,high,step", [(0, 1, 0.2), (0, 9.7, 2), (0, 12, 2.5), (0, 23, 5), (97, 103, 2), (-3, 110, 25), (0, 3e-5, 1e-5)])
def test_marks_are_round(low, high, step):
    marks = curves.scale(low, high)
    assert 4 <= len(marks) <= 7 and marks[-1] >= high and marks[0] < low + 0.2 * step
    assert all(math.isclose(b - a, step, rel_tol=1e-9) for a, b in zip(marks, marks[1:])), marks
