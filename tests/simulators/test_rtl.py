"""RTL beside the simulation: a switch in Verilog that Verilator makes a simulator."""

import os
import re
import shutil
import subprocess

import pytest
import yaml
from conftest import ROOT
from test_simulators import of_hosts, run  # noqa: F401

RTL = ROOT / "adapters" / "cosim" / "rtl"

# Verilator's package does not bring the compiler of what it makes.
pytestmark = pytest.mark.needs("verilator", "g++", "make")


@pytest.fixture(scope="module")
def switch(tmp_path_factory):
    """The switch, built in a fresh checkout: the output folder does not exist, and Verilator makes none."""
    folder = tmp_path_factory.mktemp("rtl")
    listed = subprocess.run(["git", "ls-files", "adapters/cosim"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    for name in listed:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)
    built = subprocess.run(["make", "-C", folder / "adapters/cosim/rtl", "TRACE=1"], capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder / "adapters/cosim/rtl/build/switch"


@pytest.mark.slow  # it compiles the switch a second time
def test_a_fresh_checkout_builds_the_switch(switch):
    assert os.access(switch, os.X_OK)


def test_a_switch_in_verilog_learns_and_writes_waveforms(run, switch, workdir):  # noqa: F811
    exp = yaml.safe_load((RTL / "switch.yaml").read_text())
    exp["host_option_defaults"] = {"pcap_enabled": True}
    command = exp["simulators"]["switch"]["command"]
    seen = None
    for n in range(2):
        more = ["--trace", str(workdir / "waves.vcd")] if n == 1 else []
        exp["simulators"]["switch"]["command"] = [str(switch), *command[1:], *more]
        out, _ = run(f"rtl{n}", exp, "--parallelism", "12"[n % 2])
        now = of_hosts(out) | {"switch": (out / "simulators/switch/stdout").read_bytes()}
        assert seen is None or now == seen
        seen = now
    times = re.findall(r"icmp_seq=\d+ ttl=64 time=([\d.]+) ms", seen["hosts/alice/ping.1000.stdout"].decode())
    # Twice two links, two channels and, on each link, 98 bytes at 1 Gbit/s; in the switch a frame takes some 30 cycles of 6.4 ns.
    assert len(times) == 5 and all(0.031 <= float(time) <= 0.033 for time in times[1:]), times
    # Five echoes and two ARP frames each way; the others saw the one that was for all.
    assert [int(n) for n in re.findall(rb"(\d+) sent", seen["switch"])] == [6, 6, 1, 1]
    waves = (workdir / "waves.vcd").read_text()
    assert "$var" in waves and "rx_tvalid" in waves and waves.count("\n#") > 1000


@pytest.mark.slow  # Verilator compiles for a minute; test_a_switch_in_verilog_learns_and_writes_waveforms has the switch
def test_a_driver_behind_a_switch_in_verilog_is_the_same_every_time(run, switch, workdir):  # noqa: F811
    """A host with a controller, RTL in the loop: three runs, equal bytes."""
    exp = yaml.safe_load((RTL / "switch.yaml").read_text())
    exp["host_option_defaults"] = {"pcap_enabled": True}
    exp["simulators"]["switch"]["command"][0] = str(switch)
    exp["hosts"]["alice"]["devices"] = [{"pci": "nic0", "driver": "e1000"}]
    exp["nics"] = {"nic0": {}}
    for link in exp["links"]:
        link["between"] = ["nic0:p1" if end.split(":")[0] == "alice" else end for end in link["between"]]
    seen = None
    for n in range(3):
        out, _ = run(f"driver{n}", exp, "--parallelism", "12"[n % 2])
        now = of_hosts(out) | {"switch": (out / "simulators/switch/stdout").read_bytes()}
        assert seen is None or now == seen
        seen = now
    times = re.findall(r"icmp_seq=\d+ ttl=64 time=([\d.]+) ms", seen["hosts/alice/ping.1000.stdout"].decode())
    # The way through the controller besides: descriptor, frame and interrupt, each over PCI and back.
    assert len(times) == 5 and all(0.032 <= float(time) <= 0.04 for time in times[1:]), times
