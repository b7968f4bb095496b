"""`belljar explore`: faults are found, shrunk, replayed; campaigns go on, and do not depend on how many runs are executed at a time."""

import functools
import json
import os
import re
import shutil
import signal
import subprocess
import sys

import pytest
import yaml
from conftest import EXAMPLES, ROOT, begun, execute, typed

FORGETFUL = "hosts.server.processes.0.args=serve --forgetful"
# Fails if the server is away for a second while the client asks, which a crash or a stop brings about.
SERVER = "import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\ns.bind(('', 9))\nwhile True:\n    s.sendto(*s.recvfrom(99))\n"
CLIENT = """import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(1)
for n in range(40):
    try:
        s.sendto(b'%d' % n, ('server', 9))
        while int(s.recv(99)) < n:
            pass
    except OSError:
        print('no answer', n, flush=True)
    time.sleep(.2)
"""


def small(**more):
    return {
        "general": {"stop_time": "30 s"},
        "network": {"graph": {"type": "1_gbit_switch"}},
        "hosts": {
            "server": {"network_node_id": 0, "processes": [{"path": "python3", "args": ["-c", SERVER], "expected_final_state": "running"}]},
            "client": {"network_node_id": 0, "processes": [{"path": "python3", "args": ["-c", CLIENT], "start_time": "1 s"}]},
            "idler": {"network_node_id": 0, "processes": [{"path": "sleep", "args": ["3"]}]},
        },
        "properties": [{"name": "answers", "never": "no answer", "hosts": "client"}, {"name": "twice", "sometimes": "no answer 2[0-9]", "hosts": "client"}],
        "explore": {"between": ["2 s", "12 s"], "faults": [2, 5], "for": ["100 ms", "4 s"], "kinds": ["crash", "stop", "slow"]},
        **more,
    }


def explore(belljar, workdir, experiment, *options, name="exp", output=None):
    file = workdir / f"{name}.yaml"
    file.write_text(yaml.safe_dump(experiment, sort_keys=False))
    folder = workdir / (output or f"{name}.explore")
    done = execute([belljar, "explore", file, "-o", folder, *options], cwd=workdir)
    report = folder / "report.json"
    return done, json.loads(report.read_text()) if report.is_file() else None, folder


def same(report):
    """What does not depend on where the experiment lies."""
    return {key: value for key, value in report.items() if key != "file"}


def found(report):
    return [finding["symptom"] for finding in report["findings"]]


@pytest.fixture(scope="module")
def campaign(belljar, tmp_path_factory):
    """A campaign of 12 runs, one at a time."""
    folder = tmp_path_factory.mktemp("campaign")
    return explore(belljar, folder, small(), "--budget", "12runs", "-j", "1")


def test_a_failure_is_found_shrunk_and_replayed(belljar, workdir, campaign):
    done, report, folder = campaign
    assert done.status == 1 and found(report) == ["property answers (never)"] and report["runs"] == 12, done
    (finding,) = report["findings"]
    assert finding["minimal"] and len(finding["events"]) <= 2 and finding["idle"] == ["idler"] and finding["stop_time"] < 30, finding
    assert "FOUND property answers (never)" in done.out and "client: python3" in done.out, done.out
    kept = folder / finding["folder"]
    assert (kept / "results/sim-stats.json").is_file()
    again = execute([belljar, "run", kept / "experiment.yaml", "-o", workdir / "again", "--no-progress"])
    (answers, _) = json.loads((workdir / "again/sim-stats.json").read_text())["properties"]
    assert again.status == 1 and not answers["holds"], again


def test_no_event_second_or_host_of_a_shrunk_run_can_go(belljar, workdir, campaign):
    """Each removal makes the failure vanish."""
    _, report, folder = campaign
    text = (folder / report["findings"][0]["folder"] / "experiment.yaml").read_text()
    shrunk = yaml.safe_load(text)
    smaller = [{**shrunk, "events": shrunk["events"][:n] + shrunk["events"][n + 1:]} for n in range(len(shrunk["events"]))]
    smaller = [{key: value for key, value in one.items() if value} for one in smaller]
    seconds = float(report["findings"][0]["stop_time"])
    smaller.append({**shrunk, "general": {**shrunk["general"], "stop_time": f"{seconds - 1} s"}})
    for number, experiment in enumerate(smaller):
        # A signal that stops and the one that continues are one fault.
        if len(shrunk["events"]) > 1 and number < len(shrunk["events"]):
            continue
        file = workdir / f"{number}.yaml"
        file.write_text(yaml.safe_dump(experiment))
        done = execute([belljar, "run", file, "-o", workdir / f"{number}.data", "--no-progress"])
        (answers, _) = json.loads((workdir / f"{number}.data/sim-stats.json").read_text())["properties"]
        assert answers["holds"], (number, done)


def test_findings_do_not_depend_on_the_number_of_runs_at_a_time(belljar, workdir, campaign):
    _, before, folder = campaign
    done, report, other = explore(belljar, workdir, small(), "--budget", "12runs", "-j", "3")
    assert done.status == 1, done
    assert same(report) == same(before)
    name = report["findings"][0]["folder"]
    assert (other / name / "experiment.yaml").read_text() == (folder / name / "experiment.yaml").read_text()


def test_a_killed_campaign_goes_on(belljar, workdir, campaign):
    _, before, _ = campaign
    file = workdir / "exp.yaml"
    file.write_text(yaml.safe_dump(small(), sort_keys=False))
    command = [belljar, "explore", file, "--budget", "12runs", "-j", "2", "--no-progress"]
    verdicts = workdir / "exp.explore/verdicts.jsonl"
    with subprocess.Popen(command, cwd=workdir, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
        begun(run, lambda: verdicts.is_file() and len(verdicts.read_bytes().splitlines()) >= 4)
        run.send_signal(signal.SIGKILL)
    known = len(verdicts.read_bytes().splitlines())
    # A line that the kill has cut off is not believed.
    with verdicts.open("a") as file_of_verdicts:
        file_of_verdicts.write('{"digest": "cut')
    done = execute(command, cwd=workdir)
    report = json.loads((workdir / "exp.explore/report.json").read_text())
    assert done.status == 1 and same(report) == same(before), done
    every = verdicts.read_bytes()
    assert len(every.splitlines()) > known + 1
    done = execute(command, cwd=workdir)
    assert verdicts.read_bytes() == every and "FOUND" in done.out, done
    assert not list((workdir / "exp.explore/running").iterdir())


def test_an_interrupted_campaign_reports_and_goes_on(belljar, workdir):
    file = workdir / "exp.yaml"
    file.write_text(yaml.safe_dump(small(), sort_keys=False))
    command = [belljar, "explore", file, "--budget", "10000runs", "-j", "2", "--no-progress"]
    verdicts = workdir / "exp.explore/verdicts.jsonl"
    with subprocess.Popen(command, cwd=workdir, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        begun(run, lambda: verdicts.is_file() and len(verdicts.read_bytes().splitlines()) >= 5)
        run.send_signal(signal.SIGINT)
        out, err = run.communicate(timeout=60)
    assert run.returncode == 130 and "interrupted: the same command goes on from here" in out, out + err
    assert json.loads((workdir / "exp.explore/report.json").read_text())["interrupted"]


@pytest.mark.slow  # a campaign of 13 s without a finding
def test_a_right_program_has_no_failure_and_the_report_says_what_that_is_worth(belljar, workdir):
    """The example: the server that forgets is found, the other one is not blamed."""
    command = [belljar, "explore", EXAMPLES / "explore.yaml", "--budget", "20runs"]
    right = execute([*command, "-o", workdir / "right"])
    assert right.status == 0 and "no failure in 20 runs" in right.out, right
    assert "held: register, no-traceback: with 95 % confidence each fails in less than 14 % of runs with such faults" in right.out, right.out
    wrong = execute([*command, "-o", workdir / "wrong", "--set", FORGETFUL])
    report = json.loads((workdir / "wrong/report.json").read_text())
    assert wrong.status == 1 and found(report) == ["property register (history)"], wrong
    (finding,) = report["findings"]
    assert [event.split()[2] for event in finding["events"]] == ["crash:"], finding
    assert report["unreached"] == [] and report["held"] == ["no-traceback"], report


OLD = """import pathlib, time
stored = pathlib.Path('stored')
assert not stored.exists() or stored.read_text() == '1', stored.read_text()
stored.write_text('1')
time.sleep(1000)
"""


@pytest.mark.slow  # a campaign of 11 s; tests/kernel/test_new_roots.py draws upgrades as well
def test_upgrades_are_drawn_and_shrunk_to_the_hosts_that_fail(belljar, workdir):
    """A new version writes what the old one cannot read: the upgrade of one host and its way back are left."""
    new = OLD.replace("assert", "#").replace("write_text('1')", "write_text('2')")
    program = {"path": "python3", "expected_final_state": "running"}
    host = {"network_node_id": 0, "processes": [{**program, "args": ["-c", OLD]}, {**program, "args": ["-c", new], "start_time": "never"}]}
    experiment = small(hosts={"node1": host, "node2": host, "node3": host}, properties=[])
    experiment["explore"] = {"between": ["2 s", "20 s"], "faults": 2, "kinds": {"pause": None, "upgrade": {"upgrades": {"upgrade": 0, "to": 1, "hosts": "node*"}}}}
    done, report, folder = explore(belljar, workdir, experiment, "--budget", "12runs", "-j", "2")
    assert done.status == 1 and found(report) == ["python3 exited 1"], done
    (finding,) = report["findings"]
    (event,) = finding["events"]
    assert re.search(r'upgrade: 0, hosts: \[node[123]\], to: 1, grace: 10 s, for: ', event) and finding["minimal"], finding
    replayed = execute([belljar, "run", folder / finding["folder"] / "experiment.yaml", "-d", workdir / "replayed"])
    assert replayed.status == 1, replayed
    again, other, _ = explore(belljar, workdir, experiment, "--budget", "12runs", "-j", "1", output="again")
    assert same(other) == same(report), again


@pytest.mark.parametrize("asks", [True, False])
def test_wrong_answers_for_names_without_effect_are_reported(belljar, workdir, asks):
    lookup = "import socket, time\nfor n in range(20):\n    try:\n        socket.getaddrinfo('elsewhere.example', 1)\n    except OSError:\n        pass\n    time.sleep(1)\n"
    program = {"path": "python3", "args": ["-c", lookup if asks else "import time; time.sleep(20)"]}
    experiment = small(hosts={"client": {"network_node_id": 0, "processes": [program]}}, properties=[])
    experiment["explore"] = {"between": ["1 s", "15 s"], "for": ["3 s", "8 s"], "faults": 1, "kinds": {"dns": {"answers": "SERVFAIL"}}}
    done, report, _ = explore(belljar, workdir, experiment, "--budget", "4runs")
    assert done.status == 0 and report["runs"] == 4, done
    assert ("no effect: dns was drawn in 3 runs, and no host asked for such a name" in done.out) != asks, done.out


def test_a_finding_is_a_test_of_pytest(belljar, campaign, workdir):
    _, report, folder = campaign
    kept = workdir / "finding"
    shutil.copytree(folder / report["findings"][0]["folder"], kept)
    (test,) = kept.glob("test_*.py")
    environment = {**os.environ, "BELLJAR_BIN": str(belljar), "PYTHONPATH": str(EXAMPLES.parent / "python")}
    done = execute([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "belljar.pytest_plugin", "--rootdir", kept, test], cwd=kept, env=environment)
    assert "1 failed" in done.out and "answers" in done.out, done


def test_an_experiment_that_fails_by_itself_ends_the_campaign(belljar, workdir):
    experiment = small(properties=[{"name": "loud", "sometimes": "x"}, {"name": "quiet", "always": "z"}])
    done, report, _ = explore(belljar, workdir, experiment, "--budget", "50runs")
    assert done.status == 1 and report["runs"] == 1 and report["findings"][0]["first"] == 0 and "without any drawn fault" in done.out, done
    assert report["unreached"] == ["loud"] and "never reached: loud" in done.out


def test_the_first_failure_ends_the_campaign_when_asked(belljar, workdir, campaign):
    _, before, _ = campaign
    done, report, _ = explore(belljar, workdir, small(), "--budget", "1000runs", "--first", "--shrink", "0", "-j", "2")
    assert done.status == 1 and report["runs"] == before["findings"][0]["first"] + 1 and not report["findings"][0]["minimal"], done


def test_a_run_that_does_not_end_is_a_failure(belljar, workdir):
    experiment = small()
    experiment["hosts"]["idler"]["processes"][0] = {"path": "sh", "args": ["-c", "while :; do read x < /dev/null; done"], "expected_final_state": "running"}
    experiment["general"]["stop_time"] = "1000000 s"
    experiment["explore"]["faults"] = 1
    done, report, _ = explore(belljar, workdir, experiment, "--budget", "1runs", "--timeout", "3 s", "--shrink", "0")
    assert done.status == 1 and found(report) == ["the run does not end"], done


def test_folders_of_others_are_left_alone(belljar, workdir):
    (workdir / "mine").mkdir()
    (workdir / "mine/file").write_text("x")
    done, _, _ = explore(belljar, workdir, small(), "--budget", "1runs", output="mine")
    assert done.status == 2 and "is not the folder of a campaign" in done.err and (workdir / "mine/file").read_text() == "x", done
    done, _, _ = explore(belljar, workdir, small(), "--budget", "1runs", output="own")
    assert done.status == 0, done
    other = small(general={"stop_time": "29 s"})
    done, _, _ = explore(belljar, workdir, other, "--budget", "1runs", output="own")
    assert done.status == 2 and "belongs to another campaign: the experiment is another one" in done.err, done
    done, _, _ = explore(belljar, workdir, other, "--budget", "1runs", "--force", output="own")
    assert done.status == 0, done


@pytest.mark.parametrize("section, message", [
    ({"kinds": ["crush"]}, "'crush' is no kind of fault"), ({"kinds": {"slow": {"step": "1 s"}}}, "'step' is not a key of kind 'slow'"),
    ({"between": ["5 s", "40 s"]}, "the simulation stops at 30 s"), ({"between": ["5 s", "5 s"]}, "no fault of 100 ms fits between"),
    ({"faults": [5, 2]}, "has the larger value first"), ({"faults": 0}, "no fault is drawn"), ({"hosts": "nobody"}, "there is no host 'nobody'"),
    ({"for": "0 s"}, "a fault without duration is none"), ({"hosts": {"one_of": ["server"]}}, "leave 'one_of' out"), ({"host": "server"}, "'host' is not a key"),
    ({"kinds": {"crash": {"files": []}}}, "'files' is empty"), ({"kinds": []}, "names no kind of fault"), ({"for": [1, 2]}, "needs a unit"),
])
def test_a_wrong_section_is_refused_with_its_line(belljar, workdir, section, message):
    done, report, _ = explore(belljar, workdir, small(explore=section))
    assert done.status == 2 and message in done.err + done.out and "--> " in done.err and report is None, done
    file = workdir / "exp.yaml"
    assert execute([belljar, "run", file, "-o", workdir / "data"]).status == 2, "other commands check the section as well"


def test_the_guide_and_the_readme_show_what_their_commands_say(belljar, workdir):
    # How often it is found, and the times, depend on the length of paths, whose calls take time.
    masked = functools.partial(re.sub, r"\d+", "N")
    readme = [line.strip() for line in re.findall(r"^    (\S?.*)$", (ROOT / "README.md").read_text(), re.M)]
    for command, done, shown in typed(belljar, workdir, "exploring.md"):
        assert done.status == (1 if "forgetful" in command else 0), done
        for line in shown:
            assert all(masked(part) in masked(done.out) for part in line.split("...")), (line, done.out)
        if "forgetful" in command:
            lines = [text.strip() for text in done.out.replace("forgetful.explore", "explore.explore").splitlines()[:5]]
            at = readme.index(command.replace(" -o forgetful.explore", ""))
            assert list(map(masked, readme[at + 1:][:5])) == list(map(masked, lines)), lines


def test_wrong_budgets_are_refused(belljar, workdir):
    for budget in ("0runs", "10", "soon", "-1 s"):
        done, _, _ = explore(belljar, workdir, small(), f"--budget={budget}")
        assert done.status == 2 and "--budget" in done.err, done
