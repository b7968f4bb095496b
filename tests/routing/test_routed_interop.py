"""belljar-routed and others: olsrd and ns-3's OLSR, natively and simulated; tshark; the protocol of the guide."""

import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest
from conftest import EXAMPLES, until
from routed_nodes import final, guests, namespaces, routed  # noqa: F401, the fixtures
from test_links import world

pytestmark = pytest.mark.waits


def test_olsrd_is_understood(namespaces, workdir):
    """A line of three with olsrd in the middle and at the end. BELLJAR_OLSRD names its binary."""
    olsrd = os.environ.get("BELLJAR_OLSRD")
    if not olsrd:
        pytest.skip("BELLJAR_OLSRD does not name an olsrd to speak with")
    line = namespaces(3)
    # olsrd believes in a link only if both ends tell of it in TC messages
    line.daemon(0, "olsr", "--tc-redundancy", 2)
    for n in (1, 2):
        conf = workdir / f"olsrd{n}.conf"
        interfaces = " ".join(f'"{name}"' for name in line.interfaces(n) if name != "-i")
        conf.write_text(f'DebugLevel 0\nLinkQualityLevel 0\nUseHysteresis no\nLockFile "{workdir}/lock{n}"\nInterface {interfaces}\n{{\n}}\n')
        line.start(n, "-f", conf, "-nofork", program=olsrd)
    line.wait(lambda: line.routes(0) == line.expected(0))
    line.wait(lambda: {"10.9.0.1"} <= set(line.routes(2)))
    line.ping(0, "10.9.1.2", 2)


@pytest.mark.needs("tshark", "ping")
@pytest.mark.parametrize("protocol", ["olsr", "aodv"])
def test_tshark_reads_all_packets_without_a_remark(run_experiment, routed, protocol):
    experiment = guests(5, routed, protocol, *(("--hna", "192.168.7.0/24", "--hysteresis") if protocol == "olsr" else ("--rrep-ack",)))
    experiment["hosts"]["n0"]["processes"].append(
        {"path": "ping", "args": ["-n", "-c", "20", "10.9.3.2"], "start_time": "10 s", "expected_final_state": {"exited": 0}})
    experiment["events"] = [{"at": "18 s", "link_down": "n3:right-n4:left", "for": "4 s"}]
    done = run_experiment(experiment, pcap=True)
    seen = set()
    kind, port = {"olsr": ("olsr.message_type", 698), "aodv": ("aodv.type", 654)}[protocol]
    for host in ("n1", "n3"):
        fields = ["frame.number", kind, "_ws.malformed", "_ws.expert.severity"]
        command = ["tshark", "-r", done.path / "hosts" / host / "left.pcap", "-Y", f"udp.port == {port} && !icmp", "-T", "fields"]
        read = subprocess.run([*command, *[o for field in fields for o in ("-e", field)]], capture_output=True, text=True, check=True)
        for line in read.stdout.splitlines():
            _, kinds, malformed, severities = line.split("\t")
            # It notes (0x400000) that the TTL is 1, as it is to be; from warnings on it remarks on nothing.
            assert kinds and not malformed and all(int(one) <= 0x400000 for one in severities.split(",") if one), line
            seen.update(kinds.split(","))
    # HELLO, TC, MID, HNA; RREQ, RREP, RERR, RREP-ACK
    assert seen == {"1", "2", "3", "4"}, seen


def test_olsrd_as_a_guest(run_experiment, routed, workdir):
    """olsrd in the middle and at the end of a simulated line. BELLJAR_OLSRD names its binary."""
    olsrd = os.environ.get("BELLJAR_OLSRD")
    if not olsrd:
        pytest.skip("BELLJAR_OLSRD does not name an olsrd to speak with")
    experiment = guests(3, routed, "olsr", "--tc-redundancy", "2")
    for n, interfaces in ((1, '"left" "right"'), (2, '"left"')):
        conf = workdir / f"olsrd{n}.conf"
        conf.write_text(f'DebugLevel 0\nLinkQualityLevel 0\nUseHysteresis no\nLockFile "/tmp/olsrd.lock"\nInterface {interfaces}\n{{\n}}\n')
        experiment["hosts"][f"n{n}"]["processes"] = [{"path": olsrd, "args": ["-f", str(conf), "-nofork"], "expected_final_state": "running"},
                                                     {"path": "ip", "args": ["-j", "route"], "start_time": "35 s"}]
    experiment["hosts"]["n0"]["processes"].append({"path": "ping", "args": ["-n", "-c", "2", "10.9.1.2"], "start_time": "30 s"})
    done = run_experiment(experiment, pcap=True)
    assert "2 received" in done.text("n0", "ping")
    assert {"10.9.0.2/32", "10.9.1.1/32", "10.9.1.2/32"} == set(final(json.loads(done.streams("n0", "belljar-routed")[1].read_text())))
    assert "10.9.0.1" in {route["dst"] for route in json.loads(done.text("n2", "ip"))}


DISTANCE_VECTOR = EXAMPLES / "programs" / "distance_vector.py"


@pytest.mark.needs("ping", "ip")
def test_the_protocol_of_the_guide_simulated(run_experiment):
    done = run_experiment(EXAMPLES / "distance-vector.yaml")
    hops = re.findall(r"(\d+)\.\d+ 10\.0\.23\.3 (unreachable|by \S+)", done.text("n1", "distance_vector.py"))
    since = [(int(second) - 946684800, how) for second, how in hops]
    assert since == [(0, "by 10.0.12.2,"), (18, "unreachable"), (18, "by 10.0.51.5,"), (31, "by 10.0.12.2,")], since
    assert "29 received" in done.text("n1", "ping")
    routes = [file.read_text() for file in done.streams("n1", "ip")]
    assert "10.0.23.3 via 10.0.12.2 dev eth0 proto 153" in routes[-2] and "10.0.23.3 via 10.0.51.5 dev eth1 proto 153" in routes[-1]


def test_the_protocol_of_the_guide_in_namespaces(namespaces):
    if not pathlib.Path("/usr/bin/python3").exists():
        pytest.skip("/usr/bin/python3 is not installed")
    line = namespaces(4)
    nodes = [line.start(n, *[name for name in line.interfaces(n) if name != "-i"], program=DISTANCE_VECTOR) for n in range(4)]
    line.routed()
    line.ping(0, "10.9.2.2", 2)
    nodes[3].terminate()
    assert nodes[3].wait(600) == 0
    line.wait(lambda: "10.9.2.2" not in line.routes(0))
    assert line.routes(3) == {}


@pytest.fixture
def ns3(namespaces, workdir):
    """ns-3's OLSR with real routing, built."""
    if not pathlib.Path("/usr/include/ns3/fd-net-device.h").exists():
        pytest.skip("libns3-dev is not installed")
    for program in ("g++", "tcpdump"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    folder = EXAMPLES.parent / "adapters" / "ns3"
    made = subprocess.run(["make", "--silent", "-C", folder], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr[-3000:]
    names = [f"n{n}" for n in range(3)]
    if any((pathlib.Path("/run/netns") / name).exists() for name in names):
        pytest.skip("there are namespaces n0, n1 or n2 here already")
    for name in names:
        subprocess.run(["ip", "netns", "add", name], check=True)
    yield folder / "olsr-line"
    for name in names:
        subprocess.run(["ip", "netns", "delete", name], check=True)


@pytest.mark.slow
@pytest.mark.parametrize("outside", [False, True])
def test_ns3_sets_the_kernels_routes(ns3, routed, namespaces, workdir, outside):
    """Unpatched OLSR of ns-3 in a line of three; the first node may be belljar-routed's, which speaks with ns-3's."""
    inside = lambda n, *command: subprocess.run(["ip", "netns", "exec", f"n{n}", *command], capture_output=True, text=True)
    socket, started = workdir / "updater", []
    run = lambda *command: started.append(subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL))
    try:
        run(routed, "updater", "--socket", socket, *[o for n in range(3) for o in ("--namespace", f"n{n}")])
        until(socket.exists)
        run(ns3, "--nodes=3", f"--updater={socket}", "--seconds=600", *(["--outside=true"] if outside else []))
        if outside:
            until(lambda: "eth0" in inside(0, "ip", "link").stdout)
            inside(0, "ip", "address", "add", "10.9.0.2/24", "dev", "eth0")
            run("ip", "netns", "exec", "n0", routed, "olsr", "-i", "eth0", "--control", workdir / "control", "--tc-redundancy", "2")
        far = "10.9.1.2"
        # ns-3 numbers the addresses of a link in the order of its devices there.
        next_hop = "10.9.0.1" if outside else "10.9.0.2"
        until(lambda: f"{far} via {next_hop} dev eth0" in inside(0, "ip", "route").stdout)
        until(lambda: f"10.9.0.{2 if outside else 1} via" in inside(2, "ip", "route").stdout)
        until(lambda: "2 received" in inside(0, "ping", "-n", "-c", "2", "-W", "20", far).stdout, patience=120)
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait(60)


@pytest.mark.slow
def test_aodv_of_ns3_gets_the_kernels_packets_without_a_route(ns3, routed, workdir):
    """Unpatched AODV of ns-3 in a line of three: a ping makes it look for a route, by which the kernel forwards until nobody uses it."""
    inside = lambda n, *command: subprocess.run(["ip", "netns", "exec", f"n{n}", *command], capture_output=True, text=True).stdout
    socket, started = workdir / "updater", []
    run = lambda *command: started.append(subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL))
    far, route = "10.9.1.2", "10.9.1.2 via 10.9.0.2 dev eth0"
    try:
        run(routed, "updater", "--socket", socket, *[o for n in range(3) for o in ("--namespace", f"n{n}")])
        until(socket.exists)
        run(ns3.with_name("aodv-line"), "--nodes=3", f"--updater={socket}", "--seconds=600")
        until(lambda: all("default dev ns3" in inside(n, "ip", "route") for n in range(3)))
        assert route not in inside(0, "ip", "route")
        # The first packets are held and sent on once there is a route.
        until(lambda: "3 received" in inside(0, "ping", "-n", "-c", "3", "-W", "20", far), patience=120)
        until(lambda: "1 received" in inside(0, "ping", "-n", "-c", "1", "-W", "20", far) and route in inside(0, "ip", "route"), patience=120)
        # ACTIVE_ROUTE_TIMEOUT without a packet.
        until(lambda: route not in inside(0, "ip", "route"), patience=120)
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait(60)
    # The TUN interfaces and their routes are gone with the script.
    assert all("ns3" not in inside(n, "ip", "route") for n in range(3))


@pytest.mark.slow
@pytest.mark.needs("ping")
def test_a_real_time_script_of_ns3_is_a_guest(ns3, run_experiment, workdir):
    """Its clock is the experiment's: it forwards in no time, and is never late."""
    router = workdir / "ns3_router"
    libraries = [f"-lns3-{name}" for name in ("fd-net-device", "internet", "network", "core")]
    subprocess.run(["g++", "-std=c++17", EXAMPLES.parent / "benches" / "planes" / "ns3_router.cc", "-o", router, *libraries], check=True)
    host = lambda address, to, via, *process: {"interfaces": {"eth0": f"{address}/24"}, "routes": [{"to": f"{to}.0/24", "via": via}], "processes": [dict(process)]}
    hosts = {"a": host("10.9.0.1", "10.9.1", "10.9.0.2", ("path", "ping"), ("args", ["-n", "-c", "5", "10.9.1.2"]), ("start_time", "2 s")),
             "b": host("10.9.1.2", "10.9.0", "10.9.1.1", ("path", "sleep"), ("args", ["11"])),
             "r": {"routes": [], "interfaces": {"left": "10.9.0.2/24", "right": "10.9.1.1/24"}, "processes": [
                 {"path": str(router), "args": ["left=10.9.0.2", "right=10.9.1.1"], "expected_final_state": "running"}]}}
    links = [{"between": ["a:eth0", "r:left"], "latency": "1 ms"}, {"between": ["r:right", "b:eth0"], "latency": "1 ms"}]
    done = run_experiment(world(hosts, links, "12 s"))
    times = re.findall(r"ttl=63 time=([\d.]+)", done.text("a", "ping"))
    assert len(times) == 5 and set(times[1:]) == {"4.00"}, done.text("a", "ping")
