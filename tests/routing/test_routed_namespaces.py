"""belljar-routed: OLSR, AODV, the bridge and the updater in network namespaces."""

import contextlib
import json
import pathlib
import random
import re
import signal
import socket
import subprocess

import pytest
from routed_nodes import NOBODY, final, guests, namespaces, place, routed, unprivileged  # noqa: F401, the fixtures
from test_links import check_captures

pytestmark = pytest.mark.waits

FAST = ("--hello-interval", "500ms", "--tc-interval", "1s")


@pytest.mark.parametrize("count", [2, 3, 5])
def test_olsr_in_namespaces(namespaces, count):
    line = namespaces(count)
    daemons = [line.daemon(n, "olsr", *FAST) for n in range(count)]
    line.routed()
    line.ping(0, line.addresses(count - 1)[-1], 2)

    def settled():
        shown = line.show(0)
        return len(shown["routes"]) == len(line.expected(0)) == shown["routes_set"] and shown

    shown = line.wait(settled)
    assert shown["protocol"] == "olsr"
    assert shown["neighbors"][0]["address"] == "10.9.0.2" and shown["neighbors"][0]["symmetric"]
    for daemon, number in zip(daemons, [signal.SIGTERM, signal.SIGINT] * count):
        daemon.send_signal(number)
        assert daemon.wait(600) == 0, line.logs()
    assert all(line.routes(n) == {} for n in range(count)), "the routes are gone with the daemons"
    assert not any(line.control(n).exists() for n in range(count))


@pytest.mark.parametrize("count", [pytest.param(2, marks=pytest.mark.slow), pytest.param(3, marks=pytest.mark.slow), 5])
def test_aodv_in_namespaces(namespaces, count):
    line = namespaces(count)
    daemons = [line.daemon(n, "aodv") for n in range(count)]
    line.wait(lambda: all(line.show(n) for n in range(count)))
    far = line.addresses(count - 1)[-1]
    line.ping(0, far, 3, afresh=True)
    pinging = line.start(0, "-n", "-i", "0.5", far, program="ping")
    # A neighbour needs no route.
    line.wait(lambda: count == 2 or line.routes(0).get(far) == "10.9.0.2")
    pinging.terminate()

    def reported():
        # A search takes 21 s; a machine that stops all of this for longer than the ping waits lets it end first.
        lost = line.inside(0, "ping", "-n", "-c", "1", "-W", "60", "10.77.0.1", check=False)
        assert lost.returncode == 1, lost.stdout
        return "Destination Host Unreachable" in lost.stdout

    # who cannot be found is reported, not waited for
    line.wait(reported)
    # nobody uses the route any more
    line.wait(lambda: far not in line.routes(0))
    for daemon in daemons:
        daemon.terminate()
        assert daemon.wait(600) == 0, line.logs()
    assert all(line.routes(n) == {} for n in range(count))


def test_routes_follow_links_and_gateways(namespaces):
    line = namespaces(3)
    for n in range(3):
        line.daemon(n, "olsr", *FAST, *(("--hna", "192.168.77.0/24") if n == 2 else ()))
    line.wait(lambda: line.routes(0).get("192.168.77.0/24") == "10.9.0.2")
    line.inside(1, "ip", "link", "set", "right", "down")
    line.wait(lambda: "10.9.1.2" not in line.routes(0) and "192.168.77.0/24" not in line.routes(0))
    line.inside(1, "ip", "link", "set", "right", "up")
    line.wait(lambda: "192.168.77.0/24" in line.routes(0))


def test_an_updater_changes_routes_for_the_unprivileged(namespaces, place):
    line = namespaces(3)
    user, binary = unprivileged(line, place)
    try:
        daemons = []
        for n in range(3):
            line.start(n, "updater", "--socket", place / f"updater{n}", "--owner", NOBODY)
            line.wait((place / f"updater{n}").exists)
            daemons.append(line.start(n, "olsr", *line.interfaces(n), *FAST, "--port", 10698, "--control", place / f"control{n}",
                                      "--updater", place / f"updater{n}", program=binary, user=user))
        line.routed()
        line.ping(0, "10.9.1.2", 1)
        daemons[0].kill()
        line.wait(lambda: line.routes(0) == {})
        # without the updater it says what it lacks
        refused = line.inside(0, *user, binary, "olsr", "-i", "right", "--port", 10698, "--control", place / "other", check=False)
        assert refused.returncode == 1 and "CAP_NET_ADMIN" in refused.stderr and "--updater" in refused.stderr, refused.stderr
        for daemon in daemons[1:]:
            daemon.terminate()
            assert daemon.wait(600) == 0
        line.wait(lambda: line.routes(1) == {} and line.routes(2) == {})
    finally:
        line.close()


@pytest.mark.parametrize("protocol", ["olsr", "aodv"])
def test_redirects_are_off_while_a_daemon_runs(namespaces, protocol):
    line = namespaces(2)
    # What somebody else has switched off stays off.
    line.inside(1, "sysctl", "-qw", "net.ipv4.conf.all.send_redirects=0")
    daemons = [line.daemon(n, protocol) for n in range(2)]
    line.wait(lambda: line.redirects(0) == {"all": 0, "right": 0} and line.redirects(1) == {"all": 0, "left": 0})
    # An interface that comes again has its settings from "default".
    line.inside(0, "ip", "link", "delete", "right")
    line.ip("link", "add", "right", "netns", line.name(0), "type", "veth", "peer", "name", "left", "netns", line.name(1))
    assert line.redirects(0)["right"] == 1
    line.inside(0, "ip", "address", "add", "10.9.0.1/24", "dev", "right")
    for n, interface in enumerate(["right", "left"]):
        line.inside(n, "ip", "link", "set", interface, "up")
    line.wait(lambda: line.redirects(0)["right"] == 0)
    for daemon in daemons:
        daemon.terminate()
        assert daemon.wait(600) == 0, line.logs()
    assert line.redirects(0) == {"all": 1, "right": 1} and line.redirects(1) == {"all": 0, "left": 1}


def test_an_updater_switches_redirects_off(namespaces, place):
    line = namespaces(2)
    user, binary = unprivileged(line, place)
    own = line.start(0, "updater", "--socket", place / "updater", "--owner", NOBODY, "--namespace", line.name(1))
    line.wait((place / "updater").exists)
    daemons = [line.start(n, "olsr", *line.interfaces(n), *FAST, "--port", 10698, "--control", place / f"control{n}", "--updater", place / "updater",
                          *(["--namespace", line.name(n)] if n else []), program=binary, user=user) for n in range(2)]
    line.routed()
    assert line.redirects(0) == {"all": 0, "right": 0} and line.redirects(1) == {"all": 0, "left": 0}
    daemons[1].kill()
    line.wait(lambda: line.redirects(1) == {"all": 1, "left": 1})
    own.terminate()
    assert own.wait(600) == 0, line.logs()
    assert line.redirects(0) == {"all": 1, "right": 1}
    line.close()


def test_an_updater_lends_what_aodv_needs(namespaces, place):
    line = namespaces(3)
    user, binary = unprivileged(line, place)
    for n in range(3):
        line.start(n, "updater", "--socket", place / f"updater{n}", "--owner", NOBODY, "--lend")
        line.wait((place / f"updater{n}").exists)
        line.start(n, "aodv", *line.interfaces(n), "--control", place / f"control{n}", "--updater", place / f"updater{n}",
                   program=binary, user=user)
    line.wait(lambda: all((place / f"control{n}").exists() for n in range(3)))
    line.ping(0, "10.9.1.2", 3, afresh=True)
    pinging = line.start(0, "-n", "-i", "0.5", "10.9.1.2", program="ping")
    line.wait(lambda: line.routes(0).get("10.9.1.2") == "10.9.0.2")
    pinging.terminate()
    # without --lend it says what it lacks
    line.start(0, "updater", "--socket", place / "mean", "--owner", NOBODY)
    line.wait((place / "mean").exists)
    refused = line.inside(0, *user, binary, "aodv", "-i", "right", "--port", 10654, "--control", place / "other", "--updater", place / "mean", check=False)
    assert refused.returncode == 1 and "start it with --lend" in refused.stderr, refused.stderr
    line.close()


def test_one_updater_serves_several_namespaces(namespaces, place):
    line = namespaces(3)
    user, binary = unprivileged(line, place)
    names = [o for n in range(3) for o in ("--namespace", line.name(n))]
    log = open(line.directory / "log0", "ab")
    updater = [line.binary, "updater", "--socket", place / "updater", "--owner", str(NOBODY), "--lend", *names]
    line.processes.append(subprocess.Popen(updater, stdout=log, stderr=log, stdin=subprocess.DEVNULL))
    line.wait((place / "updater").exists)
    daemons = [line.start(n, "olsr", *line.interfaces(n), *FAST, "--control", place / f"control{n}", "--updater", place / "updater",
                          "--namespace", line.name(n), program=binary, user=user) for n in range(3)]

    # The others stand still meanwhile: it would not be long until they notice that their neighbour has gone.
    def stopped():
        line.routed()
        signalled(daemons[:2], signal.SIGSTOP)
        return all(line.routes(n) == line.expected(n) for n in range(3)) or signalled(daemons[:2], signal.SIGCONT)

    line.wait(stopped)
    daemons[2].terminate()
    assert daemons[2].wait(600) == 0
    assert line.routes(2) == {} and line.routes(1) == line.expected(1), "only its own namespace's routes go"
    signalled(daemons[:2], signal.SIGCONT)
    refused = line.inside(2, *user, binary, "olsr", "-i", "left", "--port", 10698, "--control", place / "other", "--updater", place / "updater",
                          "--namespace", "elsewhere", check=False)
    assert refused.returncode == 1 and "'elsewhere' is not served: start the updater with --namespace elsewhere" in refused.stderr
    line.close()


def signalled(processes, number):
    for process in processes:
        process.send_signal(number)


def test_an_updater_survives_nonsense(namespaces, place):
    line = namespaces(2)
    updater = line.start(0, "updater", "--socket", place / "updater")
    line.wait((place / "updater").exists)

    def ask(text):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(place / "updater"))
            client.settimeout(300)
            client.sendall(text)
            client.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: client.recv(65536), b"")).decode()

    dice = random.Random(1)
    route = {"destination": "10.50.0.1", "bits": 32, "gateway": None, "interface": 1, "metric": 5, "source": None}
    for _ in range(100):
        text = bytearray(json.dumps({dice.choice(["add", "remove", "lend", "namespace"]): route}).encode())
        for _ in range(dice.randrange(1, 5)):
            text[dice.randrange(len(text))] = dice.randrange(256)
        ask(bytes(text) + b"\n")
    assert '"error"' in ask(b"{}\n") and '"error"' in ask(json.dumps({"add": {**route, "bits": 33}}).encode() + b"\n")
    assert "it lends nothing" in ask(b'{"lend":{"port":698}}\n')
    for name in ("", "..", "../../neigh", "nothing"):
        assert '"error"' in ask(json.dumps({"redirects_off": name}).encode() + b"\n"), name
    # a line without an end is cut off after 16 MiB
    with contextlib.suppress(OSError):
        ask(b"x" * (64 << 20))
    most = int(re.search(r"VmHWM:\s+(\d+) kB", pathlib.Path(f"/proc/{updater.pid}/status").read_text())[1])
    assert most < 48 << 10, f"{most} kB"
    assert updater.poll() is None and ask(b'{"replace_all":[]}\n') == '{"ok":true}\n'
    assert line.routes(0) == {}


def test_a_file_configures_a_node(namespaces, workdir):
    line = namespaces(2)
    for n in range(2):
        conf = workdir / f"node{n}.yaml"
        conf.write_text(f"# node {n}\nprotocol: olsr\ninterface: [{'right' if n == 0 else 'left'}]\nhello-interval: 500ms\n"
                        f"tc-interval: 1s\ncontrol: {line.control(n)}\nhna: [192.168.{n}.0/24]\n")
        line.start(n, "run", conf)
    line.wait(lambda: line.routes(0).get("192.168.1.0/24") == "10.9.0.2")
    wrong = workdir / "wrong.yaml"
    for text, said in (
        ("protocol: olsr\ninterface: eth7\n", "wrong.yaml:2: there is no interface 'eth7'"),
        ("protocol: olsr\n\nhelo-interval: 2s\n", "wrong.yaml:3: 'helo-interval' is not a key of olsr: there are interface, "),
        ("interface: right\nprotocol: olsr\nhello-interval: 1ms\n", "wrong.yaml:3: 'hello-interval' cannot be '1ms': '1ms' is not between"),
        ("protocol: olsr\ninterface: right\nhna: 10.1.0.0/8\n", "wrong.yaml:3: 'hna' cannot be '10.1.0.0/8'"),
    ):
        wrong.write_text(text)
        refused = line.inside(0, line.binary, "run", wrong, check=False)
        assert refused.returncode == 1 and said in refused.stderr, refused.stderr


def test_errors_name_the_remedy(namespaces, workdir):
    line = namespaces(2)
    fails = lambda *args: line.inside(0, line.binary, *args, "--control", workdir / "other", check=False)
    said = fails("olsr", "-i", "eth7")
    assert said.returncode == 1 and said.stderr == "belljar-routed: there is no interface 'eth7': `ip link` lists those that there are\n"
    assert "interface 'right' is named twice" in fails("aodv", "-i", "right", "-i", "right").stderr
    line.inside(1, "ip", "address", "flush", "dev", "left")
    bare = line.inside(1, line.binary, "olsr", "-i", "left", "--control", workdir / "other", check=False)
    assert bare.returncode == 1 and "interface 'left' has no IPv4 address: give it one" in bare.stderr, bare.stderr
    line.daemon(0, "olsr")
    line.wait(lambda: line.show(0))
    assert re.search(r"UDP port 698 is in use: .*--port", fails("olsr", "-i", "right").stderr)
    assert "is in use by another process" in line.inside(0, line.binary, "aodv", "-i", "right", "--control", line.control(0), check=False).stderr
    assert "not between 10ms and 3600s" in fails("olsr", "-i", "right", "--hello-interval", "1ms").stderr
    assert "the network is 10.0.0.0/8" in fails("olsr", "-i", "right", "--hna", "10.1.0.0/8").stderr
    assert "is the daemon running" in line.inside(0, line.binary, "show", "--control", workdir / "nobody", check=False).stderr


def test_a_killed_daemon_leaves_nothing_to_its_successor(namespaces):
    line = namespaces(2)
    first = [line.daemon(n, "olsr", *FAST) for n in range(2)]

    # `ip netns exec` becomes the program, so this is the daemon itself
    def stopped():
        first[0].send_signal(signal.SIGSTOP)
        return line.routes(0) == line.expected(0) or first[0].send_signal(signal.SIGCONT)

    line.wait(stopped)
    first[0].kill()
    first[0].wait()
    first[1].terminate()
    first[1].wait(600)
    assert line.routes(0) == line.expected(0), "nobody has removed them"
    line.daemon(0, "olsr", *FAST)
    line.wait(lambda: line.routes(0) == {})


@pytest.mark.parametrize("count", [2, 3, 5])
def test_olsr_as_guests(run_experiment, routed, namespaces, count):
    done = run_experiment(guests(count, routed, "olsr"), pcap=True)
    simulated = [final(json.loads(done.streams(f"n{n}", "belljar-routed")[1].read_text())) for n in range(count)]
    line = namespaces(count)
    for n in range(count):
        line.daemon(n, "olsr", *FAST)
    line.routed()
    # The same binary, the same routes.
    line.wait(lambda: [final(line.show(n)) for n in range(count)] == simulated)
    check_captures(done)


def test_bridges_in_namespaces(namespaces):
    # n0 and n4 are stations; n1, n2 and n3 bridges, whose links have room for the header
    line = namespaces(5, address=False)
    for n, address in ((0, "10.1.0.1/24"), (4, "10.1.0.2/24")):
        line.inside(n, "ip", "address", "add", address, "dev", "right" if n == 0 else "left")
    for n, interface in ((1, "right"), (2, "left"), (2, "right"), (3, "left")):
        line.inside(n, "ip", "link", "set", interface, "mtu", "1600")
    line.start(1, "bridge", "-c", "left", "-i", "right", "--control", line.control(1))
    line.start(2, "bridge", "-i", "left", "-i", "right", "--control", line.control(2))
    line.start(3, "bridge", "-c", "right", "-i", "left", "--control", line.control(3))
    line.wait(lambda: len(line.show(1).get("routes", ())) == 2)
    line.ping(0, "10.1.0.2", 3, "-s", "1472")
