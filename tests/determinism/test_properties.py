"""Verdicts on properties, and the times that they rest on: the same for any workers, placement, cells and ranks."""

import shutil

import pytest
from conftest import EXAMPLES, contents_of, execute
from sameness import assert_same

from . import test_ranks
from .test_ranks import folder, needs_namespaces  # noqa: F401 (folder is a fixture)

FORGETFUL = ("--set", "hosts.server.processes.0.args=serve --forgetful")


@pytest.mark.parametrize("version", [(), FORGETFUL], ids=["right", "wrong"])
def test_verdicts_do_not_depend_on_how_the_run_is_computed(belljar, workdir, version):
    ways = [("--parallelism", "1"), ("--parallelism", "2"), ("--parallelism", "3"), ("--cells", "2"), ("--cells", "3")]
    assert_same(belljar, workdir, EXAMPLES / "properties.yaml", *((*options, *version) for options in ways))


def test_verdicts_do_not_depend_on_placement(belljar, workdir):
    found = {}
    for placement in ("near", "far"):
        done = execute([belljar, "run", EXAMPLES / "properties.yaml", "-o", workdir / "data", "--no-progress", "--placement", placement, *FORGETFUL])
        assert done.status == 1 and "1 of 6 properties do not hold" in done.out, done
        every = contents_of(workdir / "data")
        found[placement] = {name: every[name] for name in every if str(name).startswith(("times", "properties", "sim-stats"))}
        shutil.rmtree(workdir / "data")
    assert len(found["near"]) == 6 and found["near"] == found["far"], found["near"].keys()


@needs_namespaces
def test_verdicts_do_not_depend_on_ranks(belljar, folder):  # noqa: F811
    """Rank 2 is on another machine: the files of its hosts, and their times, come to rank 0 before they are judged."""
    apart = {"before": {2: test_ranks.on_another_machine(folder)}}
    test_ranks.assert_same(belljar, folder, EXAMPLES / "properties.yaml", [(2, (), {}), (3, (), apart)], *FORGETFUL)
