"""Events during an experiment: section `events`, with one method per action."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, Union

from .keywords import check_keywords
from .sites import part

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

#: "10 ms", "2 min"; a number counts seconds.
Time = Union[str, float]
#: A host name, a pattern such as "replica*", several of both, "all", or `one_of(...)`.
Hosts = Union[str, Sequence[str], Mapping[str, Any]]
#: Target of a link event: two hosts, `one_way("alice", "bob")`, `Network.between("here", "there")`, the name of a
#: link (or a pattern), or `link_from("uplink", "alice")`.
Link = Mapping[str, Any]


class When(TypedDict, total=False):
    """Schedule of an event: `at` a time, or `every` period."""

    #: Time of a single event, from the start of the simulation.
    at: Time
    #: Period of a repeated event.
    every: Time
    #: First and last time of a repeated event.
    between: Sequence[Time]
    #: Probability with which each repetition occurs.
    probability: float
    #: Duration, after which the event is undone.
    lasting: Time
    #: Name, by which a partition is healed, and which labels the random draws.
    name: str


def one_of(*hosts: str) -> dict[str, Any]:
    """One of these hosts (names and patterns), drawn anew for each event."""
    return {"one_of": list(hosts)}


def one_way(source: Hosts, target: Hosts) -> dict[str, Any]:
    """The direction from these hosts to those over the graph, without the reverse."""
    return {"from": source, "to": target}


def link_from(link: str | Sequence[str], node: str) -> dict[str, Any]:
    """The direction of a link that starts at this host, switch or router."""
    return {"link": link if isinstance(link, str) else list(link), "from": node}


class Events:
    """Events of an experiment. Every method accepts the keys of `When` and returns the experiment."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def event(self, *, lasting: Time | None = None, **what: Any) -> Self:
        """Adds an entry with the keys of the experiment file: event(at="10 s", crash="leader", lasting="5 s").
        `lasting` stands for `for`, a Python keyword."""
        self.events.append(part({**what, **({} if lasting is None else {"for": lasting})}))
        return self

    def _add(self, what: str, value: Any, when: When, **more: Any) -> Self:
        check_keywords(what, when, When.__annotations__)
        if ("at" in when) == ("every" in when):
            raise ValueError(f"{what}: give either at=, or every=")
        return self.event(**when, **{what: value}, **{key: given for key, given in more.items() if given is not None})

    def link_down(self, *ends: Hosts | Link, **when: Unpack[When]) -> Self:
        """Blocks all traffic between two hosts (or sets of hosts), or over the link with this name."""
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
        """Changes properties of the path between two hosts, or of a link; unnamed properties are unchanged. All but
        the first three apply to links only."""
        return self._add("link_change", _target(ends), when, latency=latency, jitter=jitter, packet_loss=loss, rate=rate, queue=queue,
                         token_bucket=token_bucket, reordering=reordering, duplication=duplication, corruption=corruption)

    def link_reset(self, *ends: Hosts | Link, **when: Unpack[When]) -> Self:
        """Restores the initial properties."""
        return self._add("link_reset", _target(ends), when)

    def partition(self, *groups: Hosts, **when: Unpack[When]) -> Self:
        """Blocks traffic between hosts of different groups; a single group is separated from all other hosts."""
        return self._add("partition", [[group] if isinstance(group, str) else group for group in groups], when)

    def heal(self, partition: str = "all", **when: Unpack[When]) -> Self:
        """Ends the partition with this name, or all."""
        return self._add("heal", partition, when)

    def bandwidth(
        self, hosts: Hosts, *, up: str | None = None, down: str | None = None, **when: Unpack[When]
    ) -> Self:
        """Changes bandwidths; "unlimited" removes the limit."""
        return self._add("bandwidth", hosts, when, up=up, down=down)

    def crash(
        self, hosts: Hosts, *, files: str | None = None, disk: str | None = None, **when: Unpack[When]
    ) -> Self:
        """Stops the hosts immediately; their files are "kept" (the default) or "lost", or lose what is not synced:
        "unsynced" by pages, "torn" by parts of pages, on a `disk` that is "ordered" or "any". After `lasting` they
        restart."""
        return self._add("crash", hosts, when, files=files, disk=disk)

    def restart(self, hosts: Hosts, *, root: str | None = None, keep: Sequence[str] | None = None, **when: Unpack[When]) -> Self:
        """Restarts crashed hosts. With `root`, a directory or an image, hosts that run restart too, and have its files and programs from then on, except for the
        folders of `keep`; after `lasting` they restart with their first root."""
        return self._add("restart", hosts, when, root=root, keep=keep)

    def pause(self, hosts: Hosts, *, process: int | str | None = None, **when: Unpack[When]) -> Self:
        """Lets the hosts stand still: no instruction is executed, no timer fires, and packets wait. With `process` one of the hosts' lists
        stands still (by index), or all with a name, in which * stands for any characters, while the hosts go on. After `lasting` they go on."""
        return self._add("pause", hosts, when, process=process)

    def resume(self, hosts: Hosts, *, process: int | str | None = None, **when: Unpack[When]) -> Self:
        """Lets paused hosts, or a `process` of them, go on."""
        return self._add("resume", hosts, when, process=process)

    def disk_fault(
        self, hosts: Hosts, *, sync_time: Time | Sequence[Time] | None = None, sync_errors: int | None = None, full: bool | None = None,
        read_errors: float | None = None, bit_rot: float | None = None, path: str | None = None, **when: Unpack[When],
    ) -> Self:
        """Lets disks fail: syncs take `sync_time` (one, or a least and a largest), so many of them fail, the disk is `full`, a share of reads
        fails or finds a wrong bit. `path` names the files, with * for any characters."""
        return self._add("disk_fault", hosts, when, sync_time=sync_time, sync_errors=sync_errors, full=full, read_errors=read_errors, bit_rot=bit_rot, path=path)

    def disk_heal(self, hosts: Hosts, **when: Unpack[When]) -> Self:
        """Ends all faults of disks."""
        return self._add("disk_heal", hosts, when)

    def connection_reset(self, first: Hosts, second: Hosts, *, ends: str | None = None, **when: Unpack[When]) -> Self:
        """Resets the TCP connections between hosts at "both" `ends`, or at the "first" or "second" alone."""
        return self._add("connection_reset", [first, second], when, ends=ends)

    def call_faults(
        self, hosts: Hosts, results: str | Sequence[str], *, share: float | None = None, pid: int | None = None, call: str | None = None,
        number: int | None = None, **when: Unpack[When],
    ) -> Self:
        """Gives a share of system calls one of these results ("short", "EINTR", "EAGAIN", ...), or a single call, by process, name and number."""
        return self._add("call_faults", hosts, when, results=results, share=share, pid=pid, call=call, number=number)

    def limit_memory(self, hosts: Hosts, limit: int | str, **when: Unpack[When]) -> Self:
        """Limits the memory of hosts ("64 MiB"): beyond it the process with the largest badness is killed. Those of the hosts' lists that were
        killed start again after `lasting`."""
        return self._add("memory", hosts, when, limit=limit)

    def slow_cpu(self, hosts: Hosts, share: float, *, period: Time | None = None, **when: Unpack[When]) -> Self:
        """Lets the programs of hosts run for a share of each period ("100 ms") only: what takes them processor time takes 1 / share as long."""
        return self._add("cpu", hosts, when, share=share, period=period)

    def dns_down(self, hosts: Hosts = "all", **when: Unpack[When]) -> Self:
        """Stops the name server's answers to these hosts."""
        return self._add("dns_down", hosts, when)

    def dns_up(self, hosts: Hosts = "all", **when: Unpack[When]) -> Self:
        """Resumes the name server's answers."""
        return self._add("dns_up", hosts, when)

    def dns_answers(self, hosts: Hosts, answer: str | Sequence[str], *, names: str | Sequence[str] | None = None, **when: Unpack[When]) -> Self:
        """Answers the queries of hosts for these names (all, unless given; * stands for any characters) by "timeout", "SERVFAIL", "REFUSED", "NXDOMAIN" or other
        addresses."""
        return self._add("dns_answers", hosts, when, names=names, answer=answer)

    def start(self, process: int | str, *, on: Hosts, **when: Unpack[When]) -> Self:
        """Starts a process of the hosts' lists (by index or program name), or a model by name, unless it is running.
        A model can be `lasting` for a time."""
        return self._add("start", process, when, hosts=on)

    def stop(self, model: str, *, on: Hosts, **when: Unpack[When]) -> Self:
        """Stops a model of the hosts."""
        return self._add("stop", model, when, hosts=on)

    def signal(self, signal: str, *, on: Hosts, process: int | str | None = None, **when: Unpack[When]) -> Self:
        """Sends a signal to a process of the hosts, by default the first."""
        return self._add("signal", signal, when, hosts=on, process=process)

    def kill(self, process: int | str, *, on: Hosts, **when: Unpack[When]) -> Self:
        """Kills processes: one of the hosts' lists by index, or all with a name, in which * stands for any characters. Those of the lists
        start again after `lasting`."""
        return self._add("kill", process, when, hosts=on)

    def upgrade(self, process: int | str, *, to: int | str, on: Hosts, grace: Time | None = None, **when: Unpack[When]) -> Self:
        """Ends a process of the hosts' lists by its shutdown signal, or after `grace` by SIGKILL, and starts the process `to` instead, also after crashes. After
        `lasting` the old process replaces the new one."""
        return self._add("upgrade", process, when, hosts=on, to=to, grace=grace)

    def clock(
        self, hosts: Hosts, *, step: str | None = None, drift_ppm: float | None = None, **when: Unpack[When]
    ) -> Self:
        """Steps the wall clock ("-5 s": back), or sets its drift in microseconds per second."""
        return self._add("clock", hosts, when, step=step, drift_ppm=drift_ppm)

    def move(self, hosts: Hosts, to: Sequence[float], *, speed: float | None = None, **when: Unpack[When]) -> Self:
        """Moves stations of radio channels to a position in metres, at a speed in metres per second or at once; they
        stay there."""
        return self._add("move", hosts, when, to=list(to), speed=speed)

    def p4(
        self, switches: str | Sequence[str], *, runtime: str | Sequence[str] | None = None,
        commands: str | Sequence[str] | None = None, **when: Unpack[When],
    ) -> Self:
        """Applies runtime files and command files to P4 switches."""
        return self._add("p4", switches, when, runtime=runtime, commands=commands)


def _target(ends: Sequence[Any]) -> Any:
    if len(ends) == 1 and isinstance(ends[0], (str, Mapping)):
        return ends[0]
    if len(ends) != 2:
        raise ValueError(f"a link has two ends, not {len(ends)}: name two hosts, a link, or network.between(...)")
    return list(ends)
