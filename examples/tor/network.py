#!/usr/bin/env python3
"""Makes a Tor network of your distribution's `tor`: directory authorities, relays, clients and an onion service.

    ./network.py tor                       # thirty tors: writes tor/network.yaml and tor/hosts
    belljar run tor/network.yaml -o tor.data
    cat tor.data/hosts/client1/curl.*.stdout

Keys are made by `tor-gencert` and `tor` themselves, in a simulation of their own: the same seed makes the same keys. A client is
ready when its tor says that it is 100 % bootstrapped; then curl fetches a file through a circuit to the web server `web`, and from the onion
service, whose server nobody knows the address of."""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable

#: For every tor: a network of its own that votes at once. What needs days on the Internet needs seconds here.
COMMON = """TestingTorNetwork 1
DataDirectory data
Log notice stdout
Log info file info.log
LogTimeGranularity 1
SafeLogging 0
NumCPUs 1
AssumeReachable 1
PathsNeededToBuildCircuits 0.67
ControlPort 9051
CookieAuthentication 0
"""
VOTING = """V3AuthVotingInterval 60 seconds
V3AuthVoteDelay 5 seconds
V3AuthDistDelay 5 seconds
TestingV3AuthInitialVotingInterval 20 seconds
TestingV3AuthInitialVoteDelay 4 seconds
TestingV3AuthInitialDistDelay 4 seconds
TestingDirAuthVoteExit *
TestingDirAuthVoteHSDir *
TestingDirAuthVoteGuard *
AuthoritativeDirectory 1
V3AuthoritativeDirectory 1
DirPort 9030
ExitRelay 0
"""
EXIT = """ExitRelay 1
ExitPolicy accept *:*
ServerDNSDetectHijacking 0
ServerDNSTestAddresses
"""
KEYS = """: >empty; mkdir -m 700 data data/keys
echo secret | tor-gencert --create-identity-key -m 12 -a {address}:9030 --passphrase-fd 0 -i data/keys/authority_identity_key \\
    -s data/keys/authority_signing_key -c data/keys/authority_certificate
tor --defaults-torrc empty -f empty --list-fingerprint --ORPort 1 --DataDirectory data --DirAuthority "x 127.0.0.1:1 {none}"
"""
ONION = """: >empty; mkdir -m 700 data
timeout 5 tor --defaults-torrc empty -f empty --DataDirectory data --DisableNetwork 1 --SocksPort 0 --HiddenServiceDir data/service --HiddenServicePort 80 || true
cat data/service/hostname
"""
#: Sizes of the files that perf clients fetch by tgen, each with its weight and its timeout: those of `tornettools generate`.
PERF = {"50 KiB": ("12.0", "15 seconds"), "1 MiB": ("2.0", "60 seconds"), "5 MiB": ("1.0", "120 seconds")}
FILE = "for n in $(seq 20000); do echo line $n of a file; done > file; exec /usr/bin/python3 -m http.server --bind {address} {port}"
#: Every latency of this graph is one of the Internet's: three regions.
GRAPH = """graph [
  directed 0
  node [ id 0 label "Europe" host_bandwidth_up "100 Mbit" host_bandwidth_down "100 Mbit" ]
  node [ id 1 label "America" host_bandwidth_up "100 Mbit" host_bandwidth_down "100 Mbit" ]
  node [ id 2 label "Asia" host_bandwidth_up "50 Mbit" host_bandwidth_down "50 Mbit" ]
  edge [ source 0 target 0 latency "10 ms" ]
  edge [ source 1 target 1 latency "15 ms" ]
  edge [ source 2 target 2 latency "20 ms" ]
  edge [ source 0 target 1 latency "45 ms" ]
  edge [ source 0 target 2 latency "90 ms" ]
  edge [ source 1 target 2 latency "70 ms" ]
]
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("folder", type=pathlib.Path, help="where the experiment is written: it must not exist yet")
    parser.add_argument("--authorities", type=int, default=3)
    parser.add_argument("--relays", type=int, default=18, help="a third of them, and at least one, are exits")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--stop-time", default="180 s")
    parser.add_argument("--fetch-at", default="100 s", help="when clients begin to fetch")
    parser.add_argument("--measure", action="store_true",
                        help="clients fetch by tgen, and oniontrace follows every tor: what 'tornettools parse' reads")
    parser.add_argument("--pause", default="10 seconds", help="with --measure: from one fetch of a client to its next")
    arguments = parser.parse_args()
    if min(arguments.authorities, arguments.clients) < 1 or arguments.relays < 3:
        parser.error("at least one authority, three relays and one client are needed")
    for program in ("tor", "tor-gencert", "curl"):
        if shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin") is None:
            sys.exit(f"network.py: {program} is not installed (Debian: apt install tor curl)")
    for program in ("tgen", "oniontrace") if arguments.measure else ():
        if shutil.which(program) is None:
            sys.exit(f"network.py: {program} is not installed: https://github.com/shadow/{program} says how")
    arguments.folder.mkdir(parents=True)
    write(arguments)


def addresses(arguments: argparse.Namespace) -> dict[str, str]:
    """The address of each host."""
    names = [f"{kind}{n + 1}" for kind in ("authority", "relay") for n in range(getattr(arguments, f"{plural(kind)}"))]
    # tornettools tells what clients measure by their names.
    ends = ("exit", "onionservice") if arguments.measure else ("", "")
    names += [f"{'perf' if arguments.measure else ''}client{n + 1}{ends[n % 2]}" for n in range(arguments.clients)]
    return {name: f"100.{n // 250}.0.{n % 250 + 1}" for n, name in enumerate([*names, "onion", "web"])}


def graphml(nodes: dict[str, dict[str, str]], edges: Iterable[tuple[str, str, str]] = ()) -> str:
    """A configuration of tgen: its actions, and which follows which, by weights (which it takes as texts)."""
    keys = sorted({key for values in nodes.values() for key in values})
    text = '<?xml version="1.0" encoding="utf-8"?>\n<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n'
    text += "".join(f'<key attr.name="{key}" attr.type="string" for="node" id="{key}"/>\n' for key in keys)
    text += '<key attr.name="weight" attr.type="string" for="edge" id="weight"/>\n<graph edgedefault="directed">\n'
    for name, values in nodes.items():
        text += f'<node id="{name}">' + "".join(f'<data key="{key}">{value}</data>' for key, value in values.items()) + "</node>\n"
    for source, target, weight in edges:
        text += f'<edge source="{source}" target="{target}">' + (f'<data key="weight">{weight}</data>' if weight else "") + "</edge>\n"
    return text + "</graph>\n</graphml>\n"


def perf_client(peer: str, pause: str) -> str:
    """The configuration of tgen on a perf client, as `tornettools generate` writes it."""
    nodes = {"start": {"loglevel": "info", "socksproxy": "localhost:9050", "peers": peer, "packetmodelmode": "path"}, "pause": {"time": pause}}
    edges = [("start", "pause", ""), ("pause", "pause", "")]
    for number, (size, (weight, timeout)) in enumerate(PERF.items()):
        nodes[f"stream{number}"] = {"sendsize": "1000 bytes", "recvsize": size, "stallout": "0 seconds", "timeout": timeout}
        edges.append(("pause", f"stream{number}", weight))
    return graphml(nodes, edges)


def plural(kind: str) -> str:
    return "authorities" if kind == "authority" else f"{kind}s"


def belljar(experiment: dict, results: pathlib.Path) -> None:
    """Runs an experiment that makes keys."""
    binary = os.environ.get("BELLJAR_BIN") or shutil.which("belljar") or pathlib.Path(__file__).resolve().parents[2] / "belljar"
    done = subprocess.run([binary, "run", "-", "-o", results, "--no-progress"], input=json.dumps(experiment), text=True, capture_output=True)
    if done.returncode:
        sys.exit(f"network.py: keys cannot be made:\n{done.stdout}{done.stderr}")


def make_keys(arguments: argparse.Namespace, where: dict[str, str], results: pathlib.Path) -> tuple[list[str], str]:
    """Keys of authorities and of the onion service, in `results`: the lines by which a tor knows the authorities, and the onion's name."""
    authorities = [name for name in where if name.startswith("authority")]

    def shell(text: str) -> dict:
        return {"path": "/bin/sh", "args": ["-ec", text], "expected_final_state": "any"}

    hosts = {name: {"network_node_id": 0, "processes": [shell(KEYS.format(address=where[name], none="F" * 40))]} for name in authorities}
    hosts["onion"] = {"network_node_id": 0, "processes": [shell(ONION)]}
    belljar({"general": {"stop_time": "60 s", "seed": arguments.seed}, "network": {"graph": {"type": "1_gbit_switch"}}, "hosts": hosts}, results)

    def said(host: str, pattern: str, files: Iterable[pathlib.Path]) -> str:
        text = "".join(file.read_text(errors="replace") for file in files)
        found = re.search(pattern, text, re.M)
        if found is None:
            sys.exit(f"network.py: no key was made on {host}:\n{text}")
        return found[1]

    lines = []
    for name in authorities:
        host = results / "hosts" / name
        identity = said(name, r"^fingerprint (\w{40})", [host / "data/keys/authority_certificate"])
        fingerprint = said(name, r"^Unnamed ([0-9A-F ]{40,})$", host.glob("*.stdout")).replace(" ", "")
        lines.append(f"DirAuthority {name} v3ident={identity} orport=9001 {where[name]}:9030 {fingerprint}")
    return lines, said("onion", r"^(\w{56}\.onion)$", (results / "hosts/onion").glob("*.stdout"))


def server(arguments: argparse.Namespace, address: str, port: int) -> dict:
    """The process that files are fetched from."""
    if arguments.measure:
        return {"path": "tgen", "args": ["tgen.graphml"], "environment": {"TGENIP": address}, "expected_final_state": "running"}
    return {"path": "/bin/sh", "args": ["-c", FILE.format(address=address, port=port)], "expected_final_state": "running"}


def write(arguments: argparse.Namespace) -> None:
    where = addresses(arguments)
    folder = arguments.folder
    with tempfile.TemporaryDirectory() as scratch:
        keys = pathlib.Path(scratch, "keys.data")
        known, onion = make_keys(arguments, where, keys)
        for name in where:
            made = keys / "hosts" / name / "data"
            home = folder / "template" / "hosts" / name
            home.mkdir(parents=True)
            if made.is_dir():
                shutil.copytree(made, home / "data")
    exits = max(1, arguments.relays // 3)
    hosts = {}
    for n, (name, address) in enumerate(where.items()):
        found = re.fullmatch(r"(?:perf)?([a-z]+?)(\d*)(exit|onionservice|)", name)
        kind, number, through = found[1], int(found[2] or 0), found[3]
        torrc = COMMON + "".join(f"{line}\n" for line in known)
        processes: list[dict] = []
        start, state = "1 s", "running"
        match kind:
            case "authority":
                torrc += f"Nickname {name}\nAddress {address}\nORPort 9001\nContactInfo {name}@example.org\nSocksPort 0\n{VOTING}"
            case "relay":
                torrc += f"Nickname {name}\nAddress {address}\nORPort 9001\nSocksPort 0\n" + (EXIT if number <= exits else "ExitRelay 0\n")
                start = "2 s"
            case "client":
                torrc += "SocksPort 9050\n"
                start = f"{30 + number} s"
                if through:
                    peer = "web:8080" if through == "exit" else f"{onion}:80"
                    (folder / "template" / "hosts" / name / "tgen.graphml").write_text(perf_client(peer, arguments.pause))
                    processes.append({"path": "tgen", "args": ["tgen.graphml"], "start_time": arguments.fetch_at, "expected_final_state": "running"})
                for url in () if through else ("http://web/file", f"http://{onion}/file"):
                    processes.append({"path": "/usr/bin/curl", "args": ["-sS", "--retry", "3", "--retry-all-errors", "--max-time", "60",
                        "--socks5-hostname", "127.0.0.1:9050", "-w", "\n%{url} %{http_code} %{size_download} bytes in %{time_total} s\n", "-o", "/dev/null", url],
                        "start_time": arguments.fetch_at})
            case "onion":
                torrc += "SocksPort 0\nHiddenServiceDir data/service\nHiddenServicePort 80 127.0.0.1:8080\n"
                start = "30 s"
                processes.append(server(arguments, "127.0.0.1", 8080))
            case "web":
                processes.append(server(arguments, "0.0.0.0", 80))
        if kind != "web":
            home = folder / "template" / "hosts" / name
            (home / "torrc").write_text(torrc)
            (home / "empty").touch()
            tor = {"path": "/usr/sbin/tor" if pathlib.Path("/usr/sbin/tor").exists() else shutil.which("tor"),
                   "args": ["--defaults-torrc", "empty", "-f", "torrc"], "start_time": start, "expected_final_state": state}
            processes.insert(0, tor)
            if arguments.measure:
                trace = ["Mode=log", "TorControlPort=9051", "LogLevel=info", "Events=BW,CIRC"]
                after = f"{int(start.split()[0]) + 1} s"
                processes.append({"path": "oniontrace", "args": trace, "start_time": after, "expected_final_state": "running"})
        if arguments.measure and kind in ("onion", "web"):
            settings = {"serverport": "8080", "loglevel": "message", "stallout": "0 seconds", "timeout": "0 seconds"}
            (folder / "template" / "hosts" / name / "tgen.graphml").write_text(graphml({"start": settings}))
        hosts[name] = {"network_node_id": n % 3, "ip_addr": address, "processes": processes}
    experiment = {
        "general": {"stop_time": arguments.stop_time, "seed": arguments.seed, "template_directory": "template", "progress": arguments.measure},
        "network": {"graph": {"type": "gml", "inline": GRAPH}},
        "hosts": hosts,
    }
    # JSON is YAML.
    (folder / "network.yaml").write_text(json.dumps(experiment, indent=1) + "\n")
    print(f"{len(hosts) - 1} tors; the onion service is {onion}. Run it: belljar run {folder}/network.yaml")


if __name__ == "__main__":
    main()
