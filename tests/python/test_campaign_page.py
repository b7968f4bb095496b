"""A campaign's page in a real browser: 300 runs, in the light, in the dark and on paper."""

import functools
import re

import pytest
from conftest import look

from belljar import Experiment, Point, Sweep

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
