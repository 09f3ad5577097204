"""A shared base answers as the same folder does locally: hits, scores, verdicts, totals and everything else."""

import json
import random
import re
from contextlib import ExitStack

import pytest

from conftest import DAY
from corpus import EMBEDDER, nearest, sentences
from kbhub.answers.question import ask
from kbhub.extensions.team import reader, writer
from kbhub.hub import Hub
from kbhub.index import catalogue, references
from kbhub.index.matches import known_keys, newest
from kbhub.index.query.parser import parse_query
from kbhub.reading.lists import list_documents
from kbhub.reading.neighbours import related, tags
from kbhub.reading.read import read
from kbhub.search.search import search
from kbhub.sync.freshness import sync
from kbhub.types import Query

LONG = "w" * 600

QUERIES = [
    "owner:12", "owner:>3", "version:1.5", "version:1.50", "version:>1", "build:700",
    LONG, f"{LONG}x", f"{LONG}y", f"{LONG}*", f'"{LONG} {LONG}x"', "q" * 564, "n:>1",
    "roll back a release", "the of and to", '"release rollback"', "user-account", "deplo*", "database mig*", "naïve",
    "NO_COLOR", "maxRetries", "--no-track", "-draft deploy", "tag:ops", "tag:ops/db deploy", "kind:document replica",
    "status:accepted", "priority:>2", "priority:2", "date:2025", "date:>2024-06", "path:guides/ refund", "age:<1000",
    "path:*.md session", "#ops", "release 回滚", "回滚", "zzzz", "databse indx", '"no such phrase"', "owner:none", "",
    "-deploy", "tag:ops -tag:ops/db", "guides/setup", "w17 w200 w399", "nothingmatchesthis deploy", "it's", "ſ", "a",
]  # fmt: skip


def fill(twin, documents: int = 60) -> None:
    """Write a folder of everything that a base may hold."""
    for path, text in sentences(documents).items():
        twin.write(path, f"# {text[:20]}\n\n{text}\n")
    twin.write("guides/setup.md", "---\ntitle: Setup\ntags: [ops, ops/db]\npriority: 3\nstatus: accepted\n"
               "date: 2025-03-01\naliases: [install, Einrichtung]\nnested: {deep: [1, 2.5, yes]}\n---\n# Setup\n\n"
               "Set `NO_COLOR` or `maxRetries`; see [[retry]] and [gone](gone.md) and ![x](pic.png).\n\n## Deploy\n\n"
               "Use --no-track.\n")  # fmt: skip
    twin.write("guides/retry.md", "---\ntags: ops\npriority: 2\nsupersedes: guides/old.md\nowner: '12'\n"
               "version: '1.50'\nbuild: ' 7e2'\n---\n"
               "max_retries is set to 3. Release rollback.\n")  # fmt: skip
    twin.write(
        "guides/old.md", "---\nexpires: 2020-01-01\ndate: 2024-07-01\n---\n# Old\n\nStatus: superseded\n\nDatabase.\n"
    )
    twin.write("日本.md", "# リリース\n\n回滚发布。リリースを戻す。 naïve café\r\nwith CRLF\r\n")
    twin.write("odd.md", b"\xef\xbb\xbf# BOM\n\nA byte \xff and a NUL \0 here.\n")
    twin.write("empty.md", "")
    twin.write("long.md", f"---\nn: 1{'0' * 400}\n---\n# Long\n\n{LONG} {LONG}x {'q' * 564}\n")
    twin.write("drafts/ſharp s ß.md", "# ſharp\n\nit's a Straße\n")


def opened(hub, stack: ExitStack):
    """Open the index of the only base."""
    (base,) = hub.select(["notes"])
    index = hub.index(base)
    stack.enter_context(index.snapshot())
    return index


def reads(index) -> dict:
    """Everything that can be read of an index, without ids and docids, which are the index's own."""
    paths = index.paths()
    documents = {path: index.document(path) for path in paths}
    listed = list(documents.values())
    ids = [document.id for document in documents.values()]
    chunks = sorted(int(one) for one, alive in zip(index.columns().ids, index.columns().alive, strict=True) if alive)
    by_id = {document.id: path for path, document in documents.items()}
    rows = index.chunks(chunks)
    vector = EMBEDDER.embed(["roll back the database"])[0]
    places = index.places(chunks)
    now = max(document.mtime_ns for document in documents.values()) / 1e9 + DAY
    said = references.declared(index, listed, now)
    return {
        "paths": paths,
        "counts": index.counts(),
        "size": (index.columns().chunks, index.columns().tokens),
        "documents": [
            (d.path, d.title, d.kind, d.tags, d.aliases, d.size, abs(d.mtime_ns), d.dated) for d in documents.values()
        ],
        "chunks": sorted(
            (by_id[row.document_id], row.headings, row.start_line, row.end_line, row.prose, row.text)
            for row in rows
        ),
        "problems": index.problems(),
        "keys": sorted(index.text_keys().values()),
        "damage": catalogue.damage_of(index), "titled": catalogue.titled(index),
        "texts": list(catalogue.texts(index, paths)),
        "bodies": list(catalogue.bodies(index, paths)),
        "links": catalogue.link_rows(index),
        "front matter": list(catalogue.front_matter_of(index, "status")),
        "vectors": sorted(catalogue.chunk_vectors(index)),
        "hashes": catalogue.content_hashes(index), "some": sorted(index.chunk_paths("guides/").values()),
        "tags": catalogue.tag_counts(index),
        "names": list(catalogue.document_names(index)),
        "beginning": [catalogue.paths_beginning(index, start, 5) for start in ("guides/", "SETUP", "日", "%", "'")],
        "page": [(one.path, one.title, one.size) for one in index.documents_after("guides/old.md", 9)],
        "memories": [row[:4] for row in catalogue.memory_rows(index)],
        "terms": catalogue.terms_with_prefix(index, "re"),
        "among": catalogue.terms_among(index, ["deploi", "zzz", "databas"]),
        "of a term": catalogue.texts_with_term(index, "databas", 5),
        "known keys": known_keys(index, ["status", "priority", "nested.deep", "nope"]),
        "outdated": {by_id[one]: why for one, why in said.outdated.items()},
        "settled": {by_id[one] for one in said.decided},
        "newest": [(places[chunk], date) for chunk, date in newest(index, None, 99)],
        "near": sorted((places[chunk], score) for chunk, score in nearest(index, vector, 20)),
        "postings": {
            term.text: sorted(
                (places[int(index.columns().ids[at])], count)
                for at, count in zip(found.positions, found.counts, strict=True)
            )
            for query in QUERIES
            for term in parse_query(query).terms
            for found in [index.postings(term)]
        },
        "below": [index.has_below(folder) for folder in ("guides", "nope")],
        "by id": sorted(document.path for document in index.documents(ids)),
    }  # fmt: skip


def plain(document: str) -> str:
    """Return a JSON result with the same docid everywhere: they depend on where a base is."""
    return re.sub(r'"docid":"[^"]*"', '"docid":"#"', re.sub(r"#[0-9a-f]{6,16}\b", "#", document))


def answers(hub, query: str) -> dict:
    """Everything that a query comes to, in all modes."""
    found = {mode: json.loads(plain(search(hub, Query(text=query, mode=mode, limit=20)).model_dump_json()))
             for mode in ("keyword", "semantic", "hybrid")}  # fmt: skip
    return {mode: {key: value for key, value in one.items() if key != "took"} for mode, one in found.items()}


def same(twin, queries=QUERIES[::6]) -> tuple[Hub, Hub]:
    """Assert that both have the same, and answer queries the same; return both."""
    local, shared = twin.local(), twin.shared()
    sync(local)
    with ExitStack() as stack:
        expected, found = reads(opened(local, stack)), reads(opened(shared, stack))
    for key, value in expected.items():
        assert found[key] == value, key
    for query in queries:
        assert answers(shared, query) == answers(local, query), query
    return local, shared


@pytest.mark.parametrize(
    "running", [pytest.param(16, marks=pytest.mark.slow), 18], indirect=True, ids="postgres{}".format
)
def test_every_read_and_every_answer_is_the_same(twin):
    fill(twin)
    twin.publish()
    local, shared = same(twin, QUERIES[:: 3 if twin.database.admin.info.server_version >= 180000 else 1])
    for verb in (
        lambda hub: read(hub, ["notes@guides/setup.md", "notes@日本.md:2", "notes@Setup", "notes@guides/*.md"]),
        list_documents,
        tags,
        lambda hub: related(hub, "notes@guides/setup.md"),
        lambda hub: ask(hub, "How many retries are set?"),
    ):
        expected, found = (plain(verb(hub).model_dump_json()) for hub in (local, shared))
        assert found == expected


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_what_comes_and_goes_leaves_no_trace(twin, seed):
    fill(twin, 40)
    twin.publish()
    choose = random.Random(seed)
    extra = list(sentences(200, seed=seed + 1).values())
    for step in range(6):
        files = sorted(path for path in twin.folder.rglob("*.md"))
        for file in choose.sample(files, 6):
            if choose.random() < 0.4:
                file.unlink()
            else:
                twin.write(str(file.relative_to(twin.folder)), f"# Changed {step}\n\n{choose.choice(extra)}\n")
        for number in range(4):
            twin.write(f"new/{step}-{number}.md", choose.choice(extra))
        twin.publish()

    same(twin)


@pytest.mark.parametrize("at_once", [7, *(pytest.param(size, marks=pytest.mark.slow) for size in (1, 10_000))])
def test_a_base_is_read_in_parts_of_any_size(twin, monkeypatch, at_once):
    """What is read of all chunks comes in several statements, each in time; what is new, or all anew, the same way."""
    for module in (reader, writer):
        monkeypatch.setattr(module, "PACKED_FROM", 20)
    monkeypatch.setattr(reader, "CHUNKS_AT_ONCE", at_once)
    monkeypatch.setattr(writer, "SIGNATURES_AT_ONCE", at_once)
    fill(twin, 35)
    twin.publish()
    same(twin)

    assert twin.publish(full=True).unchanged == len(list(twin.folder.rglob("*.md")))
    shared = twin.shared()
    search(shared, "release rollback")
    for number in range(at_once % 100):
        twin.write(f"new/{number}.md", f"A xylophone, number {number}.\n")
    twin.publish()
    for mode in ("keyword", "semantic", "hybrid"):
        found, anew = ([hit.ref for hit in search(hub, Query(text="xylophone number", mode=mode, limit=9)).hits]
                       for hub in (shared, twin.shared()))  # fmt: skip
        assert found == anew
    same(twin)


def test_local_and_shared_bases_are_ranked_as_one(twin):
    """A folder cut in two, one half shared, ranks as both halves locally."""
    fill(twin)
    half = twin.environment.project.parent / "half"
    for file in sorted(twin.folder.glob("notes/*.md"))[::2]:
        target = half / file.name
        target.parent.mkdir(exist_ok=True)
        file.rename(target)
    twin.publish()
    both = twin.hub({"half": str(half), "notes": str(twin.folder)})
    mixed = twin.hub({"half": str(half), "notes": {"engine": twin.database.url(), "timeout": 20}})
    sync(both)
    sync(mixed)

    for query in QUERIES[::6]:
        assert answers(mixed, query) == answers(both, query), query
