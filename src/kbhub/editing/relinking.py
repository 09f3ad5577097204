"""Rewrite the links of a document such that they lead where they led before another document was renamed.

Only the destination of a link is replaced: its text, title, heading, brackets and everything around stay.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import unquote

from kbhub.blocks import scan_blocks
from kbhub.document_names import MARKDOWN_SUFFIXES
from kbhub.editing.incoming import RELATED, plain_entry
from kbhub.editing.sections import front_end
from kbhub.front_matter_editing import front_matter_of, with_texts
from kbhub.graph.resolving import PATH_KINDS
from kbhub.values import struct

if TYPE_CHECKING:
    from kbhub.graph.resolving import LinkKind
    from kbhub.text_editing import Text

Rewrite = Callable[[str, "LinkKind"], str | None]
"""(target, kind) → the target to write instead, none to leave it. Both are decoded and without fragment."""

_CODE = re.compile(r"(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)")
_INLINE = re.compile(r"\]\(\s*(<[^<>]*>|[^\s()<>\\]*(?:\([^\s()]*\)[^\s()<>\\]*)*)")
_DEFINITION = re.compile(r"^[ \t>]*\[(?!\^)[^\]]+\]:[ \t]*(<[^<>]+>|[^\s<]\S*)")
_WIKILINK = re.compile(r"(!?)\[\[([^\[\]|#\\]+)(?=[^\[\]]*\]\])")
_EXTERNAL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:|//")
_ENCODED = {code: f"%{code:02X}" for code in (*range(0x21), 0x7F, *map(ord, "()<>\\%#?"))}
"""Characters that a destination without angle brackets does not take as they are."""


@struct
class Rewritten:
    """One link whose destination was replaced."""

    line: int | None
    """From 1; none for an entry of `related`."""
    before: str
    after: str


def relink(ref: str, text: Text, rewrite: Rewrite) -> tuple[Text, list[Rewritten]]:
    """Rewrite the links of a document.

    Args:
        ref: the document, for messages.
        text: its text.
        rewrite: says what to write instead of a target.

    Raises:
        WriteRefused: `related` is to be changed and the front matter cannot be.
    """
    done: list[Rewritten] = []
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
    return _relinked_related(ref, text, rewrite, done), done


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
        new_name = None if _EXTERNAL.match(name) else rewrite(unquote(name), "embed" if match[1] else "wikilink")
        if new_name is not None and not set("[]|#\\") & set(new_name):
            at = match.start(2) + match[2].index(name)
            edits.append((at, at + len(name), new_name))
    for first, last, new in sorted(edits, reverse=True):
        done.append(Rewritten(number, line[first:last], new))
        line = line[:first] + new + line[last:]
    return line


def _new_destination(written: str, kind: LinkKind, rewrite: Rewrite) -> str | None:
    angled = written.startswith("<")
    inside = written[1:-1] if angled else written
    path, mark, rest = inside.partition("#")
    path, query, more = path.partition("?")
    if not path or _EXTERNAL.match(inside):
        return None
    new = rewrite(unquote(path), kind)
    if new is None:
        return None
    plain = angled and not set("<>%#?\n") & set(new)
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
        new.append(entry if target is None else entry.replace(plain, target, 1))
        if target is not None:
            done.append(Rewritten(None, entry, new[-1]))
    if new == entries:
        return text
    changes = {old: after for old, after in zip(entries, new, strict=True) if isinstance(old, str)}
    return with_texts(ref, text, key, changes)
