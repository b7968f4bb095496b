#!/usr/bin/python3
"""A number behind a TCP server that must survive crashes, and its client:

    ledger.py serve [--forget file|folder]
    ledger.py client HOST

The server acknowledges a number once it is on disk: it writes a temporary file, syncs it, renames it, and syncs the
folder. --forget leaves one of the two syncs out. The client sends ever larger numbers; after each lost connection it
asks what the server has."""

import os
import pathlib
import socket
import sys
import time

FOLDER = pathlib.Path("/var/lib/ledger")
FILE = FOLDER / "number"


def sync_folder(folder):
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(descriptor)
    os.close(descriptor)


def save(text, forget):
    temporary = FOLDER / "number.new"
    with open(temporary, "w") as file:
        file.write(text)
        file.flush()
        if forget != "file":
            os.fsync(file.fileno())
    os.rename(temporary, FILE)
    if forget != "folder":
        sync_folder(FOLDER)


def serve(forget):
    FOLDER.mkdir(parents=True, exist_ok=True)
    sync_folder(FOLDER.parent)
    print("starting with", FILE.read_text() if FILE.exists() else "nothing", flush=True)
    listener = socket.create_server(("", 7000))
    while True:
        with listener.accept()[0] as connection, connection.makefile("rw") as stream:
            for line in stream:
                if line.strip() != "get":
                    save(line.strip(), forget)
                stream.write((FILE.read_text() if FILE.exists() else "0") + "\n")
                stream.flush()


def client(host):
    number = acknowledged = 0
    while number < 400:
        try:
            with socket.create_connection((host, 7000), timeout=0.5) as connection, connection.makefile("rw") as stream:
                def ask(request):
                    stream.write(f"{request}\n")
                    stream.flush()
                    answer = stream.readline().strip()
                    if not answer and request != "get":
                        raise ConnectionError("closed")
                    return answer or "0"
                print(f"acknowledged {acknowledged}, found {ask('get')}", flush=True)
                while number < 400:
                    number += 1
                    acknowledged = int(ask(number))
                    time.sleep(0.05)
        except OSError:
            time.sleep(0.2)


if sys.argv[1] == "serve":
    serve(sys.argv[3] if "--forget" in sys.argv else None)
else:
    client(sys.argv[2])
