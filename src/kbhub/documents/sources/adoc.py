"""Scan AsciiDoc for its structure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kbhub.documents.sources.outline import Outline, Visible

if TYPE_CHECKING:
    from collections.abc import Sequence

_HEADING = re.compile(r"(={1,6}|#{1,6})[ \t]++(?=\S)")
_UNDERLINES = "=-~^+"
"""Characters that underline titles of level 1 to 5."""
_UNDERLINE = re.compile(r"([=~^+-])\1{1,}[ \t]*$")
_DELIMITER = re.compile(r"(?:-{4,}|\.{4,}|\+{4,}|/{4,}|`{3,}[\w+-]*|[|,:!]={3,})[ \t]*$")
_ATTRIBUTES = re.compile(r"\[[^\[\]\n]{0,500}+\][ \t]*$")
_ATTRIBUTE = re.compile(r":([\w][\w-]{0,100}):(?:[ \t]+(.*))?$")
_AUTHOR = re.compile(r"[^\W\d_][^\n<:]{0,200}(?:<[^<>]{1,200}>)?(?:;.*)?$")
_XREF = re.compile(r"(?:(xref|link|include):{1,2})([^\s\[\]]{1,1000}+)\[([^\]\n]{0,500}+)\]")
_DOUBLE = re.compile(r"<<([^\s<>,#\n][^<>,#\n]{0,500}+)#?([^<>,\n]{0,500}+)(?:,([^<>]{0,500}+))?>>")
_MARKUP = re.compile(r"(?<![\w`*_])(`\+|[`*_])(\S(?:[^`*_\n]*\S)?)(?:\+`|\1)(?![\w`*_])")
_MACRO = re.compile(r"(?:(?:xref|link):|https?://)[^\s\[\]]{1,1000}\[([^\]\n]{1,1000})\]|\[\[[^\[\]]{1,200}\]\]")


def scan_adoc(lines: Sequence[str], start: int) -> Outline:
    """Find the structure of AsciiDoc.

    Args:
        lines: the document's lines without line endings.
        start: index of the first line to scan.
    """
    outline = Outline()
    index = _head(outline, lines, start)
    after_blank = True
    while index < len(lines):
        line = lines[index]
        if not line.strip():
            after_blank = True
            index += 1
            continue
        next_index = _visit(outline, lines, index, after_blank)
        # Anchors, attributes and titles of blocks come right before a section.
        after_blank = next_index > index + 1 or bool(_ATTRIBUTES.match(line)) or bool(_HEADING.match(line))
        index = next_index
    _find_links(outline, lines)
    return outline


def _head(outline: Outline, lines: Sequence[str], index: int) -> int:
    """Read title, author and attributes at the top; return the index of the first line after them."""
    while index < len(lines) and (
        not lines[index].strip() or lines[index].startswith("//") or _ATTRIBUTE.match(lines[index])
    ):
        block = lines[index].startswith("////") and _DELIMITER.match(lines[index])
        index = _visit(outline, lines, index, after_blank=False) if block else _attribute(outline, lines, index)
    if index >= len(lines) or not lines[index].startswith("= "):
        return index
    outline.add_heading(1, _title_of(lines[index], "="), index + 1)
    index += 1
    if index < len(lines) and _AUTHOR.match(lines[index]) and len(lines[index].split()) < 20:
        outline.add_value("author", lines[index].partition("<")[0])
        index += 1
    while index < len(lines) and lines[index].strip():
        index = _attribute(outline, lines, index)
    return index


def _attribute(outline: Outline, lines: Sequence[str], index: int) -> int:
    """Record the attribute at a line, if it is one; return the index after it."""
    match = _ATTRIBUTE.match(lines[index])
    if match is None:
        return index + 1
    parts = [match[2] or ""]
    index += 1
    while parts[-1].rstrip().endswith(" \\") and index < len(lines):
        parts[-1] = parts[-1].rstrip()[:-1]
        parts.append(lines[index])
        index += 1
    if match[1].lower() != "title":  # that of a block
        outline.add_value(match[1], " ".join(parts))
    return index


def _visit(outline: Outline, lines: Sequence[str], index: int, after_blank: bool) -> int:
    """Record what starts at a line, and return the index of the next line to visit."""
    line = lines[index]
    if line[0] in "=#" and (match := _HEADING.match(line)):
        outline.add_heading(len(match[1]), _title_of(line, match[1]), index + 1)
        return index + 1
    if after_blank and (level := _underlined(lines, index)):
        outline.add_heading(level, _title_of(line, ""), index + 1)
        return index + 2
    if line.startswith("//") and not line.startswith("////"):
        outline.comments.append((index + 1, index + 1))
        return index + 1
    if _ATTRIBUTE.match(line):
        return _attribute(outline, lines, index) if not outline.fences and not outline.tables else index + 1
    if not _DELIMITER.match(line):
        return index + 1
    mark = line.rstrip()
    closing = "`" * len(re.match("`*", mark)[0]) if mark[0] == "`" else mark  # type: ignore[index]
    end = index + 1
    while end < len(lines) and lines[end].rstrip() != closing:
        end += 1
    last = min(end + 1, len(lines))
    spans = outline.tables if mark.endswith("=") else outline.comments if mark[0] == "/" else outline.fences
    above = index > 0 and mark[0] not in "/|,:!" and _ATTRIBUTES.match(lines[index - 1]) is not None
    spans.append((index if above else index + 1, last))
    return last


def _underlined(lines: Sequence[str], index: int) -> int:
    """Return the level of a title with a line below it, or 0 if it is none."""
    line = lines[index].rstrip()
    if index + 1 >= len(lines) or not (line[0].isalnum() or line[0] in "`_*'\"¿¡"):
        return 0
    below = lines[index + 1].rstrip()
    match = _UNDERLINE.match(below)
    if match is None or abs(len(below) - len(line)) > 1 or len(line) > 1000:
        return 0
    return _UNDERLINES.index(match[1]) + 1


def _find_links(outline: Outline, lines: Sequence[str]) -> None:
    visible = Visible(lines, [*outline.fences, *outline.comments])
    for match, line in visible.matches(_XREF) if "[" in visible.text else ():
        target, _, fragment = match[2].partition("#")
        if match[1] == "xref":
            if "." not in target.rpartition("/")[2]:
                if "#" not in match[2]:
                    continue  # an anchor of the same document
                target += ".adoc" if target else ""
        elif "{" in target or target.startswith("++"):
            continue
        if target:
            outline.add_link(target, fragment, match[3].rstrip("^"), line)
    for match, line in visible.matches(_DOUBLE) if "<<" in visible.text else ():
        target, fragment = match[1], match[2]
        if "#" in match[0] or target.endswith((".adoc", ".asciidoc")):
            named = "." in target.rpartition("/")[2]
            outline.add_link(target if named else f"{target}.adoc", fragment, match[3] or target, line)
    outline.links.sort(key=lambda link: link.line)


def _title_of(line: str, marks: str) -> str:
    """Return a title without its marks and the markup of links, code and emphasis."""
    text = line[len(marks) :].strip()
    if marks and text.endswith((f" {marks}", f"\t{marks}")):
        text = text[: -len(marks)].rstrip()
    return _MARKUP.sub(r"\2", _MACRO.sub(lambda match: match[1] or "", text[:2000]))
