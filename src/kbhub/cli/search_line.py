"""The command line of `search`, read without the command line's libraries: a person waits for each search.

What is no plain search is left to cyclopts; tests/test_quick.py holds the rest against what cyclopts makes of it.
"""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kbhub.cli.given import MOST_AROUND, Formats, Hits

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

COMMAND = "search"

MOST_HITS = 100
"""Hits of one answer at most, as `types.Query` has it."""

END_OF_OPTIONS = "--"

_WHOLE = re.compile(r"0|[1-9][0-9]{0,8}", re.ASCII)
_SHARE = re.compile(r"0|1|0?\.[0-9]{1,15}|1\.0{1,15}", re.ASCII)
"""What is surely a number between 0 and 1; others have other ways to write one."""


class _Option(NamedTuple):
    """An option with a value."""

    field: str
    read: Callable[[str], object]
    """Gives the value; none for one that is wrong, or written in an unusual way."""
    repeated: bool = False


def _number(least: int, most: int | None = None) -> Callable[[str], int | None]:
    def read(text: str) -> int | None:
        number = int(text) if _WHOLE.fullmatch(text) else -1
        return number if number >= least and (most is None or number <= most) else None

    return read


def _share(text: str) -> float | None:
    return float(text) if _SHARE.fullmatch(text) else None


def _one_of(*names: str) -> Callable[[str], str | None]:
    return lambda text: text if text in names else None


FLAGS = {
    "-": "stdin",
    "--explain": "explain",
    "--all": "all_",
    "--expand": "expand",
    "--rerank": "rerank",
    "--full": "full",
    "--line-numbers": "line_numbers",
    "--verbose": "verbose",
    "--json": "json",
    "--csv": "csv",
    "--md": "md",
    "--xml": "xml",
    "--files": "files",
    "--no-pager": "no_pager",
}
"""Options without a value → what is true with them."""

_LIMIT, _AROUND = _Option("limit", _number(1, MOST_HITS)), _Option("around", _number(0, MOST_AROUND))
VALUES = {
    "--in": _Option("bases", str, repeated=True),
    "--mode": _Option("mode", _one_of("keyword", "semantic", "hybrid")),
    "--limit": _LIMIT,
    "-n": _LIMIT,
    "--page": _Option("page", _number(1)),
    "--granularity": _Option("granularity", _one_of("document", "chunk")),
    "--min-score": _Option("min_score", _share),
    "--min-signals": _Option("min_signals", _number(1, 2)),
    "--recency": _Option("recency", _share),
    "--expand-model": _Option("expand_model", str),
    "--context": _AROUND,
    "-C": _AROUND,
    "--root": _Option("root", str),
    "--config": _Option("config", Path),
    "--cache-dir": _Option("cache_dir", Path),
    "--base": _Option("base", str, repeated=True),
}

_PLAIN: dict[str, Any] = {
    "stdin": False,
    "bases": (),
    "mode": None,
    "limit": None,
    "page": 1,
    "granularity": "document",
    "explain": False,
}
"""What `search` does unless it is told; the rest is in `Hits` and `Formats`."""


def asked(arguments: Sequence[str]) -> dict[str, Any] | None:
    """Read a command line.

    Args:
        arguments: what follows the program's name.

    Returns:
        The arguments of `commands.searching.search`; none if it is not `search` with words and options that can be
        understood at a glance.
    """
    if arguments[:1] != [COMMAND]:
        return None
    found: dict[str, Any] = {}
    words: list[str] = []
    rest = iter(arguments[1:])
    for argument in rest:
        if argument == END_OF_OPTIONS:
            words += rest
            if END_OF_OPTIONS in words:
                return None
        elif argument.startswith("-"):
            if not _took(argument, rest, found):
                return None
        else:
            words.append(argument)
    return {
        "words": tuple(words),
        **{name: found.get(name, plain) for name, plain in _PLAIN.items()},
        "options": Hits(**_of(Hits, found)),
        "formats": Formats(**_of(Formats, found)),
    }


def _took(argument: str, rest: Any, found: dict[str, Any]) -> bool:
    """Note what an option says, whose value may be the next argument; false if that is not sure."""
    if (flag := FLAGS.get(argument)) is not None:
        fresh = flag not in found
        found[flag] = True
        return fresh
    name, mark, text = argument.partition("=")
    option = VALUES.get(name)
    text = text if mark else next(rest, "")
    if option is None or not text or text.startswith("-"):
        return False
    value = option.read(text)
    if value is None or (option.field in found and not option.repeated):
        return False
    found[option.field] = (*found.get(option.field, ()), value) if option.repeated else value
    return True


def _of(kind: type[Hits | Formats], found: dict[str, Any]) -> dict[str, Any]:
    return {one.name: found[one.name] for one in fields(kind) if one.name in found}
