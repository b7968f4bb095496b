"""Of many hosts for each worker, what they read next is fetched ahead, and to know it some of their programs are followed step by
step: nothing of that shows."""

import pathlib

import pytest
from compiling import compile_newer
from conftest import TARGET, contents_of, experiment, graph

# More than a worker alone is taken to have in its cache, and fewer than two are.
HOSTS = 300
# Programs are followed from their sixteenth turn or so.
ROUNDS = 60


@pytest.fixture(scope="module")
def program():
    source = pathlib.Path(__file__).with_name("crowd.c")
    out = TARGET / "test-work" / "determinism-crowd"
    compile_newer(out, ["gcc", "-O1", "-Wall", "-Wextra"], source, libraries=["-lm"])
    return out


@pytest.mark.parametrize("logged", [[], ["--strace"]], ids=["unseen", "logged"])
def test_what_is_fetched_ahead_does_not_show(run_experiment, program, logged):
    hosts = {f"host{n:03}": (0, [(program, n, HOSTS, ROUNDS)]) for n in range(HOSTS)}
    crowd = experiment(hosts, graph((0, 0, "10 ms")), stop="20 s")
    runs = []
    for workers in (1, 2):
        args = ["--parallelism", str(workers), *logged]
        runs.append(contents_of(run_experiment(crowd, pcap=True, args=args, name=f"with{workers}").path / "hosts"))
    assert len([name for name in runs[0] if name.endswith(".stdout")]) == HOSTS
    differing = [name for name in runs[0] if runs[0][name] != runs[1].get(name)]
    assert not differing and len(runs[0]) == len(runs[1]), differing[:10]
