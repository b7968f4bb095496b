"""What happens while an experiment runs: section `events`, with a method for each thing that can happen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, Union

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

#: "10 ms", "2 min"; a number counts seconds.
Time = Union[str, float]
#: A host's name, a pattern such as "replica*", several of both, "all", or `one_of(...)`.
Hosts = Union[str, Sequence[str], Mapping[str, Any]]
#: Where something happens: two hosts, `one_way("alice", "bob")`, `Network.between("here", "there")`, the name of a link (or a
#: pattern), or `link_from("uplink", "alice")`.
Link = Mapping[str, Any]


class When(TypedDict, total=False):
    """When an event happens: `at` a time, or `every` so often."""

    #: Once, counted from the start of the simulation.
    at: Time
    #: Again and again.
    every: Time
    #: With `every`: the first and the last occasion.
    between: Sequence[Time]
    #: With `every`: how likely each occasion is taken.
    probability: float
    #: How long it lasts; then it is undone.
    lasting: Time
    #: By which a partition is healed, and which the random draws hang on.
    name: str


def one_of(*hosts: str) -> dict[str, Any]:
    """One of these hosts, drawn anew each time; names and patterns."""
    return {"one_of": list(hosts)}


def one_way(source: Hosts, target: Hosts) -> dict[str, Any]:
    """The way from these hosts to those over the graph, not back."""
    return {"from": source, "to": target}


def link_from(link: str | Sequence[str], node: str) -> dict[str, Any]:
    """The direction of a link that begins at this host, switch or router."""
    return {"link": link if isinstance(link, str) else list(link), "from": node}


class Events:
    """The events of an experiment. Every method takes the keys of `When` and gives the experiment back."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def event(self, *, lasting: Time | None = None, **what: Any) -> Self:
        """Adds an entry as the experiment file has it: event(at="10 s", crash="leader", lasting="5 s"). `lasting` is
        the file's `for`, which Python keeps for itself."""
        self.events.append({**what, **({} if lasting is None else {"for": lasting})})
        return self

    def _add(self, what: str, value: Any, when: When, **more: Any) -> Self:
        if ("at" in when) == ("every" in when):
            raise ValueError(f"{what}: give either at=, or every=")
        return self.event(**when, **{what: value}, **{key: given for key, given in more.items() if given is not None})

    def link_down(self, *ends: Hosts | Link, **when: Unpack[When]) -> Self:
        """Nothing passes between two hosts (or sets of hosts), or over a link of this name."""
        return self._add("link_down", _target(ends), when)

    def link_up(self, *ends: Hosts | Link, **when: Unpack[When]) -> Self:
        """Undoes `link_down`."""
        return self._add("link_up", _target(ends), when)

    def link_change(
        self, *ends: Hosts | Link, latency: Time | None = None, jitter: Time | None = None,
        loss: float | Mapping[str, Any] | None = None, rate: str | None = None, queue: Mapping[str, Any] | None = None, token_bucket: Mapping[str, Any] | str | None = None,
        reordering: Mapping[str, Any] | str | None = None, duplication: float | None = None, corruption: float | None = None,
        **when: Unpack[When],
    ) -> Self:
        """Other properties of the way between two hosts, or of a link; those not named stay. All but the first three are those
        of a link."""
        return self._add("link_change", _target(ends), when, latency=latency, jitter=jitter, packet_loss=loss, rate=rate, queue=queue,
                         token_bucket=token_bucket, reordering=reordering, duplication=duplication, corruption=corruption)

    def link_reset(self, *ends: Hosts | Link, **when: Unpack[When]) -> Self:
        """The properties of the start again."""
        return self._add("link_reset", _target(ends), when)

    def partition(self, *groups: Hosts, **when: Unpack[When]) -> Self:
        """Hosts of different groups don't reach each other; one group is apart from all other hosts."""
        return self._add("partition", [[group] if isinstance(group, str) else group for group in groups], when)

    def heal(self, partition: str = "all", **when: Unpack[When]) -> Self:
        """Ends the partition with this name, or all."""
        return self._add("heal", partition, when)

    def bandwidth(
        self, hosts: Hosts, *, up: str | None = None, down: str | None = None, **when: Unpack[When]
    ) -> Self:
        """Other bandwidths, or "unlimited"."""
        return self._add("bandwidth", hosts, when, up=up, down=down)

    def crash(self, hosts: Hosts, *, files: str | None = None, **when: Unpack[When]) -> Self:
        """The hosts stop at once; their files are "kept" (the default) or "lost". After `lasting` they start again."""
        return self._add("crash", hosts, when, files=files)

    def restart(self, hosts: Hosts, **when: Unpack[When]) -> Self:
        """Hosts that have crashed start again."""
        return self._add("restart", hosts, when)

    def dns_down(self, hosts: Hosts = "all", **when: Unpack[When]) -> Self:
        """The name server does not answer these hosts."""
        return self._add("dns_down", hosts, when)

    def dns_up(self, hosts: Hosts = "all", **when: Unpack[When]) -> Self:
        """It does again."""
        return self._add("dns_up", hosts, when)

    def start(self, process: int | str, *, on: Hosts, **when: Unpack[When]) -> Self:
        """Starts a process of the hosts' lists (its place or its program's name), or a model by its name, unless it runs. A
        model can be `lasting` for a time."""
        return self._add("start", process, when, hosts=on)

    def stop(self, model: str, *, on: Hosts, **when: Unpack[When]) -> Self:
        """Stops a model of the hosts."""
        return self._add("stop", model, when, hosts=on)

    def signal(self, signal: str, *, on: Hosts, process: int | str | None = None, **when: Unpack[When]) -> Self:
        """Sends a signal to a process of the hosts, the first if none is named."""
        return self._add("signal", signal, when, hosts=on, process=process)

    def clock(
        self, hosts: Hosts, *, step: str | None = None, drift_ppm: float | None = None, **when: Unpack[When]
    ) -> Self:
        """The wall clock jumps ("-5 s": back), or the clock gains so many microseconds a second from now on."""
        return self._add("clock", hosts, when, step=step, drift_ppm=drift_ppm)

    def move(self, hosts: Hosts, to: Sequence[float], *, speed: float | None = None, **when: Unpack[When]) -> Self:
        """Stations of radios go to a place, in metres, at a speed in metres per second or at once, and stay there."""
        return self._add("move", hosts, when, to=list(to), speed=speed)

    def p4(
        self, switches: str | Sequence[str], *, runtime: str | Sequence[str] | None = None,
        commands: str | Sequence[str] | None = None, **when: Unpack[When],
    ) -> Self:
        """P4 switches carry out runtime files and files of commands."""
        return self._add("p4", switches, when, runtime=runtime, commands=commands)


def _target(ends: Sequence[Any]) -> Any:
    if len(ends) == 1 and isinstance(ends[0], (str, Mapping)):
        return ends[0]
    if len(ends) != 2:
        raise ValueError(f"a link has two ends, not {len(ends)}: name two hosts, a link, or network.between(...)")
    return list(ends)
