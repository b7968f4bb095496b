"""The live view: it shows a run, pauses it and steps through it, and changes no byte of the results. A real browser looks at the page."""

import fcntl
import http.client
import json
import os
import pathlib
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
import urllib.error
import urllib.request

import pytest
import yaml
from conftest import EXAMPLES, PATIENCE, execute, look, until
from terminal import Terminal

EVENTS = [{"at": "4 s", "partition": [["berlin"], ["server"]], "for": "2 s"}, {"at": "9 s", "crash": "tokyo"}]


def cities(stop="12 s"):
    """First example's hosts with switches besides, and events: five hosts."""
    text = yaml.safe_load((EXAMPLES / "first.yaml").read_text())
    text["general"]["stop_time"] = stop
    text["events"] = EVENTS
    text["switches"] = ["lan"]
    text["hosts"]["home"] = {"processes": [{"model": {"type": "bulk", "to": "box:5001", "size": "1 MB"}, "start_time": "1 s"}]}
    text["hosts"]["box"] = {"processes": [{"model": {"type": "sink", "port": 5001}}]}
    text["links"] = [{"between": ["home", "lan"], "rate": "100 Mbit"}, {"between": ["lan", "box"], "rate": "1 Mbit", "latency": "5 ms"}]
    return text


class Live:
    """A run with a live view, spoken with as its page does."""

    def __init__(self, belljar, file, data, *arguments):
        self.data = data
        command = [belljar, "run", file, "-o", data, "--live", *arguments]
        self.process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        said = []
        for line in self.process.stderr:
            said.append(line)
            if found := re.search(r"live view: (http://127\.0\.0\.1:(\d+)/([0-9a-f]{32})/)", line):
                self.url, self.port, self.token = found[1], int(found[2]), found[3]
                return
        pytest.fail(f"no address: {said}")

    def ask(self, question, **values):
        body = json.dumps({"ask": question, **values}).encode()
        with urllib.request.urlopen(urllib.request.Request(self.url, body), timeout=PATIENCE) as answer:
            return json.load(answer)

    def state(self, filter="", by="name", limit=100):
        return self.ask("state", filter=filter, by=by, limit=limit)

    def until(self, condition, what):
        """The state once the condition holds."""
        state = None

        def holds():
            nonlocal state
            state = self.state()
            return condition(state)

        until(holds, lambda: f"{what}: {state}")
        return state

    def paused(self):
        return self.until(lambda state: state["is_paused"], "paused")

    def end(self, status=0):
        out, err = self.process.communicate(timeout=PATIENCE)
        assert self.process.returncode == status, out + err
        return out

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()


@pytest.fixture
def live(belljar, workdir):
    """live(experiment, *arguments) -> Live, ended with the test."""
    runs = []

    def begin(experiment, *arguments, name="live"):
        file = workdir / f"{name}.yaml"
        file.write_text(yaml.safe_dump(experiment, sort_keys=False))
        runs.append(Live(belljar, file, workdir / f"{name}.data", *arguments))
        return runs[-1]

    yield begin
    for run in runs:
        run.kill()


def differing(a, b):
    """Files of two results folders that differ, but for the folder's path in the experiment."""
    names = {str(p.relative_to(root)) for root in (a, b) for p in root.rglob("*") if p.is_file()}

    def content(root, name):
        file = root / name
        return file.read_bytes().replace(str(root).encode(), b"FOLDER") if file.is_file() else None

    return [name for name in sorted(names) if content(a, name) != content(b, name)]


def test_pausing_and_stepping_change_no_byte(live, run_experiment, workdir):
    text = cities()
    plain = run_experiment(text, args=["--strace"], pcap=True, status=None, name="plain")
    # Of the folder's length: calls say how long its path is.
    run = live(text, "--pause-at", "0 s", "--strace", "--pcap", name="steps")
    state = run.paused()
    assert (state["time_ns"], state["host_count"], state["device_count"]) == (0, 6, 1)
    assert [entry["at_ns"] for entry in state["to_come"] if "partition" in entry["text"]] == [4_000_000_000, 6_000_000_000]
    # One instant after the other.
    times = [0]
    for _ in range(5):
        run.ask("step")
        times.append(run.until(lambda state: state["is_paused"] and state["time_ns"] > times[-1] or state["is_over"], "stepped")["time_ns"])
    assert times == sorted(set(times)) and times[-1] < 1_000_000_000, times
    # To right before the partition, and through it: nothing has been lost before, some of what follows is.
    while state["time_ns"] < 4_000_000_000:
        before = state["time_ns"]
        run.ask("next_event")
        state = run.until(lambda state: state["is_paused"] and state["time_ns"] > before, "at the next event")
    assert state["time_ns"] == 4_000_000_000, state["time_ns"]
    assert any("partition" in entry["text"] for entry in state["to_come"]) and state["past"]
    run.ask("go_for", duration="1500 ms")
    later = run.until(lambda state: state["is_paused"] and state["time_ns"] >= 5_500_000_000, "1.5 s later")
    assert later["total"]["bytes_out"] > state["total"]["bytes_out"] > 0
    assert max(later["links"], key=lambda link: link["queued"])["name"].startswith("lan to box")
    # Tables, and all of them.
    tables = {table["name"]: table["csv"].splitlines() for table in run.ask("tables", node="server")["tables"]}
    assert {"processes", "interfaces"} <= set(tables) and tables["processes"][0] == "pid,command"
    assert any("python3" in row for row in tables["processes"][1:])
    stations = run.ask("tables", node="lan")["tables"]
    assert [table["name"] for table in stations] == ["stations"] and len(stations[0]["csv"].splitlines()) == 3
    with urllib.request.urlopen(run.url + "snapshot.json", timeout=PATIENCE) as answer:
        snapshot = json.load(answer)
        assert "attachment" in answer.headers["Content-Disposition"]
    assert set(snapshot["nodes"]) == {"server", "berlin", "boston", "tokyo", "home", "box", "lan"} and snapshot["nodes"]["home"]["tables"]
    with pytest.raises(urllib.error.HTTPError) as refused:
        run.ask("tables", node="nobody")
    assert json.load(refused.value)["error"] == "there is no host or device 'nobody'"
    with pytest.raises(urllib.error.HTTPError):
        run.ask("go_for", duration="three days")
    assert [host["name"] for host in run.state(filter="o", by="bytes_out")["hosts"]][0] == "home"
    # Looked at all the time until its end.
    run.ask("go_on")
    try:
        while run.process.poll() is None:
            run.state()
    except (urllib.error.URLError, OSError, http.client.HTTPException):
        pass
    out = run.end(plain.status)
    assert "results:" in out
    assert differing(plain.path, run.data) == []


def test_a_paused_run_can_be_ended(live):
    run = live(cities(), "--pause-at", "2 s")
    run.paused()
    run.process.send_signal(signal.SIGTERM)
    assert "interrupted" in run.end(143)


def test_the_progress_says_that_the_run_is_paused(belljar, workdir):
    command = [belljar, "run", EXAMPLES / "first.yaml", "-o", workdir / "data", "--live", "--pause-at", "2 s"]
    terminal = Terminal(command, columns=160, env={"TERM": "xterm"})
    try:
        assert " left" not in terminal.expect(r"paused at [12]\.\d{3} s").rpartition("paused")[2]
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.end() == 130
    finally:
        terminal.close()


def test_only_who_has_the_address_is_answered(live):
    run = live(cities(), "--pause-at", "1 s")
    run.paused()
    listening = [line.split()[1] for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:] if line.split()[3] == "0A"]
    assert f"0100007F:{run.port:04X}" in listening and f"00000000:{run.port:04X}" not in listening
    everything = f"http://127.0.0.1:{run.port}"
    wrong = run.token[:-1] + ("0" if run.token[-1] != "0" else "1")
    for path, headers, body, status in [
        ("/", {}, None, 404), (f"/{wrong}/", {}, None, 404), (f"/{wrong}/", {}, b'{"ask": "go_on"}', 404), ("/snapshot.json", {}, None, 404),
        (f"/{run.token}/", {"Host": "example.org"}, None, 403), (f"/{run.token}/", {}, b'{"ask": "format"}', 400),
        (f"/{run.token}/", {}, b"not json", 400), (f"/{run.token}/", {}, b'{"ask": "' + b"x" * 10_000, 400), (f"/{run.token}/other", {}, None, 404),
    ]:
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(urllib.request.Request(everything + path, body, headers), timeout=PATIENCE)
        assert refused.value.code == status, (path, headers)
    with urllib.request.urlopen(run.url, timeout=PATIENCE) as answer:
        page, headers = answer.read().decode(), answer.headers
    assert not re.search(r"""(?:src|href)\s*=\s*["']?(?:https?:)?//""", page) and "@import" not in page
    assert headers["Referrer-Policy"] == "no-referrer" and "script-src 'nonce-" in headers["Content-Security-Policy"]
    assert run.state()["is_paused"], "what was refused has done nothing"
    # The address is nowhere in the results.
    run.ask("go_on")
    run.end(None or run.process.wait(PATIENCE))
    assert all(run.token.encode() not in file.read_bytes() for file in run.data.rglob("*") if file.is_file())


def test_the_page_in_a_browser(live, browser, workdir):
    run = live(cities(), "--pause-at", "5 s")
    run.paused()

    def loaded():
        dom = look(browser, workdir, run.url, "--dump-dom")
        return 'data-ready="yes"' in re.search(r"<body([^>]*)>", dom)[1] and dom

    dom = until(loaded)
    assert 'data-paused="yes"' in re.search(r"<body([^>]*)>", dom)[1]
    for heading in ("Topology", "Hosts", "Schedule", "Speed", "Queues", "Warnings and notes"):
        assert re.search(rf"<h2[^>]*>{heading}\b", dom), heading
    for text in ("paused", "5.000", "partition", "end of", "lan to box", "Go on"):
        assert text in dom, text
    assert len(re.findall(r'<i title="\w+" style="opacity', dom)) == 6
    # The slower link carried most of its rate in one direction.
    titles = re.findall(r"<title>[^,<]*, (\w+ to \w+): ([\d.]+ \w+/s) of (\d+ \w+/s) \((\d+) %\)</title>", dom)
    assert len(titles) == 4 and any(way == "lan to box" and most == "1 Mbit/s" and int(share) > 60 for way, _, most, share in titles), titles
    assert "edge loaded half" in dom and dom.count('<g class="host"') == 6
    for scheme in ("light", "dark"):
        shot = workdir / f"{scheme}.png"
        colours = ["--blink-settings=preferredColorScheme=0"] if scheme == "dark" else []
        # A page that is blank, or not there yet, compresses to next to nothing.
        until(lambda: look(browser, workdir, run.url, f"--screenshot={shot}", "--window-size=1300,1500", *colours) is not None and shot.stat().st_size > 50_000)
    assert (workdir / "light.png").read_bytes() != (workdir / "dark.png").read_bytes()


@pytest.mark.slow
def test_a_thousand_hosts_in_a_browser(live, browser, workdir, run_experiment):
    hosts = {f"host{n:04}": {"network_node_id": 0, "processes": [{"path": "/bin/sh", "args": ["-c", "sleep $0; echo", f"{n % 7}.5"]}]} for n in range(1_000)}
    text = {"general": {"stop_time": "10 s"}, "network": {"graph": {"type": "1_gbit_switch"}}, "hosts": hosts}
    plain = run_experiment(text, name="plain")
    run = live(text, "--pause-at", "3 s")
    state = run.paused()
    assert (len(state["hosts"]), state["matching"], len(state["activity"])) == (100, 1_000, 1_000)
    dom = look(browser, workdir, run.url, "--dump-dom")
    assert len(re.findall(r'<i title="host\d+" style="opacity', dom)) == 1_000 and "200 of 1,000 are shown" in dom
    look(browser, workdir, run.url, f"--screenshot={workdir / 'shot.png'}", "--window-size=1300,1500")
    assert (workdir / "shot.png").stat().st_size > 50_000
    run.ask("go_on")
    run.end()
    assert differing(plain.path, run.data) == []


def test_in_the_terminal(belljar, workdir, run_experiment):
    text = cities()
    plain = run_experiment(text, status=None, name="plain")
    (workdir / "terminal.yaml").write_text(yaml.safe_dump(text, sort_keys=False))
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    before = termios.tcgetattr(theirs)
    command = [belljar, "run", workdir / "terminal.yaml", "-o", workdir / "terminal.data", "--live=terminal", "--pause-at", "0 s"]
    process = subprocess.Popen(list(map(str, command)), stdin=theirs, stdout=theirs, stderr=theirs, cwd=workdir, start_new_session=True)
    screen = ""

    def until(pattern, what):
        nonlocal screen
        late = time.monotonic() + PATIENCE
        while time.monotonic() < late:
            if select.select([ours], [], [], 0.1)[0]:
                screen += os.read(ours, 65_536).decode(errors="replace")
            if found := re.search(pattern, screen, re.S):
                screen = screen[found.end():]
                return found
            if process.poll() is not None and not select.select([ours], [], [], 0)[0]:
                break
        process.kill()
        pytest.fail(f"never {what}:\n{screen[-3000:]}")

    try:
        until(r"0\.000000000 s of 12 s: PAUSED", "paused")
        until(r"6 hosts, 1 devices.*host +running", "drawn")
        assert termios.tcgetattr(theirs)[3] & (termios.ICANON | termios.ECHO) == 0
        os.write(ours, b"n")
        until(r" 2\.0+ s of 12 s: PAUSED.*to come.*partition", "at the next event")
        os.write(ours, b"w")
        name = until(r"written: ([\w.-]+\.json)", "written")[1]
        assert json.loads((workdir / name).read_text())["nodes"]["berlin"]["tables"]
        os.write(ours, b" ")
        until(r"\x1b\[\?1049l", "back")
        until(r"results: ", "summed up")
        assert process.wait(PATIENCE) == plain.status
        assert termios.tcgetattr(theirs) == before, "the terminal is as it was"
    finally:
        if process.poll() is None:
            process.kill()
        os.close(ours)
        os.close(theirs)
    assert differing(plain.path, workdir / "terminal.data") == []


def test_what_cannot_be_looked_at_is_said(belljar, workdir):
    def said(*arguments):
        done = execute([belljar, "run", EXAMPLES / "first.yaml", "-o", workdir / "no.data", *arguments], PATIENCE)
        assert done.status == 2 and not (workdir / "no.data").exists(), done
        return done.err.strip()

    assert said("--live", "--cells", "2") == "error: a live view shows a run of one process: leave out --cells"
    assert said("--live", "--real-time", "--pause-at", "1 s") == "error: a run in real time cannot pause: leave out --pause-at"
    assert said("--live=terminal") == "error: --live=terminal needs a terminal: use --live=page"
    assert "--live" in said("--pause-at", "1 s") and "--live" in said("--live-port", "1")
