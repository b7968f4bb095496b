"""PTP hardware clocks and timestamps: linuxptp, unmodified, brings hosts with skewed clocks together; what the clocks themselves do."""

import re

import pytest
from test_links import world

# The error of the client's clock in all of these.
SKEWED = {"offset": "3 ms", "drift_ppm": 50}
SERVER, CLIENT = "-i eth0 -m --priority1 100", "-i eth0 -m -s"
READ = "import os, sys, time; fd = os.open('/dev/ptp0', os.O_RDWR); clock = (~fd << 3) | 3; "


def ptp4l(args, more=()):
    return {"processes": [{"path": "ptp4l", "args": args, "expected_final_state": "running"}, *more]}


def reads(at):
    """Processes that read the hardware clock and the system's at a simulated time."""
    return [{"path": "phc_ctl", "args": "eth0 get", "start_time": at}, {"path": "date", "args": "+%s%N", "start_time": at}]


def synchronised(run_experiment, *, args="", link=None, stop="60 s", at="59 s", client=(), seed=None, pcap=False):
    hosts = {"server": ptp4l(f"{SERVER} {args}", reads(at)), "client": {"clock": SKEWED, **ptp4l(f"{CLIENT} {args}", [*client, *reads(at)])}}
    near = {"rate": "1 Gbit", "latency": "1 us", "jitter": "20 ns"}
    links = [{"between": ["server", "s"], **near}, {"between": ["client", "s"], **near, **(link or {})}]
    return run_experiment(world(hosts, links, stop=stop, switches=["s"]), seed=seed, pcap=pcap)


def hardware(done, host):
    seconds, nanoseconds = re.search(r"clock time is (\d+)\.(\d{9})", done.text(host, "phc_ctl")).groups()
    return int(seconds) * 10**9 + int(nanoseconds)


def apart(done, program="phc_ctl"):
    """The difference of both hosts' clocks at one simulated time, in nanoseconds."""
    read = hardware if program == "phc_ctl" else lambda done, host: int(done.text(host, "date"))
    return read(done, "client") - read(done, "server")


def offsets(done, host="client"):
    """Offsets that ptp4l reports, once a second."""
    return [int(offset) for offset in re.findall(r"(?:master|rms) offset\s+(-?\d+)", done.text(host, "ptp4l"))]


@pytest.mark.needs("ptp4l", "phc_ctl")
@pytest.mark.parametrize("transport", ["-4", "-2"])
def test_hardware_clocks_meet(run_experiment, transport):
    done = synchronised(run_experiment, args=f"-H {transport}")
    said = offsets(done)
    # The client starts 3 ms apart, and gains 50 us in a second.
    assert abs(said[0]) > 2_900_000 and len(said) > 30, said
    assert abs(apart(done)) < 100 and all(abs(offset) < 100 for offset in said[-15:]), (apart(done), said)
    # The system's clocks are left alone.
    assert 5_900_000 < apart(done, "date") < 6_000_000


@pytest.mark.needs("ptp4l", "phc_ctl")
def test_asymmetry_is_half_of_the_difference_of_the_paths(run_experiment):
    done = synchronised(run_experiment, args="-H", link={"latency": "1 us", "reverse": {"latency": "21 us"}})
    # ptp4l cannot see it.
    assert all(abs(offset) < 100 for offset in offsets(done)[-15:])
    assert abs(abs(apart(done)) - 10_000) < 100, apart(done)


@pytest.mark.needs("ptp4l")
def test_system_clocks_meet_by_software_timestamps(run_experiment):
    done = synchronised(run_experiment, args="-S", stop="100 s", at="99 s")
    # The servo of software timestamps is slow by default; what it says of its error is true.
    said = offsets(done)[-1]
    assert abs(apart(done, "date")) < 5_000 and abs(apart(done, "date") - said) < 1_000, offsets(done)


@pytest.mark.needs("ptp4l", "phc2sys", "phc_ctl")
def test_phc2sys_carries_the_time_to_the_system(run_experiment):
    phc2sys = {"path": "phc2sys", "args": "-s eth0 -c CLOCK_REALTIME -O 0 -m", "start_time": "20 s", "expected_final_state": "running"}
    done = synchronised(run_experiment, args="-H", client=[phc2sys])
    assert abs(apart(done)) < 100 and abs(hardware(done, "client") - int(done.text("client", "date"))) < 100


@pytest.mark.needs("ptp4l", "phc_ctl")
def test_a_boundary_clock_carries_time_on(run_experiment):
    hosts = {
        "server": ptp4l(f"{SERVER} -H", reads("89 s")),
        "middle": {"clock": {"offset": "-1 s", "drift_ppm": -20}, **ptp4l("-i eth0 -i eth1 -m -H --boundary_clock_jbod 1"),
                   "interfaces": {"eth0": "10.0.0.2/24", "eth1": "10.0.1.1/24"}},
        "client": {"clock": SKEWED, **ptp4l(f"{CLIENT} -H", reads("89 s"))},
    }
    hosts["middle"]["processes"].append({"path": "phc2sys", "args": "-a -m", "start_time": "2 s", "expected_final_state": "running"})
    link = {"rate": "1 Gbit", "latency": "1 us"}
    links = [{"between": ["server:eth0", "middle:eth0"], **link}, {"between": ["middle:eth1", "client:eth0"], **link}]
    done = run_experiment(world(hosts, links, stop="90 s"))
    assert abs(apart(done)) < 1_000, apart(done)


@pytest.mark.needs("ptp4l")
def test_pmc_asks_what_ptp4l_knows(run_experiment):
    pmc = {"path": "pmc", "args": ["-u", "-b", "0", "GET TIME_STATUS_NP"], "start_time": "30 s"}
    done = synchronised(run_experiment, args="-H", client=[pmc], stop="31 s", at="30 s")
    assert "gmPresent                  true" in done.text("client", "pmc")


@pytest.mark.needs("ptp4l", "phc_ctl")
@pytest.mark.parametrize("args", ["-H", "-S"])
def test_the_same_bytes_every_time(run_experiment, belljar, args):
    def bytes_of(seed):
        done = synchronised(run_experiment, args=args, stop="15 s", at="14 s", seed=seed, pcap=True)
        return {file.relative_to(done.path): file.read_bytes() for file in sorted((done.path / "hosts").rglob("*")) if file.is_file()}

    assert bytes_of(1) == bytes_of(1)
    assert bytes_of(1) != bytes_of(2)


def clocks(run_experiment, script, clock=None, at="10 s", more=()):
    """Lines of a script that reads `clock`, at a simulated time."""
    hosts = {"a": {**({"clock": clock} if clock else {}), "processes": [{"path": "python3", "args": ["-c", READ + script], "start_time": at}]}, "b": {"processes": []}}
    return run_experiment(world(hosts, [{"between": ["a", "b"]}], stop="30 s", **dict(more))).text("a", "python3").split()


READS = "print(time.clock_gettime_ns(clock), time.time_ns())"
START = 946684810 * 10**9


@pytest.mark.parametrize("clock, hardware, system", [
    (None, 0, 0),
    ({"offset": "3 ms", "drift_ppm": 50}, 3_500_000, 3_500_000),
    ({"offset": "3 ms", "drift_ppm": 50, "hardware_offset": "-1 s"}, -999_500_000, 3_500_000),
    ({"drift_ppm": 50, "hardware_drift_ppm": -20}, -200_000, 500_000),
])
def test_a_hardware_clock_follows_the_host_or_its_own_settings(run_experiment, clock, hardware, system):
    own, of_system = map(int, clocks(run_experiment, READS, clock))
    # Programs take some microseconds to start.
    assert abs(own - START - hardware) < 100_000 and abs(of_system - START - system) < 100_000, (own - START, of_system - START)
    assert abs((own - of_system) - (hardware - system)) < 3_000


def test_an_event_changes_the_oscillator_of_both(run_experiment):
    events = {"events": [{"at": "5 s", "clock": "a", "drift_ppm": 100}]}
    own, of_system = map(int, clocks(run_experiment, READS, more=events))
    assert abs(own - START - 500_000) < 100_000 and abs(own - of_system) < 3_000


def test_a_hardware_clock_is_set_and_read_in_many_ways(run_experiment):
    script = """
import errno, fcntl, struct
def fails(call, *args):
    try:
        call(*args)
    except OSError as error:
        return errno.errorcode[error.errno]
time.clock_settime_ns(clock, 5 * 10**9)
print(time.clock_gettime_ns(clock) // 10**6)
caps = struct.unpack("20i", fcntl.ioctl(fd, 0x80503d01, bytes(80)))
print(caps[0], caps[1:6], caps[6])
for request, words in ((0x43403d05, 832), (0xc4c03d09, 1216), (0xc0403d08, 64)):
    asked = bytearray(struct.pack("4I", 3, 0, 0, 0).ljust(words, b"\\0"))
    fcntl.ioctl(fd, request, asked)
    print(len(asked.rstrip(b"\\0")) > 30)
print(fails(fcntl.ioctl, fd, 0x40103d02, bytes(16)), fails(fcntl.ioctl, fd, 0x5401, bytes(64)), fails(os.read, fd, 32))
read_only = (~os.open('/dev/ptp0', os.O_RDONLY) << 3) | 3
print(time.clock_gettime_ns(read_only) // 10**6, fails(time.clock_settime_ns, read_only, 1), time.clock_getres(clock))
print(*sorted(os.listdir("/sys/class/ptp")), open("/sys/class/ptp/ptp0/max_adjustment").read().strip(), *os.listdir("/sys/class/net/eth0/device/ptp"))
"""
    said = clocks(run_experiment, "\n" + script)
    assert said == ["5000", "62499999", "(0,", "0,", "0,", "0,", "0)", "1", "True", "True", "True", "EINVAL", "ENOTTY", "EINVAL", "5000", "EACCES", "1e-09",
                    "ptp0", "62499999", "ptp0"], said


@pytest.mark.needs("ethtool")
def test_radio_stations_and_hosts_on_the_graph_have_no_hardware_clock(run_experiment):
    asks = {"path": "sh", "args": ["-c", "ethtool -T eth0; ls /dev/ptp0 /sys/class/ptp"], "expected_final_state": "any"}
    hosts = {"a": {"processes": [asks]}, "b": {"processes": []}}
    radio = run_experiment({"general": {"stop_time": "2 s"}, "hosts": hosts, "radios": {"air": {"stations": {"a": [0, 0], "b": [9, 0]}}}})
    graph = run_experiment({"general": {"stop_time": "2 s"}, "network": {"graph": {"type": "1_gbit_switch"}},
                            "hosts": {name: {"network_node_id": 0, **host} for name, host in hosts.items()}})
    for done in (radio, graph):
        said = done.text("a", "sh")
        assert "software-transmit" in said and "hardware-transmit" not in said and "PTP Hardware Clock: none" in said and "ptp0" not in said
