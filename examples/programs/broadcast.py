#!/usr/bin/env python3
"""A node of Maelstrom's workload `broadcast`: it sends each message to its neighbours until they acknowledge it; with --once, once.

    ./belljar maelstrom -w broadcast --bin examples/programs/broadcast.py --nemesis partition --latency 20
"""

import json
import select
import sys
import time

AGAIN = 0.5  # seconds until a message that was not acknowledged is sent again

name, neighbours, seen, open_messages, number = None, [], [], {}, 0


def send(dest, body):
    print(json.dumps({"src": name, "dest": dest, "body": body}), flush=True)


def tell(neighbour, message):
    """Sends a message to a neighbour, and notes that it is not acknowledged yet."""
    global number
    number += 1
    open_messages[number] = (neighbour, message, time.monotonic() + AGAIN)
    send(neighbour, {"type": "gossip", "msg_id": number, "message": message})


def learn(message, source):
    if message not in seen:
        seen.append(message)
        for neighbour in neighbours:
            if neighbour != source:
                tell(neighbour, message)


def handle(source, body):
    global name, neighbours
    answer = {}
    match body["type"]:
        case "init":
            name = body["node_id"]
        case "topology":
            neighbours = body["topology"][name]
        case "broadcast" | "gossip":
            learn(body["message"], source)
        case "read":
            answer = {"messages": seen}
        case "gossip_ok":
            open_messages.pop(body["in_reply_to"], None)
            return
    send(source, {"type": body["type"] + "_ok", "in_reply_to": body["msg_id"], **answer})


def send_again():
    for key, (neighbour, message, due) in list(open_messages.items()):
        if due <= time.monotonic():
            del open_messages[key]
            tell(neighbour, message)


def main():
    once = "--once" in sys.argv
    # One line at a time, so that no line is left in a buffer while we wait for the next.
    lines = open(0, "rb", buffering=0)
    while True:
        if once or select.select([lines], [], [], AGAIN / 5)[0]:
            line = lines.readline()
            if not line:
                return
            message = json.loads(line)
            handle(message["src"], message["body"])
        if not once:
            send_again()


main()
