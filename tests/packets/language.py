"""The language of packet scripts: a subset of packetdrill's, read into a list of events."""

import ast
import dataclasses
import errno
import fcntl
import re
import select
import socket
import termios

DEFAULT = object()  # `...`: whatever the runner uses, or anything at all


class ScriptError(Exception):
    """The script cannot be read."""


@dataclasses.dataclass
class Event:
    line: int
    text: str
    start: int  # nanoseconds
    relative: bool  # ... since the event before this happened, or else since the script began
    end: int | None  # of a range, or of a call that waits: since the same
    waits: bool  # a call that blocks until `end`
    any_time: bool
    action: object


@dataclasses.dataclass
class Segment:
    """A TCP segment; what is None is not looked at."""
    inbound: bool
    flags: str
    seq: int
    length: int
    ack: int | None
    window: int | None
    urgent: int | None
    options: list | None
    ecn: int | None
    ip: dict = dataclasses.field(default_factory=dict)  # tos, ttl, flow, and extension headers
    udp: bool = False


@dataclasses.dataclass
class Icmp:
    """An ICMP error that quotes a segment of the connection, or a datagram."""
    type: int
    code: int
    mtu: int
    seq: int
    v6: bool = False
    udp: bool = False
    length: int = 0  # of the datagram
    inbound: bool = True


@dataclasses.dataclass
class Fragment:
    """A piece of a datagram: from where in what follows the IP header, how long, and whether there are more."""
    offset: int
    length: int
    more: bool
    whole: int | None = None  # if it arrives: the length of the datagram behind its IP header


@dataclasses.dataclass
class Call:
    name: str
    args: list
    result: object
    error: str | None


@dataclasses.dataclass
class Setting:
    """A file below /proc/sys and what is written to it."""
    path: str
    value: str


@dataclasses.dataclass
class Assertions:
    code: str


def constants():
    found = {name: int(value) for module in (socket, errno, fcntl, select) for name, value in vars(module).items()
             if isinstance(value, int) and name.isupper()}
    found |= {"SOL_TCP": 6, "FIONREAD": termios.FIONREAD, "SIOCINQ": 0x541B, "SIOCOUTQ": 0x5411, "SIOCOUTQNSD": 0x894b, "SIOCATMARK": 0x8905,
              "O_RDWR": 2, "O_NONBLOCK": 0o4000, "MSG_MORE": 0x8000, "MSG_NOSIGNAL": 0x4000, "SHUT_RD": 0, "SHUT_WR": 1,
              "SHUT_RDWR": 2, "TCP_USER_TIMEOUT": 18, "POLLRDHUP": 0x2000, "SO_RCVLOWAT": 18, "MSG_PEEK": 2, "NULL": 0,
              "TCP_NOTSENT_LOWAT": 25, "IPV6_RECVERR": 25, "IPV6_MTU": 24, "IPV6_MTU_DISCOVER": 23, "IPV6_AUTOFLOWLABEL": 70, "IPV6_DONTFRAG": 62, "IPV6_PMTUDISC_DO": 2, "TCP_INQ": 36, "MSG_FASTOPEN": 0x20000000, "TCP_FASTOPEN": 23,
              "TCP_FASTOPEN_CONNECT": 30, "TCP_FASTOPEN_KEY": 33, "TCP_FASTOPEN_NO_COOKIE": 34, "SOL_IP": 0, "IP_MTU": 14, "IP_MTU_DISCOVER": 10,
              "IP_RECVERR": 11, "MSG_ERRQUEUE": 0x2000}
    return found


CONSTANTS = constants()
TIME = re.compile(r"(\+)?(\d*\.?\d+)?(?:(~|\.\.\.)(\+)?(\d*\.?\d+))?\s+|\*\s+")
SEGMENT = re.compile(
    r"([<>])\s*(?:\[([^\]:]+)\]\s*)?([SFRPWEU.]+)\s+(\d+):(\d+)\((\d+)\)(?:\s+ack\s+(\d+))?(?:\s+win\s+(\d+))?"
    r"(?:\s+urg\s+(\d+))?\s*(?:<(.*)>)?\s*$")
ICMP = re.compile(
    r"([<>])\s*icmp\s+(unreachable|time_exceeded)\s+(\w+)(?:\s+mtu\s+(\d+))?\s*\[(?:(\d+):(\d+)\((\d+)\)|udp\s*\((\d+)\))\]\s*$")
FRAGMENT = re.compile(r"([<>])\s*fragment\s+(\d+)\((\d+)\)(\s+more)?(?:\s+of\s+(\d+))?\s*$")
TIME_EXCEEDED = {"ttl": 0, "reassembly": 1}
ICMPV6 = re.compile(r"<\s*icmpv6\s+(\w+)(?:\s+(\w+))?(?:\s+mtu\s+(\d+))?\s*\[(?:(\d+):(\d+)\((\d+)\)|udp\s*\((\d+)\))\]\s*$")
DATAGRAM = re.compile(r"([<>])\s*(?:\[([^\]:]+)\]\s*)?udp\s*\((\d+)\)(?:\s+(df|nodf))?\s*$")
V6_TYPES = {"unreachable": 1, "packet_too_big": 2, "time_exceeded": 3, "parameter_problem": 4}
V6_CODES = {None: 0, "no_route": 0, "administratively_prohibited": 1, "beyond_scope": 2, "address_unreachable": 3, "port_unreachable": 4,
            "failed_policy": 5, "reject_route": 6, "hop_limit": 0, "reassembly": 1, "header": 0, "next_header": 1, "option": 2}
UNREACHABLE = {"net_unreachable": 0, "host_unreachable": 1, "protocol_unreachable": 2, "port_unreachable": 3,
               "frag_needed": 4, "admin_prohibited": 13}
ECN = {"noecn": 0, "ect1": 1, "ect0": 2, "ce": 3}


def is_v6(text):
    """Whether a script is about IPv6, as its first line but for comments says."""
    return re.search(r"^--ip_version=ipv6$", text, re.M) is not None


def parse(text):
    """The events of a script."""
    text = re.sub(r"^--ip_version=ipv6$", "", text, flags=re.M)
    text = re.sub(r"/\*.*?\*/", lambda m: "\n" * m.group().count("\n"), text, flags=re.S)
    pieces = []
    for number, line in enumerate(text.split("\n"), 1):
        line = re.sub(r"(^|\s)//.*$|^\s*#.*$", "", line).rstrip()
        if not line.strip():
            continue
        begins = TIME.match(line.lstrip()) and not line[0].isspace()
        if begins:
            pieces.append([number, line.strip()])
        elif pieces:
            pieces[-1][1] += "\n" + line
        else:
            raise ScriptError(f"line {number}: no time")
    events = []
    for number, piece in pieces:
        try:
            event = parse_event(number, piece)
        except (ValueError, KeyError, SyntaxError) as error:
            raise ScriptError(f"line {number}: {piece}: {error!r}") from error
        events.append(event)
    return events


def nanoseconds(text):
    return round(float(text) * 1e9)


def parse_event(number, piece):
    match = TIME.match(piece)
    plus, first, how, plus_end, second = match.groups()
    any_time = match.group().startswith("*")
    start = 0 if first is None else nanoseconds(first)
    end = None if second is None else nanoseconds(second) + (start if plus_end and how == "..." else 0)
    if second is not None and bool(plus) != bool(plus_end) and how == "~":
        raise ValueError("both ends of a range are relative or neither is")
    return Event(number, piece, start, bool(plus) or any_time, end, how == "...", any_time,
                 parse_action(piece[match.end():].strip()))


def parse_action(text):
    if text.startswith("%{"):
        return Assertions(text[2:text.index("}%")])
    if match := re.fullmatch(r"`sysctl -q ([\w.]+)=\"?([^`\"]*)\"?`", text):
        return Setting("/proc/sys/" + match.group(1).replace(".", "/"), match.group(2))
    if text[0] in "<>":
        if match := ICMP.match(text):
            direction, kind, code, mtu, seq, _, _, length = match.groups()
            numbers = (3, UNREACHABLE[code]) if kind == "unreachable" else (11, TIME_EXCEEDED[code])
            return Icmp(*numbers, int(mtu or 0), int(seq or 0), False, length is not None, int(length or 0), direction == "<")
        if match := FRAGMENT.match(text):
            direction, offset, length, more, whole = match.groups()
            if (direction == "<") != (whole is not None):
                raise ValueError("an arriving fragment, and no other, says of how long a datagram it is")
            return Fragment(int(offset), int(length), bool(more), whole and int(whole))
        if match := ICMPV6.match(text):
            kind, code, mtu, seq, _, _, udp = match.groups()
            return Icmp(V6_TYPES[kind], V6_CODES[code], int(mtu or 0), int(seq or 0), True, udp is not None)
        if match := DATAGRAM.match(text):
            direction, ip, length, whole = match.groups()
            datagram = Segment(direction == "<", "", 0, int(length), None, None, None, None, udp=True, **parse_ip(ip))
            datagram.ip |= {} if whole is None else {"whole": whole == "df"}
            return datagram
        match = SEGMENT.match(text)
        if not match:
            raise ValueError("not a segment")
        direction, ip, flags, seq, end, length, ack, window, urgent, options = match.groups()
        if int(seq) + int(length) != int(end):
            raise ValueError("the sequence numbers and the length differ")
        number = lambda value: None if value is None else int(value)
        return Segment(direction == "<", flags, int(seq), int(length), number(ack), number(window), number(urgent),
                       parse_options(options), **parse_ip(ip))
    return parse_call(text)


def parse_ip(text):
    """What a script says of the packet's IP header: `[ect0]`, `[tos 0x20, ttl 9]`, `[flow 5]`, `[hbh dst]`."""
    found, ecn = {}, None
    for part in (text or "").split(","):
        match part.split():
            case []:
                pass
            case [name] if name in ECN:
                ecn = ECN[name]
            case [("tos" | "ttl" | "flow" | "id") as name, number]:
                found[name] = int(number, 0)
            case names:
                found["extensions"] = names
    return {"ecn": ecn, "ip": found}


def parse_options(text):
    if text is None:
        return []
    if text.strip() == "...":
        return None
    options = []
    for part in text.split(","):
        words = part.split()
        match words:
            case ["mss", value]:
                options.append(("mss", int(value)))
            case ["wscale", value]:
                options.append(("wscale", int(value)))
            case ["sackOK"] | ["nop"] | ["eol"]:
                options.append((words[0],))
            case ["TS", "val", value, "ecr", echo]:
                options.append(("TS", int(value), int(echo)))
            case ["FO" | "FOEXP", *cookie] if len(cookie) < 2:
                options.append((words[0], "".join(cookie)))
            case ["sack", *blocks]:
                options.append(("sack", *(tuple(int(n) for n in block.split(":")) for block in blocks)))
            case _ if re.fullmatch(r"\d+:\d+", part.strip()) and options and options[-1][0] == "sack":
                options[-1] += (tuple(int(n) for n in part.split(":")),)
            case _:
                raise ValueError(f"option {part.strip()}")
    return options


def parse_call(text):
    match = re.fullmatch(r"(\w+)\((.*)\)\s*=\s*(-?\w+|\.\.\.)(?:\s+(E[A-Z0-9]+)(?:\s*\(.*\))?)?", text, re.S)
    if not match:
        raise ValueError("not a call")
    name, args, result, error = match.groups()
    # C's syntax is close enough to Python's: `[{fd=3, events=POLLIN}]` needs calls instead of braces.
    args = re.sub(r"\{", "dict(", args).replace("}", ")")
    tree = ast.parse(f"f({args})", mode="eval").body
    return Call(name, [value(arg) for arg in tree.args], value(ast.parse(result, mode="eval").body), error)


def value(node):
    match node:
        case ast.Constant(value=found):
            return DEFAULT if found is ... else found
        case ast.Name(id=name):
            return CONSTANTS[name]
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return value(left) | value(right)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -value(operand)
        case ast.List(elts=elements):
            return [value(element) for element in elements]
        case ast.Call(func=ast.Name(id="dict"), keywords=keywords):
            return {keyword.arg: value(keyword.value) for keyword in keywords}
    raise ValueError(ast.unparse(node))
