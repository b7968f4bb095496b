"""Results folders as data frames."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import pathlib
import re
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .binary import BelljarError

if TYPE_CHECKING:
    import pandas as pd

_CALL = re.compile(r"(\d+\.\d{9}) \[(\d+)\] (?:--- (\w+)|(\w+)\((.*)\) = (.*))")


@dataclasses.dataclass(frozen=True)
class Packet:
    """A packet of a capture: seconds since the start of the simulation, its length, what was kept of it."""

    time: float
    length: int
    data: bytes


class Results:
    """The results folder of a run that has ended."""

    def __init__(self, path: str | os.PathLike[str], output: str = "") -> None:
        self.path = pathlib.Path(path)
        #: What the command said.
        self.output = output
        if not (self.path / "sim-stats.json").is_file():
            raise BelljarError(f"{self.path} is not the results of a run that has ended: it has no sim-stats.json")

    @functools.cached_property
    def statistics(self) -> dict[str, Any]:
        """What `sim-stats.json` says."""
        content: dict[str, Any] = json.loads((self.path / "sim-stats.json").read_text())
        return content

    @functools.cached_property
    def topology(self) -> dict[str, Any]:
        """Places, edges, hosts, the seed and when clocks start."""
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
        """Whether every process ended as the experiment expects."""
        return all(p["as_expected"] for h in self.statistics["hosts"].values() for p in h["processes"])

    def host(self, name: str) -> pathlib.Path:
        """The folder of a host, which its processes started in."""
        path = self.path / "hosts" / name
        if not path.is_dir():
            raise BelljarError(f"there is no host '{name}' in {self.path}: there are {', '.join(self.hosts)}")
        return path

    def files(self, host: str, kind: str, program: str | None = None) -> list[pathlib.Path]:
        """A host's files `<program>.<pid>.<kind>` by their pids."""
        found = [
            f for f in self.host(host).glob(f"*.{kind}")
            if f.name.split(".")[-2].isdigit() and (program is None or f.name.startswith(program + "."))
        ]
        return sorted(found, key=lambda f: int(f.name.split(".")[-2]))

    def stdout(self, host: str, program: str | None = None) -> str:
        """What a host's processes (or those of one program) wrote to standard output, in the order of their pids."""
        return "".join(f.read_text(errors="replace") for f in self.files(host, "stdout", program))

    def stderr(self, host: str, program: str | None = None) -> str:
        """The same of standard error."""
        return "".join(f.read_text(errors="replace") for f in self.files(host, "stderr", program))

    def processes(self) -> pd.DataFrame:
        """A row for each process of the experiment: host, program, pid, started, ended, state, as_expected, problem."""
        import pandas as pd

        columns = ["host", "program", "pid", "started", "ended", "shell_status", "state", "as_expected", "problem"]
        rows = [{"host": name, **p} for name, h in self.statistics["hosts"].items() for p in h["processes"]]
        return pd.DataFrame(rows, columns=columns).astype({"started": float, "ended": float, "pid": "Int64"})

    def traffic(self) -> pd.DataFrame:
        """A row for each host: address, packets and bytes in and out, and a column `drop_<reason>` for each reason."""
        import pandas as pd

        rows = []
        for name, h in self.statistics["hosts"].items():
            row = {"host": name, **{k: h[k] for k in ("address", "packets_in", "bytes_in", "packets_out", "bytes_out")}}
            rows.append({**row, **{f"drop_{reason}": count for reason, count in h["drops"].items()}})
        frame = pd.DataFrame(rows)
        drops = [c for c in frame.columns if c.startswith("drop_")]
        frame[drops] = frame[drops].fillna(0).astype(int)
        return frame

    def flows(self) -> pd.DataFrame:
        """What modelled endpoints have done, a row for each flow in the order of their ends; times are seconds."""
        import pandas as pd

        file = self.path / "flows.csv"
        if not file.is_file():
            raise BelljarError(f"{self.path} has no flows: no host of the experiment has a model")
        return pd.read_csv(file)

    def syscall_counts(self) -> pd.Series[int]:
        """How often each system call was made on all hosts, the most frequent first."""
        import pandas as pd

        counts = pd.Series(self.statistics["syscalls"], dtype=int, name="count")
        return counts.sort_values(ascending=False)

    def warnings(self) -> dict[str, int]:
        """What programs asked for and did not fully get, with how often."""
        return dict(self.statistics["warnings"])

    def calls(self, host: str | None = None) -> pd.DataFrame:
        """Every system call that `strace` has recorded: time (of its end), host, process, thread, call, arguments,
        result. A signal has a row without arguments and result."""
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
        """The time series of all hosts: counters at sampled times. A row is left out where nothing has changed; with
        `every`, in seconds, the counters of every host are given at these times instead."""
        frame = self._metrics("hosts.csv")
        if every is None:
            return frame
        import numpy as np
        import pandas as pd

        end = self.statistics["simulated_seconds"]
        times = np.arange(1, round(end / every) + 1) * every
        regular = []
        for name, rows in frame.groupby("host", sort=False):
            # Times have nine decimals: what is equal there must not differ by rounding.
            at = np.searchsorted(rows["time"].to_numpy(), times + 1e-9, side="right") - 1
            values = rows.drop(columns=["time", "host"]).to_numpy()
            taken = np.where((at >= 0)[:, None], values[np.clip(at, 0, None)], 0)
            part = pd.DataFrame(taken, columns=rows.columns.drop(["time", "host"]))
            part.insert(0, "time", times)
            part.insert(1, "host", name)
            regular.append(part)
        return pd.concat(regular, ignore_index=True) if regular else frame

    def tcp(self) -> pd.DataFrame:
        """The time series of TCP connections: cwnd, rtt_us, unacked, unsent and so on."""
        return self._metrics("tcp.csv")

    def _metrics(self, name: str) -> pd.DataFrame:
        import pandas as pd

        file = self.path / "metrics" / name
        if not file.is_file():
            raise BelljarError(f"{self.path} has no time series: give the experiment metrics_interval=\"100 ms\"")
        return pd.read_csv(file)

    def packets(self, host: str, interface: str = "eth0") -> Iterator[Packet]:
        """The packets of a capture (`pcap=True`), from the IP header on, in order."""
        file = self.host(host) / f"{interface}.pcap"
        if not file.is_file():
            raise BelljarError(f"there is no capture {file}: run with pcap=True; a capture without packets is not made")
        epoch = self.topology["epoch_secs"]
        with file.open("rb") as capture:
            header = capture.read(24)
            if len(header) < 24 or header[:4] != b"\x4d\x3c\xb2\xa1":
                raise BelljarError(f"{file} is not a capture with nanoseconds")
            while len(record := capture.read(16)) == 16:
                seconds, nanos, kept, length = struct.unpack("<IIII", record)
                yield Packet(seconds - epoch + nanos / 1e9, length, capture.read(kept))

    def packet_frame(self, host: str, interface: str = "eth0") -> pd.DataFrame:
        """A capture as a frame: time, length, source, destination, protocol, and for TCP and UDP the ports."""
        import ipaddress

        import pandas as pd

        rows = []
        for p in self.packets(host, interface):
            row: dict[str, Any] = {"time": p.time, "length": p.length}
            if p.data and p.data[0] >> 4 == 4 and len(p.data) >= 20:
                start, protocol = (p.data[0] & 15) * 4, p.data[9]
                row |= {"source": str(ipaddress.ip_address(p.data[12:16])), "protocol": {1: "icmp", 6: "tcp", 17: "udp"}.get(protocol, str(protocol)),
                        "destination": str(ipaddress.ip_address(p.data[16:20]))}
                if protocol in (6, 17) and len(p.data) >= start + 4:
                    row["source_port"], row["destination_port"] = struct.unpack(">HH", p.data[start : start + 4])
            rows.append(row)
        columns = ["time", "length", "source", "source_port", "destination", "destination_port", "protocol"]
        return pd.DataFrame(rows, columns=columns).astype({"source_port": "Int64", "destination_port": "Int64"})
