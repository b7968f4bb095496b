"""Properties by the Python package: written, read, and in the failures of pytest."""

import os
import subprocess
import sys

import pytest
import yaml

from belljar import Experiment, RunFailed
from belljar.showing import results_html, results_line, signature
from belljar.sweep import Point

WRITE = '{"process": 0, "type": "%s", "f": "write", "value": 1}'
READ = '{"process": 0, "type": "%s", "f": "read", "value": null}'


def noisy():
    e = Experiment(stop_time="20 s")
    history = "; sleep 1; ".join(f"echo '{line % kind}' >> h.jsonl" for line in (WRITE, READ) for kind in ("invoke", "ok"))
    e.host("a").run("/bin/sh", "-c", f"echo took 5 ms; {history}; sleep 5; echo served; echo panic >&2")
    e.clock("a", at=3, step="1 s")
    e.always("quick", r"took (?<ms>\d+) ms", lines="took", where="ms < 100")
    e.never("calm", "panic", files="stderr", hosts="a", process="sh")
    e.sometimes("seen", "served")
    e.eventually("recovers", "served", within=5.5, after="faults")
    e.history("register", "h.jsonl", model="register")
    return e


def test_assertions_have_a_file():
    e = Experiment(stop_time="20 s").assertions("sdk").assertions("others", "sdk.jsonl", hosts="a")
    assert e.properties == [{"name": "sdk", "assertions": "/var/log/sdk.jsonl"}, {"name": "others", "assertions": "sdk.jsonl", "hosts": "a"}]


def test_properties_are_written_with_their_keys():
    written = yaml.safe_load(noisy().to_yaml())["properties"]
    assert written == [
        {"name": "quick", "always": r"took (?<ms>\d+) ms", "lines": "took", "where": "ms < 100"},
        {"name": "calm", "never": "panic", "files": "stderr", "hosts": "a", "process": "sh"},
        {"name": "seen", "sometimes": "served"},
        {"name": "recovers", "eventually": {"matches": "served", "within": "5.5 s", "after": "faults"}},
        {"name": "register", "history": "h.jsonl", "model": "register"},
    ]
    packets = Experiment(stop_time="1 s").never("telnet", {"filter": "tcp port 23"}, packets="*").never("reset", "RST", packets=["lo", "eth0"], filter="tcp port 80")
    packets.eventually("back", {"filter": "src host a"}, within="2 s", packets="eth0", hosts="b")
    assert packets.to_dict()["properties"] == [
        {"name": "telnet", "never": {"filter": "tcp port 23"}, "packets": "*"}, {"name": "reset", "never": "RST", "packets": ["lo", "eth0"], "filter": "tcp port 80"},
        {"name": "back", "eventually": {"filter": "src host a", "within": "2 s"}, "packets": "eth0", "hosts": "b"}]
    assert "5 properties" in repr(noisy()) and "properties" not in Experiment(stop_time="1 s").to_dict()
    with pytest.raises(ValueError, match="there is a property 'seen' already"):
        noisy().property("seen", never="x")
    with pytest.raises(TypeError, match="file"):
        noisy().never("other", "x", file="stderr")


def test_verdicts_are_read(workdir):
    pd = pytest.importorskip("pandas")
    with pytest.raises(RunFailed, match="FAIL property never calm: a line matches 'panic'; a: sh.1000.stderr:1 at 8.000000 s: panic") as failed:
        noisy().run(workdir / "out")
    results = failed.value.results
    frame = results.properties().set_index("name")
    assert frame["holds"].to_dict() == {"quick": True, "calm": False, "seen": True, "recovers": True, "register": False}
    assert frame.loc["calm", "time"] == 8.0 and frame.loc["calm", "line"] == 1 and pd.isna(frame.loc["quick", "line"])
    assert frame.loc["recovers", "time"] == 8.0 and frame.loc["register", "judged"] == 2
    assert not results.ok and [broken["name"] for broken in results.violations] == ["calm", "register"]
    assert "2 properties not held" in results_line(results) and "property never calm: a line matches" in results_html(results)
    assert signature(Point({}, 1, results.path, False), results) == "property calm; property register"


def test_a_run_without_properties_has_an_empty_frame(workdir):
    pytest.importorskip("pandas")
    e = Experiment(stop_time="1 s")
    e.host("a").run("/bin/true")
    results = e.run(workdir / "out")
    assert results.ok and results.properties().empty and list(results.properties().columns)[:3] == ["name", "kind", "holds"]


def test_a_failing_test_shows_property_line_and_report(workdir):
    text = open(__file__).read().split("def test_")[0].replace("import pytest\n", "")
    (workdir / "test_them.py").write_text(text + "\ndef test_noisy(belljar):\n    belljar.run(noisy())\n")
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run([sys.executable, "-m", "pytest", "-p", "belljar.pytest_plugin", "-p", "no:cacheprovider", "-q", "test_them.py"],
                          cwd=workdir, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 1, done.stdout
    assert "--- property never calm: a line matches 'panic'; a: sh.1000.stderr:1 at 8.000000 s: panic" in done.stdout, done.stdout
    assert "--- property history register: register: not linearizable; a: h.jsonl:4 at " in done.stdout and "no order continues with any of" in done.stdout, done.stdout
