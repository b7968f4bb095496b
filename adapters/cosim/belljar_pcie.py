"""PCIe and memory on SimBricks' channel protocol: layers for the channels of `belljar_channel.py`.

A device that adds one to what is written to its register:

    from belljar_channel import Simulator
    from belljar_pcie import PcieDevice

    sim, value = Simulator(), 0
    device = PcieDevice(vendor=0x1234, device=1, bars={0: 4096})
    host = sim.channel(sys.argv[1], layer=device)

    def on_message(message):
        global value
        if message[0] == "write":                       # ("write", id, bar, offset, data, posted)
            value = int.from_bytes(message[4], "little") + 1
            if not message[5]:
                host.send(("write done", message[1]))
        if message[0] == "read":                        # ("read", id, bar, offset, length)
            host.send(("read done", message[1], value.to_bytes(message[4], "little")))

    host.on_frame = on_message
    sim.run()

Messages are tuples, whose first element says what they are:

    host to device   ("read", id, bar, offset, length)  ("write", id, bar, offset, data, posted)  ("control", interrupts)
                     ("read done", id, data)  ("write done", id)
    device to host   ("read", id, address, length)  ("write", id, address, data)  ("interrupt", kind, vector)
                     ("read done", id, data)  ("write done", id)
    host to memory   ("read", id, space, address, length)  ("write", id, space, address, data, posted)
    memory to host   ("read done", id, data)  ("write done", id)

Kinds of interrupts: "up" and "down" for the line, "msi", "msix". `interrupts` has the bits INTX, MSI, MSIX.
"""

import struct

__all__ = ["PcieDevice", "PcieHost", "MemoryDevice", "MemoryHost", "INTX", "MSI", "MSIX"]

INTX, MSI, MSIX = 1, 2, 4
_INTERRUPTS = ("up", "down", "msi", "msix")
_INFO = "<12QHH4BBHBBIIH"


class _Requests:
    """Reads have numbers; an answer does not say how long it is, so the reads that have none yet are kept."""

    intro = bytes(4)
    _write_types = {}
    """By type: where a write's header has its length."""
    _empty = ()
    _answer = None

    def __init__(self):
        self._lengths = {}

    def take_intro(self, intro):
        """Takes its part of the peer's intro."""

    def length(self, kind, header):
        """The length of a message's body, or None if there is no such message."""
        if kind in self._write_types:
            return struct.unpack_from("<H", header, self._write_types[kind])[0]
        if kind == self._answer:
            number = struct.unpack_from("<Q", header)[0]
            if number not in self._lengths:
                raise ValueError(f"the peer answers request {number}, which has not been made")
            return self._lengths.pop(number)
        return 0 if kind in self._empty else None


class PcieHost(_Requests):
    """The host's end of PCIe. `device` has what the device says of itself, once the channel is there."""

    id, name, slot_size = 2, "PCIe", 9088
    _write_types, _empty, _answer = {0x41: 16}, (0x40, 0x42, 0x44), 0x43
    device = None

    def take_intro(self, intro):
        if len(intro) < struct.calcsize(_INFO):
            raise ValueError(f"its description of the device has {len(intro)} bytes of {struct.calcsize(_INFO)}")
        fields = struct.unpack_from(_INFO, intro)
        lengths = fields[0:12:2]
        for bar, length in enumerate(lengths):
            if length & (length - 1):
                raise ValueError(f"BAR {bar} has {length} bytes, which is no power of two")
        self.device = {"bars": {n: length for n, length in enumerate(lengths) if length}, "vendor": fields[12], "device": fields[13],
                       "class": fields[14:18], "msi": fields[18], "msix": fields[19]}

    def received(self, kind, header, body):
        number, address, length = struct.unpack_from("<QQH", header)
        if kind == 0x40:
            return "read", number, address, length
        if kind == 0x41:
            return "write", number, address, body
        if kind == 0x42:
            vector, what = struct.unpack_from("<HB", header)
            vectors = {2: self.device["msi"], 3: self.device["msix"]}.get(what, vector + 1)
            if what >= len(_INTERRUPTS) or vector >= vectors:
                raise ValueError(f"the device sends interrupt {vector} of kind {what}, which it does not have")
            return "interrupt", _INTERRUPTS[what], vector
        return ("read done", number, body) if kind == 0x43 else ("write done", number)

    def sent(self, message):
        if message[0] == "read":
            self._lengths[message[1]] = message[4]
            return 0x60, struct.pack("<QQHB", message[1], message[3], message[4], message[2]), b""
        if message[0] == "write":
            _, number, bar, offset, data, posted = message
            return 0x65 if posted else 0x61, struct.pack("<QQHB", number, offset, len(data), bar), bytes(data)
        if message[0] == "control":
            return 0x64, struct.pack("<Q", message[1]), b""
        return (0x62, struct.pack("<Q", message[1]), bytes(message[2])) if message[0] == "read done" else (0x63, struct.pack("<Q", message[1]), b"")


class PcieDevice(_Requests):
    """The device's end of PCIe. `bars`: the length of each base address register, by its number."""

    id, name, slot_size = 2, "PCIe", 9088
    _write_types, _empty, _answer = {0x61: 16, 0x65: 16}, (0x60, 0x63, 0x64), 0x62

    def __init__(self, vendor, device, bars, class_code=(0xFF, 0, 0, 0), msi=0, msix=0, msix_bar=0, msix_offsets=(0, 0)):
        super().__init__()
        self.bars = dict(bars)
        fields = [value for n in range(6) for value in (self.bars.get(n, 0), 0)]
        self.intro = struct.pack(_INFO, *fields, vendor, device, *class_code, msi, msix, msix_bar, msix_bar, *msix_offsets, 0)

    def received(self, kind, header, body):
        number, offset, length, bar = struct.unpack_from("<QQHB", header)
        if kind in (0x60, 0x61, 0x65) and offset + length > self.bars.get(bar, 0):
            raise ValueError(f"the host accesses {length} bytes at {offset:#x}, which do not lie within BAR {bar}")
        if kind == 0x60:
            return "read", number, bar, offset, length
        if kind in (0x61, 0x65):
            return "write", number, bar, offset, body, kind == 0x65
        if kind == 0x64:
            return "control", number
        return ("read done", number, body) if kind == 0x62 else ("write done", number)

    def sent(self, message):
        if message[0] == "read":
            self._lengths[message[1]] = message[3]
            return 0x40, struct.pack("<QQH", message[1], message[2], message[3]), b""
        if message[0] == "write":
            return 0x41, struct.pack("<QQH", message[1], message[2], len(message[3])), bytes(message[3])
        if message[0] == "interrupt":
            return 0x42, struct.pack("<HB", message[2], _INTERRUPTS.index(message[1])), b""
        return (0x43, struct.pack("<Q", message[1]), bytes(message[2])) if message[0] == "read done" else (0x44, struct.pack("<Q", message[1]), b"")


class MemoryHost(_Requests):
    """A host's end of a memory."""

    id, name, slot_size = 3, "memory", 8256
    _empty, _answer = (0x41,), 0x40

    def received(self, kind, header, body):
        number = struct.unpack_from("<Q", header)[0]
        return ("read done", number, body) if kind == 0x40 else ("write done", number)

    def sent(self, message):
        if message[0] == "read":
            self._lengths[message[1]] = message[4]
            return 0x60, struct.pack("<QQQH", *message[1:]), b""
        _, number, space, address, data, posted = message
        return 0x62 if posted else 0x61, struct.pack("<QQQH", number, space, address, len(data)), bytes(data)


class MemoryDevice(_Requests):
    """A memory's end."""

    id, name, slot_size = 3, "memory", 8256
    _write_types, _empty = {0x61: 24, 0x62: 24}, (0x60,)

    def received(self, kind, header, body):
        number, space, address, length = struct.unpack_from("<QQQH", header)
        return ("read", number, space, address, length) if kind == 0x60 else ("write", number, space, address, body, kind == 0x62)

    def sent(self, message):
        return (0x40, struct.pack("<Q", message[1]), bytes(message[2])) if message[0] == "read done" else (0x41, struct.pack("<Q", message[1]), b"")
