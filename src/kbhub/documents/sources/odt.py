"""Convert OpenDocument text: its elements are written as HTML, which becomes Markdown."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from kbhub.documents.sources.converted import document_of_markdown
from kbhub.documents.sources.html import markdown_of
from kbhub.documents.sources.packages import ENCRYPTED, local_name, metadata_of, open_package, tree_of
from kbhub.types import Document

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

MOST_SPACES, MOST_COLUMNS = 100, 100
"""Spaces or columns that one element stands for at most, whatever its count says."""

_MANIFEST = "META-INF/manifest.xml"
_SKIPPED = frozenset(
    ("tracked-changes", "table-of-content", "sequence-decls", "variable-decls", "user-field-decls", "forms", "object")
)
"""Elements without text of their own: deleted text, a table of contents, declarations, formulas."""

_BLOCK_STYLES = {
    "Title": "h1",
    **dict.fromkeys(("Preformatted_20_Text", "Source_20_Code"), "pre"),
    **dict.fromkeys(("Quotations", "Block_20_Text"), "blockquote"),
}
"""Styles of LibreOffice and pandoc for paragraphs → elements of HTML."""


def read_odt(path: str, data: bytes) -> Document:
    """Convert an OpenDocument text; a broken one, or one that `open_package` refuses, raises any exception."""
    with open_package(data) as package:
        if _MANIFEST in package.namelist() and b"encryption-data" in package.read(_MANIFEST):
            raise ValueError(ENCRYPTED)
        title, values = metadata_of(package, "meta.xml")
        trees = [tree_of(package.read(name)) for name in ("content.xml", "styles.xml") if name in package.namelist()]
    html = _Html(*trees).text()
    return document_of_markdown(path, markdown_of(html), title=title, front_matter=values, shown=tuple(values))


def _attribute(element: Element, name: str) -> str:
    """Return an attribute by its name without namespace."""
    return next((value for key, value in element.attrib.items() if key.rpartition("}")[2] == name), "")


class _Html:
    """The HTML of a text, from its `content.xml` and `styles.xml`."""

    def __init__(self, content: Element, *styles: Element) -> None:
        self._content = content
        self._parents: dict[str, str] = {}
        """Automatic style → the style that it is based on."""
        self._inline: dict[str, tuple[str, ...]] = dict.fromkeys(("Source_20_Text", "Verbatim_20_Char"), ("code",))
        """Style → elements of HTML around its text."""
        self._numbered: set[tuple[str, str]] = set()
        """(style of lists, level) of those with numbers."""
        self._notes: list[str] = []
        self._comments: list[str] = []
        self._later: list[str] = []
        """Text boxes of the paragraph being written, which follow it."""
        for tree in (*styles, content):
            for element in tree.iter():
                self._declare(element)

    def text(self) -> str:
        """Return the HTML: the body, footnotes and endnotes, and comments."""
        body = "".join(self._block(part) for part in self._content.iter() if local_name(part) == "text" and len(part))
        notes = f"<ol>{''.join(f'<li>{note}</li>' for note in self._notes)}</ol>" if self._notes else ""
        comments = "".join(f"<li>{comment}</li>" for comment in self._comments)
        return body + notes + (f"<p>Comments:</p><ul>{comments}</ul>" if comments else "")

    def _declare(self, element: Element) -> None:
        name = local_name(element)
        if name == "style":
            style = _attribute(element, "name")
            self._parents[style] = _attribute(element, "parent-style-name")
            marks = {key.rpartition("}")[2]: value for part in element for key, value in part.attrib.items()}
            tags = (("strong", marks.get("font-weight") == "bold"), ("em", marks.get("font-style") == "italic"))
            if _attribute(element, "family") == "text" and any(on for _, on in tags):
                self._inline[style] = tuple(tag for tag, on in tags if on)
        elif name == "list-style":
            style = _attribute(element, "name")
            self._numbered |= {
                (style, _attribute(level, "level"))
                for level in element
                if local_name(level) == "list-level-style-number"
            }

    def _block(self, element: Element, lists: tuple[str, int] = ("", 0)) -> str:
        """Return the blocks in an element; `lists` is the style and depth of the list around it."""
        written: list[str] = []
        for part in element:
            name = local_name(part)
            if name in ("p", "h"):
                written.append(self._paragraph(part, name))
            elif name == "list":
                written.append(self._list(part, lists))
            elif name == "table":
                written.append(self._table(part))
            elif name not in _SKIPPED:
                written.append(self._block(part, lists))
        return "".join(written)

    def _paragraph(self, element: Element, name: str) -> str:
        around, self._later = self._later, []
        text = self._spans(element)
        style = _attribute(element, "style-name")
        tag = _BLOCK_STYLES.get(style) or _BLOCK_STYLES.get(self._parents.get(style, ""), "p")
        if name == "h":
            level = _attribute(element, "outline-level")
            tag = f"h{min(max(int(level), 1), 6) if level.isdecimal() and len(level) < 4 else 1}"
        later, self._later = self._later, around
        inner = f"<p>{text}</p>" if tag == "blockquote" else text
        return f"<{tag}>{inner}</{tag}>" + "".join(later) if text.strip() or later else ""

    def _spans(self, element: Element) -> str:
        """Return the text in a paragraph."""
        written = [escape(element.text or "")]
        for part in element:
            written += [self._span(part), escape(part.tail or "")]
        return "".join(written)

    def _span(self, element: Element) -> str:
        name = local_name(element)
        if name == "s":
            count = _attribute(element, "c")
            return " " * (min(int(count), MOST_SPACES) if count.isdecimal() and len(count) < 10 else 1)
        if name in ("tab", "line-break"):
            return " " if name == "tab" else "<br>"
        if name == "note":
            return self._note(element)
        if name == "annotation":
            self._comments.append(self._comment(element))
            return ""
        if name in ("frame", "custom-shape", "text-box", "g"):
            self._later.append(self._shape(element))
            return ""
        if name in _SKIPPED or name in ("ruby-text", "annotation-end"):
            return ""
        text = self._spans(element)
        if name == "a" and text.strip():
            return f'<a href="{escape(_attribute(element, "href"))}">{text}</a>'
        tags = self._inline.get(_attribute(element, "style-name"), ()) if name == "span" and text.strip() else ()
        for tag in tags:
            text = f"<{tag}>{text}</{tag}>"
        return text

    def _note(self, element: Element) -> str:
        """Put a footnote or endnote aside; return its mark."""
        body = next((part for part in element if local_name(part) == "note-body"), None)
        self._notes.append("")
        number = len(self._notes)
        self._notes[-1] = self._block(body) if body is not None else ""
        return f"[{number}]"

    def _comment(self, element: Element) -> str:
        author = next((part.text for part in element if local_name(part) == "creator" and part.text), "")
        return self._block(element).replace("<p>", f"<p>{escape(author)}: " if author else "<p>", 1)

    def _shape(self, element: Element) -> str:
        """Return the text in a shape or text box, and the description of a picture."""
        texts = [part.text for part in element if local_name(part) in ("title", "desc") and part.text]
        shown = f"<p>{escape(' '.join(' '.join(texts).split()))}</p>" if texts else ""
        return shown + self._block(element)

    def _list(self, element: Element, lists: tuple[str, int]) -> str:
        style, depth = _attribute(element, "style-name") or lists[0], lists[1] + 1
        tag = "ol" if (style, str(depth)) in self._numbered else "ul"
        items = [(local_name(item), self._block(item, (style, depth))) for item in element]
        if items and all(text.startswith("<h") for _, text in items if text):  # numbered headings are no list
            return "".join(text for _, text in items)
        return f"<{tag}>{''.join(f'<li>{text}</li>' for _, text in items if text)}</{tag}>"

    def _table(self, element: Element) -> str:
        return f"<table>{''.join(self._rows(element, 'td'))}</table>"

    def _rows(self, element: Element, cell: str) -> list[str]:
        written: list[str] = []
        for part in element:
            name = local_name(part)
            if name == "table-row":
                written.append(f"<tr>{''.join(self._cell(one, cell) for one in part)}</tr>")
            elif name in ("table-header-rows", "table-rows", "table-row-group"):
                written += self._rows(part, "th" if name == "table-header-rows" else cell)
        return written

    def _cell(self, element: Element, tag: str) -> str:
        if local_name(element) != "table-cell":
            return ""  # covered by another one
        span, count = _attribute(element, "number-columns-spanned"), _attribute(element, "number-columns-repeated")
        text = self._block(element)
        if not text and count.isdecimal():
            return f"<{tag}></{tag}>" * min(int(count[:9]), MOST_COLUMNS)
        return f"<{tag}{f' colspan={span}' if span.isdecimal() and len(span) < 4 else ''}>{text}</{tag}>"
