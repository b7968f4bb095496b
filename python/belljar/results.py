"""Results folders as data frames."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import pathlib
import re
import struct
import subprocess
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from . import showing
from .binary import BelljarError, find_binary

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_CALL = re.compile(r"(\d+\.\d{9}) \[(\d+)\] (?:--- (\w+)|(\w+)\((.*)\) = (.*))")


@dataclasses.dataclass(frozen=True)
class Packet:
    """Captured packet: time in seconds since the start of the simulation, length, and captured bytes, on links from
    the Ethernet header on."""

    time: float
    length: int
    data: bytes
    ethernet: bool = False

    @property
    def ip(self) -> bytes:
        """Bytes from the IP header on; empty for other packets."""
        if not self.ethernet:
            return self.data
        return self.data[14:] if self.data[12:14] in (b"\x08\0", b"\x86\xdd") else b""


class Results:
    """Results folder of a run that has ended."""

    def __init__(self, path: str | os.PathLike[str], output: str = "") -> None:
        self.path = pathlib.Path(path)
        #: Output of the command.
        self.output = output
        if not (self.path / "sim-stats.json").is_file():
            raise BelljarError(f"{self.path} is not the results of a run that has ended: it has no sim-stats.json")

    def __repr__(self) -> str:
        return showing.results_line(self)

    def _repr_html_(self) -> str:
        return showing.results_html(self)

    @functools.cached_property
    def statistics(self) -> dict[str, Any]:
        """Contents of `sim-stats.json`."""
        content: dict[str, Any] = json.loads((self.path / "sim-stats.json").read_text())
        return content

    @functools.cached_property
    def topology(self) -> dict[str, Any]:
        """Graph nodes, edges, hosts, the seed and the start time of the clocks."""
        content: dict[str, Any] = json.loads((self.path / "topology.json").read_text())
        return content

    @property
    def seed(self) -> int:
        return int(self.topology["seed"])

    @property
    def hosts(self) -> list[str]:
        return list(self.statistics["hosts"])

    @property
    def ok(self) -> bool:
        """True if the run was complete, every process ended as the experiment expects, and every property holds."""
        processes = (p for h in self.statistics["hosts"].values() for p in h["processes"])
        return self.interrupted is None and all(p["as_expected"] for p in processes) and not self.violations

    @property
    def violations(self) -> list[dict[str, Any]]:
        """Properties that do not hold, as `sim-stats.json` has them: name, kind, reason, host, file, line, time, text."""
        return [p for p in self.statistics.get("properties", []) if not p["holds"]]

    @property
    def interrupted(self) -> str | None:
        """Reason for which the run ended early, so that its results are not complete; `None` if it was complete."""
        why: str | None = self.statistics.get("interrupted")
        return why

    @property
    def drawn_events(self) -> str:
        """Events that the seed has drawn, as the section `events` of an experiment file with their times and hosts."""
        text: str = self.statistics.get("drawn_events", "")
        return text

    @property
    def unreached(self) -> list[dict[str, Any]]:
        """Events and settings that the run ended before: `time` and `what`."""
        found: list[dict[str, Any]] = self.statistics.get("unreached", [])
        return found

    def host(self, name: str) -> pathlib.Path:
        """Folder of a host, the initial working directory of its processes."""
        path = self.path / "hosts" / name
        if not path.is_dir():
            raise BelljarError(f"there is no host '{name}' in {self.path}: there are {', '.join(self.hosts)}")
        return path

    def files(self, host: str, kind: str, program: str | None = None) -> list[pathlib.Path]:
        """Files `<program>.<pid>.<kind>` of a host, ordered by pid."""
        found = [
            f for f in self.host(host).glob(f"*.{kind}")
            if f.name.split(".")[-2].isdigit() and (program is None or f.name.startswith(program + "."))
        ]
        return sorted(found, key=lambda f: int(f.name.split(".")[-2]))

    def stdout(self, host: str, program: str | None = None) -> str:
        """Standard output of a host's processes (or those of one program), ordered by pid."""
        return "".join(f.read_text(errors="replace") for f in self.files(host, "stdout", program))

    def stderr(self, host: str, program: str | None = None) -> str:
        """Standard error of a host's processes (or those of one program), ordered by pid."""
        return "".join(f.read_text(errors="replace") for f in self.files(host, "stderr", program))

    def processes(self) -> pd.DataFrame:
        """One row per process of the experiment: host, program, pid, started, ended, state, as_expected, problem."""
        import pandas as pd

        columns = ["host", "program", "pid", "started", "ended", "shell_status", "state", "as_expected", "problem"]
        rows = [{"host": name, **p} for name, h in self.statistics["hosts"].items() for p in h["processes"]]
        return pd.DataFrame(rows, columns=columns).astype({"started": float, "ended": float, "pid": "Int64"})

    def properties(self) -> pd.DataFrame:
        """One row per property of the experiment: name, kind, holds, reason, and the line that decides (host, file, line,
        time in seconds, text): the first violation, or the line that was to appear. `judged` is the number of lines, or
        of operations of a history."""
        import pandas as pd

        columns = ["name", "kind", "holds", "reason", "host", "file", "line", "time", "text", "judged"]
        frame = pd.DataFrame(self.statistics.get("properties", []), columns=columns)
        return frame.astype({"holds": bool, "line": "Int64", "time": float, "judged": "Int64"})

    def traffic(self) -> pd.DataFrame:
        """One row per host: address, packets and bytes in and out, a column `drop_<reason>` per reason, and, for
        hosts with a `cpu`, the busy share."""
        import pandas as pd

        rows = []
        for name, h in self.statistics["hosts"].items():
            row = {"host": name, **{k: h[k] for k in ("address", "packets_in", "bytes_in", "packets_out", "bytes_out")}}
            if "cpu" in h:
                row |= {"cpu_busy": h["cpu"]["busy"], "longest_backlog": h["cpu"]["longest_backlog"]}
            rows.append({**row, **{f"drop_{reason}": count for reason, count in h["drops"].items()}})
        frame = pd.DataFrame(rows)
        drops = [c for c in frame.columns if c.startswith("drop_")]
        frame[drops] = frame[drops].fillna(0).astype(int)
        return frame

    def flows(self) -> pd.DataFrame:
        """One row per flow of modelled endpoints, ordered by end time; times are in seconds."""
        import pandas as pd

        file = self.path / "flows.csv"
        if not file.is_file():
            raise BelljarError(f"{self.path} has no flows: no host of the experiment has a model")
        return pd.read_csv(file)

    def syscall_counts(self) -> pd.Series[int]:
        """Number of calls of each system call on all hosts, in descending order."""
        import pandas as pd

        counts = pd.Series(self.statistics["syscalls"], dtype=int, name="count")
        return counts.sort_values(ascending=False)

    def warnings(self) -> dict[str, int]:
        """Requests of programs that were not fully supported, and instructions that make runs differ, with their number."""
        return dict(self.statistics["warnings"])

    def calls(self, host: str | None = None) -> pd.DataFrame:
        """Every system call recorded by `strace`: time (of its end), host, process, thread, call, arguments, result.
        Signals have rows without arguments and result."""
        import pandas as pd

        columns = ["time", "host", "process", "thread", "call", "arguments", "result"]
        return pd.DataFrame(self._calls([host] if host else self.hosts), columns=columns)

    def _calls(self, hosts: list[str]) -> Iterator[tuple[Any, ...]]:
        for name in hosts:
            for file in self.files(name, "strace"):
                with file.open(errors="replace") as lines:
                    for line in lines:
                        m = _CALL.match(line)
                        if m:
                            yield (float(m[1]), name, file.name.removesuffix(".strace"), int(m[2]), m[3] or m[4], m[5], m[6])

    def series(self, *, every: float | None = None) -> pd.DataFrame:
        """Time series of all hosts: counters at the sampling times. Rows without a change are omitted; with `every`,
        in seconds, the counters of every host are given at these times instead."""
        return self._regular(self._metrics("hosts.csv"), ["host"], every)

    def links(self) -> pd.DataFrame:
        """One row per direction of a link: link, direction, frames, bytes, and a column `drop_<reason>` per reason."""
        import pandas as pd

        rows = [
            {"link": link, "direction": way, "frames": sent["frames"], "bytes": sent["bytes"],
             **{f"drop_{reason}": count for reason, count in sent["drops"].items()}}
            for link, ways in self.statistics.get("links", {}).items() for way, sent in ways.items()
        ]
        frame = pd.DataFrame(rows, columns=None if rows else ["link", "direction", "frames", "bytes"])
        drops = [c for c in frame.columns if c.startswith("drop_")]
        frame[drops] = frame[drops].fillna(0).astype(int)
        return frame

    def accounts(self) -> pd.DataFrame:
        """Accounts of packets, one row per location: an interface (`host:eth0`), the stack of a host (`host`), a
        direction of a link (`link: from to to`), a device, the graph. Packets `received` and `originated` equal those
        `sent`, `consumed`, `dropped` and `held` at the end."""
        import pandas as pd

        columns = ["location", "received", "originated", "sent", "consumed", "dropped", "held"]
        rows = [
            (at, a.get("received", 0), sum(a.get("originated", {}).values()), a.get("sent", 0), sum(a.get("consumed", {}).values()),
             sum(a.get("drops", {}).values()), a.get("held", 0))
            for at, a in self.statistics.get("packets", {}).items()
        ]
        return pd.DataFrame(rows, columns=columns)

    def drops(self) -> pd.DataFrame:
        """Packets dropped, one row per location and reason, largest number first: location, reason, packets."""
        import pandas as pd

        rows = [(at, reason, n) for at, a in self.statistics.get("packets", {}).items() for reason, n in a.get("drops", {}).items()]
        rows.sort(key=lambda row: -row[2])
        return pd.DataFrame(rows, columns=["location", "reason", "packets"])

    @property
    def dropped(self) -> int:
        """Number of packets dropped anywhere."""
        packets = self.statistics.get("packets")
        of = packets.values() if packets else self.statistics["hosts"].values()
        return sum(sum(account.get("drops", {}).values()) for account in of)

    def link_series(self, *, every: float | None = None) -> pd.DataFrame:
        """Time series of links, one row per direction (`from`, `to`): frames, bytes, drops by reason, queued frames.
        `every` is as for `series`."""
        if not self.statistics.get("links"):
            raise BelljarError(f"{self.path} has no links: its experiment has a graph only")
        return self._regular(self._metrics("links.csv"), ["link", "from", "to"], every)

    def _regular(self, frame: pd.DataFrame, by: list[str], every: float | None) -> pd.DataFrame:
        if every is None:
            return frame
        import numpy as np
        import pandas as pd

        end = self.statistics["simulated_seconds"]
        times = np.arange(1, round(end / every) + 1) * every
        regular = []
        for name, rows in frame.groupby(by, sort=False):
            # Times have nine decimals, so equal times must not differ by rounding.
            at = np.searchsorted(rows["time"].to_numpy(), times + 1e-9, side="right") - 1
            counters = rows.drop(columns=["time", *by])
            taken = np.where((at >= 0)[:, None], counters.to_numpy()[np.clip(at, 0, None)], 0)
            part = pd.DataFrame(taken, columns=counters.columns)
            part.insert(0, "time", times)
            # For a single column, pandas before 2.0 returns a scalar.
            values: list[Any] = list(name) if isinstance(name, tuple) else [name]
            for place, (column, value) in enumerate(zip(by, values)):
                part.insert(1 + place, column, value)
            regular.append(part)
        return pd.concat(regular, ignore_index=True) if regular else frame

    def radio_stations(self) -> pd.DataFrame:
        """One row per station of a radio channel: radio, host, interface, frames sent and received, the shares of
        time during which it was sending and the medium was busy, and a column `drop_<reason>` per reason."""
        import pandas as pd

        seconds = self.statistics["simulated_seconds"] or 1
        rows = []
        for radio, of_radio in self.statistics.get("radios", {}).items():
            for name, station in of_radio["stations"].items():
                counts = {key: value for key, value in station.items() if key not in ("drops", "airtime_seconds", "busy_seconds")}
                host, _, interface = name.rpartition(":")
                rows.append({"radio": radio, "host": host, "interface": interface, **counts, "airtime": station["airtime_seconds"] / seconds,
                             "busy": station["busy_seconds"] / seconds, **{f"drop_{why}": n for why, n in station["drops"].items()}})
        frame = pd.DataFrame(rows, columns=None if rows else ["radio", "host", "interface"])
        drops = [c for c in frame.columns if c.startswith("drop_")]
        frame[drops] = frame[drops].fillna(0).astype(int)
        return frame

    def positions(self, *, every: float = 1.0) -> pd.DataFrame:
        """Positions of the stations of radio channels at intervals of `every` seconds: time, radio, host, interface,
        x, y, z in metres."""
        import numpy as np
        import pandas as pd

        times = np.arange(0, round(self.statistics["simulated_seconds"] / every) + 1) * every
        parts = []
        for radio in self.topology.get("radios", []):
            for station in radio["stations"]:
                path = np.array(station["path"])
                # Of two positions at the same time the second one applies.
                after = np.searchsorted(path[:, 0], times, side="right")
                before, after = np.clip(after - 1, 0, None), np.clip(after, None, len(path) - 1)
                length = path[after, 0] - path[before, 0]
                share = np.clip(np.divide(times - path[before, 0], length, out=np.zeros_like(times), where=length > 0), 0, 1)
                place = path[before, 1:] + (path[after, 1:] - path[before, 1:]) * share[:, None]
                parts.append(pd.DataFrame({"time": times, "radio": radio["name"], "host": station["node"], "interface": station["interface"],
                                           "x": place[:, 0], "y": place[:, 1], "z": place[:, 2]}))
        return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=["time", "radio", "host", "interface", "x", "y", "z"])

    def routes(self) -> pd.DataFrame:
        """Changes of the hosts' routes: time, host, to, metric, event (added or removed; a changed route is added
        again), protocol (rtnetlink's number), via and dev of the first next hop. Requires `route_log=True`."""
        import pandas as pd

        rows = []
        for file in self._route_logs():
            for line in file.read_text().splitlines():
                change = json.loads(line)
                if "to" in change:
                    hop = (change.get("hops") or [{}])[0]
                    rows.append((change["time"], file.stem, change["to"], change["metric"], "added" if "hops" in change else "removed",
                                 change.get("protocol"), hop.get("via"), hop.get("dev")))
        frame = pd.DataFrame(rows, columns=["time", "host", "to", "metric", "event", "protocol", "via", "dev"])
        return frame.sort_values("time", kind="stable", ignore_index=True)

    def routing(self, *, control_ports: Sequence[int] = ()) -> dict[str, Any]:
        """Output of `belljar inspect --routing --json`: hosts with their changes and control packets, convergence,
        loops, and paths at each second, with the expected share of packets delivered. `control_ports` are UDP ports of routing protocols on non-standard ports."""
        self._route_logs()
        command = [str(find_binary()), "inspect", str(self.path), "--routing", "--json"]
        command += [word for port in control_ports for word in ("--control-port", str(port))]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise BelljarError(done.stderr.strip())
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def _route_logs(self) -> list[pathlib.Path]:
        logs = sorted((self.path / "routes").glob("*.jsonl"))
        if not logs:
            raise BelljarError(f"{self.path} has no route logs: give the experiment route_log=True")
        return logs

    def tcp(self) -> pd.DataFrame:
        """Time series of TCP connections: cwnd, rtt_us, unacked, unsent and so on."""
        return self._metrics("tcp.csv")

    def plot_tcp(self, host: str | None = None, path: str | os.PathLike[str] | None = None) -> tuple[Figure, pd.DataFrame]:
        """Congestion windows, thresholds, rates and queues of the TCP connections: see `plots.plot_tcp`."""
        from .plots import plot_tcp

        return plot_tcp(self, host, path)

    def plot_faults(self, path: str | os.PathLike[str] | None = None) -> tuple[Figure, pd.DataFrame]:
        """Gantt chart of the events: see `plots.plot_faults`."""
        from .plots import plot_faults

        return plot_faults(self, path)

    def plot_sequence(
        self, first: str, second: str, *, start: float = 0.0, end: float | None = None, most: int = 40,
        interfaces: tuple[str, str] = ("eth0", "eth0"), path: str | os.PathLike[str] | None = None,
    ) -> tuple[Figure, pd.DataFrame]:
        """Sequence diagram of the packets between two hosts, from their captures: see `plots.plot_sequence`."""
        from .plots import plot_sequence

        return plot_sequence(self, first, second, start=start, end=end, most=most, interfaces=interfaces, path=path)

    def _metrics(self, name: str) -> pd.DataFrame:
        import pandas as pd

        file = self.path / "metrics" / name
        if not file.is_file():
            raise BelljarError(f"{self.path} has no time series: give the experiment metrics_interval=\"100 ms\", "
                               "or its file belljar: {metrics: {interval: 100 ms}}")
        return pd.read_csv(file)

    def p4_tables(self, switch: str | None = None) -> pd.DataFrame:
        """Entries and default actions of P4 switches at the end: columns switch, table, entry, match, priority,
        action, arguments, hits, packets, bytes. Default actions have no entry; their hits are the table's misses.
        Packets and bytes are direct counters."""
        return self._p4_state("tables.csv", switch, "table,entry,match,priority,action,arguments,hits,packets,bytes")

    def p4_counters(self, switch: str | None = None) -> pd.DataFrame:
        """Non-zero counters of P4 switches: columns switch, counter, index, packets, bytes."""
        return self._p4_state("counters.csv", switch, "counter,index,packets,bytes")

    def p4_registers(self, switch: str | None = None) -> pd.DataFrame:
        """Non-zero registers of P4 switches: columns switch, register, index, value (an int)."""
        frame = self._p4_state("registers.csv", switch, "register,index,value")
        frame["value"] = [int(value, 16) for value in frame["value"]]
        return frame

    def p4_ports(self) -> pd.DataFrame:
        """Ports of P4 switches: columns switch, port, packets_in, packets_out, queue_full, most_queued, queued."""
        import pandas as pd

        rows = [{"switch": name, "port": port, **counts} for name, switch in self.statistics.get("p4_switches", {}).items()
                for port, counts in switch.get("ports", {}).items()]
        columns = ["switch", "port", "packets_in", "packets_out", "queue_full", "most_queued", "queued"]
        return pd.DataFrame(rows, columns=columns)

    def _p4_state(self, name: str, switch: str | None, columns: str) -> pd.DataFrame:
        import pandas as pd

        switches = self.statistics.get("p4_switches", {})
        if switch is not None and switch not in switches:
            raise BelljarError(f"there was no P4 switch '{switch}': the run had {', '.join(switches) or 'none'}")
        parts = []
        for one in switches if switch is None else [switch]:
            file = self.path / "switches" / one / name
            if file.is_file():
                parts.append(pd.read_csv(file, dtype={column: str for column in ("match", "arguments", "value")}))
                parts[-1].insert(0, "switch", one)
        if not parts:
            return pd.DataFrame(columns=["switch", *columns.split(",")])
        frame = pd.concat(parts, ignore_index=True)
        numbers = {column: "Int64" for column in ("entry", "priority", "packets", "bytes") if column in frame}
        return frame.astype(numbers)

    def packets(self, node: str, interface: str = "eth0") -> Iterator[Packet]:
        """Packets captured (`pcap=True`) at a host, switch or router, in order."""
        folders = [self.path / kind / node for kind in ("hosts", "switches", "routers", "simulators", "radios", "gateways", "nics")]
        folder = next((folder for folder in folders if folder.is_dir()), None) or self.host(node)
        file = folder / f"{interface}.pcap"
        if not file.is_file():
            raise BelljarError(f"there is no capture {file}: run with pcap=True; a capture without packets is not made")
        epoch = self.topology["epoch_secs"]
        with file.open("rb") as capture:
            header = capture.read(24)
            if len(header) < 24 or header[:4] != b"\x4d\x3c\xb2\xa1":
                raise BelljarError(f"{file} is not a capture with nanoseconds")
            ethernet = header[20:24] == b"\x01\0\0\0"
            while len(record := capture.read(16)) == 16:
                seconds, nanos, kept, length = struct.unpack("<IIII", record)
                yield Packet(seconds - epoch + nanos / 1e9, length, capture.read(kept), ethernet)

    def packet_frame(self, node: str, interface: str = "eth0") -> pd.DataFrame:
        """Capture as a frame: time, length, source, destination, protocol (on links also "arp"), and the ports of TCP
        and UDP."""
        import ipaddress

        import pandas as pd

        rows = []
        for p in self.packets(node, interface):
            row: dict[str, Any] = {"time": p.time, "length": p.length}
            ip = p.ip
            if ip and ip[0] >> 4 == 4 and len(ip) >= 20:
                start, protocol = (ip[0] & 15) * 4, ip[9]
                row |= {"source": str(ipaddress.ip_address(ip[12:16])), "protocol": {1: "icmp", 6: "tcp", 17: "udp"}.get(protocol, str(protocol)),
                        "destination": str(ipaddress.ip_address(ip[16:20]))}
                if protocol in (6, 17) and len(ip) >= start + 4:
                    row["source_port"], row["destination_port"] = struct.unpack(">HH", ip[start : start + 4])
            elif p.ethernet and p.data[12:14] == b"\x08\x06":
                row["protocol"] = "arp"
            rows.append(row)
        columns = ["time", "length", "source", "source_port", "destination", "destination_port", "protocol"]
        return pd.DataFrame(rows, columns=columns).astype({"source_port": "Int64", "destination_port": "Int64"})
