"""Routers that hold the MSS option of TCP connections to what a link further on carries (`clamp_mss`)."""

import pytest
import yaml
from conftest import contents_of, execute

PYTHON = "/usr/bin/python3"
SERVE = """
import socket
s = socket.create_server(("", 80), family=socket.AF_INET6, dualstack_ipv6=True)
for _ in range(2):
    c = s.accept()[0]
    print(c.getsockopt(6, 2), len(c.recv(100000, socket.MSG_WAITALL)), flush=True)
"""
SEND = """
import socket, sys
for family in (socket.AF_INET, socket.AF_INET6):
    where = socket.getaddrinfo(sys.argv[1], 80, family, socket.SOCK_STREAM)[0][4]
    s = socket.socket(family)
    s.connect(where)
    print(s.getsockopt(6, 2), flush=True)
    s.sendall(b"x" * 100000)
    s.close()
"""


def world(clamp):
    run = lambda code, *args, start="0 s": {"path": PYTHON, "args": ["-c", code, *args], "start_time": start}
    return {
        "general": {"stop_time": "20 s"},
        "belljar": {"ipv6": True},
        "host_option_defaults": {"pcap_enabled": True},
        "hosts": {"a": {"processes": [run(SEND, "b", start="5 s")]}, "b": {"processes": [run(SERVE)]}},
        "routers": {"r1": {} if clamp is None else {"clamp_mss": clamp}, "r2": {}},
        "links": [
            {"between": ["a", "r1"], "latency": "1 ms"},
            {"between": ["r1", "r2"], "latency": "1 ms", "mtu": 1400},
            {"between": ["r2", "b"], "latency": "1 ms"},
        ],
    }


# clamp -> the payload of a segment over IPv4 and over IPv6, 12 bytes of timestamps deducted, right after the handshake
CASES = [(None, 1448, 1428), ("path_mtu", 1348, 1328), (1000, 988, 988)]


@pytest.mark.parametrize("clamp, v4, v6", CASES, ids=["none", "path_mtu", "bytes"])
def test_connections_send_what_the_router_allows(run_experiment, clamp, v4, v6):
    done = run_experiment(world(clamp))
    assert [int(word) for word in done.text("a").split()] == [v4, v6]
    assert [line.split() for line in done.text("b").splitlines()] == [[str(v4), "100000"], [str(v6), "100000"]]


def test_the_same_bytes_with_workers_and_cells(belljar, workdir):
    (workdir / "experiment.yaml").write_text(yaml.safe_dump(world("path_mtu")))
    results = []
    for way in (["--parallelism", "1"], ["--parallelism", "3"], ["--cells", "2"]):
        data = workdir / "data"
        done = execute([belljar, "run", workdir / "experiment.yaml", "-o", data, "--no-progress", *way])
        assert done.status == 0, str(done)
        data.rename(workdir / f"results{len(results)}")
        results.append(contents_of(workdir / f"results{len(results)}"))
    assert any(name.startswith("routers/r1/") and len(content) > 100_000 for name, content in results[0].items())
    assert results[0] == results[1] == results[2]


@pytest.mark.parametrize("value", ["66000", "0", "-5", "1300 B", "mtu", "[1300]"])
def test_what_is_no_size_of_a_segment_is_refused(belljar, workdir, value):
    text = yaml.safe_dump(world(1234)).replace("clamp_mss: 1234", f"clamp_mss: {value}")
    (workdir / "experiment.yaml").write_text(text)
    line = 1 + next(n for n, each in enumerate(text.splitlines()) if "clamp_mss" in each)
    for command in ("validate", "run"):
        done = execute([belljar, command, workdir / "experiment.yaml"])
        said = done.out + done.err
        assert done.status != 0 and said.count("error") == 1, said
        assert f"experiment.yaml:{line}:" in said and "'clamp_mss' is not the size of a segment" in said, said
        assert "write path_mtu, or bytes from 88 to 65495 without a unit, such as 1360" in " ".join(said.split()), said
