#!/usr/bin/env python3
"""Campaigns of `belljar explore` on programs with known mistakes, and on their controls, which must not be blamed.

Programs of others are installed or built from the registries when their campaign starts (explore_programs.py).

Each is an experiment in `explore/`. A row of the table has the runs and the processor time until the first finding, and the events of the shrunk failure. With `--csv` rows are
added to a file; a campaign that was interrupted goes on, as `belljar explore` does."""

import argparse
import csv
import json
import pathlib
import resource
import subprocess
import sys
import typing

from common import BUILT, ROOT, belljar, compile_c, save
from explore_programs import cargo, go, java, mariadb, npm, pypi

FOLDER = ROOT / "benches" / "explore"
JAVA = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xmx128m"


class Bug(typing.NamedTuple):
    """A known mistake: its experiment, what it is, and the settings of the experiment with it and, for the control, without it."""

    experiment: str
    what: str
    settings: typing.Callable[[bool], list]


def mended(*settings):
    """Settings of the experiment that mend it."""
    return lambda control: list(settings) if control else []


def arguments(host, text, process=0):
    """The arguments of a process that mend it."""
    return mended(f"hosts.{host}.processes.{process}.args={text}")


def with_packages(hosts, name, faulty, other, *more):
    """A package of PyPI for processes of hosts, in a faulty and in a mended version."""
    return lambda control: [f"hosts.{host}.processes.0.environment.PYTHONPATH={pypi(name, other if control else faulty, *more)}" for host in hosts]


def raft(name, faulty, other):
    """A program of ours with hashicorp/raft for three nodes, in a faulty and in a mended version."""
    return lambda control: [
        f"hosts.node{number}.processes.0.path={go(name, 'github.com/hashicorp/raft', other if control else faulty, FOLDER / name / 'main.go')}" for number in (1, 2, 3)
    ]


def both(*parts):
    """Settings of several parts."""
    return lambda control: [setting for part in parts for setting in part(control)]


BUGS = {
    "G1": Bug(
        "etcd_members",
        "members of etcd hold different data after kills under load",
        lambda control: [
            f"hosts.etcd{number}.processes.0.path={go('etcd', 'go.etcd.io/etcd/server/v3', '3.5.5' if control else '3.5.0')}" for number in (1, 2, 3)
        ],
    ),
    "G2": Bug(
        "etcd_put",
        "a lone etcd acknowledges a write before it is on disk",
        lambda control: [f"hosts.etcd.processes.0.path={go('etcd', 'go.etcd.io/etcd/server/v3', '3.5.5' if control else '3.5.0')}"],
    ),
    "G3": Bug(
        "etcd_watch",
        "a watcher of etcd does not see a delete at whose revision the store is compacted",
        lambda control: [f"hosts.etcd.processes.0.path={go('etcd', 'go.etcd.io/etcd/server/v3', '3.5.16' if control else '3.5.12')}"],
    ),
    "G4": Bug(
        "etcd_lease",
        "a leader of etcd whose disk stood still ends leases by its old view",
        lambda control: [f"hosts.etcd{number}.processes.0.path={go('etcd', 'go.etcd.io/etcd/server/v3', '3.5.15')}" for number in (1, 2, 3) if control],
    ),
    "G5": Bug("etcd_lock", "a lock of etcd 3.4 whose lease ends while its holder stands still", arguments("store", "store --fencing")),
    "G6": Bug("raft_prevote", "a follower of hashicorp/raft refuses the pre-vote of its own leader", raft("raft_prevote", "1.7.0", "1.7.2")),
    "G7": Bug(
        "raft_transfer",
        "a transfer of leadership of hashicorp/raft ends without an error and without another leader",
        raft("raft_transfer", "1.6.0", "1.7.2"),
    ),
    "G8": Bug(
        "nats_stream",
        "NATS JetStream acknowledges messages that are on no disk",
        lambda control: [
            f"hosts.nats{number}.processes.0.environment.{setting}"
            for number in (1, 2, 3)
            for setting in [f"NATS={go('nats-server', 'github.com/nats-io/nats-server/v2', '2.12.1')}", *(["SYNC=', sync_interval: always'"] if control else [])]
        ],
    ),
    "G9": Bug(
        "nats_kills",
        "NATS JetStream forgets a stream after kills and restarts",
        both(
            lambda _: [f"hosts.nats{number}.processes.0.environment.NATS={go('nats-server', 'github.com/nats-io/nats-server/v2', '2.10.20')}" for number in (1, 2, 3)],
            mended("explore.kinds={pause: }"),
        ),
    ),
    "G10": Bug("redis_client", "redis-py leaves the answer of a cancelled command in its connection", with_packages(["client"], "redis", "4.5.1", "4.5.5", "async-timeout")),
    "G11": Bug(
        "tasks",
        "a worker of celery consumes nothing after its broker's restart",
        lambda control: [
            f"hosts.{host}.processes.0.environment.PYTHONPATH={pypi('celery', *(('5.3.6', 'kombu==5.4.0') if control else ('5.3.1', 'kombu==5.3.1')), 'redis==4.6.0', 'async-timeout')}"
            for host in ("worker", "producer")
        ],
    ),
    "G12": Bug(
        "object_cache",
        "a client of ZEO keeps an object that was changed while it was loaded",
        with_packages(["server", "writer", "reader1", "reader2"], "ZEO", "5.2.2", "5.2.3", "ZODB==5.6.0"),
    ),
    "G13": Bug(
        "raft_list",
        "PySyncObj forgets its term and its vote at a restart",
        both(
            with_packages(["node1", "node2", "node3"], "pysyncobj", "0.3.14", "0.3.14"),
            mended(
                "hosts.node1.processes.0.args=node --persist node1 node2 node3",
                "hosts.node2.processes.0.args=node --persist node2 node1 node3",
                "hosts.node3.processes.0.args=node --persist node3 node1 node2",
            ),
        ),
    ),
    "G14": Bug(
        "raft_restart",
        "PySyncObj has a commit index on disk, and not its entries",
        both(with_packages(["node1", "node2", "node3"], "pysyncobj", "0.3.14", "0.3.14"), mended("explore.kinds={crash: {files: [kept]}}")),
    ),
    "G15": Bug(
        "mqtt_store",
        "MQTT.js drops messages that are published while it sends its store anew",
        both(
            lambda _: [f"hosts.{host}.processes.0.environment.NODE_PATH={npm('mqtt', '5.13.2')}" for host in ("publisher", "subscriber")],
            arguments("publisher", "publish broker --repeat"),
        ),
    ),
    "G16": Bug("mqtt_client", "paho-mqtt never ends a wait for a message that a lost connection took", with_packages(["client"], "paho-mqtt", "1.6.1", "2.1.0")),
    "G17": Bug(
        "lockfile",
        "two processes take over the same stale lock of proper-lockfile",
        lambda control: [
            f"hosts.server.processes.{number}.{setting}"
            for number, name in enumerate(("one", "two", "three"))
            for setting in [f"environment.NODE_PATH={npm('proper-lockfile', '4.1.2')}", *([f"args={name} --release"] if control else [])]
        ],
    ),
    "G18": Bug("longpoll", "asyncio.Condition loses a notification whose receiver is cancelled", arguments("server", "serve --mended")),
    "G19": Bug(
        "galera",
        "a cluster of MariaDB with Galera loses updates",
        both(
            lambda _: [f"hosts.node{number}.processes.0.environment.MARIADB={mariadb()}" for number in (1, 2, 3)],
            lambda _: [f"hosts.client.processes.0.environment.PYTHONPATH={pypi('pymysql', '1.1.1')}"],
            arguments("client", "10.0.0.1 10.0.0.1 10.0.0.1"),
        ),
    ),
    "G20": Bug("sentinel", "Redis Sentinel discards what a replaced master has acknowledged", arguments("client", "--wait node1 node2 node3")),
    "G21": Bug(
        "hazelcast_lock",
        "both sides of a partition of Hazelcast have a lock",
        both(
            lambda _: [
                f"hosts.member{number}.processes.0.environment.CLASSPATH={java(FOLDER / 'HazelcastLock.java', 'com.hazelcast', 'hazelcast', '3.8.3')}" for number in (1, 2, 3)
            ],
            mended(*(f"hosts.member{number}.processes.0.args={JAVA} HazelcastLock member{number} --lite 10.0.0.1 10.0.0.2 10.0.0.3" for number in (2, 3))),
        ),
    ),
    "G22": Bug(
        "sled_store",
        "sled cannot open a store after an abrupt stop",
        both(lambda _: [f"hosts.server.processes.0.path={cargo(FOLDER / 'sled_store')}"], arguments("server", "--sync")),
    ),
    "G23": Bug(
        "raft_log",
        "a follower of async-raft deletes entries that agree before it writes them again",
        both(
            lambda _: [f"hosts.node{number}.processes.0.path={cargo(FOLDER / 'raft_log')}" for number in (1, 2, 3)],
            mended(*(f"hosts.node{number}.processes.0.args={number} node1 node2 node3 --together" for number in (1, 2, 3))),
        ),
    ),
    "O1": Bug(
        "raft_count",
        "a leader commits entries of earlier terms by counting",
        mended(*(f"hosts.node{n}.processes.0.args=node{n} node1 node2 node3 --own" for n in (1, 2, 3))),
    ),
    "O2": Bug(
        "raft_members",
        "a leader uses new members before an entry of its own term is committed",
        mended(*(f"hosts.node{n}.processes.0.args=node{n} node1 node2 node3 node4 node5 --own" for n in range(1, 6))),
    ),
    "O3": Bug("ledger", "a rename without a sync of its folder", arguments("server", "serve")),
    "O4": Bug("log", "a record without a checksum, torn at a crash", arguments("server", "--checksums")),
    "O5": Bug("pool", "a pool of threads that looks for work outside its lock: a lost wake-up", arguments("server", "--locked")),
    "O6": Bug("lazy", "a pointer that is published before its object is filled", arguments("server", "--filled")),
    "O7": Bug("payments", "a request repeated after a lost answer, no idempotency key", arguments("server", "serve --keys")),
    "O8": Bug("leases", "a lease measured by the wall clock", arguments("server", "serve --monotonic")),
    "O9": Bug("echo", "a short write taken for a whole one, an interrupted read for the end", arguments("server", "--careful")),
    "O10": Bug("retries", "retries without limit", arguments("front", "front back --limit")),
}


def campaign(bug, control, budget, seed, jobs, folder):
    """One campaign, which ends at its first finding; a control has no end but its budget."""
    name, _, settings_of = BUGS[bug]
    settings = settings_of(control)
    for source in FOLDER.glob(f"{name}.c*"):
        settings.append(f"hosts.server.processes.0.path={compile_c(source, f'explore-programs/{name}', '-pthread')}")
    out = folder / f"{bug}{'-control' if control else ''}-{seed}"
    command = [belljar(), "explore", FOLDER / f"{name}.yaml", "--budget", budget, "--seed", str(seed), "-j", str(jobs), "-o", out, "--no-progress", "--first"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([*command, *(word for setting in settings for word in ("--set", setting))], capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if not (out / "report.json").is_file():
        sys.exit(done.stdout + done.stderr)
    report = json.loads((out / "report.json").read_text())
    found = report["findings"]
    cpu = sum(getattr(after, key) - getattr(before, key) for key in ("ru_utime", "ru_stime"))
    return {"bug": bug, "control": control, "seed": seed, "runs": report["runs"], "cpu_seconds": round(cpu, 1),
            "found": found[0]["symptom"] if found else "", "events": "; ".join(found[0]["events"]) if found else ""}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bug", nargs="+", choices=sorted(BUGS), default=sorted(BUGS), help="those (%(default)s)")
    parser.add_argument("--budget", default="10min", help="of each campaign: a time or a number of runs (%(default)s)")
    parser.add_argument("--campaigns", type=int, default=1, help="of each bug, with other seeds (%(default)s)")
    parser.add_argument("-j", "--jobs", type=int, default=1, help="runs at a time (%(default)s)")
    parser.add_argument("--folder", type=pathlib.Path, default=BUILT / "explore", help="of the campaigns (%(default)s)")
    parser.add_argument("--csv", type=pathlib.Path, help="add the rows there")
    parser.add_argument("--json", help="write the figures there")
    a = parser.parse_args()
    a.folder.mkdir(parents=True, exist_ok=True)
    rows = []
    print(f"{'bug':8} {'runs':>6} {'CPU':>8}  found")
    for bug in a.bug:
        for control in (False, True):
            for number in range(a.campaigns):
                row = campaign(bug, control, a.budget, 1_000_000 * (number + 1), a.jobs, a.folder)
                rows.append(row)
                print(f"{bug + (' ctl' if control else ''):8} {row['runs']:6} {row['cpu_seconds']:6.1f} s  {row['found'] or '-'}  {row['events']}", flush=True)
                if a.csv:
                    new = not a.csv.exists()
                    with a.csv.open("a", newline="") as file:
                        table = csv.DictWriter(file, row)
                        if new:
                            table.writeheader()
                        table.writerow(row)
    if a.json:
        save("explore", {"rows": rows}, a.json)
    blamed = [row["bug"] for row in rows if row["control"] and row["found"]]
    if blamed:
        sys.exit(f"controls were blamed: {', '.join(blamed)}")


if __name__ == "__main__":
    main()
