"""Traffic models: endpoints without a program, one class per type. See the guide on modelled traffic.

    host.model(Http(to="server", count=10, pause=exponential("2 s")), start="5 s")

Defaults are documented in the guide. Sizes are "10 MB" or bytes, times "10 ms" or seconds. Both may be random
variables, drawn anew each time: `exponential`, `uniform`, `pareto`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, Union

#: "10 ms", "10 MB"; a number counts seconds or bytes.
Value = Union[str, float]
#: A value or a random variable: `exponential("2 s")`, `uniform("1 KB", "20 KB")`, `pareto("50 KB", 1.2)`.
Draw = Union[Value, Mapping[str, Any]]
#: "host:port", or a list from which each transfer or request chooses.
Endpoints = Union[str, Sequence[str]]
#: Number of repetitions, by default one.
Count = Union[int, Literal["unlimited"]]


def exponential(mean: Value) -> dict[str, Any]:
    """Exponential distribution with this mean."""
    return {"exponential": mean}


def uniform(least: Value, most: Value) -> dict[str, Any]:
    """Uniform distribution from `least` to `most`."""
    return {"uniform": [least, most]}


def pareto(mean: Value, shape: float, max: Value | None = None) -> dict[str, Any]:
    """Pareto distribution with this mean before truncation at `max`; `shape` is greater than 1."""
    return {"pareto": {"mean": mean, "shape": shape, **({} if max is None else {"max": max})}}


@dataclasses.dataclass(kw_only=True)
class Model:
    """Base class of all models."""

    #: Type in the experiment file.
    type: ClassVar[str] = ""
    #: Label of its flows in the results, and name for events that start and stop it; by default its type.
    name: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Representation in the experiment file."""
        keys = ((field.name, getattr(self, field.name)) for field in dataclasses.fields(self))
        return {"type": self.type, **{key: value for key, value in keys if value is not None}}


def keys(type: str) -> list[str]:
    """Keys of the models of a type."""
    for model in _models(Model):
        if model.type == type:
            return [field.name for field in dataclasses.fields(model)]
    known = sorted(model.type for model in _models(Model) if model.type)
    raise ValueError(f"there is no model '{type}': there are {', '.join(known)}")


def _models(base: type[Model]) -> list[type[Model]]:
    return [inner for own in base.__subclasses__() for inner in (own, *_models(own))]


@dataclasses.dataclass(kw_only=True)
class Client(Model):
    """Base class of clients that act `count` times, with a `pause` (from the end of one action to the start of the
    next) or an `interval` (from start to start)."""

    count: Count | None = None
    pause: Draw | None = None
    interval: Draw | None = None


@dataclasses.dataclass(kw_only=True)
class Bulk(Client):
    """Transfers bytes over TCP, each time over a new connection. `size` is required unless the direction is "down"."""

    type: ClassVar[str] = "bulk"
    to: Endpoints
    size: Draw | None = None
    direction: Literal["up", "down"] | None = None


@dataclasses.dataclass(kw_only=True)
class Http(Client):
    """Sends HTTP/1.1 requests, to port 80 by default."""

    type: ClassVar[str] = "http"
    to: Endpoints
    path: str | None = None
    request_size: Draw | None = None
    keep_alive: bool | None = None
    timeout: Value | None = None


@dataclasses.dataclass(kw_only=True)
class Dns(Client):
    """Sends DNS queries over UDP to the experiment's name server or to a host."""

    type: ClassVar[str] = "dns"
    names: Sequence[str]
    to: str | None = None
    timeout: Value | None = None
    retries: int | None = None


@dataclasses.dataclass(kw_only=True)
class ConstantRate(Model):
    """Sends UDP datagrams at a constant payload rate."""

    type: ClassVar[str] = "constant_rate"
    to: str
    rate: str
    datagram_size: Value | None = None
    duration: Value | None = None


@dataclasses.dataclass(kw_only=True)
class OnOff(ConstantRate):
    """Sends UDP datagrams at a constant payload rate in bursts of duration `burst`, separated by pauses of duration
    `silence`."""

    type: ClassVar[str] = "on_off"
    burst: Draw
    silence: Draw


@dataclasses.dataclass(kw_only=True)
class Sink(Model):
    """Reads and discards data; over UDP it counts losses and measures the delay."""

    type: ClassVar[str] = "sink"
    port: int
    protocol: Literal["tcp", "udp"] | None = None


@dataclasses.dataclass(kw_only=True)
class Source(Model):
    """Sends a number of bytes (or "unlimited") to every client, then closes the connection."""

    type: ClassVar[str] = "source"
    port: int
    size: Draw


@dataclasses.dataclass(kw_only=True)
class HttpServer(Model):
    """Answers every request with a body."""

    type: ClassVar[str] = "http_server"
    port: int | None = None
    response_size: Draw | None = None
    delay: Draw | None = None


@dataclasses.dataclass(kw_only=True)
class DnsServer(Model):
    """Answers queries for the names of the experiment."""

    type: ClassVar[str] = "dns_server"
    port: int | None = None
    delay: Draw | None = None
