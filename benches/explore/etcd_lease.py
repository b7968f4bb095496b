#!/usr/bin/python3
"""A client that keeps a lease of etcd alive: it must not end before its time.

    etcd_lease.py keep ETCD...
    etcd_lease.py write ETCD..."""

import json
import sys
import time
import urllib.request

TTL = 3


def call(etcds, path, **body):
    """The answer of the first server that has one."""
    for etcd in etcds:
        request = urllib.request.Request(f"http://{etcd}:2379/v3/{path}", json.dumps(body).encode(), {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=0.4) as answer:
                return json.loads(answer.readline())
        except (OSError, ValueError):
            continue
    raise OSError("no server answers")


def keep(*etcds):
    end = time.monotonic() + 45
    kept = 0
    while time.monotonic() < end:
        try:
            lease = call(etcds, "lease/grant", TTL=TTL)["ID"]
        except OSError:
            time.sleep(0.3)
            continue
        confirmed = None
        while time.monotonic() < end:
            asked = time.monotonic()
            try:
                answer = call(etcds, "lease/keepalive", ID=lease)["result"]
                if "TTL" not in answer:
                    # It has ended. That is right if it was not kept alive in time.
                    if confirmed is not None and asked - confirmed < TTL - 1:
                        print(f"ended {time.monotonic() - confirmed:.2f} s after it was kept alive for {TTL} s", flush=True)
                    break
                confirmed = asked
                kept += 1
            except (OSError, KeyError):
                pass
            time.sleep(0.2)
    print(f"kept alive {kept} times", flush=True)


def write(*etcds):
    """Writes, so that the disks of the servers have something to sync."""
    while True:
        try:
            call(etcds, "kv/put", key="a2V5", value="dmFsdWU=")
        except OSError:
            pass
        time.sleep(0.3)


if sys.argv[1] == "keep":
    keep(*sys.argv[2:])
else:
    write(*sys.argv[2:])
