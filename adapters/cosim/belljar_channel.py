"""Simulators of one's own beside Belljar, or beside any other that speaks SimBricks' channel protocol (version 1).

One file without dependencies, for Python from 3.9 on, on Linux on x86-64: copy it next to your simulator. The least one that
does something, a wire between two channels:

    from belljar_channel import Simulator

    sim = Simulator()
    left = sim.channel(sys.argv[1])       # "listen:left.sock:left.shm:sync=true:latency=500" (ns), or "connect:..."
    right = sim.channel(sys.argv[2])
    left.on_frame = lambda frame: right.send(frame)
    right.on_frame = lambda frame: left.send(frame)
    sim.run()

All times are integers, in picoseconds of simulated time. What a channel sends arrives at the other end after its latency. Frames
are Ethernet frames without their check sequence. Frames of the same time arrive in the order of the channels, then of sending;
timers (`sim.at`) come after them, in the order in which they were set. So a simulator that draws what is random from a seed
does the same in every run.

A simulator that needs a loop of its own uses `Channel` alone: `poll`, `horizon`, `send`, `sync`.
"""

import array
import heapq
import mmap
import os
import select
import socket
import struct
import time
from collections import deque

__all__ = ["Channel", "ChannelError", "Ethernet", "Simulator", "NEVER"]

NEVER = (1 << 64) - 1
"""Later than everything."""

_HEADER = 64
_STAMP = 48
_OWNER = 63
_CONSUMER = 0x80
_SYNC, _TERMINATE, _PACKET, _FIRST = 0x00, 0x01, 0x40, 0x40
_WANT_SYNC, _FORCE_SYNC = 1, 2


class ChannelError(Exception):
    """A channel that cannot be set up, or whose peer breaks the protocol."""


class Ethernet:
    """The network layer: messages are frames, as bytes. Another layer (belljar_pcie.py) is a class like this one."""

    id, name, slot_size = 1, "Ethernet", 1600
    intro = bytes(4)
    """Its part of our intro."""

    def take_intro(self, intro):
        """Takes its part of the peer's intro; a ValueError says what is wrong with it."""

    def length(self, kind, header):
        """The length of a message's body, or None if there is no such message."""
        return header[0] | header[1] << 8 if kind == _PACKET else None

    def received(self, kind, header, body):
        """The message of a slot."""
        return body

    def sent(self, frame):
        """(type, header, body) of a message."""
        return _PACKET, struct.pack("<HB", len(frame), 0), bytes(frame)


def _at(path, call):
    """Binds or connects a socket; a path longer than a socket's address is reached through its folder."""
    if len(os.fsencode(path)) < 108:
        return call(path)
    folder = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY)
    try:
        return call(f"/proc/self/fd/{folder}/{os.path.basename(path)}")
    finally:
        os.close(folder)


def _parse(url):
    """(listens, socket, sync, latency, sync interval) of an adapter URL; times in picoseconds."""
    parts = url.split(":")
    kind = parts.pop(0)
    paths = {"connect": 1, "listen": 2}.get(kind)
    if paths is None:
        raise ChannelError(f"adapter URL {url!r}: begin with connect: or listen:")
    if len(parts) <= paths or not all(parts[:paths]):
        raise ChannelError(f"adapter URL {url!r}: {kind} is followed by {'a path' if paths == 1 else 'two paths'} and sync=true|false")
    path, rest = parts[0], parts[paths:]
    if rest[0] not in ("sync=true", "sync=false"):
        raise ChannelError(f"adapter URL {url!r}: sync=true or sync=false comes after the paths")
    times = {"latency": 500, "sync_interval": None}
    for part in rest[1:]:
        name, _, value = part.partition("=")
        if name not in times or not value.isdigit():
            raise ChannelError(f"adapter URL {url!r}: {part!r} is neither latency=NS nor sync_interval=NS")
        times[name] = int(value)
    latency = times["latency"]
    interval = latency if times["sync_interval"] is None else times["sync_interval"]
    if latency == 0 or interval > latency:
        raise ChannelError(f"adapter URL {url!r}: the latency is not 0, and the sync interval at most the latency")
    return kind == "listen", path, rest[0] == "sync=true", latency * 1000, interval * 1000


class Channel:
    """One end of a channel. With a `Simulator`, only `on_frame` and `send` are of interest.

    `slot_size` (of a listener) is the longest frame and 64 bytes."""

    def __init__(self, url, slot_size=None, slots=None, layer=None):
        self.layer = layer or Ethernet()
        slot_size = slot_size or self.layer.slot_size
        slots = slots or (8192 if slot_size < 4096 else 1024)
        self.listens, self.path, self.wants_sync, self.latency, self.interval = _parse(url)
        self.on_frame = None
        """Called with each message that arrives: a frame, as bytes."""
        self.synchronised = False
        self.ended = False
        """Whether the peer has ended or gone."""
        self.late = 0
        """How many frames were stamped before one that came before them."""
        self._horizon = 0
        self._last_sent = None
        self._backlog = deque()
        self._simulator = None
        self._in = self._out = None
        self._socket = self._listener = self._memory = None
        if self.listens:
            self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self._fd = os.memfd_create("channel", os.MFD_CLOEXEC)
            size = slot_size * slots
            os.ftruncate(self._fd, 2 * size)
            self._queues = (size, slot_size, slots, 0, slot_size, slots)
            try:
                _at(self.path, self._listener.bind)
            except OSError as error:
                raise ChannelError(f"{self.path}: {error.strerror or error}") from None
            self._listener.listen(1)
            self._listener.setblocking(False)

    def establish(self):
        """Goes as far with the set-up as the peer allows, without waiting. True once the channel is there."""
        if self._in is not None:
            return True
        if self._socket is None and not self._reach():
            return False
        try:
            data, descriptors = self._receive()
        except BlockingIOError:
            return False
        if not data:
            raise ChannelError(f"{self.path}: the peer closed the connection instead of sending its intro")
        self._agree(data, descriptors)
        return True

    def _reach(self):
        if self.listens:
            try:
                self._socket, _ = self._listener.accept()
            except BlockingIOError:
                return False
            self._listener.close()
            os.unlink(self.path)
        else:
            peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                _at(self.path, peer.connect)
            except (FileNotFoundError, ConnectionRefusedError):
                peer.close()
                return False
            self._socket = peer
        self._socket.setblocking(False)
        flags = _WANT_SYNC if self.wants_sync else 0
        files = []
        if self.listens:
            intro = struct.pack("<10Q", 1, flags, *self._queues, self.layer.id, 80) + self.layer.intro
            files = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [self._fd]))]
        else:
            intro = struct.pack("<4Q", 1, flags, self.layer.id, 32) + self.layer.intro
        try:
            self._socket.sendmsg([intro], files)
        except BrokenPipeError:
            pass
        return True

    def _receive(self):
        data, control, _, _ = self._socket.recvmsg(2048, socket.CMSG_SPACE(16))
        descriptors = array.array("i")
        for level, kind, payload in control:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                descriptors.frombytes(payload[: len(payload) - len(payload) % descriptors.itemsize])
        return data, descriptors

    def _agree(self, data, descriptors):
        def wrong(what):
            return ChannelError(f"{self.path}: {what}")

        form = "<4Q" if self.listens else "<10Q"
        if len(data) < struct.calcsize(form):
            raise wrong(f"the peer's intro has {len(data)} bytes only")
        words = struct.unpack_from(form, data)
        version, flags, layer, begin = words[0], words[1], words[-2], words[-1]
        if version != 1:
            raise wrong(f"the peer speaks version {version} of the channel protocol, not 1")
        if layer != self.layer.id:
            raise wrong(f"the peer speaks protocol {layer} where {self.layer.name} ({self.layer.id}) is expected")
        try:
            self.layer.take_intro(data[begin:])
        except (ValueError, struct.error) as error:
            raise wrong(f"the peer's intro is not valid: {error}") from None
        if flags & _FORCE_SYNC and not self.wants_sync:
            raise wrong("the peer requires synchronisation: set sync=true")
        self.synchronised = self.wants_sync and bool(flags & (_WANT_SYNC | _FORCE_SYNC))
        if not self.listens:
            if not descriptors:
                raise wrong("the peer's intro came without its shared memory")
            self._fd = descriptors[-1]
            self._queues = words[2:8]
        length = os.fstat(self._fd).st_size
        to_connector, to_listener = self._queues[:3], self._queues[3:]
        for offset, size, count in (to_connector, to_listener):
            if not 64 <= size <= 1 << 17 or count == 0 or offset + size * count > length:
                raise wrong("the peer's queues do not lie within its shared memory")
        self._memory = mmap.mmap(self._fd, length)
        os.close(self._fd)
        incoming, outgoing = (to_listener, to_connector) if self.listens else (to_connector, to_listener)
        self._in, self._in_size, self._in_count = incoming
        self._out, self._out_size, self._out_count = outgoing
        self._in_next = self._out_next = 0
        if not self.synchronised:
            self._horizon = NEVER

    @property
    def horizon(self):
        """Nothing arrives before this time any more; more may arrive at it."""
        return self._horizon

    @property
    def room(self):
        """The longest body of a message that the peer takes."""
        return min(self._out_size - _HEADER, 0xFFFF)

    def poll(self, now):
        """The next message that arrives at `now` or before, as (time, message), or None. Without synchronisation it arrives now."""
        memory = self._memory
        while not self.ended:
            slot = self._in + self._in_next * self._in_size
            owner = memory[slot + _OWNER]
            if not owner & _CONSUMER:
                return None
            kind = owner & 0x7F
            if kind == _TERMINATE:
                self._end()
                return None
            late = False
            if self.synchronised:
                stamp = int.from_bytes(memory[slot + _STAMP : slot + _STAMP + 8], "little")
                late = stamp < self._horizon
                self._horizon = max(self._horizon, stamp)
                if self._horizon > now:
                    return None
            message, header = None, None
            if kind >= _FIRST:
                header = memory[slot : slot + _STAMP]
                try:
                    length = self.layer.length(kind, header)
                except ValueError as error:
                    raise ChannelError(f"{self.path}: {error}") from None
                if length is None:
                    raise ChannelError(f"{self.path}: the peer sent a message of type {kind:#x}, which is not of the {self.layer.name} layer")
                if length > self._in_size - _HEADER:
                    raise ChannelError(f"{self.path}: the peer sent a message of {length} bytes in a slot of {self._in_size}")
                try:
                    message = self.layer.received(kind, header, memory[slot + _HEADER : slot + _HEADER + length])
                except ValueError as error:
                    raise ChannelError(f"{self.path}: {error}") from None
                self.late += late
            elif kind != _SYNC:
                raise ChannelError(f"{self.path}: the peer sent a message of type {kind:#x}, which is not of the {self.layer.name} layer")
            memory[slot + _OWNER] = kind
            self._in_next = (self._in_next + 1) % self._in_count
            if header is not None:
                return (self._horizon if self.synchronised else now), message
        return None

    def send(self, message, now=None):
        """Sends a message, a frame, now; times never fall. What the queue has no room for waits until it has."""
        if now is None:
            now = self._simulator.now
        if self._in is None:
            raise ChannelError(f"{self.path}: messages can be sent once the simulator runs: use Simulator.at")
        kind, header, body = self.layer.sent(message)
        if len(body) > self.room:
            raise ChannelError(f"{self.path}: a message of {len(body)} bytes does not fit into the peer's slots, which hold {self.room}")
        if not self.ended:
            self._backlog.append((now, kind, header, body))
            self.flush()

    def flush(self):
        """Sends what has been waiting for room. True if nothing is waiting any more."""
        while self._backlog and self._put(*self._backlog[0]):
            self._backlog.popleft()
        return not self._backlog

    def sync(self, now):
        """Promises that nothing is sent before `now` any more, if the peer has to be told. True if it has been, or need not be."""
        if not self.synchronised or not self.flush():
            return not self.synchronised
        due = self._last_sent is None or self._last_sent + self.interval <= now
        return not due or self._put(now, _SYNC, b"", b"")

    def finish(self, now):
        """Promises that nothing is sent before `now` any more, due or not: a peer then knows exactly when this end has ended."""
        if self.synchronised and self.flush() and (self._last_sent is None or self._last_sent < now):
            self._put(now, _SYNC, b"", b"")

    def _put(self, at, kind, header, body):
        slot, memory = self._out + self._out_next * self._out_size, self._memory
        if memory[slot + _OWNER] & _CONSUMER:
            return False
        if self._last_sent is not None:
            at = max(at, self._last_sent)
        self._last_sent = at
        memory[slot + _HEADER : slot + _HEADER + len(body)] = body
        memory[slot : slot + _STAMP] = header.ljust(_STAMP, b"\0")
        struct.pack_into("<Q", memory, slot + _STAMP, min(at + self.latency, NEVER))
        # Processors of the x86 family keep stores in order: this one hands over all of the above.
        memory[slot + _OWNER] = kind | _CONSUMER
        self._out_next = (self._out_next + 1) % self._out_count
        return True

    def is_alive(self):
        """Looks whether the peer is still there: a system call. One that has gone ends the channel, once all is read."""
        if not self.ended:
            watch = select.poll()
            watch.register(self._socket, select.POLLRDHUP)
            slot = self._in + self._in_next * self._in_size
            if watch.poll(0) and not self._memory[slot + _OWNER] & _CONSUMER:
                self._end()
        return not self.ended

    def _end(self):
        self.ended, self.synchronised, self._horizon = True, False, NEVER
        self._backlog.clear()

    def close(self):
        """Closes it; the peer notices."""
        if self._listener is not None and self._socket is None:
            self._listener.close()
            os.unlink(self.path)
        if self._socket is not None:
            self._socket.close()


class Simulator:
    """Channels, timers, and a clock that goes as far as all peers allow."""

    def __init__(self):
        self.now = 0
        """The time of what happens now."""
        self.channels = []
        self._events = []
        self._count = 0
        self._stopped = False

    def channel(self, url, on_frame=None, **options):
        """A new channel; they are set up all at once when `run` begins."""
        channel = Channel(url, **options)
        channel.on_frame, channel._simulator = on_frame, self
        self.channels.append(channel)
        return channel

    def at(self, when, function, *arguments):
        """Calls the function at a time, now at the earliest."""
        self._push(max(when, self.now), 1, 0, function, arguments)

    def after(self, delay, function, *arguments):
        """Calls the function after a delay."""
        self.at(self.now + delay, function, *arguments)

    def stop(self):
        """Makes `run` return."""
        self._stopped = True

    def _push(self, when, rank, channel, function, arguments):
        self._count += 1
        heapq.heappush(self._events, (when, rank, channel, self._count, function, arguments))

    def _establish(self, patience):
        until = time.monotonic() + patience
        while not all([channel.establish() for channel in self.channels]):
            if time.monotonic() > until:
                missing = next(channel for channel in self.channels if not channel.establish())
                raise ChannelError(f"{missing.path}: no peer came within {patience} s")
            time.sleep(0.001)

    def run(self, until=NEVER, patience=30.0):
        """Runs everything before `until`, or until all peers have gone. `patience`: how long to wait for peers, in seconds."""
        try:
            self._establish(patience)
            self._run(until)
            for channel in self.channels:
                channel.finish(self.now)
        finally:
            for channel in self.channels:
                channel.close()

    def _run(self, until):
        idle, start = 0, time.monotonic_ns()
        while not self._stopped and not (self.channels and all(channel.ended for channel in self.channels)):
            synchronised = any(channel.synchronised for channel in self.channels)
            # Without synchronisation, a picosecond is a picosecond.
            real = self.now if synchronised else (time.monotonic_ns() - start) * 1000
            progress = self._receive(real)
            limit = min([until] + [channel.horizon for channel in self.channels if channel.synchronised])
            if not synchronised and self.channels:
                limit = min(limit, real)
            while self._events and self._events[0][0] < limit and not self._stopped:
                self.now, _, _, _, function, arguments = heapq.heappop(self._events)
                function(*arguments)
                progress = True
            if limit > self.now and not self._stopped:
                self.now, progress = limit, progress or synchronised
            for channel in self.channels:
                channel.sync(self.now)
                channel.flush()
            if self.now >= until or not self.channels and not self._events:
                return
            idle = 0 if progress else idle + 1
            if idle > 50:
                time.sleep(0 if idle < 500 else 0.0002)
            if idle > 100 and idle % 100 == 0:
                for channel in self.channels:
                    channel.is_alive()

    def _receive(self, now):
        """Takes what has come. Of one time there cannot be more than memory holds: a peer's clock has to go on."""
        progress = False
        for number, channel in enumerate(self.channels):
            for _ in range(channel._in_count):
                got = channel.poll(NEVER if channel.synchronised else now)
                if got is None:
                    break
                progress = True
                self._push(got[0], 0, number, channel.on_frame or (lambda frame: None), (got[1],))
            if len(self._events) > 1_000_000:
                raise ChannelError(f"{channel.path}: a million messages wait for the clocks of the other peers")
        return progress
