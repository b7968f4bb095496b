"""Nodes that run belljar-routed: a line of network namespaces of this machine, and the same as guests."""

import json
import os
import pathlib
import shutil
import subprocess
import warnings

import pytest
from conftest import until
from test_links import world

NOBODY = 65534


class Namespaces:
    """A line of network namespaces n0 - n1 - n2 ..., joined by veths: 10.9.K.1 and 10.9.K.2 are the ends of link K."""

    def __init__(self, count, directory, binary, address=True):
        self.prefix, self.count, self.directory, self.binary = f"routed{os.getpid()}-", count, directory, binary
        self.processes = []
        for n in range(count):
            self.ip("netns", "add", self.name(n))
            self.inside(n, "ip", "link", "set", "lo", "up")
            self.inside(n, "sysctl", "-qw", "net.ipv4.ip_forward=1")
        for k in range(count - 1):
            self.ip("link", "add", "right", "netns", self.name(k), "type", "veth", "peer", "name", "left", "netns", self.name(k + 1))
            for n, interface, host in ((k, "right", 1), (k + 1, "left", 2)):
                if address:
                    self.inside(n, "ip", "address", "add", f"10.9.{k}.{host}/24", "dev", interface)
                self.inside(n, "ip", "link", "set", interface, "up")

    def name(self, n):
        return f"{self.prefix}{n}"

    def interfaces(self, n):
        return [o for name, there in (("left", n > 0), ("right", n < self.count - 1)) if there for o in ("-i", name)]

    def addresses(self, n):
        return [f"10.9.{n - 1}.2"] * (n > 0) + [f"10.9.{n}.1"] * (n < self.count - 1)

    def ip(self, *args):
        subprocess.run(["ip", *args], check=True, capture_output=True, text=True)

    def inside(self, n, *command, check=True, timeout=600):
        done = subprocess.run(["ip", "netns", "exec", self.name(n), *map(str, command)], capture_output=True, text=True, timeout=timeout)
        assert not check or done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done

    def start(self, n, *args, program=None, user=()):
        log = open(self.directory / f"log{n}", "ab")
        command = ["ip", "netns", "exec", self.name(n), *user, program or self.binary, *map(str, args)]
        self.processes.append(subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL))
        return self.processes[-1]

    def control(self, n):
        return self.directory / f"control{n}"

    def daemon(self, n, protocol, *args, **more):
        return self.start(n, protocol, *self.interfaces(n), "--control", self.control(n), *args, **more)

    def show(self, n):
        shown = subprocess.run([self.binary, "show", "--json", "--control", self.control(n)], capture_output=True, text=True, timeout=600)
        return json.loads(shown.stdout) if shown.returncode == 0 else {}

    def routes(self, n):
        """The kernel's routes that a daemon has set: destination to next hop."""
        listed = json.loads(self.inside(n, "ip", "-j", "-4", "route").stdout)
        return {route["dst"]: route.get("gateway", route["dst"]) for route in listed if route.get("protocol") not in ("kernel",)}

    def expected(self, n):
        """The routes of node n: all addresses but its own, by its neighbours."""
        want = {}
        for m in range(self.count):
            for address in self.addresses(m):
                if m != n:
                    want[address] = f"10.9.{n}.2" if m > n else f"10.9.{n - 1}.1"
        return want

    def redirects(self, n):
        """1 or 0 for all interfaces of a node and for each: the kernel sends ICMP redirects unless both are 0."""
        which = ["all", *self.interfaces(n)[1::2]]
        return {name: int(self.inside(n, "sysctl", "-n", f"net.ipv4.conf.{name}.send_redirects").stdout) for name in which}

    def logs(self):
        return "".join(f"--- {n}\n{(self.directory / f'log{n}').read_text()[-800:]}" for n in range(self.count) if (self.directory / f"log{n}").exists())

    def wait(self, done):
        return until(done, self.logs, patience=300, pause=0.1)

    def ping(self, n, to, count, *options, afresh=False):
        """The output of a ping of which all packets are answered. Routes go on a busy machine now and then, whose daemons are silent for
        as long as it takes to believe that a link is lost: then it begins again, with `afresh` once no route is left of what was."""
        for _ in range(3):
            said = self.inside(n, "ping", "-n", "-c", count, "-W", "20", *options, to, check=False).stdout
            if f"{count} received" in said:
                return said
            warnings.warn(f"a ping from {n} to {to} begins again: {said[-300:]}", stacklevel=2)
            self.wait(lambda: not afresh or to not in self.routes(n))
        raise AssertionError(said + self.logs())

    def routed(self):
        """Waits until all nodes have all routes of OLSR."""
        self.wait(lambda: all(self.routes(n) == self.expected(n) for n in range(self.count)))

    def close(self):
        for process in self.processes:
            if process.poll() is None:
                process.terminate()
        for process in self.processes:
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
        for n in range(self.count):
            subprocess.run(["ip", "netns", "delete", self.name(n)], capture_output=True)


@pytest.fixture
def routed(programs):
    binary = programs / "belljar-routed"
    if not binary.exists():
        pytest.skip("cargo is not installed, so belljar-routed is not built")
    return binary


@pytest.fixture
def namespaces(routed, workdir):
    if os.geteuid() != 0:
        pytest.skip("only root makes network namespaces with veths between them")
    for program in ("ip", "sysctl", "ping"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    probe = subprocess.run(["ip", "netns", "add", f"probe{os.getpid()}"], capture_output=True, text=True)
    subprocess.run(["ip", "netns", "delete", f"probe{os.getpid()}"], capture_output=True)
    if probe.returncode != 0:
        pytest.skip(f"network namespaces cannot be made here: {probe.stderr.strip()}")
    made = []

    def make(count, **more):
        # One at a time: a measurement that is made again begins with another one.
        for line in made:
            line.close()
        made.append(Namespaces(count, workdir, routed, **more))
        return made[-1]

    yield make
    for line in made:
        line.close()


def guests(count, binary, protocol, *args, stop="40 s", end="35 s"):
    """The same line, simulated."""
    hosts, links = {}, []
    for n in range(count):
        interfaces = {name: f"10.9.{k}.{host}/24" for name, k, host, there in (("left", n - 1, 2, n > 0), ("right", n, 1, n < count - 1)) if there}
        options = [o for name in interfaces for o in ("-i", name)]
        hosts[f"n{n}"] = {"forwarding": True, "routes": [], "interfaces": interfaces, "processes": [
            {"path": str(binary), "args": [protocol, *options, *args], "expected_final_state": "running"},
            {"path": str(binary), "args": ["show", "--json"], "start_time": end}]}
        links += [{"between": [f"n{n - 1}:right", f"n{n}:left"], "latency": "1 ms"}] * (n > 0)
    return world(hosts, links, stop)


def final(shown):
    return {route["destination"]: (route["next_hop"], route["interface"], route["hops"]) for route in shown["routes"]}


def unprivileged(line, place):
    """What runs a program as nobody, and the binary where nobody can read it."""
    if shutil.which("setpriv") is None:
        pytest.skip("setpriv is not installed")
    os.chown(place, NOBODY, NOBODY)
    return ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"), shutil.copy(line.binary, place / "belljar-routed")


@pytest.fixture
def place():
    """A folder that the unprivileged reach."""
    made = pathlib.Path(f"/tmp/belljar-routed-test-{os.getpid()}")
    made.mkdir(mode=0o755)
    yield made
    shutil.rmtree(made)
