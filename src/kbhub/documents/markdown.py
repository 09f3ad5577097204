"""The parser of a file's bytes into a `Document`, which never fails or loses text.

Files that are not Markdown by their name are plain text: one title, no structure.
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from pathlib import PurePosixPath
from typing import Any

from kbhub.documents.frontmatter import FrontMatter, read_front_matter
from kbhub.documents.links import EXTERNAL, MAX_LINK_TEXT, InlineTag, extract_links, inline_tags, joined_tags
from kbhub.documents.shown_text import CODE_INDENT, MAX_HEADING_CHARS, atx_text, heading_text
from kbhub.types import Document, Heading, Link
from kbhub.values import struct
from kbhub.workspace.formats import file_title, is_markdown

TAB_COLUMNS = 4
"""Columns of a tab stop (CommonMark 2.2)."""
MAX_SETEXT_LINES = 3
"""Lines of the longest paragraph that an underline turns into a heading; below a longer one it is a rule."""
MAX_NESTED_MARKERS = 16
"""List and quote markers read on one line; real documents have fewer, and more would make long lines slow."""
MAX_UNDERLINE_DISTANCE = MAX_SETEXT_LINES + 1

_STARTERS = frozenset("#`~<>=-_*+|:!?0123456789")
_ATX = re.compile(r"(#{1,6})(?:[ \t]|$)")
# Headings of Markdown and AsciiDoc, and of Org.
_ONE_LINE = re.compile(r" *(?:#{1,6}|={1,6})(?:[ \t]|$)|\*+[ \t]")
_ADORNMENT = re.compile(r"([^\w\s])\1{2,}$")
_UNDERLINE = re.compile(r" {0,3}(?:=+|-+)[ \t]*$")
_FENCE = re.compile(r"(`{3,})[^`]*$|(~{3,})")
_FENCE_END = re.compile(r"[ \t>]*(`{3,}|~{3,})[ \t]*$")
_RULE = re.compile(r"(?:(?:-[ \t]*+){3,}|(?:\*[ \t]*+){3,}|(?:_[ \t]*+){3,})$")
_ITEM = re.compile(r"(?:[-*+]|\d{1,9}[.)])(?=[ \t]|$)")
_INDENTING = re.compile(r"(?:!!!|\?\?\?\+?) +[\w-]+[\w -]*(?:\"[^\"]*\")? *$|===[!+]? +\"[^\"]+\" *$")
"""First line of an admonition or a tab of MkDocs, whose contents are indented."""
LINK_DEFINITION = re.compile(r" {0,3}\[[^\]]{1,999}\]:\s")
_RAW = re.compile(r"<(?:(!--)|(pre|script|style|textarea)(?=[\s>]|$))", re.IGNORECASE)
# Lines that cannot be part of a setext heading: quotes, lists, tables, ATX headings, HTML and link definitions.
_NO_PARAGRAPH = re.compile(
    r"[ \t]*(?:>|\||[-*+](?:[ \t]|$)|\d{1,9}[.)](?:[ \t]|$)|#{1,6}(?:[ \t]|$)"
    r"|</?[A-Za-z][\w-]*(?:[\s/>]|$)|<[!?]|\[[^\]]{1,999}\]:)"
)

MAX_LEVEL = 6

MAX_VALUES = 200
"""Fields of metadata that are read; real documents have a dozen."""

VALUE_CHARACTERS = 2000

_SEPARATORS = re.compile(r"[,;]")


@struct(frozen=False)
class Outline:
    """The structure of a text; line spans are 1-based and inclusive."""

    title: str = ""
    """Title that its metadata gives it."""
    body: int = 0
    """Index of the first line after metadata at its top."""
    values: dict[str, Any] = field(default_factory=dict)
    tags: list[str] = field(default_factory=list)
    aliases: list[str] = field(default_factory=list)
    headings: list[Heading] = field(default_factory=list)
    fences: list[tuple[int, int]] = field(default_factory=list)
    tables: list[tuple[int, int]] = field(default_factory=list)
    raw: list[tuple[int, int]] = field(default_factory=list)
    """Comments and verbatim elements such as `<pre>`."""
    indented: list[tuple[int, int]] = field(default_factory=list)
    """Lines of indented code, each a span of its own."""
    links: list[Link] = field(default_factory=list)

    def add_heading(self, level: int, text: str, line: int) -> None:
        """Add a heading without its markup; levels deeper than `MAX_LEVEL` count as that."""
        self.headings.append(Heading(min(level, MAX_LEVEL), " ".join(text.split())[:MAX_HEADING_CHARS], line))

    def add_value(self, name: str, value: str) -> None:
        """Add a field of metadata; `tags` and `keywords` are tags, and `title` is the title."""
        name, value = name.strip().lower(), " ".join(value.split())[:VALUE_CHARACTERS]
        if not value or len(self.values) >= MAX_VALUES or len(name) > MAX_HEADING_CHARS:
            return
        if name == "title":
            self.title = f"{self.title} {value}".strip()[:MAX_HEADING_CHARS]
            return
        if name in ("tags", "keywords", "tag"):
            self.add_tags(_SEPARATORS.split(value) if _SEPARATORS.search(value) else [value])
        self.values.setdefault(name, value)

    def add_tags(self, names: Sequence[str]) -> None:
        """Add tags, each once; those beyond `MAX_VALUES` do not count."""
        for name in (" ".join(name.strip().lstrip("#").split()) for name in names):
            if len(self.tags) >= MAX_VALUES:
                return
            if name and name not in self.tags:
                self.tags.append(name)

    def add_link(self, target: str, fragment: str, text: str, line: int) -> None:
        """Add a link, if it leads to a file and not to another place."""
        target, fragment = target.strip(), fragment.strip()
        if (target or fragment) and not EXTERNAL.match(target):
            shown = " ".join(text.split())[:MAX_LINK_TEXT] or target
            self.links.append(Link(target, fragment, shown, line, "markdown"))


def scan_blocks(lines: Sequence[str], start: int, closing: int) -> Outline:
    """Find headings, fences, tables and raw HTML from a line on; line `closing`, if not 0, underlines no heading."""
    scanner = _Scanner(lines, start, closing)
    index, total, after_blank = start, len(lines), True
    while index < total:
        line = lines[index]
        first = line[:1]
        # Fast path: plain text, which can only end a list.
        if first.isalpha() or (first == "`" and line[:3] != "```"):
            if after_blank:
                scanner.columns.clear()
                after_blank = False
            index += 1
            continue
        content = line.lstrip(" \t") if first else ""
        if content:
            index = scanner.visit(index, line, content, after_blank)
            after_blank = False
        else:
            after_blank = True
            index += 1
    return scanner.blocks


def is_rule(line: str) -> bool:
    """Return whether a line looks like a thematic break (it may still be a setext underline)."""
    return _RULE.match(line.strip()) is not None


def is_item(line: str) -> bool:
    """Return whether a line starts a list item."""
    return _ITEM.match(line.lstrip(" \t")) is not None


def trimmed(lines: Sequence[str], start: int, end: int) -> tuple[int, int]:
    """Return a range of lines, from 0 and without `end`, less the blank ones at both ends; if all are, it is empty."""
    filled = [at for at in range(start, end) if lines[at].strip()]
    return (filled[0], filled[-1] + 1) if filled else (start, start)


def heading_end(lines: Sequence[str], index: int) -> int:
    """Return the index of the line after the heading that starts at `index`, in Markdown or another text format."""
    line = lines[index].rstrip()
    if _ADORNMENT.match(line) and index + 2 < len(lines) and lines[index + 2].rstrip() == line:
        return index + 3  # a line above and below, as in reStructuredText
    if _ONE_LINE.match(line) is None:
        for below in range(index + 1, min(index + 1 + MAX_UNDERLINE_DISTANCE, len(lines))):
            if _UNDERLINE.match(lines[below]) or _ADORNMENT.match(lines[below].rstrip()):
                return below + 1
    return index + 1


def _width(line: str, content: str) -> int:
    """Return the columns of the white space before `content`, the rest of the line."""
    blank = line[: len(line) - len(content)]
    return len(blank.expandtabs(TAB_COLUMNS)) if "\t" in blank else len(blank)


@struct(frozen=False)
class _Scanner:
    """State of one pass: open list items and where a paragraph may begin."""

    lines: Sequence[str]
    floor: int
    """Index of the first line that can belong to the current paragraph."""
    closing: int
    columns: list[int] = field(default_factory=list)
    """Content columns of the open list items, admonitions and tabs, outermost first."""
    blocks: Outline = field(default_factory=Outline)
    after_code: int = -1
    """Index of the line below the last one of indented code."""

    def visit(self, index: int, line: str, content: str, after_blank: bool) -> int:
        """Record the block that starts at a line, if any, and return the index of the next line to visit."""
        indent = _width(line, content) if len(content) < len(line) else 0
        columns = self.columns
        list_column = columns[0] if columns else 0
        starts = content[0] in _STARTERS
        if after_blank or starts:  # otherwise it continues a paragraph, however little it is indented
            while columns and indent < columns[-1]:
                columns.pop()
        is_deep = indent - (columns[-1] if columns else 0) >= CODE_INDENT
        if is_deep and (after_blank or index in (self.floor, self.after_code)):  # else it continues a paragraph
            self.blocks.indented.append((index + 1, index + 1))
            self.after_code = index + 1
        if is_deep or not starts:
            return index + 1
        mark = content[0]
        if mark in "!?=" and _INDENTING.match(content):
            columns.append(indent + CODE_INDENT)
            self.floor = index + 1
            return index + 1
        if mark in "`~":
            return self._opaque(index, content, quoted=False)
        if mark == "#":
            if indent < CODE_INDENT and (match := _ATX.match(content)):
                self.blocks.headings.append(Heading(len(match[1]), atx_text(content[match.end(1) :]), index + 1))
                self.floor = index + 1
            return index + 1
        if mark in "-=" and not columns and self._setext(index, content, list_column):
            return index + 1
        if mark in "|:-" and (end := self._table(index, content)):
            return end
        if mark in "-*_" and _RULE.match(content):
            self.floor = index + 1
            return index + 1
        return self._container(index, content, indent)

    def _setext(self, index: int, content: str, list_column: int) -> bool:
        """Record the heading that the line underlines, if any; `list_column` is the open list's content column."""
        lines = self.lines
        if index <= self.floor or index == self.closing or not _UNDERLINE.match(content):
            return False
        if not lines[index - 1].strip():
            return False
        first = index - 1
        while first > self.floor and first > index - MAX_UNDERLINE_DISTANCE and lines[first - 1].strip():
            first -= 1
        paragraph = lines[first:index]
        indent = _width(paragraph[0], paragraph[0].lstrip(" \t"))
        if (
            len(paragraph) > MAX_SETEXT_LINES
            or sum(map(len, paragraph)) > MAX_HEADING_CHARS
            or indent >= CODE_INDENT
            or (list_column and indent >= list_column)
            or any(_NO_PARAGRAPH.match(line) for line in paragraph)
        ):
            return False
        level = 1 if content[0] == "=" else 2
        text = heading_text(" ".join(line.strip() for line in paragraph))
        self.blocks.headings.append(Heading(level, text, first + 1))
        self.floor = index + 1
        return True

    def _table(self, index: int, content: str) -> int:
        """Record the table whose delimiter row this line is; return the index after it, or 0."""
        lines = self.lines
        if index <= self.floor or "|" not in lines[index - 1]:
            return 0
        if "|" not in content or "-" not in content or content.strip("|-: \t"):
            return 0
        end = index + 1
        while end < len(lines) and "|" in lines[end]:
            end += 1
        self.blocks.tables.append((index, end))
        self.floor = end
        return end

    def _container(self, index: int, content: str, indent: int) -> int:
        """Strip list and quote markers and record the fence, raw HTML or quoted table behind them."""
        quoted = False
        for _ in range(MAX_NESTED_MARKERS):
            mark = content[:1]
            if mark == ">":
                quoted = True
                content = content.lstrip("> \t")
            elif item := _ITEM.match(content):
                inside = content[item.end() :].lstrip(" \t")
                gap = len(content) - item.end() - len(inside)
                # An empty item, or one that starts with indented code, has its contents after one space.
                indent += item.end() + (gap if inside and gap <= CODE_INDENT else 1)
                if not quoted:
                    self.columns.append(indent)
                content = inside
            else:
                break
        if quoted and content[:1] in ("|", ":", "-"):
            return self._table(index, content) or index + 1
        return self._opaque(index, content, quoted)

    def _opaque(self, index: int, content: str, quoted: bool) -> int:
        """Record a fence or raw HTML, which ends on the line with its closing mark, if the line opens one."""
        if match := _FENCE.match(content):
            return self._fence(index, match[1] or match[2], quoted)
        if not (match := _RAW.match(content)):
            return index + 1
        closer = "-->" if match[1] else f"</{match[2].lower()}>"
        lines, end = self.lines, index + 1
        if closer not in content.lower():
            while end < len(lines) and closer not in lines[end].lower():
                end += 1
            end = min(end + 1, len(lines))
        self.blocks.raw.append((index + 1, end))
        self.floor = end
        return end

    def _fence(self, index: int, run: str, quoted: bool) -> int:
        """Record a fenced code block, which ends with its closing fence, its container or the document."""
        lines = self.lines
        column = self.columns[-1] if self.columns else 0
        end, closed = index + 1, False
        while end < len(lines) and not closed:
            line = lines[end]
            content = line.lstrip(" \t")
            if quoted and content[:1] != ">":
                break
            indent = _width(line, content) if column or run in line else 0
            if content and indent < column:
                break
            match = _FENCE_END.match(line) if run in line else None
            closed = match is not None and match[1].startswith(run) and (quoted or indent - column < CODE_INDENT)
            end += 1
        self.blocks.fences.append((index + 1, end if closed else trimmed(lines, index, end)[1]))
        self.floor = end
        return end


def section(document: Document, heading: str) -> tuple[int, int] | None:
    """Return (first line, last line) of a section, from 1, up to the next heading of the same or a higher level.

    The heading is its text, the last headings of its path joined by ` > `, or a GitHub anchor (`roll-back`); case is
    ignored. None if there is no such heading.
    """
    parts = heading_path(heading)
    for found, names, end in sections_of(document.headings, len(document.lines)):
        if is_under(names, parts) or (len(parts) == 1 and anchor(found.text) == anchor(heading)):
            return found.line, end
    return None


def sections_of(headings: Sequence[Heading], total: int) -> Iterator[tuple[Heading, tuple[str, ...], int]]:
    """Yield each heading with the texts of its path and the last line, of `total`, of its section."""
    path: list[Heading] = []
    for number, heading in enumerate(headings):
        path = [*(above for above in path if above.level < heading.level), heading]
        later = (headings[at].line for at in range(number + 1, len(headings)) if headings[at].level <= heading.level)
        yield heading, tuple(above.text for above in path), next(later, total + 1) - 1


def heading_path(text: str) -> list[str]:
    """Return the headings in a text, joined by ` > `, as they are compared."""
    return [folded_heading(part) for part in re.split(r"(?<=\s)>(?=\s)", text)]


def is_under(names: Sequence[str], path: Sequence[str]) -> bool:
    """Return whether a path of headings ends in one from `heading_path`."""
    return [folded_heading(name) for name in names[-len(path) :]] == path


def folded_heading(text: str) -> str:
    """Return a heading as it is compared: case, accent form and closing `#` do not matter."""
    return unicodedata.normalize("NFC", text).casefold().strip().strip("#").strip()


def anchor(text: str) -> str:
    """Return the anchor that GitHub generates for a heading."""
    return re.sub(r"[^\w\- ]", "", text.casefold().strip()).replace(" ", "-")


PART_NAMES = frozenset(("abstract", "background", "contents", "introduction", "motivation", "overview", "summary"))
"""Headings that, as the first of several at level 1, name a section rather than the document."""

# Those of UTF-32 begin like those of UTF-16, so they come first.
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8", "UTF-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le", "UTF-32"),
    (codecs.BOM_UTF32_BE, "utf-32-be", "UTF-32"),
    (codecs.BOM_UTF16_LE, "utf-16-le", "UTF-16"),
    (codecs.BOM_UTF16_BE, "utf-16-be", "UTF-16"),
)


def encoding_of(data: bytes) -> tuple[bytes, str, str]:
    """Return a file's byte order mark (maybe empty), its encoding for Python, and the encoding's display name."""
    return next((entry for entry in _BYTE_ORDER_MARKS if data.startswith(entry[0])), (b"", "utf-8", "UTF-8"))


def decode(data: bytes) -> tuple[str, str | None]:
    """Return a file's text without byte order mark, decoded as that says or as UTF-8, and a message or None.

    Invalid bytes and NUL characters become U+FFFD, as the message says, so that any index can store the text.
    """
    mark, encoding, name = encoding_of(data)
    problems = []
    try:
        text = data[len(mark) :].decode(encoding)
    except UnicodeDecodeError as error:
        text = data[len(mark) :].decode(encoding, "replace")
        place = error.start + len(mark)
        problems.append(f"Not valid {name} (byte {place}): unreadable bytes are shown as �. Save it as UTF-8.")
    if "\0" in text:
        text = text.replace("\0", "\ufffd")
        problems.append("Contains NUL characters, shown as �; it may not be a text file.")
    return text, " ".join(problems) or None


def decoded_lines(data: bytes) -> tuple[list[str], str | None]:
    """Return the lines of a file, whatever ends them, and the message of `decode`."""
    text, problem = decode(data)
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()  # the final newline starts no line
    return lines, problem


def plain_document(path: str, data: bytes, *problems: str) -> Document:
    """Return a file as a document without structure; `problems` say why it is not read as its format."""
    lines, encoding_problem = decoded_lines(data)
    said = (*problems, *([encoding_problem] if encoding_problem else []))
    return Document(path, file_title(PurePosixPath(path)), tuple(lines), problems=said)


def parse_document(path: str, data: bytes, *, inline: bool = False) -> Document:
    """Parse a file of a base, Markdown or not by its suffix; `inline` is `Base.inline_tags`."""
    if not is_markdown(path):
        return plain_document(path, data)
    lines, problem = decoded_lines(data)
    front = read_front_matter(lines)
    return outlined(path, lines, front, scan_markdown(lines, front, inline=inline), (problem, front.problem))


def scan_markdown(lines: Sequence[str], front: FrontMatter, *, inline: bool = False) -> Outline:
    """Find the structure of Markdown below its front matter; with `inline`, `#tags` in its text are tags."""
    text = "\n".join(lines)
    outline = scan_blocks(lines, front.body, front.closing)
    outline.links += extract_links(text, lines, _hidden(front, outline))
    if inline:
        untagged = [*_hidden(front, outline), *outline.indented]
        outline.tags += joined_tags(front.tags, inline_tags(text, lines, untagged))
    return outline


def outlined(
    path: str, lines: Sequence[str], front: FrontMatter, outline: Outline, problems: Iterable[str | None]
) -> Document:
    """Build a document of its lines, its front matter and the structure of its text."""
    headings = [heading for heading in outline.headings if heading.text]
    tops = [heading.text for heading in headings if heading.level == 1]
    if not tops and headings:  # a lower one is that of the whole if nothing stands before it
        before = any(line.strip("# \t") for line in lines[front.body : headings[0].line - 1])
        tops = [] if before else [headings[0].text]
    named = len(tops) == 1 or (tops and tops[0].casefold() not in PART_NAMES)
    title = front.title or outline.title or (named and tops[0]) or file_title(PurePosixPath(path))
    return Document(
        path=path,
        title=title[:MAX_HEADING_CHARS],
        lines=tuple(lines),
        body=max(front.body, outline.body),
        front_matter={**outline.values, **front.values},
        tags=tuple(dict.fromkeys((*front.tags, *outline.tags))),
        aliases=tuple(dict.fromkeys((*front.aliases, *filter(None, outline.aliases)))),
        headings=tuple(outline.headings),
        fences=tuple(outline.fences),
        links=tuple(outline.links),
        problems=tuple(filter(None, problems)),
        tables=tuple(outline.tables),
    )


def images_of(text: str) -> tuple[Link, ...]:
    """Return the images of a Markdown document, with line feeds, that are local files, not external or `data:` URLs."""
    if "![" not in text:
        return ()
    lines = text.split("\n")
    front = read_front_matter(lines)
    blocks = scan_blocks(lines, front.body, front.closing)
    return extract_links(text, lines, _hidden(front, blocks), images=True)


def inline_tags_of(text: str) -> tuple[InlineTag, ...]:
    """Return the tags in a Markdown document, with line feeds, in order and with repetitions."""
    lines = text.split("\n")
    front = read_front_matter(lines)
    blocks = scan_blocks(lines, front.body, front.closing)
    return tuple(inline_tags(text, lines, [*_hidden(front, blocks), *blocks.indented]))


def _hidden(front: FrontMatter, blocks: Outline) -> list[tuple[int, int]]:
    """Return the line spans without links."""
    return [*blocks.fences, *blocks.raw, *([(1, front.body)] if front.body else [])]
