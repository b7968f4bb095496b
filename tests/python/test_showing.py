"""Objects that show themselves: at the prompt, and in notebooks as HTML."""

import re
import socket
import sys
import threading
import types
import xml.etree.ElementTree as ET

import pytest

from belljar import Experiment, Network, Results, RunFailed, models, progress, sweep
from conftest import bind


def office():
    """A network of links with a host that also stands in a graph."""
    exp = Experiment(stop_time="20 s", seed=3, metrics_interval="100 ms")
    exp.network.edge("here", "there", latency="20 ms", jitter="1 ms", loss=0.01)
    lan, border = exp.switch("lan"), exp.router("border")
    exp.host("web").model(models.Sink(port=5001))
    exp.host("home").model(models.Bulk(to="web:5001", size="300 KB"))
    exp.host("far-away", at="there").run("/bin/sh", "-c", "echo '<b>'; exit 3", expect="any")
    return exp.link("home", lan, rate="100 Mbit").link(lan, border).link(border, "web", name="uplink", rate="4 Mbit", latency="5 ms")


def parsed(text):
    """The page's part as a tree: it must be well formed, and refer to nothing outside of itself."""
    assert not re.search(r"(?:src|href)=", text)
    return ET.fromstring(text)


def drawn(tree):
    shapes = [e for e in tree.iter() if e.tag in ("circle", "rect")]
    for shape in shapes:
        values = [float(shape.get(key)) for key in ("cx", "cy", "x", "y") if shape.get(key)]
        assert all(0 <= value <= 640 for value in values), values
    return [e.text for e in tree.iter("text")], [e for e in tree.iter("line") if e.find("title") is not None]


def test_experiments_and_networks():
    exp = office()
    assert repr(exp) == "Experiment(3 hosts, 1 switch, 1 router, 3 links, stop_time='20 s', seed=3)"
    names, lines = drawn(parsed(exp._repr_html_()))
    assert sorted(names) == ["border", "far-away", "here", "home", "lan", "there", "web"]
    titles = [line.find("title").text for line in lines]
    assert len(lines) == 5 and "uplink, 4 Mbit, 5 ms" in titles and "20 ms, jitter 1 ms, loss 0.01" in titles
    assert "model bulk" in exp._repr_html_() and "echo &#x27;&lt;b&gt;&#x27;" in exp._repr_html_()
    assert repr(exp.network) == "Network(2 places, 1 edge)" and sorted(drawn(parsed(exp.network._repr_html_()))[0]) == ["here", "there"]
    assert repr(Network()) == "Network(one switch of 1 Gbit/s)"
    assert exp._repr_html_() == office()._repr_html_(), "the same network has the same drawing"


def test_crowds_are_counted():
    exp = Experiment(stop_time="1 s")
    exp.network.edge("west", "east", latency="1 ms")
    for n in range(1000):
        exp.host(f"h{n}", at="west" if n % 4 else "east").run("/bin/true")
    names, lines = drawn(parsed(exp._repr_html_()))
    assert sorted(names) == ["east (250 hosts)", "west (750 hosts)"] and len(lines) == 1
    assert "and 980 more" in exp._repr_html_() and len(exp._repr_html_()) < 10_000
    ring = Experiment(stop_time="1 s")
    for n in range(500):
        ring.link(f"n{n}", f"n{(n + 1) % 500}")
    assert "500 nodes: too many to be drawn here" in ring._repr_html_()
    assert "Experiment(0 hosts" in Experiment(stop_time=1)._repr_html_()


def test_without_networkx_nodes_stand_in_a_circle(monkeypatch):
    monkeypatch.setitem(sys.modules, "networkx", None)
    names, _ = drawn(parsed(office()._repr_html_()))
    assert len(names) == 7


def test_results(workdir):
    results = office().run(workdir / "out")
    line = repr(results)
    assert re.fullmatch(r"Results\('.*out': all as expected, 3 hosts, 1\.\d+ s simulated, [\d.]+ kB sent\)", line), line
    page = parsed(results._repr_html_())
    names, lines = drawn(page)
    assert {"web", "home", "lan", "border", "far-away", "there"} <= set(names) and "uplink, 5 ms" in [e.find("title").text for e in lines]
    # The uplink carries 4 Mbit/s and no more, so no stretch of the curve may.
    rate = next(float(found[1]) for found in (re.match(r"web: at most ([\d.]+) kB/s", name) for name in names) if found)
    assert 400 < rate < 540
    assert {len(e.get("points").split()) for e in page.iter("polyline")} == {7}, "a point for each 100 ms in which something happened"
    cells = [e.text for e in page.iter("td")]
    assert cells[:3] == ["far-away", "sh", "exited 3"]
    assert Results(results.path)._repr_html_() == results._repr_html_()


def test_what_is_not_as_expected_comes_first(workdir):
    exp = Experiment(stop_time="2 s")
    for n in range(30):
        exp.host(f"h{n:02}").run("/bin/sh", "-c", "exit 1" if n == 29 else "exit 0")
    with pytest.raises(RunFailed) as failed:
        exp.run(workdir / "out")
    cells = [e.text for e in parsed(failed.value.results._repr_html_()).iter("td")]
    assert cells[:3] == ["h29", "sh", "exited 1"] and "1 of 30 processes not as expected" in repr(failed.value.results)


def test_sweeps(workdir):
    def coin(sides):
        exp = Experiment(stop_time="5 s")
        exp.host("a").run("/bin/sh", "-c", f"exit $(($(od -An -N1 -tu1 /dev/urandom) % {sides} == 0))")
        return exp

    runs = sweep(coin, workdir / "sweep", seeds=8, parameters={"sides": [1, 2]})
    failed = len(runs.failed)
    assert repr(runs) == f"Sweep(16 runs, 2 variants, {failed} not as expected)" and failed >= 8
    page = parsed(runs._repr_html_())
    assert len([e for e in page.iter("path")]) == failed, "a cross for each failure"
    assert "sides=1" in runs._repr_html_() and "8 of 8 runs failed" in runs._repr_html_() and "expected: exited 0" in runs._repr_html_()


def test_a_run_without_a_folder_gets_one(workdir, monkeypatch):
    monkeypatch.chdir(workdir)
    exp = Experiment(stop_time="1 s")
    exp.host("a").run("/bin/echo", "hello")
    first, second = exp.run(), exp.run()
    assert first.path != second.path and first.path.parent.name == "belljar.data" and second.stdout("a") == "hello\n"
    assert sorted(p.name for p in (workdir / "belljar.data").iterdir()) == [first.path.name, second.path.name]


class Bar:
    """Stands in for tqdm's, and remembers."""

    made = []

    def __init__(self, **settings):
        self.settings, self.n, self.seen, self.closed = settings, 0.0, [], False
        Bar.made.append(self)

    def update(self, by):
        self.n += by
        self.seen.append(self.n)

    def set_postfix_str(self, text):
        self.said = text

    def close(self):
        self.closed = True


@pytest.fixture
def bars(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm.auto", types.SimpleNamespace(tqdm=Bar))
    Bar.made.clear()
    return Bar.made


def test_progress_of_a_run(workdir, bars, monkeypatch):
    exp = Experiment(stop_time="2000 h")
    # Busy until it has been looked at a few times.
    looked = workdir / "shared/looked"
    looked.parent.mkdir()
    exp.host("a", shared=[str(looked.parent)]).run("/usr/bin/python3", "-c", f"import os, time\nwhile not os.path.exists({str(looked)!r}): time.sleep(0.01)")
    update = Bar.update
    monkeypatch.setattr(Bar, "update", lambda bar, by: (update(bar, by), len(bar.seen) > 3 and looked.touch()))
    exp.run(workdir / "out", progress=True)
    (bar,) = bars
    assert bar.closed and bar.settings["total"] == 7_200_000
    assert bar.seen == sorted(bar.seen) and 0 < bar.seen[3] < 7_200_000
    bars.clear()
    exp.host("b").run("/bin/true")
    exp.general["stop_time"] = "1 s"
    exp.run(workdir / "short", progress=True)
    assert not bars or bars[0].closed
    exp = Experiment(stop_time="2000 h")
    exp.host("a").run("/bin/sh", "-c", "while :; do sleep 0.01; done", expect="any")
    with pytest.raises(RunFailed, match="still running after 1 s"):
        exp.run(workdir / "long", progress=True, timeout=1)
    assert all(bar.closed for bar in bars)


def test_progress_of_a_sweep(workdir, bars):
    exp = Experiment(stop_time="1 s")
    exp.host("a").run("/bin/sh", "-c", "exit $(($(od -An -N1 -tu1 /dev/urandom) % 2))")
    runs = sweep(exp, workdir / "sweep", seeds=6, progress=True)
    (bar,) = bars
    assert bar.seen == [1, 2, 3, 4, 5, 6] and bar.settings["total"] == 6 and bar.closed
    assert bar.said == f"{len(runs.failed)} not as expected"


def test_progress_where_nobody_sees_it(monkeypatch):
    monkeypatch.setattr(sys, "stderr", types.SimpleNamespace(isatty=lambda: False))
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    assert progress.bar(None, total=1) is None
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    assert progress.bar(True, total=1) is None, "without tqdm there is none"


def test_a_run_that_says_nothing_has_no_progress(workdir):
    assert progress.simulated(workdir / "nothing") is None
    with socket.socket(socket.AF_UNIX) as server:
        bind(server, workdir / "control.sock")
        server.listen()

        def answer():
            peer, _ = server.accept()
            with peer:
                peer.recv(100)

        thread = threading.Thread(target=answer)
        thread.start()
        assert progress.simulated(workdir) is None
        thread.join()
