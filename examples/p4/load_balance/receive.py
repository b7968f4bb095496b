#!/usr/bin/env python3
"""receive.py SECONDS: counts the datagrams of each flow that come to UDP port 4321."""

import collections
import socket
import sys
import time

end = time.monotonic() + float(sys.argv[1])
flows = collections.Counter()
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
    sock.bind(("", 4321))
    while (left := end - time.monotonic()) > 0:
        sock.settimeout(left)
        try:
            _, sender = sock.recvfrom(64)
        except TimeoutError:
            break
        flows[sender] += 1
whole = sum(count == 3 for count in flows.values())
print(f"{len(flows)} flows, {whole} of them whole")
