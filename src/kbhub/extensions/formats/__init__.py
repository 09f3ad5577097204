"""Text other than Markdown, and files whose text is converted: Office, EPUB, PDF, HTML, mail, notebooks and others."""

from functools import partial

from kbhub.workspace.extensions import Extension, Format

_HERE = "kbhub.extensions.formats"
_OFFICE = partial(Format, extra="documents")
_TEXT = partial(Format, markdown=f"{_HERE}.translation:in_markdown")
_PDF = partial(Format, extra="pdf", library="pypdf", parts=True, limit="limits.pdfBytes")

EXTENSION = Extension(
    formats=(
        _TEXT((".rst",), "reStructuredText", scan=f"{_HERE}.rst:scan_rst"),
        # Or requests to a server.
        _TEXT((".rest",), "reStructuredText", scan=f"{_HERE}.rst:scan_rst", unasked=False),
        _TEXT((".org",), "Org", scan=f"{_HERE}.markup:scan_org"),
        _TEXT((".adoc", ".asciidoc"), "AsciiDoc", scan=f"{_HERE}.markup:scan_adoc"),
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
