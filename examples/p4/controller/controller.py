#!/usr/bin/env python3
"""Learns stations and hosts of a switch that bridges and routes, and asks by ARP for hosts that it does not know."""

import ipaddress
import pathlib
import struct
import sys
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))
from p4control import Switch  # noqa: E402

START, FLOOD, OWN = 946684800, 1, "02:00:00:00:00:fe"
# The switch's own addresses, and the ports of their networks.
NETWORKS = {"10.1.1.254": (1, 2), "10.1.2.254": (3, 4)}


def say(*words):
    print(f"{time.time() - START:.3f}", *words, flush=True)


def mac(data):
    return ":".join(f"{byte:02x}" for byte in data.rjust(6, b"\0"))


class Controller:
    def __init__(self):
        self.switch = Switch("s1:9559", 1)
        self.ports, self.routes, self.asked = {}, {}, {}
        self.switch.insert("MyIngress.own_stations", {"hdr.ethernet.dstAddr": OWN}, "MyIngress.own")
        self.switch.multicast_group(FLOOD, [1, 2, 3, 4])
        for group, (own, ports) in enumerate(NETWORKS.items(), 2):
            self.switch.insert("MyIngress.own_addresses", {"hdr.arp.targetIp": own}, "MyIngress.answer", {"own": OWN})
            # Hosts that are not known yet are asked for.
            self.switch.insert("MyIngress.routes", {"hdr.ipv4.dstAddr": (own[:-3] + "0", 24)}, "MyIngress.ask_controller")
            self.switch.multicast_group(group, ports)
        self.switch.digests("station_t")
        say("ready")

    def learn(self, station, ip, port):
        if station not in self.ports:
            say("station", station, "at port", port)
            self.switch.insert("MyIngress.stations", {"hdr.ethernet.srcAddr": station, "standard_metadata.ingress_port": port}, "NoAction")
            self.switch.insert("MyIngress.bridge", {"hdr.ethernet.dstAddr": station}, "MyIngress.forward", {"port": port})
            self.ports[station] = port
        if ip != "0.0.0.0" and ip not in self.routes:
            say("host", ip, "is", station)
            self.switch.insert("MyIngress.routes", {"hdr.ipv4.dstAddr": (ip, 32)}, "MyIngress.route", {"station": station, "port": port})
            self.routes[ip] = station

    def ask(self, frame):
        """Asks for the destination of a packet, at most once a second."""
        target = frame[30:34]
        if time.time() - self.asked.get(target, 0) < 1:
            return
        self.asked[target] = time.time()
        for group, own in enumerate(NETWORKS, 2):
            if ipaddress.ip_address(target) in ipaddress.ip_network(own + "/24", strict=False):
                say("who has", ipaddress.ip_address(target))
                station = bytes.fromhex(OWN.replace(":", ""))
                question = struct.pack("!HHBBH6s4s6s4s", 1, 0x0800, 6, 4, 1, station, ipaddress.ip_address(own).packed, bytes(6), target)
                self.switch.packet_out(b"\xff" * 6 + station + b"\x08\x06" + question, group=group)

    def run(self):
        while True:
            message = self.switch.messages.get()
            if message.WhichOneof("update") == "digest":
                for data in message.digest.data:
                    station, ip, port = (member.bitstring for member in data.struct.members)
                    self.learn(mac(station), str(ipaddress.ip_address(ip.rjust(4, b"\0"))), int.from_bytes(port, "big"))
                self.switch.acknowledge(message.digest)
            elif message.WhichOneof("update") == "packet":
                self.ask(message.packet.payload)


Controller().run()
