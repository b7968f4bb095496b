"""By hand: python3 tests/suites [--where native,near,far] [--details] [UNIT...]

Prints what differs from native and has no reason yet, and how much has one. Native results are kept and used again.
"""

import argparse
import collections
import os
import pathlib
import sys

sys.path[0] = str(pathlib.Path(__file__).resolve().parent.parent)

from suites import report, results, units  # noqa: E402
from suites.places import WHERE  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()


def main():
    parser = argparse.ArgumentParser(prog="tests/suites", description="Programs' own test suites, natively, near and far.")
    parser.add_argument("--where", default="near,far", help="comma-separated: native, near, far")
    parser.add_argument("--details", action="store_true", help="say how each differing test ended")
    parser.add_argument("units", nargs="*", help=", ".join(units.UNITS))
    arguments = parser.parse_args()
    belljar = pathlib.Path(os.environ.get("BELLJAR_BIN", TARGET / "release/belljar")).resolve()
    folder = TARGET / "suites"
    reasons = results.explanations()
    for unit in arguments.units or units.UNITS:
        places = [where for where in WHERE if where in arguments.where.split(",")]
        native = units.load(unit, "native", folder)
        if native is None and "native" not in places:
            places.insert(0, "native")
        for where in places:
            found = units.run_unit(unit, where, folder, belljar)
            native = found if where == "native" else native
            print(f"{unit} {where}: {report.summary(found)}", flush=True)
            explained = collections.Counter()
            for test, outcome, detail in results.worse(native, found):
                reason = next((e.why for e in reasons if e.covers(unit, test, where)), None)
                explained[reason] += 1
                if reason:
                    continue
                print(f"  {outcome:8} {test}")
                if arguments.details and detail:
                    print("\n".join("      " + line for line in detail.strip().splitlines()[-25:]))
            for reason, count in explained.items():
                if reason:
                    print(f"  {count} differ: {reason}")


if __name__ == "__main__":
    main()
