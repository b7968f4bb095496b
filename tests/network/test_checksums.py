"""Transport checksums: hosts compute those that somebody looks at, and nobody can tell which these are."""

import subprocess

import pytest
from conftest import contents_of
from test_links import python

# The hosts' addresses, in the order of their names.
IPV4, IPV6 = "11.0.0.%d", "2001:db8::b00:%d"

# Sends datagrams and streams to where it is told, of both families; of a port where nobody listens it hears.
SPEAK = """
import socket, sys, time
for to in sys.argv[1:]:
    family = socket.AF_INET6 if ':' in to else socket.AF_INET
    u = socket.socket(family, socket.SOCK_DGRAM)
    for size in (0, 1, 9, 1000): u.sendto(bytes(range(256)) * 4 if size == 1000 else b'x' * size, (to, 7000))
    u.sendto(bytes(3000), (to, 7000))
    c = socket.socket(family, socket.SOCK_DGRAM)
    c.connect((to, 9))
    c.send(b'to nobody')
    t = socket.create_connection((to, 80))
    t.sendall(bytes(range(251)) * 40)
    t.shutdown(socket.SHUT_WR)
    heard = 0
    while data := t.recv(65536): heard += len(data)
    time.sleep(0.2)
    try: refused = c.send(b'again')
    except ConnectionRefusedError: refused = True
    print(to, heard, refused)
"""
# Sends back what comes by TCP and counts what comes by UDP.
ANSWER = """
import socket, threading
u = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
u.bind(('::', 7000))
s = socket.create_server(('::', 80), family=socket.AF_INET6, dualstack_ipv6=True)
def count():
    while True: print(len(u.recv(5000)), flush=True)
threading.Thread(target=count, daemon=True).start()
while True:
    c, _ = s.accept()
    data = b''
    while more := c.recv(65536): data += more
    c.sendall(data)
    c.close()
"""
# Looks at all packets of TCP and UDP that pass by packet and by raw sockets, and says how many of each were right.
LISTEN = """
import collections, select, socket, struct, sys
def sum16(b):
    n = sum(struct.unpack('!%dH' % (len(b + b'0' * (len(b) % 2)) // 2), b + bytes(len(b) % 2)))
    while n >> 16: n = (n & 0xffff) + (n >> 16)
    return n
def right(packet):
    # What is in pieces is the business of who puts it together.
    if packet[0] >> 4 == 6: protocol, ends, body = packet[6], packet[8:40], packet[40:]
    elif struct.unpack('!H', packet[6:8])[0] & 0x3fff: return None
    else: protocol, ends, body = packet[9], packet[12:20], packet[(packet[0] & 15) * 4:]
    if protocol not in (6, 17): return None
    there = protocol == 6 or body[6:8] != bytes(2)
    return there and sum16(ends + struct.pack('!IHH', len(body), 0, protocol) + body) == 0xffff
found = collections.Counter()
sockets = {socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3)): 'packet',
           socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_TCP): 'raw tcp',
           socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_UDP): 'raw udp'}
chosen = sys.argv[1:]
sockets = {s: name for s, name in sockets.items() if name in chosen or s.close()}
while ready := select.select(list(sockets), [], [], 5)[0]:
    for s in ready:
        fine = right(s.recv(70000))
        if fine is not None: found[sockets[s], fine] += 1
print(dict(sorted(found.items())))
"""


def world(**hosts):
    for name, host in hosts.items():
        host.setdefault("network_node_id", 0)
    return {"general": {"stop_time": "20 s"}, "network": {"graph": {"type": "1_gbit_switch"}}, "belljar": {"ipv6": True}, "hosts": hosts}


def answering(*more, **options):
    """A host that answers, with two threads, and does more besides, the first of which is 1002."""
    return {"processes": [python(ANSWER, start="0 s"), *more], **options}


def checksums(file):
    """(protocol, status of its checksum) of each packet that tshark can judge: 0 is bad, 1 good."""
    options = [f"{name}.check_checksum:TRUE" for name in ("tcp", "udp", "ip")]
    command = ["tshark", "-r", file, *[part for option in options for part in ("-o", option)], "-T", "fields",
               *[part for field in ("tcp.checksum.status", "udp.checksum.status", "icmp.type", "icmpv6.type") for part in ("-e", field)]]
    read = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert read.returncode == 0, read.stderr
    return [tuple(line.split("\t")) for line in read.stdout.splitlines()]


@pytest.mark.needs("tshark")
@pytest.mark.parametrize("cells", [1, 2])
def test_one_end_captures(run_experiment, cells, runs={}):
    """What is captured is right, whichever end captures, and over lo; the same from several processes."""
    capturing = {"host_options": {"pcap_enabled": True}}
    loud = answering(python(SPEAK, IPV4 % 2, IPV6 % 2, "127.0.0.1", "::1"), **capturing)
    quiet = answering(python(SPEAK, IPV4 % 1, IPV6 % 1, "127.0.0.1", "::1", start="3 s"))
    done = run_experiment(world(loud=loud, quiet=quiet), args=["--cells", str(cells)], name="same")
    for host, ends in (("loud", (IPV4 % 2, IPV6 % 2)), ("quiet", (IPV4 % 1, IPV6 % 1))):
        assert done.text(host, "python3.1002") == "".join(f"{to} 10040 True\n" for to in (*ends, "127.0.0.1", "::1"))
    for interface, least in (("eth0", 40), ("lo", 20)):
        found = checksums(done.path / "hosts" / "loud" / f"{interface}.pcap")
        assert not [row for row in found if "0" in row[:2]] and sum("1" in row[0] for row in found) > least, (interface, found)
        assert sum("1" in row[1] for row in found) >= 12, (interface, found)
        # An error quotes the datagram, behind which tshark looks no more.
        assert {row[2] for row in found} == {"", "3"} and {row[3] for row in found} == {"", "1"}, found
    assert not (done.path / "hosts" / "quiet" / "eth0.pcap").exists()
    assert runs.setdefault("first", contents_of(done.path / "hosts")) == contents_of(done.path / "hosts")


@pytest.mark.parametrize("kinds", [("packet",), ("raw tcp", "raw udp")])
def test_programs_look(run_experiment, kinds):
    """Whoever looks at packets in a program finds them right: what comes, what goes, and what passes lo."""
    spoken = [IPV4 % 2, "127.0.0.1", *([IPV6 % 2, "::1"] if kinds == ("packet",) else [])]
    looking = answering(python(LISTEN, *kinds, start="1 s"), python(SPEAK, *spoken, start="2 s"))
    other = answering(python(SPEAK, IPV4 % 1, start="3 s"))
    done = run_experiment(world(looking=looking, other=other))
    found = eval(done.text("looking", "python3.1002"))
    assert {kind for kind, _ in found} == set(kinds) and all(fine for _, fine in found), found
    assert min(found.values()) >= 12, found
