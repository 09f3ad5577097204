"""The structure of reStructuredText."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import field

from kbhub.documents.markdown import Outline
from kbhub.documents.shown_text import cell_width
from kbhub.extensions.formats.markup import Visible, block_end, indent_of
from kbhub.values import struct

LEAST_UNDERLINE = 4
"""Characters of an underline that may be shorter than its title, as in docutils."""

LONGEST_ENTRY = 1000

_ADORNMENT = re.compile(r"([!-/:-@\[-`{-~])\1*[ \t]*$")
_NO_TITLE = re.compile(
    r"(?:[-+*•‣⁃](?:\s|$)|:[^:\s][^:]{0,80}:(?:\s|$)|>>>(?:\s|$)|\|(?:\s|$)|\.\.(?:\s|$)|__(?:\s|$))"
)
_GRID = re.compile(r"\s*\+-[-+]*-\+\s*$")
_GRID_ROW = re.compile(r"\s*[+|].*[+|]\s*$")
_SIMPLE = re.compile(r"\s*=+(?: +=+)+\s*$")
DIRECTIVE = re.compile(r"\s*\.\. ([\w+.:-]{1,60}?)::(?:\s+(.*))?$")
_COMMENT = re.compile(r"\.\.(?:\s|$)(?!\s*(?:_[^\s:]|\[|\||__))")
_FIELD = re.compile(r":([^:\n]{1,80}):(?:\s+(.*))?$")
_PREAMBLE = re.compile(r"([A-Z][A-Za-z-]{0,40}):[ \t]+(.*)$")
"""A field in the form of RFC 2822, as PEPs begin with."""

_CODE = frozenset(
    ("code", "code-block", "sourcecode", "parsed-literal", "literalinclude", "doctest", "testcode", "testoutput",
     "math", "graphviz", "mermaid", "uml", "raw", "productionlist", "prompt", "ipython", "highlight", "digraph")
)  # fmt: skip
_TABLES = frozenset(("list-table", "csv-table", "flat-table"))
_MARKUP = re.compile(
    r"(?::[\w+.:-]{1,40}:)?(?<!`)`{1,2}([^`<]+?)(?:\s*<[^`<>]*>)?`{1,2}_{0,2}|\*\*([^*]+)\*\*|\*([^*]+)\*"
)
_ROLE = re.compile(r":(doc|ref|any|download):`(?:([^`<]{0,500}+)<([^`<>]{1,500}+)>|([^`<>]{1,500}+))`")
_REFERENCE = re.compile(r"(?<![:`\w])`([^`<]{0,500}+)<([^`<>]{1,500}+)>`_{1,2}")
_TARGET = re.compile(r"^[ \t]*\.\. _(`[^`\n]{1,300}`|[^:\n]{1,300}):[ \t]+(\S[^\n]{0,500})$", re.MULTILINE)
_SECTION = re.compile(r"([\w./-]*[\w-]):(\S.*)", re.DOTALL)


def scan_rst(lines: Sequence[str], start: int) -> Outline:
    """Find the structure of reStructuredText from a line on."""
    scan = _Scan(lines, _PREAMBLE if all(map(_PREAMBLE.match, lines[start : start + 2])) else _FIELD)
    index = start
    while index < len(lines):
        index = scan.visit(index)
    scan.find_links()
    return scan.outline


@struct(frozen=False)
class _Scan:
    """State of one pass."""

    lines: Sequence[str]
    form: re.Pattern[str]
    """Of the fields."""
    outline: Outline = field(default_factory=Outline)
    after_blank: bool = True
    in_head: bool = True
    """Whether only headings, fields and comments came so far, so that fields are metadata."""
    styles: dict[tuple[str, bool], int] = field(default_factory=dict)
    """Adornment, and whether it is above too → level."""
    open_simple: bool = False
    """Whether a simple table without an end was found, so that there is none further on."""

    def visit(self, index: int) -> int:
        """Record what starts at a line, and return the index of the next line to visit."""
        line = self.lines[index]
        if not line.strip():
            self.after_blank, self.form = True, _FIELD
            return index + 1
        after_blank, self.after_blank = self.after_blank, False
        if end := self._title(index, after_blank):
            self.after_blank = True
            return end
        if line.lstrip()[:1] in "+=" and (end := self._table(index)):
            return end
        if self.in_head and (match := self.form.match(line)):
            end = block_end(self.lines, index, 0)
            self.outline.add_value(match[1], " ".join([match[2] or "", *self.lines[index + 1 : end]]))
            if self.form is _PREAMBLE:
                self.outline.body = end
            return end
        if line.lstrip().startswith(".."):
            return self._explicit(index, line)
        self.in_head = False
        if line.startswith(">>>") or line.lstrip().startswith(">>> "):
            end = index
            while end < len(self.lines) and self.lines[end].strip():
                end += 1
            self.outline.fences.append((index + 1, end))
            return end
        if line.rstrip().endswith("::"):
            return self._literal(index, indent_of(line))
        return index + 1

    def _title(self, index: int, after_blank: bool) -> int:
        """Record the title that starts at a line; return the index after it, or 0."""
        lines, line = self.lines, self.lines[index]
        if line[0] in " \t" or index + 1 >= len(lines):
            return 0
        if (match := _ADORNMENT.match(line)) and index + 2 < len(lines) and lines[index + 1].strip():
            title, under = lines[index + 1].strip(), lines[index + 2].rstrip()
            if under == line.rstrip() and _long_enough(under, title) and not _ADORNMENT.match(title):
                self._heading((match[1], True), title, index)
                return index + 3
        below = lines[index + 1].rstrip()
        if not after_blank or not (match := _ADORNMENT.match(below)) or _NO_TITLE.match(line):
            return 0
        if _ADORNMENT.match(line) or not _long_enough(below, line.rstrip()):
            return 0
        self._heading((match[1], False), line, index)
        return index + 2

    def _heading(self, style: tuple[str, bool], title: str, index: int) -> None:
        level = self.styles.setdefault(style, len(self.styles) + 1)
        # Without the markup of roles, code, emphasis and links.
        text = _MARKUP.sub(lambda match: match[1] or match[2] or match[3], title).replace("\\", "")
        self.outline.add_heading(level, text, index + 1)
        # Fields after a second heading are a list like any other.
        self.in_head = self.in_head and len(self.outline.headings) < 2

    def _table(self, index: int) -> int:
        """Record the grid or simple table that starts at a line; return the index after it, or 0."""
        lines = self.lines
        if _GRID.match(lines[index]):
            end = index + 1
            while end < len(lines) and _GRID_ROW.match(lines[end]):
                end += 1
            if end < index + 3:
                return 0
        elif _SIMPLE.match(lines[index]) and not self.open_simple:
            end = index + 1
            while end < len(lines) and not (
                _SIMPLE.match(lines[end]) and (end + 1 == len(lines) or not lines[end + 1].strip())
            ):
                end += 1
            if end == len(lines):
                self.open_simple = True
                return 0
            end += 1
        else:
            return 0
        self.in_head = False
        self.outline.tables.append((index + 1, end))
        return end

    def _literal(self, index: int, indent: int) -> int:
        """Record the literal block below a paragraph that ends with `::`."""
        if index + 1 < len(self.lines) and self.lines[index + 1].strip():
            return index + 1  # the paragraph goes on
        end = block_end(self.lines, index, indent)
        first = index + 1
        while first < end and not self.lines[first].strip():
            first += 1
        if first < end:
            self.outline.fences.append((first + 1, end))
            return end
        return index + 1

    def _explicit(self, index: int, line: str) -> int:
        """Record a directive with its indented block, or a comment."""
        outline = self.outline
        match = DIRECTIVE.match(line)
        if match is None:
            if _COMMENT.match(line.lstrip()):
                end = block_end(self.lines, index, indent_of(line))
                outline.raw.append((index + 1, end))
                return end
            return index + 1
        name, argument = match[1].rpartition(":")[2].lower(), (match[2] or "").strip()
        if name not in ("meta", "tags"):
            self.in_head = False
        if name == "include":
            outline.add_link(argument, "", argument, index + 1)
        elif name in ("code", *_CODE, *_TABLES, "toctree", "meta", "tags"):
            end = block_end(self.lines, index, indent_of(line))
            below = self.lines[index + 1 : end]
            if name == "toctree":
                for number, entry in enumerate(map(str.strip, below), index + 2):
                    odd = entry in ("", "self") or entry[0] == ":" or len(entry) > LONGEST_ENTRY
                    if not odd and not set(entry) & set("*?[]"):
                        title, opened, target = entry.rpartition("<") if entry[-1] == ">" else ("", "", entry)
                        target = target.rstrip(">").strip() if opened else entry
                        outline.add_link(self._named(target), "", title.strip() or target, number)
            elif name == "meta":
                for found in filter(None, (_FIELD.match(text.strip()) for text in below)):
                    outline.add_value(found[1].partition(" ")[0], found[2] or "")
            elif name == "tags":
                outline.add_value("tags", argument)
            else:
                (outline.tables if name in _TABLES else outline.fences).append((index + 1, end))
            return end
        return index + 1

    def _named(self, name: str) -> str:
        """Return the file that a name of a document means."""
        last = name.rpartition("/")[2]
        return name if not last or last.endswith((".md", ".rst", ".txt")) else f"{name}.rst"

    def find_links(self) -> None:
        """Record the links in the text outside of code and comments."""
        outline = self.outline
        visible = Visible(self.lines, [*outline.fences, *outline.raw])
        if "`" in visible.text:
            for match, line in visible.matches(_ROLE):
                role, text, target = match[1], match[2] or match[4], (match[3] or match[4]).strip()
                if role == "doc" and ":" not in target:  # else of another project
                    outline.add_link(self._named(target), "", text, line)
                elif role == "download":
                    outline.add_link(target, "", text, line)
                elif role != "doc" and (section := _SECTION.fullmatch(target)):
                    # With `autosectionlabel_prefix_document`, a label is a document and a heading of it.
                    outline.add_link(f"/{self._named(section[1])}", section[2], text, line)
            for match, line in visible.matches(_REFERENCE):
                self._reference(match[2], match[1] or match[2], line)
        for match, line in visible.matches(_TARGET) if ".. _" in visible.text else ():
            self._reference(match[2], match[1].strip("`"), line)
        outline.links.sort(key=lambda link: link.line)

    def _reference(self, destination: str, text: str, line: int) -> None:
        target, _, fragment = "".join(destination.split("\n")).strip().strip("`").partition("#")
        if not target.endswith("_"):  # the name of another target
            self.outline.add_link(target, fragment, text, line)


def _long_enough(adornment: str, title: str) -> bool:
    return len(adornment) >= min(LEAST_UNDERLINE, cell_width(title)) if len(title) < 1000 else False
