"""Files whose text is converted: Office, OpenDocument, EPUB, PDF, HTML, mail, notebooks and canvases."""

from kbhub.workspace.extensions import Extension, Format

_HERE = "kbhub.extensions.formats"

EXTENSION = Extension(
    formats=(
        Format((".html", ".htm", ".xhtml"), "HTML", "html", f"{_HERE}.html:read_html", unasked=False),
        Format((".ipynb",), "notebooks", "notebook", f"{_HERE}.notebook:read_notebook"),
        Format((".canvas",), "a canvas", "canvas", f"{_HERE}.notebook:read_canvas"),
        Format((".eml",), "mail", "mail", f"{_HERE}.mail:read_mail"),
        Format((".epub",), "EPUB", "epub", f"{_HERE}.packages:read_epub"),
        Format(
            (".docx", ".docm"),
            "Word documents",
            "docx",
            f"{_HERE}.docx:read_docx",
            extra="documents",
            library="mammoth",
        ),
        Format(
            (".pptx", ".pptm"),
            "presentations",
            "pptx",
            f"{_HERE}.pptx:read_pptx",
            extra="documents",
            library="pptx",
            parts=True,
        ),
        Format(
            (".xlsx", ".xlsm"),
            "spreadsheets",
            "xlsx",
            f"{_HERE}.xlsx:read_xlsx",
            extra="documents",
            library="openpyxl",
        ),
        Format((".odt",), "OpenDocument text", "odt", f"{_HERE}.packages:read_odt"),
        Format(
            (".pdf",),
            "PDF",
            "pdf",
            f"{_HERE}.pdf:read_pdf",
            extra="pdf",
            library="pypdf",
            parts=True,
            limit="limits.pdfBytes",
        ),
    ),
)
