"""Radio channels give the same bytes for every number of workers and of cells."""

import pytest
import yaml
from conftest import contents_of, execute
from test_radio import BROADCAST, air, python

WAYS = [["--parallelism", "1"], ["--parallelism", "2"], ["--parallelism", "1", "--cells", "2"]]


@pytest.mark.parametrize("settings", [
    {"mobility": {"random_waypoint": {"area": [500, 500], "speed": [5, 30], "steady_state": True}}, "packet_loss": 0.1},
    {"mobility": {"random_waypoint": {"area": [300, 300], "speed": [5, 30]}}, "log_distance": {"exponent": 2.6}},
])
def test_the_same_bytes_for_any_number_of_workers(belljar, workdir, settings):
    names = [f"n{n}" for n in range(8)]
    ping = [{"path": "/usr/bin/python3", "args": ["-c", "import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\nfor n in range(90): s.sendto(b'x' * 900, ('10.0.0.5', 9))"],
             "start_time": "1 s"}]
    hosts = {name: [python(BROADCAST, 2, start="0 s"), *(ping if name < "n4" else [])] for name in names}
    experiment = {**air(["n*"], hosts, "3 s", **settings), "belljar": {"route_log": True}}
    (workdir / "exp.yaml").write_text(yaml.safe_dump(experiment))
    runs = []
    for seed, way in [("1", way) for way in WAYS] + [("2", WAYS[0])]:
        folder = workdir / "data"
        done = execute([belljar, "run", workdir / "exp.yaml", "--seed", seed, "--pcap", *way, "-o", folder])
        assert done.status == 0, done
        runs.append(contents_of(folder))
        folder.rename(workdir / f"results{len(runs)}")
    assert runs[0] == runs[1] == runs[2]
    changed = [name for name in runs[0] if runs[0][name] != runs[3].get(name)]
    assert any(name.endswith(".stdout") for name in changed), "another seed, other bytes"
