"""Runs of the P2P program (p2p/p2p.c) for several experiments."""

from __future__ import annotations

import types
from typing import Any

import p2p
from common import Usage, compile_c, environment, remove, run_experiment

#: What the paper's defaults make of a host: 100 messages in flight that go round 200 times.
PAPER_MESSAGES = 20_000


def program(static: bool = False) -> Any:
    return compile_c(p2p.SOURCE, "p2p-static" if static else "p2p", *(["-static-pie"] if static else []))


def settings(peers: int, messages: int, *, weights: str = "exp", aes: int = 0, seed: int = 1) -> types.SimpleNamespace:
    return types.SimpleNamespace(peers=peers, messages=messages, weights=weights, aes=aes, seed=seed)


def run(peers: int, messages: int, seconds: int, *, weights: str = "exp", aes: int = 0, static: bool = False, options: tuple[str, ...] = (),
        workers: int | None = None, latency: str = "50 ms") -> tuple[int, Usage]:
    """Messages received, and the cost of the whole run."""
    text = p2p.experiment(program(static), settings(peers, messages, weights=weights, aes=aes), seconds)
    text = text.replace('latency "50 ms"', f'latency "{latency}"')
    with environment(BELLJAR_PARALLELISM=workers):
        results, usage = run_experiment(text, "--no-progress", *options, private=True)
    counts = [p2p.COUNT.search(path.read_text()) for path in results.glob("hosts/*/p2p*.stdout")]
    remove(results)
    if len(counts) != peers or not all(counts):
        raise RuntimeError(f"{sum(map(bool, counts))} of {peers} peers reported")
    return sum(int(count[2]) for count in counts if count), usage


def cost(peers: int, messages: int, seconds: int, **more: Any) -> float:
    """Microseconds of CPU a message: the slope between a short and a long run."""
    short, long = (run(peers, messages, span, **more) for span in (1, 1 + seconds))
    return (long[1].cpu - short[1].cpu) / (long[0] - short[0]) * 1e6
