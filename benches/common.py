"""What the benchmarks share: building, running and measuring commands from outside, and showing numbers."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tests"))

from compiling import compile_newer  # noqa: E402

TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
BUILT = TARGET / "benches"


# What a host's kernel takes for a packet of 4,000 bytes together: 42 Gbit/s for one core that receives one flow, about half of it for copying
# (Cai et al., Understanding Host Network Stack Overheads, SIGCOMM 2021). An interrupt is not among it.
CPU = {"syscall": "500 ns", "packet": "400 ns", "byte": "0.09 ns"}


class Ended(SystemExit):
    """A benchmark that is ended from outside."""


def end(*_):
    raise Ended(143)


# It takes what it measures with it.
signal.signal(signal.SIGTERM, end)


def belljar():
    """The binary: BELLJAR_BIN, or the release build."""
    given = os.environ.get("BELLJAR_BIN")
    path = pathlib.Path(given) if given else TARGET / "release" / "belljar"
    if not path.exists():
        sys.exit(f"{path} does not exist: `./belljar --version` builds it")
    return path.resolve()


@contextlib.contextmanager
def environment(**values):
    """Variables of the environment for the commands run meanwhile."""
    before = dict(os.environ)
    os.environ.update({key: str(value) for key, value in values.items() if value is not None})
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def compile_c(source, name, *flags):
    """A C or C++ program of the benches, compiled when its source, or a header beside it, is newer."""
    out = BUILT / name
    compiler = ["g++"] if source.suffix == ".cc" else ["gcc", "-std=gnu11"]
    compile_newer(out, [*compiler, "-O2", "-Wall", "-Wextra", *flags], source, reads=source.parent.glob("*.h"), libraries=["-lm"])
    return out


class Usage:
    """What a command cost: CPU seconds (user and system, its waited-for children included), wall seconds, the
    greatest resident set of one process in KiB, and if it was asked for, the most private memory that all of its
    processes had together at one of many moments."""

    def __init__(self, cpu, wall, peak_kib, private_kib=None):
        self.cpu, self.wall, self.peak_kib, self.private_kib = cpu, wall, peak_kib, private_kib


def private_kib(session):
    """The private memory of all processes of a session."""
    total = 0
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if int((process / "stat").read_text().rpartition(")")[2].split()[3]) == session:
                total += sum(int(n) for n in re.findall(r"RssAnon:\s+(\d+)", (process / "status").read_text()))
        except OSError:
            pass
    return total


def measure(command, cwd=None, timeout=3600, private=False):
    """Runs a command to its end; exits with its output if it fails. Gives (stdout, Usage)."""
    most, over = [0], threading.Event()

    def watch(session):
        while not over.wait(0.1):
            most[0] = max(most[0], private_kib(session))

    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        begin = time.monotonic()
        process = subprocess.Popen([str(c) for c in command], stdout=out, stderr=err, cwd=cwd, start_new_session=True)
        timer = threading.Timer(timeout, lambda: os.killpg(process.pid, 9))
        timer.start()
        if private:
            threading.Thread(target=watch, args=[process.pid], daemon=True).start()
        try:
            _, status, usage = os.wait4(process.pid, 0)
        except BaseException:
            os.killpg(process.pid, 9)
            raise
        finally:
            timer.cancel()
            over.set()
        wall = time.monotonic() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0), err.seek(0)
        text = out.read().decode(errors="replace")
        if process.returncode != 0:
            sys.exit(f"{' '.join(map(str, command))}\nended with {process.returncode}\n{text}{err.read().decode(errors='replace')}")
        return text, Usage(usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss, most[0] if private else None)


def results_folder():
    """Where runs write."""
    where = pathlib.Path(os.environ.get("BELLJAR_BENCH_RESULTS", BUILT))
    where.mkdir(parents=True, exist_ok=True)
    return where


def run_experiment(text, *args, keep=False, private=False):
    """Runs an experiment with more arguments of `belljar run`; gives (results folder, Usage). The caller removes the folder's parent."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="bench-", dir=results_folder()))
    (folder / "experiment.yaml").write_text(text)
    try:
        _, usage = measure([belljar(), "run", folder / "experiment.yaml", "-o", folder / "data", *args], private=private)
    except BaseException:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    return folder / "data", usage


def warm_memory(size):
    """Has the machine touch as much memory as files of `size` bytes will take where runs write. A virtual machine may have given
    back what nobody used for a while, and then the first write to each page costs its hypervisor's time, up to 3 s a GiB:
    whoever wrote first would be measured with that."""
    piece = bytes(1 << 20)
    with tempfile.TemporaryFile(dir=results_folder(), buffering=0) as file:
        for _ in range(0, size, len(piece)):
            file.write(piece)


def two_hosts(rate, latency, server, client, *, stop, seed=1, loss=0, congestion=None, parallelism=0):
    """The experiment of one path: a server and a client (what follows `processes:` of each), a rate with its unit that both
    interfaces have, the latency one way in ms, the chance that a packet is lost, either way. A parallelism of 0 is as
    many workers as there are processors."""
    defaults = f"host_option_defaults: {{sysctls: {{net.ipv4.tcp_congestion_control: {congestion}}}}}" if congestion else ""
    return f"""
general: {{stop_time: {stop} s, seed: {seed}, parallelism: {parallelism}}}
{defaults}
network:
  graph:
    type: gml
    inline: 'graph [ node [ id 0 ] node [ id 1 ] edge [ source 0 target 1 latency "{latency} ms" packet_loss {loss} ] ]'
hosts:
  server: {{network_node_id: 0, bandwidth_up: {rate}, bandwidth_down: {rate}, processes: [{server}]}}
  client: {{network_node_id: 1, bandwidth_up: {rate}, bandwidth_down: {rate}, processes: [{client}]}}
"""


def iperf_rates(said):
    """The lines of an iperf (2) with `-f k`, its server's or client's: (begin, end, Mbit/s), seconds since the connection began."""
    return [(float(a), float(b), float(kbits) / 1000) for a, b, kbits in
            re.findall(r"([\d.]+)-\s*([\d.]+) sec\s+[\d.]+ [KMG]?Bytes\s+([\d.]+) Kbits/sec", said)]


def output(results, host, program="iperf"):
    """What a host's program wrote."""
    return next(results.glob(f"hosts/{host}/{program}.*.stdout")).read_text()


def remove(results):
    shutil.rmtree(results.parent, ignore_errors=True)


def until(holds, failure, patience=60):
    """Waits for a condition; ends the benchmark with what has failed if it never holds."""
    late = time.monotonic() + patience
    while not holds():
        if time.monotonic() > late:
            sys.exit(failure)
        time.sleep(0.02)


def wait_for_listener(address, port):
    """Waits until somebody listens there."""

    def listens():
        with contextlib.suppress(ConnectionRefusedError):
            socket.create_connection((address, port)).close()
            return True

    until(listens, f"nobody listens on {address}:{port}")


def spread(values):
    """Median and range of repeated measurements."""
    return {"median": statistics.median(values), "least": min(values), "greatest": max(values), "n": len(values)}


def table(heads, rows, numbers=False):
    """Rows as a table in Markdown, all columns but the first aligned as numbers if asked for."""
    line = lambda cells: "| " + " | ".join(str(cell) for cell in cells) + " |"
    return "\n".join([line(heads), "|---" + ("|---:" if numbers else "|---") * (len(heads) - 1) + "|", *map(line, rows)])


def save(name, result, path):
    """Writes the result as JSON to `path` or target/benches/<name>.json."""
    path = pathlib.Path(path) if path else BUILT / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=2) + "\n")
    print(f"written to {path}")
