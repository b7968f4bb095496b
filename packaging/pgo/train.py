#!/usr/bin/env python3
"""Makes the profile by which wheels and `BELLJAR_BUILD=dist ./belljar` are optimised (profile-guided optimisation): which branches are
taken, which functions are worth inlining, what belongs together in memory.

Builds an instrumented Belljar in a folder of its own below the target directory, runs the benchmarks in BENCHES, the examples and the
experiments among the arguments, and writes packaging/pgo/rustc-VERSION-llvm-VERSION.profdata. A wheel or `dist` build takes the
one of the compiler that it builds with, if there is one: names and formats differ from compiler to compiler. A function that has
changed since is compiled as without a profile, so a profile need not be made anew with each change.

Needs llvm-profdata of the compiler's own LLVM: `rustup component add llvm-tools`, or the package llvm-VERSION."""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve() / "pgo"
# What speed is judged by: messages, calls, flows, requests, and lines of P4 switches.
BENCHES = [
    ["p2p.py", "--only", "belljar", "--repeat", "1"],
    ["calls.py", "--repeat", "1"],
    ["report.py", "--quick", "--cases", "TCP*"],
    ["report.py", "--quick", "--cases", "HTTP*nginx*"],
    ["p4_chain.py", "--switches", "4", "16", "--rates", "100", "--ring", "--seconds", "2"],
]
# Longest that one experiment may take; an instrumented Belljar takes two to four times as long as another.
PATIENCE = 300


def said(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def compiler():
    """(release, LLVM's version) of the compiler that cargo uses here."""
    about = dict(line.split(": ", 1) for line in said("rustc", "-vV").splitlines() if ": " in line)
    return about["release"], about["LLVM version"]


def profdata(llvm):
    """The llvm-profdata that understands what the compiler's instrumentation writes."""
    major = llvm.split(".")[0]
    places = [*pathlib.Path(said("rustc", "--print", "sysroot").strip()).glob("lib/rustlib/*/bin/llvm-profdata"),
              pathlib.Path(f"/usr/lib/llvm-{major}/bin/llvm-profdata"), shutil.which(f"llvm-profdata-{major}"), shutil.which("llvm-profdata")]
    for place in filter(None, places):
        # Old ones know no --version of their own.
        about = subprocess.run([str(place), "merge", "--version"], capture_output=True, text=True) if pathlib.Path(place).exists() else None
        if about and re.search(rf"LLVM version {major}\.", about.stdout):
            return place
    sys.exit(f"llvm-profdata of LLVM {major} is needed: rustup component add llvm-tools, or apt-get install llvm-{major}")


def run(command, **more):
    """Runs something that the profile is made of; a failure leaves a gap in it and is told."""
    print("training:", *command, flush=True)
    try:
        done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", **more)
    except subprocess.TimeoutExpired:
        print(f"  took more than {more['timeout']} s and was ended: left out", file=sys.stderr)
        return
    if done.returncode != 0:
        print(f"  ended with {done.returncode}: what it did not come to is left out\n{done.stdout[-1000:]}", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiments", nargs="*", type=pathlib.Path, help="more experiments to run")
    a = parser.parse_args()
    missing = [str(path) for path in a.experiments if not path.is_file()]
    if missing:
        parser.error(f"no such file: {', '.join(missing)}")
    for program in ("cargo", "rustc"):
        if not shutil.which(program):
            sys.exit(f"{program} is needed: install Rust from https://rustup.rs, or put it into PATH")
    release, llvm = compiler()
    merge = profdata(llvm)
    raw = TARGET / "raw"
    print("building an instrumented Belljar", flush=True)
    config = f"build.rustflags = ['-Cprofile-generate={raw}']"
    environment = {name: value for name, value in os.environ.items() if not name.endswith("RUSTFLAGS")}
    built = subprocess.run(["cargo", "--config", config, "build", "--profile", "dist", "--quiet", "-p", "belljar", "--target-dir", TARGET],
                           cwd=ROOT, env=environment)
    if built.returncode != 0:
        sys.exit("the instrumented build failed, see above")
    # Compiling has run instrumented build scripts.
    shutil.rmtree(raw, ignore_errors=True)
    belljar = TARGET / "dist" / "belljar"
    environment |= {"BELLJAR_BIN": str(belljar)}
    run(["make", "--silent", "-C", ROOT / "examples"])
    for experiment in [*sorted((ROOT / "examples").glob("*.yaml")), *a.experiments]:
        with tempfile.TemporaryDirectory(dir=TARGET) as folder:
            run([belljar, "run", experiment, "-o", f"{folder}/data", "--no-progress"], timeout=PATIENCE)
    for number, (bench, *arguments) in enumerate(BENCHES):
        run([sys.executable, ROOT / "benches" / bench, *arguments, "--json", TARGET / f"{number}.json"], env=environment)
    out = ROOT / "packaging" / "pgo" / f"rustc-{release}-llvm-{llvm}.profdata"
    # Functions that were never run are not listed, so that they are compiled as without a profile, not as if nobody called them.
    subprocess.run([merge, "merge", "--sparse", "-o", out, *raw.glob("*.profraw")], check=True)
    shutil.rmtree(raw)
    print(f"written to {out} ({out.stat().st_size // 1024} KiB): BELLJAR_BUILD=dist ./belljar builds with it from now on")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
