"""Rows that no publisher writes: the base they are in answers or is skipped with a sentence, and all others answer."""

import tracemalloc
from contextlib import suppress
from uuid import uuid4

import pytest

from corpus import sentences
from kbhub.answers.question import ask
from kbhub.cli.commands.basics import overview
from kbhub.editing.audit import audit
from kbhub.editing.checks import warnings_about
from kbhub.editing.paths import docid_of
from kbhub.errors import KbhubError
from kbhub.extensions.team import reader, writer
from kbhub.extensions.team.schema import TABLES
from kbhub.hooks.delivery import deliver
from kbhub.hooks.events import event_of
from kbhub.hooks.sessions import let_speak, may_speak
from kbhub.memory.lists import memories
from kbhub.reading.lists import list_documents, status
from kbhub.reading.neighbours import related, tags
from kbhub.reading.read import open_whole, read
from kbhub.search.search import search
from kbhub.server.resources import complete_path, complete_tag, page_of_documents
from kbhub.setup.doctor import examine
from kbhub.sync.freshness import sync
from kbhub.types import Query

QUERIES = (
    "xylophone", '"a xylophone"', "xylo*", "tag:music", "path:*.md xylophone", "age:<9999", "priority:>2",
    "xylophone -draft", "kind:document", "date:>2020", "xylophome",
)  # fmt: skip

DEEP = "repeat('[', 100000) || repeat(']', 100000)"


MOST_MEMORY = 150_000_000
"""Bytes that reading may take at any time."""

BLOATED = "decode(repeat('00', 30000000), 'hex')"


@pytest.fixture
def damaged(twin, monkeypatch):
    """A shared base, packed, and a local one beside it; what is changed in the shared one is put right again."""
    for engine in (reader, writer):
        monkeypatch.setattr(engine, "PACKED_FROM", 1)
    for path, text in sentences(12).items():
        head = "tags: [music, ops/db]\npriority: 3\ndate: 2024-05-01\nrelated: [other.md]\nstatus: accepted"
        text = f"{text} a xylophone, see [other](other.md)"
        twin.write(path, f"---\n{head}\naliases: [n{path}]\n---\n# {path}\n\n{text}\n")
    twin.write("other.md", "---\ntags: [music]\nsupersedes: old.md\n---\n# Other\n\nA xylophone and [gone](gone.md).\n")
    twin.publish()
    twin.environment.write("../own/a.md", "---\ntags: [music]\n---\n# Own\n\nA xylophone of my own, see [b](b.md).\n")
    twin.environment.write("../own/b.md", "# Second\n\nA drum.\n")
    for table in TABLES:
        twin.database.run(f"CREATE TABLE public.{table} AS SELECT * FROM kbhub.{table}")
    sync(hub_of(twin))
    return twin


def hub_of(twin):
    """Open a hub with the shared base and the local one, which has nothing in memory."""
    own = str(twin.environment.project.parent / "own")
    return twin.hub({"notes": {"engine": twin.database.url(), "timeout": 20}, "own": own})


def answer(twin) -> list[str]:
    """Run every verb; return what was said of the shared base, after its name."""
    hub = hub_of(twin)
    said = []

    def skips(result) -> None:
        assert {one.base for one in result.skipped} <= {"notes"}
        said.extend(f"{one.base}: {one.reason}" for one in result.skipped)

    for query in QUERIES:
        for mode in ("hybrid", "keyword", "semantic") if query == "xylophone" else ("hybrid",):
            result = search(hub, Query(text=query, mode=mode, limit=30))
            skips(result)
            assert "own" in result.searched
            if query == "xylophone":
                assert "own@a.md" in {hit.ref for hit in result.hits}
    answered = ask(hub, "Who has a xylophone of my own?")
    skips(answered)
    assert "of my own" in answered.text
    skips(related(hub, "own@a.md"))
    skips(tags(hub))
    skips(tags(hub, ["music"]))
    skips(list_documents(hub))
    skips(audit(hub))
    assert {one.base.id: one.documents for one in status(hub).bases}["own"] == 2
    problems = [one for base in status(hub).bases for one in base.problems if one.subject == "notes"]
    said += [f"{one.subject}: {one.message}" for one in problems]
    overview(hub)
    assert read(hub, ["own@a.md"]).readings
    for ref in ("notes@other.md", "#0a", "Own", "n1", "notes@*.md"):
        read(hub, [ref])
    for verb in (related, open_whole):
        with suppress(KbhubError):
            verb(hub, "notes@other.md")
    own = hub.select(["own"])[0]
    assert docid_of(hub, own, "a.md").startswith("#")
    warnings_about(hub, own, open_whole(hub, "own@a.md").document)
    memories(hub)
    assert [entry.path for base, entry, _ in page_of_documents(hub)[0] if base.id == "own"] == ["a.md", "b.md"]
    assert "own/a.md" in "".join(complete_path(hub, "a")) or complete_path(hub, "a")
    assert "music" in complete_tag(hub, "mus")
    examine(hub)
    may_speak(hub) or let_speak(hub)
    session = {"session_id": uuid4().hex, "cwd": str(twin.environment.project)}  # one that has been told nothing
    for name, data in (("session-start", {"source": "startup"}), ("prompt", {"prompt": "How do I play the xylophone?"}),
                       ("tool", {"tool_input": {"file_path": "other.md"}})):  # fmt: skip
        deliver(hub, event_of(name, "claude-code", {**session, **data}))
    hub.index(hub.select(["notes"])[0]).server.close()  # it has few connections
    return said


NOBODYS = (
    ("document", "tags", DEEP), ("chunk", "document_id", "-1"), ("posting", "counts", "counts || '\\x01'"),
    ("meta", "value", "'[1]'"), ("document", "path", "CASE id WHEN 1 THEN '' ELSE path END"),
    ("chunk", "headings", "'[1,2]'"), ("extent", "chunk_id", "chunk_id + 9223372036854000000"),
    ("vector", "embedding", "substr(embedding, 1, 1 + chunk_id::int % 2)"),
    ("meta", "value", "(repeat('[', 4000) || repeat(']', 4000))::jsonb"),
)  # fmt: skip
"""Table, column, and what nobody publishes there: one of each kind of damage."""


@pytest.mark.parametrize("kinds", [NOBODYS[:4], pytest.param(NOBODYS[4:], marks=pytest.mark.slow)], ids=["", "more"])
def test_rows_that_nobody_publishes_sink_no_other_base(damaged, kinds):
    for table, column, odd in kinds:
        damaged.database.run(f"UPDATE kbhub.{table} SET {column} = {odd}")
        assert all("notes" in reason and "\n" not in reason for reason in answer(damaged)), (table, column)
        damaged.database.run(f"TRUNCATE kbhub.{table}")
        damaged.database.run(f"INSERT INTO kbhub.{table} SELECT * FROM public.{table}")
    assert answer(damaged) == []


def test_chunks_that_exist_and_are_gone_are_damage(damaged):
    damaged.database.run("INSERT INTO kbhub.gone SELECT base_id, chunk_id FROM kbhub.extent")
    assert "exist and are gone" in answer(damaged)[0]


@pytest.mark.parametrize(
    ("table", "column", "odd"),
    [
        ("chunk", "text", "repeat('x ', 20000000)"),
        ("posting", "counts", BLOATED),
        *(
            pytest.param(*one, marks=pytest.mark.slow)
            for one in [
                ("posting", "chunks", BLOATED), ("posting", "places", BLOATED), ("document", "hash", BLOATED),
                ("vector", "embedding", BLOATED), ("packed", "data", BLOATED),
                ("chunk", "headings", "repeat('[', 40000000)"), ("document", "title", "repeat('x', 40000000)"),
                ("document", "front_matter", "repeat('[', 40000000)"),
                ("meta", "value", "to_jsonb(repeat('x', 40000000))"),
            ]
        ),
    ],
)  # fmt: skip
def test_a_row_takes_little_of_a_readers_memory(damaged, table, column, odd):
    """A text of 40 MB took a gigabyte and 46 s, and so did postings of 30 MB."""
    last = f"ctid = (SELECT max(ctid) FROM kbhub.{table})"
    row = "term = 'xylophon'" if table == "posting" else last
    damaged.database.run(f"UPDATE kbhub.{table} SET {column} = {odd} WHERE {row}")
    hub = hub_of(damaged)
    search(hub, "drum")  # loads the model

    tracemalloc.start()
    try:
        assert "of my own" in ask(hub, 'Who has "a xylophone" of my own?').text
        related(hub, "own@a.md")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak < MOST_MEMORY
