"""The same as memory_host.c."""

import sys

sys.path.insert(0, sys.argv[2])
from belljar_channel import Simulator
from belljar_pcie import MemoryHost

sim = Simulator()
memory = sim.channel(sys.argv[1], layer=MemoryHost())


def on_message(message):
    if message[0] == "write done":
        print("written")
        memory.send(("read", 2, 0, 4094, 3))
    else:
        print("read", message[2].decode())


def begin():
    memory.send(("write", 0, 0, 4094, b"xyz", True))
    memory.send(("write", 1, 0, 4094, b"abc", False))


memory.on_frame = on_message
sim.at(1000, begin)
sim.run(patience=20)
