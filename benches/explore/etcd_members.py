#!/usr/bin/python3
"""Five writers of etcd, and a comparison of what its members hold in the end.

    etcd_members.py ETCD..."""

import base64
import http.client
import json
import sys
import threading
import time

WRITERS, WRITING, SETTLING = 5, 30, 12


def encoded(text):
    return base64.b64encode(text.encode()).decode()


def call(connection, path, **body):
    connection.request("POST", f"/v3/{path}", json.dumps(body), {"Content-Type": "application/json"})
    return json.loads(connection.getresponse().read())


def write(etcd, name, end):
    """Puts and deletes keys at one member."""
    number = 0
    connection = http.client.HTTPConnection(etcd, 2379, timeout=2)
    while time.monotonic() < end:
        number += 1
        try:
            call(connection, "kv/put", key=encoded(f"{name}/{number % 20}"), value=encoded(str(number)))
            if number % 7 == 0:
                call(connection, "kv/deleterange", key=encoded(f"{name}/{number % 5}"))
        except (OSError, http.client.HTTPException, ValueError):
            connection.close()
            time.sleep(0.1)
        time.sleep(0.005)


def held(etcd):
    """The revision of a member's own store, and its keys with their revisions."""
    while True:
        try:
            connection = http.client.HTTPConnection(etcd, 2379, timeout=2)
            answer = call(connection, "kv/range", key="AA==", range_end="AA==", serializable=True)
            return answer["header"]["revision"], sorted((key["key"], key["mod_revision"], key["value"]) for key in answer.get("kvs", ()))
        except (OSError, http.client.HTTPException, ValueError, KeyError):
            time.sleep(0.5)


def main(*etcds):
    end = time.monotonic() + WRITING
    writers = [threading.Thread(target=write, args=(etcds[n % len(etcds)], f"writer{n}", end)) for n in range(WRITERS)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    time.sleep(SETTLING)
    found = [held(etcd) for etcd in etcds]
    revisions = [revision for revision, _ in found]
    print("equal" if all(each == found[0] for each in found) else "diverged", "at revisions", *revisions, flush=True)


main(*sys.argv[1:])
