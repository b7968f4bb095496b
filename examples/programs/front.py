#!/usr/bin/python3
"""A database behind a service, by UDP. With --direct the client asks the database itself."""

import socket
import sys
import time

ROLE, OPTIONS = sys.argv[1], sys.argv[2:]
PORT = 5000
own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

if ROLE == "client":
    server = "database" if "--direct" in OPTIONS else "service"
    own.settimeout(0.5)
    for number in range(1, 9):
        own.sendto(b"get %d" % number, (server, PORT))
        try:
            print(own.recv(100).decode(), flush=True)
        except OSError:
            print("no answer", flush=True)
        time.sleep(1)
else:
    own.bind(("", PORT))
    while True:
        request, client = own.recvfrom(100)
        if ROLE == "service":
            behind = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            behind.settimeout(0.5)
            behind.sendto(request, ("database", PORT))
            try:
                own.sendto(behind.recv(100), client)
            except OSError:
                pass
            behind.close()
        else:
            own.sendto(b"value of " + request, client)
