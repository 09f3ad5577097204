"""Zip files of Office documents and books, opened within limits; EPUB and OpenDocument text."""

from __future__ import annotations

import io
import posixpath
from collections.abc import Iterable, Iterator
from html import escape
from typing import NoReturn
from urllib.parse import unquote
from xml.etree.ElementTree import Element, ParseError, fromstring
from xml.parsers import expat
from zipfile import BadZipFile, ZipFile, ZipInfo

from kbhub.documents.converted import decode_as, document_of_markdown
from kbhub.extensions.formats.html import markdown_of
from kbhub.types import Document

UNPACKED_BYTES = 500_000_000
"""Most bytes of all members together: ten times the size limit of the file, as pictures hardly shrink."""

XML_BYTES = 100_000_000
"""Most bytes of all members of XML together; a page of a Word document has some 5,000."""

MEMBERS = 20_000
"""Most members; a book of a thousand chapters and pictures has a tenth."""

BLOCK = 1 << 16
"""Bytes unpacked at a time."""

OLD_FORMAT = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
"""First bytes of an OLE file: Office before 2007, or a newer file that is encrypted."""

ENCRYPTED = "it is encrypted, and kbhub knows no password"

VALUE_CHARACTERS = 1000

XML_SUFFIXES = (".xml", ".rels", ".opf", ".ncx")
"""Members that are parsed as XML."""

_NAMES = {"title": "title", "creator": "author", "modified": "date", "date": "date"}
"""Elements of Dublin Core → keys of front matter."""


def open_package(data: bytes) -> ZipFile:
    """Open a zip file once all of it is known to be harmless.

    A member can be no longer than the file's directory says, or reading it fails. Zip files within are not opened.
    Raises ValueError if it is encrypted, too large when unpacked, or declares entities, and BadZipFile if it is broken.
    """
    if data.startswith(OLD_FORMAT):
        encrypted = "EncryptedPackage".encode("utf-16-le") in data
        raise ValueError(ENCRYPTED if encrypted else "it is in the format of before 2007; save it in the present one")
    try:
        package = ZipFile(io.BytesIO(data))
    except BadZipFile as error:
        raise ValueError("it is no such file, or broken") from error
    members = package.infolist()
    if any(member.flag_bits & 1 for member in members):
        raise ValueError(ENCRYPTED)
    if len(members) > MEMBERS:
        raise ValueError(f"it has {len(members):,} members and the limit is {MEMBERS:,}")
    xml = [member for member in members if member.filename.lower().endswith(XML_SUFFIXES)]
    for some, limit in ((members, UNPACKED_BYTES), (xml, XML_BYTES)):
        if (size := sum(member.file_size for member in some)) > limit:
            raise ValueError(f"it has {size:,} bytes when unpacked and the limit is {limit:,}")
    checked = set(xml)
    for member in members:
        _check(package, member, xml=member in checked)
    return package


def _check(package: ZipFile, member: ZipInfo, *, xml: bool) -> None:
    """Unpack a member once, a block at a time, and refuse XML that declares entities; other broken XML passes."""
    parser = expat.ParserCreate()
    parser.EntityDeclHandler = _refuse_entities
    with package.open(member) as file:
        while block := file.read(BLOCK):
            try:
                if xml:
                    parser.Parse(block, False)
            except expat.ExpatError:
                xml = False


def _refuse_entities(*_: object) -> NoReturn:
    raise ValueError("its XML declares entities")


def tree_of(data: bytes) -> Element:
    """Parse a member that `open_package` has checked."""
    return fromstring(data)  # noqa: S314 - it declares no entities


def local_name(element: Element) -> str:
    """Return the name of an element without its namespace."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def metadata_of(package: ZipFile, member: str) -> tuple[str, dict[str, str]]:
    """Return title (or `""`), and author and date as front matter, from the member with Dublin Core."""
    try:
        tree = tree_of(package.read(member))
    except (KeyError, ParseError):
        return "", {}
    values: dict[str, str] = {}
    for element in tree.iter():
        key = _NAMES.get(local_name(element))
        if key and (text := " ".join((element.text or "")[:VALUE_CHARACTERS].split())):
            values.setdefault(key, text)
    title = values.pop("title", "")
    if "date" in values:
        values["date"] = values["date"][:10]
    return title, values


CONTAINER = "META-INF/container.xml"
PAGES = ("application/xhtml+xml", "text/html", "application/x-dtbook+xml")

NAME_CHARACTERS = 100
NCX = "application/x-dtbncx+xml"
"""Media type of the table of contents of EPUB 2, which books of EPUB 3 mostly have, too."""


def read_epub(path: str, data: bytes) -> Document:
    """Convert a book; a broken one, or one that `open_package` refuses, raises any exception."""
    with open_package(data) as package:
        if "META-INF/encryption.xml" in package.namelist() and b"xhtml" in package.read("META-INF/encryption.xml"):
            raise ValueError("it is encrypted")
        files = tree_of(package.read(CONTAINER)).iterfind(".//{*}rootfile")
        root = next(filter(None, (one.get("full-path") for one in files)), None)
        if root is None:
            raise ValueError("it names no package file")
        title, values = metadata_of(package, root)
        chapters, missing = _chapters(package, root)
    names = ", ".join(name[:NAME_CHARACTERS] for name in missing[:5])
    problems = [f"Chapters that are missing are left out: {names}."] if missing else []
    return document_of_markdown(
        path, "\n\n".join(chapters), title=title, front_matter=values, shown=tuple(values), problems=problems
    )


def _chapters(package: ZipFile, root: str) -> tuple[list[str], list[str]]:
    """Return the chapters as Markdown, and the names of those that are missing."""
    tree = tree_of(package.read(root))
    folder = posixpath.dirname(root)
    items = {element.get("id"): element for element in tree.iterfind(".//{*}item")}
    spine = [element.get("idref") for element in tree.iterfind(".//{*}itemref")]
    names = dict(_contents(package, folder, items.values()))
    chapters, missing = [], []
    for identifier in dict.fromkeys(spine):
        item = items.get(identifier)
        if item is None or item.get("media-type") not in PAGES or "nav" in item.get("properties", "").split():
            continue
        member = _joined(folder, item.get("href", ""))
        try:
            markdown = markdown_of(decode_as(package.read(member), "")[0]).strip("\n")
        except KeyError:
            missing.append(member)
            continue
        has_heading = any(line.startswith("#") for line in markdown.split("\n"))
        if markdown and not has_heading and (name := names.get(member)):
            markdown = f"# {name}\n\n{markdown}"
        if markdown:
            chapters.append(markdown)
    return chapters, missing


def _contents(package: ZipFile, folder: str, items: Iterable[Element]) -> Iterator[tuple[str, str]]:
    """Yield member and name of the entries of the table of contents that lead to the top of a chapter."""
    for item in items:
        if item.get("media-type") != NCX:
            continue
        member = _joined(folder, item.get("href", ""))
        try:
            tree = tree_of(package.read(member))
        except (KeyError, ParseError):
            continue
        for point in tree.iterfind(".//{*}navPoint"):
            name, content = point.findtext("{*}navLabel/{*}text"), point.find("{*}content")
            if name is not None and content is not None and "#" not in (source := content.get("src", "")):
                yield _joined(posixpath.dirname(member), source), " ".join(name.split())


def _joined(folder: str, href: str) -> str:
    return posixpath.normpath(posixpath.join(folder, unquote(href.partition("#")[0])))


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
                name = local_name(element)
                style = _attribute(element, "name") if name in ("style", "list-style") else ""
                if name == "style":
                    self._parents[style] = _attribute(element, "parent-style-name")
                    marks = {key.rpartition("}")[2]: value for part in element for key, value in part.attrib.items()}
                    tags = (("strong", marks.get("font-weight") == "bold"), ("em", marks.get("font-style") == "italic"))
                    if _attribute(element, "family") == "text" and any(on for _, on in tags):
                        self._inline[style] = tuple(tag for tag, on in tags if on)
                elif name == "list-style":
                    levels = element.iterfind("{*}list-level-style-number")
                    self._numbered |= {(style, _attribute(level, "level")) for level in levels}

    def text(self) -> str:
        """Return the HTML: the body, footnotes and endnotes, and comments."""
        body = "".join(self._block(part) for part in self._content.iter() if local_name(part) == "text" and len(part))
        notes = f"<ol>{''.join(f'<li>{note}</li>' for note in self._notes)}</ol>" if self._notes else ""
        comments = "".join(f"<li>{comment}</li>" for comment in self._comments)
        return body + notes + (f"<p>Comments:</p><ul>{comments}</ul>" if comments else "")

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
                written.append(f"<table>{''.join(self._rows(part, 'td'))}</table>")
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
        if name == "note":  # a footnote or endnote, of which only the mark stays here
            body = element.find("{*}note-body")
            self._notes.append("")
            number = len(self._notes)
            self._notes[-1] = self._block(body) if body is not None else ""
            return f"[{number}]"
        if name == "annotation":
            author = element.findtext("{*}creator")
            begun = f"<p>{escape(author)}: " if author else "<p>"
            self._comments.append(self._block(element).replace("<p>", begun, 1))
            return ""
        if name in ("frame", "custom-shape", "text-box", "g"):  # its text, and the description of a picture
            texts = [part.text for part in element if local_name(part) in ("title", "desc") and part.text]
            shown = f"<p>{escape(' '.join(' '.join(texts).split()))}</p>" if texts else ""
            self._later.append(shown + self._block(element))
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

    def _list(self, element: Element, lists: tuple[str, int]) -> str:
        style, depth = _attribute(element, "style-name") or lists[0], lists[1] + 1
        tag = "ol" if (style, str(depth)) in self._numbered else "ul"
        items = [self._block(item, (style, depth)) for item in element]
        if items and all(text.startswith("<h") for text in items if text):  # numbered headings are no list
            return "".join(items)
        return f"<{tag}>{''.join(f'<li>{text}</li>' for text in items if text)}</{tag}>"

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
