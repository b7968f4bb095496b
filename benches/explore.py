#!/usr/bin/env python3
"""Campaigns of `belljar explore` on programs with known mistakes, and on their controls, which must not be blamed.

Each is an experiment in `explore/`. A row of the table has the runs and the processor time until the first finding, and the events of the shrunk failure. With `--csv` rows are
added to a file; a campaign that was interrupted goes on, as `belljar explore` does."""

import argparse
import csv
import json
import pathlib
import resource
import subprocess
import sys

from common import BUILT, ROOT, belljar, compile_c, save

FOLDER = ROOT / "benches" / "explore"
PACKAGES = "hosts.client.processes.0.environment.PYTHONPATH="
# Bug: its experiment, what mends it (a setting, or a package from PyPI with its faulty and its mended version), and what it is.
BUGS = {
    "G10": ("redis_client", ("redis", "4.5.1", "4.5.5", "async-timeout"), "redis-py leaves the answer of a cancelled command in its connection"),
    "G16": ("mqtt_client", ("paho-mqtt", "1.6.1", "2.1.0"), "paho-mqtt never ends a wait for a message that a lost connection took"),
    "O3": ("ledger", "hosts.server.processes.0.args=serve", "a rename without a sync of its folder"),
    "O4": ("log", "hosts.server.processes.0.args=--checksums", "a record without a checksum, torn at a crash"),
    "O7": ("payments", "hosts.server.processes.0.args=serve --keys", "a request repeated after a lost answer, no idempotency key"),
    "O8": ("leases", "hosts.server.processes.0.args=serve --monotonic", "a lease measured by the wall clock"),
    "O9": ("echo", "hosts.server.processes.0.args=--careful", "a short write taken for a whole one, an interrupted read for the end"),
    "O10": ("retries", "hosts.front.processes.0.args=front back --limit", "retries without limit"),
    "G5": ("etcd_lock", "hosts.store.processes.0.args=store --fencing", "a lock of etcd 3.4 whose lease ends while its holder stands still"),
}


def package(name, version, *more):
    """A folder with this version of a package, installed once."""
    folder = BUILT / "explore-packages" / f"{name}-{version}"
    if not folder.is_dir():
        part = folder.with_name(f"{folder.name}.part")
        subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--target", part, f"{name}=={version}", *more], check=True)
        part.rename(folder)
    return folder


def campaign(bug, control, budget, seed, jobs, folder):
    """One campaign, which ends at its first finding; a control has no end but its budget."""
    name, mended, _ = BUGS[bug]
    settings = [mended] if control else []
    if isinstance(mended, tuple):
        settings = [PACKAGES + str(package(mended[0], mended[2 if control else 1], *mended[3:]))]
    if (FOLDER / f"{name}.c").is_file():
        settings.append(f"hosts.server.processes.0.path={compile_c(FOLDER / f'{name}.c', f'explore/{name}')}")
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
