"""WireGuard on simulated hosts: Debian's wg and wg-quick see what they see on Linux, and packets pass between it, itself and another implementation."""

import json
import os
import re
from pathlib import Path

import pytest
from conftest import EXAMPLES, assert_same_hosts, recorded

RECORDS = Path(__file__).parent / "wireguard"
KEYS = {
    "a": ("CAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICEE=", "wa+dIaPE39SbRnavKPTeroqhR7N6Qv63ahbVJVuESzc="),
    "b": ("EBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEEE=", "sWUiXUksNGxPDbVMISQv/UtKnolEd6VJRQv2GQB3LVU="),
}


def constant(text):
    """Output without what differs from run to run: a port that the kernel chose, durations, the number of a descriptor."""
    text = re.sub(r"ListenPort = (?!51820|4000)\d+", "ListenPort = PORT", text)
    return re.sub(r", time \d+ms|/dev/fd/\d+| +$", "", text, flags=re.M)


def links(*names):
    """A switch with these hosts, 10.1.0.1 and on."""
    hosts = {name: {"interfaces": {"eth0": f"10.1.0.{number}/24"}, "processes": []} for number, name in enumerate(names, 1)}
    return {"general": {"stop_time": "60 s"}, "belljar": {"ipv6": True}, "hosts": hosts, "switches": {"hub": {}},
            "links": [{"between": [f"{name}:eth0", f"hub:p{number}"], "latency": "1 ms"} for number, name in enumerate(names)]}


def shell(script, **more):
    return {"path": "bash", "args": ["-c", script], **more}


def tunnel(name, peer, number):
    """Commands that make wg0 of a host with the address 10.9.0.NUMBER, whose peer is the other one of two."""
    other = 3 - number
    return f"""
        ip link add wg0 type wireguard
        wg set wg0 listen-port 51820 private-key <(echo {KEYS[name][0]}) peer {KEYS[peer][1]} allowed-ips 10.9.0.{other}/32 endpoint 10.1.0.{other}:51820
        ip addr add 10.9.0.{number}/24 dev wg0; ip link set wg0 up
    """


@pytest.mark.needs("wg", "wg-quick", "ip", "nft", "ping", "sysctl")
@pytest.mark.parametrize("name", ["settings", "traffic", "quick"])
def test_as_on_linux(run_experiment, name):
    """The output of a script that was recorded on Linux."""
    script, expected = recorded(RECORDS, name)
    experiment = links("a", "b")
    experiment["hosts"]["a"]["processes"] = [shell("exec 2>&1\nip link set eth0 down\n" + script)]
    ours = run_experiment(experiment).text("a", "bash")
    assert constant(ours) == constant(expected)


@pytest.mark.needs("wg", "wireguard-go", "ip", "ping")
def test_peer_of_another_implementation(run_experiment):
    """wireguard-go, an ordinary program over TUN, is the peer: handshakes from both sides, with a preshared key, over more than one rekeying."""
    experiment = links("a", "b")
    experiment["general"]["stop_time"] = "400 s"
    psk = "wg set wg0 peer {} preshared-key <(echo 7QMX6hIZV5oe5LJKlRSmKMLvV7yiJbvsB69cL3Em/lg=)"
    watch = "for n in $(seq 30); do ping -q -c 5 -i 0.2 {} | grep -o '[0-9]* received'; sleep 9; done; wg show wg0"
    experiment["hosts"]["a"]["processes"] = [shell(tunnel("a", "b", 1) + psk.format(KEYS["b"][1]) + "\nsleep 5\n" + watch.format("10.9.0.2"))]
    program = tunnel("b", "a", 2).replace("ip link add wg0 type wireguard", "wireguard-go wg0")
    experiment["hosts"]["b"]["processes"] = [shell(program + psk.format(KEYS["a"][1]) + "\nsleep 320; ping -q -c 3 10.9.0.1 | grep -o '[0-9]* received'", expected_final_state="any")]
    done = run_experiment(experiment)
    out = done.text("a", "bash")
    assert out.count("5 received") == 30, out + str(done)
    assert "3 received" in done.text("b", "bash")
    assert "preshared key: (hidden)" in out and "latest handshake:" in out, out


@pytest.mark.needs("wg", "ip")
def test_drops_are_in_the_account(run_experiment):
    experiment = links("a", "b")
    send = """python3 -c 'import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for to, count in {}:
    for n in range(count):
        try: s.sendto(b"x", to)
        except OSError as error: print(error)'"""
    experiment["hosts"]["a"]["processes"] = [shell(
        tunnel("a", "b", 1) + f"wg set wg0 peer {KEYS['a'][1].replace('wa', 'xa')} allowed-ips 10.9.0.9/32\n" +
        send.format("""(("10.9.0.77", 9), 3), (("10.9.0.9", 9), 2), (("10.9.0.2", 9), 150), (("10.1.0.2", 51820), 4)"""))]
    experiment["hosts"]["b"]["processes"] = [shell(
        f"ip link add wg0 type wireguard; wg set wg0 listen-port 51820 private-key <(echo {KEYS['b'][0]}); ip link set wg0 up; " +
        send.format("""[(("10.1.0.1", 51820), 1)]"""))]
    done = run_experiment(experiment)
    out = done.text("a", "bash")
    assert out.count("Required key not available") == 3 and out.count("Destination address required") == 2, out
    text = json.dumps(json.loads((done.path / "sim-stats.json").read_text())["packets"])
    for counted in (r'"wireguard_no_peer": 3\b', r'"wireguard_no_endpoint": 2\b', r'"wireguard_no_session": 21\b', r'"wireguard_handshake": 1\b', r'"malformed": [45]\b'):
        assert re.search(counted, text), counted + text


@pytest.mark.needs("wg", "ip", "nft", "ping", "conntrack", "sysctl")
def test_sites(run_experiment):
    """The example: sites behind NAT, one of which gets another port."""
    done = run_experiment(EXAMPLES / "wireguard.yaml")
    said = "".join(stream.read_text() for stream in done.streams("home", "ping"))
    assert said.count(", 0% packet loss") == 3, said
    dumps = "".join(stream.read_text() for stream in done.streams("office", "wg"))
    before = re.findall(r"198\.51\.100\.2:(\d+)", dumps)
    assert len(before) == 2 and before[0] != before[1] and "198.51.100.6:" in dumps, dumps


@pytest.mark.needs("wg", "ip", "nft", "ping", "conntrack", "sysctl")
def test_same_bytes(run_experiment):
    """A run with WireGuard is the same far and near, and with more workers."""
    runs = [run_experiment(EXAMPLES / "wireguard.yaml", args=args, pcap=True, name=f"sites{n}")
            for n, args in enumerate((["--parallelism", "1"], ["--parallelism", "1"], ["--parallelism", "3"], ["--placement", "far"]))]
    assert_same_hosts(runs)


@pytest.mark.needs("wg", "ip")
def test_requests_that_are_refused(exec_guest):
    run = exec_guest(["python3", "-c", '''
import os, socket, struct, subprocess
subprocess.run("ip link add wg0 type wireguard; ip link add dum type dummy", shell=True, check=True)
s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 16); s.bind((0, 0))
def attr(kind, value): return struct.pack("HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)
def ask(kind, command, body, flags=5):
    message = struct.pack("IHHII", 20 + len(body), kind, flags, 1, 0) + struct.pack("BBH", command, 1, 0) + body
    s.send(message); answer = s.recv(65536)
    return struct.unpack("i", answer[16:20])[0] if answer[4:6] == struct.pack("H", 2) else answer
info = ask(16, 3, attr(2, b"wireguard\\0"), 1)[20:]
at = {}
while len(info) >= 4:
    n, k = struct.unpack("HH", info[:4]); at[k] = info[4:n]; info = info[(n + 3) & ~3:]
family = struct.unpack("H", at[1])[0]
name = attr(2, b"wg0\\0"); N = 0x8000
key = bytes(range(32))
print("name", ask(family, 1, attr(2, b"nope\\0")), ask(family, 1, attr(2, b"dum\\0")), ask(family, 1, b""), ask(family, 1, name + attr(1, struct.pack("I", 2))))
print("flags", ask(family, 1, name + attr(5, struct.pack("I", 2))))
print("key", ask(family, 1, name + attr(3, key[:31])), ask(family, 1, name + attr(9, b"")))
peer = lambda *parts: name + attr(8 | N, attr(N, b"".join(parts)))
print("peer", ask(family, 1, peer()), ask(family, 1, peer(attr(1, key), attr(3, struct.pack("I", 8)))), ask(family, 1, peer(attr(1, key), attr(10, struct.pack("I", 2)))))
net = lambda *parts: peer(attr(1, key), attr(9 | N, attr(N, b"".join(parts))))
print("net", ask(family, 1, net(attr(1, struct.pack("H", 2)), attr(2, bytes(4)), attr(3, b"\\x21"))), ask(family, 1, net(attr(1, struct.pack("H", 10)), attr(2, bytes(4)), attr(3, b"\\x20"))),
      ask(family, 1, net(attr(1, struct.pack("H", 2)), attr(2, bytes(4)))))
print("get", ask(family, 0, name), ask(family, 7, name))
os.setuid(1000)
print("user", ask(family, 1, name))
''']
    )
    assert run.out == "name -19 -95 -53 -53\nflags -95\nkey -34 -22\npeer -22 -95 -96\nnet -22 -22 -22\nget -95 -95\nuser -1\n", run


@pytest.mark.needs("wg", "ip")
def test_arbitrary_requests(exec_guest):
    """Requests that are nearly right: each is answered, and the device works on."""
    run = exec_guest(["python3", "-c", '''
import random, socket, struct, subprocess
subprocess.run("ip link add wg0 type wireguard; ip link set wg0 up", shell=True, check=True)
s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 16); s.bind((0, 0)); s.settimeout(2)
d = random.Random(5); N = 0x8000
def attr(kind, value): return struct.pack("HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)
def some(*values): return values[int(d.random() ** 2 * len(values))]
def number(kind, form, *values): return attr(kind, struct.pack(form, some(*values)))
def key(kind): return attr(kind, bytes([some(1, 2, 3, 4)]) * some(32, 32, 32, 32, 31, 33, 0))
def several(kind, make, most): return attr(kind | N, b"".join(attr(N, make()) for _ in range(d.randrange(most))))
def chosen(*parts): return b"".join(part() for part in parts if d.random() < 0.7)
def network():
    v6 = d.random() < 0.4
    return chosen(lambda: number(1, "H", 10 if v6 else 2, 2, 0), lambda: attr(2, bytes([10, 0, 0, d.randrange(4)]) * some(4 if v6 else 1, 1)),
                  lambda: number(3, "B", 24, 32, 0, 33, 128, 200), lambda: number(4, "I", 0, 1, 2))
def endpoint():
    four = struct.pack("=HH4s8x", 2, 0x1234, bytes([10, 0, 0, 1])); six = struct.pack("=HHI16sI", 10, 0x1234, 0, bytes(15) + b"1", 0)
    return attr(4, some(four, six, four[:15], bytes(28)))
def peer():
    return key(1) + chosen(lambda: key(2), lambda: number(3, "I", 0, 2, 1, 4, 8), endpoint, lambda: number(5, "H", 0, 1, 25, 65535),
                           lambda: several(9, network, 5), lambda: number(10, "I", 1, 1, 2))
def device():
    return attr(2, some(b"wg0\\0", b"wg0\\0", b"wg0\\0", b"lo\\0", b"wg0")) + chosen(lambda: key(3), lambda: number(5, "I", 0, 1, 2),
           lambda: number(6, "H", 0, 1000, 51820), lambda: number(7, "I", 0, 7), lambda: several(8, peer, 4))
def ask(kind, command, body, flags):
    s.send(struct.pack("IHHII", 20 + len(body), kind, flags, 1, 0) + struct.pack("BBH", command, 1, 0) + body)
    answer = s.recv(65536)
    if flags & 0x300:
        while struct.unpack("H", answer[4:6])[0] not in (2, 3): answer = s.recv(65536)
    return answer
info = ask(16, 3, attr(2, b"wireguard\\0"), 1)[20:]
at = {}
while len(info) >= 4:
    n, k = struct.unpack("HH", info[:4]); at[k] = info[4:n]; info = info[(n + 3) & ~3:]
family = struct.unpack("H", at[1])[0]
good = 0
for n in range(3000):
    body = bytearray(device())
    for _ in range(some(0, 0, 1, 3)):
        body[d.randrange(len(body))] = d.randrange(256)
    answer = ask(family, 1, bytes(body[:len(body) if d.random() < 0.9 else d.randrange(len(body))]), 5)
    good += answer[4:6] == struct.pack("H", 2) and answer[16:20] == bytes(4)
    if n % 20 == 0:
        ask(family, 0, attr(2, b"wg0\\0"), 0x301)
print(good, flush=True)
subprocess.run("wg set wg0 listen-port 4000 && wg show wg0 listen-port; ip link del wg0", shell=True, check=True)
'''])
    good, port = map(int, run.out.split())
    assert 300 < good < 2900 and port == 4000, run


# Modules of the kernel in the order in which they are loaded.
MODULES = ["libcurve25519-generic", "udp_tunnel", "ip6_udp_tunnel", "poly1305-x86_64", "libchacha", "chacha-x86_64", "libchacha20poly1305", "curve25519-x86_64", "wireguard"]


@pytest.mark.slow
@pytest.mark.needs("wg", "ip", "ping", "qemu-system-x86_64", "busybox")
def test_peer_in_a_real_kernel(run_experiment):
    """The peer is Linux itself, in a machine that QEMU simulates: both begin a handshake, with a preshared key."""
    kernel = os.environ.get("BELLJAR_KERNEL")
    drivers = Path(kernel or "/boot/none").parent.parent / "lib/modules" / Path(kernel or "/none").name.removeprefix("vmlinuz-") / "kernel"
    found = [next(drivers.rglob(f"{name}.ko"), None) for name in MODULES]
    if None in found:
        pytest.skip("no kernel with the module wireguard is unpacked: see BELLJAR_KERNEL")
    experiment = links("a", "b")
    psk = "echo 7QMX6hIZV5oe5LJKlRSmKMLvV7yiJbvsB69cL3Em/lg= > psk; wg set wg0 peer {} preshared-key psk; "
    load = "".join(f"insmod {path} || exit 9; " for path in found)
    key = f"echo {KEYS['b'][0]} > key; wg set wg0 listen-port 51820 private-key key peer {KEYS['a'][1]} allowed-ips 10.9.0.1/32 endpoint 10.1.0.1:51820; "
    up = "ip link add wg0 type wireguard; " + key + psk.format(KEYS["a"][1]) + "ip addr add 10.9.0.2/24 dev wg0; ip link set wg0 up; "
    experiment["hosts"]["b"] |= {"machine": {"type": "qemu", "files": [str(path) for path in found]}, "processes": [
        # The machine has the programs that it runs.
        {"path": "wg", "args": ["--version"]}, {"path": "ip", "args": ["-V"]},
        {"path": "busybox", "args": ["sh", "-c", load + up + "ping -q -c 3 10.9.0.1; wg show wg0 transfer; sleep 8"]}]}
    experiment["hosts"]["a"]["processes"] = [shell(
        tunnel("a", "b", 1) + psk.format(KEYS["b"][1]) + "sleep 12; ping -q -c 3 -s 1300 10.9.0.2; wg show wg0")]
    done = run_experiment(experiment, timeout=300)
    ours, linux = done.text("a", "bash"), done.text("b", "busybox")
    assert ", 0% packet loss" in ours and "latest handshake" in ours and ", 0% packet loss" in linux, ours + linux + str(done)
