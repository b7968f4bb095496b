"""belljar-routed: its data planes in network namespaces, and one file near, far and emulated."""

import json
import os
import re
import signal
import subprocess
import time

import pytest
from conftest import as_expected, measured, timely
from routed_nodes import final, namespaces, place, routed, unprivileged  # noqa: F401, the fixtures
from test_links import world

pytestmark = pytest.mark.waits

FAST = ("--hello-interval", "500ms", "--tc-interval", "1s")


def needs_kernel_of(plane):
    if plane == "tc-bpf" and tuple(map(int, re.findall(r"\d+", os.uname().release)[:2])) < (6, 6):
        pytest.skip("this kernel has no tcx hook: it needs Linux 6.6")


@measured(4)
@pytest.mark.parametrize("plane", ["tc-bpf", "af-xdp"])
def test_data_planes_forward(namespaces, workdir, plane):
    needs_kernel_of(plane)
    line = namespaces(4)
    for n in range(4):
        line.daemon(n, "olsr", *FAST, *(("--data-plane", plane) if n in (1, 2) else ()))
    line.routed()
    assert line.show(1)["data_plane"] == plane and line.show(0)["data_plane"] == "kernel"
    forwarded = lambda: int(re.search(r"Ip: \d+ \d+ \d+ \d+ \d+ (\d+)", line.inside(1, "cat", "/proc/net/snmp").stdout)[1])
    before = forwarded()
    pinged = line.inside(0, "ping", "-n", "-c", "40", "-i", "0.05", "-W", "20", "10.9.2.2", check=False).stdout
    timely("40 received" in pinged, pinged + line.logs())
    assert "ttl=62" in pinged, pinged
    # the kernel's stack forwards what finds neighbours, not the 80 packets of the flow
    timely(forwarded() - before <= 20, forwarded() - before)
    # what is for the router itself, or ends there, is the kernel's
    line.ping(0, "10.9.0.2", 1)
    line.wait(lambda: "Time to live exceeded" in line.inside(0, "ping", "-n", "-c", "1", "-t", "1", "-W", "20", "10.9.2.2", check=False).stdout)
    line.ping(0, "10.9.2.2", 2, "-s", "4000")


def test_aodv_looks_for_destinations_in_its_own_network(namespaces):
    # all addresses are of one network, as on a radio channel: the kernel would ask for them by ARP, where nobody answers
    line = namespaces(3, address=False)
    for n, interface, host in ((0, "right", 1), (1, "left", 2), (1, "right", 3), (2, "left", 4)):
        line.inside(n, "ip", "address", "add", f"10.9.0.{host}/24", "dev", interface)
    daemons = [line.daemon(n, "aodv", "--mesh") for n in range(3)]
    line.wait(lambda: all(line.show(n) for n in range(3)))
    line.ping(0, "10.9.0.4", 3, afresh=True)
    pinging = line.start(0, "-n", "-i", "0.5", "10.9.0.4", program="ping")
    line.wait(lambda: {"10.9.0.0/25", "10.9.0.128/25", "default", "10.9.0.4"} <= set(line.routes(0)))
    pinging.terminate()
    # the networks of the interfaces are followed
    line.inside(0, "ip", "address", "add", "10.9.0.1/16", "dev", "right")
    line.inside(0, "ip", "address", "delete", "10.9.0.1/24", "dev", "right")
    line.wait(lambda: {"10.9.0.0/17", "10.9.128.0/17"} <= set(line.routes(0)) and "10.9.0.0/25" not in line.routes(0))
    for daemon in daemons:
        daemon.terminate()
        assert daemon.wait(600) == 0, line.logs()
    assert all(line.routes(n) == {} for n in range(3))


@measured(4)
@pytest.mark.parametrize("plane", ["kernel", "tc-bpf", "af-xdp"])
def test_aodv_keeps_the_routes_that_packets_use(namespaces, workdir, plane):
    needs_kernel_of(plane)
    line = namespaces(3)
    # without Hello messages only use keeps routes, and a machine that stands still for two seconds breaks no link
    for n in range(3):
        line.daemon(n, "aodv", "--hello-interval", "0s", *(("--data-plane", plane) if n == 1 else ()))
    line.wait(lambda: all(line.show(n) for n in range(3)))
    pinging = line.start(0, "-n", "-i", "0.5", "10.9.1.2", program="ping")
    line.wait(lambda: "10.9.1.2" in line.routes(0))
    back = lambda: next((route for route in line.show(1)["routes"] if route["destination"] == "10.9.0.1/32"), {})
    # longer than the 6 s for which a reply makes a route live without use
    for _ in range(14):
        time.sleep(0.5)
        timely("10.9.1.2" in line.routes(0) and back().get("state") == "valid", line.logs())
    pinging.terminate()
    line.wait(lambda: "10.9.1.2" not in line.routes(0))


@measured(4)
def test_aodv_believes_in_links_that_packets_come_by(namespaces, workdir):
    line = namespaces(3)
    daemons = [line.daemon(n, "aodv") for n in range(3)]
    line.wait(lambda: all(line.show(n) for n in range(3)))
    pinging = line.start(0, "-n", "-i", "0.2", "10.9.1.2", program="ping")
    line.wait(lambda: "10.9.1.2" in line.routes(0))
    time.sleep(1.5)
    # node 1 says nothing any more, but its kernel forwards: RFC 3561 counts any packet of a neighbour, not only its Hello messages
    daemons[1].send_signal(signal.SIGSTOP)
    try:
        for _ in range(8):
            time.sleep(0.5)
            timely("10.9.1.2" in line.routes(0), line.logs())
        pinging.terminate()
        line.wait(lambda: "10.9.1.2" not in line.routes(0))
    finally:
        daemons[1].send_signal(signal.SIGCONT)


def test_data_planes_need_root(namespaces, place):
    line = namespaces(2)
    user, binary = unprivileged(line, place)
    for plane in ("tc-bpf", "af-xdp"):
        refused = line.inside(0, *user, binary, "forward", "--data-plane", plane, "-i", "right", check=False)
        assert refused.returncode == 1 and f"--data-plane {plane}: " in refused.stderr and "run as root" in refused.stderr, refused.stderr


def in_three_protocols(binary):
    """Three lines of three in one file: n0 pings n2 by routes of OLSR, and of AODV; stations ping each other by bridges."""
    hosts, links = {}, []
    ends = lambda pings: [{"path": "ping", "args": ["-n", "-c", "3", "-W", "5", pings], "start_time": "6 s"}] if pings else []
    for k, protocol in enumerate(("olsr", "aodv")):
        for n in range(3):
            interfaces = {name: f"10.{k}.{m}.{end}/24" for name, m, end in (("left", n - 1, 2), ("right", n, 1)) if 0 <= m < 2}
            args = [protocol, *[o for name in interfaces for o in ("-i", name)], *(FAST if protocol == "olsr" else ())]
            hosts[f"{protocol}{n}"] = {"forwarding": True, "routes": [], "interfaces": interfaces, "processes": [
                {"path": str(binary), "args": args, "expected_final_state": "running"},
                *ends(f"10.{k}.1.2" if n == 0 else None),
                {"path": str(binary), "args": ["show", "--json"], "start_time": "9 s"}]}
        links += [{"between": [f"{protocol}{n}:right", f"{protocol}{n + 1}:left"], "latency": "1 ms"} for n in range(2)]
    for n in range(4):
        interfaces = {name: f"10.8.{m}.{end}/24" for name, m, end in (("left", n - 1, 2), ("right", n, 1)) if 0 <= m < 3}
        hosts[f"bridge{n}"] = {"routes": [], "interfaces": interfaces, "processes": [
            {"path": str(binary), "args": ["bridge", "--client", "left" if n == 1 else "right", "-i", "right" if n == 1 else "left"],
             "expected_final_state": "running"}, {"path": str(binary), "args": ["show", "--json"], "start_time": "9 s"}]}
        links += [{"between": [f"bridge{n}:right", f"bridge{n + 1}:left"], "latency": "1 ms", "mtu": 1600 if n == 1 else 1500}] * (n < 3)
    hosts["bridge0"] = {"routes": [], "interfaces": {"right": "10.8.0.1/24"}, "processes": ends("10.8.0.9")}
    hosts["bridge3"] = {"routes": [], "interfaces": {"left": "10.8.0.9/24"}, "processes": [{"path": "sleep", "args": "9"}]}
    return world(hosts, links, "10 s")


@pytest.mark.needs("ping")
def test_one_file_runs_near_far_and_emulated(run_experiment, routed, belljar, namespaces, workdir):
    experiment = in_three_protocols(routed)
    near, far = (run_experiment(experiment, args=["--placement", place], name=place) for place in ("near", "far"))
    text = lambda folder, host, program: "".join(file.read_text() for file in sorted((folder / "hosts" / host).glob(f"{program}.*.stdout")))
    pinging, routing = ("olsr0", "aodv0", "bridge0"), ("olsr0", "olsr1", "olsr2", "bridge1", "bridge2")
    for host in pinging:
        assert text(near.path, host, "ping") == text(far.path, host, "ping")
        assert "3 received" in text(near.path, host, "ping"), text(near.path, host, "ping")
    states = {host: json.loads(text(near.path, host, "belljar-routed")) for host in routing}
    assert states == {host: json.loads(text(far.path, host, "belljar-routed")) for host in routing}
    assert all(state["routes"] for state in states.values())
    file = workdir / "near.yaml"

    @measured(4)
    def on_the_real_kernel(workdir):
        done = subprocess.run([belljar, "emulate", file, "-o", workdir / "emulated"], capture_output=True, text=True, timeout=600)
        as_expected(done)
        for host in pinging:
            timely("3 received" in text(workdir / "emulated", host, "ping"), text(workdir / "emulated", host, "ping"))
        for host in routing:
            state = json.loads(text(workdir / "emulated", host, "belljar-routed"))
            timely(len(state["routes"]) == len(states[host]["routes"]) and final(state) == final(states[host]), (host, state))

    on_the_real_kernel(workdir=workdir)
