"""Results read well in a terminal and in every format, say why there is nothing, and no document can take them over."""

import csv
import io
import json
import re
import time
import unicodedata
from datetime import UTC, datetime
from pathlib import Path
from xml.etree.ElementTree import fromstring

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import synced
from kbhub.cli.options import Formats
from kbhub.documents.shown_text import cell_width, compact
from kbhub.errors import BaseNotFound, UsageError
from kbhub.index.query.parser import parse_query
from kbhub.reading.reports import BaseStatus, Reading, Status
from kbhub.render.bases import status_report
from kbhub.render.formats import formatted
from kbhub.render.pages import drawn
from kbhub.render.report import Listing
from kbhub.render.search import contribution_of, read_text, search_notes, search_report
from kbhub.render.terminal import (
    ago_text,
    fitted,
    json_escaped,
    neutralised,
    size_text,
    table,
    text,
    visible_line,
    wrapped,
)
from kbhub.types import Base, Hit, Problem, Query, SearchResult, Signal, Skipped, Span, Trace, Workspace
from kbhub.values import age_text

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC).timestamp()
HOSTILE = "\x1b]0;owned\x07\x1b[2Jred\x9b31m \u202egnp.exe\u2066 \x08\x7f\rover\u2028line"

STYLES = re.compile(r"\x1b\[[0-9;]*m")
PIECES = st.sampled_from(
    [
        *("# ", "## a", "- ", "1. ", "> ", "```", "```sh\n", "~~~", "| a | b |\n|---|---|\n| c | d |", "---", "***"),
        *("[a](b)", "![a](b)", "<b>", "&#27;", "&#x202e;", "&#12;", "\x1b[31m", "\u202e", "\x9b", "`", "**", "_"),
        *("\n", "\n\n", "    ", "\t", " ", "word", "日本語", "e\u0301", "👩‍💻", "\\", "[x]: y", "a" * 90, "/p" * 40),
    ]
)
MARKDOWN = st.lists(PIECES | st.text(max_size=9), max_size=40).map("".join)
WORDS = st.text(st.characters(exclude_categories=["Cc", "Cf", "Cs", "Zl", "Zp", "Zs"]) | st.sampled_from("   /"))


HIT = Hit(
    ref="notes@ops/rollback.md", docid="#a1b2c3", base="notes", path="ops/rollback.md", title="Rolling back",
    headings=("Rolling back", "When the migration ran"), start_line=12, end_line=20, excerpt_line=12, score=0.9132,
    excerpt="Roll the release back first.\n\n    orchard rollback", age_days=40,
)  # fmt: skip


def hit(**changes) -> Hit:
    return HIT.model_copy(update=changes)


def result(*hits: Hit, **changes) -> SearchResult:
    query = {"query": "rollback release", "terms": ("rollback", "release"), "mode": "hybrid", "searched": ("notes",)}
    return SearchResult(**{**query, "hits": hits, "total": len(hits), **changes})


def status_text(**changes) -> str:
    fields = {"version": "1.2.3", "workspace": Workspace(directory=Path("/w"), source="--root"), "embedder": "static"}
    return text(status_report(Status(**{"config": None, **fields, **changes}), now=NOW, people=True))


def search_text(found: SearchResult, *, colour: bool = False) -> str:
    return text(search_report(found, Query(text=found.query)), colour=colour)


def acts_on_terminals(text: str) -> set[str]:
    """Characters that a terminal does more with than show them."""
    bidirectional = {"RLO", "LRO", "RLE", "LRE", "PDF", "RLI", "LRI", "FSI", "PDI"}
    return {
        character
        for character in text
        if (unicodedata.category(character) == "Cc" and character not in "\n\t")
        or unicodedata.bidirectional(character) in bidirectional
    }


def widest(text: str) -> int:
    return max(cell_width(line) for line in STYLES.sub("", text).split("\n"))


@given(st.text() | st.text(st.characters(categories=["Cc", "Cf", "Zl", "Zp"])))
def test_neutralised_text_shows_every_character_and_does_nothing(text):
    assert not acts_on_terminals(neutralised(text))
    assert "\n" not in visible_line(text)
    assert not acts_on_terminals(visible_line(text))
    for plain in ("plain", "tab\tand\nline", "日本語", "naïve – “quoted” 👩‍💻", "שלום"):
        assert neutralised(plain) == plain


@given(st.text())
def test_escaped_json_means_the_same(text):
    document = json_escaped(json.dumps(text, ensure_ascii=False))
    assert json.loads(document) == text
    assert not acts_on_terminals(document)


def test_empty_lines_of_an_excerpt_are_one_and_terms_are_highlighted_only_where_there_is_colour():
    assert compact("> a\n>\n>\n>\n> b\n\n\n\n    c\n>\n> ") == "> a\n\n> b\n\n    c"
    coloured = search_text(result(hit(excerpt="Two releases; a rollback.")), colour=True)
    assert "Two \x1b[1;33mreleases\x1b[0m; a \x1b[1;33mrollback\x1b[0m." in coloured
    assert "\x1b" not in search_text(result(hit()))


def test_hits_are_compact_blocks(snapshot):
    also = (Span(start_line=30, end_line=35), Span(start_line=50, end_line=51))
    trace = Trace(signals=(Signal(name="keyword", rank=1, value=7.25, contribution=0.5),), factors={"weight": 0.5})
    other = hit(ref="glossary.md", title="Glossary", headings=(), stale=True, age_days=800, score=0.5)
    assert search_text(result(hit(also=also, trace=trace), other)) == snapshot


def test_old_and_outdated_documents_say_so_and_no_part_of_a_hit_reaches_the_terminal_raw():
    """The age in years, as soon as it is one."""
    past = "expires 2020-01-01"
    for days, why, told in (
        *((364, "", ""), (365, "", "  a year old"), (800, "", "  2.2 years old")),
        *((40, past, f"  outdated: {past}"), (800, past, f"  2.2 years old  outdated: {past}")),
    ):
        shown = search_text(result(hit(age_days=days, stale=days >= 365 or bool(why), outdated=why)))
        assert shown.splitlines()[0].endswith(f"#a1b2c3{told}")

    headings, outdated = (HOSTILE, f"{HOSTILE}\n"), f"{HOSTILE}\n"
    hostile = hit(ref=f"{HOSTILE}\n.md", title=HOSTILE, headings=headings, excerpt=HOSTILE, outdated=outdated)
    text = search_text(result(hostile))
    assert not acts_on_terminals(text)
    assert "␛]0;owned␇" in text
    assert len(text.splitlines()) == 3
    assert acts_on_terminals(search_text(result(hostile), colour=True)) == {"\x1b"}

    forged = search_text(result(hit(excerpt="innocent\n1.00  project:1-2  #ffffff\n      Trust me")))
    assert [line for line in forged.splitlines()[2:] if not line.startswith("  │")] == []


def test_notes_say_why_nothing_was_found_and_lead_to_the_next_page():
    """Once: not on further pages, nor when other words were given."""
    skipped = (Skipped(base="old", reason="Its folder is gone."),)
    assert search_notes(result(unmatched=("zebra",), skipped=skipped, notes=("Keyword only.",)), Query(text="x")) == [
        *("No hits. Searched: notes.", "Keyword only.", "No document contains: zebra."),
        "Not searched: old. Its folder is gone.",
    ]

    (more,) = search_notes(result(hit(), hit(), total=7), Query(text="x", limit=2, offset=2))
    (none,) = search_notes(result(total=7), Query(text="x", offset=10))
    assert more == "Showing hits 3 to 4 of 7; `--page 3` shows more."
    assert none == "No hits on page 3, only 7 in total. Searched: notes."

    for verdict, said in (("strong", 0), ("weak", 1), ("none", 1)):
        found = result(hit(), verdict=verdict)
        assert sum("--also" in note for note in search_notes(found, Query(text="x"))) == said
        for query in (Query(text="x", queries=("y",)), Query(text="x", offset=5)):
            assert search_notes(found, query) == []


def test_documents_are_read_verbatim_or_neutralised():
    """A pipe gets the text, a terminal its harmless form, and headers only stand before several."""
    reading = Reading(
        ref="a.md", docid="#a1b2c3", title="A\x1b[1m", start_line=3, end_line=4, total_lines=9, text="x\x1b[2J\ny"
    )
    assert read_text([reading], headers=False, verbatim=True) == "x\x1b[2J\ny\n"
    assert read_text([reading], headers=False, verbatim=False) == "x␛[2J\ny\n"
    header = "==> a.md:3-4 of 9  #a1b2c3  A␛[1m <==\n"
    assert read_text([reading, reading], headers=True, verbatim=True).count(header) == 2
    empty = reading.model_copy(update={"start_line": 1, "end_line": 0, "text": ""})
    assert read_text([empty], headers=False, verbatim=True) == ""


def test_status_is_an_aligned_table_with_problems(snapshot):
    notes = Base(id="覚え書き", path=Path("/home/x/notes"), origin="config")
    project = Base(id="project", path=Path("/w/knowledge"), origin="knowledge", names=("shop",))
    bad = Problem(subject="a.md", message="Broken front matter.")
    ready = BaseStatus(
        base=project, documents=12, chunks=1234, index=Path("/c/project.db"), index_bytes=5 << 20,
        synced="2026-06-01T09:00:00+00:00", problems=(bad,),
    )  # fmt: skip
    bases = (ready, BaseStatus(base=notes, indexing="3 of 9 files"))
    old = (Problem(subject="old", message="/old does not exist. Create it."),)
    assert status_text(config=Path("/home/x/.kbhub.json"), bases=bases, problems=old) == snapshot


def test_many_problems_are_cut_short():
    base = Base(id="notes", path=Path("/n"), origin="config")
    problems = tuple(Problem(subject=f"{number}.md", message="Broken.") for number in range(50))
    shown = status_text(bases=(BaseStatus(base=base, problems=problems),), looked_for=("/w/knowledge",))
    assert shown.count("Broken.") == 20
    assert "notes: 30 more; see `kbhub status --json`" in shown
    assert "No project base. Looked for:\n  /w/knowledge" in shown
    assert "Looked for" not in status_text(bases=(BaseStatus(base=base),))


@given(WORDS, st.integers(4, 40))
def test_any_line_is_broken_to_fit_with_nothing_lost(text, width):
    """Only white space may go."""
    lines = wrapped(text, width)
    assert max(map(cell_width, lines)) <= width
    assert "".join("".join(lines).split()) == "".join(text.split())


def test_lines_are_broken_at_words_and_paths_behind_a_slash():
    """A word is only cut if it is longer than a line."""
    assert wrapped("one two three", 8) == ["one two", "three"]
    assert wrapped("id 3  strength 0.70  0 uses", 22) == ["id 3  strength 0.70", "0 uses"]
    assert wrapped("in /home/you/notes/a.md now", 12) == ["in", "/home/you/", "notes/a.md", "now"]
    assert wrapped("x" * 10, 4) == ["xxxx", "xxxx", "xx"]
    assert wrapped("日本語です", 4) == ["日本", "語で", "す"]
    # An entry is seen as one; a pager that shows the second line alone has its colour, and the next line has not.
    assert fitted("  one two three four", 12) == "  one two\n    three\n    four"
    assert fitted("[1] one two three", 12) == "[1] one two\n    three"
    assert fitted("a \x1b[1mbold one\x1b[0m end", 9) == "a \x1b[1mbold\x1b[0m\n  \x1b[1mone\x1b[0m end"
    assert fitted("  │ one two three", 12) == "  │ one two\n  │ three"
    assert (fitted("short", 80), fitted("copy  of/a/path", 14)) == ("short", "copy  of/a/\n      path")


def test_a_table_fits_by_breaking_cells_then_by_giving_up_its_columns_and_sizes_and_ages_have_units():
    rows = [("#a1", "a long title of a note", "12"), ("#b2", "notes/of/the/team", "3")]
    fitting = "#a1  a long title of  12\n     a note\n#b2  notes/of/the/     3\n     team"
    assert table(rows, right=frozenset({2}), width=24) == fitting.split("\n")
    assert table(rows, width=10) == ["#a1  a long title of a note  12", "#b2  notes/of/the/team  3"]
    sizes = {0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 5 << 20: "5.0 MiB", 3 << 30: "3.0 GiB"}
    ages = {-5: "just now", 59: "just now", 60: "1 minute ago", 7300: "2 hours ago", 86_400 * 400: "1.1 years ago"}
    days = {0: "today", 1: "1 day old", 2: "2 days old", 60: "60 days old", 61: "2 months old", 364: "11 months old"}
    days |= {365: "a year old", 380: "a year old", 548: "1.5 years old", 730: "2 years old", 1393: "3.8 years old"}
    assert {count: size_text(count) for count in sizes} == sizes
    assert {seconds: ago_text(seconds) for seconds in ages} == ages
    assert {number: age_text(number) for number in days} == days


@pytest.mark.parametrize("colour", [True, False])
@given(text=MARKDOWN, width=st.integers(30, 120))
def test_no_document_acts_on_a_terminal_or_is_wider(text, width, colour):
    shown = drawn(text, width, colour=colour, terms=parse_query("word a").terms)
    assert not acts_on_terminals(STYLES.sub("", shown))
    assert widest(shown) <= width
    assert colour or "\x1b" not in shown


def test_markdown_is_laid_out(snapshot):
    text = (
        "---\ntags: [a, b]\n---\n# Deploying\n\nTake the *tag* and run `ship it`, as the [guide](guide.md) says, or\n"
        "<name> of it.\n\n## Steps\n\n1. Look at the board, which is behind the door on the left.\n2. Ship.\n"
        "   - Watch.\n\n> Never on a Friday.\n\n| Status | When it is said to the one who asks |\n|---|---|\n"
        "| 429 | too many requests in too short a time |\n\n```sh\nship --to production --tag v1 --wait 10 --all\n```\n"
    )
    assert drawn(text, 48, colour=False) == snapshot


@pytest.mark.parametrize("piece", ["[", "> ", "`", "* ", "![a](", "|a", "&#x202e;", "<a ", "\\", "_a*", "- a\n  "])
def test_a_document_made_to_take_long_is_shown_in_time(piece):
    began = time.thread_time()  # a busy machine makes it late, not longer
    shown = drawn(piece * (20_000 // len(piece)), 80, colour=True)
    assert time.thread_time() - began < 20
    assert not acts_on_terminals(STYLES.sub("", shown))


def test_a_very_long_text_is_only_broken_into_lines_and_a_table_that_cannot_fit_is_told_row_by_row():
    shown = drawn("# Title\n\n\x1b[31m" + "some words of it " * 20_000, 60, colour=True)
    assert shown.startswith(f"# Title\n\n{neutralised(chr(27))}[31msome words")
    assert widest(shown) <= 60

    # Half a code block is no prose, nor are rows without their header.
    text = "| Requirement | Responsibility |\n|---|---|\n| availability | infrastructure |\n| speed | |\n"
    told = "Requirement:\navailability\nResponsibility:\ninfrastructure\n\nRequirement: speed"
    assert drawn(text, 40, colour=False).split("\n")[2:] == ["availability   infrastructure", "speed"]
    assert drawn(text, 24, colour=False) == told
    code = "code that began above\n```\n\nText.\n\n```sh\nrm -rf x"
    rows = "| row | of a table |\n| whose | header is above |"
    for part, shown in ((code, re.sub("```.*\n", "", code)), (rows, rows)):
        assert [line.strip() for line in drawn(part, 60, colour=False).split("\n")] == shown.split("\n")
    shown = drawn("We *release* often.\n\n```\nreleasing\n```\n", 40, colour=True, terms=parse_query("release").terms)
    assert shown.count("\x1b[1;3;33mrelease\x1b[0m") == 1
    assert re.search(r"\x1b\[[0-9;]*1;33[0-9;]*mreleasing\x1b\[0m", shown)


FIELDS = ("ref", "title", "tags", "score")
cells = st.one_of(st.none(), st.booleans(), st.integers(), st.text(), st.lists(st.text(), max_size=3))
records = st.lists(st.fixed_dictionaries(dict.fromkeys(FIELDS, cells)), max_size=4)


def listing(*rows, body=None):
    return Listing("hit", FIELDS, rows, body)


@given(records)
def test_any_records_are_valid_in_every_format(rows):
    one = listing(*rows)
    assert json.loads(formatted(one, "json")) == [dict(row) for row in rows]
    assert len(list(csv.reader(io.StringIO(formatted(one, "csv"), newline="")))) == len(rows) + 1
    assert len(fromstring(formatted(one, "xml"))) == len(rows)
    assert len(formatted(one, "md").splitlines()) == len(rows) + 2
    assert len(list(csv.reader(io.StringIO(formatted(one, "files"), newline="")))) == len(rows)


def test_no_cell_gets_out_of_its_place_files_gives_the_ref_as_the_path_and_two_formats_are_refused():
    """CSV quotes what a spreadsheet would run; no pipe, element, link or image of a title is Markdown's."""
    odd = listing({"ref": "=1+2", "title": 'a "b"\nc', "tags": ["x", "y"], "score": 0.5})
    cell = listing({"ref": "a|b.md", "title": "<img src=x> ![p](http://e) `c|`\nd", "tags": [], "score": 1})
    long = listing({"ref": "a.md", "title": "```\ncode\n```\n# x"}, body="title")
    assert formatted(odd, "csv").splitlines()[1:] == ['"=1+2","a ""b""', 'c","x;y",0.5']
    told = formatted(cell, "md").splitlines()[2]
    assert told == r"| a\|b.md | &lt;img src=x> !\[p](http://e) \`c\|\`<br>d |  | 1 |"
    assert formatted(long, "md") == "## a.md\n\n\n````markdown\n```\ncode\n```\n# x\n````\n"
    assert fromstring(formatted(listing({"ref": "a\x00\x1b<b>&\ud800"}), "xml"))[0][0].text == "a��<b>&�"

    # What stands in the line can be handed to `kbhub read`.
    row = {"docid": "#a1", "score": 0.5, "ref": "ops@a,b.md", "path": "a,b.md", "context": "x"}
    assert formatted(Listing("hit", ("docid", "ref"), [row]), "files") == '#a1,0.5,"ops@a,b.md",x\n'
    with pytest.raises(UsageError, match="--csv"):
        formatted(Listing("tag", ("tag",), []), "files")
    assert Formats().format() == "text"
    assert Formats(json=True).format() == "json"
    with pytest.raises(UsageError, match="--csv and --xml cannot be used together"):
        Formats(csv=True, xml=True).format()


def test_contributions_have_a_sign_and_no_negative_zero():
    for value, shown in ((-0.00004, "+0.0000"), (-0.0, "+0.0000"), (-0.25, "-0.2500"), (0.1234, "+0.1234")):
        assert contribution_of(Signal(name="rerank", value=2, contribution=value)) == shown


def test_a_base_that_is_not_there_is_told_with_those_that_are(environment):
    environment.write("knowledge/deploy.md", "# Deploy\n\nRoll back a release.\n")
    environment.write(environment.home / "notes/a.md", "# A\n\nrelease\n")
    environment.configure(bases={"notes": "~/notes"}, repos={"*": ["notes"]})
    hub = synced(environment)
    with pytest.raises(BaseNotFound, match="Active bases: project, notes"):
        hub.search(Query(text="release", bases=("nosuch",)))
    for query in ("release base:nosuch", "base:nosuch", "release base:notes,nosuch", "release -base:nosuch"):
        assert "No base 'nosuch'. Active bases: project, notes." in hub.search(query).notes
    for query in ("release base:Notes", "release base:*", "base:project"):
        assert not any("No base" in note for note in hub.search(query).notes)


@pytest.fixture
def nested(environment):
    """A base `vault` with a base `vpn` in one of its folders."""
    vault = environment.home / "vault"
    for number in range(4):
        environment.write(vault / f"{number}.md", f"# Note {number}\n\nbastion host {number}\n")
        environment.write(vault / f"infra/vpn/{number}.md", f"# Tunnel {number}\n\nbastion key {number}\n")
    environment.configure(bases={"vault": "~/vault", "vpn": "~/vault/infra/vpn"}, repos={"*": ["vault", "vpn"]})
    return synced(environment)


@pytest.mark.parametrize("mode", ["keyword", "semantic", "hybrid"])
def test_a_file_in_two_bases_is_found_once(nested, mode):
    """In the innermost base; the number says so, too."""
    every = [f"{base}@{number}.md" for base in ("vault", "vpn") for number in range(4)]
    for words in ("bastion", "age:<9000d", "bastion age:<9000d"):
        result = nested.search(Query(text=words, mode=mode, limit=20))
        assert sorted(ref for hit in result.hits for ref in (hit.ref, *hit.duplicates)) == every
        assert result.total == len(result.hits)


def test_a_file_in_two_bases_is_found_in_the_one_that_is_asked_for(nested):
    for words, bases in (("bastion", ("vault",)), ("bastion base:vault", ()), ("bastion -base:vpn", ())):
        result = nested.search(Query(text=words, bases=bases, limit=20))
        assert ({hit.base for hit in result.hits}, result.total) == ({"vault"}, 8)
    tunnels = nested.search(Query(text="bastion path:infra/", limit=20))
    assert {f"vault@infra/vpn/{number}.md" for number in range(4)} == {hit.ref for hit in tunnels.hits}


def test_what_the_inner_base_leaves_out_is_found_in_the_outer_one(environment):
    vault = environment.home / "vault"
    for name in ("kept", "left"):
        environment.write(vault / f"infra/{name}.md", f"# {name}\n\nbastion key\n")
    environment.configure(
        bases={"vault": "~/vault", "infra": {"knowledge": "~/vault/infra", "exclude": ["left.md"]}},
        repos={"*": ["vault", "infra"]},
    )
    hits = synced(environment).search("bastion").hits
    assert {"infra@kept.md", "vault@infra/left.md"} == {hit.ref for hit in hits}
