#!/usr/bin/env python3
"""CPU per host and simulated second of racks of hosts, half of them memcached and half clients, over the number of racks.

The experiment of section 7.4.2 of the SimBricks paper (SIGCOMM 2022): racks of 40 hosts at a ToR switch, all ToRs at one core switch.
Each client (racks/client.c) has a connection to each server of its rack and to as many servers of other racks, drawn at random; in a single rack it has two
to each. It sends gets and sets of 1 KiB at a fixed mean rate. Hosts have permanent entries for each other's hardware addresses: 20,000 questions by ARP, each to 1,000 hosts,
would take longer than all else. With `--behind-a-channel` the last rack is a Belljar of its own, its
ToR's uplink a channel. The cost is the slope between a short and a long run.

`--native` runs the same programs on this machine's own kernel over its loopback, with `--native-rate` requests a second in all however many hosts there
are: what a request costs there with few and with many programs is what the machine's memory adds by itself, without a simulation."""

import argparse
import json
import pathlib
import random
import re
import resource
import subprocess
import sys
import tempfile
import time

from common import ROOT, belljar, compile_c, remove, results_folder, run_experiment, save, spread

SOURCE = ROOT / "benches" / "racks" / "client.c"
SAID = re.compile(r"sent (\d+) answered (\d+) wrong (\d+) skipped (\d+) mean ([\d.]+) us median (\d+) us p99 (\d+) us")
# When clients begin, how long all of them take for it, and how long connecting may take them, in seconds.
START, SPREAD, WARM = 0.02, 0.01, 0.05


def address(rack, number):
    return f"10.0.{rack}.{number + 1}"


def hardware(rack, number):
    return f"02:00:00:00:{rack:02x}:{number + 1:02x}"


def connections(a, racks):
    """By client the servers that it has connections to, each as its rack and number."""
    draws, half, servers = random.Random(racks), a.rack // 2, {}
    for rack in range(racks):
        others = [other for other in range(racks) if other != rack]
        for n in range(half, a.rack):
            near = [(rack, server) for server in range(half)]
            servers[rack, n] = near + ([(draws.choice(others), draws.randrange(half)) for _ in near] if others else near)
    return servers


def write_neighbours(servers, folder):
    """A file of `ip neighbour` commands for each host that others speak with."""
    known = {}
    for client, its in servers.items():
        for server in its:
            known.setdefault(client, set()).add(server)
            known.setdefault(server, set()).add(client)
    for host, others in known.items():
        lines = [f"neighbour add {address(*other)} lladdr {hardware(*other)} dev eth0 nud permanent" for other in sorted(others)]
        neighbours(folder, host).write_text("\n".join(lines) + "\n")


def neighbours(folder, host):
    return folder / f"neighbours-{host[0]}-{host[1]}"


def rack_of(a, program, servers, rack, seconds, folder):
    """(hosts, links) of a rack, without its uplink."""
    hosts, links, half = {}, [], a.rack // 2
    for n in range(a.rack):
        name = f"r{rack:02}{'s' if n < half else 'c'}{n:02}"
        if n < half:
            process = {"path": "memcached", "args": ["-u", "root", "-l", "0.0.0.0", "-t", "1", "-U", "0"], "expected_final_state": "running"}
        else:
            its = servers[rack, n]
            args = [rack * a.rack + n, a.rate, WARM + seconds, a.value, *(address(*server) for server in its)]
            # Not all at the same moment.
            process = {"path": str(program), "args": [str(arg) for arg in args], "start_time": f"{round((START + SPREAD * (n - half) / half) * 1e6)} us"}
        processes = [process]
        if neighbours(folder, (rack, n)).exists():
            processes.append({"path": "ip", "args": ["-batch", str(neighbours(folder, (rack, n)))]})
        hosts[name] = {"interfaces": {"eth0": {"addresses": [f"{address(rack, n)}/16"], "mac": hardware(rack, n)}}, "processes": processes}
        links.append({"between": [name, f"tor{rack:02}"], "rate": "10 Gbit", "latency": "500 ns"})
    return hosts, links


def uplink(one, other, latency, **more):
    return {"between": [one, other], "rate": "40 Gbit", "latency": f"{latency} ns", **more}


def apart(a, general, hosts, links, tor, folder):
    """(simulator, link) of a rack that is another Belljar. A frame is serialised once, where it is sent; half of the uplink's latency is the channel's."""
    quarter, one_way = a.uplink // 4, {"reverse": {"rate": "unlimited"}}
    channel, socket = {"latency": f"{a.uplink // 2} ns"}, str(folder / "uplink.sock")
    inner = {"general": general, "switches": [tor], "hosts": hosts,
             "simulators": {"rest": {**channel, "ports": {"up": {"socket": socket, "role": "connect"}}}},
             "links": [*links, uplink(tor, "rest:up", quarter, **one_way)]}
    (folder / "rack.yaml").write_text(json.dumps(inner))
    command = [str(belljar()), "run", str(folder / "rack.yaml"), "-o", "{folder}/inner", "--no-progress"]
    simulator = {**channel, "command": command, "start_timeout": "300 s", "ports": {"up": {"socket": socket, "role": "listen"}}}
    return simulator, uplink("core", "rack:up", quarter, **one_way)


def experiment(a, program, racks, behind, seconds, folder):
    """The experiment of so many racks; the last one's goes to a file of its own if it is behind a channel."""
    general = {"stop_time": f"{START + SPREAD + WARM + seconds + 0.02:.3f} s", "parallelism": a.parallelism}
    exp = {"general": general, "switches": ["core"], "hosts": {}, "links": []}
    servers = connections(a, racks)
    write_neighbours(servers, folder)
    for rack in range(racks):
        tor = f"tor{rack:02}"
        hosts, links = rack_of(a, program, servers, rack, seconds, folder)
        if behind and rack == racks - 1:
            simulator, link = apart(a, general, hosts, links, tor, folder)
            exp["simulators"] = {"rack": simulator}
            exp["links"].append(link)
        else:
            exp["switches"].append(tor)
            exp["hosts"] |= hosts
            exp["links"] += [*links, uplink("core", tor, a.uplink)]
    if not exp["hosts"]:
        # An experiment in which no process is left ends, whatever its simulators do.
        waiting = {"path": "sleep", "args": ["3600"], "expected_final_state": "running"}
        exp["hosts"]["idle"] = {"interfaces": {"eth0": "10.0.255.1/16"}, "processes": [waiting]}
        exp["links"].append({"between": ["idle", "core"]})
    return json.dumps(exp)


def run(a, program, racks, behind, seconds):
    """(usage, what the clients say) of one run."""
    with tempfile.TemporaryDirectory(prefix="racks-", dir=results_folder()) as folder:
        results, usage = run_experiment(experiment(a, program, racks, behind, seconds, pathlib.Path(folder)))
        said = [SAID.fullmatch(f.read_text().strip()) for f in sorted(results.glob("**/hosts/*/client.*.stdout"))]
        remove(results)
    clients = racks * (a.rack - a.rack // 2)
    if len(said) != clients or not all(said):
        sys.exit(f"{sum(map(bool, said))} of {clients} clients came to their end")
    sent, answered, wrong, skipped = (sum(int(one[n]) for one in said) for n in range(1, 5))
    if sent != answered or wrong or not sent:
        sys.exit(f"of {sent} requests {answered} were answered, {wrong} of them wrongly")
    return usage, {"requests": answered, "skipped": skipped, "mean_us": sum(float(one[5]) for one in said) / clients,
                   "p99_us": max(int(one[7]) for one in said)}


def local(rack, number):
    """A server's address natively."""
    return f"127.1.{rack}.{number + 1}"


def native(a, program, racks, seconds):
    """Seconds of CPU and requests of the same programs on this machine's kernel."""
    servers, half = connections(a, racks), a.rack // 2
    rate = a.native_rate / (racks * (a.rack - half))
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = [subprocess.Popen(["memcached", "-u", "root", "-l", local(rack, n), "-t", "1", "-U", "0"]) for rack in range(racks) for n in range(half)]
    try:
        time.sleep(1 + len(started) / 200)
        clients = [subprocess.Popen([program, str(rack * a.rack + n), str(rate), str(seconds), str(a.value), *(local(*server) for server in its)],
                                    stdout=subprocess.PIPE, text=True) for (rack, n), its in servers.items()]
        said = [SAID.fullmatch(client.communicate()[0].strip()) for client in clients]
    finally:
        for server in started:
            server.terminate()
        for server in started:
            server.wait()
    if not all(said):
        sys.exit(f"{sum(map(bool, said))} of {len(said)} native clients came to their end")
    now = resource.getrusage(resource.RUSAGE_CHILDREN)
    return now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime, sum(int(one[2]) for one in said)


def native_turn(a, program, racks):
    """Microseconds of CPU of a request: the slope between a short and a long run."""
    short, long = (native(a, program, racks, seconds) for seconds in a.native_seconds)
    return (long[0] - short[0]) / (long[1] - short[1]) * 1e6


def natives(a, program):
    """The rows of `--native`."""
    turns = {racks: [] for racks in a.racks}
    for _ in range(a.repeat):
        for racks in a.racks:
            turns[racks].append(native_turn(a, program, racks))
            print(f"{racks * a.rack:5} programs natively {turns[racks][-1]:8.1f} us of CPU a request", flush=True)
    rows = [{"programs": racks * a.rack, "cpu_us": spread(its)} for racks, its in turns.items()]
    for row in rows:
        row["ratio"] = row["cpu_us"]["median"] / rows[0]["cpu_us"]["median"]
        print(f"{row['programs']:5} programs natively {row['cpu_us']['median']:8.1f} us ({row['ratio']:.2f})")
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--racks", type=int, nargs="+", default=[1, 5, 25], help="numbers of racks (%(default)s)")
    parser.add_argument("--rack", type=int, default=40, metavar="HOSTS", help="of a rack (%(default)s)")
    parser.add_argument("--rate", type=float, default=2000, help="requests a second of each client (%(default)s)")
    parser.add_argument("--value", type=int, default=1024, help="bytes of a value (%(default)s)")
    parser.add_argument("--seconds", type=float, nargs=2, default=[0.5, 1.5], metavar=("SHORT", "LONG"), help="simulated, for five racks and more (%(default)s)")
    parser.add_argument("--hosts-seconds", type=float, default=200, help="fewer hosts run longer, until the long run has so many seconds of hosts (%(default)s)")
    parser.add_argument("--behind-a-channel", action="store_true", help="measure with one rack behind a channel too")
    parser.add_argument("--uplink", type=int, default=1000, metavar="NS", help="latency of uplinks; of one that is a channel, the channel has half of it (%(default)s)")
    parser.add_argument("--parallelism", type=int, default=1, help="workers of each Belljar (%(default)s)")
    parser.add_argument("--native", action="store_true", help="measure what the same programs cost without a simulation, and nothing else")
    parser.add_argument("--native-rate", type=float, default=10_000, help="requests a second of all clients together (%(default)s)")
    parser.add_argument("--native-seconds", type=float, nargs=2, default=[4, 12], metavar=("SHORT", "LONG"), help="(%(default)s)")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json")
    a = parser.parse_args()
    program = compile_c(SOURCE, "client")
    if a.native:
        save("racks", {"native": natives(a, program)}, a.json)
        return
    cases = [(racks, behind) for behind in ([False, True] if a.behind_a_channel else [False]) for racks in a.racks]
    measured = {case: [] for case in cases}
    for _ in range(a.repeat):
        for racks, behind in cases:
            # Enough requests for a slope, however few the hosts.
            few, many = a.seconds[0], max(a.seconds[1], a.hosts_seconds / (racks * a.rack))
            (short, _), (long, said) = (run(a, program, racks, behind, seconds) for seconds in (few, many))
            per = racks * a.rack * (many - few)
            measured[racks, behind].append({"cpu": (long.cpu - short.cpu) / per, "wall": (long.wall - short.wall) / per, "start": short.cpu / (racks * a.rack),
                                            "peak_kib": long.peak_kib / (racks * a.rack), **said})
            now = measured[racks, behind][-1]
            print(f"{racks * a.rack:5} hosts {'one rack behind a channel' if behind else '':26}{now['cpu'] * 1e3:8.2f} ms of CPU per host and simulated second,"
                  f" {now['wall'] * 1e3:8.2f} ms of time, {now['mean_us']:.1f} us a request, p99 {now['p99_us']} us, {now['peak_kib']:.0f} KiB a host", flush=True)
    rows = []
    for (racks, behind), turns in measured.items():
        rows.append({"hosts": racks * a.rack, "behind_a_channel": behind, "turns": turns, "cpu_ms": spread([turn["cpu"] * 1e3 for turn in turns])})
        first = next(row for row in rows if row["behind_a_channel"] == behind)
        rows[-1]["ratio"] = rows[-1]["cpu_ms"]["median"] / first["cpu_ms"]["median"]
        print(f"{racks * a.rack:5} hosts {'one rack behind a channel' if behind else '':26}{rows[-1]['cpu_ms']['median']:8.2f} ms ({rows[-1]['ratio']:.2f})")
    save("racks", {"rate": a.rate, "value_bytes": a.value, "rows": rows}, a.json)


if __name__ == "__main__":
    main()
