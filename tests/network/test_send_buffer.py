"""Datagrams larger than the MTU are charged against the send buffer by their fragments: senders wait, or are refused, as on Linux."""

import json
import os
import subprocess
import sys
import textwrap

import pytest

# Sends until it is refused. For each kind of socket: datagrams sent, the error, the charge after the first, and whether the socket is writable.
SENDER = textwrap.dedent("""
    import errno, fcntl, json, select, socket, struct, sys, time
    UDP_CORK, ADDRESSES = 1, sys.argv[1:]

    def charge(s):
        try:
            return struct.unpack("i", fcntl.ioctl(s, 0x5411, bytes(4)))[0]
        except OSError as error:
            return errno.errorcode[error.errno]

    def make(kind, v6):
        family = socket.AF_INET6 if v6 else socket.AF_INET
        if kind == "raw":
            return socket.socket(family, socket.SOCK_RAW, 200)
        if kind == "ping":
            return socket.socket(family, socket.SOCK_DGRAM, socket.IPPROTO_ICMPV6 if v6 else socket.IPPROTO_ICMP)
        return socket.socket(family, socket.SOCK_DGRAM)

    def send(s, kind, v6):
        data = bytes([128 if v6 else 8]) + bytes(32767)
        if kind != "cork":
            return s.send(data)
        s.setsockopt(socket.SOL_UDP if hasattr(socket, "SOL_UDP") else 17, UDP_CORK, 1)
        s.send(data[:9000])
        s.send(data[9000:])
        s.setsockopt(17, UDP_CORK, 0)

    found = {}
    for v6, address in enumerate(ADDRESSES):
        for kind in ("udp", "raw", "ping", "cork"):
            for size in (0, 4608, 20000):
                s = make(kind, v6)
                s.setblocking(False)
                if size:
                    s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, size)
                s.connect((address, 9))
                sent, charges, error = 0, [], ""
                while not error and sent < 30:
                    try:
                        send(s, kind, v6)
                        sent += 1
                        charges.append(charge(s))
                    except OSError as reason:
                        error = errno.errorcode[reason.errno]
                poll = select.poll()
                poll.register(s, select.POLLOUT)
                found[f"{kind}{6 if v6 else 4} {size}"] = [sent, error, charges[0] if charges else 0, bool(poll.poll(0))]
                time.sleep(0.25 if sent else 0)
    print(json.dumps(found))
""")
SINK = "import socket; s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); s.bind(('::', 9)); socket.socket(2, 3, 200); socket.socket(10, 3, 200)\nwhile True: s.recv(65536)"
KNOWN = "ping -c 1 10.0.0.2 > /dev/null; ping -c 1 fd00::2 > /dev/null; exec"
ADDRESSES = ["10.0.0.2", "fd00::2"]


def linux():
    """What this machine does over a veth whose token bucket passes a packet in 6 ms: a busy machine changes little meanwhile."""
    (script := ["unshare", "-n", "sh", "-ec", textwrap.dedent("""
        unshare -n sh -c "sleep 0.6; exec \\"$1\\" -c \\"$3\\"" & peer=$!
        trap 'kill $peer' EXIT
        sleep 0.3
        ip link set lo up
        ip link add v0 type veth peer name v1 netns $peer
        ip addr add 10.0.0.1/24 dev v0; ip addr add fd00::1/64 dev v0 nodad; ip link set v0 up
        nsenter -n -t $peer sh -c "ip addr add 10.0.0.2/24 dev v1; ip addr add fd00::2/64 dev v1 nodad; ip link set v1 up; ip link set lo up"
        echo "0 2147483647" > /proc/sys/net/ipv4/ping_group_range
        tc qdisc add dev v0 root tbf rate 2mbit burst 2kb limit 10000000
        sleep 0.8
        ping -c 1 10.0.0.2 > /dev/null; ping -c 1 fd00::2 > /dev/null
        "$1" -c "$2" 10.0.0.2 fd00::2
    """), "sh"])
    done = subprocess.run([*script, sys.executable, SENDER, SINK.replace('"', "'")], capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        pytest.skip(f"no network namespace with a veth and tbf: {done.stderr[-200:]}")
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def native():
    if os.geteuid() != 0:
        pytest.skip("only root makes the network to ask Linux in")
    return linux()


def simulated(run_experiment, placement):
    hosts = {
        "a": {"interfaces": {"eth0": ["10.0.0.1/24", "fd00::1/64"]}, "processes": [
            {"path": "sh", "args": ["-c", f'{KNOWN} "$@"', "sh", sys.executable, "-c", SENDER, *ADDRESSES], "start_time": "2 s"}]},
        "b": {"interfaces": {"eth0": ["10.0.0.2/24", "fd00::2/64"]}, "processes": [
            {"path": sys.executable, "args": ["-c", SINK], "expected_final_state": "running"}]},
    }
    done = run_experiment({"general": {"stop_time": "60 s"}, "belljar": {"ipv6": True, "placement": placement}, "hosts": hosts,
                           "links": [{"between": ["a", "b"], "rate": "20 Mbit", "queue": {"bytes": "10 MB"}}]})
    return json.loads(done.text("a"))


@pytest.mark.parametrize("placement", ["near", "far"])
def test_fragments_fill_the_send_buffer(run_experiment, placement):
    """As Linux 6.18 does: 23 buffers for 32 KiB, the last one smaller; raw sockets do not wait, and ping sockets have no SIOCOUTQ."""
    found = simulated(run_experiment, placement)
    for version, charge in ((4, 22 * 2304 + 1280), (6, 23 * 2304)):
        for kind in ("udp", "cork"):
            assert found[f"{kind}{version} 0"] == [5, "EAGAIN", charge, False]
            assert found[f"{kind}{version} 20000"] == [1, "EAGAIN", charge, False]
        assert found[f"ping{version} 0"] == [5, "EAGAIN", "ENOTTY", False]
        assert found[f"raw{version} 0"] == [8, "ENOBUFS", charge, False]
        assert found[f"raw{version} 20000"] == [1, "ENOBUFS", charge, False]
        for kind in ("udp", "cork", "raw", "ping"):
            assert found[f"{kind}{version} 4608"] == [0, "ENOBUFS", 0, True]


@pytest.mark.needs("ip", "tc", "unshare", "nsenter")
def test_linux_does_the_same(native, run_experiment):
    found = simulated(run_experiment, "auto")
    assert set(found) == set(native)
    for case, (sent, error, charge, writable) in native.items():
        # The bucket's burst lets a packet or two pass at once, and others while this process does not run.
        mine = found[case]
        assert (mine[1], mine[3]) == (error, writable) and abs(mine[0] - sent) <= 1, (case, mine, native[case])
        if isinstance(charge, int):
            # The parts of a corked datagram are cut elsewhere.
            assert -200 <= mine[2] - charge <= 5 * 2304, (case, mine, native[case])
        else:
            assert mine[2] == charge, case


def test_a_blocking_sender_takes_as_long_as_the_link(run_experiment):
    """100 datagrams of 32 KiB at 10 Mbit/s: Linux's send takes 2.5 s, and all arrive."""
    send = "import socket, time; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(('b', 9)); s.send(b'x'); time.sleep(1); t = time.monotonic()\n" \
        "for _ in range(100): s.send(b'y' * 32768)\nprint(time.monotonic() - t)"
    take = "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('', 9)); s.settimeout(6); n = 0\n" \
        "try:\n    while True: n += len(s.recv(65536)) > 100\nexcept TimeoutError: print(n)"
    hosts = {"a": {"processes": [{"path": sys.executable, "args": ["-c", send], "start_time": "1 s"}]}, "b": {"processes": [{"path": sys.executable, "args": ["-c", take]}]}}
    for graph in (False, True):
        made = {name: {**host, **({"network_node_id": 0, "bandwidth_up": "10 Mbit", "bandwidth_down": "100 Mbit"} if graph else {})} for name, host in hosts.items()}
        network = {"network": {"graph": {"type": "1_gbit_switch"}}} if graph else {"links": [{"between": ["a", "b"], "rate": "10 Mbit", "latency": "1 ms"}]}
        done = run_experiment({"general": {"stop_time": "30 s"}, "hosts": made, **network})
        assert 2.3 < float(done.text("a")) < 2.7 and done.text("b") == "100\n", (graph, done.text("a"), done.text("b"))
