"""Keyword arguments that are typed by a TypedDict, which Python does not check when a function is called."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable


def check_keywords(function: str, given: Iterable[str], known: Collection[str]) -> None:
    """Raises the TypeError of a call with an unknown keyword argument, with the known one that is most similar."""
    for name in given:
        if name not in known:
            similar = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean '{similar[0]}'?" if similar else f"known are {', '.join(sorted(known))}"
            raise TypeError(f"{function}() got an unexpected keyword argument '{name}': {hint}")
