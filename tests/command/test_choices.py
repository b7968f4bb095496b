"""Choices in campaigns: a failure is shrunk to those that it needs, and its file of choices replays it in every way of running it."""

import json
import pathlib
import signal
import subprocess
import sys

import pytest
from conftest import EXAMPLES, ROOT, begun, contents_of, execute

PREEMPTION = ["--budget", "40runs", "--no-progress"]
# A server that notices datagrams that are lost: no fault but a choice brings it about.
SERVER = """import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(('', 9))
last = -1
while True:
    number = int(s.recv(99))
    print('gap' if number != last + 1 else 'next', number, flush=True)
    last = number
"""
CLIENT = """import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for n in range(30):
    s.sendto(b'%d' % n, ('server', 9))
    time.sleep(.1)
"""
LOSSY = f"""
general: {{stop_time: 6 s}}
network:
  graph:
    type: gml
    inline: |
      graph [ directed 0 node [ id 0 ] node [ id 1 ]
        edge [ source 0 target 0 latency "1 ms" ] edge [ source 1 target 1 latency "1 ms" ]
        edge [ source 0 target 1 latency "10 ms" jitter "3 ms" packet_loss 0.03 ] ]
hosts:
  server: {{network_node_id: 0, bandwidth_up: 1 Mbit, bandwidth_down: 1 Mbit, processes: [{{path: python3, args: [-c, {json.dumps(SERVER)}], expected_final_state: running}}]}}
  client: {{network_node_id: 1, bandwidth_up: 1 Mbit, bandwidth_down: 1 Mbit, processes: [{{path: python3, args: [-c, {json.dumps(CLIENT)}], start_time: 1 s}}]}}
properties:
- {{name: gapless, never: gap, hosts: server, files: stdout}}
explore: {{kinds: pause, hosts: client, between: [100 ms, 800 ms], scheduling: fifo}}
"""


def explore(belljar, workdir, file, *options, folder="campaign"):
    done = execute([belljar, "explore", file, "-o", workdir / folder, *options], cwd=workdir)
    report = json.loads((workdir / folder / "report.json").read_text())
    return done, {key: value for key, value in report.items() if key != "file"}


@pytest.fixture(scope="module")
def campaign(belljar, programs, tmp_path_factory):
    """A campaign on the example, one run at a time."""
    folder = tmp_path_factory.mktemp("preemption")
    return *explore(belljar, folder, EXAMPLES / "preemption.yaml", *PREEMPTION, "-j", "1"), folder / "campaign"


def test_a_race_is_shrunk_to_its_point(campaign):
    done, report, folder = campaign
    (finding,) = report["findings"]
    assert done.status == 1 and finding["symptom"] == "counter exited 1" and finding["minimal"], done
    choices = finding["choices"]
    assert 1 <= len(choices) <= 4 and all(line.startswith("host/server/scheduling/") for line in choices), choices
    assert any("/preemptions " in line for line in choices), choices
    kept = folder / finding["folder"]
    text = (kept / "choices.txt").read_text().splitlines()
    assert text[0] == "belljar choices 1" and text[2:] == ["* * default", *choices], text
    assert f"--choices {kept / 'choices.txt'}" in done.out and choices[0] in done.out, done.out


def test_fifty_replays_are_equal(belljar, workdir, campaign):
    """With one to three workers, near, far and in two cells."""
    _, report, folder = campaign
    kept = folder / report["findings"][0]["folder"]
    ways = [("--parallelism", "1"), ("--parallelism", "2"), ("--parallelism", "3"), ("--placement", "near"), ("--placement", "far"), ("--cells", "2")]
    seen = set()
    for number in range(50):
        data = workdir / "replay.data"
        done = execute([belljar, "run", kept / "experiment.yaml", "--choices", kept / "choices.txt", "-o", data, "--force", "--no-progress", "--strace", *ways[number % len(ways)]])
        assert done.status == 1 and "exited 1" in done.out and "choices" not in done.out + done.err, done
        every = {str(path): content for path, content in contents_of(data).items() if str(path).startswith("hosts/")}
        seen.add(json.dumps([(path, every[path].hex() if isinstance(every[path], bytes) else str(every[path])) for path in sorted(every)]))
    assert len(seen) == 1


def test_each_choice_is_needed(belljar, workdir, campaign):
    _, report, folder = campaign
    kept = folder / report["findings"][0]["folder"]
    lines = (kept / "choices.txt").read_text().splitlines()
    for left_out in range(3, len(lines)):
        (workdir / "fewer.txt").write_text("\n".join(lines[:left_out] + lines[left_out + 1:]) + "\n")
        done = execute([belljar, "run", kept / "experiment.yaml", "--choices", workdir / "fewer.txt", "-o", workdir / "fewer.data", "--force", "--no-progress"])
        assert done.status == 0, (lines[left_out], done)


def test_findings_do_not_depend_on_the_number_of_runs_at_a_time_or_a_kill(belljar, workdir, campaign):
    _, before, folder = campaign
    done, report = explore(belljar, workdir, EXAMPLES / "preemption.yaml", *PREEMPTION, "-j", "2")
    assert done.status == 1 and report == before
    name = pathlib.Path(report["findings"][0]["folder"], "choices.txt")
    assert (workdir / "campaign" / name).read_text() == (folder / name).read_text()
    command = [belljar, "explore", EXAMPLES / "preemption.yaml", "-o", workdir / "killed", *PREEMPTION, "-j", "2"]
    verdicts = workdir / "killed/verdicts.jsonl"
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
        # By then it is shrinking.
        begun(run, lambda: verdicts.is_file() and len(verdicts.read_bytes().splitlines()) >= 43)
        run.send_signal(signal.SIGKILL)
    done, report = explore(belljar, workdir, EXAMPLES / "preemption.yaml", *PREEMPTION, "-j", "2", folder="killed")
    assert done.status == 1 and report == before


def test_the_test_of_a_finding_fails_as_long_as_the_race_is_there(belljar, workdir, campaign):
    _, report, folder = campaign
    (test,) = (folder / report["findings"][0]["folder"]).glob("test_*.py")
    assert 'choices=folder / "choices.txt"' in test.read_text()
    path = f"{ROOT / 'python'}"
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "belljar.pytest_plugin", "-p", "no:cacheprovider", "--rootdir", workdir, test],
                          cwd=workdir, capture_output=True, text=True, env={"PATH": "/usr/bin:/bin", "PYTHONPATH": path, "BELLJAR_BIN": str(belljar)})
    assert done.returncode == 1 and "counter exited 1" in done.stdout.replace(".1000", "").replace("  ", ""), done.stdout + done.stderr


def test_a_lock_mends_it(belljar, workdir, programs):
    done, report = explore(belljar, workdir, EXAMPLES / "preemption.yaml", *PREEMPTION, "--set", "hosts.server.processes.0.args=lock")
    assert done.status == 0 and not report["findings"], done


def test_a_lost_packet_is_the_only_choice(belljar, workdir):
    (workdir / "lossy.yaml").write_text(LOSSY)
    done, report = explore(belljar, workdir, workdir / "lossy.yaml", "--budget", "80runs", "--first", "--no-progress")
    (finding,) = report["findings"]
    assert done.status == 1 and finding["symptom"] == "property gapless (never)", done
    assert finding["minimal"] and finding["events"] == [], finding
    (choice,) = finding["choices"]
    assert choice.startswith("flow/client/server/loss ") and choice.endswith(" 1"), choice


def test_bad_files_are_refused(belljar, workdir):
    for text, problem in [
        ("", "is no file of choices: it is empty instead of beginning with 'belljar choices 1'"),
        ("belljar choices 1\nflow 1", "is no file of choices: line 2: 'flow 1' is not a stream, a number and a value"),
        (None, "cannot be read: No such file or directory"),
    ]:
        if text is not None:
            (workdir / "bad.txt").write_text(text)
        name = "bad.txt" if text is not None else "missing.txt"
        done = execute([belljar, "run", EXAMPLES / "python.yaml", "--choices", workdir / name, "-o", workdir / "data"])
        assert done.status == 2 and problem in done.err and not (workdir / "data").exists(), done
    done = execute([belljar, "run", EXAMPLES / "python.yaml", "--record-choices", workdir / "missing/file", "-o", workdir / "data"])
    assert done.status == 1 and "missing/file cannot be written: No such file or directory" in done.err, done


def test_choices_of_another_experiment_are_noted(belljar, workdir):
    choices = workdir / "choices.txt"
    execute([belljar, "run", EXAMPLES / "python.yaml", "--record-choices", choices, "-o", workdir / "one.data", "--no-progress"])
    same = execute([belljar, "run", EXAMPLES / "python.yaml", "--choices", choices, "-o", workdir / "two.data", "--no-progress", "--parallelism", "2", "--placement", "far", "--pcap", "--strace"])
    assert "another experiment" not in same.err, same
    other = execute([belljar, "run", EXAMPLES / "python.yaml", "--choices", choices, "-o", workdir / "three.data", "--no-progress", "--stop-time", "3 s"])
    assert "note: the choices in" in other.err and "are of another experiment" in other.err, other
