"""`belljar prompt`, `belljar attach` and the terminal of `belljar exec` in simulations, driven through pseudo-terminals."""

import json
import os
import random
import signal
import subprocess
import time

import pytest
import yaml
from conftest import EXAMPLES, PATIENCE, until
from terminal import Terminal

PROMPT = r"belljar> "
NETWORK = {"general": {"stop_time": "1000 s"}, "switches": ["s1"], "hosts": {"h1": {}, "h2": {}, "h3": {}},
           "links": [{"between": [host, "s1"], "latency": "1 ms", "rate": "100 Mbit"} for host in ("h1", "h2", "h3")]}


@pytest.fixture
def file(workdir):
    path = workdir / "net.yaml"
    path.write_text(yaml.safe_dump(NETWORK, sort_keys=False))
    return path


@pytest.fixture
def open_terminal():
    """open_terminal(command) -> Terminal, closed with the test."""
    opened = []

    def begin(command, **options):
        opened.append(Terminal(command, **options))
        return opened[-1]

    yield begin
    for terminal in opened:
        terminal.close()


def prompt(belljar, file, text, *options, status=0):
    """Commands from standard input."""
    done = subprocess.run([belljar, "prompt", file, "-o", file.parent / "p.data", "--force", *options], input=text, capture_output=True, text=True,
                          timeout=PATIENCE, cwd=file.parent)
    assert done.returncode == status, done.stdout + done.stderr
    return done


def statistics(file):
    return json.loads((file.parent / "p.data/sim-stats.json").read_text())


@pytest.mark.needs("ping")
def test_all_hosts_are_pinged(belljar, file):
    said = prompt(belljar, file, "pingall\npingpair\n").stdout
    assert "h1 -> h2 h3 \nh2 -> h1 h3 \nh3 -> h1 h2 \n*** Results: 0% dropped (6/6 received)" in said
    assert "h1 -> h2 \nh2 -> h1 \n*** Results: 0% dropped (2/2 received)" in said


@pytest.mark.needs("ping", "ip")
def test_names_become_addresses_and_links_go_down_and_up(belljar, file):
    said = prompt(belljar, file, "h1 ping -c 2 h2\nlink h3 s1 down\nh1 ping -c 1 -W 1 h3\nlink s1 h3 up\nh1 ping -c 1 -W 3 h3\n").stdout
    address = statistics(file)["hosts"]["h2"]["address"]
    assert f"PING {address}" in said and "2 received" in said
    assert [line.split(", ")[1] for line in said.splitlines() if "transmitted" in line] == ["2 received", "0 received", "1 received"]
    assert "100% packet loss" in said


@pytest.mark.needs("iperf3")
def test_throughput_is_that_of_the_link(belljar, file):
    said = prompt(belljar, file, "iperf h1 h2\n").stdout
    rates = said.split("*** Results: ['")[1].split("']")[0].split("', '")
    assert all(90 < float(rate.split()[0]) < 100 and rate.endswith("Mbits/sec") for rate in rates), said


def test_time_passes_while_commands_run_and_stands_between_them(belljar, file):
    said = prompt(belljar, file, "h1 date +%s.%N\nsh sleep 1\nh2 date +%s.%N\nh1 sleep 100\nh1 date +%s.%N\nwait 5 s\nh3 date +%s.%N\n").stdout
    times = [float(line) for line in said.splitlines() if line.replace(".", "").isdigit()]
    first, second, third, fourth = times
    assert 0 <= second - first < 0.05, "the second on this machine is none there"
    assert 100 <= third - second < 100.1
    assert 5 <= fourth - third < 5.1


def test_the_results_say_that_the_run_was_attended(belljar, file):
    said = prompt(belljar, file, "h1 true\nh2 sleep 1\n").stdout
    assert "attended: " in said and "on h1 and 1 more, by hand: this run cannot be reproduced" in said
    first, second = statistics(file)["attended"]
    assert (first["host"], second["host"]) == ("h1", "h2") and "sleep 1" in second["command"]
    assert 1 <= second["ended"] - second["started"] < 1.1
    manifest = (file.parent / "p.data/manifest.sha256").read_text()
    assert manifest.count("# attended, cannot be reproduced: ") == 2
    assert subprocess.run(["sha256sum", "-c", "--quiet", file.parent / "p.data/manifest.sha256"]).returncode == 0
    # A run that nobody attends says nothing of it.
    subprocess.run([belljar, "run", file, "-o", file.parent / "r.data", "-q"], check=True)
    assert "attended" not in (file.parent / "r.data/sim-stats.json").read_text() + (file.parent / "r.data/manifest.sha256").read_text()


def test_the_network_is_shown(belljar, file):
    said = prompt(belljar, file, "nodes\nlinks\nnet\ndump\nhelp\n").stdout
    assert "available nodes are:\nh1 h2 h3 s1\n" in said
    assert "h1-eth0<->s1-" in said and "\ns1 s1-" in said
    assert "<host h1: h1-eth0:" in said and "<switch s1: " in said
    assert "pingall" in said


@pytest.mark.parametrize(("command", "message"), [
    ("h9 date", "error: there is no command or host 'h9': 'help' lists the commands; hosts are h1, h2, h3"),
    ("s1 date", "error: s1 is not a host: commands run on hosts alone"),
    ("iperf h1 h9", "error: there is no host h9; there are: h1, h2, h3"),
    ("iperf h1 s1", "error: s1 is not a host: commands run on hosts alone"),
    ("link h1 h2 down", "error: there is no link between h1 and h2: 'links' lists them"),
    ("link h1 s9 down", "error: there is no node s9: 'nodes' lists them"),
    ("link h1 s1", "error: usage: link NODE NODE up|down: take a link of a host up or down"),
    ("py net", "error: the prompt has no command 'py': it has no Python: use 'HOST python3 -c ...', or Belljar's Python package"),
    ("wait long", "error: wait: "),
    ("source nothing", "error: source nothing: No such file or directory"),
    ("xterm h1", "error: there is no display: use another terminal and 'belljar attach "),
    ("h1", "error: usage: h1 COMMAND (a shell is 'h1 bash')"),
])
def test_bad_commands_have_one_error_and_the_prompt_goes_on(belljar, file, command, message, monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)
    done = prompt(belljar, file, f"{command}\nh1 echo after\n")
    errors = [line for line in done.stderr.splitlines() if line.startswith("error")]
    assert len(errors) == 1 and errors[0].startswith(message), done.stderr
    assert "after\n" in done.stdout


def test_files_of_commands_are_read_and_may_end_the_prompt(belljar, file):
    (file.parent / "commands").write_text("# a comment\n\nh1 echo one\nexit\nh1 echo two\n")
    (file.parent / "loop").write_text("source loop\n")
    done = prompt(belljar, file, "source loop\nsource commands\nh1 echo three\n")
    assert "one\n" in done.stdout and "two" not in done.stdout and "three" not in done.stdout
    assert done.stderr.count("nested") == 1


def test_an_experiment_with_errors_does_not_start(belljar, file):
    file.write_text(file.read_text() + "evnts: []\n")
    done = prompt(belljar, file, "nodes\n", status=2)
    assert "evnts" in done.stderr and done.stderr.count("error:") == 1


def test_background_programs_run_with_others(belljar, file):
    said = prompt(belljar, file, "h1 sleep 3; date +%s &\nh2 sleep 2\nh2 echo still\nh2 sleep 2\n").stdout
    assert said.index("still") < said.index("946684803"), said


def test_the_prompt_on_a_terminal(belljar, file, open_terminal):
    # A dumb terminal has no completion.
    env = {"HOME": str(file.parent), "TERM": "xterm"}
    terminal = open_terminal([belljar, "prompt", file, "-o", file.parent / "p.data"], cwd=file.parent, env=env)
    terminal.expect(PROMPT)
    terminal.type("h1 stty size; tty\r")
    assert "24 80\r\n/dev/pts/0\r\n" in terminal.expect(PROMPT)
    terminal.type("nod\t\r")
    assert "h1 h2 h3 s1" in terminal.expect(r"s1\r\n(.|\n)*" + PROMPT)
    # Ctrl-C is for the command, not for the prompt.
    terminal.type("h1 sleep 1000000 && echo not; echo interrupted: $?\r")
    time.sleep(1)
    terminal.type("\x03")
    terminal.expect(PROMPT)
    terminal.type("\x03")
    terminal.expect(PROMPT)
    terminal.type("h2 cat\r")
    terminal.expect(r"cat(\x1b\[\?2004l)?\r\n")
    terminal.type("typed\r")
    terminal.expect("typed\r\ntyped\r\n")
    terminal.type("\x04")
    terminal.expect(PROMPT)
    terminal.type("\x04")
    assert terminal.end() == 0, terminal.shown
    assert "attended" in terminal.shown and not terminal.is_raw()
    assert "h2 cat" in (file.parent / ".belljar_history").read_text()


def test_the_size_of_the_window_follows(belljar, file, open_terminal):
    terminal = open_terminal([belljar, "prompt", file, "-o", file.parent / "p.data"], cwd=file.parent, rows=30, columns=100)
    terminal.expect(PROMPT)
    terminal.type("h1 sh\r")
    terminal.expect("# ")
    terminal.type("stty size\r")
    terminal.expect("30 100\r\n")
    terminal.resize(40, 120)
    time.sleep(0.5)
    terminal.type("stty size\r")
    terminal.expect("40 120\r\n")
    terminal.type("exit\r")
    terminal.expect(PROMPT)


def test_exec_has_a_terminal(belljar, workdir, open_terminal):
    terminal = open_terminal([belljar, "exec", "--", "sh"], cwd=workdir, rows=20, columns=70)
    terminal.expect("# ")
    terminal.type("stty size; tty; date +%Y\r")
    assert "20 70\r\n/dev/pts/0\r\n2000\r\n" in terminal.expect("2000\r\n")
    terminal.type("sleep 1000000\r")
    time.sleep(0.3)
    terminal.type("exit 7\r")
    assert terminal.end() == 7, terminal.shown
    assert not terminal.is_raw()


def test_three_presses_leave(belljar, workdir, open_terminal):
    terminal = open_terminal([belljar, "exec", "--", "cat"], cwd=workdir)
    terminal.type("x\r")
    terminal.expect("x\r\nx\r\n")
    terminal.type("\x1d\x1d\x1d")
    assert terminal.end() in (129, 130), terminal.shown


class Run:
    """A run that is paced by the machine's clock."""

    def __init__(self, belljar, file, *options):
        self.data = file.parent / "run.data"
        self.process = subprocess.Popen([belljar, "run", file, "-o", self.data, "--no-progress", *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        until(lambda: (self.data / "control.sock").exists(), "a socket")

    def end(self):
        self.process.send_signal(signal.SIGINT)
        return self.process.communicate(timeout=PATIENCE)[0]

    def close(self):
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def begin(belljar, file):
    runs = []
    asleep = {"path": "sleep", "args": "900", "expected_final_state": "running"}
    file.write_text(yaml.safe_dump({**NETWORK, "hosts": {**NETWORK["hosts"], "h3": {"processes": [asleep]}}}, sort_keys=False))

    def start(*options):
        runs.append(Run(belljar, file, *options))
        return runs[-1]

    yield start
    for run in runs:
        run.close()


def attach(belljar, folder, host, *command, text="", status=0):
    done = subprocess.run([belljar, "attach", folder, host, *(["--", *command] if command else [])], input=text, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == status, done.stdout + done.stderr
    return done


@pytest.mark.parametrize("options", [["--real-time"], ["--live", "--pause-at", "2 s"]])
def test_attach_to_a_run_that_is_paced_or_paused(belljar, file, begin, options):
    run = begin(*options)
    if "--live" in options:
        until(lambda: attach_status(belljar, run.data) == 0, "paused")
    assert attach(belljar, run.data, "h1", "hostname").stdout == "h1\n"
    done = attach(belljar, run.data, "h2", "sh", "-c", "cat; echo error >&2; exit 3", text="through\n" * 10_000, status=3)
    assert (done.stdout, done.stderr) == ("through\n" * 10_000, "error\n")
    assert attach(belljar, run.data, "h3", text="date +%Y\nexit 5\n", status=5).stdout == "2000\n"
    assert "not found" in attach(belljar, run.data, "h1", "no-such-program", status=127).stderr
    assert attach(belljar, run.data, "h1", "sh", "-c", "kill -9 $$", status=137).stdout == ""
    assert (run.data / "control.sock").stat().st_mode & 0o777 == 0o600
    said = run.end()
    assert "attended: 'hostname' on h1" in said or "attended: 'true' on h1" in said, said


def attach_status(belljar, folder):
    return subprocess.run([belljar, "attach", folder, "h1", "--", "true"], capture_output=True, timeout=PATIENCE).returncode


def test_errors_of_attach(belljar, file, begin):
    run = begin("--real-time")
    assert attach(belljar, run.data, "h9", "date", status=2).stderr == "error: there is no host h9; there are: h1, h2, h3\n"
    nothing = attach(belljar, file.parent, "h1", "date", status=2).stderr
    assert nothing == f"error: no experiment that runs writes its results to {file.parent}\n"
    run.end()
    busy = {**NETWORK, "hosts": {**NETWORK["hosts"], "h1": {"processes": [{"path": "python3", "args": ["-c", "import time\nwhile True: time.sleep(0.001)"]}]}},
            "general": {"stop_time": "1000000 s"}}
    file.write_text(yaml.safe_dump(busy))
    free = begin("--force")
    said = attach(belljar, free.data, "h2", "date", status=2).stderr
    assert said == "error: the run is neither paused nor paced: pause it in its live view, or start it with --real-time or by 'belljar prompt'\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, which becomes another user")
def test_other_users_are_refused(belljar, file, begin):
    run = begin("--real-time")
    done = subprocess.run(["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", belljar, "attach", run.data, "h1", "--", "date"],
                          capture_output=True, text=True, timeout=PATIENCE)
    if "setpriv" in done.stderr:
        pytest.skip("that user cannot run the program")
    assert done.returncode == 2 and "belongs to another user" in done.stderr, done.stderr


def test_a_client_that_is_killed_ends_its_program(belljar, file, begin):
    run = begin("--real-time")
    client = subprocess.Popen([belljar, "attach", run.data, "h1", "--", "sleep", "100000"], stdin=subprocess.PIPE)
    until(lambda: "sleep" in attach(belljar, run.data, "h1", "ps", "-e").stdout, "the program")
    client.kill()
    client.wait()
    until(lambda: "sleep" not in attach(belljar, run.data, "h1", "ps", "-e").stdout, "its end")
    run.end()


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat") as status:
            return status.read().rsplit(") ", 1)[1][0] not in "ZX"
    except OSError:
        return False


@pytest.mark.parametrize("number", range(5))
def test_a_prompt_that_is_killed_leaves_nothing(belljar, file, open_terminal, number):
    draw = random.Random(number)
    terminal = open_terminal([belljar, "prompt", file, "-o", file.parent / "p.data"], cwd=file.parent)
    if number:
        terminal.expect(PROMPT)
        terminal.type("h1 sleep 100000000\r" if number % 2 else "h1 cat\r")
    time.sleep(draw.random())
    pid = terminal.process.pid
    # It starts no child between the two.
    terminal.process.send_signal(signal.SIGSTOP)
    children = [int(child) for child in open(f"/proc/{pid}/task/{pid}/children").read().split()]
    terminal.process.kill()
    terminal.process.wait()
    until(lambda: not any(is_running(child) for child in children), "the end of the run")
    assert "again" in prompt(belljar, file, "h1 echo again\n").stdout


def test_the_same_commands_at_the_same_times_give_the_same_packets(belljar, file):
    """What is typed comes at a time of its own, but what it does is simulated: here nothing depends on when it comes."""
    seen = []
    for workers in ("1", "3"):
        said = prompt(belljar, file, "h1 ping -c 3 h2\n", "--set", f"general.parallelism={workers}").stdout
        seen.append([line for line in said.splitlines() if "icmp_seq" in line or "rtt" in line])
    assert seen[0] == seen[1] and len(seen[0]) == 4


def test_the_example_is_for_a_prompt(belljar, workdir):
    done = subprocess.run([belljar, "prompt", EXAMPLES / "prompt.yaml", "-o", workdir / "example"], input="pingpair\n", capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0 and "0% dropped (2/2 received)" in done.stdout, done.stdout + done.stderr
