#!/usr/bin/python3
"""Writes keys into an etcd cluster, one after another, through whichever member answers; then reads them back from every
member:

    etcd_check.py SECONDS MEMBER...

Exits with 1 if a write that was acknowledged is missing, or if members disagree."""

import base64
import http.client
import itertools
import json
import sys
import time


def call(member, path, **body):
    """The answer of etcd's JSON gateway; OSError or HTTPException where there is none."""
    connection = http.client.HTTPConnection(member, 2379, timeout=2)
    try:
        connection.request("POST", path, json.dumps(body))
        response = connection.getresponse()
        answer = json.load(response)
        if response.status != 200:
            raise http.client.HTTPException(answer.get("error", response.status))
        return answer
    finally:
        connection.close()


def text(data):
    return base64.b64encode(data.encode()).decode()


def put(members, number):
    """Writes a key, again and again if need be: it is the same each time."""
    while True:
        try:
            return call(next(members), "/v3/kv/put", key=text(f"key{number:04}"), value=text(str(number)))
        except (OSError, http.client.HTTPException):
            time.sleep(0.1)


def everything(member):
    """All keys with their values, after whatever the others have agreed on has arrived here."""
    for _ in range(20):
        try:
            found = call(member, "/v3/kv/range", key=text("key"), range_end=text("kez"))
            return [(base64.b64decode(kv["key"]).decode(), kv["value"], kv["mod_revision"]) for kv in found.get("kvs", [])]
        except (OSError, http.client.HTTPException):
            time.sleep(0.5)
    return None


def main(seconds, *members):
    order, end = itertools.cycle(members), time.monotonic() + float(seconds)
    written, longest = 0, 0.0
    while (begin := time.monotonic()) < end:
        put(order, written + 1)
        written += 1
        longest = max(longest, time.monotonic() - begin)
        time.sleep(0.2)
    print(f"{written} writes acknowledged, the slowest after {longest:.3f} s")
    wrong = []
    found = {member: everything(member) for member in members}
    for member, keys in found.items():
        lost = {f"key{n:04}" for n in range(1, written + 1)} - {key for key, _, _ in keys or []}
        if keys is None:
            wrong.append(f"{member} does not answer")
        elif lost:
            wrong.append(f"{member} has lost {len(lost)} acknowledged writes, the first is {min(lost)}")
        elif keys != found[members[0]]:
            wrong.append(f"{member} and {members[0]} disagree")
    print("\n".join(wrong) or "all there, the same on all members")
    return bool(wrong)


sys.exit(main(*sys.argv[1:]))
