"""Ten examples in the simulator and on this machine's kernel, from one file each: do they end as expected, and how far are the two apart?

    python benches/worlds.py [--belljar PROGRAM] [--repeats 5] [--examples first,redis] [--tdf 4] [--folder DIR]

`--tdf` dilates the hosts' time by a factor, for a machine that has not got its processors to itself: emulations take so much longer.
Emulations need root, or a user who may make namespaces, and a machine that has little else to do: the verdicts of the runs are part of the table.
"""

import argparse
import json
import pathlib
import subprocess
import tempfile

from common import ROOT

EXAMPLES = ["first", "iperf-tcp", "redis", "postgres", "routers", "switch", "faults", "etcd", "dns", "ipv6"]


def run(command, folder):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, cwd=ROOT / "examples")
    return done.returncode == 0, json.loads((folder / "emulation.json").read_text())["verdict"] if (folder / "emulation.json").exists() else None, done.stderr


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--belljar", default=ROOT / "belljar", type=pathlib.Path)
    options.add_argument("--repeats", default=5, type=int)
    options.add_argument("--examples", default=",".join(EXAMPLES))
    options.add_argument("--tdf", help="factor by which the hosts' time is slower than the machine's")
    options.add_argument("--folder", type=pathlib.Path)
    given = options.parse_args()
    folder = given.folder or pathlib.Path(tempfile.mkdtemp(prefix="worlds-"))
    program = given.belljar.resolve()
    compared = []
    print(f"{'example':12}{'run':>8}{'emulate':>10}  verdicts")
    for name in given.examples.split(","):
        file, simulated, emulated, verdicts, folders = f"{name}.yaml", 0, 0, [], []
        for number in range(1, given.repeats + 1):
            for command, more in (("run", []), ("emulate", ["--until-done", *(["--tdf", given.tdf] if given.tdf else [])])):
                place = folder / f"{name}-{command}-{number}"
                good, verdict, error = run([program, command, file, "--seed", number, "-o", place, *more], place)
                folders.append(place)
                simulated += good and command == "run"
                emulated += good and command == "emulate"
                verdicts += [verdict] if verdict else []
                if not good and not place.exists():
                    print(error)
        print(f"{name:12}{simulated:>6}/{given.repeats}{emulated:>8}/{given.repeats}  {', '.join(f'{verdicts.count(v)} {v}' for v in sorted(set(verdicts)))}", flush=True)
        done = subprocess.run([program, "compare", *map(str, folders)], capture_output=True, text=True)
        compared.append((name, done.stdout + done.stderr))
    for name, text in compared:
        print(f"\n{name}\n{text}")
    print(f"results: {folder}")


if __name__ == "__main__":
    main()
