#!/usr/bin/python3
"""A register behind a server, and its clients.

    register.py serve [--forgetful]
    register.py client SERVER NUMBER

The server writes each value to disk before it acknowledges it; with --forgetful it acknowledges first, and writes once a second. Clients
write and read in turn, and keep a history of it: one line before each request, one after its answer."""

import json
import os
import socket
import sys
import threading
import time

PORT = 7000
FILE = "register.txt"
TIMEOUT = 0.5


class Register:
    def __init__(self, forgetful):
        self.lock, self.forgetful = threading.Lock(), forgetful
        self.value = None
        if os.path.exists(FILE):
            with open(FILE) as file:
                self.value = json.load(file)
        print(f"starts with {self.value}", flush=True)

    def store(self):
        with open(FILE + ".new", "w") as file:
            json.dump(self.value, file)
            file.flush()
            os.fsync(file.fileno())
        os.rename(FILE + ".new", FILE)

    def answer(self, request):
        with self.lock:
            if request["f"] == "write":
                self.value = request["value"]
                if not self.forgetful:
                    self.store()
            return self.value

    def store_sometimes(self):
        while True:
            time.sleep(1)
            with self.lock:
                self.store()


def serve(forgetful):
    register = Register(forgetful)
    if forgetful:
        threading.Thread(target=register.store_sometimes, daemon=True).start()
    with socket.create_server(("", PORT)) as listener:
        while True:
            threading.Thread(target=attend, args=(register, listener.accept()[0]), daemon=True).start()


def attend(register, connection):
    with connection:
        try:
            stream = connection.makefile("rw")
            for line in stream:
                stream.write(json.dumps(register.answer(json.loads(line))) + "\n")
                stream.flush()
        except OSError:
            pass  # The client has given up.


class Client:
    def __init__(self, server, number):
        self.server, self.number, self.stream = server, number, None
        self.process = 0
        self.history = open("history.jsonl", "a", buffering=1)

    def note(self, kind, request, value):
        event = {"time": time.time_ns(), "process": self.process, "type": kind, "f": request["f"], "value": value}
        self.history.write(json.dumps(event) + "\n")

    def ask(self, request):
        self.note("invoke", request, request.get("value"))
        began = time.monotonic()
        try:
            if self.stream is None:
                self.stream = socket.create_connection((self.server, PORT), TIMEOUT).makefile("rw")
        except OSError:
            # Nothing has been sent: the request cannot have had an effect.
            self.note("fail", request, None)
            print("no connection", flush=True)
            return
        try:
            self.stream.write(json.dumps(request) + "\n")
            self.stream.flush()
            value = json.loads(self.stream.readline())
        except (OSError, ValueError):
            # It may have had an effect, or may still: this client is a new one from now on.
            self.note("info", request, None)
            self.stream, self.process = None, self.process + 1
            print("no answer", flush=True)
            return
        self.note("ok", request, value)
        print(f"{request['f']} took {(time.monotonic() - began) * 1000:.3f} ms", flush=True)

    def run(self):
        for n in range(50):
            self.ask({"f": "write", "value": 1000 * self.number + n} if n % 3 == 0 else {"f": "read"})
            time.sleep(0.15)


if sys.argv[1] == "serve":
    serve("--forgetful" in sys.argv)
else:
    Client(sys.argv[2], int(sys.argv[3])).run()
