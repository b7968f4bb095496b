"""IPv4 packets with TCP and ICMP: made for scripts, and read to be compared with them."""

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


def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def ipv4(src, dst, protocol, payload, tos=0):
    header = struct.pack("!BBHHHBBH4s4s", 0x45, tos, 20 + len(payload), 0, 0x4000, 255, protocol, 0,
                         socket.inet_aton(src), socket.inet_aton(dst))
    return header[:10] + struct.pack("!H", checksum(header)) + header[12:] + payload


def tcp_header(sport, dport, seq, ack, flags, window, urgent, options):
    bits = sum(FLAGS[flag] for flag in flags)
    return struct.pack("!HHIIBBHHH", sport, dport, seq & 0xFFFFFFFF, ack & 0xFFFFFFFF, (20 + len(options)) // 4 << 4,
                       bits, window, 0, urgent) + options


def tcp(src, dst, header, payload, tos=0):
    pseudo = socket.inet_aton(src) + socket.inet_aton(dst) + struct.pack("!BBH", 0, 6, len(header) + len(payload))
    total = checksum(pseudo + header + payload)
    return ipv4(src, dst, 6, header[:16] + struct.pack("!H", total) + header[18:] + payload, tos)


def icmp(src, dst, type_, code, mtu, quoted):
    body = struct.pack("!BBHHH", type_, code, 0, 0, mtu) + quoted
    return ipv4(src, dst, 1, body[:2] + struct.pack("!H", checksum(body)) + body[4:])


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
            case _:
                options.append((f"kind {kind}", body))
        data = data[length:]
    return options


def read(packet):
    """The TCP segment in an IPv4 packet; None if it is something else."""
    if packet[0] >> 4 != 4 or packet[9] != 6:
        return None
    header = packet[0] % 16 * 4
    total = struct.unpack_from("!H", packet, 2)[0]
    segment = packet[header:total]
    sport, dport, seq, ack, offset, bits, window, _, urgent = struct.unpack_from("!HHIIBBHHH", segment)
    offset = offset >> 4 << 2
    flags = "".join(flag for flag, bit in FLAGS.items() if bits & bit)
    src, dst = socket.inet_ntoa(packet[12:16]), socket.inet_ntoa(packet[16:20])
    pseudo = packet[12:20] + struct.pack("!BBH", 0, 6, len(segment))
    if checksum(pseudo + segment) != 0:
        raise ValueError(f"a wrong TCP checksum in {packet.hex()}")
    return Seen(src, dst, sport, dport, seq, ack, flags, window, urgent, unpack_options(segment[20:offset]),
                len(segment) - offset, packet[1] & 3)


def show(seen, seq, ack, options):
    """A segment in the scripts' words."""
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
                names.append(" ".join(map(str, option)))
    if names:
        words.append(f"<{','.join(names)}>")
    return " ".join(words)
