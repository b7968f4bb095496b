"""A node of Maelstrom in the standard library's Python: messages as lines on standard input and output, callbacks for replies, timers."""

import json
import os
import selectors
import sys
import time


class Node:
    """Handlers by the type of a message. A handler is given the message, and answers by `reply` or `fail`."""

    def __init__(self):
        self.id, self.nodes, self.handlers, self.waiting, self.number, self.timers = None, [], {}, {}, 0, []
        self.on("init", self.init)

    def on(self, kind, handler):
        self.handlers[kind] = handler

    def init(self, message):
        self.id, self.nodes = message["body"]["node_id"], message["body"]["node_ids"]
        self.reply(message)

    @property
    def others(self):
        return [name for name in self.nodes if name != self.id]

    def every(self, seconds, action):
        self.timers.append([time.monotonic() + seconds, seconds, action])

    def send(self, dest, body):
        print(json.dumps({"src": self.id, "dest": dest, "body": body}), flush=True)

    def reply(self, request, kind=None, **members):
        self.send(request["src"], {"type": kind or request["body"]["type"] + "_ok", "in_reply_to": request["body"]["msg_id"], **members})

    def fail(self, request, code, text=""):
        self.reply(request, "error", code=code, text=text)

    def rpc(self, dest, body, then):
        """Sends a request; `then` is given the body of the answer."""
        self.number += 1
        self.waiting[self.number] = then
        self.send(dest, {**body, "msg_id": self.number})

    def take(self, line):
        message = json.loads(line)
        answered = message["body"].get("in_reply_to")
        if answered is not None:
            then = self.waiting.pop(answered, None)
            return then(message["body"]) if then else None
        return self.handlers[message["body"]["type"]](message)

    def run(self):
        inputs, rest = selectors.DefaultSelector(), b""
        inputs.register(0, selectors.EVENT_READ)
        while True:
            wait = min((timer[0] for timer in self.timers), default=None)
            if inputs.select(None if wait is None else max(0, wait - time.monotonic())):
                read = os.read(0, 1 << 16)
                if not read:
                    sys.exit()
                *lines, rest = (rest + read).split(b"\n")
                for line in lines:
                    self.take(line)
            for timer in self.timers:
                if timer[0] <= time.monotonic():
                    timer[0] += timer[1]
                    timer[2]()
