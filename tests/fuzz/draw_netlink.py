"""Draws requests of rtnetlink: links, addresses, routes, next hops, rules, neighbours; most of them nearly right.

Links that are made are veth pairs, as kernels without dummies and VLANs are common. Not drawn, as Belljar names it unsupported or a host of an experiment cannot have it: links other than veth pairs, dummies and VLANs; masters, XDP,
virtual functions, the operational state and the modes dormant and testing, an MTU of lo that is too short for IPv4; other network namespaces; links with an index over 4096; renaming, moving and deleting `eth0`; encapsulation, realms, routes of type broadcast, anycast,
multicast, nat and xresolve, routes in the table local, IPv6 routes by source; next hops with encapsulation, resilient groups and those of bridges; a deletion of the rule of the table local; rules by tunnel,
VRF, interface group, flow label and masks of ports; neighbours that are being probed, proxies, those of bridges and of lo, and their protocols.
"""

import ipaddress
import struct

# Message types, as groups of NEW, DEL, GET, SET.
LINK, ADDRESS, ROUTE, NEIGHBOUR, RULE, NEXTHOP = 16, 20, 24, 28, 32, 104
NEW, DELETE, GET, SET = range(4)
REQUEST, ACK, REPLACE, EXCL, CREATE, APPEND, ROOT, MATCH = 1, 4, 0x100, 0x200, 0x400, 0x800, 0x100, 0x200
DUMP = ROOT | MATCH
V4, V6, UNSPEC = 2, 10, 0
# Lengths of the family headers.
HEADERS = {LINK: 16, ADDRESS: 8, ROUTE: 12, NEIGHBOUR: 12, RULE: 12, NEXTHOP: 8}
# Numbers of names in netlink.h.
ETH0, LO, FIRST, SECOND, VETH0, VETH1, NONE0, EMPTY, LABEL = range(9)
WRONG_NAMES = range(7, 16)
KIND_VETH, KIND_BOGUS, VETH_LABEL = range(16, 19)
ADDRESSES = {
    V4: ["10.0.0.1", "10.0.0.2", "10.0.0.2", "10.0.0.99", "10.1.0.1", "10.1.0.2", "10.2.0.1", "10.77.0.1", "127.0.0.1", "0.0.0.0", "255.255.255.255",
         "224.0.0.1"],
    V6: ["2001:db8::1", "2001:db8::2", "2001:db8::2", "2001:db8::99", "2001:db8:1::1", "2001:db8:1::2", "2001:db8:2::1", "fe80::2", "fe80::3", "::",
         "::1", "ff02::1", "::ffff:10.0.0.1"],
}
NETWORKS = {
    V4: [("10.0.0.0", 24), ("10.1.0.0", 16), ("10.1.0.0", 24), ("10.2.0.0", 16), ("10.9.0.0", 16), ("10.9.1.0", 24), ("10.9.1.1", 32), ("0.0.0.0", 0)],
    V6: [("2001:db8::", 64), ("2001:db8:1::", 48), ("2001:db8:1::", 64), ("2001:db8:2::", 48), ("2001:db8:9::", 48), ("2001:db8:9:1::", 64),
         ("2001:db8:9::1", 128), ("::", 0)],
}
TABLES = [254, 254, 0, 100, 101, 253]


def words(value):
    """Bytes as the words of a line."""
    value += bytes(-len(value) % 4)
    return struct.unpack(f"<{len(value) // 4}I", value)


def packed(address):
    return ipaddress.ip_address(address).packed


class Message:
    """A request being drawn: its header and attributes, each a line."""

    def __init__(self, d, group, operation, flags, header):
        self.d, self.group, self.operation, self.flags, self.header = d, group, operation, flags, header
        self.length = HEADERS[group]
        self.attributes = []

    def put(self, kind, value):
        self.attributes.append(("nl_put", kind, len(value), *words(value)[:6]))

    def byte(self, kind, value):
        self.put(kind, struct.pack("B", value & 0xff))

    def word(self, kind, value):
        self.put(kind, struct.pack("<I", value & 0xffffffff))

    def name(self, kind, number):
        self.attributes.append(("nl_name", kind, number, self.d.often(1, 0)))

    def nest(self, kind, *inner):
        self.attributes.append((("nl_nest", kind), *inner, ("nl_close", self.d.r.random() < 0.01)))

    def spoil(self):
        """One mistake."""
        d, attributes = self.d, self.attributes
        at = d.r.randrange(len(attributes)) if attributes else None
        plain = at is not None and attributes[at][0] == "nl_put"
        match d.one("drop", "twice", "length", "length", "claim", "unknown", "header", "family", "flags", "nested", "trailing", "total", "more", "reserved"):
            case "drop" if at is not None:
                del attributes[at]
            case "twice" if at is not None:
                again = attributes[at]
                # Another table of a deleted rule may be the table local.
                if plain and (self.group, self.operation, again[1]) != (RULE, DELETE, 15) and d.r.random() < 0.5:
                    again = (*again[:3], *[word ^ d.one(0, 1, 0x100) for word in again[3:]])
                attributes.insert(d.r.randrange(len(attributes) + 1), again)
            case "length" if plain:
                _, kind, length, *rest = attributes[at]
                attributes[at] = ("nl_put", kind, max(0, d.one(length - 1, length + 1, length + 4, length - 4, 0, 1, 2, 4, 16, 300)), *rest)
            case "claim" if plain:
                _, kind, length, *rest = attributes[at]
                attributes[at] = ("nl_claim", kind, d.one(0, 3, 4, length + 3, length + 5, 200), length, *rest[:5])
            case "unknown":
                attributes.insert(d.r.randrange(len(attributes) + 1), ("nl_put", d.one(70, 100, 0, 0x3fff), d.one(0, 4, 8), 1))
            # Without the bytes of its index, a new link would have an index of many thousands, and a deletion could be that of eth0.
            case "header":
                least = 8 if (self.group, self.operation) in ((LINK, NEW), (LINK, DELETE)) else 0
                self.length = max(least, d.one(0, 1, 4, self.length - 1, self.length - 4, self.length + 1))
            # Links have no family; the rules of all families are those of multicast routing as well.
            case "family" if self.group != LINK:
                self.header = bytes([d.one(V4, V6, 1, 99, 0 if self.group != RULE else 1)]) + self.header[1:]
            case "flags":
                self.flags = d.one(0, REQUEST, self.flags & ~ACK, self.flags | d.one(REPLACE, EXCL, CREATE, APPEND))
            case "nested" if plain:
                name, kind, *rest = attributes[at]
                attributes[at] = (name, kind | d.one(0x8000, 0x4000), *rest)
            case "trailing":
                attributes.append(("nl_raw", d.one(1, 3, 4, 8), d.one(0, 1, 4, 0x10004)))
            case "total":
                attributes.append(("nl_total", d.one(-1, -4, 1, 4)))
            case "reserved" if self.length > 1:
                # The index of another link is another request.
                where = d.r.randrange(1, 4 if self.group == LINK else self.length)
                # Sources and types of routes, the table of rules, states of neighbours: other numbers are other requests.
                if (self.group, where) in ((ROUTE, 2), (ROUTE, 7), (ROUTE, 8), (ROUTE, 9), (RULE, 4), (NEIGHBOUR, 8), (NEIGHBOUR, 9), (NEIGHBOUR, 10)):
                    return
                if where < len(self.header):
                    before = self.header
                    self.header = self.header[:where] + bytes([self.header[where] ^ d.one(1, 2, 4, 0x80, 0xff)]) + self.header[where + 1:]
                    # So is a change of the table of the host's own addresses.
                    if self.group == ROUTE and self.header[4] == 255:
                        self.header = before
            case _:
                allowed = ALLOWED[self.group]
                # A group that is deleted may be that of eth0, and a rule that of the table local.
                kind = d.one(*(kind for kind in allowed if (self.group, self.operation, kind) not in ((LINK, DELETE, 27), (RULE, DELETE, 15))))
                length = d.one(4, 4, 1, 2, 8, 16)
                attributes.insert(d.r.randrange(len(attributes) + 1), ("nl_put", kind, length, d.one(0, 1, 2, 7, 254, 0xffffffff)))

    def say(self):
        d = self.d
        while d.r.random() < 0.3:
            self.spoil()
        total = 0
        header = self.header[:self.length] if self.length < len(self.header) else self.header
        d.say("nl_begin", self.group + self.operation, self.flags, self.length, *words(header))
        for attribute in self.attributes:
            for line in [attribute] if isinstance(attribute[0], str) else attribute:
                if line[0] == "nl_total":
                    total = line[1]
                else:
                    d.say(*line)
        d.say("nl_send", total)
        d.sent += 1


# Attributes that are added at random to a message of each group: known to both kernels.
ALLOWED = {
    LINK: [1, 2, 4, 13, 27, 30, 33, 35],
    ADDRESS: [1, 2, 4, 5, 6, 7, 8, 9, 11],
    ROUTE: [1, 4, 5, 6, 7, 8, 9, 10, 12, 13, 14, 15, 16, 18, 20, 25, 27, 28, 29, 30],
    NEIGHBOUR: [1, 2, 3, 4, 10],
    RULE: [1, 2, 4, 6, 10, 14, 15, 16, 20, 21, 22, 23, 24],
    NEXTHOP: [1, 2, 4, 5, 6, 9, 10],
}


def index(d):
    return d.often(d.one(2, 2, 2, 3, 1), 3, 4, 5, 77, 0, -1)


def family(d):
    return d.one(V4, V6)


def changes(d, *flags):
    """Flags of a request for a change."""
    return REQUEST | ACK | d.often(CREATE | EXCL, *flags, CREATE, 0, REPLACE, CREATE | REPLACE, CREATE | APPEND, APPEND, EXCL, CREATE | EXCL | REPLACE)


def mac(d):
    return d.often(bytes([2, 0, 0, 0, 0, d.one(1, 9, 10)]), bytes(6), b"\xff" * 6, bytes([1, 0, 0x5e, 0, 0, 1]))


def options(d):
    d.say("nl_options", d.often(0, 1), d.often(1, 0), d.often(0, 1))


def tables(d):
    d.say("nl_tables")


def send(group):
    """A dump or a query of a group."""
    def query(d):
        which = family(d)
        rest = bytes(HEADERS[group] - 1)
        if d.r.random() < 0.5:
            m = Message(d, group, GET, REQUEST | d.often(DUMP, DUMP | ACK, ROOT, MATCH), bytes([which if group == RULE else UNSPEC if group == LINK else d.often(which, UNSPEC)]) + rest)
            if d.r.random() < 0.5:
                filters = {LINK: [4, 29], ADDRESS: [1, 2], ROUTE: [4, 15, 12], NEIGHBOUR: [8, 9], RULE: [15], NEXTHOP: [1, 5, 9]}[group]
                m.word(d.one(*filters), d.one(0, 1, 2, 3, 100, 254))
        elif group == LINK:
            m = Message(d, group, GET, REQUEST | ACK, link_header(d, d.often(index(d), 0)))
            if d.r.random() < 0.5:
                m.name(3, d.r.randrange(16))
        elif group == ROUTE:
            m = Message(d, group, GET, REQUEST | d.often(0, ACK), bytes([which, 32 if which == V4 else 128]) + bytes(10))
            m.put(1, packed(d.one(*ADDRESSES[which][:8])))
        elif group == NEIGHBOUR:
            m = Message(d, group, GET, REQUEST | d.often(0, ACK), bytes([which, 0, 0, 0]) + struct.pack("<i", d.often(2, 3, 77, 0)) + bytes(4))
            m.put(1, packed(d.one(*ADDRESSES[which])))
        else:
            m = Message(d, group, GET, REQUEST | d.often(0, ACK), bytes([which if group == RULE else d.often(UNSPEC, which)]) + rest)
            m.word(1, d.one(1, 2, 3, 10, 0))
        m.say()

    return query


def link_header(d, number, flags=0, change=0):
    return struct.pack("<BBHiII", 0, 0, 0, number, flags, change)


def change_link(d):
    flags, change = d.one((1, 1), (1, 1), (0, 1), (0, 0), (0x80, 0x80), (0x100, 0x100), (0x200, 0x200), (0x1000, 0x1000), (0, 0x1000), (1, 0), (0x10000, 0x10000))
    m = Message(d, LINK, d.often(SET, NEW), REQUEST | ACK | d.often(0, CREATE, EXCL, REPLACE), link_header(d, index(d), flags, change))
    for kind in d.r.sample([1, 3, 4, 13, 20, 27, 17, 39], d.often(1, 0, 2)):
        match kind:
            case 1 | 2:
                m.put(kind, mac(d))
            case 3:
                # Renaming eth0 is not drawn: the name is its own or that of none.
                if m.header[4] in (3, 4, 5):
                    m.name(3, d.one(FIRST, SECOND, VETH0, *WRONG_NAMES))
                else:
                    m.header = link_header(d, 0, flags, change)
                    m.name(3, d.one(ETH0, ETH0, LO, FIRST, NONE0))
            case 4:
                m.word(4, d.one(1500, 1400, 1280, 1279, 68, 9000, 65535, 65536, -1))
            case 20:
                m.name(20, d.r.randrange(21))
            # Modes of links that change their state are not drawn: the kernel applies them up to a second late, or not at all.
            case 17:
                m.byte(kind, d.one(0, 5, 6, 9))
            case 39:
                m.byte(kind, d.one(0, 2, 5, 6, 9))
            case _:
                m.word(kind, d.one(0, 1, 100, 1000, -1))
    m.say()


def new_link(d):
    chosen = d.often(0, 0, 3, 7, 12, 4096, -1)
    m = Message(d, LINK, NEW, changes(d), link_header(d, chosen, *d.often((0, 0), (1, 1))))
    m.name(3, d.one(FIRST, SECOND, VETH0, VETH1, *WRONG_NAMES, ETH0)) if d.r.random() < 0.8 else None
    if d.r.random() < 0.5:
        m.put(1, mac(d))
    if d.r.random() < 0.3:
        m.word(4, d.one(1500, 1400, 68, 67, 9000, 65535, 65536))
    match d.one("veth", "veth", "veth", "veth", "bogus", "none"):
        case "veth":
            inner = [("nl_name", 3, d.one(VETH0, VETH1, *WRONG_NAMES), 1)] if d.r.random() < 0.8 else []
            inner += [("nl_put", 4, 4, d.one(1400, 67, 9000))] if d.r.random() < 0.3 else []
            m.nest(18, ("nl_name", 1, KIND_VETH, 1), ("nl_nest", 2), ("nl_nest", 1), ("nl_raw", 16 if chosen else d.often(16, 0), 0, d.often(0, 0, 4, 8, 3, 2, -1)), *inner, ("nl_close", 0), ("nl_close", 0))
        case "bogus":
            m.nest(18, ("nl_name", 1, KIND_BOGUS, 1))
    m.say()


def delete_link(d):
    m = Message(d, LINK, DELETE, REQUEST | ACK, link_header(d, d.one(3, 3, 4, 5, 1, 77, 0)))
    if d.r.random() < 0.4:
        m.header = link_header(d, 0)
        m.name(3, d.one(FIRST, SECOND, VETH0, LO, NONE0, *WRONG_NAMES))
    m.say()


def address(d):
    which = family(d)
    bits = 32 if which == V4 else 128
    length = d.often(24 if which == V4 else 64, bits, 16, 0, 33, 129, 31, 30)
    delete = d.r.random() < 0.35
    scope = d.often(0, 253, 254, 255, 7)
    flags = d.often(0, 0x80, 2, 0x20, 1)
    m = Message(d, ADDRESS, DELETE if delete else NEW, REQUEST | ACK if delete else changes(d),
                struct.pack("<BBBBi", which, length, flags, scope, index(d)))
    local = packed(d.one(*ADDRESSES[which]))
    match d.often("both", "local", "address", "peer"):
        case "both":
            m.put(2, local), m.put(1, local)
        case "local":
            m.put(2, local)
        case "address":
            m.put(1, local)
        case _:
            m.put(2, local), m.put(1, packed(d.one(*ADDRESSES[which])))
    for kind in d.r.sample([3, 4, 6, 8, 9, 11], d.often(0, 1, 2)):
        match kind:
            case 3:
                m.name(3, d.one(ETH0, LABEL, LABEL, VETH_LABEL, EMPTY, 15))
            case 4:
                m.put(4, packed(d.one("10.0.0.255", "10.1.0.255", "0.0.0.0", "255.255.255.255")))
            case 6:
                preferred, valid = d.one((1000, 2000), (-1, -1), (2000, 1000), (0, 1000), (0, 0), (1000, -1), (-1, 1000))
                m.put(6, struct.pack("<iiII", preferred, valid, 0, 0))
            case 8:
                m.word(8, d.one(0x80, 0x200, 2, 0, 0x20, 0x800))
            case 9:
                m.word(9, d.one(0, 5, 100))
            case _:
                m.byte(11, d.one(0, 1, 2, 3, 99))
    m.say()


def gateway_of(d, which):
    near = ADDRESSES[which][1:4] + (["fe80::2", "fe80::2"] if which == V6 else ["10.1.0.2"])
    return d.often(d.one(*near), *ADDRESSES[which])


def hop(d, which):
    lines = [("nl_hop", d.often(0, 4, 4, 1, 16), d.often(0, 1, 3, 255), d.often(d.one(0, 2), 3, 1, 77))]
    if d.r.random() < 0.85:
        lines.append(("nl_put", 5, len(packed(gateway_of(d, which))), *words(packed(gateway_of(d, which)))))
    return [*lines, ("nl_close", d.r.random() < 0.02)]


def via(d):
    which = family(d)
    return struct.pack("<H", d.often(which, 1)) + packed(gateway_of(d, which))


def route(d):
    which = family(d)
    network, length = d.one(*NETWORKS[which])
    length = d.often(length, 33, 129, 8, length + 1)
    delete = d.r.random() < 0.35
    kind = d.often(1, 6, 7, 8, 9, 0, 12, 200)
    scope = d.often(0, 253, 254, 255, 200)
    flags = d.often(0, 4, 4, 0, 1, 16, 8)
    table = d.one(*TABLES)
    tos = d.often(0, 0x10, 8, 1, 0xff) if d.r.random() < 0.3 else 0
    m = Message(d, ROUTE, DELETE if delete else NEW, REQUEST | ACK if delete else changes(d),
                struct.pack("<BBBBBBBBI", which, length, 0, tos, table, d.often(3, 4, 0, 2), scope, kind, flags))
    if length or d.r.random() < 0.1:
        m.put(1, packed(network))
    match d.one("gateway", "gateway", "device", "both", "both", "several", "object", "nothing", "via"):
        case "gateway":
            m.put(5, packed(gateway_of(d, which)))
        case "device":
            m.word(4, index(d))
        case "both":
            m.put(5, packed(gateway_of(d, which)))
            m.word(4, index(d))
        case "several":
            m.nest(9, *[line for _ in range(d.one(1, 2, 2, 3, 0)) for line in hop(d, which)])
        case "object":
            m.word(30, d.one(1, 2, 3, 10, 11, 0))
        case "via":
            m.put(18, via(d))
    for other in d.r.sample([6, 7, 8, 15, 20, 12, 16], d.often(0, 1, 2)):
        match other:
            case 6:
                m.word(6, d.one(0, 5, 100, 1024))
            case 7:
                m.put(7, packed(d.one(*ADDRESSES[which])))
            case 8:
                inner = [("nl_put", d.one(2, 8, 1), d.often(4, 2, 8), d.one(1400, 4, 0, 99999)) for _ in range(d.often(1, 2, 0))]
                m.nest(8, *inner, *([("nl_put", d.one(18, 0, 40), 4, 1)] if d.r.random() < 0.1 else []))
            case 15:
                m.word(15, d.one(254, 100, 101, 300, 0))
            case 20:
                m.byte(20, d.one(0, 1, 3, 2, 9))
            case _:
                m.word(other, d.one(0, 1, 7))
    m.say()


def nexthop(d):
    which = family(d)
    delete = d.r.random() < 0.25
    kind = d.one("device", "device", "gateway", "gateway", "gateway", "blackhole", "group", "group")
    m = Message(d, NEXTHOP, DELETE if delete else NEW, REQUEST | ACK if delete else changes(d),
                struct.pack("<BBBBI", UNSPEC if delete or kind == "group" else which, 0, 0 if delete else d.often(0, 3, 4), 0, 0 if delete or kind == "blackhole" else d.often(0, 4, 1, 16)))
    if d.r.random() < 0.9:
        m.word(1, d.one(1, 2, 3, 4, 10, 11, 0))
    if not delete:
        match kind:
            case "device":
                m.word(5, index(d))
            case "gateway":
                m.word(5, index(d))
                m.put(6, packed(gateway_of(d, which)))
            case "blackhole":
                m.put(4, b"")
            case _:
                members = [struct.pack("<IBBH", d.one(1, 2, 3, 4, 10, 77), d.often(0, 1, 254, 255), d.often(0, 0, 1), d.often(0, 0, 0, 1)) for _ in range(d.often(2, 1, 3, 0))]
                m.put(2, b"".join(members))
                if d.r.random() < 0.2:
                    m.put(3, struct.pack("<H", d.often(0, 7)))
    m.say()


def rule(d):
    which = family(d)
    delete = d.r.random() < 0.35
    network, length = d.one(*NETWORKS[which])
    action = d.often(1, 2, 3, 6, 7, 8, 0, 4, 9)
    to, source = d.often((0, 0), (length, 0), (0, length), (length, length), (33, 0), (0, 129))
    m = Message(d, RULE, DELETE if delete else NEW, REQUEST | ACK if delete else changes(d),
                struct.pack("<BBBBBBBBI", which, to, source, d.often(0, 0x10, 1, 3) if d.r.random() < 0.3 else 0, d.one(100, 101, 254, 100 if delete else 0, 253), 0, 0, action, d.often(0, 2, 1, 4)))
    if to or d.r.random() < 0.05:
        m.put(1, packed(network))
    if source or d.r.random() < 0.05:
        m.put(2, packed(network))
    if action == 2 and d.r.random() < 0.9:
        m.word(4, d.one(100, 1000, 2000, 0, 32766))
    for kind in d.r.sample([3, 17, 6, 6, 6, 10, 16, 14, 15, 20, 21, 22, 23, 24], d.often(1, 0, 2, 3)):
        match kind:
            case 3 | 17:
                m.name(kind, d.one(ETH0, LO, NONE0, FIRST, 15))
            case 6:
                m.word(6, d.one(10, 100, 1000, 1000, 2000, 0, 32766))
            case 10 | 16:
                m.word(kind, d.one(0, 1, 7, 0xff, -1))
            case 14:
                m.word(14, d.one(0, 24, -1, 200))
            case 15:
                m.word(15, d.one(100, 101, 300, 254, 100 if delete else 0))
            case 20:
                m.put(20, struct.pack("<ii", *d.one((0, 0), (5, 9), (9, 5), (0, -1), (-1, -1))))
            case 21:
                m.byte(21, d.one(0, 2, 3, 4))
            case 22:
                m.byte(22, d.one(0, 6, 17, 255))
            case _:
                m.put(kind, struct.pack("<HH", *d.one((0, 0), (80, 80), (53, 60), (60, 53), (1, 65535), (0, 5))))
    m.say()


def neighbour(d):
    which = family(d)
    delete = d.r.random() < 0.3
    state = d.often(0x80, 0x02, 0x04, 0x40, 0x20, 0x01, 0)
    m = Message(d, NEIGHBOUR, DELETE if delete else NEW, REQUEST | ACK if delete else changes(d),
                struct.pack("<BBHiHBB", which, 0, 0, d.often(2, 3, 4, 77, 0, -1), state, d.often(0, 0, 1) if d.r.random() < 0.2 else 0, d.often(0, 1)))
    m.put(1, packed(d.one(*ADDRESSES[which])))
    if d.r.random() < 0.75:
        m.put(2, mac(d))
    m.say()


THEMES = [
    ([new_link], [change_link] * 5 + [new_link] * 5 + [delete_link] * 3 + [address] * 2 + [send(LINK)] * 3 + [options]),
    ([address], [address] * 12 + [change_link] * 2 + [send(ADDRESS)] * 2 + [new_link, options]),
    ([route, nexthop], [route] * 14 + [address] * 2 + [send(ROUTE)] * 3 + [nexthop, change_link, options]),
    ([nexthop] * 3, [nexthop] * 10 + [route] * 4 + [send(NEXTHOP)] * 2 + [change_link, address, options]),
    ([rule], [rule] * 14 + [send(RULE)] * 2 + [route, send(ROUTE), options]),
    ([neighbour], [neighbour] * 12 + [send(NEIGHBOUR)] * 3 + [change_link, address, options]),
    ([address, route, rule], [new_link, change_link, delete_link, address, route, nexthop, rule, neighbour, options]
     + [send(group) for group in HEADERS]),
]


def draw(d, length):
    """The lines of a sequence of so many requests; every tenth is followed by the tables."""
    creators, actions = d.r.choice(THEMES)
    d.sent = shown = 0
    d.say("nl_host", d.one(0, 1, 1))
    d.say("nl_options", d.one(0, 1), d.often(1, 0), d.one(0, 1))
    for creator in creators:
        creator(d)
    while d.sent < length:
        d.r.choice(actions)(d)
        if d.sent >= shown + 10:
            tables(d)
            shown = d.sent
    tables(d)
