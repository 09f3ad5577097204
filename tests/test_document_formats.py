"""Documents of every format, and docs beside knowledge, are indexed, found, read and watched as Markdown is."""

import json
import os
import shutil
import time

import pytest

import kbhub.workspace.formats
from conftest import make_environment, synced
from kbhub.documents import source
from kbhub.editing.audit import audit
from kbhub.editing.documents import write_document
from kbhub.editing.renames import rename
from kbhub.errors import WriteRefused
from kbhub.reading.graph import resolved_links
from kbhub.reading.read import read
from kbhub.render.bases import sync_report
from kbhub.render.terminal import text as text_of
from kbhub.types import Query
from kbhub.workspace.formats import FORMATS
from office_files import a_docx, a_pptx, an_epub, an_odt, an_xlsx, paragraph
from pdfs import a_pdf

WORDS = "The intake pump primes itself."


def words(name: str) -> str:
    """A text of its own for each file: of equal ones a search shows the first."""
    return f"{WORDS} It has {name * 3} in it."


LINES = f"Intake\n======\n\n{WORDS}\n"
CELL = {"cell_type": "markdown", "source": ["# Intake\n", "\n", words("ipynb"), "\n\n[x](gone.md)"]}
NODE = {"id": "a", "type": "text", "text": f"# Intake\n\n{words('canvas')}"}
HEADING = paragraph("Intake", "heading1")
FILES: dict[str, str | bytes] = {
    "a.docx": a_docx(HEADING, paragraph(words("docx"))),
    "a.docm": a_docx(HEADING, paragraph(words("docm")), more={"word/vbaProject.bin": b"\xd0\xcf"}),
    "a.pptx": a_pptx(("Intake", [words("pptx")], "")),
    "a.xlsx": an_xlsx(("Intake", [["Part", "Is"], ["pump", words("xlsx")]])),
    "a.odt": an_odt(f'<text:h text:outline-level="1">Intake</text:h><text:p>{words("odt")}</text:p>'),
    "a.epub": an_epub(f"<h1>Intake</h1><p>{words('epub')}</p>"),
    "a.pdf": a_pdf(words("pdf"), title="Pump manual"),
    "a.ipynb": json.dumps({"nbformat": 4, "metadata": {}, "cells": [CELL]}),
    "a.canvas": json.dumps({"nodes": [NODE], "edges": []}),
    "a.eml": f"From: Ada <ada@example.org>\nSubject: Intake\nContent-Type: text/plain\n\n{words('eml')}\n",
    "a.mbox": f"From ada Tue\nSubject: Intake\n\n{words('mbox')}\n",
    "a.rst": LINES + words("rst"),
    "a.org": f"* Intake\n\n{words('org')}\n",
    "a.adoc": f"= Intake\n\n{words('adoc')}\n",
}
ASKED = {
    "a.html": f"<h1>Intake</h1><p>{words('html')}</p>",
    "a.txt": LINES + words("txt"),
    "a.rest": LINES + words("rest"),
}
EVERY = FILES | ASKED
KINDS = {
    ".docx": "docx", ".docm": "docx", ".pptx": "pptx", ".xlsx": "xlsx", ".odt": "odt", ".epub": "epub", ".pdf": "pdf",
    ".ipynb": "notebook", ".canvas": "canvas", ".eml": "mail", ".mbox": "mail", ".html": "html",
}  # fmt: skip


def started(monkeypatch):
    processes, start = [], source.start
    monkeypatch.setattr(source, "start", lambda module: processes.append(start(module)) or processes[-1])
    return processes


INCLUDING = '{"knowledge": "knowledge", "include": ["*.html", "*.txt", "*.rest"], "writable": true}'


def fill(environment):
    """Write a file of each format, those among them that only `include` takes."""
    environment.write(".kbhub.json", INCLUDING)
    for name, data in EVERY.items():
        environment.write(f"knowledge/{name}", data)
    return environment


@pytest.fixture(scope="module")
def every(tmp_path_factory):
    """A base with a file of each format, indexed once, and the processes that this took."""
    environment = fill(make_environment(tmp_path_factory.mktemp("formats")))
    with pytest.MonkeyPatch.context() as patch:
        processes = started(patch)
        hub = environment.hub()
        (report,) = hub.sync()
    assert (report.added, report.failed) == (len(EVERY), ())
    return environment, hub, processes


def texts_of(hub, refs):
    result = hub.read(refs)
    assert not result.unread, result.unread
    return {reading.ref.partition(":")[0]: reading.text for reading in result.readings}


def test_each_is_found_read_and_of_its_kind(every):
    """By one process for all of them, which is gone afterwards; reading takes the text from the index."""
    _, hub, processes = every
    assert [process.returncode is not None for process in processes] == [True]

    hits = hub.search(Query(text="intake pump primes", limit=50)).hits
    assert {hit.path: hit.kind for hit in hits} == {name: KINDS.get(name[1:], "document") for name in EVERY}
    assert all(any("ntake" in part or part == "Page 1" for part in (hit.title, *hit.headings)) for hit in hits)
    for kind in ("docx", "document"):
        found = hub.search(Query(text=f"pump kind:{kind}", mode="keyword", limit=50)).hits
        assert {hit.path for hit in found} == {hit.path for hit in hits if hit.kind == kind}
    texts = texts_of(hub, [f"{hit.ref}:{hit.start_line}-{hit.end_line}" for hit in hits])
    assert [name for name, text in texts.items() if WORDS not in text] == []
    assert len(texts) == len(hits)
    assert len(processes) == 1


def test_what_is_read_is_the_same_from_index_and_file(every, parsed_here):
    """A file that is not indexed yet is read as it will be when it is, its headings too."""
    environment, hub, _ = every
    copies = {name: f"b{name[1:]}" for name in EVERY}
    for name in ("a.docm", "a.rest", "a.canvas", "a.html"):  # of parsers like others
        del copies[name]
    headings = {"a.docx": "Intake", "a.pptx": "Slide 1: Intake", "a.adoc": "Intake"}
    for name, copy in copies.items():
        environment.write(f"knowledge/{copy}", EVERY[name])
    fresh = {one.ref: one for one in hub.read([*copies.values()]).readings}
    sections = texts_of(hub, [f"{copies[name]}#{heading}" for name, heading in headings.items()])
    for copy in copies.values():
        (environment.project / "knowledge" / copy).unlink()

    for one in hub.read([*copies]).readings:
        assert (one.text, one.hash) == (fresh[copies[one.ref]].text, fresh[copies[one.ref]].hash), one.ref
    for name, text in texts_of(hub, [f"{name}#{heading}" for name, heading in headings.items()]).items():
        assert sections[copies[name]] == text
        assert WORDS in text, name


def test_a_file_that_did_not_change_is_not_parsed_again_and_a_converted_one_not_written_nor_audited(every, monkeypatch):
    """By its content where its time is new."""
    environment, hub, _ = every
    processes = started(monkeypatch)
    os.utime(environment.project / "knowledge/a.docx")
    (report,) = hub.sync()
    assert (report.changed, processes) == (0, [])
    # Nobody is asked to fix a link or a title in it.
    found = {one.path for one in audit(hub, checks=["links", "titles"]).findings}
    assert found <= {"a.rst", "a.rest", "a.txt"}
    for name in [name for name in EVERY if name[1:] in KINDS]:
        before = (environment.project / "knowledge" / name).read_bytes()
        with pytest.raises(WriteRefused, match="cannot be written as text"):
            write_document(hub, name, text="# New\n", mode="append")
        assert (environment.project / "knowledge" / name).read_bytes() == before


def test_texts_are_indexed_before_what_must_be_converted(environment, monkeypatch, parsed_here):
    for name in ("a.ipynb", "z.md", "a.docx", "b.rst"):
        environment.write(f"knowledge/{name}", FILES.get(name, LINES + name))
    tried, found = source.IsolatedParser._tried, []

    def looked(*arguments):
        found.extend(hit.ref for hit in environment.hub().search(Query(text="pump", mode="keyword")).hits)
        return tried(*arguments)

    monkeypatch.setattr(source.IsolatedParser, "_tried", looked)
    environment.hub().sync()
    assert sorted(found[:2]) == ["b.rst", "z.md"]


def test_a_lock_file_is_no_document_and_what_cannot_be_read_is_a_problem(environment, parsed_here, kbhub):
    """Office leaves it beside the document; it is neither a problem nor counted."""
    environment.write("knowledge/a.docx", FILES["a.docx"])
    environment.write("knowledge/~$a.docx", b"\x03Ada")
    (report,) = environment.hub().sync()
    assert (report.added, report.failed, report.passed_over) == (1, (), {})

    # The others are found, `status` names it, the next sync does not try it again, and reading it says why.
    environment.write("knowledge/good.docx", FILES["a.docx"])
    environment.write("knowledge/bad.docx", b"PK\x03\x04 no zip")
    told = "It cannot be read (it is no such file, or broken); left out."
    assert f"it has no text. {told}" in environment.hub().read("bad.docx").unread[0].message
    kbhub("admin", "index", code=0)
    assert f"bad.docx: {told}" in kbhub("status").out
    assert "good.docx" in kbhub("search", "pump", "--mode", "keyword").out
    assert kbhub("admin", "index", "--json").json["reports"][0]["changed"] == 0
    assert f"it has no text. {told}" in environment.hub().read("bad.docx").unread[0].message


def test_a_file_of_a_gigabyte_is_not_read_and_text_alone_starts_no_process(environment, monkeypatch):
    processes = started(monkeypatch)
    for name in ("a.md", "a.rst", "a.org", "a.adoc"):
        environment.write(f"knowledge/{name}", LINES)
    for name in ("huge.docx", "huge.html", "huge.epub", "huge.rst"):
        with environment.write(f"knowledge/{name}", b"").open("wb") as file:
            file.truncate(1 << 30)
    environment.write(".kbhub.json", '{"knowledge": "knowledge", "include": ["*.html"]}')
    hub = environment.hub()
    began = time.monotonic()
    hub.sync()

    assert time.monotonic() - began < 20
    said = {one.subject: one.message for one in hub.status().bases[0].problems}
    assert all("`limits.convertedBytes`" in said[f"huge.{suffix}"] for suffix in ("docx", "html", "epub"))
    assert "`limits.fileBytes`" in said["huge.rst"]
    answer = hub.read(["huge.rst", "a.md"])
    assert [reading.ref for reading in answer.readings] == ["a.md"]
    assert "limit" in answer.unread[0].message
    assert processes == []


@pytest.fixture
def without_extras(monkeypatch):
    """A machine that has kbhub alone."""
    kbhub.workspace.formats.lacks_extra.cache_clear()
    monkeypatch.setattr(kbhub.workspace.formats, "find_spec", lambda name: None)
    yield
    kbhub.workspace.formats.lacks_extra.cache_clear()


def test_without_the_extra_office_files_are_passed_over_or_a_problem(environment, without_extras, parsed_here):
    (report,) = fill(environment).hub().sync()
    assert report.added == len(EVERY) - 5
    assert text_of(sync_report(report)).splitlines()[1:] == [
        "  not indexed: 1 .docm, 1 .docx, 1 .pptx, 1 .xlsx (install `kbhub[documents]`), 1 .pdf (install `kbhub[pdf]`)"
    ]
    environment.write(".kbhub.json", '{"knowledge": "knowledge", "include": ["*.docx"]}')
    hub = synced(environment)
    assert [one.message for one in hub.status().bases[0].problems] == [
        "Reading Word documents needs the extra `kbhub[documents]`; install it, or leave .docx files out of `include`."
    ]
    assert "kbhub[documents]" in hub.read(["a.docx"]).unread[0].message


def test_a_document_that_converted_files_link_to_can_be_renamed(environment, parsed_here):
    """Their links are named, not rewritten, and neither are those of other text formats."""
    environment.write(".kbhub.json", '{"knowledge": "knowledge", "include": ["*.html"], "writable": true}')
    environment.write("knowledge/pump.md", "# Pump\n")
    environment.write("knowledge/a.md", "# A\n\n[pump](pump.md)\n")
    environment.write("knowledge/a.html", '<h1>B</h1><p><a href="pump.md">pump</a></p>')
    hub = synced(environment)
    before = (environment.project / "knowledge/a.html").read_bytes()
    renamed = rename(hub, "pump.md", "valve.md")

    assert [change.ref for change in renamed.links] == ["a.md"]
    assert [(one.subject, one.message) for one in renamed.not_updated] == [
        ("a.html", "Links in HTML are not rewritten; update them in the program that wrote the file.")
    ]
    assert (environment.project / "knowledge/a.html").read_bytes() == before


@pytest.mark.parametrize("suffix", [".rst", ".adoc", ".org", ".md"])
def test_docs_of_any_text_format_are_a_projects_knowledge(environment, suffix):
    for other in (".txt", ".html", ".docx", ".ipynb"):  # which alone are none
        environment.write(f"docs/a{other}", "x")
    assert environment.hub().discovery().bases == ()
    shutil.rmtree(environment.project / "docs")
    environment.write(f"docs/guide/a{suffix}", LINES)
    environment.write(f"README{suffix}", LINES)
    (base,) = environment.hub().discovery().bases
    assert (base.origin, base.only) == ("docs", (f"README{suffix}", "docs"))
    assert environment.hub().sync()[0].added == 2


def test_every_suffix_of_the_table_is_tested():
    tested = {name[1:] for name in EVERY} | {".md"}
    untested = {row.name for row in FORMATS if not tested & set(row.suffixes)}
    assert untested == set()


REFS = {"caching.md", "README.md", "docs@README.md", "docs@docs/caching.md", "docs@docs/guide/crates.md"}


@pytest.fixture
def shop(environment):
    """A repository with documents of the same names in both places, which link to each other."""
    environment.write("knowledge/caching.md", "# Caching crates\n\nSee [the guide](../docs/guide/crates.md).\n")
    environment.write("knowledge/README.md", "# What we know about crates\n")
    environment.write("README.md", "# Shop of crates\n\nThe code is in [src](src/shop.py).\n")
    environment.write("docs/caching.md", "# Caching crates, for users\n")
    environment.write("docs/guide/crates.md", "# Crates\n\nWhy: [caching](../../knowledge/caching.md).\n")
    environment.write("src/shop.py", "crates = 1\n")
    return environment


def test_every_ref_that_search_prints_can_be_read_and_links_between_them_are_followed(shop, kbhub):
    hits = kbhub("search", "crates", "-n", "20", "--json", code=0).json["hits"]
    assert {hit["ref"] for hit in hits} == REFS
    for hit in hits:
        (reading,) = read(shop.hub(), [hit["ref"]]).readings
        assert (reading.ref, reading.title) == (hit["ref"], hit["title"])
        assert kbhub("read", hit["docid"], code=0).out == kbhub("read", hit["ref"], code=0).out

    hub = synced(shop)
    links = [link for base in hub.discovery().bases for link in resolved_links(hub, base)]
    assert {(link.path, link.status, link.goal) for link in links} == {
        ("caching.md", "document", ("docs", "docs/guide/crates.md")),
        ("docs/guide/crates.md", "document", ("project", "caching.md")),
        ("README.md", "file", None),
    }
    assert [one.check for one in audit(hub).findings if "link" in one.check] == []
