"""A gateway's latency and rate: ping, TCP and small UDP packets from a namespace of this machine to a simulated host, and to one of ns-3 behind its FdNetDevice.

    sudo python benches/gateway.py [--belljar PROGRAM] [--seconds 5] [--no-ns3]

ns-3 is Debian's (libns3-dev); its host (gateway/fd_sink.cc) is compiled in a temporary folder. Both simulate one host at 1 Gbit/s behind the same pair of interfaces.
"""

import argparse
import json
import pathlib
import re
import shutil
import subprocess
import tempfile
import time

from common import ROOT

LIBRARIES = ["applications", "fd-net-device", "internet", "bridge", "traffic-control", "network", "stats", "core"]
EXPERIMENT = """
general: {{stop_time: {stop} s}}
gateways: {{out: {{interface: inside}}}}
hosts:
  h:
    interfaces: {{eth0: 10.9.0.2/24}}
    processes:
    - {{path: iperf, args: -s, expected_final_state: running}}
    - {{path: iperf, args: -s -u -l 1500, expected_final_state: running}}
links:
- {{between: [h, out], latency: 1 ms, rate: 1 Gbit}}
"""


# Computes checksums and cuts segments in the sending namespace: ns-3's host drops what is left to the hardware.
PLAIN = """
import array, fcntl, socket, struct
with socket.socket() as any_socket:
    for command in (0x17, 0x1f, 0x24):  # ETHTOOL_STXCSUM, ETHTOOL_STSO, ETHTOOL_SGSO
        value = array.array("B", struct.pack("II", command, 0))
        fcntl.ioctl(any_socket, 0x8946, struct.pack("16sP", b"outside", value.buffer_info()[0]))
"""


class Outside:
    """A namespace with the interface "inside", and one with the other end, "outside"."""

    def __enter__(self):
        self.all = [subprocess.Popen(["unshare", "-n", "sh", "-c", "ip link set lo up; echo; exec sleep 3600"], stdout=subprocess.PIPE) for _ in range(2)]
        for process in self.all:
            process.stdout.readline()
        self.here, self.there = ([["nsenter", "-t", str(process.pid), "-n"] for process in self.all])
        self.ip(self.here, f"link add inside type veth peer name outside netns {self.all[1].pid}")
        self.ip(self.here, "link set inside up")
        self.ip(self.there, "link set outside up")
        self.ip(self.there, "address add 10.9.0.1/24 dev outside")
        for prefix, name in ((self.here, "inside"), (self.there, "outside")):
            subprocess.run([*prefix, "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1"], check=False)
        return self

    def ip(self, prefix, words):
        subprocess.run([*prefix, "ip", *words.split()], check=True)

    def __exit__(self, *_):
        for process in self.all:
            process.kill()
            process.wait()

    def measure(self, seconds):
        """Round trips in milliseconds, TCP in Mbit/s, and thousands of UDP packets sent a second."""
        ping = subprocess.run([*self.there, "ping", "-q", "-c", "50", "-i", "0.02", "10.9.0.2"], capture_output=True, text=True).stdout
        trips = re.search(r"= ([\d.]+)/([\d.]+)/([\d.]+)", ping)
        tcp = subprocess.run([*self.there, "iperf", "-c", "10.9.0.2", "-t", str(seconds), "-y", "C"], capture_output=True, text=True).stdout
        rate = float(tcp.strip().splitlines()[-1].split(",")[-1]) / 1e6 if tcp.strip() else float("nan")
        udp = subprocess.run([*self.there, "iperf", "-c", "10.9.0.2", "-u", "-l", "64", "-b", "200000pps", "-t", str(seconds), "-y", "C"],
                             capture_output=True, text=True, timeout=seconds + 30).stdout.strip().splitlines()
        return {"ping_ms": [float(trip) for trip in trips.groups()] if trips else None, "tcp_mbit": rate, "udp": udp}


def compile_ns3(folder):
    program = folder / "fd_sink"
    command = ["g++", "-O2", "-std=c++17", "-o", program, ROOT / "benches/gateway/fd_sink.cc", *(f"-lns3-{name}" for name in LIBRARIES)]
    done = subprocess.run(command, capture_output=True, text=True)
    return (program, None) if done.returncode == 0 else (None, done.stderr.strip().splitlines()[-1:])


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--belljar", default=ROOT / "belljar", type=pathlib.Path)
    options.add_argument("--seconds", default=5, type=int)
    options.add_argument("--no-ns3", action="store_true")
    given = options.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="gateway-"))
    lasts = given.seconds * 2 + 8
    try:
        with Outside() as outside:
            (folder / "exp.yaml").write_text(EXPERIMENT.format(stop=lasts))
            run = subprocess.Popen([*outside.here, given.belljar.resolve(), "run", folder / "exp.yaml", "-o", folder / "data"], stdout=subprocess.PIPE, text=True)
            time.sleep(2)
            found = outside.measure(given.seconds)
            print(run.communicate()[0])
            print("belljar", json.dumps(found))
            for file in (folder / "data/hosts/h").glob("*.stdout"):
                print(file.name, file.read_text())
        if not given.no_ns3:
            program, why = compile_ns3(folder)
            if program is None:
                print(f"ns-3 was not compiled: {why}")
                return
            with Outside() as outside:
                run = subprocess.Popen([*outside.here, program, "inside", "10.9.0.2", "5001", str(lasts)], stdout=subprocess.PIPE, text=True)
                time.sleep(2)
                subprocess.run([*outside.there, "python3", "-c", PLAIN], check=True)
                print("ns-3", json.dumps(outside.measure(given.seconds)))
                print("ns-3 received:", run.communicate()[0])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
