#!/usr/bin/env python3
"""Two flows of DCTCP over one link of 10 Gbit/s with an MTU of 4000 bytes, for thresholds K at which its queue marks packets:
figure 1 of the SimBricks paper (SIGCOMM 2022). For each K the payload that both servers received once slow start was over, and how
much waited before the link. DCTCP's authors (SIGCOMM 2010, section 3.4) need K > rate x round-trip time / 7 for full use. With --interrupt there are further curves,
of hosts whose kernel takes time for packets, calls and interrupts."""

import argparse
import pathlib
import sys

import yaml
from common import CPU, ROOT, belljar as binary, save

sys.path.insert(0, str(ROOT / "python"))
import belljar  # noqa: E402
import belljar.figures  # noqa: E402

EXAMPLE = ROOT / "examples" / "dctcp.yaml"
# When the flows begin, and how long slow start and the first estimates may take, in seconds.
START, WARM = 0.1, 0.1
# What a full packet carries, and takes on the link.
PAYLOAD, FRAME = 3948, 4014
RATE, ONE_WAY = 10e9, 168e-6


class Variant(belljar.Experiment):
    """The example with another threshold and duration, and hosts with a CPU whose interrupt takes so many us (None: without)."""

    def __init__(self, k, seconds, interrupt):
        super().__init__(stop_time=1)
        self.k, self.seconds = k, seconds
        self.cpu = None if interrupt is None else CPU | {"interrupt": f"{interrupt} us"}

    def to_dict(self):
        world = yaml.safe_load(EXAMPLE.read_text())
        world["general"]["stop_time"] = f"{START + self.seconds + 0.2:.3f} s"
        world["belljar"] = {"metrics": {"interval": "1 ms"}}
        for host in world["hosts"].values() if self.cpu else ():
            host["cpu"] = self.cpu
        for name in ("client1", "client2"):
            process = world["hosts"][name]["processes"][0]
            process["args"] = process["args"].replace("-t 0.5", f"-t {self.seconds}")
        link = next(link for link in world["links"] if link.get("name") == "bottleneck")
        link["queue"]["ecn_threshold"] = f"{self.k} B"
        return world


def measured(results, seconds):
    """Between two moments: what each server's link has brought, and the mean of what waited."""
    series = results.link_series(every=0.001)
    begin, end = START + WARM, START + seconds
    window = series[(series["time"] >= begin - 1e-9) & (series["time"] <= end + 1e-9)]
    rates = []
    for server in ("server1", "server2"):
        got = window[window["to"] == server]
        span = got["time"].iloc[-1] - got["time"].iloc[0]
        rates.append((got["bytes"].iloc[-1] - got["bytes"].iloc[0]) * 8 / span / 1e9 * PAYLOAD / FRAME)
    middle = window[(window["link"] == "bottleneck") & (window["to"] == "right")]
    link = results.statistics["links"]["bottleneck"]["left to right"]
    return {
        "gbits": sum(rates), "first": rates[0], "second": rates[1], "waiting": middle["queue"].mean(),
        "marked": link.get("impairments", {}).get("ecn_marked", 0) / link["frames"], "drops": sum(link["drops"].values()),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--k", type=float, nargs="+", default=[4, 8, 16, 24, 32, 40, 50, 60, 80, 100, 130, 160, 200], help="thresholds in kB")
    parser.add_argument("--seconds", type=float, default=0.5, help="how long the flows last")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--interrupt", type=float, nargs="+", default=[], help="also hosts with a CPU that takes so many us for an interrupt")
    parser.add_argument("--folder", default=None, help="where results are kept, and not made anew")
    parser.add_argument("--figure", help="where the curve is drawn")
    parser.add_argument("--json")
    a = parser.parse_args()
    folder = pathlib.Path(a.folder) if a.folder else binary().parent / "dctcp"
    thresholds = [round(k * 1000) for k in a.k]
    done = belljar.sweep(lambda k, interrupt: Variant(k, a.seconds, interrupt), folder, seeds=a.seeds,
                         parameters={"k": thresholds, "interrupt": [None, *a.interrupt]}, binary=binary())
    if done.failed:
        sys.exit("\n".join(f"{point.path}: {point.problem}" for point in done.failed))
    table = done.frame(lambda results: measured(results, a.seconds))
    table["hosts"] = ["without a CPU" if value is None or value != value else f"interrupts of {value:g} us" for value in table["interrupt"]]
    print("hosts                K (kB)  Gbit/s  flows            waiting  marked  drops")
    for row in table.sort_values(["hosts", "k"]).itertuples():
        print(f"{row.hosts:19}  {row.k / 1000:6.0f}  {row.gbits:6.3f}  {row.first:5.2f} + {row.second:5.2f}  {row.waiting:9.1f}  {row.marked:6.2%}  {row.drops}")
    most = RATE / 1e9 * PAYLOAD / FRAME
    print(f"the link carries {most:.3f} Gbit/s of payload; rate x round trip / 7 = {RATE * 2 * ONE_WAY / 8 / 7 / 1000:.0f} kB")
    if a.figure:
        table["K (kB)"] = table["k"] / 1000
        belljar.figures.parameter_curve(table, parameter="K (kB)", value="gbits", variant="hosts", ylabel="payload of both flows, Gbit/s", path=a.figure)
    save("dctcp", {"limit_gbits": most, "rows": table.to_dict("records")}, a.json)


if __name__ == "__main__":
    main()
