#!/usr/bin/env python3
"""Decides for each new flow where it goes, and takes entries away that have not been used for a second."""

import pathlib
import sys
import threading
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))
from p4control import Switch  # noqa: E402

# By switch: the port towards each host. The next hop is the host, or the switch at it.
PORTS = {1: {1: 1, 2: 2, 3: 3}, 2: {1: 3, 2: 1, 3: 2}, 3: {1: 2, 2: 3, 3: 1}}
START = 946684800


def say(switch, *words):
    print(f"{time.time() - START:.3f} s{switch}", *words, flush=True)


def packet_in(number, switch, packet):
    frame = packet.payload
    destination, flow = frame[32], {"hdr.ipv4.protocol": frame[23], "hdr.ipv4.srcAddr": frame[26:30], "hdr.ipv4.dstAddr": frame[30:34]}
    port = PORTS[number][destination]
    station = f"02:00:00:00:{destination:02x}:{'01' if port == 1 else 'fe'}"
    say(number, "new flow from port", switch.metadata_of(packet)["input_port"], "to port", port)
    arguments = {"port": port, "dst_eth_addr": station}
    switch.insert("MyIngress.flow_cache", flow, "MyIngress.cached_action", arguments, idle_timeout_ns=10**9)
    # The packet goes on as it is, but for the station.
    switch.packet_out(bytes.fromhex(station.replace(":", "")) + frame[6:], egress_port=port)


def idle(number, switch, entries):
    for entry in entries:
        say(number, "idle flow")
        entry.ClearField("action")
        switch.delete(entry)


def serve(number):
    switch = Switch(f"s{number}:9559", number)
    while True:
        message = switch.messages.get()
        if message.WhichOneof("update") == "packet":
            packet_in(number, switch, message.packet)
        elif message.WhichOneof("update") == "idle_timeout_notification":
            idle(number, switch, message.idle_timeout_notification.table_entry)


for number in PORTS:
    threading.Thread(target=serve, args=(number,)).start()
