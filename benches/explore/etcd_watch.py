#!/usr/bin/python3
"""A writer of etcd that deletes and compacts, and a watcher that goes on after each failure where it was: it sees each revision once.

    etcd_watch.py write ETCD
    etcd_watch.py watch ETCD"""

import base64
import http.client
import json
import sys
import time

KEY = base64.b64encode(b"key").decode()
END = 32


def call(etcd, path, **body):
    """The answer of the server."""
    connection = http.client.HTTPConnection(etcd, 2379, timeout=3)
    try:
        connection.request("POST", f"/v3/{path}", json.dumps(body), {"Content-Type": "application/json"})
        return json.loads(connection.getresponse().read())
    finally:
        connection.close()


def write(etcd):
    """Puts and deletes a key; each delete is compacted at its revision."""
    end = time.monotonic() + END
    while time.monotonic() < end:
        try:
            for number in range(5):
                call(etcd, "kv/put", key=KEY, value=KEY)
            deleted = call(etcd, "kv/deleterange", key=KEY)["header"]["revision"]
            call(etcd, "kv/compaction", revision=deleted)
        except (OSError, http.client.HTTPException, ValueError, KeyError):
            pass
        time.sleep(0.02)


def watch(etcd):
    """Watches the key. Every revision is of the key."""
    following, seen, resumed = 2, 0, 0
    end = time.monotonic() + END + 5
    while time.monotonic() < end:
        connection = http.client.HTTPConnection(etcd, 2379, timeout=2)
        try:
            connection.request("POST", "/v3/watch", json.dumps({"create_request": {"key": KEY, "start_revision": following}}))
            answer = connection.getresponse()
            while line := answer.readline():
                result = json.loads(line)["result"]
                if "compact_revision" in result:
                    # What came before is gone, and the server says so.
                    following = int(result["compact_revision"])
                for event in result.get("events", ()):
                    revision = int(event["kv"]["mod_revision"])
                    if revision != following:
                        print(f"missed: revision {revision} came where {following} was to come", flush=True)
                    following = revision + 1
                    seen += 1
                if result.get("canceled"):
                    break
        except (OSError, http.client.HTTPException, ValueError, KeyError):
            pass
        finally:
            connection.close()
        resumed += 1
        time.sleep(0.05)
    print(f"saw {seen} events, resumed {resumed} times", flush=True)


if sys.argv[1] == "write":
    write(*sys.argv[2:])
else:
    watch(*sys.argv[2:])
