"""The captures of a run in one file, as Wireshark's own reader sees it."""

import shutil
import subprocess

import pytest
from conftest import execute, experiment, graph


@pytest.fixture
def ran(run_experiment):
    http = {"model": {"type": "http", "to": "web", "count": 2}}
    dns = {"model": {"type": "dns", "to": "ns", "names": ["web"]}}
    hosts = {"web": (0, [{"model": {"type": "http_server", "response_size": "300 B"}}]), "ns": (0, [{"model": {"type": "dns_server"}}]),
             "home": (1, [http, dns])}
    return run_experiment(experiment(hosts, graph((0, 1, "10 ms"))), pcap=True)


def shown(file, *fields):
    if shutil.which("tshark") is None:
        pytest.skip("tshark is not installed")
    command = ["tshark", "-r", str(file), "-T", "fields", *[part for field in fields for part in ("-e", field)]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return [line.split("\t") for line in done.stdout.splitlines()]


def test_everything_in_the_order_of_time(belljar, ran):
    done = execute([belljar, "capture", ran.path], 20)
    assert done.status == 0, done
    rows = shown(ran.path / "all.pcapng", "frame.time_epoch", "frame.interface_name", "ip.src", "ip.dst")
    assert f"{len(rows)} packets" in done.out
    times = [float(row[0]) for row in rows]
    assert times == sorted(times) and 946684800 <= times[0] < 946684801
    assert {row[1] for row in rows} == {"web eth0", "ns eth0", "home eth0"}
    # each packet as it left and as it came, 10 ms and its transmission later
    sent = [row for row in rows if row[1] == "home eth0" and row[3] == "11.0.0.3"]
    came = [row for row in rows if row[1] == "web eth0" and row[3] == "11.0.0.3"]
    assert len(sent) == len(came) > 5
    assert all(0.0099 < float(b[0]) - float(a[0]) < 0.011 for a, b in zip(sent, came))


def test_filters_and_hosts(belljar, ran, workdir):
    file = workdir / "some.pcapng"
    for arguments, expected in ((["--filter", "udp port 53"], {"ns eth0", "home eth0"}), (["--filter", "tcp and src host web"], {"web eth0", "home eth0"}),
                                (["--host", "web"], {"web eth0"}), (["--host", "web", "--filter", "not tcp"], set())):
        done = execute([belljar, "capture", ran.path, "-o", file, *arguments], 20)
        assert done.status == 0, done
        rows = shown(file, "frame.interface_name", "udp.port")
        assert {row[0] for row in rows} == expected, arguments
        assert bool(rows and rows[0][1]) == ("udp port 53" in arguments)


def test_mistakes(belljar, ran, run_experiment):
    for arguments, message in ((["--filter", "tcp prt 80"], "'prt' is not expected there"), (["--host", "nobody"], "there is no host 'nobody'"),
                               (["--filter", "host nobody"], "'nobody' is neither a host nor an IPv4 address")):
        done = execute([belljar, "capture", ran.path, *arguments], 20)
        assert done.status == 2 and done.err.startswith("error: ") and message in done.err, done
    without = run_experiment(experiment({"a": (0, [])}, stop="1 s"))
    done = execute([belljar, "capture", without.path], 20)
    assert done.status != 0 and "run with --pcap" in done.err and not (without.path / "all.pcapng").exists()
