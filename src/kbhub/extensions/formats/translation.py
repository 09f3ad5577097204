"""Text formats written as Markdown, each line where it was, for answers, excerpts and pages."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import pairwise

from kbhub.documents.markdown import Outline, heading_end, is_item
from kbhub.extensions.formats.markup import block_end, indent_of, scan_adoc, scan_org
from kbhub.extensions.formats.rst import DIRECTIVE, scan_rst
from kbhub.values import struct
from kbhub.workspace.formats import suffix_of

DEEPEST = 24
"""Columns up to which directives are indented; each within another takes time."""


@struct
class Dialect:
    """How a format writes what Markdown writes otherwise."""

    scan: Callable[[Sequence[str], int], Outline]
    write_blocks: Callable[[list[str], Outline, str], None]
    """Writes code, tables and the like as Markdown, in place; code between a mark that no line of it begins with."""
    lines: Mapping[str, str | Callable[[re.Match[str]], str]]
    """Pattern of a line outside of code → what takes its place."""
    inline: re.Pattern[str]
    """Inline markup, with the names of groups that `_inline` knows."""


def in_markdown(text: str, path: str) -> str:
    """Return reStructuredText, AsciiDoc or Org, or a part of it, as Markdown.

    Directives and blocks are as documentation sites write them in Markdown. Tables of reStructuredText and AsciiDoc are
    code, and what shows nothing is an empty line.
    """
    dialect, given = _DIALECTS[suffix_of(path)], text.split("\n")
    lines, outline = list(given), dialect.scan(given, 0)
    code = {line - 1 for first, last in (*outline.fences, *outline.tables) for line in range(first, last + 1)}
    for first, last in outline.raw:
        lines[first - 1 : last] = [""] * (last - first + 1)
    mark = max(re.findall(r"^[ \t>]*(`{3,})", text, re.MULTILINE), default="``") + "`"
    dialect.write_blocks(lines, outline, mark)
    code.update(number for number, line in enumerate(lines) if line.lstrip().startswith("```"))
    for heading in outline.headings:
        first, end = heading.line - 1, heading_end(given, heading.line - 1)
        lines[first:end] = [f"{'#' * heading.level} {heading.text}", *[""] * (end - first - 1)]
        code.add(first)
    return "\n".join(_prose_in_markdown(lines, code, dialect))


def _prose_in_markdown(lines: Sequence[str], code: Collection[int], dialect: Dialect) -> list[str]:
    """Return lines with those outside of code as Markdown."""
    prose = ["" if number in code else line for number, line in enumerate(lines)]
    for pattern, written in dialect.lines.items():
        whole = re.compile(pattern)
        prose = [whole.sub(written, line) for line in prose]
    # A link may go on in the next line, whose break then comes before its last word.
    text = dialect.inline.sub(_inline, "\n".join(prose).replace("\0", "\ufffd"))
    text = re.sub(r" ([^ \n\0]*)\0", r"\n\1", text).replace("\0", "\n")
    return [
        line if number in code else shown
        for number, (line, shown) in enumerate(zip(lines, text.split("\n"), strict=True))
    ]


def _inline(match: re.Match[str]) -> str:
    """Return inline markup as Markdown, with a NUL for each of its line breaks."""
    found = {name: " ".join(value.split()) for name, value in match.groupdict().items() if value is not None}
    role, text = found.get("role", "").rpartition(":")[2], found.get("text") or found.get("target", "")
    if "code" in found:
        written = f"`{found['code']}`"
    elif "strong" in found or "emphasis" in found:
        written = f"**{found['strong']}**" if "strong" in found else f"*{found['emphasis']}*"
    elif "star" in found:
        written = "\\*"
    elif "address" in found:
        said = found.get("said", "").removesuffix("^").strip() or found["address"]
        written = said if found["address"].endswith("_") else f"[{said}]({found['address']})"
    elif role in ("pep", "rfc"):
        written = f"{role.upper()} {text}"
    elif role == "doc":
        target = found.get("target") or text
        written = f"[{text}]({target.removesuffix('.rst')}.rst)"
    elif role and not _TEXT_ROLES.fullmatch(role):
        written = f"`{text.rpartition('.')[2] if text.startswith('~') else text.lstrip('!')}`"
    else:
        written = found.get("name") or found.get("note") or text
    return written + "\0" * match[0].count("\n")


_TEXT_ROLES = re.compile(r"ref|numref|term|any|abbr|dfn|emphasis|strong|sup|sub|guilabel|menuselection")
"""Roles of reStructuredText whose text is no code."""

_ADMONITIONS = re.compile(r"note|tip|hint|important|warning|caution|attention|danger|error|seealso|todo")
_VERSIONS = {
    "versionadded": "New in version",
    "versionchanged": "Changed in version",
    "deprecated": "Deprecated since version",
}
_TABS = re.compile(r"tab(?:-item)?|group-tab")
_SILENT = re.compile(
    r"toctree|contents|index|(?:current)?module|highlight|include|literalinclude|image|meta|tags|(?:default-)?role"
)
"""Directives that show nothing here, nor does what is below them."""

_BOXES = re.compile(r"tabs|tab-set|grid|grid-item|only|container|rst-class|figure")
"""Directives that show only what is below them."""

_TITLES = re.compile(r"rubric|topic|sidebar|centered|(?:(?:list|csv|flat)-)?table")

_EXPLICIT = re.compile(r"\s*\.\. (?:(?P<note>\[[#*\w-]+\] ?.*)|_|\|)")
_OPTION = re.compile(r"\s*:[\w -]+:(?:\s|$)")


def _write_rst(lines: list[str], outline: Outline, mark: str) -> None:
    spans = sorted((first - 1, last) for first, last in (*outline.fences, *outline.tables))
    for first, end in spans:
        _fence(lines, first, end, mark)
    code = {number for first, end in spans for number in range(first, end)}
    given = list(lines)  # where blocks end: inner ones may leave nothing, and their end would be sought far below
    for number, line in reversed([*enumerate(given)]):
        content = line.lstrip()
        if content.startswith(".. ") and number not in code and len(line) - len(content) <= DEEPEST:
            _unfold(lines, number, block_end(given, number, indent_of(line)))
    for number, (line, below) in enumerate(pairwise(lines)):
        if number not in code and line.strip() and not is_item(line) and indent_of(line) < indent_of(below):
            lines[number] = f"{line.rstrip()}  "  # a term stands above its definition


def _fence(lines: list[str], first: int, end: int, mark: str) -> None:
    """Put the marks of code around lines, where those above and below them are blank or a directive's."""
    directive = DIRECTIVE.match(lines[first])
    name, said = (directive[1], (directive[2] or "").strip()) if directive else ("", "")
    title = f"**{said}**" if said and _TITLES.fullmatch(name) else f"`{said}`" if said and name == "math" else ""
    start = first + bool(directive)
    while directive and start < end and (not lines[start].strip() or _OPTION.match(lines[start])):
        start += 1
    inside = [indent_of(line) for line in lines[start:end] if line.strip()]
    follows = start > 0 and lines[start - 1].strip() == mark  # more code: go on with that
    opens = start > 0 and (directive or follows or not lines[start - 1].strip())
    if directive and not inside:  # such as a file that is included
        lines[first:end] = [(" " * indent_of(lines[first]) + title).rstrip(), *[""] * (end - first - 1)]
    if not inside or not opens or (end < len(lines) and lines[end].strip()):
        return
    above = next((indent_of(lines[at]) for at in range(first - (not directive), -1, -1) if lines[at].strip()), 0)
    pad = " " * min(above, *inside)
    language = said if name in ("code", "code-block", "sourcecode") else ""
    lines[first:start] = [(pad + title).rstrip(), *[""] * (start - first)][: start - first]
    lines[start:end] = [_moved(line, pad, min(inside)) for line in lines[start:end]]
    lines[start - 1] = "" if follows else f"{pad}{mark}{language}"
    if end < len(lines):
        lines[end] = f"{pad}{mark}"


def _moved(line: str, pad: str, indent: int) -> str:
    """Return a line with other white space instead of some columns of it."""
    return f"{pad}{line.expandtabs(8)[indent:]}" if line.strip() else ""


def _unfold(lines: list[str], index: int, end: int) -> None:
    """Write a directive, with what is indented below it up to `end`, as a site's Markdown has it."""
    line = lines[index]
    pad, start = " " * indent_of(line), index + 1
    shown, indent = "", ""
    if explicit := _EXPLICIT.match(line):
        shown = explicit["note"] or ""
        silent = not shown
    elif directive := DIRECTIVE.match(line):
        name, said = directive[1].rpartition(":")[2].lower(), (directive[2] or "").strip()
        silent = _SILENT.fullmatch(name) is not None
        if _TABS.fullmatch(name):
            shown, indent = f'=== "{said}"', "    "
        elif name == "admonition" or (_ADMONITIONS.fullmatch(name) and not said):
            shown, indent = f'!!! {name} "{said or name.capitalize()}"', "    "
        elif name in _VERSIONS or _ADMONITIONS.fullmatch(name):
            shown = f"**{_VERSIONS.get(name, f'{name.capitalize()}:')}** {said}"
        elif said and not silent and not _BOXES.fullmatch(name):
            shown = f"**{said}**" if _TITLES.fullmatch(name) else f"`{said}`"
    else:
        return
    lines[index] = f"{pad}{shown}" if shown else ""
    while start < end and _OPTION.match(lines[start]):
        lines[start], start = "", start + 1
    least = min((indent_of(below) for below in lines[start:end] if below.strip()), default=0)
    lines[start:end] = ["" if silent else _moved(below, pad + indent, least) for below in lines[start:end]]


def _write_adoc(lines: list[str], outline: Outline, mark: str) -> None:
    for first, last in (*outline.fences, *outline.tables):
        opening, language = first - 1, ""
        if named := re.match(r"\[(?:source)?[,%\w]*?,? ?([\w+-]*)", lines[opening]):
            lines[opening], opening, language = "", first, named[1]
        if lines[opening].startswith("```"):
            continue
        delimiter, lines[opening] = lines[opening].rstrip(), f"{mark}{language}"
        if opening < last - 1 and lines[last - 1].rstrip() == delimiter:
            lines[last - 1] = mark


def _write_org(lines: list[str], outline: Outline, mark: str) -> None:
    for first, last in outline.fences:
        if begin := re.match(r"(\s*)#\+begin_\w+ *(\w*)", lines[first - 1], re.IGNORECASE):
            lines[first - 1], lines[last - 1] = f"{begin[1]}{mark}{begin[2]}", f"{begin[1]}{mark}"
        else:
            lines[first - 1 : last] = [f"    {line.lstrip()[2:]}" for line in lines[first - 1 : last]]
    for first, last in outline.tables:
        rows = lines[first - 1 : last]
        lines[first - 1 : last] = [row.replace("+", "|") if set(row.strip()) <= set("|-+") else row for row in rows]


_RST = Dialect(
    scan_rst,
    _write_rst,
    {r"^(\s*)#\. ": r"\g<1>1. ", r"^:([\w -]{1,60}):(?=\s|$)": r"**\1:**", r"(?<=\S)::$": ":", r"^\s*::$": ""},
    re.compile(
        r"``(?P<code>[^`]{1,500}+)``"
        r"|:(?P<role>(?:[\w+.-]{1,20}:){0,2}[\w+.-]{1,40}):`(?P<text>[^`<]{0,500}+)(?:<(?P<target>[^`<>]{1,500}+)>)?`"
        r"|(?<![:`\w])`(?P<said>[^`<]{0,500}+)<(?P<address>[^`<>]{1,500}+)>`_{1,2}"
        r"|(?<![:`\w])`(?P<name>[^`<>]{1,300}+)`_{1,2}(?!\w)"
        r"|(?P<note>\[[#*\w-]{1,50}\])_(?!\w)|\\(?= )(?P<gap> )|(?<=\w)(?P<star>\*)(?=\w)"
    ),
)

_ADOC = Dialect(
    scan_adoc,
    _write_adoc,
    {
        r"^\[?(NOTE|TIP|IMPORTANT|WARNING|CAUTION)(?:\]$|: )": r"**\1:** ",
        r"^(?:\[\[?[^\[\]]*\]\]?|:[\w!-]+:.*|(?:image|include|toc|if\w+|endif)::[^\s\[]*+\[.*\])\s*$": "",
        r"^(?:={4,}|\*{4,}|_{4,}|--|\+|<<<)\s*$": "",
        r"^\.([^\s.].*)$": r"**\1**",
        r"^\s*(\*{1,5}|\.{1,5})\s+(?=\S)": lambda item: (
            f"{'   ' * (len(item[1]) - 1)}{'*' if item[1][0] == '*' else '1.'} "
        ),
        r"^(\S.{0,100}?)::(?:\s+|$)": r"**\1:** ",
    },
    re.compile(
        r"`\+?(?P<code>[^`\n]{1,300}?)\+?`|\[\[[\w-]{1,100}+(?P<gap>)\]\]"
        r"|(?:link:|xref:|(?=https?://))(?P<address>[^\s\[\]]{1,1000}+)\[(?P<said>[^\]\n]{0,500}+)\]"
        r"|<<(?P<target>[^<>,\n]{1,500}+)(?:,(?P<name>[^<>]{1,500}+))?>>"
        r"|(?<![\w*])\*(?P<strong>[^\s*](?:[^*\n]{0,500}[^\s*])?)\*(?![\w*])"
    ),
)

_ORG = Dialect(
    scan_org,
    _write_org,
    {r"^\s*(?:#\+\w[\w-]*(?::.*|\s.*)?|:[\w-]+:(?:\s.*)?)$": ""},
    re.compile(
        r"(?<![\w=~])[=~](?P<code>[^\s=~](?:[^=~\n]{0,300}[^\s=~])?)[=~](?![\w=~])"
        r"|\[\[(?:file:)?(?P<address>[^\[\]\n]{1,1000}+)\](?:\[(?P<said>[^\[\]]{1,1000}+)\])?\]"
        r"|(?<![\w*])\*(?P<strong>[^\s*](?:[^*\n]{0,500}[^\s*])?)\*(?![\w*])"
        r"|(?<![\w/:])/(?P<emphasis>[^\s/](?:[^/\n]{0,300}[^\s/])?)/(?![\w/])"
    ),
)

_DIALECTS = {".rst": _RST, ".rest": _RST, ".adoc": _ADOC, ".asciidoc": _ADOC, ".org": _ORG}
