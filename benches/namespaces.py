"""The kernel's side of `fidelity.py`: two network namespaces with a TUN device each, and between them a delay line of our own
(fidelity/line.c), since netem is missing from many kernels. The devices do no segmentation, so packets are what Belljar's are.

Pinned: tcp_rmem and tcp_wmem as Linux had them before 6.16 (6 and 4 MiB at most), no metrics from earlier connections. The delay
line and both ends run at real-time priority: Linux 6.18 counts only what the program has read in time when it sizes the receive
buffer, and a reader that comes late keeps it small for seconds.
"""

import itertools
import os
import pathlib
import re
import resource
import shutil
import subprocess
import time

from common import ROOT, compile_c, until

RMEM, WMEM = "4096 131072 6291456", "4096 16384 4194304"
#: A run is spoilt when of what the delay line carried more than this share was over a millisecond late, or one packet so many us.
LATE_SHARE, WORST = 0.01, 10_000
NUMBERS = itertools.count()


def privileged():
    return os.geteuid() == 0 and pathlib.Path("/dev/net/tun").exists() and all(map(shutil.which, ("ip", "tc", "chrt")))


def run(*command):
    subprocess.run([str(word) for word in command], check=True)


def urgent(priority):
    return ["chrt", "-r", str(priority)]


class Namespaces:
    """Two namespaces joined by the delay line; gone at the end. The first has 10.9.0.1, the second an address for each latency
    from 10.9.0.2 on. A packet is lost with the chance `loss`, either way. `rate` (Mbit/s) is that of both devices, by tbf with a
    burst of 2 ms or two packets; `bottleneck` is a pair of Mbit/s and bytes of queue, before the delays."""

    def __init__(self, latencies, loss=0.0, seed=1, rate=None, bottleneck=None):
        number = next(NUMBERS)
        self.names = [f"bjfid{os.getpid()}n{number}{end}" for end in "ab"]
        self.addresses = [f"10.9.0.{n}" for n in range(2, 2 + len(latencies))]
        self.latencies, self.loss, self.seed, self.rate, self.bottleneck = latencies, loss, seed, rate, bottleneck
        self.line, self.report = None, {}

    def __enter__(self):
        program = compile_c(ROOT / "benches/fidelity/line.c", "line")
        mbit, queue = self.bottleneck or (0, 0)
        delays = [f"{address}={round(ms * 1000)}" for address, ms in zip(self.addresses[1:], self.latencies[1:])]
        try:
            for name in self.names:
                run("ip", "netns", "add", name)
            paths = [f"/var/run/netns/{name}" for name in self.names]
            arguments = [*paths, "line0", self.loss, self.seed, round(mbit * 1e6), queue, round(self.latencies[0] * 1000), *delays]
            self.line = subprocess.Popen([*urgent(20), program, *map(str, arguments)],
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            if self.line.stdout.readline() != "ready\n":
                raise RuntimeError("the delay line does not start")
            qdisc = f"tbf rate {self.rate}mbit burst {max(int(self.rate * 250), 3100)} limit 20000000" if self.rate else "pfifo limit 20000"
            for name, addresses in zip(self.names, (["10.9.0.1"], self.addresses)):
                inside = self.inside(name)
                run(*inside, "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1",
                    "net.ipv4.tcp_no_metrics_save=1", f"net.ipv4.tcp_rmem={RMEM}", f"net.ipv4.tcp_wmem={WMEM}")
                for address in addresses:
                    run(*inside, "ip", "addr", "add", f"{address}/24", "dev", "line0")
                run(*inside, *"ip link set line0 txqueuelen 20000 up".split())
                run(*inside, *"ip link set lo up".split())
                run(*inside, *f"tc qdisc add dev line0 root {qdisc}".split())
        except BaseException:
            self.__exit__()
            raise
        return self

    def inside(self, name):
        return ["ip", "netns", "exec", name]

    def __exit__(self, *_):
        if self.line:
            said = self.line.communicate("")[0]
            self.report = {name: int(n) for name, n in re.findall(r"(\w+) (\d+)", said)}
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL)

    @property
    def spoilt(self):
        """Whether the delay line came too late for what was measured, once all is over; nothing but its loss and its queue may
        have cost a packet."""
        r = self.report
        return not r or r["worst"] > WORST or r["late"] > LATE_SHARE * r["carried"] or r["refused"] > 4


def listening(inside):
    """The number of TCP sockets that listen in a namespace."""
    table = subprocess.run([*inside, "cat", "/proc/net/tcp"], capture_output=True, text=True, check=True).stdout
    return sum(line.split()[3] == "0A" for line in table.splitlines()[1:])


def measure(ends, servers, clients, linger, timeout):
    """Runs the servers' commands in the second namespace and the clients', pairs of a start in seconds and a command, in the
    first; what each client and each server wrote, and the CPU time that the clients took, in seconds."""
    a, b = ends.names
    running, begun = [], []
    try:
        for command in servers:
            running.append(subprocess.Popen([*ends.inside(b), *urgent(30), *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        until(lambda: listening(ends.inside(b)) >= len(servers), "a server does not listen")
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        start = time.monotonic()
        for at, command in clients:
            time.sleep(max(0.0, start + at - time.monotonic()))
            begun.append(subprocess.Popen([*ends.inside(a), *urgent(10), *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        said = [client.communicate(timeout=timeout) for client in begun]
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        for (_, command), client, (_, err) in zip(clients, begun, said):
            if client.returncode:
                raise RuntimeError(f"{' '.join(command)} ended with {client.returncode}: {err}")
        time.sleep(linger)
    finally:
        for process in [*begun, *running]:
            process.terminate()
        heard = [server.communicate()[0] for server in running]
    return [out for out, _ in said], heard, sum(getattr(after, name) - getattr(before, name) for name in ("ru_utime", "ru_stime"))
