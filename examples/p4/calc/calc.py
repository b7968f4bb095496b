#!/usr/bin/env python3
"""calc.py EXPRESSION...: has a switch calculate each: two numbers with + - & | or ^ between them."""

import re
import socket
import struct
import sys

ETHERTYPE_CALC = 0x1234
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETHERTYPE_CALC)) as sock:
    sock.bind(("eth0", ETHERTYPE_CALC))
    sock.settimeout(1)
    head = bytes.fromhex("020000000001") + sock.getsockname()[4] + struct.pack("!H", ETHERTYPE_CALC)
    for expression in sys.argv[1:]:
        found = re.fullmatch(r"\s*(\w+)\s*([-+&|^])\s*(\w+)\s*", expression)
        if not found:
            sys.exit(f"'{expression}' is not two numbers with an operator between them")
        a, operator, b = int(found[1], 0), found[2], int(found[3], 0)
        sock.send(head + struct.pack("!2sBcIII", b"P4", 1, operator.encode(), a, b, 0))
        while True:
            frame, (_, _, direction, *_) = sock.recvfrom(2048)
            if direction != socket.PACKET_OUTGOING:
                break
        print(f"{expression} = {struct.unpack('!I', frame[26:30])[0]}")
