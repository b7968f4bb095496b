"""Random experiments, in which the world changes, give the same bytes for every number of workers, with hosts stolen and
not, near, far and mixed.

A failure names the seed; `BELLJAR_DETERMINISM_SEED=<seed> ./test -k workers` draws that experiment alone, and
`BELLJAR_DETERMINISM_COUNT` says how many are drawn (six; --all draws 60)."""

import os
import pathlib
import random
import re

import pytest
import yaml
from compiling import compile_newer
from conftest import TARGET, contents_of, execute

from . import extra
from .extra import pick_latency

FIRST = 1
# Seeds without --all: what they draw has everything in it (test_what_is_drawn_has_everything_in_it).
FEW, LARGE = (2, 4, 11, 14, 17, 24), 60

# Workers, stealing, pinning, where guests run. The first is what the others are held against.
WAYS = [
    (1, True, False, "auto"), (2, True, False, "auto"), (2, False, False, "auto"), (2, True, True, "near"), (3, True, False, "mixed"),
    (2, True, False, "far"),
]

PYTHON = """
import asyncio, os, random, socket, sys, time
async def main(host, port, count):
    for i in range(count):
        try:
            reader, writer = await asyncio.wait_for(asyncio.open_connection(host, port), 5)
            writer.write(os.urandom(random.randrange(1, 5000)))
            writer.write_eof()
            print(time.time_ns(), await asyncio.wait_for(reader.read(), 20), id(reader))
            writer.close()
        except (OSError, asyncio.TimeoutError) as error:
            print(time.time_ns(), repr(error))
        await asyncio.sleep(random.random() / 10)
asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
"""


@pytest.fixture(scope="module")
def program():
    source = pathlib.Path(__file__).with_name("programs.c")
    out = TARGET / "test-work" / "determinism-programs"
    compile_newer(out, ["gcc", "-O1", "-Wall", "-Wextra", "-pthread"], source)
    return out


def draw_graph(draw):
    """A connected graph, now and then of close pairs that are far from each other."""
    nodes = draw.randrange(1, 9)
    text = f"graph [ directed {int(draw.random() < 0.15)}\n"
    directed = "directed 1" in text
    for n in range(nodes):
        rate = draw.choice(["2 Mbit", "20 Mbit", "1 Gbit", "1 Gbit"])
        text += f'node [ id {n} host_bandwidth_up "{rate}" host_bandwidth_down "{rate}" ]\n'
    pairs = [(n, n) for n in range(nodes)] + [(draw.randrange(n), n) for n in range(1, nodes)]
    pairs += [tuple(sorted(draw.sample(range(nodes), 2))) for _ in range(nodes // 2)]
    clusters = draw.random() < 0.3
    for a, b in sorted(set(pairs)):
        close = a // 2 == b // 2
        latency = (draw.randrange(10, 40) if close else draw.randrange(5000, 50000)) if clusters else pick_latency(draw)
        jitter = draw.randrange(latency) if draw.random() < 0.3 else 0
        loss = draw.choice([0, 0, 0.001, 0.02, 0.1])
        for source, target in {(a, b), (b, a)} if directed else {(a, b)}:
            text += f'edge [ source {source} target {target} latency "{latency} us" jitter "{jitter} us" packet_loss {loss} ]\n'
    return text + "]", nodes


def draw_events(draw, hosts, gml):
    """What happens at times and by the seed: now and then nothing at all."""
    edges = re.findall(r"edge \[ source (\d+) target (\d+)", gml)

    def time(least, most):
        return f"{draw.randrange(least, most)} ms"

    def some():
        return draw.choice([draw.choice(hosts), draw.sample(hosts, draw.randrange(1, len(hosts) + 1)), "client*", {"one_of": "all"}])

    def link():
        ends = [int(n) for n in draw.choice(edges)]
        return draw.choice([[draw.choice(hosts), "all"], {"from": some(), "to": "server*"}, {"edge": ends}])

    def one():
        kind = draw.choice(["link_down", "link_change", "partition", "bandwidth", "crash", "clock", "drift", "signal", "dns_down", "start"])
        ends = {"for": time(50, 1500)}
        if kind == "link_down":
            return {kind: link(), **ends}
        if kind == "link_change":
            latency = draw.choice([{}, {"latency": f"{pick_latency(draw)} us"}])
            return {kind: link(), **latency, "packet_loss": draw.choice([0.0, 0.2]), **ends}
        if kind == "partition":
            return {kind: [[draw.choice(hosts)]], **ends}
        if kind == "bandwidth":
            return {kind: some(), "up": draw.choice(["500 Kbit", "unlimited"]), "down": "2 Mbit", **ends}
        if kind == "crash":
            return {kind: some(), "files": draw.choice(["kept", "lost"]), **ends}
        if kind == "clock":
            return {kind: some(), "step": f"{draw.randrange(-3000, 3000)} ms"}
        if kind == "drift":
            return {"clock": some(), "drift_ppm": draw.randrange(-80000, 80000), **ends}
        if kind == "signal":
            return {kind: draw.choice(["SIGSTOP", "SIGCONT", "SIGTERM"]), "hosts": some()}
        return {kind: "all", **ends} if kind == "dns_down" else {kind: 0, "hosts": some()}

    events = [{"at": time(100, 4000), **one()} for _ in range(draw.choice([0, 2, 5]))]
    for _ in range(draw.choice([0, 1])):
        begin = draw.randrange(100, 2000)
        between = [f"{begin} ms", f"{begin + draw.randrange(2000)} ms"]
        events.append({"every": time(100, 700), "between": between, "probability": round(draw.random(), 2), "name": "monkey", **one()})
    return events


def draw_experiment(seed, program):
    draw = random.Random(seed)
    gml, nodes = draw_graph(draw)
    servers, hosts = draw.randrange(1, 4), {}

    def process(*args, path=program, **more):
        start = f"{draw.choice([0, 1000, draw.randrange(3000)])} ms"
        return {"path": str(path), "args": [str(a) for a in args], "start_time": start, "expected_final_state": "any", **more}

    def client():
        server = f"server{draw.randrange(servers)}"
        kind = draw.randrange(9)
        if kind < 3:
            return process("tcp-client", server, 80, round(10 ** (6 * draw.random())), draw.choice([0, 10, 1000]))
        if kind < 5:
            return process("udp-client", server, 53, draw.randrange(1, 60), draw.choice([1000, 7000, 40000]))
        if kind == 5:
            return process("family", draw.randrange(1, 4))
        if kind == 6:
            return process("threads", draw.randrange(2, 9), draw.randrange(1, 20))
        if kind == 7:
            return process("spin", draw.randrange(500, 5000))
        return process("-c", PYTHON, server, 80, draw.randrange(1, 6), path="/usr/bin/python3")

    for n in range(servers):
        more = {"shutdown_time": f"{draw.randrange(4000, 9000)} ms"} if draw.random() < 0.3 else {}
        serving = [process("tcp-server", 80, **more), process("udp-echo", 53)]
        for one in serving:
            one["start_time"] = "0 s"
        hosts[f"server{n}"] = {"network_node_id": draw.randrange(nodes), "processes": serving}
    for n in range(draw.randrange(1, 9)):
        options = {"network_node_id": draw.randrange(nodes), "processes": [client() for _ in range(draw.randrange(1, 4))]}
        hosts[f"client{n}"] = options
    # After all events.
    general = {"stop_time": f"{draw.randrange(4001, 12000)} ms", "seed": seed}
    if draw.random() < 0.3:
        general["bootstrap_end_time"] = f"{draw.randrange(1, 2000)} ms"
    general["model_unblocked_syscall_latency"] = draw.random() < 0.3
    wild = random.Random(f"events {seed}")
    for host in hosts.values():
        if wild.random() < 0.3:
            host["clock"] = {"offset": f"{wild.randrange(-5000, 5000)} ms", "drift_ppm": wild.randrange(-50000, 50000)}
        # As it is where places are mixed; otherwise the command decides.
        for one in host["processes"]:
            one["placement"] = wild.choice(["near", "far", "auto"])
    drawn = {
        "events": draw_events(wild, sorted(hosts), gml),
        "general": general,
        "network": {"graph": {"type": "gml", "inline": gml}},
        "experimental": {"strace_logging_mode": draw.choice(["off", "standard"])},
        "host_option_defaults": {"pcap_enabled": True},
        "hosts": hosts,
    }

    def own(*args):
        return {"path": str(program), "args": [str(a) for a in args], "expected_final_state": "any", "placement": wild.choice(["near", "far", "auto"])}

    return extra.add(seed, drawn, nodes, own)


def seeds():
    if one := os.environ.get("BELLJAR_DETERMINISM_SEED"):
        return [int(one)]
    if count := os.environ.get("BELLJAR_DETERMINISM_COUNT"):
        return range(FIRST, FIRST + int(count))
    return [pytest.param(seed, marks=[] if seed in FEW else [pytest.mark.slow]) for seed in range(FIRST, FIRST + LARGE)]


@pytest.mark.parametrize("seed", seeds())
def test_workers_make_no_difference(belljar, workdir, program, seed):
    (workdir / "experiment.yaml").write_text(yaml.safe_dump(draw_experiment(seed, program), sort_keys=False))
    results = {}
    for workers, stealing, pinning, placement in WAYS:
        # The folder's name is where guests start: the same for all.
        data = workdir / "data"
        command = [belljar, "run", workdir / "experiment.yaml", "-o", data, "--no-progress", "--parallelism", workers]
        command += ["--stealing", str(stealing).lower(), "--pinning", str(pinning).lower()]
        command += [] if placement == "mixed" else ["--placement", placement]
        done = execute(command)
        # 1: something did not end as expected, such as a program whose server was shut down.
        assert done.status in (0, 1) and "processes" in done.out, f"seed {seed}: {done}"
        folder = workdir / f"workers{workers}-{'stealing' if stealing else 'own'}-{'pinned' if pinning else 'free'}-{placement}"
        data.rename(folder)
        results[folder.name] = contents_of(folder)
        # It says where guests run.
        del results[folder.name]["processed-config.yaml"]
    first, *others = results
    assert any(name.endswith(".pcap") and len(b) > 24 for name, b in results[first].items()) or len(results[first]) > 3
    for other in others:
        if results[other]["manifest.sha256"] != results[first]["manifest.sha256"]:
            pytest.skip("files of this machine, such as /etc/ld.so.cache, were changed meanwhile")
        differing = [n for n in sorted({*results[first], *results[other]}) if results[first].get(n) != results[other].get(n)]
        assert not differing, f"seed {seed}: {first} and {other} differ in {differing}: ./belljar diff {workdir / first} {workdir / other}"


def test_what_is_drawn_has_everything_in_it():
    drawn = [draw_experiment(seed, "program") for seed in FEW]
    texts = [e["network"]["graph"]["inline"] for e in drawn]
    latencies = [int(us) for text in texts for us in re.findall(r'latency "(\d+) us"', text)]
    assert min(latencies) < 20 and max(latencies) > 40_000
    assert any("packet_loss 0.1" in text for text in texts) and any("directed 1" in text for text in texts)
    assert any(int(us) > 0 for text in texts for us in re.findall(r'jitter "(\d+) us"', text))
    processes = [p for e in drawn for host in e["hosts"].values() for p in host["processes"]]
    assert {p["args"][0] for p in processes if "args" in p} >= {"tcp-server", "tcp-client", "udp-client", "family", "threads", "spin", "-c"}
    assert {p["placement"] for p in processes if "placement" in p} == {"near", "far", "auto"}
    happens = {key for e in drawn for event in e["events"] for key in event}
    assert happens >= {"at", "every", "for", "link_down", "link_change", "partition", "bandwidth", "crash", "clock", "step", "drift_ppm",
                       "signal", "dns_down", "start"}, happens
    assert any("edge" in event[key] for e in drawn for event in e["events"] for key in ("link_down", "link_change") if key in event)
    models = {p["model"]["type"] for p in processes if "model" in p}
    assert models >= {"http", "http_server", "bulk", "sink", "on_off", "dns"} and happens >= {"start", "stop"}
    assert any(p["start_time"] == "never" for p in processes)
    linked = [e for e in drawn if "links" in e]
    assert 3 <= len(linked) < len(FEW) and any("routers" in e for e in linked) and any(len(e["switches"]) == 2 for e in linked)
    lines = [link for e in linked for link in e["links"]]
    latencies = [int(link["latency"].removesuffix(" us")) for link in lines]
    assert min(latencies) < 30 and max(latencies) > 20_000 and {"jitter", "packet_loss", "queue", "reverse"} <= {key for link in lines for key in link}
    assert any(isinstance(event.get(kind), str) for e in linked for event in e["events"] for kind in ("link_down", "link_change"))
    assert any("belljar" in e for e in drawn) and any("pcap_filter" in e["host_option_defaults"] for e in drawn)
    assert any("clock" in host for e in drawn for host in e["hosts"].values())
    assert any(not draw_experiment(FIRST + n, "program")["events"] for n in range(LARGE))


def test_the_bootstrap_knows_no_bandwidth_and_no_loss(run_experiment, program):
    """1,000 bytes at 1 Mbit/s take milliseconds, and a fifth of all packets is lost: but not before the third second."""
    gml = 'graph [ node [ id 0 host_bandwidth_up "1 Mbit" host_bandwidth_down "1 Mbit" ] ' \
          'edge [ source 0 target 0 latency "10 ms" packet_loss 0.2 ] ]'
    client = {"path": str(program), "args": "udp-client server 53 50 50000", "start_time": "1 s"}
    done = run_experiment({
        "general": {"stop_time": "10 s", "bootstrap_end_time": "3 s"},
        "network": {"graph": {"type": "gml", "inline": gml}},
        "hosts": {
            "server": {"network_node_id": 0, "processes": [{"path": str(program), "args": "udp-echo 53", "expected_final_state": "running"}]},
            "client": {"network_node_id": 0, "processes": [client]},
        },
    })
    trips = [int(line.split()[-1]) for line in done.text("client").splitlines()]
    # A round every 120 ms: up to 50 ms for an answer beyond the first, then a pause.
    early = [t for t in trips if t == 20_000_000]
    assert len(early) >= 15 and trips[: len(early)] == early
    assert len(trips) < 50 and min(trips[len(early) :]) > 24_000_000
