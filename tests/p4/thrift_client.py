"""A client of BMv2's Thrift interface: the binary protocol, written from Thrift's specification, and what the test asks for.

As a program, `thrift_client.py HOST PORT`, it sets a bridge of thrift.p4 up and prints what the switch says."""

import json
import socket
import struct
import sys
import time

BOOL, DOUBLE, I16, I32, I64, STRING, STRUCT, MAP, LIST = 2, 4, 6, 8, 10, 11, 12, 13, 15
PACK = {BOOL: ">b", DOUBLE: ">d", I16: ">h", I32: ">i", I64: ">q"}


class Refused(Exception):
    """The exception of the interface with its code, or Thrift's own."""


def write(kind, value):
    if kind in PACK:
        return struct.pack(PACK[kind], value)
    if kind == STRING:
        value = value.encode() if isinstance(value, str) else value
        return struct.pack(">i", len(value)) + value
    if kind == STRUCT:
        return b"".join(struct.pack(">bh", of, number) + write(of, item) for number, (of, item) in value.items()) + b"\0"
    of, items = value
    return struct.pack(">bi", of, len(items)) + b"".join(write(of, item) for item in items)


class Client:
    def __init__(self, host, port):
        self.socket = socket.create_connection((host, port), 120)
        self.stream = self.socket.makefile("rb")
        self.sequence = 0

    def take(self, form):
        return struct.unpack(form, self.stream.read(struct.calcsize(form)))[0]

    def read(self, kind):
        if kind in PACK:
            return self.take(PACK[kind])
        if kind == STRING:
            return self.stream.read(self.take(">i"))
        if kind == STRUCT:
            fields = {}
            while (of := self.take(">b")) != 0:
                number = self.take(">h")
                fields[number] = self.read(of)
            return fields
        if kind == MAP:
            key, value, count = self.take(">b"), self.take(">b"), self.take(">i")
            return {self.read(key): self.read(value) for _ in range(count)}
        of, count = self.take(">b"), self.take(">i")
        return [self.read(of) for _ in range(count)]

    def call(self, name, *arguments):
        """Calls `service:method`; arguments are pairs of type and value, numbered from 1."""
        self.sequence += 1
        fields = dict(enumerate(arguments, 1))
        self.socket.sendall(struct.pack(">I", 0x80010001) + write(STRING, name) + struct.pack(">i", self.sequence) + write(STRUCT, fields))
        kind, method, sequence = self.take(">I") & 255, self.read(STRING).decode(), self.take(">i")
        assert (method, sequence) == (name.split(":")[-1], self.sequence)
        result = self.read(STRUCT)
        if kind == 3:
            raise Refused(f"{result[2]} {result[1].decode()}")
        if 1 in result:
            raise Refused(result[1][1])
        return result.get(0)

    def standard(self, method, *arguments):
        return self.call(f"standard:{method}", (I32, 0), *arguments)


def text(value):
    return (STRING, value)


def data(*values):
    return (LIST, (STRING, list(values)))


def key(*fields):
    return (LIST, (STRUCT, list(fields)))


def exact(value):
    return {1: (I32, 0), 2: (STRUCT, {1: text(value)})}


def lpm(value, prefix):
    return {1: (I32, 1), 3: (STRUCT, {1: text(value), 2: (I32, prefix)})}


def ternary(value, mask):
    return {1: (I32, 2), 4: (STRUCT, {1: text(value), 2: text(mask)})}


def between(low, high):
    return {1: (I32, 4), 6: (STRUCT, {1: text(low), 2: text(high)})}


def options(priority=None):
    return (STRUCT, {} if priority is None else {1: (I32, priority)})


def port(number):
    return number.to_bytes(2, "big")


def mac(number):
    return bytes([2, 0, 0, 0, 0, number])


def main():
    client = Client(sys.argv[1], int(sys.argv[2]))
    ask = client.standard

    def refused(method, *arguments):
        try:
            said = ask(method, *arguments)
        except Refused as error:
            return error.args[0]
        raise AssertionError(f"{method} was not refused: {said}")

    names = [table["name"] for table in json.loads(client.call("standard:bm_get_config"))["pipelines"][0]["tables"]]
    print("tables", sorted(name for name in names if name.startswith("I.")))
    print("info", client.call("standard:bm_mgmt_get_info"))
    began = time.monotonic()
    handles = [ask("bm_mt_add_entry", text("I.exact_"), key(exact(mac(n))), text("I.forward"), data(port(n)), options()) for n in (1, 2)]
    print("handles", handles, "took", round((time.monotonic() - began) * 1000))
    time.sleep(3)
    # Stations have sent by now.
    print("entry", ask("bm_mt_get_entry", text("exact_"), (I32, handles[1])))
    print("counter", ask("bm_mt_read_counter", text("I.exact_"), (I32, handles[1])), ask("bm_counter_read", text("I.arrived"), (I32, 1)))
    print("register", hex(ask("bm_register_read", text("I.last"), (I32, 1))))
    ask("bm_register_write", text("I.last"), (I32, 7), (I64, -1))
    print("registers", ask("bm_register_read_all", text("last"))[6:])
    print("lpm", ask("bm_mt_add_entry", text("I.lpm_"), key(lpm(mac(0), 40)), text("NoAction"), data(), options()))
    wide = ask("bm_mt_add_entry", text("I.ternary_"), key(ternary(b"\x08\0", b"\xff\0"), between(mac(1), mac(9))), text("NoAction"), data(), options(5))
    print("ternary", ask("bm_mt_get_entry", text("I.ternary_"), (I32, wide)))
    members = [ask("bm_mt_act_prof_add_member", text("I.chosen"), text("I.forward"), data(port(n))) for n in (1, 2)]
    group = ask("bm_mt_act_prof_create_group", text("I.chosen"))
    for member in members:
        ask("bm_mt_act_prof_add_member_to_group", text("I.chosen"), (I32, member), (I32, group))
    ask("bm_mt_indirect_ws_add_entry", text("I.selected"), key(exact(b"\x12\x34")), (I32, group), options())
    print("groups", ask("bm_mt_act_prof_get_groups", text("I.chosen")), ask("bm_mt_get_num_entries", text("I.selected")))
    ask("bm_meter_set_rates", text("I.pace"), (I32, 0), (LIST, (STRUCT, [{1: (DOUBLE, 0.5), 2: (I32, 10)}, {1: (DOUBLE, 1.0), 2: (I32, 20)}])))
    print("meter", ask("bm_meter_get_rates", text("I.pace"), (I32, 0)))
    rates = lambda *pairs: (LIST, (STRUCT, [{1: (DOUBLE, rate), 2: (I32, burst)} for rate, burst in pairs]))
    print("rates", refused("bm_meter_set_rates", text("I.pace"), (I32, 0), rates((1.0, 10), (0.5, 20))),
          refused("bm_meter_set_rates", text("I.pace"), (I32, 0), rates((1.0, 10))),
          refused("bm_meter_set_rates", text("I.pace"), (I32, 0), rates((0.5, -1), (1.0, 20))),
          refused("bm_meter_set_rates", text("I.pace"), (I32, 512), rates((0.5, 10), (1.0, 20))))
    ask("bm_parse_vset_add", text("P.types"), text(b"\x08\0"))
    print("values", ask("bm_parse_vset_get", text("P.types")))
    print("saved", client.call("standard:bm_serialize_state").decode().splitlines())
    print("refused", refused("bm_mt_get_num_entries", text("I.nothing")),
          refused("bm_mt_add_entry", text("I.exact_"), key(exact(mac(1))), text("I.forward"), data(port(1)), options()),
          refused("bm_mt_add_entry", text("I.exact_"), key(exact(mac(3))), text("I.sideways"), data(), options()),
          refused("bm_mt_add_entry", text("I.exact_"), key(lpm(mac(3), 8)), text("I.drop"), data(), options()),
          refused("bm_mt_add_entry", text("I.exact_"), key(exact(mac(3))), text("I.forward"), data(), options()),
          refused("bm_mt_delete_entry", text("I.exact_"), (I32, 99)),
          refused("bm_mt_act_prof_delete_member", text("I.chosen"), (I32, members[0])),
          refused("bm_counter_read", text("I.arrived"), (I32, 512)),
          refused("bm_register_read", text("I.first"), (I32, 0)),
          refused("bm_swap_configs"), refused("bm_parse_nothing", text("")))
    tree = [client.call("simple_pre_lag:bm_mc_mgrp_create", (I32, 0), (I32, 7)),
            client.call("simple_pre_lag:bm_mc_node_create", (I32, 0), (I32, 3), text("110"), text(""))]
    client.call("simple_pre_lag:bm_mc_node_associate", (I32, 0), *((I32, n) for n in tree))
    print("multicast", json.loads(client.call("simple_pre_lag:bm_mc_get_entries", (I32, 0))))
    client.call("simple_switch:mirroring_session_add", (I32, 5), (STRUCT, {1: (I32, 2)}))
    print("session", client.call("simple_switch:mirroring_session_get", (I32, 5)))
    print("queue", client.call("simple_switch:set_egress_queue_depth", (I32, 1), (I32, 9)), client.call("simple_switch:set_egress_queue_rate", (I32, 999), (I64, 1)))
    print("elapsed", client.call("simple_switch:get_time_elapsed_us") // 1000)
    # The second station's frames come back to all ports from now on.
    ask("bm_mt_modify_entry", text("I.exact_"), (I32, handles[0]), text("I.replicate"), data(b"\0\x07"))
    time.sleep(3)
    ask("bm_reset_state")
    print("after", ask("bm_mt_get_entries", text("I.exact_")), ask("bm_register_read", text("I.last"), (I32, 7)),
          ask("bm_mt_act_prof_get_members", text("I.chosen")))


if __name__ == "__main__":
    main()
