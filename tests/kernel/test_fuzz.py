"""Drawn sequences of system calls give the same natively and under Belljar; `python -m fuzz` goes on without an end."""

import pathlib

import pytest
from conftest import TARGET
from fuzz import networks
from fuzz.compare import Bench, build
from fuzz.draw import FOURTH, SECOND, draw

FOUND = pathlib.Path(__file__).parents[1] / "fuzz" / "found"
BUDGET = 60
BUDGET_OF_SECOND = 40
# Sequences of rtnetlink requests, of 40 each.
NETLINK_SEEDS = range(FOURTH + 100, FOURTH + 140)


@pytest.fixture
def bench(belljar, workdir):
    def make(**how):
        return Bench(belljar, build(TARGET), workdir, **how)

    return make


def told(sequences, differences):
    return "\n".join(
        f"{name}: native {native!r}, Belljar {simulated!r}\n  " + "\n  ".join(sequences[name])
        for name, (native, simulated) in differences.items()
    )


@pytest.mark.parametrize("placement", ["near", "far"])
def test_what_was_found_before(bench, placement):
    """Sequences that once differed."""
    sequences = {file.name: file.read_text().splitlines() for file in sorted(FOUND.iterdir())}
    if networks.refusal():
        sequences = {name: lines for name, lines in sequences.items() if networks.host_of(lines) is None}
    differences = bench(placement=placement).differences(sequences)
    assert not differences, told(sequences, differences)


def test_drawn(bench):
    seeds = [*range(BUDGET), *range(SECOND, SECOND + BUDGET_OF_SECOND)]
    sequences = {f"seed{seed}": draw(seed) for seed in seeds}
    differences = bench().differences(sequences)
    assert not differences, "shrink it: cd tests && python -m fuzz --seeds N:N+1\n" + told(sequences, differences)


@pytest.mark.needs("ip", "unshare", "nsenter")
def test_drawn_rtnetlink(bench):
    if reason := networks.refusal():
        pytest.skip(f"no network namespace to ask the kernel in: {reason}")
    sequences = {f"seed{seed}": draw(seed) for seed in NETLINK_SEEDS}
    here = bench()
    # The kernel's workers are late on a busy machine: a difference is one that is there again.
    late = here.differences(sequences)
    differences = here.differences({name: sequences[name] for name in late}) if late else {}
    assert not differences, "shrink it: cd tests && python -m fuzz --seeds N:N+1\n" + told(sequences, differences)


def test_a_difference_is_found_and_made_short(bench):
    """The harness itself: a kernel that is wrong, which the variable makes of the interpreter under Belljar, must not pass."""
    here = bench(environment={"FUZZ_CANARY": "eventfd"})
    lines = [*draw(3)[:10], "eventfd 3 7 2048", "read 3 8", *draw(4)[:10]]
    short, difference = here.shrink(lines)
    assert difference and len(short) == 1 and short[0].startswith("eventfd"), (short, difference)
