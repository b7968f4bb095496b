"""The same as prober_host.c."""

import sys

sys.path.insert(0, sys.argv[2])
from belljar_channel import ChannelError, Simulator
from belljar_pcie import INTX, MSI, PcieHost

sim = Simulator()
device = sim.channel(sys.argv[1], layer=PcieHost())
memory = bytearray(1024)


def on_message(message):
    if message[0] in ("read", "write"):
        address, length = message[2], message[3] if message[0] == "read" else len(message[3])
        if address + length > len(memory):
            raise ChannelError("the device reaches for what it may not")
        if message[0] == "read":
            device.send(("read done", message[1], memory[address : address + length]))
        else:
            memory[address : address + length] = message[3]
            device.send(("write done", message[1]))
    elif message[0] == "interrupt":
        print(message[1], message[2])
    elif message[0] == "read done":
        print("register", *message[2])


def begin():
    device.send(("control", MSI | INTX))
    device.send(("write", 1, 0, 16, b"\1\2\3\4", True))
    device.send(("read", 2, 0, 16, 4))


device.on_frame = on_message
sim.at(1000, begin)
try:
    sim.run(patience=20)
except ChannelError as error:
    sys.exit(f"echo: {error}")
