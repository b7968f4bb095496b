"""`belljar attach` and `belljar prompt --emulate`: programs on emulated hosts, as root and as an ordinary user, driven through pseudo-terminals."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import PATIENCE, until

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from terminal import Terminal  # noqa: E402

IS_ROOT = os.geteuid() == 0
PROMPT = "belljar> "
NETWORK = """general: {stop_time: 600 s}
switches: [s1]
links:
- {between: [h1, s1], latency: 1 ms}
- {between: [h2, s1], latency: 20 ms}
hosts: {h1: {}, h2: {}}
"""


def can_make_namespaces():
    return subprocess.run(["unshare", "-Urn", "true"], capture_output=True).returncode == 0


pytestmark = [pytest.mark.waits, pytest.mark.skipif(not (IS_ROOT or can_make_namespaces()), reason="needs root, or user namespaces")]


class User:
    """The user who runs the experiment, in a folder of its own."""

    def __init__(self, belljar, folder, prefix):
        self.belljar, self.folder, self.prefix = belljar, folder, prefix
        self.data = folder / "emu"
        (folder / "exp.yaml").write_text(NETWORK)
        self.opened = []

    def command(self, *arguments):
        return [*self.prefix, str(self.belljar), *map(str, arguments)]

    def run(self, *arguments, text="", status=0):
        done = subprocess.run(self.command(*arguments), input=text, capture_output=True, text=True, timeout=PATIENCE, cwd=self.folder)
        assert done.returncode == status, done.stdout + done.stderr
        return done

    def attach(self, host, *command, **options):
        return self.run("attach", self.data, host, *(["--", *command] if command else []), **options)

    def terminal(self, *arguments, **options):
        self.opened.append(Terminal(self.command(*arguments), cwd=self.folder, env={"HOME": str(self.folder)}, **options))
        return self.opened[-1]

    def emulate(self, *options):
        command = self.command("emulate", "exp.yaml", "-o", self.data, "--no-progress", *options)
        self.process = subprocess.Popen(command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        sockets = [self.data / f".emulation/{host}/attach.sock" for host in ("h1", "h2")]
        until(lambda: all(socket.exists() for socket in sockets) or self.process.poll() is not None, "the hosts")
        return self.process

    def end(self):
        self.process.send_signal(signal.SIGINT)
        return self.process.communicate(timeout=PATIENCE)[0]

    def statistics(self):
        return json.loads((self.data / "sim-stats.json").read_text())

    def close(self):
        for terminal in self.opened:
            terminal.close()
        if process := getattr(self, "process", None):
            process.kill()
            process.communicate()


@pytest.fixture(params=["the user", "nobody"])
def user(request, belljar):
    if request.param == "nobody" and not (IS_ROOT and can_make_namespaces()):
        pytest.skip("as an ordinary user all is rootless already, or user namespaces are not allowed here")
    folder = Path(subprocess.run(["mktemp", "-d"], capture_output=True, text=True, check=True).stdout.strip())
    folder.chmod(0o755)
    prefix = []
    if request.param == "nobody":
        copy = folder / "belljar"
        copy.write_bytes(Path(belljar).read_bytes())
        copy.chmod(0o755)
        belljar, prefix = copy, ["setpriv", "--reuid", "nobody", "--regid", "nogroup", "--clear-groups"]
    one = User(belljar, folder, prefix)
    if prefix:
        subprocess.run(["chown", "-R", "nobody", folder], check=True)
    yield one
    one.close()
    subprocess.run(["rm", "-rf", folder], check=False)


def test_programs_are_added_to_a_host_with_the_clients_streams(user):
    user.emulate()
    assert user.attach("h1", "hostname").stdout == "h1\n"
    done = user.attach("h2", "sh", "-c", "cat; echo error >&2; exit 3", text="through\n" * 10_000, status=3)
    assert (done.stdout, done.stderr) == ("through\n" * 10_000, "error\n")
    assert "not found" in user.attach("h1", "no-such-program", status=127).stderr
    user.attach("h1", "sh", "-c", "kill -9 $$", status=137)
    assert user.attach("h1", "sh", "-c", "echo seen > file; cat file").stdout == "seen\n"
    assert (user.data / "hosts/h1/file").read_text() == "seen\n", "the files are the host's"
    assert user.attach("h9", "date", status=2).stderr == "error: there is no host h9; there are: h1, h2\n"
    assert user.attach("../h1", "date", status=2).stderr == "error: there is no host ../h1; there are: h1, h2\n"
    assert (user.data / ".emulation/h1/attach.sock").stat().st_mode & 0o777 == 0o600
    said = user.end()
    assert "attended: 'hostname' on h1 and 4 more, by hand: this run cannot be reproduced" in said, said
    first = user.statistics()["attended"][0]
    assert first["host"] == "h1" and first["command"] == "hostname" and first["ended"] >= first["started"]
    assert user.run("attach", user.data, "h1", status=2).stderr == f"error: no experiment that runs writes its results to {user.data}\n"


def test_a_run_that_ends_at_once_names_what_was_attached(user):
    """The hosts take programs before the experiment begins."""
    user.emulate()
    user.attach("h1", "hostname")
    assert "attended: 'hostname' on h1, by hand: this run cannot be reproduced" in user.end()


def test_a_shell_has_a_terminal_of_the_host(user):
    user.emulate()
    terminal = user.terminal("attach", user.data, "h1", "--", "sh", rows=30, columns=100)
    terminal.expect("[#$] ")
    terminal.type("stty size; tty; hostname\r")
    assert "30 100\r\n/dev/pts/0\r\nh1\r\n" in terminal.expect("h1\r\n")
    terminal.resize(40, 120)
    time.sleep(0.5)
    terminal.type("stty size\r")
    terminal.expect("40 120\r\n")
    terminal.type("sleep 1000\r")
    time.sleep(0.5)
    terminal.type("\x03")
    terminal.type("echo $?\r")
    terminal.expect("130\r\n")
    terminal.type("exit 5\r")
    assert terminal.end() == 5, terminal.shown
    assert not terminal.is_raw()
    user.end()


def test_a_client_that_is_killed_ends_its_program(user):
    user.emulate()
    terminal = user.terminal("attach", user.data, "h1", "--", "sleep", "12345")
    until(lambda: "12345" in user.attach("h1", "ps", "-ef").stdout, "the program")
    terminal.process.kill()
    terminal.close()
    user.opened.clear()
    until(lambda: "sleep 12345" not in user.attach("h1", "ps", "-ef").stdout, "its end")
    user.end()


def test_other_users_are_refused(user):
    if not user.prefix:
        pytest.skip("root may attach everywhere")
    user.emulate()
    done = subprocess.run(["setpriv", "--reuid", "65533", "--regid", "65533", "--clear-groups", str(user.belljar), "attach", str(user.data), "h1", "--", "date"],
                          capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 2 and done.stderr.startswith("error: "), done.stdout + done.stderr
    # Root may.
    done = subprocess.run([str(user.belljar), "attach", str(user.data), "h1", "--", "hostname"], capture_output=True, text=True, timeout=PATIENCE)
    assert done.stdout == "h1\n", done.stderr
    user.end()


def test_the_clock_of_a_dilated_host_is_slow(user):
    user.emulate("--tdf", "10")
    began = time.monotonic()
    user.attach("h1", "sleep", "0.3")
    assert time.monotonic() - began >= 3
    user.end()


def test_the_prompt_over_an_emulation(user):
    text = "pingall\nh1 ping -c 2 h2\nlink h2 s1 down\nh1 ping -c 1 -W 1 h2\nlink h2 s1 up\nh1 sleep 5; echo late > f &\nh9 date\nwait 1 s\n"
    done = user.run("prompt", "exp.yaml", "--emulate", "-o", user.data, text=text)
    assert "*** Results: 0% dropped (2/2 received)" in done.stdout
    assert [line.split(", ")[1] for line in done.stdout.splitlines() if "transmitted" in line] == ["2 received", "0 received"]
    assert "error: there is no command or host 'h9'" in done.stderr
    assert "attended: " in done.stdout and len(user.statistics()["attended"]) >= 5
    assert not (user.data / "hosts/h1/f").exists(), "it was killed with its host"


def test_the_prompt_on_a_terminal(user):
    terminal = user.terminal("prompt", "exp.yaml", "--emulate", "-o", user.data)
    terminal.expect(PROMPT)
    terminal.type("h1 sleep 1000; echo interrupted\r")
    time.sleep(0.5)
    terminal.type("\x03")
    terminal.expect(PROMPT)
    terminal.type("h2 hostname\r")
    terminal.expect("h2\r\n")
    terminal.expect(PROMPT)
    terminal.type("exit\r")
    assert terminal.end() == 0, terminal.shown
    assert not terminal.is_raw()


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1][0] not in "ZX"
    except OSError:
        return False


def below(pid):
    """Processes below one."""
    found = [pid]
    for process in found:
        for children in Path(f"/proc/{process}/task").glob("*/children"):
            found += [int(child) for child in children.read_text().split()]
    return found[1:]


@pytest.mark.parametrize("number", range(4))
def test_a_prompt_that_is_killed_leaves_no_process(user, number):
    draw = random.Random(number)
    terminal = user.terminal("prompt", "exp.yaml", "--emulate", "-o", user.data)
    if number:
        terminal.expect(PROMPT)
        terminal.type("h1 sleep 1000\r" if number % 2 else "h2 cat\r")
    time.sleep(draw.random())
    all_of_it = below(terminal.process.pid)
    terminal.process.kill()
    until(lambda: not any(is_running(process) for process in all_of_it), "the end of all processes")
    user.run("emulate", "--clean", user.data) if user.data.exists() else None
    assert not (user.data / ".emulation").exists()
