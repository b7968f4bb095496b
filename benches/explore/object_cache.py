#!/usr/bin/python3
"""Clients of a ZEO server that change two objects together: each transaction must see both at the same value.

    object_cache.py serve
    object_cache.py work SERVER write|read"""

import sys
import time

PORT = 9100


def serve():
    from ZEO import runzeo

    runzeo.main(["-a", f"0.0.0.0:{PORT}", "-f", "data.fs"])


def work(server, writes):
    import logging

    import transaction
    import ZODB
    from persistent.mapping import PersistentMapping
    from ZEO.ClientStorage import ClientStorage
    from ZEO.Exceptions import ClientDisconnected
    from ZODB.POSException import ConflictError, POSError

    logging.basicConfig(level=logging.CRITICAL)
    database = ZODB.DB(ClientStorage((server, PORT), wait_timeout=30))
    with database.transaction() as connection:
        root = connection.root()
        if writes and "one" not in root:
            root["one"], root["two"] = PersistentMapping(value=0), PersistentMapping(value=0)
    end = time.monotonic() + 20
    seen = 0
    while time.monotonic() < end:
        try:
            with database.transaction() as connection:
                root = connection.root()
                if "one" not in root:
                    time.sleep(0.5)
                    continue
                one, two = root["one"]["value"], root["two"]["value"]
                if one != two:
                    print(f"one is {one}, two is {two}", flush=True)
                seen += 1
                if writes:
                    root["one"]["value"] = root["two"]["value"] = one + 1
        except (ConflictError, ClientDisconnected, POSError, transaction.interfaces.TransientError):
            transaction.abort()
        time.sleep(0.031 if writes else 0.017)
    print(f"{seen} transactions", flush=True)


if sys.argv[1] == "serve":
    serve()
else:
    work(sys.argv[2], sys.argv[3] == "write")
