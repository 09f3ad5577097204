"""Convert Word documents, by mammoth."""

from __future__ import annotations

import io
import re

import mammoth

from kbhub.documents.converted import document_of_markdown
from kbhub.extensions.formats.html import markdown_of
from kbhub.extensions.formats.packages import metadata_of, open_package
from kbhub.types import Document

STYLES = "\n".join(
    (
        "p[style-name='Title'] => h1:fresh",
        "p[style-name='Subtitle'] => p:fresh",
        *(
            f"p[style-name='{name}'] => blockquote > p:fresh"
            for name in ("Quote", "Intense Quote", "Block Text", "Quotations")
        ),
        *(
            f"p[style-name='{name}'] => pre:separator('\\n')"
            for name in ("Source Code", "Preformatted Text", "HTML Preformatted", "Code", "Plain Text")
        ),
        *(f"r[style-name='{name}'] => code" for name in ("Verbatim Char", "Source Text", "HTML Code")),
        "comment-reference => sup",
        "u => ",
    )
)
"""Word's styles, and those of pandoc and LibreOffice, beyond what mammoth knows. Comments are listed at the end;
deletions that are tracked are left out, and insertions are text."""

_MARK = re.compile(r'<a href="#(?:footnote|endnote|comment)-[^"]*" id="[^"]*">(\[[^<]*\])</a>')
_RAISED = re.compile(r"<sup>((?:\[[^<\]]*\])+)</sup>")
_BACK = re.compile(r'(?<!\s)\s*<a href="#(?:footnote|endnote|comment)-ref-[^"]*">↑</a>')
_ANCHOR = re.compile(r'<a id="[^"]*"></a>')


def read_docx(path: str, data: bytes) -> Document:
    """Convert a Word document; a broken one, or one that `open_package` refuses, raises any exception."""
    with open_package(data) as package:
        title, values = metadata_of(package, "docProps/core.xml")
    result = mammoth.convert_to_html(
        io.BytesIO(data),
        style_map=STYLES,
        convert_image=mammoth.images.img_element(lambda _: {"src": ""}),  # only its description is shown
        include_embedded_style_map=False,
    )
    html = _RAISED.sub(r"\1", _MARK.sub(r"\1", _ANCHOR.sub("", _BACK.sub("", result.value))))
    return document_of_markdown(path, markdown_of(html), title=title, front_matter=values, shown=tuple(values))
