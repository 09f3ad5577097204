"""Files of many formats, converted from Markdown that is known: words, headings and tables come back.

`benchmarks/make_corpus.py` makes the archive and says how. A format is added by one line of `READERS`.
"""

import lzma
import re
import tarfile
import unicodedata
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from kbhub.documents.chunking import chunk_document
from kbhub.documents.converted import chunk_parts
from kbhub.documents.markdown import parse_document, scan_blocks
from kbhub.documents.source import parse_text
from kbhub.extensions.formats.html import read_html
from kbhub.extensions.formats.notebook import read_notebook
from kbhub.extensions.formats.office import read_docx, read_pptx, read_xlsx
from kbhub.extensions.formats.packages import read_epub, read_odt
from kbhub.types import Document
from kbhub.workspace.formats import KINDS_OF_PARTS

ARCHIVE = Path(__file__).parent / "corpus.tar.xz"

LEAST_WORDS, LEAST_HEADINGS = 0.99, 0.98

READERS: dict[str, Callable[[str, bytes], Document]] = {
    "html": read_html, "ipynb": read_notebook, "rst": parse_text, "org": parse_text, "adoc": parse_text,
    "plain.txt": parse_text, "underlined.txt": parse_text, "docx": read_docx, "epub": read_epub, "odt": read_odt,
    "pptx": read_pptx, "xlsx": read_xlsx,
}  # fmt: skip
"""Format → its parser, which takes a path and the bytes."""

WITHOUT_HEADINGS = frozenset(("plain.txt",))
"""Formats that do not mark headings."""

ONE_LEVEL = frozenset(("pptx", "xlsx"))
"""Formats whose headings, of slides and sheets, are all of one level."""

WITHOUT_TABLES = frozenset(("plain.txt", "underlined.txt"))
"""Formats that do not mark tables."""

OWN_TABLES = frozenset(("rst", "org", "adoc"))
"""Formats whose tables stay as the file has them, so that their cells are not those of Markdown."""

_LINK = re.compile(r"\]\([^()]*\)")
_NOTE = re.compile(r"\[\^\d+\]:?")
_CELL = re.compile(r"(?<!\\)\|")
_NUMBER = re.compile(r"^[\s>]*\d+\. ", re.MULTILINE)
_TOKEN = re.compile(r"[^\W_]+")


@cache
def files() -> dict[str, bytes]:
    """Name → content, of all files of the archive."""
    with lzma.open(ARCHIVE) as packed, tarfile.open(fileobj=packed) as archive:
        return {member.name: archive.extractfile(member).read() for member in archive}  # type: ignore[union-attr]


def words(text: str) -> list[str]:
    """Words of a text, without the destinations of links and the numbers of footnotes and items."""
    text = _NUMBER.sub("", _NOTE.sub(" ", _LINK.sub("] ", text)))
    return _TOKEN.findall(unicodedata.normalize("NFKC", text).casefold())


def share(found: Counter[str], wanted: Counter[str]) -> float:
    """How much of what is wanted is found."""
    return (found & wanted).total() / max(1, wanted.total())


def source_of(name: str) -> Document:
    """The Markdown that a file was made of."""
    return parse_document("source.md", files()[f"{name.partition('/')[0]}/source.md"])


def source_words(source: Document) -> Counter[str]:
    """Words of the Markdown, without the languages of its code blocks."""
    openings = {first for first, _ in source.fences}
    lines = [line for number, line in enumerate(source.lines, 1) if number not in openings]
    return Counter(words("\n".join(lines)))


def right_headings(document: Document, source: Document, *, levels: bool) -> float:
    """Share of the headings that are found, in their order and with their level relative to the others.

    Without levels, a heading may begin with the number of its slide.
    """
    texts = [" ".join(words(heading.text)) for heading in document.headings]
    found, last = [], -1
    for heading in source.headings:
        text = " ".join(words(heading.text))
        after = range(last + 1, len(texts))
        last = next((at for at in after if texts[at] == text or (not levels and texts[at].endswith(f" {text}"))), last)
        if last in after:
            found.append(document.headings[last].level - heading.level if levels else 0)
    return max(Counter(found).values(), default=0) / max(1, len(source.headings))


def rows_of(document: Document, first: int, last: int) -> list[list[list[str]]]:
    """Words of each cell of each row of a pipe table."""
    lines = [line.strip().strip(">").strip() for line in document.lines[first - 1 : last]]
    return [[words(cell) for cell in _CELL.split(line)[1:-1]] for line in lines if line.strip("|-: ")]


def tables_without(document: Document, source: Document, *, cells: bool) -> list[tuple[int, int]]:
    """Tables of the Markdown that are no tables of the document, with all of their cells in their places."""
    missing = []
    # Those of a slide or a sheet are found when it is cut into chunks.
    spans = list(document.tables or scan_blocks(document.lines, 0, 0).tables)
    for span in source.tables:
        wanted = rows_of(source, *span)
        for place, found in enumerate(spans):
            if cells:
                rows = [row for row in rows_of(document, *found) if any(row)]
                same = rows == wanted
            else:
                # Words of a narrow column may be split, so the letters are compared.
                text = Counter("".join(document.lines[found[0] - 1 : found[1]]).casefold())
                same = Counter("".join(word for row in wanted for cell in row for word in cell)) <= text
            if same:
                del spans[: place + 1]
                break
        else:
            missing.append(span)
    return missing


def cases() -> list[tuple[str, str]]:
    """(name, format) of each converted file."""
    return [(name, ending) for name in sorted(files()) for ending in READERS if name.endswith(f".{ending}")]


def test_the_archive_has_all_formats_and_is_small():
    """It does not weigh on a clone, and each format has a dozen files."""
    endings = Counter(ending for _, ending in cases())
    assert ARCHIVE.stat().st_size < 2_000_000
    assert len(files()) > 200
    assert set(endings) == set(READERS)
    assert min(endings.values()) > 10


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("ending", sorted(READERS))
def test_words_headings_and_tables_come_back(ending, step):
    """Nearly all words, nearly all headings with their level, each table with its cells; `slow` takes all files."""
    short = []
    for name in [name for name, its in cases() if its == ending][::step]:
        document, source = READERS[ending](name, files()[name]), source_of(name)
        text = Counter(words("\n".join(document.lines)))
        if (found := share(text, source_words(source))) < LEAST_WORDS:
            short.append(f"{name}: {found:.3f} of the words")
        found = right_headings(document, source, levels=ending not in ONE_LEVEL)
        if ending not in WITHOUT_HEADINGS and found < LEAST_HEADINGS:
            short.append(f"{name}: {found:.3f} of the headings")
        missing = tables_without(document, source, cells=ending not in OWN_TABLES)
        if ending not in WITHOUT_TABLES and missing:
            short.append(f"{name}: no table for lines {missing}")
        if document.problems:
            short.append(f"{name}: {document.problems}")
        chunks = chunk_parts(document) if ending in KINDS_OF_PARTS else chunk_document(document)
        if Counter(words("\n".join(chunk.text for chunk in chunks))) != text:
            short.append(f"{name}: chunks with other words")

    assert short == []
