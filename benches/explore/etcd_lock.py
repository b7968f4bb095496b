#!/usr/bin/python3
"""Locks of etcd, whose lease ends while the holder stands still.

    etcd_lock.py store [--fencing]
    etcd_lock.py work NAME ETCD STORE

The store accepts writes of holders with the revision of their lock. With --fencing it refuses one that is older than another it has seen."""

import base64
import json
import socket
import sys
import threading
import time
import urllib.request

PORT, TTL = 7003, 2


def store(with_fencing):
    listener = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    listener.bind(("", PORT))
    newest = 0
    while True:
        token = int(listener.recv(99))
        if token < newest and not with_fencing:
            print(f"write of holder {token} after that of {newest}", flush=True)
        elif token >= newest:
            newest = token
            print("accepted", flush=True)


def call(etcd, path, timeout=5, **body):
    request = urllib.request.Request(f"http://{etcd}:2379/v3/{path}", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        return json.loads(answer.read())


def keep_alive(etcd, lease, over):
    while not over.wait(0.5):
        try:
            call(etcd, "lease/keepalive", 1, ID=lease)
        except (OSError, ValueError):
            pass


def work(name, etcd, store_host):
    out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    until = time.monotonic() + 35
    while time.monotonic() < until:
        over = threading.Event()
        try:
            lease = call(etcd, "lease/grant", TTL=TTL)["ID"]
            threading.Thread(target=keep_alive, args=(etcd, lease, over), daemon=True).start()
            locked = call(etcd, "lock/lock", 10, name=base64.b64encode(b"lock").decode(), lease=lease)
            token = locked["header"]["revision"]
            for _ in range(5):
                out.sendto(token.encode(), (store_host, PORT))
                time.sleep(0.2)
            call(etcd, "lock/unlock", key=locked["key"])
        except (OSError, ValueError, KeyError) as error:
            print(f"{name}: {error}", flush=True)
            time.sleep(0.3)
        over.set()


if sys.argv[1] == "store":
    store("--fencing" in sys.argv)
else:
    work(*sys.argv[2:])
