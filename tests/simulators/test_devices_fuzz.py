"""Devices and machines drawn at random in other processes: whatever they do with registers, rings and DMA, a run ends well or with one message."""

import re
import sys

import pytest
from conftest import ROOT
from test_devices import experiment
from test_simulators import run, script  # noqa: F401

BEGIN = f"""
import random, sys
sys.path.insert(0, {str(ROOT / 'adapters' / 'cosim')!r})
from belljar_channel import ChannelError, Simulator
from belljar_pcie import INTX, MSI, PcieDevice, PcieHost
draw, sim, US = random.Random(sys.argv[1]), Simulator(), 1_000_000

def some(most):
    return bytes(draw.randrange(256) if draw.random() < 0.3 else 0 for _ in range(draw.randrange(most + 1)))

def go():
    try:
        sim.run()
    except ChannelError as error:
        print(error)
"""

# Where Corundum's registers are; three of four devices say it, so that the driver gets beyond asking.
DEVICE = BEGIN + """
kind = sys.argv[2]
ids = {"e1000": (0x8086, 0x100e, {0: 1 << 17}), "corundum": (0x5543, 0x1001, {0: 1 << 24})}[kind]
layout = {0x2c: 0x80000, 0x80014: 0x100000, 0x80024: 0x200000, 0x8002c: 0x300000, 0x80034: 0x400000, 0x8003c: 0x500000, 0x80044: 0x800000,
          0x800014: 0x100000} if draw.random() < 0.75 else {}
pci, eth = sim.channel(sys.argv[3], layer=PcieDevice(*ids, msi=32)), sim.channel(sys.argv[4])
count = dict.fromkeys(("registers", "answers", "acts"), 0)

def answer(number, offset, length):
    count["answers"] += 1
    value = layout.get(offset, draw.choice([0, 1, draw.randrange(9), draw.randrange(600), draw.randrange(1 << 32)]))
    pci.send(("read done", number, value.to_bytes(8, "little")[:length]))

def heard(message):
    if message[0] == "read":
        count["registers"] += 1
        # Some are never answered.
        if draw.random() < 0.97 or message[3] in layout:
            sim.after(draw.choice([0, 0, 1, 300, 30_000]) * 1000, answer, message[1], message[3], message[4])
    elif message[0] == "write" and not message[5]:
        pci.send(("write done", message[1]))

def act():
    count["acts"] += 1
    address = draw.choice([0x10000000 + 16 * draw.randrange(64), 0x10000000 + 4096 * draw.randrange(40) + draw.randrange(64), draw.randrange(1 << 64)])
    what = draw.randrange(8)
    if what < 2:
        pci.send(("read", count["acts"], address, draw.choice([0, 1, 16, draw.randrange(2048), draw.randrange(9000)])))
    elif what < 5:
        pci.send(("write", 1, address, draw.choice([some(16), some(64), bytes([0, 6, 0, 0, 3, 0]), bytes([draw.randrange(4), 0, draw.randrange(40), 0, 60, 0])])))
    elif what < 7:
        pci.send(("interrupt", draw.choice(["up", "down", "msi", "msi", "msi"]), 0))
    else:
        eth.send(b"\\xff" * 6 + some(1400) + bytes(50))
    sim.after(draw.randrange(1, 60) * US, act)

pci.on_frame = heard
sim.at(US, act)
go()
print(count, flush=True)
"""

MACHINE = BEGIN + """
names = [0x00, 0x10, 0x14, 0x20, 0x38, 0xc0, 0xc4, 0xc8, 0xd0, 0xd8, 0x100, 0x400, 0x2800, 0x2804, 0x2808, 0x2810, 0x2818, 0x2820, 0x282c,
         0x3800, 0x3804, 0x3808, 0x3810, 0x3818, 0x3820, 0x5000, 0x5200, 0x5400, 0x5404, 0x5600]
device = sim.channel(sys.argv[2], layer=PcieHost())
memory, count = bytearray(1 << 16), dict.fromkeys(("dma", "interrupts", "acts"), 0)
ring = bytes([0, 16, 0, 0, 0, 0, 0, 0, 60, 0, 0, 9, 0, 0, 0, 0])

def descriptors(length):
    # Legacy ones, contexts and their data, in any order.
    each = [ring,
            bytes([14, 24, 33, 0, 34, 50, 0, 0, 0, 9, 0, 0x27, 0, 54, draw.randrange(256), draw.randrange(3)]),
            bytes([draw.randrange(256) for _ in range(10)]) + bytes([draw.randrange(2) << 4, 0x20 | draw.randrange(256), 0, draw.randrange(256), 1, 2]),
            bytes([0, 16, 0, 0, 0, 0, 0, 0, draw.randrange(256), draw.randrange(9), 0x10, draw.choice([0x26, 0x2f, 0x2b, 0xeb]), 0, 3, 0, 5])]
    return b"".join(draw.choice(each) for _ in range(length // 16 + 1))[:length]

def heard(message):
    if message[0] == "read":
        count["dma"] += 1
        # Rings hold descriptors most of the time; some requests are never answered.
        if draw.random() < 0.97:
            data = descriptors(message[3]) if draw.random() < 0.7 else bytes(draw.randrange(256) for _ in range(message[3]))
            sim.after(draw.choice([0, 1, 500]) * 1000, device.send, ("read done", message[1], data))
    elif message[0] == "write":
        count["dma"] += 1
        device.send(("write done", message[1]))
    elif message[0] == "interrupt":
        count["interrupts"] += 1

def act():
    count["acts"] += 1
    offset = draw.choice(names) if draw.random() < 0.9 else 4 * draw.randrange(1 << 15)
    value = draw.choice([0, 2, 8, 128, 256, 0x8002, 0x4010003a, draw.randrange(64), draw.randrange(1 << 32)])
    what = draw.randrange(10)
    if what == 0:
        device.send(("read", count["acts"], 0, offset, draw.choice([1, 2, 4, 8])))
    elif what == 2:
        # The I/O ports: an address, and the register at it.
        device.send(("write", 1, 2, draw.choice([0, 4]), draw.choice([offset, value]).to_bytes(4, "little"), True))
    elif what == 1:
        device.send(("control", draw.randrange(8)))
    else:
        device.send(("write", 1, 0, offset, value.to_bytes(4, "little")[:draw.choice([4, 4, 4, 2])], draw.random() < 0.5))
    sim.after(draw.choice([1, 1, 10, 40]) * US, act)

device.on_frame = heard
sim.at(US, lambda: [device.send(("write", 1, 0, at, value.to_bytes(4, "little"), True)) for at, value in
                    ((0x2808, 256), (0x3808, 256), (0x100, 0x8002), (0x400, 2), (0xd0, 0xff), (0x2818, 12))])
sim.at(2 * US, act)
go()
print(count, flush=True)
"""


def check(done, out):
    """Neither a panic nor more than one line about what is wrong."""
    said = done.stdout + done.stderr
    assert "panicked" not in said and "RUST_BACKTRACE" not in said, said
    # A host whose device leaves a read of registers unanswered stands still for ever, before its program has begun.
    well = done.returncode == 0 or "not started" in done.stdout
    assert len(re.findall(r"^error", done.stderr, re.M)) == (not well), said
    return {name: int(count) for name, count in re.findall(r"'(\w+)': (\d+)", "".join(f.read_text() for f in out.glob("simulators/*/stdout")))}


def seeds(few, many):
    return [pytest.param(seed, marks=[pytest.mark.slow] if seed >= few else []) for seed in range(many)]


@pytest.mark.parametrize("driver", ["e1000", "corundum"])
@pytest.mark.parametrize("seed", seeds(1, 30))
def test_a_device_drawn_at_random(run, workdir, driver, seed):  # noqa: F811
    command = [sys.executable, "-B", str(script(workdir, "device.py", DEVICE)), str(seed), driver, "{pci}", "{eth}"]
    line = {"interrupts": "intx"} if driver == "e1000" and seed % 2 else {}
    exp = experiment({"driver": driver, "ring": 8, **line}, latency="10 us", start="1 ms", stop="15 ms",
                     simulators={"nic0": {"command": command, "latency": "10 us"}},
                     links=[{"between": ["nic0:eth", "server"], "latency": "10 us", "rate": "1 Gbit"}])
    exp["hosts"]["client"]["processes"][0]["expected_final_state"] = "any"
    seen = []
    for n in range(2):
        out, done = run(f"device{n}", exp, "--parallelism", "12"[n], ok=None)
        seen.append((done.returncode, check(done, out)))
    # The same each time, and it got to do something.
    assert seen[0] == seen[1] and seen[0][1].get("registers", 0) > 0, seen


@pytest.mark.parametrize("seed", seeds(1, 30))
def test_a_machine_drawn_at_random(run, workdir, seed):  # noqa: F811
    """The controller is ours; broadcasts come to it from a host on its link."""
    shout = ("import socket, time\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)\n"
             "for n in range(200): s.sendto(bytes(7 * n), ('10.0.0.255', 9)); time.sleep(0.0001)\n")
    exp = {
        "general": {"stop_time": "15 ms"},
        "hosts": {"server": {"interfaces": {"eth0": {"addresses": ["10.0.0.2/24"]}},
                             "processes": [{"path": "python3", "args": ["-B", "-c", shout], "expected_final_state": "any"}]}},
        "nics": {"nic0": {}},
        "simulators": {"machine": {"command": [sys.executable, "-B", str(script(workdir, "machine.py", MACHINE)), str(seed), "{nic0}"], "latency": "10 us",
                                   "devices": [{"pci": "nic0", "latency": "10 us"}]}},
        "links": [{"between": ["nic0:eth", "server"], "latency": "10 us"}]}
    seen = []
    for n in range(2):
        out, done = run(f"machine{n}", exp, "--parallelism", "12"[n], ok=None)
        seen.append((done.returncode, check(done, out)))
    assert seen[0] == seen[1] and seen[0][1].get("acts", 0) > 0, seen
