"""Scan Org files for their structure."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING
from urllib.parse import unquote

from kbhub.documents.sources.outline import Outline, Visible

if TYPE_CHECKING:
    from collections.abc import Sequence

_HEADLINE = re.compile(r"(\*+)\s+(.*)$")
_STATE = re.compile(
    r"(?:(?:TODO|NEXT|WAIT(?:ING)?|HOLD|STARTED|DONE|CANCELL?ED)\s+)?(?:\[#[A-Z0-9]\]\s*)?(?:COMMENT\s+)?"
)
_TAGS = re.compile(r"(?:^|\s)((?::[\w@#%]{1,100})+:)\s*$")
_KEYWORD = re.compile(r"\s*#\+(\w[\w-]{0,60}):\s*(.*)$")
_BEGIN = re.compile(r"\s*#\+begin_(\S{1,60})", re.IGNORECASE)
_END = re.compile(r"\s*#\+end_(\S{1,60})", re.IGNORECASE)
_PROPERTY = re.compile(r"\s*:([\w-]{1,100}):(?:\s+(.*))?$")
_FIXED = re.compile(r"\s*:(?:\s|$)")
_ROW = re.compile(r"\s*\|")
_COMMENT = re.compile(r"\s*#(?:\s|$)")
_CODE = frozenset(("src", "example", "export", "comment"))
_METADATA = frozenset(("author", "date", "description", "keywords", "subtitle", "language", "email", "category"))
_LINK = re.compile(r"\[\[([^\[\]\n]{1,1000}+)\](?:\[([^\[\]]{1,1000}+)\])?\]")
_SCHEME = re.compile(r"[A-Za-z][\w+.-]+:")
_MARKUP = re.compile(r"(?<![\w*=~])([*=~])(\S(?:[^*=~\n]*\S)?)\1(?![\w*=~])")


def scan_org(lines: Sequence[str], start: int) -> Outline:
    """Find the structure of an Org file.

    Args:
        lines: the document's lines without line endings.
        start: index of the first line to scan.
    """
    outline = Outline()
    index = _head(outline, lines, start)
    outline.body = index if index > start else 0
    without_end: dict[str, int] = {}
    while index < len(lines):
        index = _visit(outline, lines, index, without_end)
    _find_links(outline, lines)
    return outline


def _head(outline: Outline, lines: Sequence[str], index: int) -> int:
    """Read the drawer and the keywords at the top; return the index of the first line after them."""
    end = index
    if index < len(lines) and lines[index].strip().upper() == ":PROPERTIES:":
        while index + 1 < len(lines) and (match := _PROPERTY.match(lines[index + 1])):
            index += 1
            if match[1].upper() == "END":
                end = index = index + 1
                break
            if match[1].upper() == "ROAM_ALIASES":
                outline.aliases += _quoted(match[2] or "")
        index = end
    while index < len(lines):
        line = lines[index]
        if match := _KEYWORD.match(line):
            _take_keyword(outline, match)
            end = index + 1
        elif line.strip() and not _COMMENT.match(line):
            break
        index += 1
    return end


def _take_keyword(outline: Outline, match: re.Match[str]) -> None:
    name, value = match[1].lower(), match[2]
    if name == "filetags":
        outline.add_tags(value.split(":") if ":" in value else value.split())
    elif name == "title":
        outline.add_value("title", _plain(value))
    elif name in _METADATA:
        outline.add_value(name, value)


def _visit(outline: Outline, lines: Sequence[str], index: int, without_end: dict[str, int]) -> int:
    """Record what starts at a line, and return the index of the next line to visit.

    Args:
        outline: where it is recorded.
        lines: the document.
        index: of the line.
        without_end: name of a block → index up to which no such block ends.
    """
    line = lines[index]
    first = line.lstrip()[:1]
    if first not in ("*", "#", "|", ":"):
        return index + 1
    if line[0] == "*" and (match := _HEADLINE.match(line)):
        text = match[2]
        if tags := _TAGS.search(text):
            outline.add_tags(tags[1].split(":"))
            text = text[: tags.start()]
        text = text[_STATE.match(text).end() :]  # type: ignore[union-attr]  # it also matches nothing
        outline.add_heading(len(match[1]), _plain(text), index + 1)
        return index + 1
    if first == "#" and (match := _BEGIN.match(line)):
        return _block(outline, lines, index, match[1].lower(), without_end)
    if first == "#" and (match := _KEYWORD.match(line)):
        _take_keyword(outline, match)
        return index + 1
    for pattern, spans in ((_FIXED, outline.fences), (_COMMENT, outline.comments), (_ROW, outline.tables)):
        if pattern.match(line):
            end = index + 1
            while end < len(lines) and pattern.match(lines[end]):
                end += 1
            spans.append((index + 1, end))
            return end
    return index + 1


def _block(outline: Outline, lines: Sequence[str], index: int, name: str, without_end: dict[str, int]) -> int:
    """Record a code block; a headline ends it, as in Org, and then it is text."""
    if name not in _CODE or index < without_end.get(name, 0):
        return index + 1
    end = index + 1
    while end < len(lines) and not _HEADLINE.match(lines[end]):
        match = _END.match(lines[end])
        if match and match[1].lower() == name:
            outline.fences.append((index + 1, end + 1))
            return end + 1
        end += 1
    without_end[name] = end
    return index + 1


def _find_links(outline: Outline, lines: Sequence[str]) -> None:
    visible = Visible(lines, [*outline.fences, *outline.comments])
    for match, line in visible.matches(_LINK) if "[[" in visible.text else ():
        destination, text = match[1], match[2] or ""
        is_file = destination.startswith(("file:", "./", "../", "/"))
        if not is_file and (_SCHEME.match(destination) or destination[0] in "*#(" or "." not in destination):
            continue
        target, _, place = destination.removeprefix("file:").partition("::")
        fragment = place.lstrip("*#").strip() if place[:1] in ("*", "#") else ""
        outline.add_link(unquote(target), fragment, text or target, line)


def _plain(text: str) -> str:
    """Return a heading without the markup of links, code and emphasis."""
    return _MARKUP.sub(r"\2", _LINK.sub(lambda match: match[2] or match[1], text[:2000]))


def _quoted(text: str) -> list[str]:
    """Return names separated by spaces; those with spaces stand in quotes."""
    try:
        return shlex.split(text[:2000])
    except ValueError:  # a quote is not closed
        return [text.strip()]
