"""Traffic models: endpoints without a program, a class for each type. See the guide on modelled traffic.

    host.model(Http(to="server", count=10, pause=exponential("2 s")), start="5 s")

What is left out is as the guide says. Sizes are "10 MB" or bytes, times "10 ms" or seconds, and both may be drawn anew each
time: `exponential`, `uniform`, `pareto`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, Union

#: "10 ms", "10 MB"; a number counts seconds or bytes.
Value = Union[str, float]
#: A value, or what it is drawn from: `exponential("2 s")`, `uniform("1 KB", "20 KB")`, `pareto("50 KB", 1.2)`.
Draw = Union[Value, Mapping[str, Any]]
#: "host:port", or several of which each transfer or request takes one.
Endpoints = Union[str, Sequence[str]]
#: How many times: once if nothing is said.
Count = Union[int, Literal["unlimited"]]


def exponential(mean: Value) -> dict[str, Any]:
    """Drawn from an exponential distribution with this mean."""
    return {"exponential": mean}


def uniform(least: Value, most: Value) -> dict[str, Any]:
    """Drawn evenly from `least` to `most`."""
    return {"uniform": [least, most]}


def pareto(mean: Value, shape: float, max: Value | None = None) -> dict[str, Any]:
    """Drawn from a Pareto distribution with this mean, before it is cut off at `max`; `shape` is above 1."""
    return {"pareto": {"mean": mean, "shape": shape, **({} if max is None else {"max": max})}}


@dataclasses.dataclass(kw_only=True)
class Model:
    """What all models have."""

    #: As the experiment file calls it.
    type: ClassVar[str] = ""
    #: What its flows are called in the results, and by which events start and stop it; its type if left out.
    name: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """As the experiment file has it."""
        keys = ((field.name, getattr(self, field.name)) for field in dataclasses.fields(self))
        return {"type": self.type, **{key: value for key, value in keys if value is not None}}


@dataclasses.dataclass(kw_only=True)
class Client(Model):
    """What clients have that do something `count` times, with a `pause` (from the end of one to the beginning of the next)
    or an `interval` (from beginning to beginning)."""

    count: Count | None = None
    pause: Draw | None = None
    interval: Draw | None = None


@dataclasses.dataclass(kw_only=True)
class Bulk(Client):
    """Transfers bytes over TCP, each time over a new connection. `size` is needed unless the direction is "down"."""

    type: ClassVar[str] = "bulk"
    to: Endpoints
    size: Draw | None = None
    direction: Literal["up", "down"] | None = None


@dataclasses.dataclass(kw_only=True)
class Http(Client):
    """Makes HTTP/1.1 requests, to port 80 if `to` names none."""

    type: ClassVar[str] = "http"
    to: Endpoints
    path: str | None = None
    request_size: Draw | None = None
    keep_alive: bool | None = None
    timeout: Value | None = None


@dataclasses.dataclass(kw_only=True)
class Dns(Client):
    """Asks for names over UDP: the experiment's name server, or a host."""

    type: ClassVar[str] = "dns"
    names: Sequence[str]
    to: str | None = None
    timeout: Value | None = None
    retries: int | None = None


@dataclasses.dataclass(kw_only=True)
class ConstantRate(Model):
    """Sends UDP datagrams at a rate of their payload."""

    type: ClassVar[str] = "constant_rate"
    to: str
    rate: str
    datagram_size: Value | None = None
    duration: Value | None = None


@dataclasses.dataclass(kw_only=True)
class OnOff(ConstantRate):
    """The same, but it sends for a time (`burst`) and pauses for a time (`silence`)."""

    type: ClassVar[str] = "on_off"
    burst: Draw
    silence: Draw


@dataclasses.dataclass(kw_only=True)
class Sink(Model):
    """Reads and throws away; over UDP it counts what is missing, and the delay."""

    type: ClassVar[str] = "sink"
    port: int
    protocol: Literal["tcp", "udp"] | None = None


@dataclasses.dataclass(kw_only=True)
class Source(Model):
    """Sends so much (or "unlimited") to everyone who connects, then closes."""

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
    """Answers for the names of the experiment."""

    type: ClassVar[str] = "dns_server"
    port: int | None = None
    delay: Draw | None = None
