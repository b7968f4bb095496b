"""Crashes that take what is not synced: the same for any workers, cells and placement, and another state for another seed."""

import shutil

import pytest
from conftest import EXAMPLES, contents_of, execute
from sameness import assert_same

FORGETFUL = ("--set", "hosts.server.processes.0.args=serve --forget folder")


def test_what_a_crash_takes_does_not_depend_on_how_the_run_is_computed(belljar, workdir):
    ways = [("--parallelism", "1"), ("--parallelism", "2"), ("--cells", "2")]
    assert_same(belljar, workdir, EXAMPLES / "durable.yaml", *((*options, *FORGETFUL) for options in ways))


def test_what_a_crash_takes_does_not_depend_on_placement(belljar, workdir):
    found = {}
    for placement in ("near", "far"):
        done = execute([belljar, "run", EXAMPLES / "durable.yaml", "-o", workdir / "data", "--no-progress", "--placement", placement, *FORGETFUL])
        assert done.status == 1, done
        every = contents_of(workdir / "data")
        found[placement] = {name: every[name] for name in every if str(name).startswith("hosts/server") or "client" in str(name) and "stdout" in str(name)}
        shutil.rmtree(workdir / "data")
    assert found["near"] == found["far"] and any("crashes.jsonl" in str(name) for name in found["near"]), found["near"].keys()


@pytest.mark.parametrize("seeds", [(1, 2)])
def test_another_seed_takes_something_else(belljar, workdir, seeds):
    found = set()
    for seed in seeds:
        execute([belljar, "run", EXAMPLES / "durable.yaml", "-o", workdir / "data", "--no-progress", "--seed", str(seed), *FORGETFUL])
        found.add((workdir / "data/hosts/server/crashes.jsonl").read_bytes())
        shutil.rmtree(workdir / "data")
    assert len(found) == 2
