"""All active bases together, and the same answers whoever asks, in whatever order, however the index came to be."""

import hashlib
import itertools
import os
import random
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from unittest.mock import Mock

import pytest

import kbhub.hub
import kbhub.sync.comparison
import kbhub.sync.freshness
import kbhub.sync.sync
from conftest import HOUR_NS, synced
from corpus import sentences
from kbhub.hub import READERS
from kbhub.types import Query

pytestmark = pytest.mark.usefixtures("always_fresh")


@pytest.fixture
def two(environment):
    """A project base and a global base."""
    environment.write("knowledge/deploy.md", "# Deploy\n\nPush a tag.\n\n## Roll back\n\nRun the rollback job.\n")
    environment.write("knowledge/guides/branches.md", "# Branches\n\nName a branch after its ticket.\n")
    environment.write(environment.home / "notes" / "vim.md", "---\ntags: [editor]\n---\n# Vim\n\nQuit with :q.\n")
    environment.write(environment.home / "notes" / "deploy.md", "# Deploy at home\n\nCopy the files by hand.\n")
    environment.configure(bases={"notes": "~/notes"}, repos={"*": ["notes"]})
    return environment


def refs(result):
    return [hit.ref for hit in result.hits]


def test_the_age_is_what_the_document_says_and_a_hit_has_all_that_the_contract_promises(two):
    """`updated` in the front matter wins over times of files and commits, 1970 too; else it is that of the file."""
    two.write("knowledge/old.md", "---\nupdated: 2020-01-01\ndate: 2010-01-01\n---\nzebra\n")
    two.write("knowledge/first.md", "---\nupdated: 1970-01-01\n---\nokapi\n")
    os.utime(two.write(two.home / "notes/file.md", "bilby\n```\n"), (1_576_108_800, 1_576_108_800))  # 2019-12-12
    hub = synced(two, clock=lambda: 1_578_700_800.0)  # 2020-01-11

    ages = [hub.search(Query(text=word, mode="keyword")).hits[0].age_days for word in ("zebra", "bilby", "okapi")]
    assert ages == [10, 30, 18_272]
    assert hub.search(Query(text="bilby")).hits[0].whole  # code cannot begin above the first line

    hub = synced(two, clock=lambda: 4_000_000_000.0)
    hit = hub.search(Query(text="rollback job")).hits[0]
    assert ("deploy.md", "project", "Deploy") == (hit.ref, hit.base, hit.title)
    assert "Run the rollback job." in hit.excerpt
    assert hit.start_line <= hit.excerpt_line <= hit.end_line
    assert (len(hit.docid), hit.stale, hit.age_days > 10_000) == (7, True, True)


def test_cutting_a_corpus_into_ten_bases_changes_no_answer(environment):
    documents = sentences(200)
    choose = random.Random(3)
    for name, text in documents.items():
        environment.write(environment.home / "one" / name, text)
        environment.write(environment.home / f"part{choose.randrange(10)}" / name, text)
    parts = tuple(f"part{number}" for number in range(10))
    bases = {name: f"~/{name}" for name in ("one", *parts)}
    environment.configure(bases=bases, repos={"*": list(bases)})
    hub = synced(environment)
    for text in ("roll back a release", "restore the database backup", "w17 refund", "slow cache of a batch queue"):
        for mode in ("keyword", "semantic", "hybrid"):
            whole = hub.search(Query(text=text, bases=("one",), mode=mode, limit=30))
            cut = hub.search(Query(text=text, bases=parts, mode=mode, limit=30))
            expected = [(hit.path, hit.start_line, hit.excerpt) for hit in whole.hits]

            assert expected == [(hit.path, hit.start_line, hit.excerpt) for hit in cut.hits]
            assert whole.total == cut.total
            rounding = 2e-4 / min(whole.hits[0].score, cut.hits[0].score)  # scores are small where little is covered
            for one, other in zip(whole.hits, cut.hits, strict=True):
                assert one.score / whole.hits[0].score == pytest.approx(other.score / cut.hits[0].score, abs=rounding)


def test_a_verdict_does_not_fall_because_of_another_base_and_another_language_finds_the_english_document(two):
    for number in range(40):
        two.write(two.home / "notes" / f"{number}.md", f"# Recipe {number}\n\nA bastion of bread number {number}.\n")
    hub = synced(two)
    for text in ("deploy", "how do we deploy", "deploy bastion"):
        alone = hub.search(Query(text=text, bases=("project",)))
        assert hub.search(Query(text=text)).hits[0].score >= alone.hits[0].score

    # By its meaning, as no word is the same; by keyword where the model does not know the language.
    two.write("knowledge/ka.md", "# სერვერი\n\nროგორ გადავტვირთო სერვერი.\n")
    two.write("knowledge/unit.md", "# systemd unit\n\nRestart the machine's web server with `systemctl restart`.\n")
    two.write("knowledge/bread.md", "# Bread\n\nBake the dough for an hour.\n")
    hub = synced(two)
    result = hub.search("გადავტვირთო სერვერი")
    for question in ("как перезапустить сервер", "如何重新启动服务器", "wie starte ich den Server neu"):
        assert refs(hub.search(question))[0] == "unit.md"
    assert (["ka.md"], "keyword") == (refs(result), result.mode)
    assert "knows too few of the words" in result.notes[0]


def test_a_folder_that_cannot_be_looked_at_is_a_problem_of_its_base_and_one_that_is_not_there_is_named(two):
    """And a page beyond all pages is empty."""
    bases = {"notes": "~/notes", "far": f"/nowhere/{'x' * 300}"}
    two.configure(bases=bases, repos={"*": list(bases)})
    hub = synced(two)
    assert 2 == hub.search("deploy").total
    assert ["far"] == [problem.subject for problem in hub.status().problems]
    for text in ("zebra", "path:knowledge"):
        found = hub.search(Query(text=text, offset=2**63 - 1))
        assert (found.hits, found.skipped) == ((), ())

    bases = {"notes": "~/notes", "far": "~/far", "away": "~/away"}
    two.configure(bases=bases, repos={"*": ["notes", "far"]})
    hub = synced(two)
    said = f"far: {two.home / 'far'} does not exist."
    chosen, keyword = Query(text="plugh", bases=("project", "notes")), Query(text="xyzzy", mode="keyword")
    asked = ("how do I quit vim", "gas cost of an opcode", keyword, chosen)
    told = [[note for note in hub.search(query).notes if note.startswith(said)] for query in asked]
    assert [0, 1, 1, 0] == list(map(len, told))
    assert not any("away" in note for note in hub.search("xyzzy").notes)


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="descriptors are listed on Linux")
def test_many_threads_open_few_files(environment):
    bases = {f"b{number}": f"~/b{number}" for number in range(6)}
    for name in bases:
        environment.write(environment.home / name / "a.md", f"zebra {name}")
    environment.configure(bases=bases, repos={"*": list(bases)})
    hub = synced(environment)
    together = threading.Barrier(21)

    def search(_):
        together.wait(60)
        total = hub.search(Query(text="zebra", mode="keyword")).total
        together.wait(60)
        together.wait(60)
        return total

    with ThreadPoolExecutor(20) as pool:
        totals = pool.map(search, range(20))
        together.wait(60)
        together.wait(60)
        descriptors = [str(one.readlink()) for one in Path("/proc/self/fd").iterdir() if one.is_symlink()]
        together.wait(60)

    assert [6] * 20 == list(totals)
    # Each connection has one to the file and one to its journal; each file one to its shared memory.
    assert sum(str(hub.cache) in one for one in descriptors) <= 6 * (2 * READERS + 1)


@pytest.mark.parametrize("lost", ["all", "folder", "index", "not indexed"])
@pytest.mark.parametrize(
    "text", ["xyzzy tag:none", *(pytest.param(one, marks=pytest.mark.slow) for one in ("xyzzy", "tag:none"))]
)
def test_of_what_was_not_searched_nothing_is_said(two, monkeypatch, lost, text):
    monkeypatch.setattr(kbhub.hub, "REDISCOVER_SECONDS", 3600.0)  # the folder goes after it was found
    two.hub().sync()
    judged = two.hub().search(Query(text=text))
    hub = two.hub()
    names = [base.id for base in hub.select() if lost == "all" or base.id == "notes"]
    for base in hub.select(names):
        if lost == "folder":
            shutil.move(base.path, two.home / "away")
        elif lost == "index":
            hub.index(base).path.write_bytes(b"no database " * 1000)
        else:
            hub.index(base).path.unlink()
    result = hub.search(Query(text=text))

    assert judged.unmatched or "No document matches tag:none." in judged.notes
    assert names == [one.base for one in result.skipped]
    assert ((), None) == (result.unmatched, result.verdict)
    assert not any("No document" in note or "None of" in note or "covers" in note for note in result.notes)


@pytest.mark.parametrize("model", ["none", "/nowhere/model"])
def test_without_a_model_keyword_search_works_and_says_so(two, model):
    """In every mode; that none is wanted, or one was moved away, is no failure."""
    two.hub().sync()
    two.configure(bases={"notes": "~/notes"}, repos={"*": ["notes"]}, embedder={"model": model})
    for mode in ("keyword", "semantic", "hybrid"):
        result = two.hub().search(Query(text="deploy", mode=mode))
        assert ("keyword", 2) == (result.mode, result.total)
        told = "Keyword search only" if model == "none" else model
        assert [told in note for note in result.notes] == [True] * (mode != "keyword")


def test_freshen_takes_up_a_small_change_and_leaves_a_large_one(two, monkeypatch):
    hub = two.hub()
    assert {"project", "notes"} == {behind.base for behind in hub.freshen()}
    hub.sync()
    two.write("knowledge/new.md", "# New\n\nzebra\n")
    assert () == hub.freshen()
    assert ["new.md"] == refs(hub.search("zebra"))

    monkeypatch.setattr(kbhub.sync.freshness, "FRESHEN_CHANGES", 3)
    for number in range(4):
        two.write(f"knowledge/many/{number}.md", "zebra")
    behind = hub.freshen()

    assert [("project", False)] == [(one.base, one.new_index) for one in behind]
    assert 4 <= behind[0].files <= 5  # new.md, saved a moment ago, may be looked at again
    assert any(f"not indexed yet ({behind[0].files})" in note for note in hub.search("zebra").notes)
    found = [hub.search("okapi")]  # it may be in the others
    assert (None, ()) == (found[0].verdict, found[0].unmatched)
    hub.sync(progress=lambda *_: found.append(hub.search("okapi")))
    assert not [one for one in found[1:] if "still being indexed" not in "".join(one.notes)]
    assert not any("not indexed yet" in note for note in hub.search("zebra").notes)


def test_a_changed_file_is_found_among_many_young_ones_up_to_a_limit(environment, monkeypatch):
    monkeypatch.setattr(kbhub.sync.comparison, "RACY_NS", 10 * HOUR_NS)
    for number in range(kbhub.sync.freshness.FRESHEN_CHANGES + 40):
        environment.write(f"knowledge/{number}.md", f"# Note {number}\n\nalpha\n")
    hub = synced(environment)
    with kbhub.sync.comparison.only_writer(hub.index(hub.discovery().bases[0]).path):
        assert hub.freshen(max_age=0) == ()  # which would be `busy`
    environment.write("knowledge/7.md", "# Note 7\n\nzebra\n")

    assert hub.freshen(max_age=0) == ()
    assert ["7.md"] == refs(hub.search("zebra"))
    assert not any("not indexed yet" in note for note in hub.search("zebra").notes)

    monkeypatch.setattr(kbhub.sync.comparison, "RACY_NS", 0)  # now a sync would look at them once more
    with kbhub.sync.comparison.only_writer(hub.index(hub.discovery().bases[0]).path):
        assert (hub.freshen(max_age=0)[0].busy, hub.search("alpha").verdict is None) == (True, False)

    monkeypatch.setattr(kbhub.sync.freshness, "FRESHEN_YOUNG", 3)
    files = kbhub.sync.freshness.FRESHEN_CHANGES + 40
    assert [files] == [one.files for one in hub.freshen(max_age=0)]
    assert any(f"not indexed yet ({files})" in note for note in hub.search("alpha").notes)


def test_a_docid_is_as_long_as_it_takes(two):
    folder = two.project / "knowledge"
    seen: dict[str, str] = {}
    for number in itertools.count():  # two of some 5,000 names share 24 bits
        digits = hashlib.sha256(f"{folder}\0{number}.md".encode()).hexdigest()[:6]
        if digits in seen:
            break
        seen[digits] = f"{number}.md"
    names = {seen[digits], f"{number}.md"}
    for name in names:
        two.write(f"knowledge/{name}", "zebra\n")
    hub = synced(two)
    hits = hub.search("zebra").hits
    assert names == {hit.ref for hit in hits}
    assert all(hit.docid.startswith(f"#{digits}") and len(hit.docid) > 7 for hit in hits)
    assert names == {hub.read([hit.docid]).readings[0].ref for hit in hits}
    assert all(name in hub.read([f"#{digits}"]).unread[0].message for name in names)


def test_a_base_whose_turn_is_to_come_says_so(environment):
    environment.write("knowledge/deploy.md", "# Deploy\n")
    environment.write(environment.home / "notes" / "vim.md", "# Vim\n")
    hub = environment.hub(bases={"notes": environment.home / "notes"})
    said = {}

    def look(*_):
        said.update({one.base: one.reason for one in hub.search("vim").skipped})

    hub.sync(("project",), progress=look)
    assert said["notes"] == "It is not indexed yet; it is queued after 'project'."
    assert "does not exist yet" in hub.search("vim").skipped[0].reason


WORDS = ("deploy", "database", "canary", "rollback", "index", "token", "kafka", "billing", "latency", "widget")
ENDINGS = ("deployed", "deploying", "deploys", "indexed", "indexing", "rollbacks", "tokens", "widgets", "latencies")
"""Of which documents and queries are made, beside the sentences."""

SIZES = {"short": (40, 1, 6), "long": (160, 6, 1)}
"""Documents; times that they are edited; one query in so many is asked."""


def text_of(choose: random.Random, number: int) -> str:
    """Give a document of some sections; many are alike, word for word."""
    if choose.random() < 0.2:
        return f"# {choose.choice(WORDS)}\n\nThe same words stand here and there.\n"
    text = f"---\ntags: [{choose.choice(WORDS)}]\n---\n# Note {number}\n"
    for _ in range(choose.randint(1, 5)):
        words = " ".join(choose.choices(WORDS, k=12))
        text += f"\n## {' '.join(choose.choices(WORDS, k=2))}\n\n{words} {choose.choice(ENDINGS)}\n"
    return text


def queries(choose: random.Random) -> list[Query]:
    """Give queries of every kind: words, questions, slips, filters, names, in each mode."""
    texts = [
        *(" ".join(choose.sample(WORDS, k=choose.randint(1, 4))) for _ in range(16)),
        *(f"how do we {choose.choice(ENDINGS)} the {choose.choice(WORDS)}" for _ in range(8)), "deploiment",
        "depoly canary", "indxing", "rolback", "widgts", "latecies", "tokns bill", "kafak", "tag:deploy",
        "tag:index widget", "-canary deploy", '"same words stand"', "path:d1 token", "Note 17", "zzzzyx",
    ]  # fmt: skip
    modes = ("hybrid", "keyword", "semantic")
    return [Query(text=text, mode=mode, limit=10, explain=True) for text in texts for mode in modes]


def answer(hub, query):
    """Give all of an answer that a reader sees, with every score."""
    result = hub.search(query)
    hits = [hit.model_dump(mode="json", exclude={"age_days", "explain"}) for hit in result.hits]
    return hits, result.total, result.verdict, result.unmatched, result.corrections, result.notes


def edit(environment, choose, numbers):
    folder = environment.project / "knowledge"
    for _ in range(40):
        number = choose.randrange(numbers)
        file = folder / f"d{number % 7}" / f"n{number}.md"
        act = choose.random()
        if act < 0.6 or not file.exists():
            environment.write(f"knowledge/d{number % 7}/n{number}.md", text_of(choose, number))
        elif act < 0.8:
            file.unlink()
        else:
            (folder / "moved").mkdir(exist_ok=True)
            file.rename(folder / "moved" / f"r{number}.md")


@pytest.mark.parametrize(
    ("seed", "size"), [(0, "short"), *(pytest.param(seed, "long", marks=pytest.mark.slow) for seed in range(12))]
)
def test_answers_depend_on_the_files_alone(environment, monkeypatch, seed, size):
    monkeypatch.setattr(kbhub.sync.sync, "BATCH_FILES", 8)
    choose, (numbers, rounds, step) = random.Random(seed), SIZES[size]
    for number in range(numbers):
        environment.write(f"knowledge/d{number % 7}/n{number}.md", text_of(choose, number))
    for name, text in sentences(60).items():
        environment.write(f"knowledge/s/{name}", f"# {name}\n\n{text}\n")
    asked = queries(choose)[::step]
    warm = synced(environment)
    for query in asked:
        warm.search(query)
    for _ in range(rounds):
        edit(environment, choose, numbers)
        stopped = Mock(side_effect=[*[None] * choose.randrange(4), KeyboardInterrupt])  # between two transactions
        with suppress(KeyboardInterrupt):
            environment.hub().sync(progress=stopped)
        for query in choose.sample(asked, min(12, len(asked))):
            warm.search(query)
        environment.hub().sync()
        for query in choose.sample(asked, min(30, len(asked))):
            warm.search(query)

    cold, anew = environment.hub(), synced(environment, cache=environment.home / "anew")
    for query in choose.sample(asked, len(asked)):
        assert answer(warm, query) == answer(cold, query) == answer(anew, query), query
