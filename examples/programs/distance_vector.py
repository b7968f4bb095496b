#!/usr/bin/python3
"""A distance-vector protocol, as RIP is one, in 100 lines: `distance_vector.py INTERFACE...`

Each node tells its neighbours, every second and after each change, which addresses it reaches over how many hops. A route that is
not confirmed for three seconds is unreachable, and told to be (16 hops), so that the others look for another way at once. A route is never
told as reachable where it came from (split horizon with poisoned reverse). The kernel forwards; its routes are set by `ip route`.
"""

import json
import select
import signal
import socket
import struct
import subprocess
import sys
import time

PORT, INTERVAL, LIFETIME, INFINITY, PROTOCOL = 5200, 1.0, 3.0, 16, "153"
IP_PKTINFO = 8


def addresses():
    """Interfaces with their IPv4 addresses."""
    listed = json.loads(subprocess.run(["ip", "-j", "-4", "address"], check=True, capture_output=True, text=True).stdout)
    return {link["ifname"]: link["addr_info"][0]["local"] for link in listed if link.get("addr_info") and link["ifname"] != "lo"}


class Node:
    def __init__(self, interfaces):
        own = addresses()
        self.own = {own[name] for name in interfaces}
        self.names = {socket.if_nametoindex(name): name for name in interfaces}
        self.routes = {}  # destination: [hops, next hop, interface, good until]
        self.changed = True
        # One socket for all interfaces: IP_PKTINFO says by which one a packet came, and by which one it goes.
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        self.socket.setsockopt(socket.IPPROTO_IP, IP_PKTINFO, 1)
        self.socket.bind(("", PORT))

    def tell(self):
        """Tells the neighbours on each interface what this node reaches."""
        for index, name in self.names.items():
            vector = b"".join(socket.inet_aton(address) + b"\0" for address in sorted(self.own))
            for destination, (hops, _, interface, _) in sorted(self.routes.items()):
                vector += socket.inet_aton(destination) + bytes([INFINITY if interface == name else hops])
            info = (socket.IPPROTO_IP, IP_PKTINFO, struct.pack("=i8x", index))
            try:
                self.socket.sendmsg([vector], [info], 0, ("255.255.255.255", PORT))
            except OSError:
                pass  # the link is down
        self.changed = False

    def hear(self, now):
        """A neighbour's vector: RFC 2453, section 3.9.2, with addresses in place of networks."""
        vector, control, _, (neighbor, _) = self.socket.recvmsg(65536, 64)
        name = self.names.get(struct.unpack_from("=i", control[0][2])[0])
        if name is None or neighbor in self.own:
            return
        for at in range(0, len(vector) - len(vector) % 5, 5):
            destination, hops = socket.inet_ntoa(vector[at:at + 4]), min(vector[at + 4] + 1, INFINITY)
            known = self.routes.get(destination)
            if destination in self.own or (known is None and hops == INFINITY):
                continue
            if known is None or hops < known[0] or known[1] == neighbor:
                if known and hops == INFINITY == known[0]:
                    continue  # it stays unreachable, until it is forgotten
                self.set(destination, [hops, neighbor, name, now + LIFETIME])

    def set(self, destination, route):
        before, self.routes[destination] = self.routes.get(destination), route
        if before and before[:3] == route[:3]:
            return
        self.changed = True
        hops, neighbor, name, _ = route
        print(f"{time.time():.3f} {destination} {f'by {neighbor}, {hops} hops' if hops < INFINITY else 'unreachable'}", flush=True)
        if destination == neighbor and hops < INFINITY:
            self.ip("route", "replace", destination, "dev", name, "proto", PROTOCOL)
        elif hops < INFINITY:
            self.ip("route", "replace", destination, "via", neighbor, "dev", name, "onlink", "proto", PROTOCOL)
        elif before and before[0] < INFINITY:
            self.ip("route", "delete", destination, "proto", PROTOCOL)

    def expire(self, now):
        for destination, (hops, neighbor, name, until) in list(self.routes.items()):
            if until <= now and hops < INFINITY:
                self.set(destination, [INFINITY, neighbor, name, now + LIFETIME])
            elif until <= now:
                del self.routes[destination]

    def ip(self, *args):
        subprocess.run(["ip", *args], check=False, stderr=subprocess.DEVNULL)

    def run(self):
        next_tell = time.monotonic()
        while True:
            ready, _, _ = select.select([self.socket], [], [], max(0.0, next_tell - time.monotonic()))
            if ready:
                self.hear(time.monotonic())
            self.expire(time.monotonic())
            if self.changed or time.monotonic() >= next_tell:
                self.tell()
                next_tell = time.monotonic() + INTERVAL

    def withdraw(self, *_):
        for destination, (hops, *_) in self.routes.items():
            if hops < INFINITY:
                self.ip("route", "delete", destination, "proto", PROTOCOL)
        sys.exit(0)


node = Node(sys.argv[1:])
signal.signal(signal.SIGTERM, node.withdraw)
node.run()
