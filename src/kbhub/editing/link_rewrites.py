"""Rewriting the links of a document so that they still work after another document was renamed.

Only the destination of a link is replaced; its text, title, heading and brackets stay. The result is parsed again, and
a link that would be read as something else is left alone and reported.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import unquote

from kbhub.documents.edits import front_matter_of, with_texts
from kbhub.documents.links import EXTERNAL, EXTERNAL_NAME
from kbhub.documents.markdown import scan_blocks
from kbhub.documents.sources.text_formats import parse_text
from kbhub.editing.checks import RELATED, plain_entry, related_of
from kbhub.editing.sections import front_end
from kbhub.reading.graph.targets import PATH_KINDS
from kbhub.values import struct
from kbhub.workspace.formats import is_markdown

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kbhub.documents.edits import Text
    from kbhub.reading.graph.targets import LinkKind

Rewrite = Callable[[str, "LinkKind"], str | None]
"""Maps (target, kind) to the new target, None to leave it, or "" if it must change but no spelling works. Targets are
decoded and without fragment.
"""

MOST_PLACES = 10
"""Limit of links named in a message about those that could not be rewritten."""

_CODE = re.compile(r"(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)")
_INLINE = re.compile(r"\]\(\s*(<[^<>]*>|[^\s()<>\\]*(?:\([^\s()]*\)[^\s()<>\\]*)*)")
_DEFINITION = re.compile(r"^[ \t>]*\[(?!\^)[^\]]+\]:[ \t]*(<[^<>]+>|[^\s<]\S*)")
_WIKILINK = re.compile(r"(!?)\[\[([^\[\]|#\\]+)(?=[^\[\]]*\]\])")
_ENCODED = {code: f"%{code:02X}" for code in (*range(0x21), 0x7F, *map(ord, "()<>[]\\%#?:`"))}
"""Characters that must be encoded in a destination without angle brackets."""
_MEANT = frozenset("<>[]\\%#?:`\n")
"""Characters that have a meaning even between angle brackets."""
_ENCODED_NAME = {ord(character): f"%{ord(character):02X}" for character in "[]|#\\%`"}
"""Characters that have a meaning between double brackets."""

_Links = list[tuple["LinkKind", str, str, "int | None"]]
"""(kind, fragment, target, line) of links; the line of entries of `related` is None."""


@struct
class Rewritten:
    """A link whose destination was replaced."""

    line: int | None
    """From 1; None for an entry of `related`."""
    before: str
    after: str


def relink(ref: str, text: Text, rewrite: Rewrite) -> tuple[Text, list[Rewritten], list[int | None]]:
    """Rewrite the links of a document, whose suffix tells its format, by a function that returns a link's new target.

    Returns:
        The text, the links that were replaced, and the lines of those that should have been (None for an entry of
        `related`).

    Raises:
        WriteRefused: `related` has to change, but the front matter cannot be edited.
    """
    before = _links_in(ref, text)
    targets = [rewrite(target, kind) for kind, _, target, _ in before]
    replaced: list[Rewritten] = []
    new = _relinked(ref, text, rewrite, replaced) if is_markdown(ref) else text
    after = _links_in(ref, new) if replaced else before
    if not _only_targets_differ(before, after, targets):
        new, replaced, after = text, [], before
    missed = [
        line for expected, (_, _, actual, line) in zip(targets, after, strict=True) if expected not in (None, actual)
    ]
    return new, replaced, missed


def not_updated(lines: Iterable[int | None]) -> str:
    """Return a message about links that could not be rewritten, given their lines from `relink`."""
    places = [f"line {line}" if line else "`related`" for line in dict.fromkeys(lines)]
    more = f", {len(places) - MOST_PLACES} more" if len(places) > MOST_PLACES else ""
    where = ", ".join(places[:MOST_PLACES]) + more
    return f"Not every link could be updated to lead to its document ({where}); fix those by hand."


def _links_in(ref: str, text: Text) -> _Links:
    document = parse_text(ref, text.encoded())
    related: _Links = [(RELATED, "", target, None) for target in related_of(document.front_matter)]
    return [*((link.kind, link.fragment, link.target, link.line) for link in document.links), *related]


def _only_targets_differ(before: _Links, after: _Links, targets: list[str | None]) -> bool:
    """Return whether the same links are left, each with its old or its new target."""
    return len(before) == len(after) and all(
        new[:2] == old[:2] and new[2] in (old[2], target)
        for old, new, target in zip(before, after, targets, strict=True)
    )


def _relinked(ref: str, text: Text, rewrite: Rewrite, replaced: list[Rewritten]) -> Text:
    bare = text.bare
    start = front_end(text)
    blocks = scan_blocks(bare, start, 0)
    hidden = {line for first, last in (*blocks.fences, *blocks.raw) for line in range(first - 1, last)}
    lines = list(text.lines)
    for index in range(start, len(lines)):
        if index not in hidden and ("](" in lines[index] or "[[" in lines[index] or "]:" in lines[index]):
            changed = _relinked_line(bare[index], index + 1, rewrite, replaced)
            lines[index] = changed + lines[index][len(bare[index]) :]
    text = text.replaced(0, len(lines), lines)
    return _relinked_related(ref, text, rewrite, replaced)


def spelling(target: str, kind: LinkKind, source: str, path: str) -> list[str]:
    """Return the ways to write a link from a source to a path, the most similar to its present target first."""
    bare = path
    if not is_markdown(target) and is_markdown(path):
        bare = path.rpartition(".")[0]
    relative = posixpath.relpath(bare, posixpath.dirname(source) or ".")
    if target.startswith("./") and not relative.startswith("../"):
        relative = f"./{relative}"
    if target.startswith("/"):
        return [f"/{bare}"]
    if kind in PATH_KINDS:
        return [relative]
    short = [bare.rsplit("/", 1)[-1]] if "/" not in target and kind != RELATED else []
    return [*short, bare, relative]


def _relinked_line(line: str, number: int, rewrite: Rewrite, replaced: list[Rewritten]) -> str:
    masked = _CODE.sub(lambda match: "x" * len(match[0]), line)
    edits: list[tuple[int, int, str]] = []
    forms: tuple[tuple[re.Pattern[str], LinkKind], ...] = ((_INLINE, "markdown"), (_DEFINITION, "reference"))
    for pattern, kind in forms:
        for match in pattern.finditer(masked):
            written = line[match.start(1) : match.end(1)]
            if (new := _new_destination(written, kind, rewrite)) is not None:
                edits.append((match.start(1), match.end(1), new))
    for match in _WIKILINK.finditer(masked):
        name = match[2].strip()
        new_name = None if EXTERNAL_NAME.match(name) else rewrite(unquote(name), "embed" if match[1] else "wikilink")
        if new_name:
            plain = unquote(new_name) == new_name and not set("[]|#\\`") & set(new_name)
            at = match.start(2) + match[2].index(name)
            edits.append((at, at + len(name), new_name if plain else new_name.translate(_ENCODED_NAME)))
    for first, last, new in sorted(edits, reverse=True):
        replaced.append(Rewritten(number, line[first:last], new))
        line = line[:first] + new + line[last:]
    return line


def _new_destination(destination: str, kind: LinkKind, rewrite: Rewrite) -> str | None:
    angled = destination.startswith("<")
    inside = destination[1:-1] if angled else destination
    path, mark, rest = inside.partition("#")
    path, query, more = path.partition("?")
    if not path or EXTERNAL.match(inside):
        return None
    new = rewrite(unquote(path), kind)
    if not new:
        return None
    plain = angled and not _MEANT & set(new)
    new = (new if plain else new.translate(_ENCODED)) + query + more + mark + rest
    return f"<{new}>" if angled else new


def _relinked_related(ref: str, text: Text, rewrite: Rewrite, replaced: list[Rewritten]) -> Text:
    front = front_matter_of(text)
    key = next((key for key in front.values if key.strip().casefold() == RELATED), None)
    if key is None:
        return text
    value = front.values[key]
    entries = value if isinstance(value, list) else [value]
    new = []
    for entry in entries:
        plain = plain_entry(entry) if isinstance(entry, str) else ""
        target = rewrite(plain, RELATED) if plain else None
        after = entry.replace(plain, target, 1) if target else entry
        # Nothing can be encoded here: skip what would be read as a heading or a label.
        new.append(after if after == entry or plain_entry(after) == target else entry)
        if new[-1] != entry:
            replaced.append(Rewritten(None, entry, new[-1]))
    if new == entries:
        return text
    changes = {old: after for old, after in zip(entries, new, strict=True) if isinstance(old, str)}
    return with_texts(ref, text, key, changes)
