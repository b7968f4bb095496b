"""The P4 programs of examples/p4: each exercise of the P4 tutorials, completed, and the worked examples."""

import csv
import json
import re
import statistics
import struct

import pytest
from conftest import EXAMPLES, contents_of, execute, frames_of

P4 = EXAMPLES / "p4"
pytestmark = pytest.mark.needs("ip")


@pytest.fixture
def example(run_experiment):
    def run(name, **options):
        return run_experiment(P4 / name / f"{name}.yaml", **options)

    return run


def lines(done, host, program):
    return [line for file in done.streams(host, program) for line in file.read_text().splitlines()]


def is_right(header):
    """True if the checksum of an IP header is."""
    total = sum(struct.unpack(f"!{len(header) // 2}H", header))
    return (total & 0xFFFF) + (total >> 16) in (0xFFFF, 0x1FFFE)


@pytest.mark.needs("ping")
def test_basic(example):
    done = example("basic")
    for host in ("h1", "h2", "h3"):
        pings = [file.read_text() for file in done.streams(host, "ping")]
        assert len(pings) == 2
        for said in pings:
            # Two routers on the way: 64 - 2.
            assert "3 received, 0% packet loss" in said and said.count("ttl=62") == 3, said


def test_basic_tunnel(example):
    done = example("basic_tunnel")
    # The second message is addressed to h3.
    assert lines(done, "h2", "receive.py") == ["routed: 'routed' for 10.1.2.1, ttl 62", "tunnel 2: 'tunnelled' for 10.1.3.1, ttl 64"]
    assert lines(done, "h3", "receive.py") == []


def test_source_routing(example):
    done = example("source_routing")
    assert lines(done, "h2", "receive.py") == ["by ports 3 3 3 2 1: ttl 59", "by ports 2 1: ttl 62"]


def test_calc(example):
    expected = ["1+1 = 2", "3-5 = 4294967294", "0xff & 0x3c = 60", "0xf0 | 0x0f = 255", "6 ^ 3 = 5"]
    assert lines(example("calc"), "h1", "calc.py") == expected


def test_load_balance(example):
    done = example("load_balance")
    # All three packets of a flow go to one server, and each server has a fair part of 100 flows.
    shares = [re.fullmatch(r"(\d+) flows, (\d+) of them whole", lines(done, host, "receive.py")[0]) for host in ("h2", "h3")]
    assert all(share[1] == share[2] and 30 <= int(share[1]) <= 70 for share in shares), shares
    assert sum(int(share[1]) for share in shares) == 100


def test_ecn(example):
    done = example("ecn")
    marks = [(float(at), tos) for at, _, _, tos in map(str.split, lines(done, "h2", "receive.py"))]
    assert len(marks) == 139 or len(marks) == 140, len(marks)
    # The queue grows from 5 s on, and is empty again soon after 10 s.
    assert all(tos == "0x1" for at, tos in marks if at < 5 or at > 12)
    marked = [at for at, tos in marks if tos == "0x3"]
    assert 20 < len(marked) < 60 and 5 < min(marked) < 8, marks


def test_mri(example):
    done = example("mri", pcap=True)
    traces = [re.fullmatch(r"([\d.]+) s2:(\d+) s1:(\d+)", line) for line in lines(done, "h2", "receive.py")]
    assert len(traces) == 140 and all(traces)
    depths = {float(trace[1]): int(trace[3]) for trace in traces}
    assert all(int(trace[2]) == 0 for trace in traces)
    assert all(depth == 0 for at, depth in depths.items() if at < 5 or at > 12)
    assert 25 < max(depths.values()) < 64, depths
    # The checksums cover the traces.
    headers = [frame[14:14 + 4 * (frame[14] & 15)] for frame in frames_of(done.pcap("h2")) if frame[12:15] == b"\x08\0\x4a"]
    assert len(headers) == 140 and all(is_right(header) for header in headers)


def test_qos(example):
    done = example("qos")
    took, tos = zip(*(re.fullmatch(r"([\d.]+) ms tos (0x\w+)", line).groups() for line in lines(done, "h2", "receive.py")))
    assert len(took) == 50 and set(tos) == {"0xb8"}
    # 200 kB at 512 kbit/s; at most one full packet of TCP is before a datagram.
    seconds = float(lines(done, "h11", "load.py")[0].split()[3])
    assert 3.1 < seconds < 4 and max(map(float, took)) < 26, (seconds, took)


def test_firewall(example):
    done = example("firewall")
    assert lines(done, "h1", "connect.py") == ["10.1.2.1: open", "10.1.3.1: open"]
    assert lines(done, "h2", "connect.py") == ["10.1.1.1: closed", "10.1.3.1: open"]
    assert lines(done, "h3", "connect.py") == ["10.1.1.1: closed", "10.1.2.1: open"]


def test_link_monitor(example):
    done = example("link_monitor")
    reports = [re.fullmatch(r"([\d.]+) s(\d):p(\d) ([\d.]+) Mbit/s", line) for line in lines(done, "h1", "probe.py")]
    assert len(reports) > 190 and all(reports)
    busy = [float(r[4]) for r in reports if (r[2], r[3]) == ("1", "2") and 2.2 < float(r[1]) < 3.9]
    idle = [float(r[4]) for r in reports if (r[2], r[3]) != ("1", "2")]
    # 1442 bytes each 0.6 ms.
    assert all(abs(rate - 8 * 1442 / 600) < 0.3 for rate in busy) and max(idle) < 0.1, (busy, max(idle))


@pytest.mark.needs("ping")
def test_multicast(example):
    done = example("multicast", pcap=True)
    pings = [file.read_text() for file in done.streams("h1", "ping")]
    assert len(pings) == 3 and all("2 received, 0% packet loss" in said for said in pings), pings
    # The three questions of h1 went to all others and not back.
    assert (done.path / "switches/s1/p4.pcap").stat().st_size > 24


def test_telemetry(example):
    done = example("telemetry")
    reports = list(csv.DictReader(lines(done, "h2", "probe.py")))
    probes = {}
    for report in reports:
        probes.setdefault(float(report["sent_us"]), []).append(report)
    # A probe is lost only where a full queue dropped a packet, and such drops are counted.
    switches = json.loads((done.path / "sim-stats.json").read_text())["p4_switches"].values()
    dropped = sum(switch["drops"].get("queue_full", 0) for switch in switches)
    assert 0 <= 500 - len(probes) <= dropped < 10 and all([r["switch"] for r in hops] == ["s1", "s2", "s3"] for hops in probes.values())
    longest = {"s1": 0, "s2": 0, "s3": 0}
    for sent, hops in probes.items():
        waited = 0
        for report in hops:
            wait = int(report["egress_us"]) - int(report["ingress_us"])
            waited += wait
            longest[report["switch"]] = max(longest[report["switch"]], wait)
        # One clock for all: what is not waiting is the way, the same for all probes but for the bytes of one frame.
        way = float(hops[0]["received_us"]) - sent - waited
        assert 2_000 < way < 3_500, (sent, way)
    # Bursts of 12 Mbit/s over links of 10 Mbit/s for 0.3 s, and the third switch never has to queue.
    assert 50_000 < longest["s1"] < 75_000 and 50_000 < longest["s2"] < 75_000 and longest["s3"] == 0, longest


def bursts(done):
    return sorted(float(line) for n in range(1, 5) for line in lines(done, f"h{n}", "bursts.py"))


def test_flowlet(example):
    by_flow = ["--set", 'switches.leaf1.runtime=["leaf1-runtime.json", "by-flow.json"]',
               "--set", 'switches.leaf2.runtime=["leaf2-runtime.json", "by-flow.json"]']
    flows, flowlets = [], []
    for seed in (1, 2, 3):
        flowlets += bursts(example("flowlet", seed=seed))
        flows += bursts(example("flowlet", seed=seed, args=by_flow))
    assert len(flows) == len(flowlets) == 1200
    # A burst alone takes 60 kB at 40 Mbit/s, 12 ms and a bit; flows that share a path for good take much longer.
    assert 12 < flowlets[0] < 15 and statistics.mean(flowlets) < statistics.mean(flows), (statistics.mean(flowlets), statistics.mean(flows))


@pytest.mark.needs("ping")
def test_dctcp(example):
    done = example("dctcp")
    rates = [float(lines(done, host, "stream.py")[0].split()[0]) for host in ("h3", "h4")]
    assert 850 < sum(rates) < 960, rates
    # 20 packets of 1514 bytes wait 0.24 ms; the way itself takes 0.5 ms and the queue of 250 would take 3 ms.
    mean = float(lines(done, "h1", "ping")[-1].split("/")[-3])
    assert 0.5 < mean < 1.0, mean


def test_syn_flood(example):
    def opened(done):
        return [line.split()[1] for line in lines(done, "h1", "client.py")]

    filtered = opened(example("syn_flood"))
    assert len(filtered) == 100 and "failed" not in filtered and sum(float(took) > 0.5 for took in filtered) <= 11, filtered
    bare = opened(example("syn_flood", args=["--set", 'switches.s1.runtime=["s1-runtime.json"]']))
    assert bare.count("failed") > 50, bare


@pytest.mark.parametrize("name", ["ecn", "flowlet"])
def test_runs_are_alike(belljar, workdir, name):
    contents = []
    for workers in ("1", "2"):
        data = workdir / f"{name}-{workers}.data"
        done = execute([belljar, "run", P4 / name / f"{name}.yaml", "-o", data, "--parallelism", workers])
        assert done.status == 0, done
        found = contents_of(data)
        found.pop("processed-config.yaml")
        contents.append(found)
    assert contents[0] == contents[1]


@pytest.mark.parametrize("program", sorted(P4.glob("*/*.p4")), ids=lambda path: path.stem)
def test_programs_compile(belljar, workdir, program):
    done = execute([belljar, "p4", "build", program, "-o", workdir / "out.json", "--p4info", workdir / "out.txtpb"])
    assert done.status == 0 and (workdir / "out.txtpb").stat().st_size > 0, done


@pytest.fixture(scope="session")
def nopaxos_program():
    if execute(["make", "-C", EXAMPLES, "built/nopaxos"]).status != 0:
        pytest.skip("no C compiler")


def agreed(example, protocol, sequencer, clients, *more, seconds=0.03):
    """Throughput and mean latency of so many clients, and what the replicas say of their logs."""
    settings = [f"switches.s1.runtime=[s1-runtime.json, by-{sequencer}.json]"]
    settings += [f"hosts.r{n}.processes.0.args=replica {protocol} {n}" for n in (1, 2, 3)]
    settings += [f"hosts.c{n}.processes.0.args=client {protocol} {seconds}" for n in range(1, clients + 1)]
    settings += [f"hosts.c{n}.processes=[]" for n in range(clients + 1, 13)]
    done = example("nopaxos", args=[word for setting in [*settings, *more] for word in ("--set", setting)])
    said = [lines(done, f"c{n}", "nopaxos")[0].replace(",", "").split() for n in range(1, clients + 1)]
    rates, latencies = [float(words[0]) for words in said], [float(words[3]) for words in said]
    resent = sum(int(words[-3]) for words in said)
    rate = sum(rates)
    latency = sum(rate * latency for rate, latency in zip(rates, latencies)) / rate
    return rate, latency, resent, [lines(done, f"r{n}", "nopaxos") for n in (1, 2, 3)]


def are_equal(logs):
    """True if the logs are, as far as they all go."""
    digests = [dict(line.split(": ") for line in log[1:]) for log in logs]
    common = set(digests[0]) & set(digests[1]) & set(digests[2])
    assert len(common) > 1
    return all(own[slot] == digests[0][slot] for own in digests for slot in common)


def test_nopaxos(example, nopaxos_program):
    alone, saturated = {}, {}
    for name, protocol, sequencer, many in (("switch", "nopaxos", "switch", 8), ("host", "nopaxos", "host", 8), ("paxos", "paxos", "switch", 4)):
        _, alone[name], resent, _ = agreed(example, protocol, sequencer, 1)
        saturated[name], _, resent_too, logs = agreed(example, protocol, sequencer, many)
        assert resent == resent_too == 0 and are_equal(logs) and all("0 of them no-ops" in log[0] for log in logs), logs
    # A sequencer on a host costs latency, not throughput; Multi-Paxos is worse in both, by about what SimBricks found.
    assert 1.15 < alone["host"] / alone["switch"] < 1.4 and 1.3 < alone["paxos"] / alone["switch"] < 1.9, alone
    assert saturated["host"] / saturated["switch"] == pytest.approx(1, abs=0.04), saturated
    assert 3 < saturated["switch"] / saturated["paxos"] < 4.5, saturated
    assert 36 < alone["switch"] < 41 and 76_000 < saturated["switch"] < 80_000, (alone, saturated)


def test_nopaxos_agrees_on_what_is_lost(example, nopaxos_program):
    lossy = [f"links.{n}.packet_loss=0.01" for n in (0, 1)]
    _, _, resent, logs = agreed(example, "nopaxos", "switch", 4, *lossy, seconds=0.15)
    assert are_equal(logs) and resent > 0, logs
    holes = [int(log[0].split()[4]) for log in logs]
    # Where the leader had lost a request, all have a no-op; where another had, it has asked for it.
    assert holes[0] > 5 and all(abs(own - holes[0]) <= 2 for own in holes), logs
