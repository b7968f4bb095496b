"""Random topologies of links, switches and routers give the same bytes for every number of workers and of cells.

A failure names the seed; `BELLJAR_DETERMINISM_SEED=<seed>` draws that experiment alone."""

import os
import random

import pytest
import yaml
from conftest import execute

from .test_workers import contents

SMALL, LARGE = 6, 40
WAYS = [["--parallelism", "1"], ["--parallelism", "2"], ["--parallelism", "3", "--stealing", "false"], ["--parallelism", "1", "--cells", "2"]]

TALK = """
import os, random, socket, sys, time
mine = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
mine.bind(("", 7))
mine.settimeout(0.3)
until = time.monotonic() + 4
while time.monotonic() < until:
    try:
        mine.sendto(os.urandom(random.randrange(1, 3000)), (random.choice(sys.argv[1:]), 7))
        while True:
            data, who = mine.recvfrom(5000)
            print(time.monotonic_ns(), who, hash(data), flush=True)
    except OSError as error:
        print(time.monotonic_ns(), repr(error), flush=True)
"""


def draw_topology(seed):
    draw = random.Random(seed)
    hosts = [f"h{n}" for n in range(draw.randrange(2, 7))]
    switches = [f"s{n}" for n in range(draw.randrange(0, 4))]
    routers = [f"r{n}" for n in range(draw.randrange(0, 5))]
    middle = switches + routers

    def line():
        latency = round(10 * 2000 ** draw.random())
        entry = {"latency": f"{latency} us", "rate": draw.choice(["1 Mbit", "20 Mbit", "1 Gbit", "unlimited"])}
        if draw.random() < 0.3:
            entry["jitter"] = f"{draw.randrange(latency)} us"
        if draw.random() < 0.3:
            entry["packet_loss"] = draw.choice([0.01, 0.1])
        if draw.random() < 0.4:
            entry["queue"] = draw.choice([{"packets": 3}, {"bytes": "6 KB"}, {"codel": {"packets": 50}}])
        return entry

    pairs = [(hosts[n], draw.choice(middle) if middle else hosts[n - 1]) for n in range(0 if middle else 1, len(hosts))]
    pairs += [(middle[n], draw.choice(middle[:n])) for n in range(1, len(middle))]
    pairs += [tuple(draw.sample(routers or hosts, 2)) for _ in range(2) if len(routers) > 1]
    pairs += [tuple(draw.sample(switches, 2)) for _ in range(2) if len(switches) > 1]
    links = []
    for n, pair in enumerate(pairs):
        links.append({"name": f"l{n}", "between": list(pair), **line()})
        if draw.random() < 0.3:
            links[-1]["reverse"] = {"rate": "5 Mbit", "latency": "3 ms", "jitter": "0 ms"}
        if draw.random() < 0.1:
            links[-1]["mtu"] = 900
    name = lambda: f"l{draw.randrange(len(links))}"
    events = []
    for _ in range(draw.randrange(4)):
        at = f"{draw.randrange(1000, 5000)} ms"
        events.append(draw.choice([
            {"at": at, "link_down": name(), "for": f"{draw.randrange(100, 2000)} ms"},
            {"at": at, "link_change": name(), "latency": "2 ms", "jitter": "1 ms", "rate": "300 Kbit", "for": "1 s"},
            {"at": at, "partition": [hosts[0]], "for": "1 s"},
            {"at": at, "crash": hosts[-1], "for": "1 s"},
        ]))
    talk = lambda own: [{
        "path": "/usr/bin/python3", "args": ["-c", TALK, *[h for h in hosts if h != own]], "expected_final_state": "any",
        "environment": {"PYTHONHASHSEED": "1"}, "start_time": f"{draw.randrange(1500)} ms"}]
    general = {"stop_time": "7 s", "seed": seed}
    if draw.random() < 0.2:
        general["bootstrap_end_time"] = "2 s"
    return {
        "general": general, "host_option_defaults": {"pcap_enabled": True},
        "hosts": {h: {"processes": talk(h), "forwarding": draw.random() < 0.3} for h in hosts},
        "switches": switches, "routers": routers, "links": links, "events": events,
    }


def seeds():
    if one := os.environ.get("BELLJAR_DETERMINISM_SEED"):
        return [int(one)]
    return [pytest.param(n, marks=[] if n < SMALL else [pytest.mark.slow]) for n in range(LARGE)]


@pytest.mark.parametrize("seed", seeds())
def test_workers_and_cells_make_no_difference_to_topologies(belljar, workdir, seed):
    (workdir / "experiment.yaml").write_text(yaml.safe_dump(draw_topology(seed), sort_keys=False))
    results = []
    for way in WAYS:
        data = workdir / "data"
        done = execute([belljar, "run", workdir / "experiment.yaml", "-o", data, "--no-progress", *way], 200)
        assert done.status in (0, 1) and "processes" in done.out, f"seed {seed}: {done}"
        data.rename(workdir / f"results{len(results)}")
        results.append(contents(workdir / f"results{len(results)}"))
    assert any(name.startswith("hosts/") and name.endswith(".pcap") and len(b) > 100 for name, b in results[0].items())
    for way, other in zip(WAYS[1:], results[1:]):
        differing = [n for n in sorted({*results[0], *other}) if results[0].get(n) != other.get(n)]
        assert not differing, f"seed {seed}: {way} differs in {differing}"
