"""A system call is "fully supported" only where a guest program asserts on it: each of them is made by one."""

import json
import re

from conftest import ROOT, experiment
from test_guests import CASES, build


def test_every_fully_supported_call_is_made_by_a_guest_test(run_experiment):
    full = set(re.findall(r"^\| \d+ \| (\w+) \| full \|", (ROOT / "docs/syscalls.md").read_text(), re.M))
    assert len(full) > 150
    programs = [build(source, linkage) for source, linkage in CASES if linkage in ("dynamic", "musl", "exe")]
    hosts = {f"{p.stem}-{p.parent.name}": (0, [{"path": str(p), "expected_final_state": "any"}]) for p in programs}
    results = run_experiment(experiment(hosts, stop="600 s"))
    made = json.loads((results.path / "sim-stats.json").read_text())["syscalls"]
    assert not full - set(made), sorted(full - set(made))
