"""IP packets of both versions with TCP, UDP and ICMP: made for scripts, and read to be compared with them."""

import dataclasses
import socket
import struct

FLAGS = {"F": 1, "S": 2, "R": 4, "P": 8, ".": 16, "U": 32, "E": 64, "W": 128}


@dataclasses.dataclass
class Seen:
    src: str
    dst: str
    sport: int
    dport: int
    seq: int
    ack: int
    flags: str
    window: int
    urgent: int
    options: list
    length: int
    ecn: int
    tos: int = 0
    ttl: int = 0
    flow: int = 0
    udp: bool = False
    whole: bool = False  # must not be cut on its way
    id: int = 0  # identification, of IPv4


def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def ipv4(src, dst, protocol, payload, tos=0, ttl=255):
    header = struct.pack("!BBHHHBBH4s4s", 0x45, tos, 20 + len(payload), 0, 0x4000, ttl, protocol, 0,
                         socket.inet_aton(src), socket.inet_aton(dst))
    return header[:10] + struct.pack("!H", checksum(header)) + header[12:] + payload


def fragment(packet, offset, length, more):
    """A piece of what an IPv4 or IPv6 packet without options holds, which may go beyond its end."""
    v4 = packet[0] >> 4 == 4
    body = packet[20 if v4 else 40:][offset:offset + length].ljust(length, b"\0")
    place = offset | more if not v4 else offset >> 3 | more << 13
    if v4:
        header = packet[:2] + struct.pack("!HHH", 20 + length, 7, place) + packet[8:10] + bytes(2) + packet[12:20]
        return header[:10] + struct.pack("!H", checksum(header)) + header[12:] + body
    header = bytes((packet[6], 0)) + struct.pack("!HI", place, 7)
    return packet[:4] + struct.pack("!HB", 8 + length, EXTENSIONS["frag"]) + packet[7:40] + header + body


EXTENSIONS = {"hbh": 0, "routing": 43, "frag": 44, "dst": 60}
PADDING = bytes((1, 4, 0, 0, 0, 0))  # PadN: an option that means nothing


def ip(src, dst, protocol, payload, tos=0, ttl=255, flow=0, extensions=()):
    """A packet of the addresses' version; IPv6 may have extension headers before the payload."""
    if ":" not in src:
        return ipv4(src, dst, protocol, payload, tos, ttl)
    body, next_header = payload, protocol
    for name in reversed(extensions):
        # An atomic fragment is a whole packet (RFC 6946); the others hold padding only.
        rest = {"frag": bytes((0, 0, 0)) + b"abcd", "routing": bytes((0, 0, 0)) + bytes(4)}.get(name, bytes(1) + PADDING)
        body, next_header = bytes((next_header,)) + rest + body, EXTENSIONS[name]
    return struct.pack("!IHBB", 6 << 28 | tos << 20 | flow, len(body), next_header, ttl) + address(src) + address(dst) + body


def address(text):
    return socket.inet_pton(socket.AF_INET6 if ":" in text else socket.AF_INET, text)


def pseudo(src, dst, protocol, length):
    ends = address(src) + address(dst)
    return ends + (struct.pack("!II", length, protocol) if len(ends) == 32 else struct.pack("!BBH", 0, protocol, length))


def udp(src, dst, sport, dport, payload, **how):
    header = struct.pack("!HHHH", sport, dport, 8 + len(payload), 0)
    total = checksum(pseudo(src, dst, 17, len(header) + len(payload)) + header + payload) or 0xFFFF
    return ip(src, dst, 17, header[:6] + struct.pack("!H", total) + payload, **how)


def tcp_header(sport, dport, seq, ack, flags, window, urgent, options):
    bits = sum(FLAGS[flag] for flag in flags)
    return struct.pack("!HHIIBBHHH", sport, dport, seq & 0xFFFFFFFF, ack & 0xFFFFFFFF, (20 + len(options)) // 4 << 4,
                       bits, window, 0, urgent) + options


def tcp(src, dst, header, payload, **how):
    total = checksum(pseudo(src, dst, 6, len(header) + len(payload)) + header + payload)
    return ip(src, dst, 6, header[:16] + struct.pack("!H", total) + header[18:] + payload, **how)


def icmp(src, dst, type_, code, mtu, quoted):
    body = struct.pack("!BBHHH", type_, code, 0, 0, mtu) + quoted
    return ipv4(src, dst, 1, body[:2] + struct.pack("!H", checksum(body)) + body[4:])


def icmpv6(src, dst, type_, code, number, quoted):
    body = struct.pack("!BBHI", type_, code, 0, number) + quoted
    return ip(src, dst, 58, body[:2] + struct.pack("!H", checksum(pseudo(src, dst, 58, len(body)) + body)) + body[4:])


def pack_options(options):
    out = b""
    for option in options:
        match option:
            case ("mss", value):
                out += struct.pack("!BBH", 2, 4, value)
            case ("wscale", value):
                out += bytes((3, 3, value))
            case ("sackOK",):
                out += bytes((4, 2))
            case ("nop",):
                out += b"\1"
            case ("eol",):
                out += b"\0"
            case ("TS", value, echo):
                out += struct.pack("!BBII", 8, 10, value & 0xFFFFFFFF, echo & 0xFFFFFFFF)
            case ("FO", cookie):
                out += bytes((34, 2 + len(cookie) // 2)) + bytes.fromhex(cookie)
            case ("FOEXP", cookie):
                out += bytes((254, 4 + len(cookie) // 2, 0xF9, 0x89)) + bytes.fromhex(cookie)
            case ("sack", *blocks):
                out += bytes((5, 2 + 8 * len(blocks)))
                out += b"".join(struct.pack("!II", left & 0xFFFFFFFF, right & 0xFFFFFFFF) for left, right in blocks)
    if len(out) % 4:
        raise ValueError("the options are not a multiple of four bytes: add nop or eol")
    return out


def unpack_options(data):
    options = []
    while data:
        kind = data[0]
        if kind in (0, 1):
            options.append(("eol",) if kind == 0 else ("nop",))
            data = data[1:]
            continue
        length, body = data[1], data[2:data[1]]
        match kind:
            case 2:
                options.append(("mss", *struct.unpack("!H", body)))
            case 3:
                options.append(("wscale", body[0]))
            case 4:
                options.append(("sackOK",))
            case 5:
                numbers = struct.unpack(f"!{len(body) // 4}I", body)
                options.append(("sack", *zip(numbers[::2], numbers[1::2])))
            case 8:
                options.append(("TS", *struct.unpack("!II", body)))
            case 34:
                options.append(("FO", body.hex()))
            case 254 if body[:2] == b"\xf9\x89":
                options.append(("FOEXP", body[2:].hex()))
            case _:
                options.append((f"kind {kind}", body))
        data = data[length:]
    return options


def read(packet):
    """The TCP segment or UDP datagram in a packet; None if it is something else."""
    if packet[0] >> 4 == 4 and struct.unpack_from("!H", packet, 6)[0] & 0x3FFF:
        return None  # a fragment
    if packet[0] >> 4 == 4:
        start, protocol, end = packet[0] % 16 * 4, packet[9], struct.unpack_from("!H", packet, 2)[0]
        tos, ttl, flow, ends = packet[1], packet[8], 0, (packet[12:16], packet[16:20])
        ident = struct.unpack_from("!H", packet, 4)[0]
    else:
        first, length, protocol, ttl = struct.unpack_from("!IHBB", packet)
        ident, start, end, tos, flow, ends = 0, 40, 40 + length, first >> 20 & 0xFF, first & 0xFFFFF, (packet[8:24], packet[24:40])
    if protocol not in (6, 17):
        return None
    src, dst = (socket.inet_ntop(socket.AF_INET if len(end) == 4 else socket.AF_INET6, end) for end in ends)
    segment = packet[start:end]
    if checksum(pseudo(src, dst, protocol, len(segment)) + segment) != 0:
        raise ValueError(f"a wrong checksum in {packet.hex()}")
    if protocol == 17:
        sport, dport = struct.unpack_from("!HH", segment)
        whole = packet[0] >> 4 == 4 and packet[6] & 0x40 != 0
        return Seen(src, dst, sport, dport, 0, 0, "", 0, 0, [], len(segment) - 8, tos & 3, tos, ttl, flow, True, whole, ident)
    sport, dport, seq, ack, offset, bits, window, _, urgent = struct.unpack_from("!HHIIBBHHH", segment)
    offset = offset >> 4 << 2
    flags = "".join(flag for flag, bit in FLAGS.items() if bits & bit)
    return Seen(src, dst, sport, dport, seq, ack, flags, window, urgent, unpack_options(segment[20:offset]),
                len(segment) - offset, tos & 3, tos, ttl, flow, id=ident)


def read_other(packet):
    """A fragment or an ICMP error in an IPv4 packet, in the scripts' words; None if it is something else."""
    if packet[0] >> 4 != 4:
        return None
    total, _, bits = struct.unpack_from("!HHH", packet, 2)
    body = packet[packet[0] % 16 * 4:total]
    if bits & 0x3FFF:
        return f"fragment {(bits & 0x1FFF) * 8}({len(body)})" + (" more" if bits & 0x2000 else "")
    if packet[9] != 1:
        return None
    if checksum(body) != 0:
        raise ValueError(f"a wrong ICMP checksum in {packet.hex()}")
    return f"icmp {body[0]} {body[1]} about protocol {body[17]} ({struct.unpack_from('!H', body, 10)[0] - 28})"


def show(seen, seq, ack, options):
    """A segment in the scripts' words."""
    if seen.udp:
        return f"udp ({seen.length})" + (" df" if seen.whole else "")
    flags = "".join(flag for flag in "SFRPUEW." if flag in seen.flags)
    words = [flags, f"{seq}:{seq + seen.length}({seen.length})"]
    if "." in flags:
        words.append(f"ack {ack}")
    words.append(f"win {seen.window}")
    if seen.urgent:
        words.append(f"urg {seen.urgent}")
    names = []
    for option in options:
        match option:
            case ("TS", value, echo):
                names.append(f"TS val {value} ecr {echo}")
            case ("sack", *blocks):
                names.append("sack " + " ".join(f"{left}:{right}" for left, right in blocks))
            case _:
                names.append(" ".join(str(word) for word in option if word != ""))
    if names:
        words.append(f"<{','.join(names)}>")
    return " ".join(words)
