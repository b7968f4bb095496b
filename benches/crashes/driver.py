"""Writes 1, 2, 3 ... to a database on its host, each in a transaction of its own, and reports each to `witness` once it is acknowledged. At its
start it prints the number of the last write that is there, and whether all before it are: driver.py DATABASE [unsafe]."""

import base64
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request

DATABASE, UNSAFE = sys.argv[1], "unsafe" in sys.argv
PADDING = "x" * 300


class Redis:
    def __init__(self):
        self.socket = connected(6379)
        self.replies = self.socket.makefile("rb")
        while not isinstance(self.call("dbsize"), int):
            time.sleep(0.01)  # it is loading

    def call(self, *words):
        parts = [str(word).encode() for word in words]
        self.socket.sendall(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts))
        line = self.replies.readline()
        if not line:
            raise OSError("the server has gone")
        return int(line[1:]) if line[:1] == b":" else line

    def numbers(self):
        # All keys are numbers, and each but the first has the one before it if none is missing.
        count = self.call("dbsize")
        return count, count == 0 or self.call("exists", count) == 1

    def write(self, number):
        reply = self.call("set", number, PADDING)
        if reply != b"+OK\r\n":
            raise OSError(reply)


class Etcd:
    URL = "http://127.0.0.1:2379/v3/kv/"

    def __init__(self):
        connected(2379).close()
        while True:
            try:
                return self.numbers() and None
            except OSError:
                time.sleep(0.05)

    def call(self, name, **body):
        request = urllib.request.Request(self.URL + name, json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=5) as reply:
            return json.load(reply)

    @staticmethod
    def key(number):
        return base64.b64encode(b"%09d" % number).decode()

    def numbers(self):
        found = self.call("range", key=self.key(0), range_end=base64.b64encode(b":").decode(), keys_only=True, sort_order="DESCEND", limit=1)
        count = int(found.get("count", 0))
        return count, count == 0 or found["kvs"][0]["key"] == self.key(count)

    def write(self, number):
        self.call("put", key=self.key(number), value=base64.b64encode(PADDING.encode()).decode())


class Postgres:
    def __init__(self):
        connected(5432).close()
        self.open()
        while True:
            try:
                self.ask("create table if not exists t (n integer primary key, x text)")
                return
            except OSError:
                time.sleep(0.05)
                self.open()

    def open(self):
        command = ["psql", "-h", "127.0.0.1", "-U", "postgres", "-qAt", "-v", "ON_ERROR_STOP=1", "postgres"]
        self.psql = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, bufsize=1)

    def ask(self, text):
        """The first line of the answer."""
        try:
            self.psql.stdin.write(f"{text};\n\\echo done\n")
            self.psql.stdin.flush()
        except BrokenPipeError as error:
            raise OSError("psql has ended") from error
        lines = []
        while (line := self.psql.stdout.readline()) != "done\n":
            if not line:
                raise OSError("psql has ended")
            lines.append(line.strip())
        return lines[0] if lines else ""

    def numbers(self):
        count, most = map(int, self.ask("select count(*), coalesce(max(n), 0) from t").split("|"))
        return most, count == most

    def write(self, number):
        self.ask(f"insert into t values ({number}, '{PADDING}')")


class Sqlite:
    """With the journal's safe setting: without EXTRA, the removal of a rollback journal, which commits, is not synced."""

    def __init__(self, journal, safe):
        import sqlite3
        self.base = sqlite3.connect("/var/lib/base/base.db", isolation_level=None)
        for setting in (f"journal_mode = {journal}", f"synchronous = {'off' if UNSAFE else safe}", "wal_autocheckpoint = 50"):
            self.base.execute(f"pragma {setting}").fetchall()
        self.base.execute("create table if not exists t (n integer primary key, x text)")

    def numbers(self):
        is_sound = self.base.execute("pragma integrity_check").fetchall() == [("ok",)]
        count, most = self.base.execute("select count(*), coalesce(max(n), 0) from t").fetchone()
        return most, is_sound and count == most

    def write(self, number):
        self.base.execute("insert into t values (?, ?)", (number, PADDING))


class Lmdb:
    def __init__(self):
        import lmdb
        self.base = lmdb.open("/var/lib/base", map_size=1 << 26, sync=not UNSAFE)

    def numbers(self):
        with self.base.begin() as transaction:
            count = transaction.stat()["entries"]
            return count, count == 0 or transaction.get(b"%09d" % count) is not None

    def write(self, number):
        with self.base.begin(write=True) as transaction:
            transaction.put(b"%09d" % number, PADDING.encode())


class Rocksdb:
    def __init__(self):
        from rocksdict import Options, Rdict, WriteOptions
        options = Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_write_buffer_size(1 << 16)  # so that tables are written and compacted
        self.base = Rdict("/var/lib/base", options)
        self.options = WriteOptions()
        self.options.sync = not UNSAFE

    def numbers(self):
        keys = [int(key) for key in self.base.keys()]
        return len(keys), keys == list(range(1, len(keys) + 1))

    def write(self, number):
        self.base.put(b"%09d" % number, PADDING.encode(), self.options)


def connected(port):
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port))
        except OSError:
            time.sleep(0.01)


def main():
    os.makedirs("/var/lib/base", exist_ok=True)
    base = {
        "redis": Redis, "etcd": Etcd, "postgres": Postgres, "lmdb": Lmdb, "rocksdb": Rocksdb,
        "sqlite": lambda: Sqlite("delete", "extra"), "sqlite-wal": lambda: Sqlite("wal", "full"),
    }[DATABASE]()
    number, is_whole = base.numbers()
    print("ok" if is_whole else "broken", "holds", number, flush=True)
    log = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    while True:
        number += 1
        base.write(number)
        log.sendto(b"%d" % number, ("witness", 9))


main()
