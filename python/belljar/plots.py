"""Plots of a single run: TCP connections, fault events, packets between two hosts. Those of many runs are in `figures`."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import yaml

from .binary import BelljarError
from .figures import COLOURS, STYLES, _axes, _save

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from .results import Packet, Results

#: Congestion windows and thresholds that mean "none" (TCP_INFINITE_SSTHRESH).
_INFINITE = 0x7FFFFFFF
#: Number of connections that have a legend.
_NAMED = 12


def plot_tcp(results: Results, host: str | None = None, path: str | os.PathLike[str] | None = None) -> tuple[Figure, pd.DataFrame]:
    """Congestion windows of all connections over time, with the slow-start threshold dotted; below, the rate at which data
    was acknowledged and the data in flight and unsent. Requires `metrics_interval`. `host` selects a host's
    connections."""
    import numpy as np

    table = results.tcp()
    if host is not None:
        table = table[table["host"] == host]
    # An end that only receives has a window that does not move.
    sent = table.groupby(["host", "local", "remote"], sort=False)["bytes_acked"].transform("max")
    table = table[sent > 0].reset_index(drop=True)
    if table.empty:
        raise BelljarError(f"no TCP connection in {results.path} has sent data")
    figure, window = _axes("", "congestion window / segments")
    figure.set_size_inches(6.4, 6.4)
    figure.delaxes(window)
    window, rate, queue = figure.subplots(3, 1, sharex=True, height_ratios=[2, 1, 1])
    groups = list(table.groupby(["host", "local", "remote"], sort=False))
    table["rate"] = np.nan
    for number, ((name, local, remote), part) in enumerate(groups):
        look: dict[str, Any] = {"color": COLOURS[number % len(COLOURS)], "linestyle": STYLES[number // len(COLOURS) % len(STYLES)], "linewidth": 1.2}
        label = f"{name} {str(local).rpartition(':')[2]} to {remote}" if number < _NAMED else None
        window.step(part["time"], part["cwnd"], where="post", label=label, **look)
        threshold = part["ssthresh"].where(part["ssthresh"] < _INFINITE)
        window.step(part["time"], threshold, where="post", **{**look, "linestyle": ":", "linewidth": 0.9})
        table.loc[part.index, "rate"] = part["bytes_acked"].diff() * 8 / part["time"].diff()
        rate.step(part["time"], table.loc[part.index, "rate"] / 1e6, where="pre", **look)
        queue.step(part["time"], (part["unacked"] + part["unsent"]) / 1000, where="post", **look)
    window.plot([], [], color="gray", linestyle=":", linewidth=0.9, label="slow-start threshold")
    for axes, label in ((window, "congestion window\n/ segments"), (rate, "acknowledged\n/ Mbit/s"), (queue, "in flight and\nunsent / kB")):
        axes.set_ylabel(label)
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    queue.set_xlabel("simulated time / s")
    if len(groups) > _NAMED:
        window.set_title(f"{len(groups)} connections, {_NAMED} in the legend", fontsize="small")
    window.legend(frameon=False, fontsize="x-small", ncols=2 if len(groups) > 3 else 1)
    _save(figure, table, path)
    return figure, table


def faults(results: Results) -> pd.DataFrame:
    """Events of the run, one row per occurrence: kind, of (its hosts or links), start and end in seconds; the end of an event
    without a duration is its start. Events that the seed has drawn have their drawn times."""
    import pandas as pd

    written = yaml.safe_load((results.path / "processed-config.yaml").read_text()).get("events") or []
    drawn = yaml.safe_load(results.drawn_events or "") or {}
    drawn = (drawn.get("events") if isinstance(drawn, dict) else drawn) or []
    events = [event for event in written if "at" in event] + list(drawn)
    when = {"at", "for", "name", "every", "between", "probability"}
    rows = []
    end = float(results.statistics["simulated_seconds"])
    for event in events:
        kind = next((key for key in event if key not in when), "")
        start = _seconds(event["at"])
        rows.append((kind, _named(event[kind]), start, min(start + _seconds(event.get("for", 0)), max(end, start))))
    frame = pd.DataFrame(rows, columns=["kind", "of", "start", "end"])
    return frame.drop_duplicates().sort_values("start", kind="stable", ignore_index=True)


def plot_faults(results: Results, path: str | os.PathLike[str] | None = None) -> tuple[Figure, pd.DataFrame]:
    """Gantt chart of the run's events: a bar from start to end, a mark for an event without a duration."""
    table = faults(results)
    if table.empty:
        raise BelljarError(f"the experiment of {results.path} has no events")
    figure, axes = _axes("simulated time / s", "")
    lanes = list(dict.fromkeys(zip(table["kind"], table["of"])))
    figure.set_size_inches(6.4, 1.2 + 0.28 * len(lanes))
    kinds = list(dict.fromkeys(table["kind"]))
    for _, row in table.iterrows():
        lane, colour = lanes.index((row["kind"], row["of"])), COLOURS[kinds.index(row["kind"]) % len(COLOURS)]
        if row["end"] > row["start"]:
            axes.barh(lane, row["end"] - row["start"], left=row["start"], height=0.6, color=colour)
        else:
            axes.plot(row["start"], lane, marker="d", color=colour)
    axes.set_yticks(range(len(lanes)), [_short(f"{kind} {of}") for kind, of in lanes])
    # From above, with room for the marks of the first and the last.
    axes.set_ylim(len(lanes) - 0.5, -0.5)
    axes.set_xlim(0, max(float(results.statistics["simulated_seconds"]), float(table["end"].max())))
    _save(figure, table, path)
    return figure, table


def sequence(results: Results, first: str, second: str, *, interfaces: tuple[str, str] = ("eth0", "eth0")) -> pd.DataFrame:
    """Packets between two hosts, matched in both captures (`pcap=True`): sent, received (NaN if the packet did not arrive),
    source, destination, length and label. Between the two, addresses and ports may be translated."""
    import pandas as pd

    captures = [list(_own(results, host, interface)) for host, interface in zip((first, second), interfaces)]
    own = [_addresses(results, host) for host in (first, second)]
    rows = _matched(captures, own, own, _identity)
    if all(at is None for _, _, at in rows):
        rows = _matched(captures, own, _seen(captures, own), _translated_identity) or rows
    names = (first, second)
    frame = pd.DataFrame([(packet.time, at, names[sender], names[1 - sender], len(packet.ip), _label(packet)) for packet, sender, at in rows],
                         columns=["sent", "received", "source", "destination", "length", "label"])
    return frame.astype({"received": float}).sort_values("sent", kind="stable", ignore_index=True)


def plot_sequence(
    results: Results, first: str, second: str, *, start: float = 0.0, end: float | None = None, most: int = 40,
    interfaces: tuple[str, str] = ("eth0", "eth0"), path: str | os.PathLike[str] | None = None,
) -> tuple[Figure, pd.DataFrame]:
    """Sequence diagram of the packets between two hosts from `start` on, `most` of them at most: an arrow from sending to
    reception, a cross where a packet was lost."""
    table = sequence(results, first, second, interfaces=interfaces)
    shown = table[(table["sent"] >= start) & (table["sent"] <= (float("inf") if end is None else end))].head(most)
    if shown.empty:
        raise BelljarError(f"there are no packets between {first} and {second} from {start} s on")
    figure, axes = _axes("", "simulated time / s")
    figure.set_size_inches(6.4, 1.5 + 0.26 * len(shown))
    axes.grid(visible=False)
    low, high = float(shown["sent"].min()), float(shown[["sent", "received"]].max().max())
    pad = (high - low) * 0.03 or 0.001
    for x, name in ((0, first), (1, second)):
        axes.plot([x, x], [low - pad, high + pad], color="0.4", linewidth=1)
        axes.text(x, low - 1.5 * pad, name, ha="center", va="bottom", fontweight="bold")
    for _, row in shown.iterrows():
        x1 = 0 if row["source"] == first else 1
        lost = row["received"] != row["received"]
        x2, y2 = (0.5, row["sent"] + pad) if lost else (1.0 - x1, row["received"])
        colour = "#d1495b" if lost else COLOURS[0] if x1 == 0 else COLOURS[2]
        axes.annotate("", (x2, y2), (x1, row["sent"]), arrowprops={"arrowstyle": "->", "color": colour, "linewidth": 1})
        if lost:
            axes.plot(x2, y2, marker="x", color=colour)
    # Labels stand outside, where no arrow goes; those that would touch are one, with the number of the packets.
    line = 0.15 * (high - low + 6 * pad) / (0.8 * figure.get_size_inches()[1])
    for place, side in ((-0.03, first), (1.03, second)):
        for at, text in _labels(shown[shown["source"] == side], line):
            axes.text(place, at, text, ha="right" if place < 0.5 else "left", va="center", fontsize="x-small", color=COLOURS[0 if side == first else 2])
    axes.set_ylim(high + 2 * pad, low - 4 * pad)
    axes.set_xlim(-0.5, 1.5)
    axes.set_xticks([])
    axes.spines[["bottom"]].set_visible(False)
    _save(figure, shown, path)
    return figure, shown


def _labels(sent: pd.DataFrame, apart: float) -> list[tuple[float, str]]:
    """Labels of packets by the time of sending, at least `apart` from each other."""
    made: list[tuple[float, str, int]] = []
    for at, label in zip(sent["sent"], sent["label"]):
        if made and at - made[-1][0] < apart:
            made[-1] = (*made[-1][:2], made[-1][2] + 1)
        else:
            made.append((at, label, 0))
    return [(at, label if not more else f"{label} and {more} more") for at, label, more in made]


def _matched(
    captures: Sequence[Sequence[Packet]], own: Sequence[set[str]], seen: Sequence[set[str]], identity: Callable[[Packet], bytes],
) -> list[tuple[Packet, int, float | None]]:
    """Packets that one of two hosts sent to the other, with the number of the sender and the time of reception. `own` are the
    addresses of each host, `seen` those that it has for the other."""
    rows: list[tuple[Packet, int, float | None]] = []
    for sender, receiver in ((0, 1), (1, 0)):
        arrived: dict[bytes, list[float]] = defaultdict(list)
        for packet in captures[receiver]:
            if _source(packet) in seen[sender]:
                arrived[identity(packet)].append(packet.time)
        for packet in captures[sender]:
            if _source(packet) not in own[sender] or _destination(packet) not in seen[receiver]:
                continue
            times = arrived[identity(packet)]
            # A packet arrives after it was sent: of equal ones the first that does.
            at = next((time for time in times if time >= packet.time), None)
            if at is not None:
                times.remove(at)
            rows.append((packet, sender, at))
    return rows


def _seen(captures: Sequence[Sequence[Packet]], own: Sequence[set[str]]) -> list[set[str]]:
    """Addresses that each host has for the other, where they are translated in between."""
    seen: list[set[str]] = [set(), set()]
    for sender, receiver in ((0, 1), (1, 0)):
        arrived = {_translated_identity(packet): _source(packet) for packet in captures[receiver] if _destination(packet) in own[receiver]}
        for packet in captures[sender]:
            source = arrived.get(_translated_identity(packet)) if _source(packet) in own[sender] else None
            if source is not None:
                seen[sender].add(source)
                seen[receiver].add(_destination(packet))
    return seen


def _own(results: Results, host: str, interface: str) -> Iterator[Packet]:
    return (packet for packet in results.packets(host, interface) if packet.ip)


def _addresses(results: Results, host: str) -> set[str]:
    found = next((own for own in results.topology["hosts"] if own["name"] == host), None)
    if found is None:
        raise BelljarError(f"there is no host '{host}' in {results.path}: there are {', '.join(results.hosts)}")
    return {found["address"], *found.get("addresses", [])}


def _address(packet: Packet, v4: int, v6: int) -> str:
    import ipaddress

    ip = packet.ip
    return str(ipaddress.ip_address(ip[v4:v4 + 4] if ip[0] >> 4 == 4 else ip[v6:v6 + 16]))


def _source(packet: Packet) -> str:
    return _address(packet, 12, 8)


def _destination(packet: Packet) -> str:
    return _address(packet, 16, 24)


def _identity(packet: Packet) -> bytes:
    """The bytes of a packet that routers leave as they are."""
    ip = packet.ip
    return ip[2:8] + ip[9:10] + ip[12:] if ip[0] >> 4 == 4 else ip[4:7] + ip[8:]


def _translated_identity(packet: Packet) -> bytes:
    """The bytes of a packet that a translation of addresses and ports leaves as they are, too."""
    ip = packet.ip
    start, protocol, head = ((ip[0] & 15) * 4, ip[9], ip[2:8] + ip[9:10]) if ip[0] >> 4 == 4 else (40, ip[6], ip[4:7])
    if protocol == 6:
        return head + ip[start + 4:start + 16] + ip[start + 18:]
    if protocol == 17:
        return head + ip[start + 4:start + 6] + ip[start + 8:]
    # The number of a query takes the place of a port.
    return head + (ip[start:start + 2] + ip[start + 6:] if protocol in (1, 58) else ip[start:])


def _label(packet: Packet) -> str:
    """Protocol, flags and lengths, as tcpdump shows them."""
    ip = packet.ip
    start, protocol = ((ip[0] & 15) * 4, ip[9]) if ip[0] >> 4 == 4 else (40, ip[6])
    if protocol == 6 and len(ip) >= start + 20:
        flags = "".join(name for bit, name in ((2, "SYN "), (1, "FIN "), (4, "RST "), (16, "ACK ")) if ip[start + 13] & bit)
        data = int.from_bytes(ip[2:4] if ip[0] >> 4 == 4 else ip[4:6], "big") - (ip[start + 12] >> 4) * 4 - (start if ip[0] >> 4 == 4 else 0)
        return f"{flags.strip()}{f' {data} B' if data > 0 else ''}"
    if protocol == 17 and len(ip) >= start + 8:
        return f"UDP {int.from_bytes(ip[start + 4:start + 6], 'big') - 8} B"
    return {1: "ICMP", 58: "ICMPv6"}.get(protocol, f"protocol {protocol}")


def _seconds(text: object) -> float:
    """A time of an experiment file in seconds."""
    found = re.fullmatch(r"\s*([\d.]+)\s*(ns|us|ms|s|sec|min|m|h)?\s*", str(text))
    if found is None:
        raise BelljarError(f"'{text}' is not a time")
    return float(found[1]) * {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "min": 60, "m": 60, "h": 3600}.get(found[2] or "s", 1)


def _named(value: object) -> str:
    """Names in the value of an event."""
    if isinstance(value, dict):
        return " ".join(str(own) for own in value.values())
    if isinstance(value, list):
        return " | ".join(", ".join(map(str, own)) if isinstance(own, list) else str(own) for own in value)
    return str(value)


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "..."
