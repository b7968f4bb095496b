#!/usr/bin/python3
"""A client of NATS JetStream that publishes to a replicated stream, and in the end looks for what was acknowledged, or for the stream alone.

    nats_stream.py [--exists] SERVER..."""

import json
import socket
import sys
import time


class Nats:
    """A connection to a NATS server, with one inbox."""

    def __init__(self, server):
        self.socket = socket.create_connection((server, 4222), timeout=2)
        self.lines = self.socket.makefile("rb")
        self.lines.readline()
        self.number = 0
        self.send(b'CONNECT {"verbose":false,"no_responders":true,"headers":true}\r\nSUB inbox.* 1\r\n')

    def send(self, text):
        self.socket.sendall(text)

    def request(self, subject, body=b""):
        """The answer to a request, as JSON."""
        self.number += 1
        inbox = f"inbox.{self.number}"
        self.send(b"PUB %s %s %d\r\n%s\r\n" % (subject.encode(), inbox.encode(), len(body), body))
        while True:
            line = self.lines.readline()
            words = line.split()
            if not words:
                raise OSError("the connection was closed")
            if words[0] == b"PING":
                self.send(b"PONG\r\n")
            elif words[0] == b"HMSG":
                self.lines.read(int(words[-1]) + 2)
                raise OSError("no responders")
            elif words[0] == b"MSG":
                answer = json.loads(self.lines.read(int(words[-1]) + 2))
                if words[1].decode() == inbox:
                    return answer


def connected(servers):
    for server in servers:
        try:
            return Nats(server)
        except OSError:
            continue
    raise OSError("no server answers")


def repeated(servers, subject, body=b"", until=lambda answer: "error" not in answer):
    """The answer to a request that is repeated until it succeeds."""
    while True:
        try:
            answer = connected(servers).request(subject, body)
            if until(answer):
                return answer
        except (OSError, ValueError):
            pass
        time.sleep(0.5)


def exists(servers):
    """Asks for the stream until it is there, for a minute."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            answer = connected(servers).request("$JS.API.STREAM.INFO.log")
            if "error" not in answer:
                print(f"exists with {answer['state']['messages']} messages", flush=True)
                return
            print(answer["error"]["description"], flush=True)
        except (OSError, ValueError):
            pass
        servers = servers[1:] + servers[:1]
        time.sleep(2)
    print("forgotten", flush=True)


def main(servers, only_exists=False):
    stream = {"name": "log", "subjects": ["log"], "num_replicas": len(servers), "storage": "file", "retention": "limits", "discard": "old"}
    repeated(servers, "$JS.API.STREAM.CREATE.log", json.dumps(stream).encode())
    print("created", flush=True)
    acknowledged, number, connection = {}, 0, None
    end = time.monotonic() + 28
    while time.monotonic() < end:
        number += 1
        try:
            connection = connection or connected(servers)
            answer = connection.request("log", str(number).encode())
            if "seq" in answer:
                acknowledged[answer["seq"]] = number
        except (OSError, ValueError):
            connection = None
            servers = servers[1:] + servers[:1]
        time.sleep(0.05)
    time.sleep(15)
    print(f"{len(acknowledged)} of {number} acknowledged", flush=True)
    if only_exists:
        exists(servers)
        return
    info = repeated(servers, "$JS.API.STREAM.INFO.log")["state"]
    print(f"stream has {info['messages']} messages, {info['first_seq']} to {info['last_seq']}", flush=True)
    lost = []
    for sequence in sorted(acknowledged):
        answer = repeated(servers, "$JS.API.STREAM.MSG.GET.log", json.dumps({"seq": sequence}).encode(),
                          lambda answer: "message" in answer or answer.get("error", {}).get("code") == 404)
        if "message" not in answer:
            lost.append(sequence)
    print(f"lost {len(lost)}: {lost[:20]}" if lost else "kept", flush=True)


main([word for word in sys.argv[1:] if word != "--exists"], "--exists" in sys.argv)
