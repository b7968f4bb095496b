#!/usr/bin/env python3
"""Nodes for each workload of Maelstrom, right ones and wrong ones: nodes.py WORKLOAD right|wrong.

| workload | right | wrong |
|---|---|---|
| echo | repeats | in capitals now and then |
| broadcast | sends until it is acknowledged | sends once |
| g-set | sends all elements now and then | keeps what it has been given |
| pn-counter | sums of each node, sent now and then | reads and writes one number in seq-kv |
| unique-ids | name and number | number alone |
| kafka | offsets by comparison in lin-kv | offsets of its own |
| lin-kv | asks lin-kv | asks lww-kv |
| txn-list-append | one value for the whole state, replaced by comparison | one value for each key |
| txn-rw-register | as above | as above |
"""

import sys

from node import Node

node = Node()


def echo(right):
    def handle(message):
        text = message["body"]["echo"]
        node.reply(message, echo=text if right or not text.endswith("7") else text.upper())
    node.on("echo", handle)


def broadcast(right):
    seen, neighbours, unacknowledged = [], [], set()

    def topology(message):
        neighbours[:] = message["body"]["topology"][node.id]
        node.reply(message)

    def learn(value, source):
        if value in seen:
            return
        seen.append(value)
        for neighbour in neighbours:
            if neighbour != source:
                unacknowledged.add((neighbour, value))
                tell(neighbour, value)

    def tell(neighbour, value):
        node.rpc(neighbour, {"type": "gossip", "value": value}, lambda _: unacknowledged.discard((neighbour, value)))

    def handle(message):
        learn(message["body"]["message"], None)
        node.reply(message)

    def gossip(message):
        learn(message["body"]["value"], message["src"])
        node.reply(message)

    node.on("topology", topology)
    node.on("broadcast", handle)
    node.on("gossip", gossip)
    node.on("read", lambda message: node.reply(message, messages=seen))
    if right:
        node.every(0.5, lambda: [tell(*one) for one in sorted(unacknowledged)])


def g_set(right):
    elements = set()

    def add(message):
        elements.add(message["body"]["element"])
        node.reply(message)

    node.on("add", add)
    node.on("read", lambda message: node.reply(message, value=sorted(elements)))
    node.on("merge", lambda message: elements.update(message["body"]["elements"]))
    if right:
        node.every(1, lambda: [node.send(other, {"type": "merge", "elements": sorted(elements)}) for other in node.others])


def pn_counter(right):
    sums = {}

    def add(message):
        delta = message["body"]["delta"]
        up, down = sums.get(node.id, (0, 0))
        sums[node.id] = (up + max(delta, 0), down + max(-delta, 0))
        node.reply(message)

    def merge(message):
        for name, (up, down) in message["body"]["sums"].items():
            before = sums.get(name, (0, 0))
            sums[name] = (max(up, before[0]), max(down, before[1]))

    def add_wrong(message):
        def write(found):
            total = found.get("value", 0) + message["body"]["delta"]
            node.rpc("seq-kv", {"type": "write", "key": "sum", "value": total}, lambda _: node.reply(message))
        node.rpc("seq-kv", {"type": "read", "key": "sum"}, write)

    def read_wrong(message):
        node.rpc("seq-kv", {"type": "read", "key": "sum"}, lambda found: node.reply(message, value=found.get("value", 0)))

    if right:
        node.on("add", add)
        node.on("read", lambda message: node.reply(message, value=sum(up - down for up, down in sums.values())))
        node.on("merge", merge)
        node.every(1, lambda: [node.send(other, {"type": "merge", "sums": sums}) for other in node.others])
    else:
        node.on("add", add_wrong)
        node.on("read", read_wrong)


def unique_ids(right):
    count = [0]

    def generate(message):
        count[0] += 1
        node.reply(message, id=f"{node.id}-{count[0]}" if right else count[0])
    node.on("generate", generate)


def kafka(right):
    service, own = "lin-kv", {}

    def append(message, records):
        """Adds to the log if it is still `records`; else reads it again."""
        body = message["body"]
        changed = records + [body["msg"]]

        def done(answer):
            if answer["type"] == "cas_ok":
                node.reply(message, offset=len(records))
            else:
                fetch(body["key"], lambda found: append(message, found))
        node.rpc(service, {"type": "cas", "key": body["key"], "from": records, "to": changed, "create_if_not_exists": True}, done)

    def fetch(key, then):
        node.rpc(service, {"type": "read", "key": key}, lambda found: then(found.get("value", [])))

    def send(message):
        if right:
            return fetch(message["body"]["key"], lambda found: append(message, found))
        log = own.setdefault(message["body"]["key"], [])
        log.append(message["body"]["msg"])
        return node.reply(message, offset=len(log) - 1)

    def poll(message):
        offsets, found = message["body"]["offsets"], {}

        def have(key, records):
            found[key] = [[index, records[index]] for index in range(offsets[key], len(records))]
            if len(found) == len(offsets):
                node.reply(message, msgs=found)

        for key in offsets:
            if right:
                fetch(key, lambda records, key=key: have(key, records))
            else:
                have(key, own.get(key, []))
        if not offsets:
            node.reply(message, msgs={})

    committed = {}

    def commit(message):
        committed.update(message["body"]["offsets"])
        node.reply(message)

    node.on("send", send)
    node.on("poll", poll)
    node.on("commit_offsets", commit)
    node.on("list_committed_offsets", lambda message: node.reply(
        message, offsets={key: committed[key] for key in message["body"]["keys"] if key in committed}))


def lin_kv(right):
    def forward(message):
        def answer(found):
            node.send(message["src"], {**found, "in_reply_to": message["body"]["msg_id"]})
        node.rpc("lin-kv" if right else "lww-kv", {key: value for key, value in message["body"].items() if key != "msg_id"}, answer)
    for kind in ("read", "write", "cas"):
        node.on(kind, forward)


def transactions(right):
    """Right: the whole state is the value of one key, changed by comparison. Wrong: each key for itself."""
    def carry_out(state, txn):
        state, done = dict(state), []
        for f, key, value in txn:
            name = str(key)
            if f == "append":
                state[name] = [*state.get(name, []), value]
            elif f == "w":
                state[name] = value
            else:
                value = state.get(name)
            done.append([f, key, value])
        return state, done

    def attempt(message):
        def change(found):
            before = found.get("value", {})
            after, done = carry_out(before, message["body"]["txn"])

            def finish(answer):
                if answer["type"] == "cas_ok":
                    node.reply(message, txn=done)
                else:
                    node.fail(message, 30, "another transaction was first")
            node.rpc("lin-kv", {"type": "cas", "key": "state", "from": before, "to": after, "create_if_not_exists": True}, finish)
        node.rpc("lin-kv", {"type": "read", "key": "state"}, change)

    def piecemeal(message):
        txn = message["body"]["txn"]
        keys = sorted({key for _, key, _ in txn})
        found = {}

        def have(key, answer):
            found[str(key)] = answer.get("value")
            if len(found) < len(keys):
                return
            after, done = carry_out({key: value for key, value in found.items() if value is not None}, txn)
            for name, value in after.items():
                node.rpc("lin-kv", {"type": "write", "key": int(name), "value": value}, lambda _: None)
            node.reply(message, txn=done)

        for key in keys:
            node.rpc("lin-kv", {"type": "read", "key": key}, lambda answer, key=key: have(key, answer))

    node.on("txn", attempt if right else piecemeal)


WORKLOADS = {"echo": echo, "broadcast": broadcast, "g-set": g_set, "g-counter": pn_counter, "pn-counter": pn_counter, "unique-ids": unique_ids, "kafka": kafka,
             "lin-kv": lin_kv, "txn-list-append": transactions, "txn-rw-register": transactions}

if __name__ == "__main__":
    WORKLOADS[sys.argv[1]](sys.argv[2] == "right")
    node.run()
