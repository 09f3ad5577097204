"""Rewrite the links of a document such that they lead where they led before another document was renamed.

Only the destination of a link is replaced: its text, title, heading, brackets and everything around stay. The result
is read again as every reader reads it, and a link that would be read as something else is left as it was and told.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import unquote

from kbhub.blocks import scan_blocks
from kbhub.document_names import MARKDOWN_SUFFIXES
from kbhub.editing.incoming import RELATED, plain_entry, related_of
from kbhub.editing.sections import front_end
from kbhub.front_matter_editing import front_matter_of, with_texts
from kbhub.graph.resolving import PATH_KINDS
from kbhub.links import EXTERNAL, EXTERNAL_NAME
from kbhub.markdown import parse_document
from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kbhub.graph.resolving import LinkKind
    from kbhub.text_editing import Text

Rewrite = Callable[[str, "LinkKind"], str | None]
"""(target, kind) → the target to write instead, none to leave it, an empty one if it has to be another and no form
leads there. All are decoded and without fragment."""

MOST_PLACES = 10
"""Places of links that could not be rewritten which a message names."""

_CODE = re.compile(r"(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)")
_INLINE = re.compile(r"\]\(\s*(<[^<>]*>|[^\s()<>\\]*(?:\([^\s()]*\)[^\s()<>\\]*)*)")
_DEFINITION = re.compile(r"^[ \t>]*\[(?!\^)[^\]]+\]:[ \t]*(<[^<>]+>|[^\s<]\S*)")
_WIKILINK = re.compile(r"(!?)\[\[([^\[\]|#\\]+)(?=[^\[\]]*\]\])")
_ENCODED = {code: f"%{code:02X}" for code in (*range(0x21), 0x7F, *map(ord, "()<>[]\\%#?:`"))}
"""Characters that a destination without angle brackets does not take as they are."""
_MEANT = frozenset("<>[]\\%#?:`\n")
"""Those that mean something between angle brackets too."""
_ENCODED_NAME = {ord(character): f"%{ord(character):02X}" for character in "[]|#\\%`"}
"""Characters that mean something between double brackets."""

_Links = list[tuple["LinkKind", str, str, "int | None"]]
"""(kind, fragment, target, line) of links, entries of `related` without line."""


@struct
class Rewritten:
    """One link whose destination was replaced."""

    line: int | None
    """From 1; none for an entry of `related`."""
    before: str
    after: str


def relink(ref: str, text: Text, rewrite: Rewrite) -> tuple[Text, list[Rewritten], list[int | None]]:
    """Rewrite the links of a document.

    Args:
        ref: the document, whose ending says how it is read.
        text: its text.
        rewrite: says what to write instead of a target.

    Returns:
        The text, what was replaced in it, and the lines of the links that should be others and are not (none for an
        entry of `related`).

    Raises:
        WriteRefused: `related` is to be changed and the front matter cannot be.
    """
    before = _links_in(ref, text)
    wanted = [rewrite(target, kind) for kind, _, target, _ in before]
    done: list[Rewritten] = []
    new = _relinked(ref, text, rewrite, done)
    after = _links_in(ref, new) if done else before
    if not _only_targets_differ(before, after, wanted):
        new, done, after = text, [], before
    missed = [line for want, (_, _, now, line) in zip(wanted, after, strict=True) if want not in (None, now)]
    return new, done, missed


def unmended(lines: Iterable[int | None]) -> str:
    """Say that links could not be rewritten, by their lines as `relink` gives them."""
    places = [f"line {line}" if line else "`related`" for line in dict.fromkeys(lines)]
    more = f", {len(places) - MOST_PLACES} more" if len(places) > MOST_PLACES else ""
    where = ", ".join(places[:MOST_PLACES]) + more
    return f"Not every link could be rewritten so that it leads to its document ({where}); mend those by hand."


def _links_in(ref: str, text: Text) -> _Links:
    document = parse_document(ref, text.encoded())
    related: _Links = [(RELATED, "", target, None) for target in related_of(document.front_matter)]
    return [*((link.kind, link.fragment, link.target, link.line) for link in document.links), *related]


def _only_targets_differ(before: _Links, after: _Links, wanted: list[str | None]) -> bool:
    """Say whether the same links are there, each with the target that it had or should have."""
    return len(before) == len(after) and all(
        (now[0], now[1]) == (then[0], then[1]) and now[2] in (then[2], want)
        for then, now, want in zip(before, after, wanted, strict=True)
    )


def _relinked(ref: str, text: Text, rewrite: Rewrite, done: list[Rewritten]) -> Text:
    bare = text.bare
    start = front_end(text)
    blocks = scan_blocks(bare, start, 0)
    hidden = {line for first, last in (*blocks.fences, *blocks.raw) for line in range(first - 1, last)}
    lines = list(text.lines)
    for index in range(start, len(lines)):
        if index not in hidden and ("](" in lines[index] or "[[" in lines[index] or "]:" in lines[index]):
            changed = _relinked_line(bare[index], index + 1, rewrite, done)
            lines[index] = changed + lines[index][len(bare[index]) :]
    text = text.replaced(0, len(lines), lines)
    return _relinked_related(ref, text, rewrite, done)


def spelling(target: str, kind: LinkKind, source: str, path: str) -> list[str]:
    """Give the ways to write a link to a document, the one most like the old first.

    Args:
        target: how it is written now.
        kind: its kind.
        source: path of the document that holds the link.
        path: path of the document, or of another file, that it is to lead to.
    """
    bare = path
    if not target.lower().endswith(MARKDOWN_SUFFIXES) and path.lower().endswith(MARKDOWN_SUFFIXES):
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


def _relinked_line(line: str, number: int, rewrite: Rewrite, done: list[Rewritten]) -> str:
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
        done.append(Rewritten(number, line[first:last], new))
        line = line[:first] + new + line[last:]
    return line


def _new_destination(written: str, kind: LinkKind, rewrite: Rewrite) -> str | None:
    angled = written.startswith("<")
    inside = written[1:-1] if angled else written
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


def _relinked_related(ref: str, text: Text, rewrite: Rewrite, done: list[Rewritten]) -> Text:
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
        # Nothing can be encoded here: what would be taken for a heading or a text is left.
        new.append(after if after == entry or plain_entry(after) == target else entry)
        if new[-1] != entry:
            done.append(Rewritten(None, entry, new[-1]))
    if new == entries:
        return text
    changes = {old: after for old, after in zip(entries, new, strict=True) if isinstance(old, str)}
    return with_texts(ref, text, key, changes)
