#!/usr/bin/env python3
"""Everything that speed and scale are judged by, in one run.

Each case has several variants, which take turns; a variant's cost is CPU of all its processes measured from outside, as
the slope between a short and a long run (so start-up does not count, but where start-up is the case). The first variant
of a case is what the others are divided by, turn by turn; the table shows the medians of both.

First every case has a turn, then those that still end within --minutes have another, until each has had --repeat. Ctrl-C
ends it with what has been measured by then; a case that fails is named at the end, and the exit status is 1. A case that
needs a program that is not installed is left out, with the reason.

Of hosts x messages x weights x placement x workers x cells it takes what shows the influence of each: all messages with one
kind of weights, all weights with 10 messages and with 1, which is the dearest, everything else once for each number of hosts;
--full takes the product. --scale makes all of it smaller or larger, --cases takes some of it, --quick some minutes' worth.
"""

import argparse
import fnmatch
import functools
import itertools
import json
import os
import pathlib
import platform
import shutil
import signal
import subprocess
import sys
from types import SimpleNamespace as Settings

import hosts as startup
import p2p
import pgbench
import tcp_matrix
from common import BUILT, ROOT, belljar, compile_c, environment, measure, remove, run_experiment, wait_for_listener, warm_memory
from tables import markdown
from turns import Case, measure_all

HERE = ROOT / "benches" / "report"
LOGGED = 2_700  # bytes of captures and logs a message
IN_FLIGHT = 100_000  # in all, at most: each goes round 20 times a second
SHARED_MEMORY, ENOUGH = pathlib.Path("/dev/shm"), 8 << 30


def slope(cpu, n):
    """Microseconds of CPU for each of `n` more."""
    return (cpu(2 * n) - cpu(n)) / n * 1e6


# The peer-to-peer program


def warm_for_logs(n, seconds):
    """Has the memory touched that captures and logs of a run take: messages go round 20 times a second."""
    warm_memory(seconds * n.peers * n.messages * 20 * LOGGED)


def p2p_cost(a, peers, messages, weights="exp", placement=None, cells=1, logging=False, static=False, **env):
    """Microseconds of CPU per message under Belljar."""
    program = compile_c(p2p.SOURCE, "p2p-static" if static else "p2p", *(["-static-pie"] if static else []))
    n = Settings(peers=peers, messages=messages, weights=weights, seed=1, cells=cells, placement=placement, logging=logging)
    # Many hosts take long to start, and what differs there between two runs is not to count.
    wanted = a.scale * (200_000 if placement == "far" or logging else max(1_000_000, 300 * peers))
    # Messages go round 20 times a second.
    longer = max(1, round(wanted / (peers * messages * 20)))
    with environment(**env):
        if logging:
            warm_for_logs(n, 1 + longer)
        short, long = (p2p.simulated(program, n, seconds) for seconds in (1, 1 + longer))
    return p2p.slope(short, long)


def p2p_native(a):
    """The same over native loopback, once a turn for each shape."""
    @functools.cache
    def cost(peers, messages, weights, turn):
        program = compile_c(p2p.SOURCE, "p2p")
        n = Settings(peers=peers, messages=messages, weights=weights, seed=1)
        return p2p.slope(*p2p.native_pair(program, n, (1, 1 + max(1, round(2 * a.scale)))))

    return cost


def p2p_wall(a, peers, latency, workers, stealing="true", pinning=None, weights="uniform"):
    """Seconds of one run, of one or two million messages."""
    program = compile_c(p2p.SOURCE, "p2p")
    messages, seconds = (50, max(1, round(a.scale * 10))) if latency == "50 ms" else (1, 1)
    n = Settings(peers=peers, messages=messages, weights=weights, seed=1)
    text = p2p.experiment(program, n, seconds).replace('latency "50 ms"', f'latency "{latency}"')
    with environment(BELLJAR_PARALLELISM=workers):
        results, usage = run_experiment(text, "--stealing", stealing, *(["--pinning", pinning] if pinning is not None else []))
    remove(results)
    return usage.wall


def p2p_on_disk(a, workers, logging):
    """Seconds of one run of 1.1 million messages, its results in the target directory."""
    seconds = max(1, round(a.scale * 6))
    n = Settings(peers=100, messages=100, weights="exp", seed=1, cells=1, placement=None, logging=logging)
    with environment(BELLJAR_PARALLELISM=workers, BELLJAR_BENCH_RESULTS=BUILT):
        warm_for_logs(n, seconds)
        _, _, wall = p2p.simulated(compile_c(p2p.SOURCE, "p2p"), n, seconds)
    return wall


def p2p_shapes(a, peers):
    """Pairs of messages in flight per host and weights."""
    every_m, every_kind = (1, 10, 100, 1000), ("exp", "uniform", "ring")
    if a.full:
        return list(itertools.product(every_m, every_kind))
    shapes = [*((m, "exp") for m in every_m), *((m, weights) for weights in ("uniform", "ring") for m in (10, 1))]
    return [(m, weights) for m, weights in shapes if peers * m <= max(IN_FLIGHT, peers)]


def p2p_cases(a):
    def cost(**options):
        return lambda turn: p2p_cost(a, **options)

    natively = p2p_native(a)
    for peers in a.peers:
        # As few as hold them, because what passes between cells costs more.
        cells = 1 if peers <= 2_000 else max(2, peers // 5_000)
        for messages, weights in p2p_shapes(a, peers):
            shape = {"peers": peers, "messages": messages, "weights": weights}
            variants = {
                "native": lambda turn, peers=peers, messages=messages, weights=weights: natively(
                    min(peers, a.native_peers), min(messages, p2p.NATIVE_MESSAGES), weights, turn
                ),
                "near": cost(cells=cells, static=cells > 1, **shape),
            }
            if a.full or (messages == 10 and weights == "exp" and cells == 1):
                variants["near, 1 worker"] = cost(BELLJAR_PARALLELISM=1, cells=cells, static=cells > 1, **shape)
                if cells == 1:
                    variants["near, 2 cells"] = cost(cells=2, **shape)
                    variants["near, static"] = cost(static=True, **shape)
                    variants["far"] = cost(placement="far", **shape)
            yield Case(f"p2p: {peers} hosts, {messages} messages, {weights}", "us", variants)


def logging_cases(a):
    def variants(measured):
        return {"off": lambda turn: measured(logging=False), "pcap and strace": lambda turn: measured(logging=True)}

    yield Case("logging: p2p, 100 hosts", "us", variants(functools.partial(p2p_cost, a, 100, 20)))
    # How long somebody waits for it, with the results where they usually are: starting and ending included.
    for workers in (1, 2):
        whole = variants(functools.partial(p2p_on_disk, a, workers))
        yield Case(f"logging: p2p, 100 hosts, whole runs on disk, workers: {workers}", "s", whole)


def worker_cases(a):
    for latency in ("50 ms", "100 us"):
        def wall(*settings, latency=latency):
            return lambda turn: p2p_wall(a, 100, latency, *settings)

        yield Case(f"workers: p2p, 100 hosts, {latency}", "s", {
            "1": wall(1), "2": wall(2), "2, no stealing": wall(2, "false"),
            "2, pinned": wall(2, "true", "true"), "2, not pinned": wall(2, "true", "false"),
        })
    kinds = ("uniform", "exp")
    uneven = {weights: (lambda turn, weights=weights: p2p_wall(a, 100, "50 ms", 2, weights=weights)) for weights in kinds}
    yield Case("workers: weights, 100 hosts, 50 ms", "s", uneven)


# System calls


def micro_cases(a):
    program = compile_c(HERE / "micro.c", "micro")

    def cost(placement, count, kind, *arguments):
        count = max(20, round(count * a.scale))
        prefix = [] if placement == "native" else [belljar(), "exec", "--placement", placement, "--"]
        return lambda turn: slope(lambda n: measure([*prefix, program, kind, n, *arguments])[1].cpu, count)

    def variants(far, kind, *arguments):
        # A native sleep of 1 ns takes fifty microseconds, whatever it costs.
        cheap = ("near",) if kind == "block" else ("native", "near")
        return {p: cost(p, 10 * far if p in cheap else far, kind, *arguments) for p in ("native", "near", "far")}

    yield Case("call that returns at once: nanosleep (figure 4)", "us", variants(50_000, "return"))
    yield Case("call that blocks: nanosleep of 1 ns (figure 4)", "us", variants(50_000, "block"))
    for size in (1, 2, 4, 8, 16, 32, 64):
        yield Case(f"pipe, {size} KiB in and out (figure 5)", "us", variants(400_000 // (16 + 2 * size), "pipe", size << 10))


# Programs

SERVED = """
general: {{stop_time: {stop} s}}
network: {{graph: {{type: 1_gbit_switch}}}}
hosts:
  server: {{network_node_id: 0, host_options: {{shared: [{here}, {built}]}}, processes: [{{path: {path}, args: "{arguments}", expected_final_state: running}}]}}
  client: {{network_node_id: 0, processes: [{{path: {client}, args: server 8080 {count}, start_time: 5 s}}]}}
"""


def served(server, client, count):
    """CPU seconds of a server and `count` requests under Belljar."""
    stop = 30 + count // 100  # seconds: a request takes some milliseconds
    arguments = " ".join(map(str, server[1:]))
    results, usage = run_experiment(SERVED.format(
        stop=stop, here=HERE, built=BUILT, path=server[0], arguments=arguments, client=client, count=count))
    said = (results / "hosts" / "client").glob("get.*.stdout")
    done = any("done" in f.read_text() for f in said)
    remove(results)
    if not done:
        sys.exit(f"{server[0]} did not answer all of {count} requests under Belljar")
    return usage.cpu


def served_natively(server, client, count):
    """The same over loopback."""
    with open(os.devnull, "w") as null:
        process = subprocess.Popen([str(word) for word in server], stdout=null, stderr=null, start_new_session=True)
    try:
        cpu = measure([client, "127.0.0.1", 8080, count])[1].cpu
    finally:
        # Its process group, so that nginx's workers end with it, and are waited for.
        os.killpg(process.pid, signal.SIGTERM)
        _, _, usage = os.wait4(process.pid, 0)
        process.returncode = 0
    return cpu + usage.ru_utime + usage.ru_stime


def http_cases(a):
    client = compile_c(HERE / "get.c", "get")
    count = max(5, round(5_000 * a.scale))
    conf = BUILT / "report-nginx.conf"
    # nginx removes its pid file when it ends.
    conf.write_text(
        f"daemon off; worker_processes 1; pid {BUILT / 'report-nginx.pid'}; error_log stderr; user root;\n"
        "events {}\nhttp { access_log off; server { listen 8080; location / { return 200 'hello\\n'; } } }\n"
    )
    go = BUILT / "report-go"
    if shutil.which("go") and not go.exists():
        measure(["go", "build", "-o", go, HERE / "server.go"], cwd=HERE)
    servers = {
        "nginx": (["nginx"], [shutil.which("nginx"), "-c", conf]),
        "go": (["go"], [go, "0.0.0.0:8080"]),
        "python asyncio": ([], [sys.executable, HERE / "server.py", 8080]),
    }
    for name, (needs, server) in servers.items():
        yield Case(f"HTTP: a request to {name}", "us", {
            "native": lambda turn, server=server: slope(lambda n: served_natively(server, client, n), count),
            "belljar": lambda turn, server=server: slope(lambda n: served(server, client, n), count),
        }, needs)


def pgbench_cases(a):
    count = max(10, round(1_000 * a.scale))
    yield Case("pgbench: a transaction", "us", {
        "native": lambda turn: slope(pgbench.native, count),
        "belljar": lambda turn: slope(pgbench.simulated, count),
        "far": lambda turn: slope(lambda n: pgbench.simulated(n, "far"), count),
    }, pgbench.NEEDS)


def native_flow(mib):
    """CPU seconds of `mib` MiB by iperf over loopback."""
    server = subprocess.Popen(["iperf", "-s", "-B", "127.0.0.1", "-p", "5003"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for_listener("127.0.0.1", 5003)
        cpu = measure(["iperf", "-c", "127.0.0.1", "-p", "5003", "-n", f"{mib}M"])[1].cpu
    finally:
        server.terminate()
        _, _, usage = os.wait4(server.pid, 0)
        server.returncode = 0
    return cpu + usage.ru_utime + usage.ru_stime


def tcp_cases(a):
    seconds = max(2, round(5 * a.scale))

    def simulated(rate, latency):
        short, long = (tcp_matrix.goodput(rate, latency, s) for s in (seconds, 2 * seconds))
        mib = [f[0] * s / 8 * 1e6 / (1 << 20) for f, s in ((short, seconds), (long, 2 * seconds))]
        return (long[3] - short[3]) / (mib[1] - mib[0]) * 1e6

    mib = max(16, round(1024 * a.scale))
    variants = {"native": lambda turn: slope(native_flow, mib)}
    for rate, latency in ((1000, 10), (1000, 1), (100, 75)):
        variants[f"{rate} Mbit/s, {latency} ms"] = lambda turn, rate=rate, latency=latency: simulated(rate, latency)
    yield Case("TCP: one flow, a MiB", "us", variants, ["iperf"])


# Start


def start_cases(a):
    BUILT.mkdir(parents=True, exist_ok=True)
    source = BUILT / "sleeper.c"
    source.write_text("#include <unistd.h>\nint main(void) { for (;;) pause(); }\n")

    # A run tells all three: the first that needs it makes it.
    @functools.cache
    def run(count, static, turn):
        program = compile_c(source, "sleeper-static" if static else "sleeper", *(["-static-pie"] if static else []))
        one, many = startup.run(program, 1, 1), startup.run(program, count, max(1, count // 2_000))
        while startup.FOLDERS:
            remove(startup.FOLDERS.pop())
        return {what: (getattr(many, what) - getattr(one, what)) / (count - 1) for what in ("cpu", "wall", "private_kib")}

    for count in a.hosts:
        kinds = {"static": True} if count > a.most_dynamic else {"static": True, "dynamic": False}
        for what, unit, factor in (("cpu", "us", 1e6), ("wall", "us", 1e6), ("private_kib", "KiB", 1)):
            yield Case(f"start: {count} hosts, {what.removesuffix('_kib')} per host", unit, {
                kind: lambda turn, count=count, static=static, what=what, factor=factor: factor * run(count, static, turn)[what]
                for kind, static in kinds.items()})


GROUPS = {"start": start_cases, "calls": micro_cases, "p2p": p2p_cases, "logging": logging_cases, "workers": worker_cases,
          "tcp": tcp_cases, "http": http_cases, "pgbench": pgbench_cases}
QUICK = {"scale": 0.1, "peers": [100, 1_000], "hosts": [1_000], "repeat": 1}


def machine():
    """What the figures are of."""
    cpuinfo = pathlib.Path("/proc/cpuinfo").read_text()
    model = next((line.partition(":")[2].strip() for line in cpuinfo.splitlines() if line.startswith("model name")), "unknown")
    return {"processor": model, "cpus": os.cpu_count(), "kernel": platform.release(), "load_before": os.getloadavg()[0]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", nargs="+", choices=GROUPS, default=list(GROUPS))
    parser.add_argument("--cases", help="only those whose name matches this pattern, such as '*100 hosts*'")
    parser.add_argument("--peers", type=int, nargs="+", help="hosts of the peer-to-peer program (default: 100 1000 10000)")
    parser.add_argument("--native-peers", type=int, default=10_000, help="the most of them natively")
    parser.add_argument("--hosts", type=int, nargs="+", help="hosts that are only started (default: 1000 10000 30000)")
    parser.add_argument("--most-dynamic", type=int, default=10_000, help="the most of them with a program that is linked dynamically")
    parser.add_argument("--scale", type=float, help="how much of each is done, relative to the usual amount")
    parser.add_argument("--repeat", type=int, help="turns of each case at most (default: 5)")
    parser.add_argument("--minutes", type=float, default=40, help="no further turn is begun that would end later")
    parser.add_argument("--quick", action="store_true", help="one turn of a tenth of everything, without the largest")
    parser.add_argument("--full", action="store_true", help="all combinations of the peer-to-peer program: many hours")
    parser.add_argument("--results", type=pathlib.Path, help="where runs write (default: /dev/shm where it has room, else target/benches)")
    parser.add_argument("--list", action="store_true", help="only name the cases")
    parser.add_argument("--tables", type=pathlib.Path, metavar="FILE", help="measure nothing: print an earlier run's --json FILE as tables in Markdown")
    parser.add_argument("--json", type=pathlib.Path, help="the result (default: target/benches/report.json), and a table beside it")
    a = parser.parse_args()
    if a.tables:
        print(markdown(json.loads(a.tables.read_text())), end="")
        return
    usual = {"scale": 1, "peers": [100, 1_000, 10_000], "hosts": [1_000, 10_000, 30_000], "repeat": 5}
    for name, value in (QUICK if a.quick else usual).items():
        if getattr(a, name) is None:
            setattr(a, name, value)
    BUILT.mkdir(parents=True, exist_ok=True)
    if a.results is None and SHARED_MEMORY.is_dir() and shutil.disk_usage(SHARED_MEMORY).free >= ENOUGH:
        a.results = SHARED_MEMORY
    if a.results is not None:
        os.environ["BELLJAR_BENCH_RESULTS"] = str(a.results)
    cases = list(itertools.chain.from_iterable(GROUPS[group](a) for group in a.groups))
    if a.cases:
        cases = [case for case in cases if fnmatch.fnmatch(case.name, a.cases)]
    if a.list:
        print("\n".join(case.name for case in cases))
        return
    about = {"bench": "report", "scale": a.scale, **machine(), "results_in": str(a.results or BUILT)}
    try:
        well = measure_all(cases, a.repeat, a.minutes, about, a.json or BUILT / "report.json", sys.stderr)
    except KeyboardInterrupt:
        sys.exit(130)
    sys.exit(0 if well else 1)


if __name__ == "__main__":
    main()
