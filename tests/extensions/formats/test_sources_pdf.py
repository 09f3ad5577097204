"""PDF files are searched and read by page, and none of them can do harm."""

import time

import pytest

import kbhub.extensions.formats.pdf
import kbhub.workspace.formats
from conftest import synced
from kbhub.types import Query
from pdfs import a_pdf, encrypted

pytestmark = pytest.mark.usefixtures("parsed_here")

PAGES = ("The intake pump\nprimes itself.", "Valve torque is 12 Nm.", "", "Spare parts list.")
MANUAL = a_pdf(*PAGES, title="Pump manual", outline=(("Start", 1), ("Maintenance", 2)))


def read(hub, ref):
    result = hub.read([ref])
    assert not result.unread, result.unread
    return result.readings[0]


@pytest.fixture
def hub(environment):
    """A hub over a manual, on the first of December 2025."""
    environment.write("knowledge/manual.pdf", MANUAL)
    return synced(environment, clock=lambda: 1_764_547_200.0)


def problems(hub):
    return {one.subject: one.message for one in hub.status().bases[0].problems}


def test_a_page_is_found_with_its_number_chapter_and_day_and_pages_and_chapters_are_read_by_their_names(
    hub, environment
):
    """The hit names document, chapter and page, and its lines are those that reading shows."""
    hit = hub.search(Query(text="valve torque")).hits[0]
    assert ("manual.pdf", "Pump manual", ("Maintenance", "Page 2"), "pdf", 29) == (
        hit.ref, hit.title, hit.headings, hit.kind, hit.age_days,
    )  # fmt: skip
    assert "Valve torque is 12 Nm." in hit.excerpt
    assert "## Page 2\nValve torque is 12 Nm." == read(hub, f"manual.pdf:{hit.start_line}-{hit.end_line}").text

    # What is not indexed yet is read as it will be when it is; pages without text are left out.
    environment.write("knowledge/copy.pdf", MANUAL)
    indexed, fresh = read(hub, "manual.pdf"), read(hub, "copy.pdf")
    assert (indexed.text, indexed.title, indexed.hash) == (fresh.text, fresh.title, fresh.hash)
    assert "author: Ada" in fresh.text
    assert "## Page 3" not in fresh.text
    assert "## Page 4\nSpare parts list." in fresh.text
    for name in ("manual.pdf", "copy.pdf"):
        assert "## Page 2\nValve torque is 12 Nm." == read(hub, f"{name}#Page 2").text.strip()
        chapter = read(hub, f"{name}#Maintenance").text.split("\n")
        assert ["## Page 2", "## Page 4"] == [line for line in chapter if line.startswith("##")]


BAD = {
    "encrypted": (encrypted(MANUAL, "secret"), "It is encrypted"),
    "scan": (a_pdf("", ""), "None of its 2 pages has text"),
    "cut": (MANUAL[: len(MANUAL) // 2], "It is no PDF that can be read"),
    "other": (b"no pdf at all", "It is no PDF that can be read"),
    "empty": (b"", "It is no PDF that can be read"),
    "too-much": (a_pdf("x", content=b"q " * 6_000), "Pages that cannot be read are left out: 1."),
}


def test_a_file_that_cannot_be_read_is_reported(environment, monkeypatch):
    monkeypatch.setitem(kbhub.extensions.formats.pdf._LIMITS, "stream_parsing_work_maximum_count", 5_000)
    for name, (data, _) in BAD.items():
        environment.write(f"knowledge/{name}.pdf", data)
    environment.write("knowledge/note.md", "# Note\n\nAbout onions.\n")
    hub = synced(environment)
    assert ["note.md"] == [hit.ref for hit in hub.search(Query(text="onions", mode="keyword")).hits]
    for name, (_, says) in BAD.items():
        assert says in problems(hub)[f"{name}.pdf"]
        assert says in hub.read(f"{name}.pdf").unread[0].message


def test_a_file_that_anybody_may_open_or_that_can_be_mended_is_read(environment):
    """Encrypted with an empty password, as printing restrictions are; with a table of objects that lies."""
    environment.write("knowledge/open.pdf", encrypted(MANUAL, ""))
    environment.write("knowledge/bent.pdf", MANUAL[: MANUAL.index(b"startxref")] + b"startxref\n7\n%%EOF\n")
    hub = synced(environment)
    assert "open.pdf" not in problems(hub)
    for name in ("open.pdf", "bent.pdf"):
        assert "Valve torque" in read(hub, name).text


def test_time_is_bounded(monkeypatch):
    monkeypatch.setattr(kbhub.extensions.formats.pdf, "PDF_SECONDS", 0.2)
    data = a_pdf(*["x"] * 50, content=b"BT /F1 9 Tf " + b"(a) Tj " * 20_000 + b"ET")
    started = time.monotonic()
    document = kbhub.extensions.formats.pdf.read_pdf("slow.pdf", data)
    assert "It takes too long; pages from" in document.problems[0]
    assert time.monotonic() - started < 20  # all of it would take 50 times 0.5 s and more
