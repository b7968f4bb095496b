"""Times as numbers: Python counts seconds, and the experiment file needs a unit."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any

#: Keys of the experiment file whose values are times and need a unit. Shadow's keys take numbers of seconds.
_TIMES = frozenset((
    "access", "after", "ageing", "at", "between", "burst", "byte", "ce_threshold", "control_latency", "delay", "duration", "every", "fetch", "for",
    "hard_limit", "interrupt", "interrupt_interval", "interval", "jitter", "latency", "offset", "packet", "pause", "preamble",
    "register", "sifs", "silence", "slot", "start_timeout", "step", "sync_interval", "syscall", "target", "timeout", "within", "write_back",
))
_DISTRIBUTIONS = frozenset(("exponential", "uniform", "pareto"))
#: Mappings whose keys are the user's own, and the token bucket, whose `burst` is a size.
_OTHERS = frozenset(("define", "environment", "sysctls", "token_bucket"))
#: Mappings whose keys are names, and whose values have keys of the file.
_NAMED = frozenset(("hosts", "stations", "switches", "routers", "radios", "simulators", "gateways", "nics", "memories", "interfaces"))


def with_units(value: Any) -> Any:
    """A copy of a part of an experiment file in which numbers of seconds have their unit."""
    if isinstance(value, Mapping):
        return {key: _entry(key, inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [with_units(item) for item in value]
    return value


def _entry(key: Any, value: Any) -> Any:
    if key in _OTHERS:
        return value
    if key in _NAMED and isinstance(value, Mapping):
        return {name: with_units(inner) for name, inner in value.items()}
    if key == "machine" and isinstance(value, Mapping) and "quantum" in value:
        return {**with_units(value), "quantum": _seconds(value["quantum"])}
    if key == "path" and isinstance(value, (list, tuple)):
        return [[_seconds(point[0]), *point[1:]] if isinstance(point, (list, tuple)) and point else with_units(point) for point in value]
    return _seconds(value) if key in _TIMES else with_units(value)


def _seconds(value: Any) -> Any:
    if isinstance(value, Real) and not isinstance(value, bool):
        # Picoseconds are the finest that the file can have, and it has no exponents.
        return f"{float(value):.12f}".rstrip("0").rstrip(".") + " s"
    if isinstance(value, (list, tuple)):
        return [_seconds(item) for item in value]
    if isinstance(value, Mapping) and _DISTRIBUTIONS.issuperset(value):
        pareto = value.get("pareto")
        if isinstance(pareto, Mapping):
            return {"pareto": {key: inner if key == "shape" else _seconds(inner) for key, inner in pareto.items()}}
        return {key: _seconds(inner) for key, inner in value.items()}
    return with_units(value)
