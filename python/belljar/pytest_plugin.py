"""Tests of distributed programs under many seeds.

    @pytest.mark.belljar(seeds=20)
    def test_leader_is_elected(belljar):
        results = belljar.run(my_experiment())
        assert "elected" in results.stdout("node1")

Each seed is a test. A failing test prints its seed and the command that repeats it, and its results are kept. The
summary reports the share of failing seeds with its confidence interval."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from . import showing
from .experiment import Experiment, RunOptions
from .results import Results
from .run import RunFailed, run
from .statistics import failure_rate

if TYPE_CHECKING:
    from typing_extensions import Unpack

_RUNNER = pytest.StashKey["Runner"]()


_SEED = "belljar_seed"


class Runner:
    """Value of the fixture `belljar`: runs experiments under the test's seed."""

    def __init__(self, folder: pathlib.Path, seed: int) -> None:
        self.folder, self.seed = folder, seed
        #: Results so far, in order.
        self.results: list[pathlib.Path] = []

    def run(self, experiment: Experiment | str | pathlib.Path, **options: Unpack[RunOptions]) -> Results:
        """Runs an experiment (see `belljar.run`) under the test's seed unless a seed is given."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"run{len(self.results) + 1}"
        self.results.append(path)
        options.setdefault("seed", self.seed)
        try:
            return run(experiment, path, **options)
        except RunFailed as failed:
            failure = failed
        pytest.fail(str(failure) + _last_words(failure), pytrace=False)


def _last_words(failure: RunFailed) -> str:
    """Properties that do not hold, last output of the processes that did not end as expected, and the events that the seed has drawn."""
    results, words = failure.results, ""
    if results is None:
        return words
    if results.drawn_events:
        words += f"\n--- events drawn by seed {results.seed}\n{results.drawn_events.rstrip()}"
    for broken in results.violations:
        words += f"\n--- {showing.violation(broken)}"
        report = results.path / "properties" / f"{broken['name']}.txt"
        if report.is_file():
            words += f"\n{report.read_text(errors='replace').rstrip()[-2000:]}"
    for host, entry in results.statistics["hosts"].items():
        for process in entry["processes"]:
            for kind in () if process["as_expected"] else ("stdout", "stderr"):
                file = results.host(host) / f"{process['program']}.{process['pid']}.{kind}"
                text = file.read_text(errors="replace") if file.is_file() else ""
                if text:
                    words += f"\n--- {host}: {process['program']}, {kind}\n{text[-1000:]}"
    return words


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("belljar")
    group.addoption("--belljar-seed", type=int, metavar="N", help="run the tests under this seed only")
    group.addoption("--belljar-seeds", type=int, metavar="N", help="run the tests under the seeds from 1 to N")
    group.addoption("--belljar-folder", metavar="DIR", default=".belljar", help="where the results of failed tests are kept (default: .belljar)")
    group.addoption("--belljar-keep", action="store_true", help="keep the results of tests that pass, too")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "belljar(seeds=1): run under so many seeds (a number or a list)")


def _seeds(test: str, marker: pytest.Mark) -> list[int]:
    """Seeds that a marker asks for. Every other argument is an error: a test with a mistyped one would pass under one
    seed."""
    given = dict(marker.kwargs)
    seeds: Any = given.pop("seeds", 1)
    if given or marker.args:
        wrong = ", ".join([*map(repr, marker.args), *(f"{key}={value!r}" for key, value in given.items())])
        raise pytest.UsageError(f"{test}: the marker belljar takes seeds=, a number or a list, not {wrong}")
    counted = isinstance(seeds, int) and not isinstance(seeds, bool)
    several = _up_to(seeds) if counted else seeds
    listed = isinstance(several, (list, tuple, range)) and all(type(seed) is int for seed in several)
    if not listed or not (counted or several):
        raise pytest.UsageError(f"{test}: seeds={seeds!r} is neither a number nor a list of numbers")
    if not several or any(seed < 0 for seed in several):
        raise pytest.UsageError(f"{test}: seeds={seeds!r}: a test runs under one seed at least, and seeds are not negative")
    return list(several)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Checks the markers of all tests, also of those that run no experiment by the fixture."""
    for item in items:
        for marker in item.iter_markers("belljar"):
            _seeds(item.nodeid, marker)
        # The marker of a class or module may be meant for its other tests.
        is_own = any(marker.name == "belljar" for marker in item.own_markers)
        if is_own and "belljar_seed" not in getattr(item, "fixturenames", ()):
            raise pytest.UsageError(f"{item.nodeid}: the marker belljar has no effect on a test without the fixture belljar: it would run once")


def _up_to(count: int) -> list[int]:
    return list(range(1, count + 1))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "belljar_seed" not in metafunc.fixturenames:
        return
    marker = metafunc.definition.get_closest_marker("belljar")
    seeds = _seeds(metafunc.definition.nodeid, marker) if marker else [1]
    config = metafunc.config
    if config.getoption("belljar_seed") is not None:
        seeds = [config.getoption("belljar_seed")]
    elif config.getoption("belljar_seeds") is not None:
        seeds = _up_to(config.getoption("belljar_seeds"))
    metafunc.parametrize("belljar_seed", seeds, ids=[f"seed{seed}" for seed in seeds])


@pytest.fixture
def belljar(request: pytest.FixtureRequest, belljar_seed: int) -> Iterator[Runner]:
    """Runs experiments under this test's seed; results are kept if the test fails."""
    name = re.sub(r"[^A-Za-z0-9_.-]+", "_", request.node.nodeid)[-150:]
    folder = pathlib.Path(request.config.invocation_params.dir, str(request.config.getoption("belljar_folder")), name)
    shutil.rmtree(folder, ignore_errors=True)
    runner = Runner(folder, belljar_seed)
    request.node.stash[_RUNNER] = runner
    # Part of the report, which pytest-xdist transfers between processes.
    request.node.user_properties.append((_SEED, belljar_seed))
    yield runner
    failed = getattr(request.node, "_belljar_failed", False)
    if not failed and not request.config.getoption("belljar_keep"):
        shutil.rmtree(folder, ignore_errors=True)
        if folder.parent.is_dir() and not any(folder.parent.iterdir()):
            folder.parent.rmdir()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report = (yield).get_result()  # type: ignore[attr-defined]
    runner = item.stash.get(_RUNNER, None)
    if runner is None or report.when != "call" or report.skipped:
        return
    if report.failed:
        # Path relative to the working directory: node ids do not identify tests outside the root directory.
        where = os.path.relpath(item.path, item.config.invocation_params.dir)
        test = "::".join([where, *item.nodeid.split("[")[0].split("::")[1:]])
        item._belljar_failed = True  # type: ignore[attr-defined]
        kept = "\n".join(f"results: {path}" for path in runner.results if path.is_dir())
        report.sections.append(
            ("belljar", f"seed {runner.seed}; again: pytest '{test}' --belljar-seed {runner.seed}\n{kept}")
        )


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    outcomes: dict[str, list[bool]] = {}
    for outcome, failed in (("passed", False), ("failed", True), ("xfailed", True), ("xpassed", False)):
        for report in terminalreporter.stats.get(outcome, []):
            if report.when == "call" and _SEED in dict(report.user_properties):
                outcomes.setdefault(report.nodeid.split("[")[0], []).append(failed)
    several = {test: failed for test, failed in sorted(outcomes.items()) if len(failed) > 1}
    if several:
        terminalreporter.section("belljar: seeds")
        for test, failed_runs in several.items():
            terminalreporter.line(f"{test}: {failure_rate(sum(failed_runs), len(failed_runs))}")
