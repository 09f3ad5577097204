"""Results read well in a terminal, and no document can take it over."""

from __future__ import annotations

import json
import unicodedata
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbhub.reading.reports import BaseStatus, Reading, Status
from kbhub.render.bases import status_report, sync_report, trust_report
from kbhub.render.search import read_text, search_notes, search_report
from kbhub.render.terminal import Painter, ago_text, json_escaped, neutralised, size_text, text, visible_line
from kbhub.sync.comparison import SyncReport
from kbhub.types import Base, Hit, Problem, Query, SearchResult, Signal, Skipped, Span, Trace, Workspace
from kbhub.workspace.trust import Grant

PLAIN, COLOURED = Painter(), Painter(colour=True)
NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
HOSTILE = "\x1b]0;owned\x07\x1b[2Jred\x9b31m \u202egnp.exe\u2066 \x08\x7f\rover\u2028line"


def hit(**changes) -> Hit:
    fields = {
        "ref": "notes@ops/rollback.md",
        "docid": "#a1b2c3",
        "base": "notes",
        "path": "ops/rollback.md",
        "title": "Rolling back",
        "headings": ("Rolling back", "When the migration ran"),
        "start_line": 12,
        "end_line": 20,
        "excerpt": "Roll the release back first.\n\n    orchard rollback",
        "excerpt_line": 12,
        "score": 0.9132,
        "age_days": 40,
    }
    return Hit(**{**fields, **changes})


def result(*hits: Hit, **changes) -> SearchResult:
    query = {"query": "rollback release", "terms": ("rollback", "release"), "mode": "hybrid", "searched": ("notes",)}
    return SearchResult(**{**query, "hits": hits, "total": len(hits), **changes})


def search_text(found: SearchResult, paint: Painter) -> str:
    return text(search_report(found, Query(text=found.query)), paint)


def acts_on_terminals(text: str) -> set[str]:
    """Characters that a terminal does more with than show them."""
    bidirectional = {"RLO", "LRO", "RLE", "LRE", "PDF", "RLI", "LRI", "FSI", "PDI"}
    return {
        character
        for character in text
        if (unicodedata.category(character) == "Cc" and character not in "\n\t")
        or unicodedata.bidirectional(character) in bidirectional
    }


@given(st.text() | st.text(st.characters(categories=["Cc", "Cf", "Zl", "Zp"])))
def test_neutralised_text_shows_every_character_and_does_nothing(text):
    """Whatever a document holds, nothing of it is acted upon and nothing ordinary changes."""
    assert not acts_on_terminals(neutralised(text))
    assert "\n" not in visible_line(text)
    assert not acts_on_terminals(visible_line(text))


@pytest.mark.parametrize("text", ["plain", "tab\tand\nline", "日本語", "naïve – “quoted” 👩‍💻", "שלום"])
def test_ordinary_text_is_left_alone(text):
    """Only what is dangerous changes."""
    assert neutralised(text) == text


@given(st.text())
def test_escaped_json_means_the_same(text):
    """A program reads from `--json` what is in the file; a terminal sees nothing to act upon."""
    document = json_escaped(json.dumps(text, ensure_ascii=False))

    assert json.loads(document) == text
    assert not acts_on_terminals(document)


def test_hits_are_compact_blocks(snapshot):
    """Score, place and docid, then the thread of headings, then the excerpt behind a rule."""
    also = (Span(start_line=30, end_line=35), Span(start_line=50, end_line=51))
    trace = Trace(signals=(Signal(name="keyword", rank=1, value=7.25, contribution=0.5),), factors={"weight": 0.5})
    hits = (
        hit(also=also, trace=trace),
        hit(ref="glossary.md", title="Glossary", headings=(), stale=True, age_days=800, score=0.5),
    )

    assert search_text(result(*hits), PLAIN) == snapshot


def test_terms_are_highlighted_only_where_there_is_colour():
    """Stems count: `rollback` and `release` are found in other forms too."""
    coloured = search_text(result(hit(excerpt="Two releases; a rollback.")), COLOURED)

    assert "Two \x1b[1;33mreleases\x1b[0m; a \x1b[1;33mrollback\x1b[0m." in coloured
    assert "\x1b" not in search_text(result(hit()), PLAIN)


@pytest.mark.parametrize(("days", "text"), [(364, ""), (400, "  1 year old"), (800, "  2 years old")])
def test_old_documents_show_their_age(days, text):
    """In years, as soon as it is one."""
    assert search_text(result(hit(age_days=days, stale=days > 365)), PLAIN).splitlines()[0].endswith(f"#a1b2c3{text}")


def test_what_is_outdated_shows_why_and_no_age_of_nothing():
    """Its age alone would not say it; an old one shows both."""
    young, old = (hit(stale=True, outdated="expires 2020-01-01", age_days=days) for days in (40, 800))

    assert search_text(result(young), PLAIN).splitlines()[0].endswith("#a1b2c3  outdated: expires 2020-01-01")
    assert search_text(result(old), PLAIN).splitlines()[0].endswith("  2 years old  outdated: expires 2020-01-01")


def test_all_but_the_first_excerpt_are_shortened():
    """The best hit answers; the others say whether they are worth opening."""
    long = "\n".join(f"line {number} about other things" for number in range(40)) + "\nthe rollback of a release"
    first, second = search_text(result(hit(excerpt=long), hit(excerpt=long)), PLAIN).split("\n\n0.")

    assert "line 0 " in first
    assert "the rollback of a release" in second
    assert "line 0 " not in second


def test_no_part_of_a_hit_reaches_the_terminal_raw():
    """Escape sequences in text, title, headings and names are shown, not obeyed."""
    hostile = hit(
        ref=f"{HOSTILE}\n.md",
        title=HOSTILE,
        headings=(HOSTILE, f"{HOSTILE}\n"),
        excerpt=HOSTILE,
        outdated=f"{HOSTILE}\n",
    )
    text = search_text(result(hostile), PLAIN)

    assert not acts_on_terminals(text)
    assert "␛]0;owned␇" in text
    assert len(text.splitlines()) == 3
    assert acts_on_terminals(search_text(result(hostile), COLOURED)) == {"\x1b"}


def test_a_document_cannot_imitate_the_lines_around_it():
    """Every line of an excerpt stands behind a rule."""
    text = search_text(result(hit(excerpt="innocent\n1.00  project:1-2  #ffffff\n      Trust me")), PLAIN)

    assert [line for line in text.splitlines()[2:] if not line.startswith("  │")] == []


def test_notes_say_why_nothing_was_found():
    """Which bases were searched, which not and why, and which words occur nowhere."""
    found = result(
        unmatched=("zebra",), skipped=(Skipped(base="old", reason="Its folder is gone."),), notes=("Keyword only.",)
    )

    assert search_notes(found, Query(text="x")) == [
        "No hits. Searched: notes.",
        "Keyword only.",
        "No document contains: zebra.",
        "Not searched: old. Its folder is gone.",
    ]


@pytest.mark.parametrize(("verdict", "said"), [("strong", 0), ("weak", 1), ("none", 1)])
def test_notes_ask_for_other_words_after_a_weak_answer(verdict, said):
    """Once: not on further pages, nor when other words were given."""
    found = result(hit(), verdict=verdict)

    assert sum("--also" in note for note in search_notes(found, Query(text="x"))) == said
    assert search_notes(found, Query(text="x", queries=("y",))) == search_notes(found, Query(text="x", offset=5)) == []


def test_notes_lead_to_the_next_page():
    """Nobody has to guess that there is more, or that a page lies behind the last."""
    more = result(hit(), hit(), total=7)

    assert search_notes(more, Query(text="x", limit=2, offset=2)) == [
        "Showing hits 3 to 4 of 7; `--page 3` shows more."
    ]
    assert search_notes(result(total=7), Query(text="x", offset=10)) == [
        "No hits on page 3, only 7 in total. Searched: notes."
    ]


def test_documents_are_read_verbatim_or_neutralised():
    """A pipe gets the text, a terminal its harmless form, and headers only stand before several."""
    reading = Reading(
        ref="a.md", docid="#a1b2c3", title="A\x1b[1m", start_line=3, end_line=4, total_lines=9, text="x\x1b[2J\ny"
    )

    assert read_text([reading], headers=False, verbatim=True) == "x\x1b[2J\ny\n"
    assert read_text([reading], headers=False, verbatim=False) == "x␛[2J\ny\n"
    assert (
        read_text([reading, reading], headers=True, verbatim=True).count("==> a.md:3-4 of 9  #a1b2c3  A␛[1m <==\n") == 2
    )


def test_an_empty_document_reads_as_nothing():
    """No line is invented."""
    empty = Reading(ref="a.md", docid="#a1b2c3", title="a", start_line=1, end_line=0, total_lines=0, text="")

    assert read_text([empty], headers=False, verbatim=True) == ""


def test_a_report_names_each_failed_file():
    """Counts on one line, each failure and note on its own."""
    report = SyncReport(
        base="notes",
        added=3,
        failed=(Problem(subject="bad\x1b.md", message="Permission denied."),),
        chunks=9,
        vectors_made=4,
        vectors_reused=5,
        seconds=1.26,
        notes=("Another process is indexing it.",),
    )

    assert text(sync_report(report)).splitlines() == [
        "notes: 3 added, 0 changed, 0 removed, 0 unchanged, 1 failed; 9 chunks, 4 vectors made, 5 reused; 1.3 s",
        "  failed bad␛.md: Permission denied.",
        "  Another process is indexing it.",
    ]


def test_status_is_an_aligned_table_with_problems(snapshot):
    """Wide characters count two columns; problems say what they are about."""
    notes = Base(id="覚え書き", path=Path("/home/x/notes"), origin="config")
    project = Base(id="project", path=Path("/w/knowledge"), origin="knowledge", names=("shop",))
    bad = Problem(subject="a.md", message="Broken front matter.")
    bases = (
        BaseStatus(
            base=project,
            documents=12,
            chunks=1234,
            index=Path("/c/project.db"),
            index_bytes=5 << 20,
            synced="2026-06-01T09:00:00+00:00",
            problems=(bad,),
        ),
        BaseStatus(base=notes, indexing="3 of 9 files"),
    )
    status = Status(
        version="1.2.3",
        workspace=Workspace(directory=Path("/w"), source="--root", git_root=Path("/w")),
        config=Path("/home/x/.kbhub.json"),
        embedder="static",
        bases=bases,
        problems=(Problem(subject="old", message="/old does not exist. Create it."),),
    )

    assert text(status_report(status, now=NOW, people=True)) == snapshot


def test_many_problems_are_cut_short():
    """A base of broken files does not push everything else off the screen."""
    base = Base(id="notes", path=Path("/n"), origin="config")
    problems = tuple(Problem(subject=f"{number}.md", message="Broken.") for number in range(50))
    status = Status(
        version="1",
        workspace=Workspace(directory=None, source="none"),
        config=None,
        embedder="static",
        bases=(BaseStatus(base=base, problems=problems),),
        looked_for=("/w/knowledge",),
    )
    shown = text(status_report(status, now=NOW, people=True))

    assert shown.count("Broken.") == 20
    assert "notes: 30 more; see `kbhub status --json`" in shown
    assert "No project base. Looked for:\n  /w/knowledge" in shown


@pytest.mark.parametrize(("documents", "state"), [(0, "not indexed yet"), (7, "first index not finished")])
def test_an_index_that_was_begun_is_told_from_none(documents, state):
    """After Ctrl-C in a first run, status does not deny what is there."""
    base = Base(id="notes", path=Path("/n"), origin="config")
    status = Status(
        version="1",
        workspace=Workspace(directory=None, source="none"),
        config=None,
        embedder="static",
        bases=(BaseStatus(base=base, documents=documents),),
    )

    assert f"  {state}" in text(status_report(status, now=NOW, people=True))


def test_a_problem_is_named_once():
    """Some messages begin with their subject, to be understood alone."""
    report = SyncReport(base="notes", failed=(Problem(subject="a.md", message="a.md: the link is broken."),))

    assert "  failed a.md: the link is broken." in text(sync_report(report)).splitlines()


def test_knowledge_that_cannot_be_used_is_not_to_be_made_anew():
    """Its problem has the remedy; `kbhub init` would refuse."""
    status = Status(
        version="1",
        workspace=Workspace(directory=Path("/w"), source="--root"),
        config=None,
        embedder="static",
        problems=(Problem(subject="project", message="/w/.kbhub.json leads to /n; run `kbhub trust`."),),
        looked_for=("/w/.kbhub.json",),
    )
    shown = text(status_report(status, now=NOW, people=True))

    assert "kbhub trust" in shown
    assert "kbhub init" not in shown


def test_trust_is_told_in_words():
    """What may be reached, whether agents may write, and how to take it back."""
    pointer = Path("/w/.kbhub.json")
    grants = (
        Grant(pointer=pointer, target=Path("/n"), writable=True),
        Grant(pointer=pointer, target=Path("/c"), use="cacheDir"),
    )

    assert text(trust_report(grants, (), listed=False)) == (
        "/w/.kbhub.json may\n  have its knowledge in /n, and agents may write there\n  keep its index in /c\n"
        "Revoke with `kbhub trust --revoke /w/.kbhub.json`."
    )
    assert text(trust_report((), (pointer,), listed=False)) == "/w/.kbhub.json is no longer trusted."
    assert text(trust_report((), (), listed=True)) == "Nothing is trusted."


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 << 20, "5.0 MiB"), (3 << 30, "3.0 GiB")]
)
def test_sizes_have_units(count, text):
    assert size_text(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-5, "just now"), (59, "just now"), (60, "1 minute ago"), (7300, "2 hours ago"), (86_400 * 3, "3 days ago")],
)
def test_ages_have_units(seconds, text):
    assert ago_text(seconds) == text
