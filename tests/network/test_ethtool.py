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
    assert "PTP Hardware Clock: 0" in stamps[1] and "\n\thardware-receive" in stamps[1]
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


# What SIOCETHTOOL answers, in words: timestamps, features, link, channels, pause frames.
ASK = """
import array, fcntl, socket, struct
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
def ask(name, command, *more, words=48):
    data = array.array("I", [command, *more] + [0] * (words - 1 - len(more)))
    try:
        fcntl.ioctl(s, 0x8946, struct.pack("16sQ16x", name.encode(), data.buffer_info()[0]))
    except OSError as error:
        return error.strerror
    return list(data)
for name in ("eth0", "lo"):
    print(ask(name, 0x41, words=11), ask(name, 0x3a, 2, words=10), ask(name, 0x0a, words=2), ask(name, 0x3c, words=9), ask(name, 0x12, words=4), sep="|")
"""


def test_netlink_says_what_the_older_interface_says(run_experiment):
    stamps, features, link, channels, pause, lo_stamps, lo_link, lo_channels, lo_pause, refused, none = ask(
        run_experiment, "-T eth0", "-k eth0", "eth0", "-l eth0", "-a eth0", "-T lo", "lo", "-l lo", "-a lo", "-K eth0 rx-all on", "-T none0")
    assert stamps[1].split("\n")[1:] == ["Capabilities:", "\thardware-transmit", "\tsoftware-transmit", "\thardware-receive", "\tsoftware-receive", "\tsoftware-system-clock",
                                         "\thardware-raw-clock", "PTP Hardware Clock: 0", "Hardware Transmit Timestamp Modes:", "\toff", "\ton",
                                         "Hardware Receive Filter Modes:", "\tnone", "\tall"]
    assert lo_stamps[1].split("\n")[1:] == ["Capabilities:", "\tsoftware-transmit", "\tsoftware-receive", "\tsoftware-system-clock", "PTP Hardware Clock: none",
                                            "Hardware Transmit Timestamp Modes: none", "Hardware Receive Filter Modes: none"]
    assert features[0] == 0 and ": on" not in features[1] and "\ntx-gso-list: off [fixed]" in features[1]
    assert "Link detected: yes" in link[1] and "Link detected: yes" in lo_link[1] and "Speed" not in lo_link[1]
    assert channels[1].count("Combined:\t1") == 2 and "RX:\t\toff" in pause[1]
    assert all(status != 0 and "not supported" in said for status, said in (lo_channels, lo_pause)) and refused[0] != 0 and none[0] != 0
    hosts = {"a": {"processes": [{"path": "python3", "args": ["-c", ASK]}]}, "b": {"processes": []}}
    eth0, lo = run_experiment(world(hosts, [{"between": ["a", "b"]}])).text("a", "python3").splitlines()
    assert eth0.split("|") == [str(words) for words in ([0x41, 0x5f, 0, 3, 0, 0, 0, 3, 0, 0, 0], [0x3a, 2] + [0] * 8, [0x0a, 1], [0x3c, 0, 0, 0, 1, 0, 0, 0, 1],
                                                       [0x12, 0, 0, 0])]
    nothing = "Operation not supported"
    assert lo.split("|") == [str(words) for words in ([0x41, 0x1a, 0xffffffff] + [0] * 8, [0x3a, 2] + [0] * 8, [0x0a, 1], nothing, nothing)]


def test_the_carrier_is_counted(run_experiment):
    script = "for file in changes up_count down_count; do cat /sys/class/net/eth0/carrier_$file; done; cat /sys/class/net/lo/carrier_changes"
    processes = [{"path": "sh", "args": ["-c", script], "start_time": at} for at in ("1 s", "5 s")]
    done = run_experiment(world({"a": {"processes": processes}, "b": {"processes": []}}, [{"between": ["a", "b"], "name": "wire"}],
                                events=[{"at": "2 s", "link_down": "wire", "for": "1 s"}]))
    assert [file.read_text().split() for file in sorted((done.path / "hosts/a").glob("sh.*.stdout"))] == [["2", "1", "1", "0"], ["4", "2", "2", "0"]]
