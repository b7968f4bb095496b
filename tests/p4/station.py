"""A station that sends Ethernet frames at given times, and says what it receives: `station.py UNTIL [AT@DESTINATION...]`."""

import socket
import sys
import time

until, sends = float(sys.argv[1]), [word.split("@") for word in sys.argv[2:]]
own = bytes.fromhex(open("/sys/class/net/eth0/address").read().strip().replace(":", ""))
eth = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
eth.bind(("eth0", 0))


def now():
    return time.time() - 946684800


def listen(end):
    while (left := end - now()) > 0:
        eth.settimeout(left)
        try:
            frame, address = eth.recvfrom(2000)
        except TimeoutError:
            return
        if address[2] != socket.PACKET_OUTGOING:
            print(f"{now():.6f} {frame[:12].hex()} {len(frame)}", flush=True)


for at, destination in sends:
    listen(float(at))
    eth.send(bytes.fromhex(destination) + own + b"\x08\x88" + bytes(50))
listen(until)
