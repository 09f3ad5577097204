"""Convert HTML to Markdown, and read it as a document.

Tags need not be closed or nested properly. Everything takes linear time: no recursion, and limits on what nesting,
repetition and indentation add.
"""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser

from kbhub.documents.converted import decode_as, document_of_markdown
from kbhub.extensions.formats.markdown_writer import Cell, Inline, MarkdownWriter, Table, escaped, fenced
from kbhub.types import Document

_SPECIAL = re.compile(r"<(?:(!--)|(!\[CDATA\[)|(script|style)(?=[\s/>])|[!?])", re.IGNORECASE)
_STRAY = re.compile(r"<(?!/?[a-zA-Z]|[!?])")
_LONG_REFERENCE = re.compile(r"&(?=#[xX]?[0-9a-fA-F]{10})")


def plain_tags(text: str) -> str:
    """Remove comments, declarations, scripts and styles, and escape each `<` that opens no tag."""
    text = text.replace("\0", "\ufffd").replace("\r\n", "\n").replace("\r", "\n")
    text = _LONG_REFERENCE.sub("&amp;", _STRAY.sub("&lt;", text))
    parts: list[str] = []
    position = 0
    missing: set[str] = set()
    """Ends that do not occur after this place, so that they are sought once."""
    while match := _SPECIAL.search(text, position):
        parts.append(text[position : match.start()])
        position, kept = _passed(text, match, missing)
        parts.append(kept)
    parts.append(text[position:])
    text = "".join(parts)
    last = text.rfind(">") + 1
    return text[:last] + text[last:].replace("<", "&lt;")


def _passed(text: str, match: re.Match[str], missing: set[str]) -> tuple[int, str]:
    """Return the position after a special construct, and the text kept of it."""
    start, begin = match.span()
    name, closer = (match[3] or "").lower(), "-->" if match[1] else "]]>" if match[2] else ">"
    end = -1 if closer in missing else text.find(closer, start + 2 if match[1] else begin)
    if end < 0:
        missing.add(closer)
        return begin, f"&lt;{name}" if name else html.escape(match[0])
    if name and text[end - 1] != "/":
        # A script or a style sheet that is not closed goes to the end of the text, as in browsers.
        closing = re.compile(rf"</{name}", re.IGNORECASE).search(text, end + 1)
        after = text.find(">", closing.end()) + 1 if closing else 0
        return (after, " ") if after else (len(text), "")
    return end + len(closer), html.escape(text[begin:end]) if match[2] else ""


MAX_SPAN = 1000
"""Rows or columns of a cell at most, as in browsers."""

MAX_TABLES = 6
"""Maximum nesting of tables; deeper ones are text of the innermost."""

DECLARATION_BYTES = 4096
"""Bytes at the start of a file in which its encoding is declared; browsers look at 1,024."""

ROOM = 100_000
"""Characters that indentation and repeated cells may add, besides as many as the text has."""

_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_VOID = frozenset(("area", "base", "col", "embed", "link", "param", "source", "track", "wbr"))
_BLOCKS = frozenset(
    ("address", "article", "aside", "body", "center", "details", "dialog", "dir", "div", "fieldset", "figcaption",
     "figure", "footer", "form", "head", "header", "hgroup", "html", "legend", "main", "menuitem", "optgroup",
     "option", "p", "search", "section", "summary", "tbody", "tfoot", "thead")
)  # fmt: skip
_LISTS = {"ul": "ul", "menu": "ul", "ol": "ol", "dl": "dl"}
_ITEMS = frozenset(("li", "dt", "dd"))
_STANDALONE = frozenset((*_LISTS, *_ITEMS, "blockquote", "hr", "pre", "table", "tr", "td", "th", "caption"))
"""Elements besides headings and `_BLOCKS` that end the text before them."""
_META = frozenset(("author", "date", "description", "keywords"))
_LANGUAGE = re.compile(
    r"(?:^|[\s;])(?:language|lang|highlight|brush)[-:]\s*([\w+#.-]{1,30})|sourceCode ([\w+#.-]{1,30})"
)
_NO_LANGUAGES = frozenset(("default", "none", "notranslate", "text", "plaintext"))
_CHARSET = re.compile(rb"""<meta\s[^>]{0,200}?charset\s*=\s*["']?\s*([\w.:-]{1,40})""", re.IGNORECASE)
_XML_CHARSET = re.compile(rb"""^\s{0,100}<\?xml\s[^>]{0,200}?encoding\s*=\s*["']([\w.:-]{1,40})""")

_Attributes = dict[str, str]


def markdown_of(html: str) -> str:
    """Convert HTML to lines of Markdown.

    Headings, paragraphs, lists, tables, code, quotes, definitions, emphasis and links are kept, images as their
    alternative texts. Scripts, styles, templates and navigation are dropped, and no other text is.
    """
    return "\n".join(_convert(html).writer.lines)


def read_html(path: str, data: bytes) -> Document:
    """Read an HTML file; its title is its `<title>`, else its first heading."""
    start = data[:DECLARATION_BYTES]
    match = _CHARSET.search(start) or _XML_CHARSET.search(start)
    text, problem = decode_as(data, match[1].decode("ascii") if match else "")
    page = _convert(text)
    values = {key: value for key, value in page.meta.items() if key != "keywords"}
    return document_of_markdown(
        path,
        "\n".join(page.writer.lines),
        title=" ".join("".join(page.title).split()),
        front_matter=values,
        tags=[" ".join(tag.split()) for tag in page.meta.get("keywords", "").split(",")],
        problems=(problem,) if problem else (),
    )


def _convert(html: str) -> _Page:
    source = plain_tags(html)
    # A navigation that is never closed holds the rest of the text; a page may be nothing else.
    for keeps_navigation in (False, True):
        page = _Page(len(source) + ROOM, keeps_navigation=keeps_navigation)
        page.read(source)
        if not page.dropping and page.writer.lines:
            break
    return page


class _Page(HTMLParser):
    """A page being converted; indentation and repeated cells may add `room` characters."""

    def __init__(self, room: int, *, keeps_navigation: bool) -> None:
        super().__init__(convert_charrefs=True)
        self.writer = MarkdownWriter(room)
        self.inline = Inline()
        self.keeps_navigation = keeps_navigation
        self.meta: _Attributes = {}
        self.title: list[str] = []
        self.in_title = False
        self.dropping = ""
        """Name of the element that is being dropped."""
        self.depth = 0
        """Elements of that name within it."""
        self.heading = 0
        """Level of the open heading, or 0."""
        self.code: list[str] | None = None
        self.language = ""
        self.tables: list[Table] = []
        self.deeper = 0
        """Open tables below the limit."""

    def read(self, source: str) -> None:
        """Read a whole page, from `plain_tags`."""
        self.feed(source)
        self.close()
        self._end_code()
        while self.tables:
            self._end_table()
        self._flush()

    def handle_data(self, data: str) -> None:
        """Take a piece of text."""
        if self.dropping:
            return
        if self.in_title:
            self.title.append(data)
        elif self.code is not None:
            self.code.append(data)
        elif not self.tables or self.deeper or self.tables[-1].cell is not None or not data.isspace():
            self.inline.add(data)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take an opening tag."""
        self.in_title = False
        attributes = {key: value or "" for key, value in attrs}
        if self.dropping:
            self.depth += tag == self.dropping
        elif self._drops(tag, attributes):
            self.dropping, self.depth = tag, 1
        elif self.code is not None:
            if tag == "br":
                self.code.append("\n")
            elif tag == "code":
                self.language = self.language or _language(attributes)
        elif tag in _HEADINGS:
            self._flush()
            self.heading, self.inline.plain = _HEADINGS[tag], True
        elif tag in _BLOCKS:
            self._flush(within_heading=False)
            if "highlight-" in attributes.get("class", ""):
                self.language = _language(attributes)
        else:
            self._start(tag, attributes)

    def handle_endtag(self, tag: str) -> None:
        """Take a closing tag."""
        if self.dropping:
            self.depth -= tag == self.dropping
            if not self.depth:
                self.dropping = ""
        elif tag == "title":
            self.in_title = False
        elif self.code is not None:
            if tag == "pre":
                self._end_code()
        elif tag in _HEADINGS:
            self._flush()
        elif tag in _BLOCKS:
            self._flush(within_heading=False)
        elif tag in _LISTS or tag in _ITEMS or tag == "blockquote":
            self._flush()
            self.writer.close(_LISTS.get(tag, tag))
        elif tag in ("td", "th", "tr", "caption"):
            self._flush()
            if self.tables and not self.deeper:
                self._end_cell()
        elif tag == "table":
            self._flush()
            if self.deeper:
                self.deeper -= 1
            elif self.tables:
                self._end_table()
        else:
            self.inline.close(tag)

    def _drops(self, tag: str, attributes: _Attributes) -> bool:
        if tag in ("template", "script", "style"):
            return True
        if tag in ("td", "th"):
            return "linenos" in attributes.get("class", "")
        navigates = tag == "nav" or attributes.get("role") == "navigation"
        return navigates and not self.keeps_navigation and tag not in _VOID

    def _flush(self, *, within_heading: bool = True) -> None:
        """Write the text since the last block; `within_heading` says whether an open heading ends here."""
        if not within_heading and self.heading and not self.inline.filled:
            return
        text = self.inline.take()
        if self.heading and text:
            self.writer.block([f"{'#' * self.heading} {' '.join(text.split())}"], quoted_only=True, structured=True)
        elif text:
            self.writer.block([escaped(line) for line in text.split("\n")])
        self.heading, self.inline.plain = 0, False

    def _start(self, tag: str, attributes: _Attributes) -> None:
        """Take an opening tag outside of code that is neither a heading nor a plain block."""
        if tag in _STANDALONE:
            self._flush()
        match tag:
            case "title":
                self.in_title = not self.title
            case "meta":
                name, content = attributes.get("name", "").lower(), " ".join(attributes.get("content", "").split())
                if name in _META and content:
                    self.meta.setdefault(name, content[:1000])
            case "ul" | "menu" | "ol" | "dl":
                start = attributes.get("start", "")
                number = int(start) if start.isascii() and start.isdigit() and len(start) < 7 else 1
                self.writer.open(_LISTS[tag], number=number)
            case "li":
                if self.writer.innermost() == "li":
                    self.writer.close("li")
                if self.writer.innermost() not in ("ul", "ol"):
                    self.writer.open("ul")
                self.writer.item()
            case "dt" | "dd":
                if (term := self.writer.innermost()) in ("dt", "dd"):
                    self.writer.close(term)
                if self.writer.innermost() != "dl":
                    self.writer.open("dl")
                self.writer.open(tag, *((": ", "  ") if tag == "dd" else ()))
            case "blockquote":
                self.writer.open("blockquote", "> ", "> ")
            case "hr":
                self.writer.block(["***"])
            case "br":
                self.inline.add_break()
            case "img":
                if alt := attributes.get("alt", "").strip():
                    self.inline.add(f" {alt} ")
            case "input":
                if attributes.get("type") == "checkbox":
                    self.inline.add("[x] " if "checked" in attributes else "[ ] ")
            case "pre":
                self.code, self.language = [], _language(attributes) or self.language
            case "table":
                self._start_table(attributes)
            case "tr" | "td" | "th" | "caption":
                if self.tables and not self.deeper:
                    self._end_cell()
                    self._start_cell(tag, attributes)
            case _ if tag not in _VOID:
                self.inline.open(tag, attributes)

    def _end_code(self) -> None:
        if self.code is None:
            return
        text = "".join(self.code).strip("\n")
        if text.strip():
            self.writer.block(fenced(text, self.language), structured=True)
        self.code, self.language = None, ""

    def _start_table(self, attributes: _Attributes) -> None:
        if len(self.tables) >= MAX_TABLES or self.deeper:
            self.deeper += 1
            return
        if self.tables and self.tables[-1].cell is None:
            self._start_cell("td", {})
        self.writer.open("table")
        self.tables.append(Table(layout=attributes.get("role") in ("presentation", "none")))

    def _start_cell(self, tag: str, attributes: _Attributes) -> None:
        """Start a row, a cell or the caption of the innermost table, in which no cell is open."""
        table = self.tables[-1]
        if tag == "tr" or not (table.rows or tag == "caption"):
            table.rows.append([])
        if tag == "tr":
            return
        table.cell = Cell(_span(attributes, "colspan"), _span(attributes, "rowspan"))
        self.writer.open_cell(table.cell)
        if tag == "caption":
            table.cell.lines = table.caption
        else:
            table.rows[-1].append(table.cell)

    def _end_cell(self) -> None:
        table = self.tables[-1]
        if table.cell is not None:
            self.writer.close_cell()
            table.cell = None

    def _end_table(self) -> None:
        self._end_cell()
        table = self.tables.pop()
        self.writer.close("table")
        if table.caption:
            self.writer.block(table.caption)
        cells = [cell for row in table.rows for cell in row]
        if table.layout or len(cells) == 1 or any(cell.structured for cell in cells):
            # It only arranges things: its cells are read one after the other.
            for cell in (one for one in cells if one.lines):
                self.writer.block(cell.lines, structured=cell.structured)
            return
        lines, self.writer.room = table.lines(self.writer.room)
        if lines:
            self.writer.block(lines, structured=True)


def _language(attributes: _Attributes) -> str:
    match = _LANGUAGE.search(attributes.get("class", ""))
    name = (match[1] or match[2]) if match else ""
    return "" if name in _NO_LANGUAGES else name


def _span(attributes: _Attributes, name: str) -> int:
    text = attributes.get(name, "").strip()
    return min(MAX_SPAN, max(1, int(text))) if text.isascii() and text.isdigit() and len(text) < 7 else 1
