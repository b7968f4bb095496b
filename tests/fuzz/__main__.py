"""python -m fuzz [--seeds A:B | --for SECONDS] [--length N] [--keep DIRECTORY] [FILE...]

Looks for sequences of system calls that give something else under Belljar than on this machine, and makes each that
it finds short. Without seeds it goes on until it is stopped. With files, it runs these. Seeds from 1000000000 on are a second
generation: eventfd, timerfd, signalfd, epoll with its flags, splice and tee, descriptors by range. Those from 2000000000 on draw
credentials: users, groups, capabilities, set-user-ID programs, and the calls that ask for them; they are for root. Those from 3000000000 on
draw requests of rtnetlink, in a network namespace natively and on a host with a link under Belljar.
"""

import argparse
import pathlib
import shutil
import subprocess
import tempfile
import time

from .compare import Bench, build
from .draw import draw

ROOT = pathlib.Path(__file__).resolve().parents[2]


def arguments():
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", help="from:to, without the last", default="0:4000000000")
    parser.add_argument("--for", dest="seconds", type=float, help="stop after so many seconds")
    parser.add_argument("--length", type=int, default=40, help="calls in a sequence")
    parser.add_argument("--batch", type=int, default=40, help="sequences (hosts) in one run")
    parser.add_argument("--placement", default="auto", choices=["near", "far", "auto"])
    parser.add_argument("--keep", type=pathlib.Path, help="where found sequences are written")
    parser.add_argument("--no-shrink", action="store_true")
    parser.add_argument("--belljar", type=pathlib.Path, default=ROOT / "target/release/belljar")
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    return parser.parse_args()


def main():
    given = arguments()
    directory = pathlib.Path(tempfile.mkdtemp(prefix="belljar-fuzz-"))
    bench = Bench(given.belljar.resolve(), build(directory), directory, given.placement)
    started, tried, count = time.monotonic(), 0, 0

    def report(name, lines, difference):
        print(f"--- {name}: {len(lines)} lines\n" + "\n".join(lines), flush=True)
        print("native:  {}\nbelljar: {}".format(*difference or ("no difference", "when run again")), flush=True)

    try:
        if given.files:
            sequences = {f"f{n}": file.read_text().splitlines() for n, file in enumerate(given.files)}
            for name, difference in bench.differences(sequences).items():
                report(given.files[int(name[1:])], sequences[name], difference)
                count += 1
            return count
        start, end = map(int, given.seeds.split(":"))
        for low in range(start, end, given.batch):
            if given.seconds and time.monotonic() - started > given.seconds:
                break
            sequences = {f"seed{n}": draw(n, given.length) for n in range(low, min(end, low + given.batch))}
            tried += len(sequences)
            for name, difference in bench.differences(sequences).items():
                count += 1
                lines = sequences[name]
                if not given.no_shrink:
                    lines, difference = bench.shrink(lines)
                report(name, lines, difference)
                if given.keep and difference:
                    given.keep.mkdir(parents=True, exist_ok=True)
                    (given.keep / name).write_text("\n".join(lines) + "\n")
    except KeyboardInterrupt:
        pass
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        print(f"in batch {low if not given.files else given.files}: {error}")
        count += 1
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        print(f"{tried} sequences, {count} with differences, {time.monotonic() - started:.0f} s")
    return count


if __name__ == "__main__":
    raise SystemExit(1 if main() else 0)
