"""Traffic control: scripts of `tc` give on a simulated host what they give in namespaces of this machine's kernel, and disciplines have the
rates, delays and losses that they are set to."""

import json
import re

import pytest
from conftest import EXAMPLES, assert_same_hosts, execute, in_namespaces

# Interfaces as both kernels make them, without traffic of IPv6. `r` shows a command before its output.
SETUP = """
ip link set lo up
echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6; echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6
ip link add v0 numtxqueues 1 type veth peer name v1 numtxqueues 1
ip link add i0 type ifb
for name in v0 v1 i0; do ip link set $name up; done
r() { echo "\\$ $*"; "$@" 2>&1; }
"""

SCRIPTS = {
    "disciplines": """
        r tc qdisc show | grep -v eth0
        r tc qdisc add dev v0 root handle 1: htb default 10
        r tc qdisc add dev v0 root handle 1: htb default 10
        r tc qdisc add dev v0 root handle 2: pfifo
        r tc qdisc change dev v0 root handle 2: pfifo
        r tc qdisc change dev v0 root handle 1: htb default 20
        r tc qdisc replace dev v0 root handle 1: pfifo
        r tc qdisc add dev v0 parent 1:99 pfifo
        r tc qdisc add dev v0 parent 3: pfifo
        r tc qdisc del dev v0 root handle 5:
        r tc qdisc del dev v0 handle 1:
        r tc qdisc del dev v0 root pfifo
        r tc qdisc add dev v0 root nonsense
        r tc qdisc add dev v0 root pfifo limit 10
        r tc qdisc replace dev v0 root pfifo limit 10
        r tc qdisc change dev v0 root pfifo limit 11
        r tc qdisc show dev v0
        r tc qdisc replace dev v0 root handle 7: pfifo limit 10
        r tc qdisc replace dev v0 root handle 7: bfifo
        r tc qdisc change dev v0 root handle 7: pfifo limit 1
        r tc qdisc change dev v0 root bfifo limit 1
        r tc qdisc add dev v0 root handle 7: pfifo limit 1
        r tc qdisc add dev v0 root handle 7:1 pfifo limit 1
        r tc -s -d qdisc show dev v0
        r tc qdisc replace dev v0 root handle 1: tbf rate 1mbit burst 10k latency 50ms
        r tc qdisc add dev v0 parent 1:1 handle 5: bfifo limit 3000
        r tc -s -d qdisc show dev v0
        r tc -s class show dev v0
        r tc qdisc change dev v0 root tbf rate 2mbit burst 10k limit 10000 peakrate 3mbit mtu 1600
        r tc -d qdisc show dev v0
        r tc qdisc change dev v0 root tbf rate 2mbit burst 10k limit 10000 peakrate 1mbit mtu 1600
        r tc qdisc replace dev v0 root handle 2: stab overhead 10 linklayer atm tbf rate 1mbit burst 10k limit 10k
        r tc -d qdisc show dev v0
        r tc qdisc show invisible dev v0
        r tc qdisc del dev v0 root
        r tc qdisc del dev v0 root
        r tc qdisc show dev v0
        r tc qdisc add dev lo root pfifo_fast
        r tc qdisc show dev lo
        r tc -j qdisc show dev lo
        r tc qdisc del dev lo root
        r tc qdisc show dev lo
        r tc qdisc show dev nope
    """,
    "ingress": """
        r tc qdisc add dev v0 ingress
        r tc qdisc add dev v0 handle 5: ingress
        r tc qdisc add dev v0 clsact
        r tc qdisc replace dev v0 ingress
        r tc qdisc add dev v0 parent ffff:fff1 pfifo
        r tc qdisc show dev v0
        r tc filter add dev v0 ingress protocol all u32 match u32 0 0
        r tc filter show dev v0 ingress
        r tc qdisc del dev v0 clsact
        r tc qdisc del dev v0 ingress
        r tc qdisc del dev v1 ingress
        r tc qdisc add dev v0 clsact
        r tc filter add dev v0 egress protocol ip prio 3 u32 match ip dst 10.0.0.0/8 action mirred egress mirror dev i0
        r tc filter show dev v0 egress
        r tc qdisc show dev v0
        r tc class show dev v0
        r tc qdisc del dev v0 clsact
        r tc qdisc show dev v0
    """,
    "classes": """
        r tc qdisc add dev v0 root handle 1: htb default 10 r2q 5
        r tc class add dev v0 parent 1: classid 1:1 htb rate 10mbit
        r tc class add dev v0 parent 1:1 classid 1:10 htb rate 1mbit ceil 5mbit prio 1 burst 15k
        r tc class add dev v0 parent 1:1 classid 1:20 htb rate 3mbit ceil 10mbit quantum 3000
        r tc class add dev v0 parent 1:1 classid 1:20 htb rate 3mbit
        r tc class add dev v0 parent 1:9 classid 1:30 htb rate 3mbit
        r tc class add dev v0 parent 2: classid 2:30 htb rate 3mbit
        r tc class add dev v0 parent 1: classid 1:50 htb rate 10gbit
        r tc class add dev v0 parent 1: classid 1:51 htb rate 100gbit
        r tc class change dev v0 parent 1:1 classid 1:10 htb rate 2mbit
        r tc class replace dev v0 classid 1:30 htb rate 2mbit
        r tc class change dev v0 parent 1: classid 1:99 htb rate 1mbit
        r tc qdisc add dev v0 parent 1:10 handle 10: pfifo limit 5
        r tc qdisc add dev v0 parent 1:20 handle 20: tbf rate 1mbit burst 10k latency 50ms
        r tc qdisc add dev v0 parent 1:20 tbf rate 1mbit burst 10k limit 10000
        r tc qdisc replace dev v0 parent 1:20 tbf rate 1mbit burst 10k limit 10000
        r tc qdisc add dev v0 parent 1:30 handle 1: pfifo
        r tc qdisc add dev v0 parent 1:30 handle 30: htb
        r tc qdisc add dev v0 parent 1:1 handle 21: bfifo
        for n in 60 61 62 63 64 65; do r tc class add dev v0 parent 30: classid 30:$n htb rate 1mbit; done
        r tc -d qdisc show dev v0
        r tc -s -d class show dev v0
        r tc class show dev v0 parent 1:
        r tc class show dev v0 classid 1:10
        r tc -j class show dev v0 classid 1:10
        r tc class del dev v0 classid 1:1
        r tc class del dev v0 classid 1:10
        r tc class del dev v0 classid 1:99
        r tc class del dev v0 classid 1:0
        r tc qdisc del dev v0 parent 1:30 handle 21:
        r tc qdisc del dev v0 parent 1:30
        r tc qdisc del dev v0 parent 1:77
        r tc class show dev v0
        r tc class del dev v0 classid 1:20
        r tc class del dev v0 classid 1:1
        r tc class show dev v0
    """,
    "filters": """
        r tc qdisc add dev v0 root handle 1: htb default 10
        for n in 10 20; do tc class add dev v0 parent 1: classid 1:$n htb rate 1mbit; done
        r tc filter add dev v0 parent 1: protocol ip u32 match ip dst 10.0.0.1 flowid 1:10
        r tc filter add dev v0 parent 1: protocol ip prio 5 u32 match ip dport 80 0xffff match ip protocol 6 0xff flowid 1:20
        r tc filter add dev v0 parent 1: protocol ip prio 5 u32 match ip src 10.0.0.0/8 flowid 1:10
        r tc filter add dev v0 parent 1: protocol ip u32 match ip dst 10.0.0.2 flowid 1:10
        r tc filter add dev v0 parent 1: protocol ip prio 5 fw flowid 1:10
        r tc filter add dev v0 parent 1: protocol ip prio 6 nonsense
        r tc filter add dev v0 parent 1: protocol ip prio 6 u32 match u32 0 0 flowid 1:10 action mirred egress redirect dev i0
        r tc filter add dev v0 parent 1: protocol ipv6 prio 49152 u32 match ip6 dst ::1/128 flowid 1:10
        r tc filter add dev v0 parent 1: protocol ipv6 prio 10 u32 match ip6 dst ::1/128 flowid 1:10
        r tc filter del dev v0 parent 1: protocol ip prio 10
        r tc filter del dev v0 parent 1: prio 7
        r tc filter add dev v0 parent 1: prio 20 protocol ip handle 2: u32 divisor 256
        r tc filter add dev v0 parent 1: prio 20 protocol ip u32 ht 2:5 match ip src 10.0.0.5 flowid 1:10
        r tc filter add dev v0 parent 1: prio 20 protocol ip u32 ht 800: match ip dst 10.0.0.0/8 hashkey mask 0x000000ff at 12 link 2:
        r tc filter add dev v0 parent 1: prio 20 protocol ip u32 ht 4: match ip dst 10.0.0.0/8 flowid 1:1
        r tc filter add dev v0 parent 1: prio 20 protocol ip handle 801::5 u32 match ip dst 10.0.0.0/8 match mark 5 0xff flowid 1:1
        r tc filter change dev v0 parent 1: prio 20 protocol ip handle 801::5 u32 match ip dst 10.0.0.0/8 flowid 1:2
        r tc filter show dev v0
        r tc filter show dev v0 parent 1: protocol ip prio 5
        r tc filter get dev v0 parent 1: prio 5 protocol ip handle 801::800 u32
        r tc filter get dev v0 parent 1: prio 20 protocol ip handle 801::5 u32
        r tc filter del dev v0 parent 1: prio 20 protocol ip handle 801::6 u32
        r tc filter del dev v0 parent 1: prio 20 protocol ip handle 2: u32
        r tc filter del dev v0 parent 1: prio 20 protocol ip u32
        r tc class del dev v0 classid 1:10
        r tc filter del dev v0 parent 1:
        r tc filter show dev v0
        r tc filter del dev v0 parent 1:
        r tc filter del dev v0 parent 1: prio 5
        r tc filter add dev v0 parent 1:7 protocol ip u32 match u32 0 0
        r tc filter add dev v0 parent 7: protocol ip u32 match u32 0 0
        r tc filter add dev v0 parent 1:10 protocol all u32 match u32 0 0 flowid 1:20
        r tc filter show dev v0 parent 1:10
        r tc filter show dev v0
        r tc filter add dev v1 protocol ip u32 match u32 0 0
    """,
    "actions": """
        r tc actions ls action mirred
        r tc actions add action mirred egress redirect dev v0 index 7
        r tc actions add action mirred egress redirect dev v0 index 7
        r tc actions add action mirred egress mirror dev v1
        r tc actions replace action mirred ingress redirect dev v0 index 7
        r tc actions ls action mirred
        r tc actions get action mirred index 7
        r tc actions get action mirred index 8
        r tc qdisc add dev i0 root handle 1: htb
        r tc filter add dev i0 parent 1: protocol ip prio 1 u32 match u32 0 0 action mirred index 7
        r tc filter show dev i0
        r tc actions ls action mirred
        r tc actions del action mirred index 7
        r tc actions flush action mirred
        r tc actions ls action mirred
    """,
    # What fits the bucket and the queue, at a rate of next to nothing; classes by ports; the default class.
    "traffic": """
        for name in a b; do ip netns add $name; ip -n $name link set lo up; done
        ip link add a0 netns a type veth peer name b0 netns b
        for name in a b; do ip netns exec $name sh -c 'echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6'; done
        ip -n a addr add 10.1.0.1/24 dev a0; ip -n b addr add 10.1.0.2/24 dev b0
        ip -n a link set a0 up; ip -n b link set b0 up
        ip -n a neigh add 10.1.0.2 lladdr $(ip -n b -o link show b0 | grep -o 'ether [^ ]*' | cut -c7-) dev a0
        # The kernel notices carriers once a second, and drops what is sent before.
        sleep 1.2
        a="ip netns exec a"; tc="ip netns exec a tc"
        cat > send.py <<'END'
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(int(sys.argv[3])):
    s.sendto(bytes(int(sys.argv[2])), ("10.1.0.2", int(sys.argv[1])))
END
        count() { sed 's/overlimits [0-9]*//; s/refcnt [0-9]*//' | grep -vE 'tokens|lended|^ *$'; }
        $tc qdisc add dev a0 root handle 1: tbf rate 8kbit burst 5000 limit 10000
        $a python3 send.py 9 958 40
        $tc -s qdisc show dev a0 | count
        $tc qdisc replace dev a0 root handle 2: pfifo limit 5
        $a python3 send.py 9 100 20
        $tc -s qdisc show dev a0 | count
        $tc qdisc replace dev a0 root handle 3: htb default 30
        $tc class add dev a0 parent 3: classid 3:1 htb rate 100mbit
        for n in 10 20 30; do $tc class add dev a0 parent 3:1 classid 3:$n htb rate 10mbit ceil 100mbit; done
        $tc qdisc add dev a0 parent 3:20 handle 20: pfifo limit 50
        $tc filter add dev a0 parent 3: protocol ip prio 1 u32 match ip dport 1001 0xffff flowid 3:10
        $tc filter add dev a0 parent 3: protocol ip prio 2 u32 match ip dport 1002 0xffff flowid 3:20
        $tc filter add dev a0 parent 3: protocol ip prio 3 u32 match ip dport 1003 0xffff flowid 3:0
        for port in 1001 1002 1002 1003 1004; do $a python3 send.py $port 100 3; done
        $tc -s class show dev a0 | count
        $tc -s qdisc show dev a0 | count
        ip netns exec b tc qdisc add dev b0 ingress
        ip -n b link add i0 type ifb; ip -n b link set i0 up; sleep 1.2
        ip netns exec b tc filter add dev b0 ingress protocol ip u32 match ip dport 1001 0xffff action mirred egress redirect dev i0
        ip netns exec b tc qdisc add dev i0 root handle 1: pfifo 2>/dev/null
        ip netns exec b tc qdisc replace dev i0 root handle 1: pfifo
        for port in 1001 1004; do $a python3 send.py $port 100 4; done
        sleep 0.3
        ip netns exec b tc -s qdisc show dev b0 | count
        ip netns exec b tc -s qdisc show dev i0 2>&1 | count
        ip netns exec b tc -s filter show dev b0 ingress | grep -A2 statistics
    """,
}


# Timestamps (1: queued, 0: sent) of a datagram by each device: an ifb that drops it, a bridge over a port, the port, and a device whose filter
# moves it to the ifb and from there back to the discipline of the device.
STAMPS = """
import socket, struct, subprocess, time
def run(line): subprocess.run(line, shell=True, check=True)
DEVICES = ("ifb0", "br0", "v0", "w0")
run("ip link set lo up; ip link add ifb0 type ifb; ip link add br0 type bridge; ip link add v0 type veth peer name w0; ip link set v0 master br0")
for n, device in enumerate(DEVICES):
    run(f"echo 1 > /proc/sys/net/ipv6/conf/{device}/disable_ipv6; ip link set {device} up; ip addr add 10.{n}.0.1/24 dev {device}")
    run(f"ip neigh replace 10.{n}.0.2 lladdr 02:00:00:00:09:02 dev {device}")
run("tc qdisc add dev w0 clsact; tc filter add dev w0 egress protocol ip u32 match u32 0 0 action mirred egress redirect dev ifb0")
run("tc qdisc add dev w0 root handle 5: htb default 1; tc class add dev w0 parent 5: classid 5:1 htb rate 10mbit; tc qdisc add dev ifb0 root handle 6: pfifo")
time.sleep(0.5)
for n, device in enumerate(DEVICES):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.setsockopt(socket.SOL_SOCKET, 37, 1 << 8 | 1 << 1 | 1 << 4 | 1 << 7 | 1 << 11)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device.encode())
    s.sendto(b"x", (f"10.{n}.0.2", 9))
    time.sleep(0.1)
    stamps = []
    while True:
        try: _, ancillary, _, _ = s.recvmsg(1, 999, socket.MSG_ERRQUEUE | socket.MSG_DONTWAIT)
        except BlockingIOError: break
        stamps += [struct.unpack_from("IBBBBII", data)[5] for level, _, data in ancillary if level == 0]
    print(device, stamps, flush=True)
for device in ("w0", "ifb0"): run(f"tc -s qdisc show dev {device} | grep -o 'qdisc [a-z]* [0-9]*:\\|Sent.*pkt'")
"""


@pytest.mark.needs("tc", "ip", "unshare", "python3")
def test_stamps_and_disciplines_of_moved_packets(exec_guest, workdir):
    compare(exec_guest, workdir, f"python3 - <<'END'\n{STAMPS}\nEND")


@pytest.mark.needs("tc", "ip", "unshare", "python3")
@pytest.mark.parametrize("name", SCRIPTS)
def test_as_on_linux(exec_guest, workdir, name):
    """The output of a script in namespaces of this machine and on a simulated host."""
    compare(exec_guest, workdir, SETUP + SCRIPTS[name])


def compare(exec_guest, workdir, script):
    probe = "ip link add i0 type ifb && tc qdisc add dev lo root handle 1: htb && tc filter add dev lo parent 1: protocol ip u32 match u32 0 0"
    if execute(["unshare", "-nm", "sh", "-c", probe]).status != 0:
        pytest.skip("this machine's kernel has no traffic control, or namespaces are denied")
    # Mounts are the script's own; a simulated host has them anyway.
    script = "mount -t tmpfs tmpfs /run\n" + script

    def shown(run):
        # Handles that the kernel chooses continue those of all namespaces since the start.
        return re.sub(r"\b80[0-9a-f]{2}:", "AUTO:", run.out)

    ours = exec_guest(["bash", "-c", script])
    linux = in_namespaces(script, workdir / "real", lambda run: shown(run) == shown(ours))
    assert shown(linux).count("\n") > 8, linux
    assert shown(ours) == shown(linux), f"{linux}\n{ours}"


def test_netem_delays_and_loses(exec_guest):
    """Means, deviations and shares over 4,000 packets are those of the settings."""
    script = """
    ip link set lo up
    echo 0 > /proc/sys/net/ipv4/icmp_ratemask
    tc qdisc add dev lo root netem limit 10000 %s
    ping -q -f -c 2000 -i 0.01 127.0.0.1 | tail -2
    tc -s qdisc show dev lo
    """
    def measured(settings):
        out = exec_guest(["bash", "-c", script % settings]).out
        rtt = re.search(r"= [\d.]+/([\d.]+)/[\d.]+/([\d.]+)", out)
        sent, dropped = map(int, re.search(r"Sent \d+ bytes (\d+) pkt \(dropped (\d+),", out).groups())
        return float(rtt[1]), float(rtt[2]), sent, dropped

    mean, deviation, sent, dropped = measured("delay 20ms")
    assert (mean, deviation, sent, dropped) == (40.0, 0.0, 4000, 0)
    mean, deviation, *_ = measured("delay 20ms 4ms distribution normal")
    # Two independent delays: 40 ms and 4 ms times the root of two.
    assert abs(mean - 40) < 0.8 and abs(deviation / (4 * 2 ** 0.5) - 1) < 0.05, (mean, deviation)
    mean, deviation, *_ = measured("delay 20ms 4ms")
    # Uniform within +- 4 ms: a deviation of 4 / sqrt(3).
    assert abs(mean - 40) < 0.8 and abs(deviation / (4 * (2 / 3) ** 0.5) - 1) < 0.05, (mean, deviation)
    *_, sent, dropped = measured("loss 10%")
    assert abs(dropped / (sent + dropped) - 0.1) < 0.02, (sent, dropped)
    *_, sent, dropped = measured("loss gemodel 2% 20%")
    assert abs(dropped / (sent + dropped) - 0.02 / 0.22) < 0.03, (sent, dropped)
    *_, sent, dropped = measured("duplicate 10%")
    assert dropped == 0 and abs(sent / 4000 - 1.155) < 0.03, sent


RATES = {
    "tbf": "tc qdisc add dev lo root tbf rate 8mbit burst 20k limit 300k",
    "htb": "tc qdisc add dev lo root handle 1: htb default 1; tc class add dev lo parent 1: classid 1:1 htb rate 8mbit",
    "netem": "tc qdisc add dev lo root netem rate 8mbit limit 200",
    "fq_codel": "tc qdisc add dev lo root handle 1: htb default 1; tc class add dev lo parent 1: classid 1:1 htb rate 8mbit; "
                "tc qdisc add dev lo parent 1:1 fq_codel",
    "sfq": "tc qdisc add dev lo root handle 1: tbf rate 8mbit burst 20k limit 300k; tc qdisc add dev lo parent 1:1 sfq",
    "red": "tc qdisc add dev lo root handle 1: tbf rate 8mbit burst 20k limit 300k; tc qdisc add dev lo parent 1:1 red limit 400k avpkt 1500 "
           "min 30k max 90k burst 50 probability 0.1 bandwidth 8mbit",
}

BLAST = """
import socket, threading, time
receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4000000)
receiver.bind(("127.0.0.1", 5000))
times = []
def receive():
    while True:
        receiver.recv(2000)
        times.append(time.monotonic())
threading.Thread(target=receive, daemon=True).start()
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4000000)
# 12 Mbit/s for 10 s.
for n in range(10000):
    sender.sendto(bytes(1458), ("127.0.0.1", 5000))
    time.sleep(0.001)
# 1500 bytes with headers; the first second has the burst.
print(sum(2 <= t - times[0] < 9 for t in times) * 1500 * 8 / 7)
"""


@pytest.mark.parametrize("name", RATES)
def test_rates(exec_guest, name):
    """A discipline of 8 Mbit/s lets 8 Mbit/s pass, to 2 %."""
    out = exec_guest(["bash", "-c", f"ip link set lo up; {RATES[name]}; python3 -c '{BLAST}'; tc -s qdisc show dev lo"]).out
    rate = float(out.splitlines()[0])
    assert abs(rate / 8e6 - 1) < 0.02, out
    assert re.search(r"dropped [1-9]", out), out


def test_filters_of_other_kinds(exec_guest):
    """Classifiers and actions that select packets by marks, ports, protocols and addresses, and change or drop them."""
    out = exec_guest(["bash", "-ec", """
        ip link set lo up
        tc qdisc add dev lo root handle 1: prio
        tc filter add dev lo parent 1: prio 1 protocol ip handle 7 fw flowid 1:1
        tc filter add dev lo parent 1: prio 2 protocol ip flower ip_proto udp dst_port 5001 action skbedit priority 1:2
        tc filter add dev lo parent 1: prio 3 protocol ip flower ip_proto udp dst_port 5002-5003 action drop
        tc filter add dev lo parent 1: prio 4 protocol ip basic match 'cmp(u16 at 2 layer transport eq 5004)' flowid 1:3
        tc filter add dev lo parent 1: prio 5 protocol ip flower ip_proto udp dst_port 5005 action police rate 8kbit burst 3000 conform-exceed drop
        tc qdisc add dev lo clsact
        tc filter add dev lo ingress protocol ip matchall action gact ok
        cat > send.py <<'END'
import socket, sys
for port in sys.argv[1:]:
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    if port == "5000":
        s.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, 7)
    for _ in range(10):
        s.sendto(bytes(958), ("127.0.0.1", int(port)))
END
        python3 send.py 5000 5002 5003 5004 5005
        tc -s class show dev lo
        tc -s filter show dev lo
        tc -s filter show dev lo ingress
    """]).out
    # 10 packets of each port; the ICMP errors about them go by their type of service.
    packets = dict(re.findall(r"class prio (\S+) .*\n Sent \d+ bytes (\d+) pkt", out))
    assert packets["1:1"] == "10" and packets["1:3"] == "10", out
    # Both ports of the range, and of the policed one all but three packets of a burst of 3,000 bytes.
    dropped = re.findall(r"dropped (\d+), overlimits (\d+)", out)
    assert ("20", "0") in dropped and ("7", "7") in dropped, out
    assert re.search(r"matchall[\s\S]*Sent [1-9]\d* bytes", out), out


def test_not_supported_is_refused_and_named(exec_guest):
    run = exec_guest(["bash", "-c", """
        tc qdisc add dev lo root cake
        tc qdisc add dev lo root handle 1: htb
        tc filter add dev lo parent 1: protocol ip cgroup
        tc qdisc add dev lo estimator 1sec 8sec root pfifo
    """])
    assert "Specified qdisc kind is unknown" in run.err
    assert "TC classifier not found" in run.err
    for named in ("queueing discipline 'cake'", "classifier 'cgroup'", "rate estimators"):
        assert named in run.err, run.err


def test_drops_are_in_the_account(run_experiment):
    """Packets that disciplines and actions drop have reasons of their own, and the account of each host holds."""
    done = run_experiment({
        "general": {"stop_time": "5 s"},
        "hosts": {
            "a": {"interfaces": {"eth0": "10.0.0.1/24"}, "processes": [{"path": "bash", "args": ["-c", """
                ping -q -c 1 10.0.0.2
                tc qdisc add dev eth0 root handle 1: prio
                tc qdisc add dev eth0 parent 1:2 netem loss 50%
                tc filter add dev eth0 parent 1: protocol ip flower ip_proto udp dst_port 9 action drop
                python3 -c 'import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for port in [9] * 5 + [10] * 40: s.sendto(b"x", ("10.0.0.2", port))'
                tc qdisc replace dev eth0 root pfifo limit 1
                tc -s qdisc show dev eth0"""]}]},
            "b": {"interfaces": {"eth0": "10.0.0.2/24"}},
        },
        "links": [{"between": ["a:eth0", "b:eth0"], "rate": "10 Mbit"}],
    })
    stack = json.loads((done.path / "sim-stats.json").read_text())["packets"]
    text = json.dumps(stack)
    assert re.search(r'"tc_filter": 5\b', text), text
    assert re.search(r'"netem_loss": (1\d|2\d)\b', text), text


@pytest.mark.needs("tc", "iperf3", "ping")
def test_shaping(run_experiment):
    done = run_experiment(EXAMPLES / "shaping.yaml")
    received = json.loads(done.text("client", "iperf3"))["end"]["sum_received"]["bits_per_second"]
    # 10 Mbit/s of frames, of which 1448 of 1514 bytes are payload.
    assert 8.8e6 < received < 9.7e6, received
    loss, rtt = re.search(r"(\d+)% packet loss[\s\S]*= [\d.]+/([\d.]+)/", done.text("client", "ping")).groups()
    assert loss == "0" and 23 < float(rtt) < 35, (loss, rtt)
    shown = "".join(stream.read_text() for stream in done.streams("router", "tc"))
    assert "class htb 1:10 parent 1:1" in shown and "qdisc fq_codel 20: dev eth1 parent 1:20" in shown, shown


@pytest.mark.needs("tc", "iperf3", "ping")
def test_same_bytes(run_experiment):
    """A run with disciplines that draw is the same far and near, and with more workers."""
    runs = [run_experiment(EXAMPLES / "shaping.yaml", args=args, pcap=True, name=f"shaping{n}")
            for n, args in enumerate((["--parallelism", "1"], ["--parallelism", "2"], ["--parallelism", "3"], ["--placement", "far"]))]
    assert_same_hosts(runs)


def test_a_link_with_a_rate_leaves_packets_to_the_discipline(run_experiment):
    """On a link of 1 Mbit/s, packets of the first band overtake those of the last one that wait, without a class that limits the rate."""
    send = """
import socket
for port, priority, count in [(1, 0, 1), (7001, 2, 20), (7002, 6, 5)]:
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, priority)
    for _ in range(count): s.sendto(bytes(1000), ("10.0.0.2", port))
    if port == 1:
        import time; time.sleep(1)
"""
    receive = """
import select, socket
sockets = {}
for port in (7001, 7002):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind(("", port))
    sockets[s] = port
order = []
while len(order) < 25:
    for s in select.select(list(sockets), [], [])[0]:
        s.recv(2000)
        order.append(sockets[s])
print(*order)
"""
    done = run_experiment({
        "general": {"stop_time": "10 s"},
        "hosts": {
            "a": {"interfaces": {"eth0": "10.0.0.1/24"}, "processes": [
                {"path": "bash", "args": ["-c", f"tc qdisc add dev eth0 root prio; python3 -c '{send}'; tc -s qdisc show dev eth0"], "start_time": "1 s"}]},
            "b": {"interfaces": {"eth0": "10.0.0.2/24"}, "processes": [{"path": "python3", "args": ["-c", receive]}]},
        },
        "links": [{"between": ["a:eth0", "b:eth0"], "rate": "1 Mbit"}],
    })
    order = done.text("b", "python3").split()
    # One packet is on the link, and one is next in the interface.
    assert order[:2] == ["7001"] * 2 and order[2:7] == ["7002"] * 5, order
