"""`belljar deploy`: hosts on machines that are reached by ssh, here sshd on this machine, as root in network namespaces."""

import json
import os
import pathlib
import pwd
import shutil
import signal
import struct
import subprocess

import pytest
from conftest import begun, free_port, until

IS_ROOT = os.geteuid() == 0
SSHD = shutil.which("sshd") or shutil.which("/usr/sbin/sshd")
pytestmark = [
    pytest.mark.waits,
    pytest.mark.needs("ssh", "ssh-keygen"),
    pytest.mark.skipif(SSHD is None, reason="sshd is not installed: apt install openssh-server"),
    pytest.mark.skipif(IS_ROOT and not shutil.which("ip"), reason="ip is not installed: apt install iproute2"),
]
CONFIG = """
Port {port}
ListenAddress {address}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/key.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin prohibit-password
"""


class Machines:
    """Machines "alpha" and "beta", and how commands are run that reach them."""

    def __init__(self, folder):
        self.folder, self.processes, self.prefix = folder, [], []
        for name in ("key", "host_key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
        if IS_ROOT:
            # Where sshd has its own folder for what it does without rights.
            pathlib.Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
            hub = self.namespace()
            self.prefix = ["nsenter", "-t", str(hub), "-n"]
            self.ip(hub, "link add br0 type bridge")
            self.ip(hub, "address add 10.77.0.254/24 dev br0")
            self.ip(hub, "link set br0 up")
            self.addresses = {}
            for number, name in enumerate(("alpha", "beta"), 1):
                own = self.namespace()
                self.ip(hub, f"link add v{number} type veth peer name eth0 netns {own}")
                self.ip(hub, f"link set v{number} master br0 up")
                self.ip(own, f"address add 10.77.0.{number}/24 dev eth0")
                self.ip(own, "link set eth0 up")
                self.serve(name, f"10.77.0.{number}", 22, ["nsenter", "-t", str(own), "-n"])
                self.addresses[name] = (f"10.77.0.{number}", 22)
        else:
            self.addresses = {name: (f"127.0.0.{number}", free_port()) for number, name in enumerate(("alpha", "beta"), 1)}
            for name, (address, port) in self.addresses.items():
                self.serve(name, address, port, [])

    def namespace(self):
        process = subprocess.Popen(["unshare", "-n", "sh", "-c", "ip link set lo up; echo up; exec sleep 1000"], stdout=subprocess.PIPE)
        self.processes.append(process)
        process.stdout.readline()
        return process.pid

    def ip(self, namespace, words):
        subprocess.run(["nsenter", "-t", str(namespace), "-n", "ip", *words.split()], check=True)

    def serve(self, name, address, port, prefix):
        config = self.folder / f"{name}.conf"
        config.write_text(CONFIG.format(folder=self.folder, address=address, port=port))
        self.processes.append(subprocess.Popen([*prefix, SSHD, "-D", "-e", "-f", config], stderr=open(self.folder / f"{name}.log", "w")))

    def inventory(self, **changes):
        machines = {}
        for name, (address, port) in self.addresses.items():
            (self.folder / name).mkdir(exist_ok=True)
            machines[name] = {"address": f"{pwd.getpwuid(os.geteuid()).pw_name}@{address}", "port": port, "identity": str(self.folder / "key"),
                              "directory": str(self.folder / name), "ssh_options": ["StrictHostKeyChecking=no", f"UserKnownHostsFile={self.folder}/known"]}
            machines[name].update(changes.get(name, {}))
        return {"machines": machines}

    def wait(self):
        """Until they answer."""
        for name, (address, port) in self.addresses.items():
            command = [*self.prefix, "python3", "-c", f"import socket; socket.create_connection(('{address}', {port}), 10)"]
            until(lambda: subprocess.run(command, capture_output=True).returncode == 0, (self.folder / f"{name}.log").read_text)

    def left(self):
        """What a run has left on them."""
        marked = []
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if b"BELLJAR_DEPLOYMENT=" in (process / "environ").read_bytes():
                    marked.append((process / "cmdline").read_bytes())
            except OSError:
                pass
        return marked + [path for name in self.addresses for path in (self.folder / name).glob("*")]

    def end(self):
        for process in reversed(self.processes):
            process.terminate()
            process.wait()


@pytest.fixture(scope="module")
def machines(tmp_path_factory):
    found = Machines(tmp_path_factory.mktemp("machines"))
    try:
        found.wait()
        yield found
    finally:
        found.end()


@pytest.fixture
def start(belljar, machines, tmp_path):
    started = []

    def run(hosts, stop=20, inventory=None, **more):
        file = {"general": {"stop_time": f"{stop} s"}, "network": {"graph": {"type": "1_gbit_switch"}},
                "hosts": {name: {"network_node_id": 0, "processes": processes} for name, processes in hosts.items()}, **more}
        (tmp_path / "exp.yaml").write_text(json.dumps(file))
        (tmp_path / "machines.yaml").write_text(json.dumps(inventory or machines.inventory()))
        command = [*machines.prefix, belljar, "deploy", tmp_path / "exp.yaml", "--inventory", tmp_path / "machines.yaml", "-o", tmp_path / "data"]
        started.append(subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        return started[-1]

    yield run
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def finish(process, status=0):
    out, err = process.communicate(timeout=600)
    assert process.returncode == status, out + err
    return out, err


def output(tmp_path, host, program, stream="stdout"):
    files = sorted((tmp_path / "data/hosts" / host).glob(f"{program}.*.{stream}"))
    assert len(files) == 1, list((tmp_path / "data/hosts" / host).iterdir())
    return files[0].read_text()


def nothing_left(machines):
    until(lambda: not machines.left(), machines.left)


PORT = 8765
SERVER = f"import http.server; http.server.HTTPServer(('', {PORT}), http.server.SimpleHTTPRequestHandler).serve_forever()"


def test_hosts_on_two_machines_speak_and_their_results_come_back(machines, start, tmp_path, belljar):
    (tmp_path / "script.sh").write_text("#!/bin/sh\necho copied $0 $1 $GREETING $(cat input)\necho made > made\nexit 3\n")
    (tmp_path / "script.sh").chmod(0o755)
    (tmp_path / "template/hosts/beta").mkdir(parents=True)
    (tmp_path / "template/hosts/beta/input").write_text("of the template")
    address = f"http://{'alpha' if IS_ROOT else machines.addresses['alpha'][0]}:{PORT}/page"
    # Again until the server is there, with its page.
    fetch = ("import time, urllib.request\nwhile True:\n try: print(urllib.request.urlopen('%s').read().decode())\n"
             " except OSError: time.sleep(0.1)\n else: break") % address
    hosts = {
        "alpha": [{"path": "python3", "args": ["-u", "-c", SERVER], "expected_final_state": "running"},
                  {"path": "sh", "args": ["-c", "echo served > new; mv new page; echo $HOME"]}],
        "beta": [{"path": "python3", "args": ["-c", fetch], "start_time": "2 s"},
                 {"path": str(tmp_path / "script.sh"), "args": ["it's"], "environment": {"GREETING": "hello  there"}, "expected_final_state": {"exited": 3}},
                 {"path": "sleep", "args": "100", "start_time": "1 s", "shutdown_time": "2 s", "expected_final_state": {"signaled": "SIGTERM"}}],
    }
    more = {"general": {"stop_time": "12 s", "template_directory": str(tmp_path / "template")},
            "properties": [{"name": "served", "sometimes": "^served$", "files": "stdout", "process": 0, "hosts": "beta"},
                           {"name": "made", "always": "^made$", "files": "made", "hosts": "beta"}]}
    out, err = finish(start(hosts, **more))
    assert output(tmp_path, "beta", "python3") == "served\n\n"
    said = output(tmp_path, "beta", "script.sh")
    assert said.startswith("copied ") and said.endswith("it's hello there of the template\n"), said
    assert (tmp_path / "data/hosts/beta/made").read_text() == "made\n"
    assert "all 5 processes ended as expected" in out and "all 2 properties hold" in out and "machine alpha: clock " in out, out
    deployment = json.loads((tmp_path / "data/deployment.json").read_text())
    for name in ("alpha", "beta"):
        machine = deployment["machines"][name]
        # They have this machine's clock.
        assert abs(machine["clock_offset"]) <= machine["clock_uncertainty"] + 0.001 and machine["hosts"] == [name]
        assert 0 <= machine["latest_start"] < 5, machine
    statistics = json.loads((tmp_path / "data/sim-stats.json").read_text())
    sleep = statistics["hosts"]["beta"]["processes"][2]
    assert sleep["started"] >= 1 and sleep["ended"] >= 2 and "SIGTERM" in sleep["state"], sleep
    assert subprocess.run([belljar, "inspect", tmp_path / "data"], capture_output=True).returncode == 0
    nothing_left(machines)


def test_the_first_interrupt_ends_the_run_with_its_results(machines, start, tmp_path):
    daemon = "setsid sh -c 'sleep 1000' & echo begun; sleep 1000"
    run = start({"alpha": [{"path": "sh", "args": ["-c", daemon]}], "beta": []}, stop=600)
    begun(run, lambda: list(machines.folder.glob("alpha/*/state/*.start")))
    until(lambda: any(file.read_bytes() == b"begun\n" for file in machines.folder.glob("alpha/*/state/*.stdout")))
    run.send_signal(signal.SIGINT)
    out, _ = finish(run, 130)
    assert "stopped early: interrupted" in out and output(tmp_path, "alpha", "sh") == "begun\n"
    nothing_left(machines)


@pytest.mark.parametrize("what", ["the tool", "ssh"])
def test_a_kill_leaves_nothing_on_the_machines(machines, start, what):
    hosts = {name: [{"path": "sh", "args": ["-c", "setsid sleep 1000 & sleep 1000"]}] for name in ("alpha", "beta")}
    run = start(hosts, stop=600)
    begun(run, lambda: len(list(machines.folder.glob("*/*/state/*.start"))) == 2)
    if what == "the tool":
        run.kill()
        run.communicate()
    else:
        children = pathlib.Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()
        os.kill(int(children[0]), signal.SIGKILL)
        _, err = finish(run, 1)
        assert err.count("error: ") == 1 and "error: machine 'alpha'" in err and "the connection was lost" in err, err
    nothing_left(machines)


def test_a_machine_that_cannot_be_reached_is_one_error(machines, start):
    run = start({"alpha": [], "beta": []}, inventory=machines.inventory(beta={"port": 9}))
    _, err = finish(run, 1)
    assert err.count("error: ") == 1 and "error: machine 'beta'" in err and "it cannot be reached: ssh: connect to host" in err, err
    nothing_left(machines)


def test_what_a_machine_lacks_is_one_error(machines, start, tmp_path):
    run = start({"alpha": [], "beta": []}, inventory=machines.inventory(alpha={"directory": "/proc/none"}))
    _, err = finish(run, 1)
    assert "error: machine 'alpha'" in err and "no folder can be made there" in err, err
    shutil.rmtree(tmp_path / "data")
    # A program for another processor, as far as its header goes.
    other = tmp_path / "other"
    other.write_bytes(b"\x7fELF" + bytes([2, 1, 1]) + bytes(9) + struct.pack("<HH", 2, 183) + bytes(100))
    other.chmod(0o755)
    _, err = finish(start({"alpha": [{"path": str(other)}], "beta": []}), 1)
    assert f"it is of architecture {os.uname().machine}, and '{other}' was made for aarch64" in err, err
    nothing_left(machines)


def test_what_cannot_be_deployed_is_refused_before_anything(start):
    run = start({"alpha": [{"path": "true", "user": "daemon"}], "beta": [{"model": {"type": "sink", "port": 5001}}]},
                events=[{"at": "1 s", "crash": "alpha"}], properties=[{"name": "quiet", "never": "RST", "packets": "eth0"}])
    _, err = finish(run, 2)
    for words in ("property 'quiet': a deployment captures no packets", "'true' is to run as a user", "traffic models such as 'sink'", "events change simulated"):
        assert words in err, err
