"""The tests of Go's standard library, compiled from its sources."""

import json
import os
import pathlib
import re
import shutil
import subprocess

from .places import run
from .results import Results

PACKAGES = "os os/exec os/signal syscall net net/http crypto/tls".split()
# Without the flag they would talk to hosts on the internet.
SHORT = ("net", "net/http", "crypto/tls")
ATTEMPTS = 12
OUTCOMES = {"pass": "passed", "fail": "failed", "skip": "skipped"}


def missing():
    """Why it cannot run here; `None` if it can."""
    if shutil.which("go") is None:
        return "go is not installed"
    sources = goroot() / "src/os/os_test.go"
    return None if sources.exists() else f"{sources} is not there: Go was installed without its sources"


def goroot():
    return pathlib.Path(subprocess.run(["go", "env", "GOROOT"], capture_output=True, text=True, check=True).stdout.strip())


def version():
    return subprocess.run(["go", "env", "GOVERSION"], capture_output=True, text=True).stdout.strip()


def build(package, programs):
    binary = programs / f"{package.replace('/', '-')}.test"
    if not binary.exists():
        programs.mkdir(parents=True, exist_ok=True)
        subprocess.run(["go", "test", "-c", "-o", binary, package], check=True, env=os.environ | {"GOFLAGS": ""}, cwd=goroot())
    return binary


def run_package(package, where, work, belljar, programs):
    """Runs it, and again without those that hung or crashed, until the rest has come to its end."""
    compiled = build(package, programs)
    results = Results()
    for _ in range(ATTEMPTS):
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        binary, said = work / compiled.name, work / "said"
        shutil.copy(compiled, binary)
        said.touch()
        flags = ["-test.v=test2json", "-test.timeout=0"] + ["-test.short"] * (package in SHORT)
        done = sorted({test.partition("/")[0] for test in results.outcomes})
        if done:
            flags.append(f"-test.skip=^({'|'.join(map(re.escape, done))})$")
        script = 'out=$0; cd "$1"; shift; "$@" >"$out" 2>&1'
        command = ["/bin/sh", "-c", script, str(said), str(goroot() / "src" / package), str(binary), *flags]
        came_to_end = run(command, where, work, belljar, lambda: said.stat().st_size)
        unfinished = read(said, results)
        text = said.read_text(errors="replace")[-3000:] + (work / "output").read_text(errors="replace")[-1000:]
        for test in unfinished:
            results.add(test, "crashed" if came_to_end else "hung", text)
        if not unfinished:
            if not came_to_end or not results.outcomes:
                results.add(package, "crashed" if came_to_end else "hung", text)
            break
    return results


def read(said, results):
    """Adds what the test binary said; gives the tests that were running when it ended."""
    with open(said, "rb") as text:
        events = subprocess.run(["go", "tool", "test2json"], stdin=text, capture_output=True).stdout.decode(errors="replace")
    output, begun = {}, {}
    for line in events.splitlines():
        event = json.loads(line)
        test, action = event.get("Test"), event["Action"]
        if test is None:
            continue
        if action == "run":
            begun[test] = True
        elif action == "output":
            output.setdefault(test, []).append(event["Output"])
        elif action == "pause":
            begun.pop(test, None)
        elif action == "cont":
            begun[test] = True
        elif action in OUTCOMES:
            begun.pop(test, None)
            detail = "" if action == "pass" else "".join(output.get(test, []))[-3000:]
            results.add(test, OUTCOMES[action], detail)
    return list(begun)
