"""Lines of the user's program that made the parts of an experiment: errors in the file that Python writes name them."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import re
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from .experiment import Experiment

_PACKAGE = str(pathlib.Path(__file__).parent) + os.sep
_POSITION = re.compile(r"((?:in line (\d+), column \d+ of this graph[^\n]*\n)? *--> )standard input(?::(\d+):(\d+))?")
#: Sections whose parts are in a list, and those whose parts have names.
_LISTS = ("links", "events", "properties")


@dataclasses.dataclass(frozen=True)
class Site:
    """A line of the user's program."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class Part(dict[str, Any]):
    """An entry of a list in the experiment file, with the line that added it."""

    site: Site | None = None


# Programs may write the entries of `Experiment.events` themselves.
for _representer in (yaml.representer.SafeRepresenter, yaml.representer.Representer):
    _representer.add_representer(Part, _representer.represent_dict)


def part(entry: Mapping[str, Any]) -> Part:
    """The entry with the line that called the package."""
    made = Part(entry)
    made.site = caller()
    return made


def caller() -> Site | None:
    """Line of the user's program that called the package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    # The outermost frame is one of the package where that is run as a module.
    return None if frame.f_code.co_filename.startswith(_PACKAGE) else Site(frame.f_code.co_filename, frame.f_lineno)


def located(said: str, text: str, experiment: Experiment) -> str:
    """Error output of the command, with the positions in `text`, the experiment on its standard input, replaced by
    lines of the user's program."""

    def named(found: re.Match[str]) -> str:
        before, of_graph, line, column = found.groups()
        site = experiment.network.site_of_line(int(of_graph)) if of_graph else None
        site = site or site_of(_path(tree, int(line) - 1, int(column) - 1) if line else [], experiment)
        if site is None:
            return found[0]
        return f"{before}{site} (line {line} of what to_yaml() gives)" if line else f"{before}{site}"

    if not _POSITION.search(said):
        return said
    tree = yaml.compose(text, Loader=yaml.SafeLoader)
    return _POSITION.sub(named, said)


def located_in_file(said: str, file: pathlib.Path) -> str:
    """Error output of the command, which names the file whose text was on its standard input."""
    return _POSITION.sub(lambda found: found[0].replace("standard input", str(file)), said)


def site_of(path: list[str | int], experiment: Experiment) -> Site | None:
    """Line that made the part of the experiment with this path in its file, or the part that contains it."""
    match path:
        case ["hosts", str(name), "processes", int(n), *_] if name in experiment.hosts and n < len(experiment.hosts[name].processes):
            return experiment.hosts[name].processes[n].site or experiment.sites.get(("hosts", name))
        case [str(section), int(n), *_] if section in _LISTS and (site := _site_of_entry(getattr(experiment, section), n)):
            return site
        case [str(section), str(name), *_] if (section, name) in experiment.sites:
            return experiment.sites[section, name]
    return experiment.site


def _site_of_entry(entries: Sequence[Mapping[str, Any]], n: int) -> Site | None:
    """Line that added an entry; `None` where the program has made the entry itself."""
    return getattr(entries[n], "site", None) if n < len(entries) else None


def _path(node: yaml.Node | None, line: int, column: int) -> list[str | int]:
    """Keys and indices that lead to the innermost node at a position."""
    path: list[str | int] = []
    while node is not None:
        inner: list[tuple[str | int, yaml.Node, yaml.Node]] = []
        if isinstance(node, yaml.MappingNode):
            inner = [(str(key.value), key, value) for key, value in node.value]
        elif isinstance(node, yaml.SequenceNode):
            inner = [(n, value, value) for n, value in enumerate(node.value)]
        for key, first, last in inner:
            start, end = first.start_mark, last.end_mark
            if (start.line, start.column) <= (line, column) < (end.line, end.column):
                path.append(key)
                node = last
                break
        else:
            return path
    return path
