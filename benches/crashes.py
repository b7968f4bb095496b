#!/usr/bin/env python3
"""Databases whose host crashes again and again: what they have acknowledged must be there after each crash.

Each crash takes what is not synced, by pages (`files: torn`, `disk: any`). A program on the same host writes numbers and reports each acknowledged one to another host, which
prints it. After each crash the database says what it holds. A row has the crashes, those after which acknowledged writes were missing, and those after which
the database was broken or did not start any more; it is late where the next crash came before it was up. `--unsafe` is the control: the same database with syncs off, which must lose something."""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

from common import ROOT, belljar, save
from explore_programs import pypi

DRIVER = ROOT / "benches/crashes/driver.py"
WITNESS = r"""
import socket, time
log = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
log.bind(("", 9))
while True:
    number = int(log.recv(20))
    print(f"{time.time() - 946684800:.6f} {number}", flush=True)
"""
START, DOWN = 1.0, 0.1
#: Seconds for recovery after the last crash: a database that is not up then is broken.
RECOVERY = 5.0

POSTGRES = """
version=$(ls /usr/lib/postgresql | sort -n | tail -1)
data=/var/lib/postgresql/sim
if [ ! -f $data/made ]; then
    rm -rf $data
    mkdir -p $data && chown postgres $data
    su postgres -c "/usr/lib/postgresql/$version/bin/initdb -A trust -D $data" > /dev/null
    touch $data/made
    sync
fi
rm -f $data/postmaster.pid
exec su postgres -c "/usr/lib/postgresql/$version/bin/postgres -D $data -k /tmp OPTIONS"
"""


def redis(unsafe):
    sync = "no" if unsafe else "always"
    return [{"path": "redis-server", "args": ["--dir", "/var/lib/redis", "--save", "", "--appendonly", "yes", "--appendfsync", sync, "--auto-aof-rewrite-min-size", "64kb"]}], {}


def etcd(unsafe):
    more = ["--unsafe-no-fsync"] if unsafe else []
    return [{"path": "etcd", "args": ["--data-dir", "/var/lib/etcd", *more]}], {}


def postgres(unsafe):
    options = "-c fsync=off" if unsafe else "-c wal_sync_method=fdatasync"
    return [{"path": "/bin/sh", "args": ["-ec", POSTGRES.replace("OPTIONS", options)]}], {}


#: Most crashes of one run.
AT_ONCE = 100
#: Processes and environment of each, and seconds between two crashes. SQLite is the machine's Python's: with a rollback journal, and with a write-ahead log.
DATABASES = {
    "redis": (redis, 1.0),
    "etcd": (etcd, 2.0),
    "postgres": (postgres, 2.0),
    "sqlite": (lambda unsafe: ([], {}), 0.5),
    "sqlite-wal": (lambda unsafe: ([], {}), 0.5),
    "lmdb": (lambda unsafe: ([], {"PYTHONPATH": str(pypi("lmdb", "1.6.2"))}), 0.3),
    "rocksdb": (lambda unsafe: ([], {"PYTHONPATH": str(pypi("rocksdict", "0.3.29"))}), 0.5),
}


def experiment(name, unsafe, crashes, seed, files):
    processes, environment = DATABASES[name][0](unsafe)
    every = DATABASES[name][1]
    common = {"expected_final_state": "any", "start_time": f"{START} s"}
    driver = {"path": "/usr/bin/python3", "args": [str(DRIVER), name, *(["unsafe"] if unsafe else [])], "environment": environment}
    first = START + 2 * every
    return {
        "general": {"stop_time": f"{first + every * crashes + RECOVERY:.3f} s", "seed": seed},
        "network": {"graph": {"type": "gml", "inline": 'graph [ node [ id 0 host_bandwidth_up "1 Gbit" host_bandwidth_down "1 Gbit" ] edge [ source 0 target 0 latency "1 ms" ] ]'}},
        "hosts": {
            "base": {"network_node_id": 0, "cpu": {"syscall": "20 us"}, "processes": [{**process, **common} for process in [*processes, driver]]},
            "witness": {"network_node_id": 0, "processes": [{"path": "/usr/bin/python3", "args": ["-c", WITNESS], "expected_final_state": "running"}]},
        },
        "events": [{"every": f"{every} s", "between": [f"{first} s", f"{first + every * (crashes - 0.5):.3f} s"], "crash": "base", "files": files[0], "disk": files[1], "for": f"{DOWN} s", "name": "power"}],
    }, first, every


def turns(results):
    """What the database held at each start of the driver, in their order."""
    streams = sorted((results / "hosts/base").glob("python3.*.stdout"), key=lambda file: int(file.name.split(".")[1]))
    return [re.search(r"(\w+) holds (\d+)", stream.read_text()) for stream in streams]


def measure(name, unsafe, crashes, seed, files):
    """Crashes, those after which acknowledged writes were missing, after which the database was broken, before which it was not up, and the writes."""
    text, first, every = experiment(name, unsafe, crashes, seed, files)
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        (folder / "e.yaml").write_text(json.dumps(text))
        done = subprocess.run([belljar(), "run", "e.yaml", "-o", "data", "--no-progress"], cwd=folder, capture_output=True, text=True)
        if done.returncode not in (0, 1):
            sys.exit(done.stdout + done.stderr)
        (witness,) = (folder / "data/hosts/witness").glob("python3.*.stdout")
        promised = [(float(at), int(number)) for at, number in (line.split() for line in witness.read_text().splitlines())]
        found = turns(folder / "data")
    missing = broken = late = 0
    is_ok = [said is not None and said[1] == "ok" for said in found]
    for turn, said in enumerate(found):
        start = START if turn == 0 else first + every * (turn - 1) + DOWN
        before = max((number for at, number in promised if at < start), default=0)
        if said is None and any(is_ok[turn + 1:]):
            late += 1
        elif not is_ok[turn]:
            broken += 1
        elif int(said[2]) < before:
            missing += 1
    return len(found) - 1, missing, broken, late, len(promised)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("databases", nargs="*", default=list(DATABASES), metavar="DATABASE", help="of " + ", ".join(DATABASES))
    parser.add_argument("--crashes", type=int, default=1000, help=f"crashes of each, in runs of at most {AT_ONCE} [default: 1000]")
    parser.add_argument("--unsafe", action="store_true", help="the controls alone: one run of each with syncs off")
    parser.add_argument("--disk", default="any", choices=["any", "ordered"], help="profile of the disk")
    parser.add_argument("--json", metavar="FILE", help="result [default: target/benches/crashes.json]")
    options = parser.parse_args()
    if unknown := [name for name in options.databases if name not in DATABASES]:
        parser.error(f"there is no database {unknown[0]}: they are {', '.join(DATABASES)}")
    if options.crashes < 1:
        parser.error("--crashes must be at least 1")
    rows = []
    for name in options.databases:
        runs = [min(AT_ONCE, options.crashes - done) for done in range(0, options.crashes, AT_ONCE)]
        if options.unsafe:
            del runs[1:]
        sums = [sum(parts) for parts in zip(*(measure(name, options.unsafe, each, seed, ("torn", options.disk)) for seed, each in enumerate(runs, 1)))]
        crashes, missing, broken, late, writes = sums
        rows.append({"database": name, "syncs": "off" if options.unsafe else "on", "crashes": crashes, "missing": missing, "broken": broken, "late": late, "acknowledged": writes})
        print("  ".join(f"{key} {value}" for key, value in rows[-1].items()), flush=True)
    save("crashes", {"rows": rows}, options.json)


if __name__ == "__main__":
    main()
