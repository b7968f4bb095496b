"""BMv2's Thrift interface to a switch: from a guest inside the simulation, and to `belljar p4 serve` in real time."""

import ast
import json
import os
import signal
import subprocess
import sys

import pytest
import yaml
from conftest import ROOT, contents_of, execute

P4 = ROOT / "tests" / "p4"
STATIONS = ["020000000001", "020000000002"]


def experiment(placement="auto", **management):
    def station(number, *sends):
        return {"interfaces": {"eth0": {"mac": f"02:00:00:00:00:0{number}"}},
                "processes": [{"path": sys.executable, "args": [str(P4 / "station.py"), "9", *sends]}]}

    client = {"path": sys.executable, "args": [str(P4 / "thrift_client.py"), "s1", str(management.get("thrift_port", 9090))],
              "start_time": "1 s", "placement": placement}
    return {
        "general": {"stop_time": "10 s"},
        "switches": {"s1": {"p4": str(P4 / "thrift.p4"), "management": management}},
        "hosts": {"a": station(1, f"3@{STATIONS[1]}", f"8@{STATIONS[1]}"), "b": station(2, f"6@{STATIONS[0]}"), "c": {"processes": [client]}},
        "links": [{"between": ["a", "s1:p1"]}, {"between": ["b", "s1:p2"]}, {"between": ["c", "s1:mgmt"], "latency": "1 ms"}],
    }


def run(belljar, workdir, content, name, *more):
    file, data = workdir / f"{name}.yaml", workdir / f"{name}.data"
    file.write_text(yaml.safe_dump(content))
    done = execute([belljar, "run", file, "-o", data, *more])
    assert done.status == 0, done
    return data


def said(data, host):
    return next((data / "hosts" / host).glob("python*.stdout")).read_text().splitlines()


def by_word(lines):
    return {word: rest for word, _, rest in (line.partition(" ") for line in lines)}


def check(answers):
    assert ast.literal_eval(answers["tables"]) == ["I.exact_", "I.lpm_", "I.selected", "I.ternary_"]
    entry, action = ast.literal_eval(answers["entry"]), {1: 1, 2: b"I.forward", 3: [b"\2"]}
    assert entry[1] == [{1: 0, 2: {1: bytes.fromhex(STATIONS[1])}}] and entry[4] == action and entry[2] == {1: -1}
    assert ast.literal_eval(answers["registers"]) == [0, 0xFFFFFFFF]
    ternary = ast.literal_eval(answers["ternary"])
    assert ternary[1] == [{1: 2, 4: {1: b"\x08\0", 2: b"\xff\0"}}, {1: 4, 6: {1: bytes.fromhex(STATIONS[0]), 2: bytes.fromhex("020000000009")}}]
    assert ternary[2] == {1: 5} and ternary[4] == {1: 1, 2: b"NoAction", 3: []}
    assert answers["meter"] == "[{1: 0.5, 2: 10}, {1: 1.0, 2: 20}]"
    saved = ast.literal_eval(answers["saved"])
    assert saved[0] == "act_prof_create_member I.chosen I.forward 0x0001" and "table_add I.exact_ I.forward 0x020000000002 => 0x0002" in saved
    assert saved[-1] == "meter_set_rates I.pace 0 0.5:10 1:20", saved
    # Peak below committed rate, one rate instead of two, negative burst, index.
    assert answers["rates"] == "4 3 5 2"
    assert ast.literal_eval(answers["values"]) == [b"\x08\0"]
    # Unknown table, duplicate, unknown action, key of another kind, no data, no entry, member in use; index, name; swap.
    assert answers["refused"].split(" ", 10)[:10] == ["7", "17", "8", "18", "26", "2", "11", "2", "1", "1"], answers["refused"]
    assert answers["refused"].split(" ", 10)[10] == "1 there is no method 'standard:bm_parse_nothing'"
    multicast = json.loads(answers["multicast"].replace("'", '"'))
    node = multicast["l1_handles"][0]["handle"]
    assert multicast == {"mgrps": [{"id": 7, "l1_handles": [node]}], "l1_handles": [{"handle": node, "rid": 3, "l2_handle": node}],
                         "l2_handles": [{"handle": node, "ports": [1, 2], "lags": []}], "lags": []}
    assert answers["session"] == "{1: 2}" and answers["after"] == "[] 0 []"


@pytest.mark.parametrize("placement", ["near", "far"])
def test_a_client_of_thrift_programs_the_switch(belljar, workdir, placement):
    data = run(belljar, workdir, experiment(placement), placement)
    answers = by_word(said(data, "c"))
    check(answers)
    assert answers["info"] == "{1: 1, 2: 9090}"
    # One frame of 64 bytes has passed, from the first station.
    assert answers["counter"] == "{1: 64, 2: 1} {1: 64, 2: 1}" and answers["register"] == "0x1"
    assert 4010 < int(answers["elapsed"]) < 4200
    assert answers["queue"] == "0 1"
    # Forwarded at 3 s; replicated at 6 s; nothing at 8 s, when everything has been reset.
    assert [line.split()[0][:3] for line in said(data, "b")] == ["3.0", "6.0"]
    assert [line.split()[0][:3] for line in said(data, "a")] == ["6.0"]


def test_runs_are_alike_and_changes_take_their_time(belljar, workdir):
    found = []
    for workers in ("1", "2"):
        data = run(belljar, workdir, experiment(thrift_port=9091, control_latency="50 ms"), workers, "--pcap", "--parallelism", workers)
        found.append({name: content for name, content in contents_of(data).items() if name != "processed-config.yaml"})
    assert found[0] == found[1] and any("mgmt.pcap" in name for name in found[0])
    answers = by_word(said(data, "c"))
    # Two entries, each after a round trip and 50 ms.
    assert answers["handles"].split(" took ")[1] == "104" and answers["info"] == "{1: 1, 2: 9091}"


def test_p4_serve_speaks_thrift(belljar, workdir):
    command = [belljar, "p4", "serve", P4 / "thrift.p4", "--grpc", "127.0.0.1:0", "--thrift", "127.0.0.1:0", "--device-id", "4"]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=workdir)
    try:
        lines = [server.stderr.readline() for _ in range(2)]
        port = lines[1].strip().rsplit(":", 1)[1]
        asked = execute([sys.executable, P4 / "thrift_client.py", "127.0.0.1", port])
        assert asked.status == 0, asked
        answers = by_word(asked.out.splitlines())
        check(answers)
        assert answers["info"] == f"{{1: 4, 2: {port}}}" and answers["counter"] == "{1: 0, 2: 0} {1: 0, 2: 0}"
        # It has no ports.
        assert answers["queue"] == "1 1"
        # Noise ends its own connection only.
        for noise in (b"GET / HTTP/1.1\r\n\r\n", b"\x80\x01\0\1\x7f\xff\xff\xff" + bytes(64), os.urandom(500)):
            assert execute([sys.executable, "-c", f"import socket; s = socket.create_connection(('127.0.0.1', {port})); s.sendall({noise!r}); print(s.recv(9))"]).out.strip() == "b''"
        assert execute([sys.executable, P4 / "thrift_client.py", "127.0.0.1", port]).status == 0
    finally:
        server.send_signal(signal.SIGINT)
        assert server.wait(600) == 0
