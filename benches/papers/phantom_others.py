"""The Phantom paper's comparisons with other tools (section 5.4), and its Tor networks."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

import p2p
from common import BUILT, ROOT, belljar, compile_newer, environment, measure, results_folder

from . import messages
from .claims import Claim, Plot, Result, Row, Size, experiment, number, progress, slope

HERE = pathlib.Path(__file__).parent


def _emulated(peers: int, count: int, seconds: int) -> int:
    """Messages received on this machine's kernel, in real time."""
    text = p2p.experiment(messages.program(), messages.settings(peers, count, weights="uniform"), seconds)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=results_folder()) as folder:
        file = pathlib.Path(folder, "experiment.yaml")
        file.write_text(text)
        # An overloaded machine makes the emulation's verdict bad, which is what is measured.
        done = subprocess.run([belljar(), "emulate", file, "-o", f"{folder}/data", "--no-progress"], capture_output=True, text=True, timeout=600)
        counts = [p2p.COUNT.search(path.read_text()) for path in pathlib.Path(folder).glob("data/hosts/*/p2p*.stdout")]
        if not any(counts):
            raise RuntimeError(f"belljar emulate: {done.stderr.strip() or done.stdout.strip()}")
        return sum(int(found[2]) for found in counts if found)


@experiment("phantom-mininet", "figure 14", minutes=3, root=True, full="10 to 1,000 hosts with 100 messages each for 10 s.", differs="""
    `belljar emulate` stands for Mininet: the same program in namespaces of this machine's kernel, in real time, with the latency of the graph. Mininet's own switches are
    not measured. The rate at which two cores are full is lower than on the paper's machine.""")
def mininet(size: Size) -> Result:
    """Messages a second of a fixed load for each host: simulated, and on the real kernel in real time."""
    hosts = size.pick([2, 4], [10, 40, 160, 320], [10, 30, 100, 300, 1000])
    count, seconds = size.pick((2, 1), (100, 3), (100, 10))
    rates: dict[str, list[tuple[int, float]]] = {"simulated": [], "real kernel": [], "expected": []}
    for peers in hosts:
        rates["simulated"].append((peers, messages.run(peers, count, seconds, weights="uniform")[0] / seconds))
        rates["real kernel"].append((peers, _emulated(peers, count, seconds) / seconds))
        # The first arrive after 50 ms, and what is under way at the end has not arrived.
        rates["expected"].append((peers, peers * count * (20 * seconds - 1) / seconds))
        progress(f"{peers} hosts: " + ", ".join(f"{name} {values[-1][1]:,.0f} messages a second" for name, values in rates.items()))
    share = {name: values[-1][1] / rates["expected"][-1][1] for name, values in rates.items()}
    worst = min(ours[1] / wanted[1] for ours, wanted in zip(rates["simulated"], rates["expected"]))
    return Result(
        [Row(f"received of what is expected, simulated, {hosts[-1]} hosts", "all", f"{share['simulated']:.1%}"),
         Row(f"received of what is expected, real kernel, {hosts[-1]} hosts", "falls with the hosts", f"{share['real kernel']:.1%}")],
        [Claim("the simulation delivers the expected messages at any number of hosts", worst > 0.97),
         Claim("the real kernel falls behind as hosts are added", share["real kernel"] < 0.8, timed=True)],
        Plot("hosts", "messages a second", [(name, *point) for name, values in rates.items() for point in values], log_x=True, log_y=True))


def _ns3(peers: int, count: int, seconds: int) -> tuple[int, float, float]:
    """Messages received, and CPU and wall seconds, of the same load as applications in ns-3."""
    program = BUILT / "ns3-p2p"
    libraries = [f"-lns3-{name}" for name in ("point-to-point", "traffic-control", "internet", "network", "core")]
    compile_newer(program, ["g++", "-std=c++17", "-O2"], HERE / "ns3_p2p.cc", libraries=libraries)
    said, usage = measure([program, peers, count, seconds])
    return int(said.split()[1]), usage.cpu, usage.wall


@experiment("phantom-ns3", "figure 15", minutes=3, needs=("g++", "/usr/include/ns3/point-to-point-module.h:libns3-dev"), full="10 to 1,000 hosts with 100 messages each for 10 s.", differs="""
    ns-3 is Debian's, sequential; the paper's runs in parallel over MPI. Costs are CPU a message, which is what the paper's normalisation amounts to. gRaIL and Shadow are not measured.""")
def ns3(size: Size) -> Result:
    """The same messages by real programs in Belljar and by applications in ns-3, uniform weights, 50 ms."""
    hosts = size.pick([4, 8], [10, 100, 400], [10, 100, 1000])
    count, seconds = size.pick((2, 1), (20, 3), (100, 9))
    costs: dict[str, list[tuple[int, float]]] = {"Belljar": [], "ns-3": []}
    for peers in hosts:
        costs["Belljar"].append((peers, messages.cost(peers, count, seconds, weights="uniform")))
        short, long = (_ns3(peers, count, span) for span in (1, 1 + seconds))
        costs["ns-3"].append((peers, (long[1] - short[1]) / (long[0] - short[0]) * 1e6))
        progress(f"{peers} hosts: " + ", ".join(f"{name} {values[-1][1]:.2f} us a message" for name, values in costs.items()))
    ratio = costs["ns-3"][-1][1] / costs["Belljar"][-1][1]
    return Result(
        [Row("ns-3's cost to ours, most hosts", "3.4 times Phantom's, on all cores", f"{ratio:.1f} times"),
         *(Row(f"CPU a message, {peers} hosts: Belljar, ns-3", "", f"{number(ours, 'us')}, {number(theirs, 'us')}")
           for (peers, ours), (_, theirs) in zip(costs["Belljar"], costs["ns-3"]))],
        [Claim("real programs cost less than models in ns-3", ratio > 1, timed=True)],
        Plot("hosts", "CPU a message / us", [(name, *point) for name, values in costs.items() for point in values], log_x=True))


#: Table 2: name, the compiler's flags beside the source of that name, Phantom's mark.
PROPERTIES = [
    ("multiple threads", ["-DTHREADS", "-pthread"], "works"),
    ("multiple processes", ["-DPROCESSES"], "supported by the architecture"),
    ("not position-independent", ["-no-pie", "-fno-pie"], "works"),
    ("not dynamically linked to libc", ["-DBARE", "-nostdlib", "-static"], "works"),
    ("symbols not exported to the dynamic symbol table", ["-s", "-fvisibility=hidden"], "works"),
    ("system calls in statically linked code", ["-static-pie"], "works"),
    ("system calls in assembly", ["-DASSEMBLY"], "works"),
    ("100 % statically linked, at a fixed address", ["-static", "-no-pie"], "supported by the architecture"),
]


@experiment("phantom-programs", "table 2", minutes=1, needs=("gcc",), full="the same.", differs="""
    Each property is a program of ours (properties.c), compiled accordingly, that sends itself a datagram over 50 ms and reads the clock. It runs natively, near and far, with the same output.
    `docs/compatibility.md` lists the programs of others that have been tried.""")
def programs(size: Size) -> Result:
    """Properties of applications that hybrid simulators support."""
    rows, works = [], []
    for number_, (name, flags, paper) in enumerate(PROPERTIES):
        program = BUILT / f"property-{number_}"
        compile_newer(program, ["gcc", "-std=gnu11", "-O1", "-Wall", *flags], HERE / "properties.c")
        native = subprocess.run([program], capture_output=True, text=True, timeout=60)
        ours = {place: subprocess.run([belljar(), "exec", "--placement", place, "--", program], capture_output=True, text=True, timeout=120) for place in ("auto", "far")}
        right = {place: done.stdout == native.stdout and done.returncode == native.returncode == 0 for place, done in ours.items()}
        works.append(all(right.values()))
        rows.append(Row(name, paper, "works" if works[-1] else f"fails: {', '.join(place for place, good in right.items() if not good)}"))
        progress(f"{name}: {rows[-1].ours}")
    return Result(rows, [Claim("every property of table 2 is supported", all(works))])


#: Table 3: tors of the networks of 5 %, 10 % and 30 %, and what Phantom takes for 60 simulated minutes: hours with 32 cores, and GiB.
SCALES = {"5 %": (785, None, 161), "10 %": (1565, 9, 325), "30 %": (4690, 27, 1032)}


@dataclasses.dataclass
class TorRun:
    """Tors, downloads through circuits that succeeded, and the cost of a run."""

    tors: int
    downloads: int
    cpu: float
    wall: float
    gib: float


def tor_network(folder: pathlib.Path, clients: int, relays: int, seconds: int, fetch_before: int = 60) -> TorRun:
    """A run of a Tor network whose clients fetch two files each, from so many seconds before the end."""
    network, data = folder / f"tor{clients}", folder / f"data{clients}"
    with environment(BELLJAR_BIN=belljar()):
        measure([sys.executable, ROOT / "examples" / "tor" / "network.py", network, "--clients", clients, "--relays", relays,
                 "--stop-time", f"{seconds} s", "--fetch-at", f"{seconds - fetch_before} s"])
    text = json.loads((network / "network.yaml").read_text())
    for process in (process for host in text["hosts"].values() for process in host["processes"] if process["path"].endswith("/curl")):
        # A download that fails counts as one, and does not fail the run.
        process["expected_final_state"] = "any"
    (network / "network.yaml").write_text(json.dumps(text))
    _, usage = measure([belljar(), "run", network / "network.yaml", "-o", data, "--no-progress"], private=True)
    got = sum(" 200 " in path.read_text() for path in data.glob("hosts/client*/curl.*.stdout"))
    tors = len(list(data.glob("hosts/*/tor.*.stdout")))
    shutil.rmtree(data)
    return TorRun(tors, got, usage.cpu, usage.wall, (usage.private_kib or 0) / (1 << 20))


@experiment("phantom-tor", "table 3, figure 23", minutes=5, needs=("tor", "tor-gencert:tor", "curl"), full="networks of 100, 200 and 400 tors.", differs="""
    Networks are those of `examples/tor/network.py`, of Debian's tor with curl as the traffic, not those of tornettools, and cover three minutes. Times and memory at the paper's scales are extrapolated
    from the slope over tors; a network that carries the paper's 12 to 74 Gbit/s takes more time than ours, which are mostly idle, so only memory is compared.
    Figure 13 compares Phantom with Shadow on the stack that they share, which has no counterpart here.""")
def tor(size: Size) -> Result:
    """Networks of real tors: time and memory over their number, and what follows for 5 %, 10 % and 30 % of the public network."""
    networks = size.pick([(1, 5)], [(4, 6), (16, 12), (32, 24)], [(60, 36), (120, 76), (240, 156)])
    seconds = size.pick(110, 180, 180)
    rows = []
    with tempfile.TemporaryDirectory(prefix="bench-", dir=results_folder()) as folder:
        for clients, relays in networks:
            run = tor_network(pathlib.Path(folder), clients, relays, seconds)
            rows.append((run.tors, run.downloads / (2 * clients), run.cpu, run.gib))
            progress(f"{run.tors} tors: {run.downloads} of {2 * clients} downloads, {run.cpu:.1f} s of CPU, {run.gib:.2f} GiB")
    per_gib = slope([(tors, gib) for tors, _, _, gib in rows]) if len(rows) > 1 else rows[0][3] / rows[0][0]
    per_cpu = slope([(tors, cpu) for tors, _, cpu, _ in rows]) if len(rows) > 1 else rows[0][2] / rows[0][0]
    return Result(
        [Row("downloads through circuits and from an onion service that succeed", "", f"{min(share for _, share, _, _ in rows):.0%}"),
         Row("memory of a tor", "210 to 225 MiB, with its traffic", number(per_gib * 1024, "MiB")),
         Row("CPU of a tor and simulated minute", "", number(per_cpu / seconds * 60, "s")),
         *(Row(f"network of {scale}, {tors} tors: memory", f"{gib:,} GiB", number(tors * per_gib, "GiB, extrapolated")) for scale, (tors, _, gib) in SCALES.items())],
        [Claim("unmodified tors bootstrap and carry traffic", all(share > 0.9 for _, share, _, _ in rows)),
         Claim("a network of the same number of tors takes less memory than Phantom", 0 < per_gib < 1032 / 4690, timed=True)],
        Plot("tors", "CPU / s, memory / GiB", [(name, row[0], row[n]) for n, name in ((2, "CPU"), (3, "memory")) for row in rows], log_y=True))
