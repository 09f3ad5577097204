"""Convert OpenDocument text, by odfdo."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING
from xml.parsers import expat

import odfdo

from kbhub.documents.sources.converted import document_of_markdown
from kbhub.documents.sources.packages import ENCRYPTED, metadata_of, open_package

if TYPE_CHECKING:
    from kbhub.types import Document

REPEATED = 10_000
"""Most times that a cell, a row or a space may be repeated by its count; in a text, some hundred are many."""

_COUNTS = ("table:number-columns-repeated", "table:number-rows-repeated", "text:c")
_MANIFEST = "META-INF/manifest.xml"


def read(path: str, data: bytes) -> Document:
    """Convert an OpenDocument text.

    Args:
        path: relative to its base, with `/`.
        data: the whole file.

    Raises:
        Exception: it is broken, or refused by `open_package`.
    """
    with open_package(data) as package:
        if b"encryption-data" in package.read(_MANIFEST):
            raise ValueError(ENCRYPTED)
        title, values = metadata_of(package, "meta.xml")
        _check_counts(package.read("content.xml"))
    text = odfdo.Document(io.BytesIO(data)).to_markdown()
    return document_of_markdown(path, text, title=title, front_matter=values, shown=tuple(values))


def _check_counts(content: bytes) -> None:
    """Refuse a file of which a few bytes stand for a million cells."""

    def check(_: str, attributes: dict[str, str]) -> None:
        for name in _COUNTS:
            if len(count := attributes.get(name, "")) > 4 and int(count) > REPEATED:
                raise ValueError(f"it repeats something {count[:20]} times")

    parser = expat.ParserCreate()
    parser.StartElementHandler = check
    parser.Parse(content, True)
