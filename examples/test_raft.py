"""Does what a Raft cluster has promised survive whatever happens to it? A test for pytest, run under twenty seeds:

    pytest examples/test_raft.py

There is a variant with a mistake: its replicas forget their term and their vote in a crash. Under some seeds that does
not matter, under others something is lost:

    RAFT_OPTIONS=--forgetful pytest examples/test_raft.py
"""

import os
import pathlib

import pytest

from belljar import Experiment, one_of

PROGRAMS = pathlib.Path(__file__).resolve().parent / "programs"
REPLICAS = ["raft1", "raft2", "raft3"]
OPTIONS = os.environ.get("RAFT_OPTIONS", "").split()


def cluster() -> Experiment:
    """Three replicas under attack for ten seconds, and a client that holds them to their word."""
    exp = Experiment(stop_time="30 s")
    exp.network.edge("rack", "rack", latency="2 ms", jitter="1 ms", loss=0.001)
    for name in REPLICAS:
        exp.host(name, at="rack").run(PROGRAMS / "raft.py", *OPTIONS, name, *REPLICAS, expect="running")
    exp.host("checker", at="rack").run(PROGRAMS / "raft_check.py", 13, *REPLICAS, start="1 s")
    # Who is cut off changes every second, hosts crash and come back, clocks jump: all drawn from the seed.
    anyone = one_of(*REPLICAS)
    exp.partition(anyone, every="1 s", between=["3 s", "13 s"], lasting="1 s", name="splits")
    exp.crash(anyone, every="1 s", between=["3.9 s", "13 s"], probability=0.5, lasting="200 ms", name="crashes")
    exp.clock(anyone, every="2 s", between=["3 s", "13 s"], step="-10 s", name="clocks")
    return exp


@pytest.mark.belljar(seeds=20)
def test_nothing_acknowledged_is_lost(belljar):
    results = belljar.run(cluster())
    assert results.stdout("checker").endswith("all there, in the same order everywhere\n")

