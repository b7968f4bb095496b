"""Random topologies of links, switches and routers give the same bytes for every number of workers and of cells.

A failure names the seed; `BELLJAR_DETERMINISM_SEED=<seed>` draws that experiment alone."""

import csv
import json
import os
import random

import pytest
import yaml
from conftest import contents_of, execute

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
            entry["queue"] = draw.choice([
                {"packets": 3}, {"bytes": "6 KB"}, {"codel": {"packets": 50}}, {"fq_codel": {"packets": 20, "flows": 8}},
                {"red": {"min": "1 KB", "max": "5 KB", "limit": "9 KB", "weight": 0.1}}, {"priority": {"bands": [{"packets": 5}] * 3}},
            ])
        if draw.random() < 0.2:
            entry["packet_loss"] = {"gilbert_elliott": {"to_bad": 0.05, "to_good": 0.4}}
        for mishap in ("duplication", "corruption"):
            if draw.random() < 0.2:
                entry[mishap] = draw.choice([0.01, 0.2])
        if draw.random() < 0.2:
            entry["reordering"] = {"probability": 0.2, "delay": "4 ms"}
        if draw.random() < 0.2:
            entry["token_bucket"] = {"rate": "800 Kbit", "burst": "5 KB"}
        elif entry["rate"] == "unlimited":
            entry.pop("queue", None)  # refused: nothing waits
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
        if draw.random() < 0.1 and not set(pair) <= set(switches):  # stations of one network have one MTU
            links[-1]["mtu"] = 900
    name = lambda: f"l{draw.randrange(len(links))}"
    events = []
    for _ in range(draw.randrange(4)):
        at = f"{draw.randrange(1000, 5000)} ms"
        events.append(draw.choice([
            {"at": at, "link_down": name(), "for": f"{draw.randrange(100, 2000)} ms"},
            {"at": at, "link_change": name(), "latency": "2 ms", "jitter": "1 ms", "rate": "300 Kbit", "for": "1 s"},
            {"at": at, "link_change": name(), "duplication": 0.5, "queue": {"fq_codel": {}}, "token_bucket": "none", "for": "1 s"},
            {"at": at, "partition": [hosts[0]], "for": "1 s"},
            {"at": at, "crash": hosts[-1], "for": "1 s"},
        ]))
    talk = lambda own: [{
        "path": "/usr/bin/python3", "args": ["-c", TALK, *[h for h in hosts if h != own]], "expected_final_state": "any",
        "environment": {"PYTHONHASHSEED": "1"}, "start_time": f"{draw.randrange(1500)} ms"}]
    general = {"stop_time": "7 s", "seed": seed}
    clamped = {r: {"clamp_mss": draw.choice(["path_mtu", 700])} if draw.random() < 0.5 else {} for r in routers}
    if draw.random() < 0.2:
        general["bootstrap_end_time"] = "2 s"
    return {
        "general": general, "host_option_defaults": {"pcap_enabled": True}, "belljar": {"metrics": {"interval": "100 ms"}},
        "hosts": {h: {"processes": talk(h), "forwarding": draw.random() < 0.3} for h in hosts},
        "switches": switches, "routers": clamped, "links": links, "events": events,
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
        done = execute([belljar, "run", workdir / "experiment.yaml", "-o", data, "--no-progress", *way])
        assert done.status in (0, 1) and "processes" in done.out, f"seed {seed}: {done}"
        data.rename(workdir / f"results{len(results)}")
        results.append(contents_of(workdir / f"results{len(results)}"))
    assert any(name.startswith("hosts/") and name.endswith(".pcap") and len(b) > 100 for name, b in results[0].items())
    for way, other in zip(WAYS[1:], results[1:]):
        differing = [n for n in sorted({*results[0], *other}) if results[0].get(n) != other.get(n)]
        assert not differing, f"seed {seed}: {way} differs in {differing}"


BIRD = """
router id 10.255.0.%d;
protocol device { }
protocol kernel { ipv4 { export all; }; }
protocol ospf v2 { ipv4 { import all; }; area 0 { interface "eth*" { type ptp; hello 1; dead 4; }; }; }
"""


@pytest.mark.needs("bird", "tcpdump", "ping")
def test_workers_and_cells_make_no_difference_to_routing(belljar, workdir):
    """Daemons with raw sockets and netlink, rings of packet sockets, IGMP: a triangle in which a link fails."""
    hosts = {"a": {"processes": [{"path": "ping", "args": ["-n", "-c", "12", "b"], "start_time": "8 s", "expected_final_state": "any"}]},
             "b": {"processes": [{"path": "tcpdump", "args": ["-n", "-i", "eth0", "-w", "seen.pcap"], "expected_final_state": "any"}]}}
    for n in range(1, 4):
        conf = workdir / f"r{n}.conf"
        conf.write_text(BIRD % n)
        start = f"mkdir -p /run/bird; exec bird -f -c {conf}"
        hosts[f"r{n}"] = {"forwarding": True, "routes": [], "processes": [{"path": "sh", "args": ["-c", start], "expected_final_state": "running"}]}
    pairs = [("a", "r1"), ("r2", "b"), ("r1", "r2"), ("r1", "r3"), ("r3", "r2")]
    links = [{"name": "".join(pair), "between": list(pair), "latency": f"{n + 1} ms"} for n, pair in enumerate(pairs)]
    experiment = {"general": {"stop_time": "22 s"}, "host_option_defaults": {"pcap_enabled": True}, "hosts": hosts, "links": links,
                  "events": [{"at": "12.5 s", "link_down": "r1r2"}], "belljar": {"route_log": True}}
    (workdir / "experiment.yaml").write_text(yaml.safe_dump(experiment, sort_keys=False))
    results = []
    for way in WAYS:
        data = workdir / "data"
        done = execute([belljar, "run", workdir / "experiment.yaml", "-o", data, "--no-progress", *way])
        assert done.status == 0, str(done)
        data.rename(workdir / f"results{len(results)}")
        results.append(contents_of(workdir / f"results{len(results)}"))
    said = results[0][next(name for name in results[0] if name.startswith("hosts/a/ping") and name.endswith("stdout"))]
    assert b"ttl=62" in said and b"ttl=61" in said, said
    for way, other in zip(WAYS[1:], results[1:]):
        differing = [n for n in sorted({*results[0], *other}) if results[0].get(n) != other.get(n)]
        assert not differing, f"{way} differs in {differing}"


SEND = """
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
while True:
    s.sendto(b"x", (sys.argv[1], 9))
    time.sleep(0.003)
"""
HOLD = "import socket, sys; s = socket.create_connection((sys.argv[1], 80)); s.send(b'seen'); s.recv(1)"
SERVE = "import socket; s = socket.create_server(('', 80)); s = s.accept()[0]\nwhile True: s.recv(9)"


@pytest.mark.parametrize("near", ["20 ms", "40 us"])
def test_what_a_partition_keeps_away_is_lost_when_it_would_arrive(belljar, workdir, near):
    """Frames are under way for longer than samples are apart, and as the run ends; a host crashes and is back at once."""
    python = lambda code, *args: {"path": "/usr/bin/python3", "args": ["-c", code, *args], "expected_final_state": "any"}
    latency = {"a": "20 ms", "b": near, "c": "50 ms", "d": near}
    (workdir / "experiment.yaml").write_text(yaml.safe_dump({
        "general": {"stop_time": "2 s"}, "belljar": {"metrics": {"interval": "5 ms"}},
        "host_option_defaults": {"pcap_enabled": True},
        "hosts": {"a": {"processes": [python(SEND, "b")]}, "b": {"processes": [python(SERVE)]},
                  "c": {"processes": [python(HOLD, "b")]}, "d": {"processes": []}},
        "switches": ["s"], "links": [{"between": [host, "s"], "latency": latency[host]} for host in latency],
        "events": [{"at": "800 ms", "partition": [["a"], ["b"]], "for": "300 ms"}, {"at": "1900 ms", "partition": [["a"], ["b"]]},
                   {"at": "1300 ms", "crash": "c", "for": "10 ms"}],
    }))
    results = []
    for way in [*WAYS, ["--parallelism", "2", "--cells", "3"]]:
        data = workdir / "data"
        done = execute([belljar, "run", workdir / "experiment.yaml", "-o", data, "--no-progress", *way])
        assert done.status == 0, done
        data.rename(workdir / f"results{len(results)}")
        results.append(contents_of(workdir / f"results{len(results)}"))
        differing = [n for n in sorted({*results[0], *results[-1]}) if results[0].get(n) != results[-1].get(n)]
        assert not differing, f"{way} differs in {differing}"
    rows = list(csv.DictReader(results[0]["metrics/hosts.csv"].decode().splitlines()))
    lost = {float(row["time"].split()[0]): int(row["partition"]) for row in rows if row["host"] == "b"}
    # One frame in about 3 ms: what was under way as it began is lost too, and not before it would arrive.
    assert lost[0.8] == 0 and 0 < lost[0.85] < 25 and lost[max(lost)] == max(lost.values()), lost
    drops = json.loads(results[0]["sim-stats.json"])["hosts"]["b"]["drops"]
    assert drops["partition"] == lost[max(lost)] and max(lost) == 2.0, (drops, lost)
