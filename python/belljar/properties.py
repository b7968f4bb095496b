"""Properties of an experiment: section `properties`, with one method per kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, Union

from .keywords import check_keywords
from .sites import part

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from .events import Time

#: A regular expression or, for packets, a filter in tcpdump's syntax: {"filter": "tcp port 23"}.
Condition = Union[str, Mapping[str, str]]
#: Host names and patterns such as "replica*", or "all".
Names = Union[str, Sequence[str]]


class Lines(TypedDict, total=False):
    """Lines or packets that a property judges."""

    #: Hosts, of which each must have such a file; without it all hosts, of which one must have it.
    hosts: Names
    #: Process whose outputs are judged, by its number on the host or by its program.
    process: int | str
    #: "stdout", "stderr", paths such as "log/*.txt" or "/var/log/app.log", or several; both outputs unless given.
    files: str | Sequence[str]
    #: Interfaces such as "eth0" or "*", whose packets are judged instead of files.
    packets: str | Sequence[str]
    #: Filter of the packets that are judged, in tcpdump's syntax.
    filter: str
    #: Regular expression of the lines that are judged; all lines unless given.
    lines: str
    #: Comparisons of named groups, such as "ms < 100".
    where: str | Sequence[str]


class Properties:
    """Properties of an experiment: the run fails where one does not hold. Every method returns the experiment."""

    def __init__(self) -> None:
        self.properties: list[dict[str, Any]] = []

    def property(self, name: str, **claim: Any) -> Self:
        """Adds an entry with the keys of the experiment file: property("no-panic", never="panicked", files="stderr")."""
        if any(known["name"] == name for known in self.properties):
            raise ValueError(f"there is a property '{name}' already")
        self.properties.append(part({"name": name, **{key: value for key, value in claim.items() if value is not None}}))
        return self

    def _claim(self, name: str, kind: str, value: Any, lines: Lines) -> Self:
        check_keywords(kind, lines, Lines.__annotations__)
        return self.property(name, **{kind: value}, **lines)

    def always(self, name: str, regex: Condition, **lines: Unpack[Lines]) -> Self:
        """Each judged line matches, or each packet passes the filter, and there is one."""
        return self._claim(name, "always", regex, lines)

    def never(self, name: str, regex: Condition, **lines: Unpack[Lines]) -> Self:
        """No judged line matches, or no packet passes the filter."""
        return self._claim(name, "never", regex, lines)

    def sometimes(self, name: str, regex: Condition, **lines: Unpack[Lines]) -> Self:
        """At least one judged line matches, or one packet passes the filter."""
        return self._claim(name, "sometimes", regex, lines)

    def eventually(self, name: str, regex: Condition, *, within: Time, after: Time | None = None, **lines: Unpack[Lines]) -> Self:
        """A line that matches is written within a time, after a time or the last fault (`after="faults"`)."""
        condition = {"matches": regex} if isinstance(regex, str) else dict(regex)
        claim = {**condition, "within": within, **({} if after is None else {"after": after})}
        return self._claim(name, "eventually", claim, lines)

    def history(self, name: str, files: str, *, model: str, consistency: str | None = None, hosts: Names | None = None) -> Self:
        """The history in these files, of all hosts together, satisfies a model: a name, or the path of a program such as "./bank.py". See
        `belljar check`."""
        return self.property(name, history=files, model=model, consistency=consistency, hosts=hosts)

    def assertions(self, name: str, file: str = "/var/log/sdk.jsonl", *, hosts: Names | None = None) -> Self:
        """The assertions hold that programs report in this file by an SDK of Antithesis, whose path they are given."""
        return self.property(name, assertions=file, hosts=hosts)
