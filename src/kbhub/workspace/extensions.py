"""Extensions: what packages beside the core add to kbhub.

A package names an `Extension` as an entry point of the group `kbhub.extensions`. It declares names, such as suffixes of
files; code is named as `module:name`, and imported at its first use. Ours, below `kbhub/extensions/`, come in by the
same door.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import field
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, TypeVar

from kbhub.types import Kind
from kbhub.values import struct

log = logging.getLogger(__name__)
T = TypeVar("T")


@struct
class Format:
    """A format of files that kbhub reads."""

    suffixes: tuple[str, ...]
    """Lower-case ends of the names of its files."""
    name: str
    """As in "Reading … needs an extra"."""
    kind: Kind | None = None
    """The kind of its documents; `other` for formats that kbhub has no kind for. They are converted: the lines of a
    document are not those of its file, which is parsed in a process of its own, is read from the index if it is
    unchanged, and is never written. None stands for text whose lines are the document's, of the kind of its base."""
    reader: str = ""
    """What parses converted files: `module:function` from path and bytes to a `Document`. It may raise anything."""
    scan: str = ""
    """The same for text: it takes lines and the index of the first one below front matter, and returns an `Outline`;
    empty for plain text."""
    markdown: str = ""
    """The same for text that is shown as Markdown: it takes a part and the path, and returns it with its lines."""
    unasked: bool = True
    """Whether a base takes such files although `include` does not name them."""
    extra: str | None = None
    """The extra of kbhub that reading needs."""
    library: str = ""
    """A module that the extra installs."""
    parts: bool = False
    """Whether documents consist of parts, such as pages, that are never joined."""
    limit: str = "limits.convertedBytes"
    """The setting with the size limit of converted files."""


@struct
class Extension:
    """What a package adds to kbhub. Code is named as `module:name`."""

    formats: tuple[Format, ...] = ()
    signals: tuple[str, ...] = ()
    """Each a `RankingSignal`; they follow kbhub's own."""
    engines: Mapping[str, str] = field(default_factory=dict)
    """Scheme of a URL in a base's `engine` → a `SharedEngine`."""
    commands: Mapping[str, tuple[str, str, str]] = field(default_factory=dict)
    """Command of the command line, in one or two words → its function, usage after the name, and a sentence on it."""
    groups: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """First of two words → its usage after the name, and its help."""
    searches: tuple[str, ...] = ()
    """Each a function of a search, the hub, `ExpansionSettings`, `RerankSettings` and a query that returns a
    `SearchResult`; it is called where one of the two is `enabled`."""
    writers: tuple[str, ...] = ()
    """Each a function of the hub, the name of a model, a `WritingRequest` and what gets each piece of text. It returns
    the whole, or raises `ModelUnavailable`."""
    checks: tuple[str, ...] = ()
    """Each a function of the hub that returns findings of `kbhub doctor`."""
    audits: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Name of a check of `kbhub audit` → what it finds, and the `Check`, which looks through one base."""
    keeps: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """The same for checks that run only with `kbhub audit --keep`, or if they are named."""
    pages: tuple[str, ...] = ()
    """Each `PageRules` for the documents that are written."""
    server: tuple[str, ...] = ()
    """Each a `ServerExtension` of the MCP server: tools, methods, addresses, views of results."""
    apps: Mapping[str, str] = field(default_factory=dict)
    """What a command asks the shared daemon for → a coroutine function that serves it: of the hub, JSON of the command,
    a coroutine function that sends it more, first once it is served, and an iterator with an item once it has left."""
    embedders: Mapping[str, str] = field(default_factory=dict)
    """`embedder.model`, or its beginning with a slash at its end → a function of that name, `EmbedderSettings` and the
    environment that returns an `Embedder` without connecting."""


def commands_in(module: str, table: str) -> dict[str, tuple[str, str, str]]:
    """Read a table for `Extension.commands`: `NAME | FUNCTION | USAGE | SENTENCE`, or the last indented below them."""
    rows = re.findall(r"^(\S[^|]*) \| (\S+) \| (.*)(?: \| |\n +)(.*)$", table, re.MULTILINE)
    return {name: (f"{module}{function}", usage, summary) for name, function, usage, summary in rows}


@cache
def extensions() -> tuple[Extension, ...]:
    """Return the installed extensions, ours first, then in the order of their names."""
    group = f"{__name__.partition('.')[0]}.extensions"
    points = sorted(entry_points(group=group), key=lambda one: (one.value[:6] != "kbhub.", one.name))
    return tuple(imported((point.value for point in points), Extension))


def imported(names: Iterable[str], kind: type[T]) -> list[T]:
    """Return what names stand for; what cannot be imported, or is of another type, is left out with a warning."""
    found = []
    for name in names:
        try:
            if not isinstance(one := load(name), kind):
                raise TypeError(f"it is no {kind.__name__}")
            found.append(one)
        except Exception as error:  # noqa: BLE001 - foreign code may raise anything, and must not stop kbhub
            log.warning("The extension %r cannot be loaded: %s. Update or uninstall it.", name, error)
    return found


@cache
def load(name: str) -> Any:
    """Import and return what a `module:name` stands for."""
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)


def engine_for(url: str) -> str | None:
    """Return what has the engine for a URL, by its scheme, or None if no installed extension does."""
    scheme = url.partition(":")[0].lower()
    return next((found for extension in extensions() if (found := extension.engines.get(scheme))), None)


def app_for(name: str) -> str | None:
    """Return what serves an app for a command, or None if no installed extension does."""
    return next((found for extension in extensions() if (found := extension.apps.get(name))), None)


def embedder_for(model: str) -> str | None:
    """Return what opens a model by its name in the settings, or None if no installed extension does."""
    kind = "".join(model.partition("/")[:2])
    return next((found for extension in extensions() if (found := extension.embedders.get(kind))), None)
