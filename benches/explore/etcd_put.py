#!/usr/bin/python3
"""A writer of etcd that compares what it reads after each failure with what was acknowledged.

    etcd_put.py ETCD"""

import base64
import json
import sys
import time
import urllib.request

KEY = base64.b64encode(b"number").decode()


def call(etcd, path, **body):
    request = urllib.request.Request(f"http://{etcd}:2379/v3/{path}", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=3) as answer:
        return json.loads(answer.read())


def read(etcd):
    """The number that is stored, as soon as the server answers."""
    while True:
        try:
            found = call(etcd, "kv/range", key=KEY).get("kvs")
            return int(base64.b64decode(found[0]["value"])) if found else 0
        except (OSError, ValueError):
            time.sleep(0.2)


def main(etcd):
    acknowledged = number = 0
    end = time.monotonic() + 35
    while time.monotonic() < end:
        number += 1
        try:
            call(etcd, "kv/put", key=KEY, value=base64.b64encode(str(number).encode()).decode())
            acknowledged = number
            time.sleep(0.02)
        except (OSError, ValueError):
            found = read(etcd)
            print(f"lost: {acknowledged} was acknowledged, {found} is there" if found < acknowledged else f"kept {found}", flush=True)
            acknowledged = found
    found = read(etcd)
    print(f"lost: {acknowledged} was acknowledged, {found} is there" if found < acknowledged else f"kept {found} at the end", flush=True)


main(sys.argv[1])
