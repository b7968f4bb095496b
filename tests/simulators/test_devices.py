"""PCI devices: hosts of ours with drivers, controllers of ours, and both ends in other processes over channels."""

import os
import pathlib
import re
import subprocess
import sys

import pytest
import yaml
from conftest import ROOT
from test_simulators import CLIENT, SERVER, of_hosts, run, script  # noqa: F401

E1000_HOST = ROOT / "adapters" / "cosim" / "e1000_host.c"


def experiment(devices, *, latency="501 ns", start="10 ms", stop="120 ms", **more):
    """A client with a controller, on a link with a server. A channel of 500 ns makes two million rounds a second."""
    process = {"path": "python3", "args": ["-B", "-c", CLIENT], "start_time": start}
    server = {"path": "python3", "args": ["-B", "-c", SERVER], "expected_final_state": "running"}
    return {
        "general": {"stop_time": stop}, "host_option_defaults": {"pcap_enabled": True},
        "hosts": {"client": {"devices": [{"pci": "nic0", "driver": "e1000", "latency": latency, **devices}], "processes": [process]},
                  "server": {"processes": [server]}},
        **more}


def inside(more=None, **devices):
    link = {"between": ["nic0:eth", "server"], "latency": "100 us", "rate": "1 Gbit"}
    return experiment(devices, nics={"nic0": {}}, links=[link], **(more or {}))


def outside(belljar, workdir, **devices):
    """The same with the controller in a process of its own: another Belljar, whose "simulator" is the first one."""
    ports = {"nic0": {"socket": str(workdir / "pci.sock"), "role": "connect"}, "eth": {"socket": str(workdir / "eth.sock"), "role": "connect"}}
    other = {
        "general": {"stop_time": "1 s"}, "network": {"graph": {"type": "1_gbit_switch"}},
        "hosts": {"nobody": {"network_node_id": 0, "processes": []}},
        "nics": {"nic0": {}},
        "simulators": {"machine": {"ports": ports, "latency": "40 us", "devices": [{"pci": "nic0", "latency": "500 ns"}]}},
        "links": [{"between": ["nic0:eth", "machine:eth"], "latency": "20 us", "rate": "1 Gbit", "reverse": {"rate": "unlimited"}}]}
    (workdir / "other.yaml").write_text(yaml.safe_dump(other))
    command = [str(belljar), "run", str(workdir / "other.yaml"), "-o", "{folder}/inner", "--no-progress"]
    sockets = {"pci": {"socket": str(workdir / "pci.sock"), "role": "listen"}, "eth": {"socket": str(workdir / "eth.sock"), "role": "listen"}}
    return experiment(
        devices, latency="500 ns",
        simulators={"nic0": {"command": command, "latency": "40 us", "ports": sockets}},
        # Each direction is serialised once, where it begins.
        links=[{"between": ["server", "nic0:eth"], "latency": "40 us", "rate": "1 Gbit", "reverse": {"rate": "unlimited"}}])


def counters(out):
    lines = (out / "hosts/client/eth0.counters").read_text().splitlines()
    return {name: int(count) for name, count in (line.split(": ") for line in lines)}


@pytest.mark.parametrize("interrupts", ["msi", "intx"])
def test_programs_work_over_a_controller(run, interrupts):  # noqa: F811
    out, _ = run("inside", inside({"start": "1 s", "stop": "3 s"}, interrupts=interrupts))
    said = (out / "hosts/client/python3.1000.stdout").read_text()
    assert "tcp 300000" in said and said.count("udp") == 20
    counted = counters(out)
    assert counted["rx_packets"] > 200 and counted["tx_packets"] > 40 and counted["interrupts"] > 20
    # Those that the device counts are read every two seconds.
    assert 0 < counted["rx_good_packets"] <= counted["rx_packets"]
    # A datagram and its echo: twice the link, and the controller's way of doing things.
    first = int(re.search(r"udp 5 201 (\d+)", said)[1])
    assert 200_000 + 5_000 < first < 200_000 + 20_000, first


def test_a_controller_in_another_process_is_the_same_controller(run, belljar, workdir):  # noqa: F811
    """To the picosecond, in captures and as programs see it, in four runs with one and two workers."""
    whole, _ = run("inside", inside())
    expected = of_hosts(whole)
    assert "tcp 300000" in expected["hosts/client/python3.1000.stdout"].decode()
    again, _ = run("again", inside(), "--parallelism", "2")
    assert of_hosts(again) == expected
    for n in range(2):
        out, _ = run(f"outside{n}", outside(belljar, workdir), "--parallelism", "12"[n % 2])
        got = of_hosts(out)
        assert sorted(got) == sorted(expected)
        differ = [name for name in got if got[name] != expected[name]]
        assert not differ, differ


def test_a_host_in_c_uses_our_controller(run, workdir):  # noqa: F811
    program = workdir / "e1000_host"
    subprocess.run(["cc", "-O2", "-o", program, E1000_HOST], check=True)
    echo = ("import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('', 7))\n"
            "while True:\n data, who = s.recvfrom(2000); s.sendto(data, who)\n")
    exp = {
        "general": {"stop_time": "10 ms"},
        "hosts": {"server": {"interfaces": {"eth0": {"addresses": ["10.0.0.2/24"]}},
                             "processes": [{"path": "python3", "args": ["-B", "-c", echo], "expected_final_state": "running"}]}},
        "nics": {"nic0": {}},
        "simulators": {"machine": {"command": [str(program), "{nic0}", "10.0.0.1", "10.0.0.2", "7", "10"], "devices": [{"pci": "nic0"}]}},
        "links": [{"between": ["nic0:eth", "server"], "latency": "50 us", "rate": "1 Gbit"}]}
    said = set()
    for n in range(2):
        out, _ = run(f"foreign{n}", exp, "--parallelism", "12"[n])
        said.add((out / "simulators/machine/stdout").read_text())
    assert len(said) == 1
    text = said.pop()
    assert text.startswith("device 8086:100e\n10 datagrams sent, 10 echoed, mean round trip 1"), text


LIKE_LINUX = f"""
import struct, sys, zlib
sys.path.insert(0, {str(ROOT / 'adapters' / 'cosim')!r})
from belljar_channel import Simulator
from belljar_pcie import PcieHost
""" + """
sim = Simulator()
nic = sim.channel(sys.argv[1], layer=PcieHost())
memory, RX, TX, BUFFERS, DATA = bytearray(1 << 17), 0x1000, 0x2000, 0x4000, 0x18000

def write(offset, value, bar=0):
    nic.send(("write", 0, bar, offset, struct.pack("<I", value & 0xffffffff), True))

def phy(register):
    write(0x20, register << 16 | 1 << 21 | 2 << 26)
    value = yield 0x20
    assert value >> 28 & 5 == 1, hex(value)
    return value & 0xffff

def received():
    # Waits for interrupts until there is a datagram.
    for index in range(16):
        while not memory[RX + 16 * index + 12]:
            if not (yield 0xc0):
                yield
        length, checksum, status, errors, vlan = struct.unpack_from("<HHBBH", memory, RX + 16 * index + 8)
        frame = bytes(memory[BUFFERS + 2048 * index:BUFFERS + 2048 * index + length])
        if frame[12:14] == bytes([8, 0]) and frame[23] == 17:
            return frame[42:length - 4], hex(status), errors, zlib.crc32(frame[:-4]) == struct.unpack("<I", frame[-4:])[0]

def driver():
    # By the I/O ports, as Linux resets this controller; no word about interrupts, so that it is the line.
    write(0xd8, -1); write(0, 0, bar=2); write(4, 1 << 26, bar=2)
    first, second = (yield from phy(2)), (yield from phy(3))
    yield from phy(1)
    print("phy", hex(first << 16 | second & ~15), "link", (yield from phy(1)) >> 2 & 1, (yield 8) >> 1 & 1)
    for base, ring in ((0x2800, RX), (0x3800, TX)):
        for offset, value in ((0, ring), (4, 0), (8, 256), (0x18, 0), (0x10, 0)):
            write(base + offset, value)
    for n in range(16):
        struct.pack_into("<QQ", memory, RX + 16 * n, BUFFERS + 2048 * n, 0)
    write(0x100, 0x8002); write(0x400, 0x0103f0fa); write(0x2818, 15); write(0xd0, 0x9d)
    # 10,000 bytes of TCP in one go, and a datagram: the controller cuts and sums up.
    pseudo = lambda protocol, length: sum(struct.unpack(">4H", bytes([10, 0, 0, 1, 10, 0, 0, 2]))) + protocol + length
    ether = b"\\xff" * 6 + bytes([2, 0, 0, 0, 0, 9, 8, 0])
    ip = lambda protocol, length: struct.pack(">BBHHHBBH4B4B", 0x45, 0, length, 100, 0x4000, 64, protocol, 0, 10, 0, 0, 1, 10, 0, 0, 2)
    tcp = ether + ip(6, 0) + struct.pack(">HHIIBBHHH", 80, 90, 1000, 1, 0x50, 0x19, 500, pseudo(6, 0), 0) + bytes(n * 7 % 251 for n in range(10000))
    udp = ether + ip(17, 28 + 5) + struct.pack(">HHHH", 5, 9, 13, pseudo(17, 13)) + b"hello"
    memory[DATA:DATA + len(tcp)] = tcp
    memory[DATA + 0x4000:DATA + 0x4000 + len(udp)] = udp
    context = lambda offset, header, mss, command: struct.pack("<BBHBBHIBBH", 14, 24, 33, 34, offset, 0, command << 24 | 10000, 0, header, mss)
    data = lambda at, length, command: struct.pack("<QIBBH", DATA + at, command << 24 | 1 << 20 | length, 0, 3, 0)
    ring = [context(50, 54, 1460, 0x27), data(0, 54, 0x26), data(54, 4096, 0x26), data(4150, 4096, 0x26), data(8246, 1808, 0xaf),
            context(40, 0, 0, 0x20), data(0x4000, len(udp), 0xab)]
    memory[TX:TX + 16 * len(ring)] = b"".join(ring)
    write(0x3818, len(ring))
    print("received", *(yield from received()))
    print("head", (yield 0x3810), "sent", (yield 0x4080), "segmented", (yield 0x40f8), flush=True)

def go(value=None, first=False):
    try:
        what = next(running) if first else running.send(value)
        if what is not None:
            nic.send(("read", 1, 0, what, 4))
        else:
            go.idle = True
    except StopIteration:
        pass

def heard(message):
    if message[0] == "read":
        nic.send(("read done", message[1], memory[message[2]:message[2] + message[3]]))
    elif message[0] == "write":
        memory[message[2]:message[2] + len(message[3])] = message[3]
        nic.send(("write done", message[1]))
    elif message[0] == "read done":
        go(int.from_bytes(message[2], "little"))
    elif message == ("interrupt", "up", 0) and go.idle:
        go.idle = False
        go()

running, go.idle = driver(), False
nic.on_frame = heard
sim.at(5_000_000_000, go, None, True)
sim.run()
"""

WATCHED = """
import socket, struct
def right(pseudo, data):
    total = pseudo + sum(struct.unpack(f">{len(data) // 2}H", data[:len(data) & ~1])) + (data[-1] << 8 if len(data) % 2 else 0)
    while total > 0xffff: total = (total & 0xffff) + (total >> 16)
    return total == 0xffff
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
s.bind(("eth0", 0))
while True:
    ip = s.recv(4000)[14:]
    length, number = struct.unpack_from(">HH", ip, 2)
    if ip[12:16] != bytes([10, 0, 0, 1]): continue
    segment = ip[20:length]
    pseudo = sum(struct.unpack_from(">4H", ip, 12)) + ip[9] + len(segment)
    of_tcp = lambda: (struct.unpack_from(">I", segment, 4)[0], segment[13], sum(segment[20:]))
    print(ip[9], number, len(segment), *(of_tcp() if ip[9] == 6 else [segment[8:].decode()]), right(0, ip[:20]), right(pseudo, segment), flush=True)
    if ip[9] == 17:
        u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        u.sendto(b"and back", ("10.0.0.255", 9))
"""


def test_a_host_that_does_as_linux_does_uses_our_controller(run, workdir):  # noqa: F811
    """Reset by the I/O ports, PHY, segmentation and checksums in context descriptors, the interrupt line, over a channel."""
    exp = {
        "general": {"stop_time": "20 ms"},
        "hosts": {"server": {"interfaces": {"eth0": {"addresses": ["10.0.0.2/24"]}},
                             "processes": [{"path": "python3", "args": ["-B", "-c", WATCHED], "expected_final_state": "running"}]}},
        "nics": {"nic0": {}},
        "simulators": {"machine": {"command": [sys.executable, "-B", str(script(workdir, "machine.py", LIKE_LINUX)), "{nic0}"], "latency": "2 us",
                                   "devices": [{"pci": "nic0", "latency": "2 us"}]}},
        "links": [{"between": ["nic0:eth", "server"], "latency": "50 us", "rate": "1 Gbit"}]}
    payload = [n * 7 % 251 for n in range(10000)]
    pieces = [payload[at:at + 1460] for at in range(0, 10000, 1460)]
    # Sequence numbers go on, FIN and PSH are the last segment's; all sums are right.
    expected = [f"6 {100 + n} {20 + len(piece)} {1000 + 1460 * n} {25 if n == 6 else 16} {sum(piece)} True True" for n, piece in enumerate(pieces)]
    said = set()
    for n in range(3):
        out, _ = run(f"like{n}", exp, "--parallelism", "12"[n % 2])
        assert (out / "hosts/server/python3.1000.stdout").read_text().splitlines() == [*expected, "17 100 13 hello True True"]
        said.add((out / "simulators/machine/stdout").read_text())
    assert said == {"phy 0x1410c20 link 1 1\nreceived b'and back\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00' 0x63 0 True\nhead 7 sent 8 segmented 1\n"}, said


def test_it_can_be_run_again_from_its_results(run):  # noqa: F811
    first, _ = run("first", inside(ring=64, interrupt_interval="20 us"))
    again, _ = run("again", first / "processed-config.yaml")
    assert of_hosts(again) == of_hosts(first)


ETHTOOL = """
import fcntl, socket, struct
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
def ask(data, name=b"eth0"):
    import ctypes
    buffer = ctypes.create_string_buffer(bytes(data), 4096)
    fcntl.ioctl(s, 0x8946, struct.pack("16sQ16x", name, ctypes.addressof(buffer)))
    return buffer.raw
info = ask(struct.pack("I", 3))
print("driver", *[info[at:at + 32].split(b"\\0")[0].decode() or "-" for at in (4, 68, 100)])
count, = struct.unpack_from("I", ask(struct.pack("IIQ", 0x37, 0, 1 << 1)), 16)
names = [ask(struct.pack("III", 0x1b, 1, count))[12 + 32 * n:44 + 32 * n].split(b"\\0")[0].decode() for n in range(count)]
for name, value in zip(names, struct.unpack_from(f"{count}Q", ask(struct.pack("II", 0x1d, count)), 8)):
    print("count", name, value)
print("ring", *struct.unpack_from("II", ask(struct.pack("I", 0x10)), 4)[:1], struct.unpack_from("I", ask(struct.pack("I", 0x10)), 20)[0])
print("coalesce", struct.unpack_from("I", ask(struct.pack("I", 0x0e)), 4)[0], "link", struct.unpack_from("I", ask(struct.pack("I", 0x0a)), 4)[0])
for name, request in ((b"lo", 3), (b"eth7", 3), (b"eth0", 0x7fff)):
    try: ask(struct.pack("I", request), name)
    except OSError as error: print(name.decode(), error.errno)
"""


@pytest.mark.needs("ip")
def test_programs_see_the_counters(run, workdir):  # noqa: F811
    """As `ethtool -i`, `-S`, `-g` and `-c` and `ip -s link` ask for them."""
    exp = inside({"start": "1 s", "stop": "6 s"}, interrupt_interval="20 us", ring=64)
    exp["hosts"]["client"]["processes"] += [
        {"path": "python3", "args": ["-B", "-c", ETHTOOL], "start_time": "5 s"},
        {"path": "ip", "args": ["-s", "link", "show", "dev", "eth0"], "start_time": "5 s"},
        {"path": "cat", "args": ["/proc/net/dev"], "start_time": "5 s"}]
    out, _ = run("asked", exp)
    said = {f.name.split(".")[0] + f.name.split(".")[1]: f.read_text() for f in (out / "hosts/client").glob("*.stdout")}
    asked = next(text for text in said.values() if text.startswith("driver"))
    assert asked.startswith("driver e1000 - 0000:00:03.0\n") and "ring 4096 64\ncoalesce 20 link 1\nlo 95\neth7 19\neth0 95\n" in asked, asked
    counts = {name: int(value) for name, value in re.findall(r"count (\S+) (\d+)", asked)}
    assert counts == counters(out) and counts["rx_good_packets"] > 200
    shown = next(text for name, text in said.items() if name.startswith("ip"))
    (rx_bytes, rx_packets), (tx_bytes, tx_packets) = re.findall(r"X:\s+bytes.*\n\s+(\d+)\s+(\d+)", shown)
    assert int(rx_packets) == counts["rx_packets"] and int(tx_packets) == counts["tx_packets"], shown
    assert f"eth0: {rx_bytes:>7} {rx_packets:>7}" in said["cat1003"] and tx_bytes in said["cat1003"]


@pytest.mark.needs("ethtool")
def test_ethtool_is_answered(run):  # noqa: F811
    exp = inside({"start": "1 s", "stop": "4 s"})
    exp["hosts"]["client"]["processes"] += [{"path": "ethtool", "args": [option, "eth0"], "start_time": "3 s"} for option in ("-i", "-S", "-g")]
    out, _ = run("ethtool", exp)
    said = "".join(f.read_text() for f in sorted((out / "hosts/client").glob("ethtool.*.stdout")))
    assert "driver: e1000\n" in said and "rx_packets: " in said and re.search(r"RX:\s+256\b", said), said


def test_interrupts_take_the_time_that_the_cpu_says(run):  # noqa: F811
    """Each costs its time once: not again for the packets that it brings."""
    def first(**cpu):
        exp = inside()
        if cpu:
            exp["hosts"]["client"]["cpu"] = cpu
        out, _ = run("cpu" + "".join(cpu), exp)
        said = (out / "hosts/client/python3.1000.stdout").read_text()
        assert "tcp 300000" in said
        return [int(ns) for ns in re.findall(r"udp \d+ \d+ (\d+)", said)][1:-1], counters(out)

    free, counted = first()
    costly, _ = first(interrupt="30 us")
    packets, _ = first(interrupt="30 us", packet="1 us")
    # Of sending, the controller's write-back interrupts while the datagram is on its way; of receiving, the datagram does.
    assert {after - before for before, after in zip(free, costly)} == {30_000}
    # One sent, one received.
    assert {after - before for before, after in zip(costly, packets)} == {2_000}
    assert counted["interrupts"] > 40


def test_a_host_in_c_keeps_its_memory_here(run, workdir):  # noqa: F811
    program = workdir / "memory_host"
    subprocess.run(["cc", "-O2", "-Wall", "-Werror", "-o", program, ROOT / "adapters" / "cosim" / "memory_host.c"], check=True)
    exp = {
        "general": {"stop_time": "10 ms"},
        "hosts": {"nobody": {"network_node_id": 0, "processes": []}}, "network": {"graph": {"type": "1_gbit_switch"}},
        "memories": {"mem0": {"size": "1 MiB", "access": "30 ns"}},
        "simulators": {name: {"command": [str(program), "{mem0}", str(size), "300", seed], "devices": [{"memory": "mem0", "latency": latency}]}
                       # The first has the beginning only, the second all of it.
                       for name, seed, size, latency in (("m", "5", 200, "100 ns"), ("n", "6", 1 << 20, "150 ns"))}}
    seen = set()
    for n in range(5):
        out, _ = run(f"memory{n}", exp, "--parallelism", "12"[n % 2])
        seen.add(tuple((out / f"simulators/{name}/stdout").read_text() for name in "mn"))
    assert len(seen) == 1
    m, n = seen.pop()
    # Twice the latency, and the access.
    assert m == "300 pieces written and read, 0 wrong, mean 230 ns\n", m
    assert n == "300 pieces written and read, 0 wrong, mean 330 ns\n", n


SIMBRICKS = pytest.mark.skipif(not os.environ.get("BELLJAR_SIMBRICKS"), reason="BELLJAR_SIMBRICKS names no tree of SimBricks that is built")


def simbricks(program, driver, latency="500 ns", **more):
    """A client with a controller of SimBricks'."""
    command = [str(pathlib.Path(os.environ["BELLJAR_SIMBRICKS"]) / "sims/nic" / program), "{pci.socket}", "{eth.socket}", "{pci.memory}",
               "0", "0", "{pci.latency}", "{pci.latency}", "{eth.latency}"]
    ports = {"pci": {"role": "listen"}, "eth": {"role": "listen"}}
    return experiment({"driver": driver, **more}, latency=latency,
                      simulators={"nic0": {"command": command, "latency": latency, "ports": ports}},
                      links=[{"between": ["nic0:eth", "server"], "latency": "100 us", "rate": "1 Gbit"}])


@SIMBRICKS
@pytest.mark.parametrize("program, driver", [("e1000_gem5/e1000_gem5", "e1000"), ("corundum_bm/corundum_bm", "corundum")])
def test_controllers_of_simbricks(run, program, driver):  # noqa: F811
    """Its models behind our drivers: five runs, equal bytes."""
    seen = []
    for n in range(5):
        out, _ = run(f"simbricks{n}", simbricks(program, driver, "5 us"), "--parallelism", "12"[n % 2])
        said = (out / "hosts/client/python3.1000.stdout").read_text()
        assert "tcp 300000" in said and said.count("udp") == 20
        seen.append(of_hosts(out))
    assert all(now == seen[0] for now in seen)


@SIMBRICKS
@pytest.mark.slow
@pytest.mark.needs("iperf", "nginx", "redis-server", "redis-cli", "curl", "ping")
@pytest.mark.parametrize("program, driver", [("e1000_gem5/e1000_gem5", "e1000"), ("corundum_bm/corundum_bm", "corundum")])
def test_daemons_over_controllers_of_simbricks(run, workdir, program, driver):  # noqa: F811
    exp = simbricks(program, driver, "5 us")
    check_daemons(run, workdir, exp)


@pytest.mark.needs("iperf", "nginx", "redis-server", "redis-cli", "curl", "ping")
def test_daemons_over_a_controller(run, workdir):  # noqa: F811
    check_daemons(run, workdir, inside())


def check_daemons(run, workdir, exp):  # noqa: F811
    conf = workdir / "nginx.conf"
    conf.write_text("daemon off; user root; events {} http { server { listen 80; location / { return 200 'served'; } } }")
    exp["general"]["stop_time"] = "300 ms"
    run_of = lambda start, path, *args: {"path": path, "args": list(args), "start_time": start}  # noqa: E731
    serve = lambda path, *args: {"path": path, "args": list(args), "expected_final_state": "running"}  # noqa: E731
    exp["hosts"]["client"]["processes"] = [
        run_of("5 ms", "ping", "-c", "3", "-i", "0.005", "server"), run_of("20 ms", "curl", "-s", "http://server/"),
        run_of("30 ms", "redis-cli", "-h", "server", "set", "word", "stored"), run_of("60 ms", "redis-cli", "-h", "server", "get", "word"),
        run_of("100 ms", "iperf", "-c", "server", "-n", "300K")]
    exp["hosts"]["server"]["processes"] = [
        serve("nginx", "-c", str(conf)), serve("iperf", "-s"), serve("redis-server", "--bind", "0.0.0.0", "--protected-mode", "no", "--save", "")]
    out, _ = run("daemons", exp)
    said = "".join(f.read_text() for f in sorted((out / "hosts/client").glob("*.stdout")))
    assert "3 received, 0% packet loss" in said and "served" in said and "stored" in said and "0.0000-" in said, said
