#!/usr/bin/env python3
"""Records what this machine's kernel makes of packets, for tests/linux.rs: run as root, with nft(8) in PATH.

A router in a network namespace of its own has two TUN interfaces, to clients (10.0.1.0/24) and servers (10.0.2.0/24). Packets are
written to one and read from the other; `ct state invalid` is dropped, so that it shows. After each packet the entry is read from
/proc/net/nf_conntrack.

    unshare -n crates/conntrack/tests/linux/record.py tcp > crates/conntrack/tests/linux/tcp.txt
    unshare -n crates/conntrack/tests/linux/record.py nat > crates/conntrack/tests/linux/nat.txt
    unshare -n crates/conntrack/tests/linux/record.py nat6 > crates/conntrack/tests/linux/nat6.txt
    unshare -n crates/conntrack/tests/linux/record.py ftp > crates/conntrack/tests/linux/ftp.txt
    unshare -n crates/conntrack/tests/linux/record.py events > crates/conntrack/tests/linux/events.txt
    unshare -n crates/conntrack/tests/linux/record.py choice > crates/conntrack/tests/linux/choice.txt

`tcp`: drawn segments, a line each: direction, flags, sequence number, acknowledgment, window, length of the payload and options
(`wN` window scale, `p` SACK permitted, `kN` a SACK block up to N); after `=` whether the packet passed, and the state, timeout and
marks of the entry (`U` unreplied, `A` assured). A line `flow` begins a connection, with a setting that changes.

`nat`, `nat6`, `ftp`: packets in hexadecimal with what left the router, or `-`; `wait` is in milliseconds.

`events`: the same, with the netlink messages that followed; in these, identifier, timeout and port are zero. `flush` removes all entries.

`choice`: kind of rule, client, server, and the addresses of the packet that left the router.
"""

import fcntl
import os
import random
import re
import select
import socket
import struct
import subprocess
import sys
import time

CLIENT, SERVER, OUTSIDE = "10.0.1.1", "10.0.2.2", "10.0.9.9"
FLAGS = {"F": 1, "S": 2, "R": 4, "P": 8, "A": 16, "U": 32}


def run(command, text=None):
    subprocess.run(command, shell=True, check=True, input=text, text=True)


def tun(name):
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(fd, 0x400454CA, struct.pack("16sH", name.encode(), 0x1001))
    return fd


def address(text):
    return bytes(map(int, text.split(".")))


def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def ip(source, target, protocol, body):
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(body), 1, 0, 64, protocol, 0, address(source), address(target))
    return head[:10] + struct.pack("!H", checksum(head)) + head[12:] + body


def transport(source, target, protocol, body, at):
    pseudo = address(source) + address(target) + struct.pack("!BBH", 0, protocol, len(body))
    value = checksum(pseudo + body) or 0xFFFF
    return ip(source, target, protocol, body[:at] + struct.pack("!H", value) + body[at + 2:])


def ip6(source, target, protocol, body):
    return struct.pack("!IHBB", 6 << 28, len(body), protocol, 64) + source + target + body


def transport6(source, target, protocol, body, at):
    source, target = (socket.inet_pton(socket.AF_INET6, name) for name in (source, target))
    value = checksum(source + target + struct.pack("!IHBB", len(body), 0, 0, protocol) + body) or 0xFFFF
    return ip6(source, target, protocol, body[:at] + struct.pack("!H", value) + body[at + 2:])


def udp6(source, sport, target, dport, data):
    return transport6(source, target, 17, struct.pack("!HHHH", sport, dport, 8 + len(data), 0) + data, 6)


def tcp6(source, sport, target, dport, flags, seq, ack):
    return transport6(source, target, 6, struct.pack("!HHIIBBHHH", sport, dport, seq, ack, 0x50, flags, 1000, 0, 0), 16)


def icmp6(source, target, kind, code, word, data):
    return transport6(source, target, 58, struct.pack("!BBHI", kind, code, 0, word) + data, 2)


def udp(source, sport, target, dport, data):
    return transport(source, target, 17, struct.pack("!HHHH", sport, dport, 8 + len(data), 0) + data, 6)


def icmp(source, target, kind, code, word, data):
    body = struct.pack("!BBHI", kind, code, 0, word) + data
    return ip(source, target, 1, body[:2] + struct.pack("!H", checksum(body)) + body[4:])


def segment(source, sport, target, dport, flags, seq, ack, window, data, options=b""):
    options += b"\1" * (-len(options) % 4)
    head = struct.pack("!HHIIBBHHH", sport, dport, seq, ack, (20 + len(options)) // 4 << 4, flags, window, 0, 0)
    return transport(source, target, 6, head + options + data, 16)


def options_of(words):
    out = b""
    for word in words:
        if word[0] == "w":
            out += bytes([1, 3, 3, int(word[1:])])
        elif word[0] == "p":
            out += bytes([1, 1, 4, 2])
        else:
            right = int(word[1:])
            out += bytes([1, 1, 5, 10]) + struct.pack("!II", (right - 50) & 0xFFFFFFFF, right)
    return out


class Router:
    def __init__(self, rules):
        self.ends = [tun("tun0"), tun("tun1")]
        run("ip link set lo up; ip addr add 10.0.1.254/24 dev tun0; ip addr add 10.0.2.254/24 dev tun1; ip addr add 10.0.9.9/32 dev lo; ip addr add 10.0.9.200/32 dev lo;"
            "ip link set tun0 up; ip link set tun1 up; echo 1 > /proc/sys/net/ipv4/ip_forward; echo 1 > /proc/sys/net/ipv6/conf/all/forwarding;"
            "ip addr add 2001:db8:1::fe/64 dev tun0 nodad; ip addr add 2001:db8:2::fe/64 dev tun1 nodad; ip addr add 2001:db8:9::9/128 dev lo nodad")
        run("nft -f -", rules)
        time.sleep(0.2)
        self.drain()

    def drain(self):
        for end in self.ends:
            while select.select([end], [], [], 0)[0]:
                os.read(end, 4096)

    def send(self, side, packet):
        """What leaves at either side, as (side, packet)."""
        os.write(self.ends[side], packet)
        for _ in range(2):
            ready = select.select(self.ends, [], [], 0.03 if sys.argv[1] == "tcp" else 0.3)[0]
            for end in ready:
                found = os.read(end, 4096)
                # Not what the kernel sends of its own to neighbours.
                if found[0] >> 4 == 4 or found[8] != 0xFE and found[24] != 0xFF and found[8:24] != bytes(16):
                    return self.ends.index(end), found
        return None


def entry(pattern):
    with open("/proc/net/nf_conntrack") as file:
        lines = [line for line in file if pattern in line]
    return lines[0] if lines else None


def flush():
    socket_bytes = struct.pack("=IHHII", 20, 0x0102, 5, 1, 0) + bytes([0, 0, 0, 0])
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12) as sock:
        sock.bind((0, 0))
        sock.send(socket_bytes)
        sock.recv(4096)


def draw_flow(draw):
    """Segments of one connection, mostly near what its ends would send."""
    nexts = {">": draw.choice([100, 2**32 - 300, draw.getrandbits(32)]), "<": draw.choice([500, draw.getrandbits(32)])}
    scales = {side: draw.choice([None, None, 0, 2, 7]) for side in nexts}
    sack = {side: draw.random() < 0.5 for side in nexts}
    seen = set()
    for n in range(draw.randint(4, 16)):
        plain = {0: (">", "S"), 1: ("<", "SA"), 2: (">", "A")}.get(n)
        if plain and draw.random() < 0.85:
            side, flags = plain
        else:
            side = draw.choice("><")
            flags = draw.choices(["A", "PA", "FA", "R", "RA", "S", "SA", "AU", "F", "SF", ""], [30, 10, 10, 6, 5, 4, 3, 1, 1, 1, 1])[0]
        other = "<" if side == ">" else ">"
        seq = (nexts[side] + draw.choices([0, -1, 1, -40, 40, 900, 1100, 3000, 70000, -70000, -nexts[side]], [60, 3, 3, 4, 4, 4, 4, 3, 3, 3, 2])[0]) % 2**32
        ack = (nexts[other] + draw.choices([0, -1, 1, -40, 40, 3000, -70000, -nexts[other]], [70, 4, 4, 4, 4, 3, 3, 3])[0]) % 2**32
        if "A" not in flags:
            ack = draw.choice([0, 0, ack])
        window = draw.choices([1000, 0, 1, 65535, 200], [70, 8, 3, 10, 9])[0]
        size = draw.choice([0, 0, 10, 100, 1000]) if "A" in flags and not set(flags) & set("SR") else 0
        words = []
        if "S" in flags:
            words = [f"w{scales[side]}"] * (scales[side] is not None) + ["p"] * sack[side]
            seen.add(side)
        elif "A" in flags and draw.random() < 0.1:
            words = [f"k{(nexts[other] + draw.choice([-200, 0, 500])) % 2**32}"]
        yield side, flags, seq, ack, window, size, words
        if seq == nexts[side]:
            nexts[side] = (seq + size + ("S" in flags) + ("F" in flags)) % 2**32


def record_tcp(router):
    draw = random.Random(1)
    settings = {260: "tcp_be_liberal 1", 310: "tcp_be_liberal 0", 311: "tcp_loose 0", 360: "tcp_loose 1", 361: "tcp_ignore_invalid_rst 1"}
    for n in range(420):
        flush()
        print("flow", *([settings[n]] if n in settings else []))
        if n in settings:
            name, value = settings[n].split()
            with open(f"/proc/sys/net/netfilter/nf_conntrack_{name}", "w") as file:
                file.write(value)
        for side, flags, seq, ack, window, size, words in draw_flow(draw):
            ends = (CLIENT, 5000, SERVER, 80) if side == ">" else (SERVER, 80, CLIENT, 5000)
            bits = sum(FLAGS[letter] for letter in flags)
            packet = segment(*ends, bits, seq, ack, window, b"x" * size, options_of(words))
            passed = router.send(0 if side == ">" else 1, packet)
            found = entry("sport=5000 dport=80")
            state = "-"
            if found:
                fields = found.split()
                state = f"{fields[5]} {fields[4]} " + ("U" * ("[UNREPLIED]" in found) + "A" * ("[ASSURED]" in found) or ".")
            print(side, flags or ".", seq, ack, window, size, *words, "=", "pass" if passed else "drop", state)


def record_nat(router):
    def pair(side, packet):
        left = router.send(side, packet)
        print(side, packet.hex(), f"{left[0]} {left[1].hex()}" if left else "-")
        return left[1] if left else None

    def wait(milliseconds):
        time.sleep(milliseconds / 1000)
        print("wait", milliseconds)

    query = udp(CLIENT, 5000, SERVER, 53, b"query")
    sent = pair(0, query)
    pair(1, udp(SERVER, 53, OUTSIDE, 5000, b"answer"))
    for kind, code, word in [(3, 3, 0), (3, 4, 1400), (11, 0, 0), (12, 0, 0), (4, 0, 0), (5, 1, 0x0A000205)]:
        for source in (SERVER, "10.0.2.77"):
            pair(1, icmp(source, OUTSIDE, kind, code, word, sent[:28]))
            pair(1, icmp(source, OUTSIDE, kind, code, word, sent))
    pair(1, icmp(SERVER, "10.0.1.1", 3, 3, 0, sent[:28]))
    pair(1, icmp(SERVER, OUTSIDE, 3, 3, 0, sent[:24]))
    pair(1, icmp(SERVER, OUTSIDE, 3, 3, 0, udp(OUTSIDE, 5001, SERVER, 53, b"none")[:28]))
    # Errors of the client about the answer.
    answer = pair(1, udp(SERVER, 53, OUTSIDE, 5000, b"more"))
    pair(0, icmp(CLIENT, SERVER, 3, 3, 0, answer[:28]))
    # TCP and a forwarded port.
    client = (CLIENT, 6000, SERVER, 80)
    public = (SERVER, 80, OUTSIDE, 6000)
    sent = pair(0, segment(*client, 2, 100, 0, 1000, b""))
    pair(1, icmp("10.0.2.77", OUTSIDE, 11, 0, 0, sent[:28]))
    pair(1, segment(*public, 18, 500, 101, 1000, b""))
    pair(0, segment(*client, 16, 101, 501, 1000, b"data"))
    pair(1, segment(*public, 16, 501, 105, 1000, b"reply"))
    pair(1, segment(*public, 4, 506, 0, 0, b""))
    sent = pair(1, segment(SERVER, 4000, "10.0.2.254", 8080, 2, 1, 0, 1000, b""))
    pair(0, segment(CLIENT, 80, SERVER, 4000, 18, 7, 2, 1000, b""))
    pair(0, icmp(CLIENT, SERVER, 3, 3, 0, sent[:28]))
    # Echo.
    pair(0, icmp(CLIENT, SERVER, 8, 0, 77 << 16 | 1, b"ping"))
    pair(1, icmp(SERVER, OUTSIDE, 0, 0, 77 << 16 | 1, b"ping"))
    pair(1, icmp(SERVER, OUTSIDE, 0, 0, 78 << 16 | 1, b"ping"))
    pair(0, icmp(CLIENT, SERVER, 13, 0, 5 << 16, b"\0" * 12))
    pair(1, icmp(SERVER, OUTSIDE, 14, 0, 5 << 16, b"\0" * 12))
    pair(0, icmp(CLIENT, SERVER, 19, 0, 0, b""))
    # A datagram without a checksum, and one with a wrong one.
    plain = udp(CLIENT, 5003, SERVER, 53, b"plain")
    pair(0, plain[:26] + b"\0\0" + plain[28:])
    pair(0, plain[:26] + b"\1\2" + plain[28:])
    # Other protocols.
    pair(0, ip(CLIENT, SERVER, 89, b"hello"))
    pair(1, ip(SERVER, OUTSIDE, 89, b"hi"))
    pair(0, ip(CLIENT, SERVER, 47, bytes([0, 0, 8, 0, 1, 2, 3, 4])))
    pair(0, ip(CLIENT, SERVER, 136, udp(CLIENT, 5004, SERVER, 53, b"lite")[20:]))
    wait(2200)
    pair(0, query)
    pair(1, udp(SERVER, 53, OUTSIDE, 5000, b"answer"))
    with open("/proc/net/nf_conntrack") as file:
        for line in sorted(file):
            print("entry", re.sub(r" +", " ", line).strip())


def record_nat6(router):
    def pair(side, packet):
        left = router.send(side, packet)
        print(side, packet.hex(), f"{left[0]} {left[1].hex()}" if left else "-")
        return left[1] if left else None

    client, server, outside, hop = (f"2001:db8:{end}" for end in ("1::1", "2::2", "9::9", "2::77"))
    sent = pair(0, udp6(client, 5000, server, 53, b"query"))
    pair(1, udp6(server, 53, outside, 5000, b"answer"))
    for kind, code, word in [(1, 4, 0), (2, 0, 1280), (3, 0, 0), (4, 1, 6), (100, 0, 0)]:
        for source in (server, hop):
            pair(1, icmp6(source, outside, kind, code, word, sent))
            pair(1, icmp6(source, outside, kind, code, word, sent[:48]))
    pair(1, icmp6(server, client, 1, 4, 0, sent))
    pair(1, icmp6(server, outside, 1, 4, 0, sent[:44]))
    pair(1, icmp6(server, outside, 1, 4, 0, udp6(outside, 5001, server, 53, b"none")))
    answer = pair(1, udp6(server, 53, outside, 5000, b"more"))
    pair(0, icmp6(client, server, 1, 4, 0, answer))
    # A quoted packet with a hop-by-hop header.
    options = bytes([17, 0, 5, 2, 0, 0, 1, 0])
    wrapped = sent[:4] + struct.pack("!HBB", len(sent) - 40 + 8, 0, 63) + sent[8:40] + options + sent[40:]
    pair(1, icmp6(hop, outside, 3, 0, 0, wrapped))
    wrapped = udp6(client, 5001, server, 53, b"options")
    wrapped = wrapped[:4] + struct.pack("!HBB", len(wrapped) - 40 + 8, 60, 64) + wrapped[8:40] + bytes([17, 0, 1, 4, 0, 0, 0, 0]) + wrapped[40:]
    pair(0, wrapped)
    pair(0, tcp6(client, 6000, server, 80, 2, 100, 0))
    pair(1, tcp6(server, 80, outside, 6000, 18, 500, 101))
    pair(0, tcp6(client, 6000, server, 80, 16, 101, 501))
    sent = pair(1, tcp6(server, 4000, "2001:db8:2::fe", 8080, 2, 1, 0))
    pair(0, tcp6(client, 80, server, 4000, 18, 7, 2))
    pair(0, icmp6(client, server, 1, 1, 0, sent))
    pair(0, icmp6(client, server, 128, 0, 77 << 16 | 1, b"ping"))
    pair(1, icmp6(server, outside, 129, 0, 77 << 16 | 1, b"ping"))
    pair(1, icmp6(server, outside, 129, 0, 78 << 16 | 1, b"ping"))
    pair(0, icmp6(client, server, 200, 0, 0, b"private"))
    plain = udp6(client, 5003, server, 53, b"plain")
    pair(0, plain[:46] + b"\0\0" + plain[48:])
    pair(0, plain[:46] + b"\1\2" + plain[48:])
    pair(0, plain[:4] + struct.pack("!HBB", len(plain) - 40 + 8, 44, 64) + plain[8:40] + bytes([17, 0, 0, 0x50, 0, 0, 0, 7]) + plain[40:])
    with open("/proc/net/nf_conntrack") as file:
        for line in sorted(file):
            print("entry", re.sub(r" +", " ", line).strip())


def record_ftp(router):
    def pair(side, packet):
        left = router.send(side, packet)
        print(side, packet.hex(), f"{left[0]} {left[1].hex()}" if left else "-")
        return left[1] if left else None

    client, public, out = (CLIENT, 5000, SERVER, 21), (SERVER, 21, "10.0.9.200", 5000), 4
    own, peer = 101, 501
    pair(0, segment(*client, 2, 100, 0, 1000, b"", options_of(["p"])))
    pair(1, segment(*public, 18, 500, 101, 1000, b"", options_of(["p"])))
    pair(0, segment(*client, 16, own, peer, 1000, b""))
    shift = 0
    for line in [b"PORT 10,0,1,1,19,137\r\n", b"NOOP\r\n", b"EPRT |1|10.0.1.1|5003|\r\n", b"PORT 10,0,1,7,19,137\r\n", b"PORT 10,0,1",
                 b"port 10,0,1,1,19,139\r\n"]:
        greeting = b"200 ready\r\n"
        pair(1, segment(*public, 24, peer, own + shift, 1000, greeting))
        peer += len(greeting)
        if line == b"NOOP\r\n":
            pair(0, segment(*client, 16, own, peer, 1000, b""))
        left = pair(0, segment(*client, 24, own, peer, 1000, line))
        if left:
            shift += len(left) - 40 - len(line)
            own += len(line)
        for port in (5001, 5003, 5003):
            pair(1, segment(SERVER, 20, "10.0.9.200", port, 2, 1, 0, 1000, b""))
    pair(1, segment(*public, 16, peer, own + shift, 1000, b"", options_of([f"k{own + shift}"])))
    pair(1, segment(*public, 16, peer, own + shift - 30, 1000, b"", options_of([f"k{own + shift - 2}"])))
    pair(0, segment(*client, 16, 101, peer, 1000, b"PORT 10,0,1,1,19,137\r\n"))
    # A server inside, in passive mode.
    client, public = ("10.0.2.7", 5000, "10.0.2.254", 21), (CLIENT, 21, "10.0.2.7", 5000)
    pair(1, segment(*client, 2, 100, 0, 1000, b""))
    pair(0, segment(*public, 18, 500, 101, 1000, b""))
    pair(1, segment(*client, 16, 101, 501, 1000, b""))
    pair(0, segment(*public, 24, 501, 101, 1000, b"220 ready\r\n"))
    pair(0, segment(*public, 24, 512, 101, 1000, b"227 Entering Passive Mode (10,0,1,1,19,137).\r\n"))
    pair(1, segment("10.0.2.7", 6000, "10.0.2.254", 5001, 2, 1, 0, 1000, b""))
    pair(0, segment(CLIENT, 5001, "10.0.2.7", 6000, 18, 7, 2, 1000, b""))
    with open("/proc/net/nf_conntrack") as file:
        for line in sorted(file):
            print("entry", re.sub(r" +", " ", line).strip())


def normalized(message):
    """A message without what differs between runs."""
    message = bytearray(message)
    message[12:16] = bytes(4)
    at = 20
    while at < len(message):
        length, kind = struct.unpack_from("=HH", message, at)
        if kind in (7, 12):
            message[at + 4:at + 8] = bytes(4)
        at += (length + 3) & ~3
    return bytes(message)


def record_events(router):
    with open("/proc/sys/net/netfilter/nf_conntrack_acct", "w") as file:
        file.write("1")
    listener = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12)
    listener.bind((0, 7))
    listener.setblocking(False)

    def report(show=print):
        while True:
            try:
                data = listener.recv(65536)
            except BlockingIOError:
                return
            while data:
                length = struct.unpack_from("=I", data)[0]
                show(f"event {normalized(data[:length]).hex()}")
                data = data[(length + 3) & ~3:]

    def pair(side, packet):
        left = router.send(side, packet)
        print(side, packet.hex(), f"{left[0]} {left[1].hex()}" if left else "-")
        report()
        return left[1] if left else None

    client, public = (CLIENT, 6000, SERVER, 80), (SERVER, 80, OUTSIDE, 6000)
    own, peer = 101, 501
    pair(0, segment(*client, 2, 100, 0, 1000, b"", options_of(["w7", "p"])))
    pair(0, segment(*client, 2, 100, 0, 1000, b"", options_of(["w7", "p"])))
    pair(1, segment(*public, 18, 500, own, 1000, b"", options_of(["w2", "p"])))
    pair(0, segment(*client, 16, own, peer, 1000, b""))
    pair(0, segment(*client, 24, own, peer, 1000, b"data"))
    pair(1, segment(*public, 16, peer, own + 4, 1000, b""))
    pair(1, segment(*public, 17, peer, own + 4, 1000, b""))
    pair(0, segment(*client, 17, own + 4, peer + 1, 1000, b""))
    pair(1, segment(*public, 16, peer + 1, own + 5, 1000, b""))
    pair(0, segment(*client, 2, 90000, 0, 1000, b""))
    pair(1, segment(*public, 20, 0, 90001, 0, b""))
    query, answer = udp(CLIENT, 5000, SERVER, 53, b"query"), udp(SERVER, 53, OUTSIDE, 5000, b"answer")
    sent = pair(0, query)
    pair(0, query)
    pair(1, icmp(SERVER, OUTSIDE, 3, 3, 0, sent[:28]))
    pair(1, answer)
    pair(0, query)
    time.sleep(2.2)
    print("wait 2200")
    pair(0, query)
    pair(0, query)
    pair(0, icmp(CLIENT, SERVER, 8, 0, 77 << 16 | 1, b"ping"))
    pair(1, icmp(SERVER, OUTSIDE, 0, 0, 77 << 16 | 1, b"ping"))
    pair(0, ip(CLIENT, SERVER, 89, b"hello"))
    pair(1, ip(SERVER, OUTSIDE, 89, b"hi"))
    pair(0, udp(CLIENT, 5000, SERVER, 54, b"marked"))
    pair(1, udp(SERVER, 54, OUTSIDE, 5000, b"marked"))
    flush()
    print("flush")
    lines = []
    report(lines.append)
    # The order is that of Linux's hash table.
    print(*sorted(lines), sep="\n")


def record_choice(router):
    draw = random.Random(2)
    for n in range(150):
        client, server = f"10.0.1.{draw.randint(1, 253)}", f"10.0.2.{draw.randint(1, 253)}"
        for kind, (side, source, target, port) in {
            "range": (0, client, server, 53), "persistent": (0, client, server, 54), "netmap": (0, client, server, 56),
            "inside": (1, server, "10.0.2.254", 57),
        }.items():
            left = router.send(side, udp(source, 3000 + n, target, port, b"query"))[1]
            print(kind, source, target, ".".join(map(str, left[12:16])), ".".join(map(str, left[16:20])))


def main():
    if sys.argv[1] == "tcp":
        record_tcp(Router("table ip t {\n chain f { type filter hook forward priority 0; ct state invalid drop; }\n }\n"))
    elif sys.argv[1] == "nat6":
        record_nat6(Router("""table ip6 t {
            chain f { type filter hook forward priority 0; ct state invalid drop; }
            chain i { type filter hook input priority 0; policy drop; }
            chain d { type nat hook prerouting priority -100; iif tun1 tcp dport 8080 dnat to [2001:db8:1::1]:80; }
            chain s { type nat hook postrouting priority 100; oif tun1 ip6 saddr 2001:db8:1::/64 snat to 2001:db8:9::9; }
        }
        """))
    elif sys.argv[1] == "events":
        record_events(Router("""table ip t {
            chain f { type filter hook forward priority 0; ct state invalid drop; }
            chain m { type filter hook prerouting priority -150; iif tun0 udp dport 54 ct mark set 7; }
            chain s { type nat hook postrouting priority 100; oif tun1 ip saddr 10.0.1.0/24 snat to 10.0.9.9; }
        }
        """))
    elif sys.argv[1] == "ftp":
        record_ftp(Router("""table ip t {
            ct helper ftp { type "ftp" protocol tcp; }
            chain f { type filter hook forward priority 0; ct state invalid drop; }
            chain h { type filter hook prerouting priority -150; tcp dport 21 ct helper set "ftp"; }
            chain i { type filter hook input priority 0; policy drop; }
            chain d { type nat hook prerouting priority -100; iif tun1 tcp dport 21 dnat to 10.0.1.1; }
            chain s { type nat hook postrouting priority 100; oif tun1 ip saddr 10.0.1.0/24 snat to 10.0.9.200; }
        }
        """))
    elif sys.argv[1] == "choice":
        record_choice(Router("""table ip t {
            chain f { type filter hook forward priority 0; ct state invalid drop; }
            chain d { type nat hook prerouting priority -100; iif tun1 udp dport 57 dnat to 10.0.1.20-10.0.1.99; }
            chain s { type nat hook postrouting priority 100;
                oif tun1 udp dport 53 snat to 10.0.9.10-10.0.9.37;
                oif tun1 udp dport 54 snat to 10.0.9.10-10.0.9.37 persistent;
                oif tun1 udp dport 56 snat ip prefix to ip saddr map { 10.0.1.0/24 : 10.0.77.0/24 }; }
        }
        """))
    else:
        record_nat(Router("""table ip t {
            chain f { type filter hook forward priority 0; ct state invalid drop; }
            chain d { type nat hook prerouting priority -100; iif tun1 tcp dport 8080 dnat to 10.0.1.1:80; }
            chain s { type nat hook postrouting priority 100; oif tun1 ip saddr 10.0.1.0/24 snat to 10.0.9.9; }
        }
        """))


main()
