"""What ethtool says of the interfaces of hosts, and what it changes."""

import shutil

import pytest
from test_links import world

pytestmark = pytest.mark.skipif(shutil.which("ethtool") is None, reason="ethtool is not installed")
# The status of each command, behind its output.
RUN = "for command; do ethtool $command 2>&1; echo \"= $?\"; done"


def ask(run_experiment, *commands, link=None, more=""):
    hosts = {"a": {"processes": [{"path": "sh", "args": ["-c", f"{more}{RUN}", "sh", *commands]}]}, "b": {"processes": []}}
    said = run_experiment(world(hosts, [{"between": ["a", "b"], **(link or {})}])).text("a", "sh")
    parts, begin = [], 0
    lines = said.splitlines()
    for n, line in enumerate(lines):
        if line.startswith("= "):
            parts.append((int(line[2:]), "\n".join(lines[begin:n])))
            begin = n + 1
    assert len(parts) == len(commands), said
    return parts


def test_lab_scripts_switch_offloads_off(run_experiment):
    off, shown, driver, stamps, on = ask(run_experiment, "-K eth0 tx off rx off tso off gso off gro off", "-k eth0", "-i eth0", "-T eth0", "-K eth0 tso on")
    assert off[0] == shown[0] == driver[0] == stamps[0] == 0, (off, shown, driver, stamps)
    for feature in ("rx-checksumming", "tx-checksumming", "tcp-segmentation-offload", "generic-segmentation-offload", "generic-receive-offload"):
        assert f"\n{feature}: off" in shown[1], shown
    assert driver[1].startswith("driver: belljar\n")
    assert "PTP Hardware Clock: none" in stamps[1]
    assert on[0] != 0, "packets have the size that they have on the link"


@pytest.mark.parametrize("rate, speed", [("100 Mbit", "100"), ("2500 Mbit", "2500"), ("40 Gbit", "40000"), (None, "1000"), ("unlimited", "10000"), ("64 Kbit", "-1")])
def test_the_speed_is_the_links_rate(run_experiment, rate, speed):
    files = "cat /sys/class/net/eth0/speed /sys/class/net/eth0/duplex; cat /sys/class/net/lo/speed || echo none; "
    ((status, said),) = ask(run_experiment, "eth0", link={"rate": rate} if rate else {}, more=files)
    assert status == 0 and said.startswith(f"{speed}\nfull\nnone\n"), said
    assert ("Speed: Unknown!" if speed == "-1" else f"Speed: {speed}Mb/s") in said and "Duplex: Full" in said and "Link detected: yes" in said


def test_lo_has_no_driver_and_no_speed(run_experiment):
    driver, link = ask(run_experiment, "-i lo", "lo")
    assert driver[0] != 0 and "Operation not supported" in driver[1]
    assert link[0] == 0 and "Link detected: yes" in link[1] and "Speed" not in link[1]
