"""Files whose text is converted: Office, OpenDocument, EPUB, PDF, HTML, mail, notebooks and canvases."""

from functools import partial

from kbhub.workspace.extensions import Extension, Format

_HERE = "kbhub.extensions.formats"
_OFFICE = partial(Format, extra="documents")
_PDF = partial(Format, extra="pdf", library="pypdf", parts=True, limit="limits.pdfBytes")

EXTENSION = Extension(
    formats=(
        Format((".html", ".htm", ".xhtml"), "HTML", "html", f"{_HERE}.html:read_html", unasked=False),
        Format((".ipynb",), "notebooks", "notebook", f"{_HERE}.notebook:read_notebook"),
        Format((".canvas",), "a canvas", "canvas", f"{_HERE}.notebook:read_canvas"),
        Format((".mbox",), "mailboxes", "mail", f"{_HERE}.mail:read_mailbox"),
        Format((".eml",), "mail", "mail", f"{_HERE}.mail:read_mail"),
        Format((".epub",), "EPUB", "epub", f"{_HERE}.packages:read_epub"),
        _OFFICE((".docx", ".docm"), "Word documents", "docx", f"{_HERE}.office:read_docx", library="mammoth"),
        _OFFICE((".pptx", ".pptm"), "presentations", "pptx", f"{_HERE}.office:read_pptx", library="pptx", parts=True),
        _OFFICE((".xlsx", ".xlsm"), "spreadsheets", "xlsx", f"{_HERE}.office:read_xlsx", library="openpyxl"),
        Format((".odt",), "OpenDocument text", "odt", f"{_HERE}.packages:read_odt"),
        _PDF((".pdf",), "PDF", "pdf", f"{_HERE}.pdf:read_pdf"),
    ),
)
