#!/usr/bin/env python3
"""A bank whose server states by Antithesis' SDK what must hold of it.

    bank.py serve [--unsafe]    keeps two accounts in a file
    bank.py transfer HOST       moves money between them, again and again

A transfer takes from one account and gives to the other. The server writes both in one file and renames it into place; with --unsafe
it writes two files, one after the other, and a crash between the two loses money. It needs the package antithesis."""

import json
import os
import pathlib
import random
import socket
import sys
import time

from antithesis.assertions import always, sometimes
from antithesis.lifecycle import setup_complete

TOTAL = 100
PORT = 7000
FOLDER = pathlib.Path("/var/lib/bank")


def store(name, content):
    """Replaces a file as a whole, on disk when this returns."""
    temporary = FOLDER / f"{name}.new"
    with temporary.open("w") as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(FOLDER / name)
    folder = os.open(FOLDER, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


def stored():
    """The accounts on disk: in one file, or in two."""
    one = FOLDER / "accounts"
    if one.exists():
        return json.loads(one.read_text())
    names = [name for name in ("a", "b") if (FOLDER / name).exists()]
    return {name: json.loads((FOLDER / name).read_text()) for name in names}


def serve(unsafe):
    FOLDER.mkdir(parents=True, exist_ok=True)
    accounts = {"a": TOTAL // 2, "b": TOTAL // 2, **stored()}
    always(sum(accounts.values()) == TOTAL, "no money is lost", accounts)
    listening = socket.create_server(("", PORT))
    setup_complete({})
    while True:
        connection, _ = listening.accept()
        with connection, connection.makefile() as lines:
            for line in lines:
                amount = int(line)
                accounts["a"], accounts["b"] = accounts["a"] - amount, accounts["b"] + amount
                if unsafe:
                    for name, money in accounts.items():
                        store(name, money)
                        time.sleep(0.005)
                else:
                    store("accounts", accounts)
                sometimes(amount < 0, "money goes back", accounts)
                connection.sendall(b"done\n")


def transfer(host):
    while True:
        try:
            with socket.create_connection((host, PORT), timeout=1) as connection:
                while True:
                    connection.sendall(f"{random.randint(-5, 5)}\n".encode())
                    if connection.recv(100) == b"":
                        break
                    time.sleep(0.05)
        except OSError:
            time.sleep(0.2)


if __name__ == "__main__":
    serve("--unsafe" in sys.argv) if sys.argv[1] == "serve" else transfer(sys.argv[2])
