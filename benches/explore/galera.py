#!/usr/bin/python3
"""Transactions that read a list and write it with one more element, from two connections to each member of a cluster.

    galera.py MEMBERS..."""

import json
import random
import sys
import threading
import time

import pymysql

RUNNING, KEYS = 12, 4
lock = threading.Lock()
history = open("history.jsonl", "w")
numbers = iter(range(1, 10**9))


def note(process, kind, operations):
    with lock:
        print(json.dumps({"process": process, "type": kind, "f": "txn", "value": operations}), file=history, flush=True)


def connected(member):
    while True:
        try:
            connection = pymysql.connect(host=member, user="root", autocommit=False, connect_timeout=2, read_timeout=5)
            with connection.cursor() as cursor:
                cursor.execute("show status like 'wsrep_ready'")
                if cursor.fetchone()[1] == "ON":
                    return connection
            connection.close()
        except pymysql.Error:
            pass
        time.sleep(0.2)


def work(process, member, end):
    connection = connected(member)
    while time.monotonic() < end:
        with lock:
            key, number = random.randrange(KEYS), next(numbers)
        note(process, "invoke", [["r", key, None], ["append", key, number]])
        try:
            with connection.cursor() as cursor:
                cursor.execute("select v from bench.lists where k = %s", key)
                held = json.loads(cursor.fetchone()[0])
                time.sleep(0.002)
                cursor.execute("update bench.lists set v = %s where k = %s", (json.dumps(held + [number]), key))
            connection.commit()
            note(process, "ok", [["r", key, held], ["append", key, number]])
        except (pymysql.Error, OSError) as error:
            # Deadlocks and changed records abort the transaction; after other errors nobody knows.
            is_aborted = error.args and error.args[0] in (1020, 1205, 1213, 1047)
            note(process, "fail" if is_aborted else "info", [["r", key, None], ["append", key, number]])
            try:
                connection.rollback()
            except (pymysql.Error, OSError):
                connection.close()
                return
        time.sleep(random.random() * 0.02)


def main(*members):
    connection = connected(members[0])
    with connection.cursor() as cursor:
        cursor.execute("create database bench")
        cursor.execute("create table bench.lists (k int primary key, v text) engine=innodb")
        cursor.executemany("insert into bench.lists values (%s, '[]')", [(key,) for key in range(KEYS)])
    connection.commit()
    for member in members:
        connected(member).close()
    time.sleep(1)
    end = time.monotonic() + RUNNING
    workers = [threading.Thread(target=work, args=(2 * n + k, member, end)) for n, member in enumerate(members) for k in (0, 1)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    print("done", flush=True)


main(*sys.argv[1:])
