"""The same as adder_device.c."""

import sys

sys.path.insert(0, sys.argv[2])
from belljar_channel import ChannelError, Simulator
from belljar_pcie import PcieDevice

sim = Simulator()
host = sim.channel(sys.argv[1], layer=PcieDevice(0x1234, 1, {0: 4096}, msi=2))
address = done = 0


def on_message(message):
    global address, done
    if message[0] == "write":
        address = int.from_bytes(message[4], "little")
        if not message[5]:
            host.send(("write done", message[1]))
        host.send(("read", 7, address, 8))
    elif message[0] == "read":
        host.send(("read done", message[1], done.to_bytes(8, "little")[: message[4]]))
    elif message[0] == "read done":
        host.send(("write", 8, address, (int.from_bytes(message[2], "little") + 1).to_bytes(8, "little")))
    elif message[0] == "write done":
        done += 1
        host.send(("interrupt", "msi", 1))


host.on_frame = on_message
try:
    sim.run(patience=20)
except ChannelError as error:
    sys.exit(f"echo: {error}")
