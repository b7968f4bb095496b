"""Gateways: a link's end is an interface of this machine, and the run goes in real time."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import time

import pytest
from conftest import begun, bind, until

pytestmark = pytest.mark.waits

MAC = bytes.fromhex("020000000099")
SERVER = "import http.server; s = http.server.HTTPServer(('', 80), http.server.SimpleHTTPRequestHandler); open('ready', 'w'); s.serve_forever()"


def experiment(interface, processes="", link="latency: 10 ms", stop=600, more=""):
    return f"""
general: {{stop_time: {stop} s}}
gateways: {{out: {{interface: "{interface}"{more}}}}}
hosts:
  h: {{interfaces: {{eth0: 10.9.0.2/24}}, processes: [{processes}]}}
links:
- {{between: [h, out], {link}}}
"""


def python(script, more=""):
    return f"{{path: python3, args: [-c, {json.dumps(script)}]{more}}}"


@pytest.fixture
def start(belljar, tmp_path):
    """Starts an experiment, with the results folder "data"; ends what is left of it."""
    started = []

    def run(text, *arguments):
        file = tmp_path / "experiment.yaml"
        file.write_text(text)
        command = [belljar, "run", file, "-o", tmp_path / "data", *arguments]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
        return started[-1]

    yield run
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


class Wire:
    """The far side of a socket gateway: a station with an address of its own."""

    def __init__(self, path):
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        bind(self.listener, path)
        self.listener.listen()
        self.listener.settimeout(1)

    def accept(self, run):
        while True:
            try:
                self.frames, _ = self.listener.accept()
                break
            except TimeoutError:
                assert run.poll() is None, run.stdout.read()
        self.frames.settimeout(600)

    def close(self):
        self.listener.close()
        self.frames.close()

    def next(self, kind):
        """The next frame of this type."""
        while True:
            frame = self.frames.recv(2000)
            if not frame:
                raise OSError("the run has ended")
            if frame[12:14] == kind:
                return frame

    def resolve(self, address):
        """The hardware address of a host, and the seconds until it was there."""
        request = struct.pack("!HHBBH", 1, 0x800, 6, 4, 1) + MAC + socket.inet_aton("10.9.0.1") + bytes(6) + socket.inet_aton(address)
        began = time.monotonic()
        self.frames.send(b"\xff" * 6 + MAC + b"\x08\x06" + request)
        while True:
            reply = self.next(b"\x08\x06")
            if reply[20:22] == b"\x00\x02" and reply[28:32] == socket.inet_aton(address):
                return reply[22:28], time.monotonic() - began


@pytest.fixture
def wire(tmp_path):
    wire = Wire(tmp_path / "frames")
    yield wire
    wire.listener.close()


def statistics(tmp_path):
    return json.loads((tmp_path / "data" / "sim-stats.json").read_text())


def wait_for(run, tmp_path, made="ready"):
    """Waits until the host's program has made this file."""
    begun(run, (tmp_path / "data/hosts/h" / made).exists)


def end(run):
    """Ends a run before its time."""
    run.send_signal(signal.SIGINT)
    out, _ = run.communicate(timeout=600)
    assert run.returncode == 130 and "stopped early: interrupted" in out, out


def test_a_socket_reaches_a_simulated_host_in_real_time(start, wire, tmp_path):
    began = time.monotonic()
    run = start(experiment(f"unix:{tmp_path / 'frames'}", stop=7), "--pcap")
    wire.accept(run)
    trips = []
    for _ in range(20):
        mac, trip = wire.resolve("10.9.0.2")
        trips.append(trip)
    assert mac[0] & 1 == 0
    # There and back by a link of 10 ms: never less, and on a machine that keeps up hardly more.
    assert min(trips) >= 0.020
    out, _ = run.communicate(timeout=600)
    assert run.returncode == 0, out
    assert time.monotonic() - began >= 7, "the run has gone ahead of real time"
    gateway = statistics(tmp_path)["gateways"]["out"]
    assert gateway["frames_in"] == 20
    assert gateway["frames_out"] >= 20
    assert gateway["late"]["max"] >= gateway["late"]["median"] >= 0
    assert f"gateway out (unix:{tmp_path / 'frames'}): 20 frames in, {gateway['frames_out']} out, 0 dropped; late by" in out
    assert (tmp_path / "data" / "gateways" / "out").is_dir()


def test_the_rate_of_the_link_holds_for_what_comes_from_outside(start, wire, tmp_path):
    count = "import socket, time\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('', 7)); open('ready', 'w'); s.recv(2000); t = time.time(); n = 0\n" \
        "while n < 99: s.recv(2000); n += 1\nprint(time.time() - t, flush=True); open('done', 'w')"
    run = start(experiment(f"unix:{tmp_path / 'frames'}", python(count), "latency: 1 ms, rate: 10 Mbit, queue: {packets: 200}"))
    wire.accept(run)
    mac, _ = wire.resolve("10.9.0.2")
    wait_for(run, tmp_path)
    udp = struct.pack("!HHHH", 9, 7, 8 + 1200, 0) + bytes(1200)
    header = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0) + socket.inet_aton("10.9.0.1") + socket.inet_aton("10.9.0.2")
    total = sum(struct.unpack("!10H", header))
    checksum = ~((total & 0xffff) + (total >> 16)) & 0xffff
    header = header[:10] + struct.pack("!H", checksum) + header[12:]
    for _ in range(100):
        wire.frames.send(mac + MAC + b"\x08\x00" + header + udp)
    wait_for(run, tmp_path, "done")
    end(run)
    took = float(next((tmp_path / "data" / "hosts" / "h").glob("*.stdout")).read_text())
    # 99 frames of 1,242 bytes at 10 Mbit/s.
    assert took >= 99 * 1242 * 8 / 10e6 * 0.99


def test_real_time_without_a_gateway(start, tmp_path):
    text = "general: {stop_time: 10 s}\nhosts:\n  a: {network_node_id: 0, processes: [{path: sleep, args: '1.5'}]}\nnetwork: {graph: {type: 1_gbit_switch}}\n"
    began = time.monotonic()
    run = start(text, "--real-time")
    out, _ = run.communicate(timeout=600)
    assert run.returncode == 0, out
    assert time.monotonic() - began >= 1.5


def test_an_interrupt_ends_it_in_order(start, wire, tmp_path):
    run = start(experiment(f"unix:{tmp_path / 'frames'}"))
    wire.accept(run)
    wire.resolve("10.9.0.2")
    end(run)
    assert statistics(tmp_path)["gateways"]["out"]["frames_in"] == 1


def test_a_peer_that_goes_ends_the_run(start, wire, tmp_path):
    run = start(experiment(f"unix:{tmp_path / 'frames'}"))
    wire.accept(run)
    wire.resolve("10.9.0.2")
    wire.close()
    out, _ = run.communicate(timeout=600)
    assert run.returncode != 0
    assert f"gateway 'out': the peer of '{tmp_path / 'frames'}' closed its end" in out


def test_a_hard_limit_ends_the_run(start, wire, tmp_path):
    # Computing takes real time, and none that is simulated.
    busy = "import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('', 7)); open('ready', 'w')\nwhile 1:\n d, a = s.recvfrom(2000); sum(range(10**7)); s.sendto(d, a)"
    server = python(busy, ", expected_final_state: running")
    run = start(experiment(f"unix:{tmp_path / 'frames'}", server, "latency: 10 us", more=", hard_limit: 1 ms"))
    wire.accept(run)
    header = bytearray(struct.pack("!BBHHHBBH", 0x45, 0, 29, 0, 0, 64, 17, 0) + socket.inet_aton("10.9.0.1") + socket.inet_aton("10.9.0.2"))
    total = sum(struct.unpack("!10H", bytes(header)))
    header[10:12] = struct.pack("!H", ~((total & 0xffff) + (total >> 16)) & 0xffff)
    # The run ends at the first frame that is late, whichever that is.
    try:
        mac, _ = wire.resolve("10.9.0.2")
        until(lambda: (tmp_path / "data/hosts/h/ready").exists() or run.poll() is not None)
        wire.frames.settimeout(2)
        while True:
            wire.frames.send(mac + MAC + b"\x08\x00" + bytes(header) + struct.pack("!HHHH", 9, 7, 9, 0) + b"x")
            # The host asks for the hardware address first, if it does not know it.
            with contextlib.suppress(TimeoutError):
                request = wire.next(b"\x08\x06")
                wire.frames.send(request[6:12] + MAC + b"\x08\x06" + request[14:20] + b"\x00\x02" + MAC + request[38:42] + request[22:28] + request[28:32])
    except OSError:
        pass
    out, _ = run.communicate(timeout=600)
    assert run.returncode != 0
    assert "ms late, and 'hard_limit' is 1.000 ms: this machine is too slow for the experiment in real time" in out


@pytest.mark.parametrize("interface, more, status, message", [
    ("nosuchif0", "", 1, "gateway 'out': there is no interface 'nosuchif0'"),
    ("unix:/nonexistent/frames", "", 1, "gateway 'out': "),
    ("eth0", ", namespace: nosuchns", 1, "gateway 'out': cannot open the network namespace '/run/netns/nosuchns'"),
])
def test_what_cannot_be_opened_is_told(start, interface, more, status, message):
    run = start(experiment(interface, more=more))
    out, _ = run.communicate(timeout=600)
    assert run.returncode == status and message in out and "panick" not in out, out


def test_cells_have_no_gateways(start):
    run = start(experiment("eth0"), "--cells", "2")
    out, _ = run.communicate(timeout=600)
    assert run.returncode == 2 and "a run in real time has one process: leave out --cells" in out


def has_namespaces():
    return os.geteuid() == 0 and shutil.which("ip") and shutil.which("ping") and pathlib.Path("/dev/net/tun").exists() \
        and subprocess.run(["unshare", "-n", "true"], capture_output=True).returncode == 0


@pytest.fixture
def namespace():
    if not has_namespaces():
        pytest.skip("needs root, network namespaces, /dev/net/tun, ip and ping")
    name = f"bjgw{os.getpid()}"
    subprocess.run(["ip", "netns", "add", name], check=True)
    yield name
    subprocess.run(["ip", "netns", "del", name], check=True)


@pytest.mark.needs("curl")
def test_real_programs_reach_simulated_ones_through_a_tap(start, namespace, tmp_path):
    run = start(experiment("tap:bj0", python(SERVER, ", expected_final_state: running"), more=f", namespace: {namespace}, address: 10.9.0.1/24"), "--pcap")
    inside = ["ip", "netns", "exec", namespace]
    wait_for(run, tmp_path)
    pinged = subprocess.run([*inside, "ping", "-c", "10", "-i", "0.1", "10.9.0.2"], capture_output=True, text=True)
    assert pinged.returncode == 0 and " 0% packet loss" in pinged.stdout, pinged.stdout
    least = float(pinged.stdout.split(" = ")[1].split("/")[0])
    assert least >= 20.0
    got = subprocess.run([*inside, "curl", "-s", "--max-time", "300", "http://10.9.0.2/"], capture_output=True, text=True)
    assert got.returncode == 0 and "Directory listing for /" in got.stdout
    end(run)
    assert statistics(tmp_path)["gateways"]["out"]["dropped"] == 0


def test_a_link_that_is_wider_than_the_interface_is_refused(start, namespace):
    subprocess.run(["ip", "-n", namespace, "link", "add", "va", "mtu", "1000", "type", "veth", "peer", "name", "vb"], check=True)
    subprocess.run(["ip", "-n", namespace, "link", "set", "va", "up"], check=True)
    run = start(experiment("va", more=f", namespace: {namespace}"))
    out, _ = run.communicate(timeout=600)
    assert run.returncode == 1
    assert "gateway 'out': va carries packets of 1000 bytes, and its link of up to 1500: give the link a smaller mtu" in out
