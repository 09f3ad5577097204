"""What a line scan of a text format finds: the same parts of a document as the parser of Markdown finds."""

from __future__ import annotations

import re
import shlex
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from urllib.parse import unquote

from kbhub.documents.links import starts_of
from kbhub.documents.markdown import Outline


class Visible:
    """The text of a document outside of the spans `hidden` (code, comments), on the same lines."""

    def __init__(self, lines: Sequence[str], hidden: Sequence[tuple[int, int]]) -> None:
        shown = list(lines)
        for first, last in hidden:
            shown[first - 1 : last] = [""] * (last - first + 1)
        self.text = "\n".join(shown)
        self._starts = starts_of(shown)

    def matches(self, pattern: re.Pattern[str]) -> Iterator[tuple[re.Match[str], int]]:
        """Yield the matches of a pattern, each with its line."""
        for match in pattern.finditer(self.text):
            yield match, bisect_right(self._starts, match.start())


def indent_of(line: str) -> int:
    """Return the columns of white space at the start of a line."""
    blank = line[: len(line) - len(line.lstrip(" \t"))]
    return len(blank.expandtabs(8))


def block_end(lines: Sequence[str], index: int, indent: int) -> int:
    """Return the index after the block indented by more than `indent` below a line, without blank lines at its end."""
    end = place = index + 1
    while place < len(lines):
        if lines[place].strip():
            if indent_of(lines[place]) <= indent:
                break
            end = place + 1
        place += 1
    return end


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
_ADOC_MARKUP = re.compile(r"(?<![\w`*_])(`\+|[`*_]{1,2})(\S(?:[^`*_\n]*\S)?)(?:\+`|\1)(?![\w`*_])")
_MACRO = re.compile(r"(?:(?:xref|link):|https?://)[^\s\[\]]{1,1000}\[([^\]\n]{1,1000})\]|\[\[[^\[\]]{1,200}\]\]")


def scan_adoc(lines: Sequence[str], start: int) -> Outline:
    """Find the structure of AsciiDoc from the line with index `start`."""
    outline = Outline()
    index = _adoc_head(outline, lines, start)
    after_blank = True
    while index < len(lines):
        line = lines[index]
        if not line.strip():
            after_blank = True
            index += 1
            continue
        next_index = _visit_adoc(outline, lines, index, after_blank)
        # Anchors, attributes and titles of blocks come right before a section.
        after_blank = next_index > index + 1 or bool(_ATTRIBUTES.match(line)) or bool(_HEADING.match(line))
        index = next_index
    visible = Visible(lines, [*outline.fences, *outline.raw])
    for match, at in visible.matches(_XREF) if "[" in visible.text else ():
        target, _, fragment = match[2].partition("#")
        if match[1] == "xref":
            if "." not in target.rpartition("/")[2]:
                if "#" not in match[2]:
                    continue  # an anchor of the same document
                target += ".adoc" if target else ""
        elif "{" in target or target.startswith("++"):
            continue
        if target:
            outline.add_link(target, fragment, match[3].rstrip("^"), at)
    for match, at in visible.matches(_DOUBLE) if "<<" in visible.text else ():
        target, fragment = match[1], match[2]
        if "#" in match[0] or target.endswith((".adoc", ".asciidoc")):
            named = "." in target.rpartition("/")[2]
            outline.add_link(target if named else f"{target}.adoc", fragment, match[3] or target, at)
    outline.links.sort(key=lambda link: link.line)
    return outline


def _adoc_head(outline: Outline, lines: Sequence[str], index: int) -> int:
    """Read title, author and attributes at the top; return the index of the first line after them."""
    while index < len(lines) and (
        not lines[index].strip() or lines[index].startswith("//") or _ATTRIBUTE.match(lines[index])
    ):
        block = lines[index].startswith("////") and _DELIMITER.match(lines[index])
        index = _visit_adoc(outline, lines, index, after_blank=False) if block else _attribute(outline, lines, index)
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


def _visit_adoc(outline: Outline, lines: Sequence[str], index: int, after_blank: bool) -> int:
    """Record what starts at a line, and return the index of the next line to visit."""
    line = lines[index]
    if line[0] in "=#" and (match := _HEADING.match(line)):
        outline.add_heading(len(match[1]), _title_of(line, match[1]), index + 1)
        return index + 1
    if after_blank and (level := _underlined(lines, index)):
        outline.add_heading(level, _title_of(line, ""), index + 1)
        return index + 2
    if line.startswith("//") and not line.startswith("////"):
        outline.raw.append((index + 1, index + 1))
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
    spans = outline.tables if mark.endswith("=") else outline.raw if mark[0] == "/" else outline.fences
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


def _title_of(line: str, marks: str) -> str:
    """Return a title without its marks and the markup of links, code and emphasis."""
    text = line[len(marks) :].strip()
    if marks and text.endswith((f" {marks}", f"\t{marks}")):
        text = text[: -len(marks)].rstrip()
    return _ADOC_MARKUP.sub(r"\2", _MACRO.sub(lambda match: match[1] or "", text[:2000]))


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
_ORG_MARKUP = re.compile(r"(?<![\w*=~])([*=~])(\S(?:[^*=~\n]*\S)?)\1(?![\w*=~])")


def scan_org(lines: Sequence[str], start: int) -> Outline:
    """Find the structure of an Org file from the line with index `start`."""
    outline = Outline()
    index = _org_head(outline, lines, start)
    outline.body = index if index > start else 0
    without_end: dict[str, int] = {}
    while index < len(lines):
        index = _visit_org(outline, lines, index, without_end)
    visible = Visible(lines, [*outline.fences, *outline.raw])
    for match, line in visible.matches(_LINK) if "[[" in visible.text else ():
        destination, text = match[1], match[2] or ""
        is_file = destination.startswith(("file:", "./", "../", "/"))
        if not is_file and (_SCHEME.match(destination) or destination[0] in "*#(" or "." not in destination):
            continue
        target, _, place = destination.removeprefix("file:").partition("::")
        fragment = place.lstrip("*#").strip() if place[:1] in ("*", "#") else ""
        outline.add_link(unquote(target), fragment, text or target, line)
    return outline


def _org_head(outline: Outline, lines: Sequence[str], index: int) -> int:
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


def _visit_org(outline: Outline, lines: Sequence[str], index: int, without_end: dict[str, int]) -> int:
    """Record what starts at a line, and return the next to visit; no block of a name ends before its `without_end`."""
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
        name, end = match[1].lower(), index + 1
        if name not in _CODE or index < without_end.get(name, 0):
            return index + 1
        # A headline ends it, as in Org, and then it is text.
        while end < len(lines) and not _HEADLINE.match(lines[end]):
            closing = _END.match(lines[end])
            if closing and closing[1].lower() == name:
                outline.fences.append((index + 1, end + 1))
                return end + 1
            end += 1
        without_end[name] = end
        return index + 1
    if first == "#" and (match := _KEYWORD.match(line)):
        _take_keyword(outline, match)
        return index + 1
    for pattern, spans in ((_FIXED, outline.fences), (_COMMENT, outline.raw), (_ROW, outline.tables)):
        if pattern.match(line):
            end = index + 1
            while end < len(lines) and pattern.match(lines[end]):
                end += 1
            spans.append((index + 1, end))
            return end
    return index + 1


def _plain(text: str) -> str:
    """Return a heading without the markup of links, code and emphasis."""
    return _ORG_MARKUP.sub(r"\2", _LINK.sub(lambda match: match[2] or match[1], text[:2000]))


def _quoted(text: str) -> list[str]:
    """Return names separated by spaces; those with spaces stand in quotes."""
    try:
        return shlex.split(text[:2000])
    except ValueError:  # a quote is not closed
        return [text.strip()]
