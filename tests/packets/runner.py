"""Runs packet scripts: makes the calls, sends the packets and compares what comes back with what is written."""

import ctypes
import dataclasses
import errno
import json
import os
import socket
import struct
import sys
import traceback

import wire
from backends import LOCAL, LOCAL6, REMOTE, REMOTE6, In, Linux, Out
from language import DEFAULT, Assertions, Call, Fragment, Icmp, Segment, Setting, is_v6, parse

BIND_PORT, REMOTE_PORT = 8080, 40000
MSG_FASTOPEN = 0x20000000
TOLERANCE = 10_000_000  # nanoseconds: Linux' timers count jiffies of up to 10 ms
LATE = 8_000_000  # nanoseconds of delay by which a machine is too busy for its kernel to be judged
CLONE_NEWNET = 0x40000000  # of sched.h
INCONCLUSIVE = 75  # the exit status that says so, EX_TEMPFAIL of sysexits(3)
TCP_INFO = struct.Struct("=8B24I4Q2I4I2Q4Q2I2Q6I")
TCP_INFO_NAMES = (
    "state ca_state retransmits probes backoff options wscale flags rto ato snd_mss rcv_mss unacked sacked lost retrans "
    "fackets last_data_sent last_ack_sent last_data_recv last_ack_recv pmtu rcv_ssthresh rtt rttvar snd_ssthresh snd_cwnd "
    "advmss reordering rcv_rtt rcv_space total_retrans pacing_rate max_pacing_rate bytes_acked bytes_received segs_out "
    "segs_in notsent_bytes min_rtt data_segs_in data_segs_out delivery_rate busy_time rwnd_limited sndbuf_limited delivered "
    "delivered_ce bytes_sent bytes_retrans dsack_dups reord_seen rcv_ooopack snd_wnd rcv_wnd rehash").split()
FLAG_NAMES = {"TCP_ESTABLISHED": 1, "TCP_SYN_SENT": 2, "TCP_SYN_RECV": 3, "TCP_FIN_WAIT1": 4, "TCP_FIN_WAIT2": 5,
              "TCP_TIME_WAIT": 6, "TCP_CLOSE": 7, "TCP_CLOSE_WAIT": 8, "TCP_LAST_ACK": 9, "TCP_LISTEN": 10,
              "TCP_CLOSING": 11, "TCP_CA_Open": 0, "TCP_CA_Disorder": 1, "TCP_CA_CWR": 2, "TCP_CA_Recovery": 3,
              "TCP_CA_Loss": 4, "TCPI_OPT_TIMESTAMPS": 1, "TCPI_OPT_SACK": 2, "TCPI_OPT_WSCALE": 4, "TCPI_OPT_ECN": 8,
              "TCPI_OPT_SYN_DATA": 32, "TCPI_OPT_TFO_CHILD": 128}


class Mismatch(Exception):
    """What happened is not what the script says."""


def sockaddr(address, port):
    if ":" in address:
        return struct.pack("=H", socket.AF_INET6) + struct.pack("!HI", port, 0) + socket.inet_pton(socket.AF_INET6, address) + bytes(4)
    return struct.pack("=H", socket.AF_INET) + struct.pack("!H", port) + socket.inet_aton(address) + bytes(8)


class Run:
    def __init__(self, backend, tolerance=TOLERANCE):
        self.backend, self.tolerance = backend, tolerance
        self.local, self.remote = LOCAL, REMOTE
        self.fds = {}  # the script's descriptors
        self.kinds = {}  # and what kinds of sockets they are
        self.connected = None  # the descriptor that assertions are about
        self.local_port, self.remote_port = BIND_PORT, REMOTE_PORT
        self.local_isn = None  # the real number that the script calls 0
        self.first_stamp = None  # (in the script, in reality) of our timestamps
        self.slack = 0  # how far timers may have set back all that has happened
        self.waiting = []
        self.last = 0  # when the event before happened
        self.written_last = 0  # when the script says that it does

    def run(self, text):
        if is_v6(text):
            self.local, self.remote = LOCAL6, REMOTE6
        for event in parse(text):
            try:
                self.event(event)
            except Mismatch as error:
                raise Mismatch(f"line {event.line}: {event.text}\n    {error}") from None
        for event, call, action in self.waiting:
            self.finish(event, call, action)

    def event(self, event):
        if event.relative:
            gap, base = event.start, self.last
        else:
            gap, base = event.start - self.written_last, 0
        event = dataclasses.replace(event, start=base + event.start, end=None if event.end is None else base + event.end)
        self.written_last = event.start
        match event.action:
            case Segment(inbound=False) as expected:
                self.last = self.expect(event, expected, gap)
                return
            case (Icmp(inbound=False) | Fragment(whole=None)) as expected:
                self.last = self.expect_other(event, expected, gap)
                return
        if not event.any_time:
            self.backend.wait(event.start)
        self.last = event.start
        match event.action:
            case Segment() as segment:
                self.backend.inject(self.inbound(segment))
            case Icmp() as icmp:
                self.backend.inject(self.error(icmp))
            case Fragment() as fragment:
                self.backend.inject(self.fragment(fragment))
            case Call() as action:
                call, translate = self.call(action)
                if event.waits:
                    self.waiting.append((event, call, (action, translate)))
                else:
                    self.finish(event, call, (action, translate))
            case Setting() as setting:
                self.set(setting)
            case Assertions(code=code):
                self.check(code)
        # Calls that were to have ended by now.
        for entry in [w for w in self.waiting if w[0].end < event.start]:
            self.waiting.remove(entry)
            self.finish(*entry)

    def on_file(self, path, name, *args):
        done = self.backend.done(self.backend.start(name, list(args)), self.backend.now())
        if done is None or done.result < 0:
            raise Mismatch(f"{name} of {path} gives {done and done.result}")
        return done

    def set(self, setting):
        value = setting.value.encode()
        fd = self.on_file(setting.path, "open", In(setting.path.encode() + b"\0"), os.O_WRONLY, 0).result
        self.on_file(setting.path, "write", fd, In(value), len(value))
        self.on_file(setting.path, "close", fd)

    def counters(self):
        """What /proc/net/snmp and netstat count, by `Tcp.RetransSegs` and `TcpExt.TCPTimeouts`."""
        found = {}
        for path in ("/proc/net/snmp", "/proc/net/netstat"):
            fd = self.on_file(path, "open", In(path.encode() + b"\0"), os.O_RDONLY, 0).result
            text = b""
            while (done := self.on_file(path, "read", fd, Out(bytes(16_000)), 16_000)).result:
                text += done.out[0][:done.result]
            self.on_file(path, "close", fd)
            lines = [line.split() for line in text.decode().splitlines()]
            for names, values in zip(lines[::2], lines[1::2]):
                found |= {f"{names[0][:-1]}.{name}": int(value) for name, value in zip(names[1:], values[1:])}
        return found

    # Packets.

    def inbound(self, segment):
        how = {**segment.ip, "tos": segment.ip.get("tos", 0) | (segment.ecn or 0)}
        if segment.udp:
            return wire.udp(self.remote, self.local, self.remote_port, self.local_port, bytes(segment.length), **how)
        stamp = lambda echo: echo if self.first_stamp is None or not echo else echo + self.first_stamp[1] - self.first_stamp[0]
        local = self.local_isn or 0
        options = []
        for option in segment.options or []:
            match option:
                case ("TS", value, echo):
                    options.append(("TS", value, stamp(echo)))
                case ("sack", *blocks):
                    options.append(("sack", *((left + local, right + local) for left, right in blocks)))
                case _:
                    options.append(option)
        ack = 0 if segment.ack is None else segment.ack + local
        header = wire.tcp_header(self.remote_port, self.local_port, segment.seq, ack, segment.flags, segment.window or 0,
                                 segment.urgent or 0, wire.pack_options(options))
        return wire.tcp(self.remote, self.local, header, bytes(segment.length), **how)

    def fragment(self, fragment):
        datagram = wire.udp(self.remote, self.local, self.remote_port, self.local_port, bytes(fragment.whole - 8))
        return wire.fragment(datagram, fragment.offset, fragment.length, fragment.more)

    def error(self, icmp):
        header = wire.tcp_header(self.local_port, self.remote_port, icmp.seq + (self.local_isn or 0), 0, ".", 0, 0, b"")
        if icmp.v6:
            quoted = wire.udp(self.local, self.remote, self.local_port, self.remote_port, b"") if icmp.udp else wire.tcp(self.local, self.remote, header, b"")
            return wire.icmpv6(self.remote, self.local, icmp.type, icmp.code, icmp.mtu, quoted)
        if icmp.udp:
            quoted = wire.udp(self.local, self.remote, self.local_port, self.remote_port, bytes(icmp.length))[:548]
        else:
            quoted = wire.tcp(self.local, self.remote, header, b"")[:28]
        return wire.icmp(self.remote, self.local, icmp.type, icmp.code, icmp.mtu, quoted)

    def expect(self, event, expected, gap):
        """Waits for a segment; gives when it came."""
        deadline = event.end or event.start
        self.slack += self.lateness(gap) - self.tolerance
        patience = self.backend.now() + 20_000_000_000 if event.any_time else deadline + 20 * self.tolerance + gap // 4
        at, seen = self.next_segment(patience)
        first = at
        if seen.udp:
            self.local_port, self.remote_port = seen.sport, seen.dport
        elif "S" in seen.flags:
            self.local_isn, self.local_port, self.remote_port = seen.seq, seen.sport, seen.dport
        # Whether a burst is one packet or several is the device's matter, and Linux pushes at the end of each of its own.
        whole = seen.length == expected.length
        while 0 < seen.length < expected.length and not seen.udp and not set(seen.flags) & set("SFR"):
            at, more = self.next_segment(patience)
            if more.seq != seen.seq + seen.length & 0xFFFFFFFF or not more.length:
                raise Mismatch(f"only {seen.length} bytes were sent, then {more.length} from {more.seq - (self.local_isn or 0)}")
            seen = dataclasses.replace(more, seq=seen.seq, length=seen.length + more.length)
        if not whole:
            pushed = "P" if "P" in expected.flags else ""
            seen = dataclasses.replace(seen, flags=seen.flags.replace("P", "") + pushed)
        self.compare(expected, seen)
        if not event.any_time and not event.start - self.tolerance <= first <= deadline + self.lateness(gap):
            raise Mismatch(f"was sent at {first / 1e9:.6f} instead of {event.start / 1e9:.6f}")
        return at

    def expect_other(self, event, expected, gap):
        """Waits for a fragment or an ICMP error; gives when it came."""
        deadline = event.end or event.start
        patience = self.backend.now() + 20_000_000_000 if event.any_time else deadline + 20 * self.tolerance + gap // 4
        seen = None
        while seen is None:
            got = self.backend.packet(patience)
            if got is None:
                raise Mismatch("nothing was sent")
            seen = wire.read_other(got[1])
        match expected:
            case Fragment(offset=offset, length=length, more=more):
                words = f"fragment {offset}({length})" + (" more" if more else "")
            case Icmp(type=type_, code=code, length=length):
                words = f"icmp {type_} {code} about protocol 17 ({length})"
        if seen != words:
            raise Mismatch(f"was sent as {seen}")
        if not event.any_time and not event.start - self.tolerance <= got[0] <= deadline + self.lateness(gap):
            raise Mismatch(f"was sent at {got[0] / 1e9:.6f} instead of {event.start / 1e9:.6f}")
        return got[0]

    def lateness(self, gap):
        """How late something may be that was set so far ahead."""
        return self.tolerance + (gap // self.backend.timer_slack if self.backend.timer_slack else 0)

    def next_segment(self, patience):
        while True:
            got = self.backend.packet(patience)
            if got is None:
                raise Mismatch("nothing was sent")
            seen = wire.read(got[1])
            if seen is not None:
                return got[0], seen

    def compare(self, expected, seen):
        options = []
        for option in seen.options:
            if option[0] == "TS":
                written = next((o for o in expected.options or [] if o[0] == "TS"), None)
                if self.first_stamp is None and written:
                    self.first_stamp = (written[1], option[1])
                value = option[1] - self.first_stamp[1] + self.first_stamp[0] if self.first_stamp else option[1]
                # Our clock's exact value is not the script's to know.
                if written and abs(value - written[1]) <= (2 * self.tolerance + self.slack) // 1_000_000:
                    value = written[1]
                option = ("TS", value, option[2])
            options.append(option)
        relative = (seen.seq - (self.local_isn or 0)) & 0xFFFFFFFF
        shown = wire.show(seen, relative, seen.ack, options)
        checks = [
            set(expected.flags) == set(seen.flags), expected.seq == relative, expected.length == seen.length,
            expected.ack is None or expected.ack == seen.ack, expected.window is None or expected.window == seen.window,
            expected.urgent is None or expected.urgent == seen.urgent,
            expected.options is None or expected.options == options, expected.ecn is None or expected.ecn == seen.ecn,
            expected.udp == seen.udp, all(getattr(seen, name) == value for name, value in expected.ip.items()),
        ]
        if not all(checks):
            raise Mismatch(f"was sent as {shown} tos {seen.tos:#x} ttl {seen.ttl} flow {seen.flow:#x}")

    # Calls.

    def fd(self, number):
        return self.fds.get(number, number)

    def call(self, action):
        """Starts a call; gives it and what makes its result the script's."""
        name, args = action.name, action.args
        plain = lambda result, _: result
        start = self.backend.start
        match name, args:
            case "socket", [_, type_, protocol]:
                self.kinds[action.result] = type_
                return start("socket", [socket.AF_INET6 if self.remote == REMOTE6 else socket.AF_INET, type_, protocol]), plain
            case "bind", [fd, _, _]:
                any_ = sockaddr("::" if self.remote == REMOTE6 else "0.0.0.0", BIND_PORT)
                return start("bind", [self.fd(fd), In(any_), len(any_)]), plain
            case "connect", [fd, _, _]:
                self.connected, peer = fd, sockaddr(self.remote, BIND_PORT)
                return start("connect", [self.fd(fd), In(peer), len(peer)]), plain
            case "accept", [fd, _, _]:
                return start("accept", [self.fd(fd), 0, 0]), plain
            case ("listen" | "shutdown"), [fd, how]:
                return start(name, [self.fd(fd), how]), plain
            case "close", [fd]:
                return start("close", [self.fd(fd)]), plain
            case "fcntl", [fd, command, argument]:
                return start("fcntl", [self.fd(fd), command, argument]), plain
            case "sendto", [fd, _, length, flags, _, _] if flags & MSG_FASTOPEN:
                self.connected = fd
                name = In(sockaddr(self.remote, BIND_PORT))
                return start("sendto", [self.fd(fd), In(bytes(length)), length, flags | socket.MSG_NOSIGNAL, name, len(name.data)]), plain
            case "sendto", [fd, _, length, flags, name, _] if name is DEFAULT and self.kinds.get(fd) == socket.SOCK_DGRAM:
                name = In(sockaddr(self.remote, BIND_PORT))
                return start("sendto", [self.fd(fd), In(bytes(length)), length, flags, name, len(name.data)]), plain
            case ("write" | "send" | "sendto"), [fd, _, length, *rest]:
                flags = (rest[0] if rest else 0) | socket.MSG_NOSIGNAL
                return start("sendto", [self.fd(fd), In(bytes(length)), length, flags, 0, 0]), plain
            case ("read" | "recv" | "recvfrom"), [fd, _, length, *rest]:
                return start("recvfrom", [self.fd(fd), Out(bytes(length)), length, rest[0] if rest else 0, 0, 0]), plain
            case "setsockopt", [fd, level, option, given, _]:
                given = given[0] if isinstance(given, list) else given
                data = struct.pack("=ii", given["onoff"], given["linger"]) if isinstance(given, dict) else (
                    given.encode() if isinstance(given, str) else struct.pack("=i", given))
                return start("setsockopt", [self.fd(fd), level, option, In(data), len(data)]), plain
            case "getsockopt", [fd, level, option, expected, _]:
                def translate(result, out):
                    got = struct.unpack_from("=i", out[0])[0]
                    if result == 0 and expected is not DEFAULT and [got] != expected:
                        raise Mismatch(f"the option is {got}")
                    return result
                return start("getsockopt", [self.fd(fd), level, option, Out(bytes(4)), Out(struct.pack("=i", 4))]), translate
            case "ioctl", [fd, request, expected]:
                def translate(result, out):
                    got = struct.unpack_from("=i", out[0])[0]
                    if result == 0 and expected is not DEFAULT and [got] != expected:
                        raise Mismatch(f"it says {got}")
                    return result
                return start("ioctl", [self.fd(fd), request, Out(bytes(4))]), translate
            case "poll", [polled, count, timeout]:
                data = b"".join(struct.pack("=ihh", self.fd(p["fd"]), p["events"], 0) for p in polled)
                def translate(result, out):
                    got = [struct.unpack_from("=ihh", out[0], 8 * i)[2] & 0xFFFF for i in range(len(polled))]
                    if got != [p.get("revents", 0) for p in polled]:
                        raise Mismatch(f"the events are {[hex(g) for g in got]}")
                    return result
                return start("poll", [Out(data), count, timeout]), translate
        raise Mismatch("the runner does not know this call")

    def finish(self, event, call, how):
        action, translate = how
        # A call that should not wait has its result at once, also in virtual time.
        done = self.backend.done(call, event.end + event.end // 4 + 20 * self.tolerance if event.waits else self.backend.now())
        if done is None:
            raise Mismatch("the call waits")
        result = translate(done.result, done.out)
        shown = f"{result}" if result >= 0 else f"-1 {errno.errorcode.get(-result, -result)}"
        if event.waits and not event.end - self.tolerance <= done.at <= event.end + self.lateness(event.end - event.start):
            raise Mismatch(f"ended at {done.at / 1e9:.6f} instead of {event.end / 1e9:.6f} with {shown}")
        if action.name in ("socket", "accept") and result >= 0 and isinstance(action.result, int) and action.result >= 0:
            self.fds[action.result] = result
            if action.name == "accept":
                self.connected = action.result
            return
        expected = action.result
        if expected is DEFAULT:
            return
        matches = result == expected if expected != -1 else result < 0 and (
            action.error is None or errno.errorcode.get(-result) == action.error)
        if not matches:
            raise Mismatch(f"the call gives {shown}")

    # Assertions.

    def check(self, code):
        names = {"mib": self.counters()} if "mib[" in code else {}
        if self.connected is not None:
            call = self.backend.start("getsockopt", [self.fd(self.connected), 6, 11, Out(bytes(256)), Out(struct.pack("=i", 256))])
            done = self.backend.done(call, self.backend.now())
            if done is None or done.result < 0:
                raise Mismatch(f"TCP_INFO fails: {done}")
            fields = TCP_INFO.unpack_from(done.out[0])
            names |= {f"tcpi_{name}": field for name, field in zip(TCP_INFO_NAMES, fields)}
            names["tcpi_snd_wscale"], names["tcpi_rcv_wscale"] = fields[6] & 15, fields[6] >> 4
        import textwrap
        try:
            exec(textwrap.dedent(code).strip(), {**FLAG_NAMES, **names})
        except AssertionError as error:
            raise Mismatch(f"does not hold: {error}") from None


def on_linux(paths):
    """Runs scripts against this machine's kernel, in the network namespace of this process, and exits: with 1 if the kernel does
    something else, with INCONCLUSIVE if that was while the machine was late."""

    status = 0
    try:
        # What else the machine does would show in the times.
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
    except PermissionError:
        pass
    for path in paths:
        backend = Linux()
        backend.begin()
        try:
            with open(path) as file:
                text = file.read()
            if is_v6(text):
                backend.add_v6()
            Run(backend).run(text)
        except Mismatch as error:
            delay = backend.delay()
            print(f"{path}: {error}" + (f"\n    while the machine was up to {delay / 1e6:.1f} ms late" if delay > LATE else ""))
            status = INCONCLUSIVE if delay > LATE and status != 1 else 1
        finally:
            backend.watch.stop()
    sys.stdout.flush()
    os._exit(status)


def apart(path):
    """Runs a script in a process and network namespace of its own: (exit status, words). A fork has what is imported already."""
    source, sink = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.dup2(sink, 1)
            os.dup2(sink, 2)
            if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "unshare")
            on_linux([path])
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    os.close(sink)
    with open(source) as words:
        said = words.read()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), said


def main():
    """Runs the scripts named as arguments against this machine's kernel, in the namespace of this process. With `--each` before them, each
    in one of its own, and prints a line of JSON for each: its path, its exit status and what it said."""
    if sys.argv[1] != "--each":
        on_linux(sys.argv[1:])
    for path in sys.argv[2:]:
        print(json.dumps([path, *apart(path)]), flush=True)


if __name__ == "__main__":
    main()
