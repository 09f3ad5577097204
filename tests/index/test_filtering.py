"""Filters and exclusions decide before the top is cut, and words that occur nowhere are taken for the nearest."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpus import make_index, nearest
from kbhub.index.engine import NewDocument, Selection
from kbhub.index.matches import keys_of, newest, select
from kbhub.index.query.parser import Filter, FilterValue, parse_query
from kbhub.index.query.spelling import Respelling, completed, corrected, corrections, distance
from kbhub.index.sqlite.index import IndexWriter, SqliteIndex
from kbhub.models.static_model import quantise
from kbhub.search.retrieval import keyword_ranking
from kbhub.types import Chunk

NOW = 1_750_000_000.0
DAY = 86_400
DIMENSIONS = 8


def vector(number: int) -> np.ndarray:
    made = np.random.default_rng(number).normal(size=DIMENSIONS).astype(np.float32)
    return made / np.linalg.norm(made)


class Written:
    """An index with documents of one chunk each, or several."""

    def __init__(self, path, documents):
        self.index = SqliteIndex(path, "notes")
        self.keys = frozenset()
        number = 0
        with IndexWriter(path) as writer, writer.transaction():
            for name, front_matter, *paragraphs in documents:
                chunks, vectors = [], {}
                for paragraph in paragraphs or ["text"]:
                    number += 1
                    chunks.append(Chunk((), len(chunks) + 1, len(chunks) + 1, paragraph))
                    vectors[number] = quantise(vector(number)).tobytes()
                tags = tuple(front_matter.pop("tags", ()))
                dated = int(front_matter.pop("dated", 0)) or None
                self.keys |= {key.casefold() for key in front_matter}
                writer.put(
                    NewDocument(name, f"{number:064x}", 1, int(NOW * 1e9), b"", name, tags, (), front_matter, dated,
                                None, tuple(chunks), tuple(vectors)),
                    vectors,
                )  # fmt: skip

    def selection(self, query: str) -> Selection | None:
        understood = parse_query(query, self.keys)
        return select(self.index, {"notes", "n"}, understood.filters, understood.excluded, NOW)

    def paths(self, query: str) -> list[str]:
        with self.index.snapshot():
            return self.of(self.selection(query))

    def of(self, selection: Selection | None) -> list[str]:
        rows = newest(self.index, selection, 10_000)
        places = self.index.places([chunk for chunk, _ in rows])
        return sorted(places[chunk][0] for chunk, _ in rows)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    return Written(
        tmp_path_factory.mktemp("index") / "notes.db",
        [
            ("api/a.md", {"tags": ["Ops", "team/infra"], "priority": 1, "date": "2023-05-01", "owner": "Jane Doe",
             "namespace": "infra/vpn"}),
            ("api/v2/b.md", {"tags": ["ops"], "priority": 3, "date": "2024-02-29", "owner": ["jane doe", "Bob"]}),
            ("API/c.draft.md", {"tags": ["team"], "priority": "5", "date": "2024-12-31t10:00:00", "draft": True}),
            ("docs/d.md", {"tags": ["teamwork"], "namespace": "infrared", "version": "1.10", "meta": {"level": 2},
             "dated": NOW - 40 * DAY}),
            ("docs/Über uns.md", {"Größe": "STRASSE", "dated": NOW - 400 * DAY}, "about", "a draft of it"),
            ("e.md", {"namespace": "infra", "year": 2024, "draft": False, "date": "unknown"}),
        ],
    )  # fmt: skip


FOUND = """
tag:OPS → a b; tag:#ops → a b; tag:team → a c; tag:team/infra → a; tag:team,teamwork → a c d; tag:ops tag:team → a
-tag:ops → c d e u; tag:* → a b c d; tag:nothing →
namespace:infra → a e; namespace:Infra/ → a e; namespace:infra/vpn → a; -namespace:infra → b c d u
namespace:infra/vpn,infrared → a d
path:api/ → a b c; path:api/v2 → b; path:./API/A.md → a; path:*.draft.md → c; path:api/*.md → a c; path:api/**/b.md → b
path:v2/ →; path:*/v2 → b; path:docs/Ü → u; path:"docs/über uns.md" → u; path:docs/,e.md → d e u
-path:docs/ -path:api → e; path:[ →; path:!* →
base:notes tag:ops → a b; base:N tag:ops → a b; base:other →; base:other base:notes tag:ops → a b; -base:notes →
kind:document tag:ops → a b; kind:memory →
owner:bob → b; owner:"jane doe" → a b; owner:* → a b; -owner:* → c d e u; größe:strasse → u; GRÖSSE:straße → u
meta.level:2 → d; draft:true → c; draft:yes → c; draft:no → e; version:1.10 → d; year:>2023 → e
priority:3 → b; priority:3.0 → b; priority:5 → c; priority:>=3 → b c; priority:<3 → a; priority:2..4 → b
priority:2.. → b c; -priority:>=3 → a d e u; priority:>=3 tag:ops → b
date:2024 → b c; date:2024-02 → b; date:>2023 → b c; date:>=2023 → a b c; date:<2024 → a; date:<=2024-02 → a b
date:2023-06..2024-11 → b; date:2024-12-31 → c; date:unknown → e
age:<30d → a b c e; age:>30d → d u; age:>1y → u; age:40 → d; age:5w..2m → d; -age:<30d → d u
"""


def test_a_filter_leaves_the_documents_it_names(written):
    """Every kind of filter: prefix, glob, tag, list, number, date, age, and each turned round."""
    names = {"a": "api/a.md", "b": "api/v2/b.md", "c": "API/c.draft.md", "d": "docs/d.md", "e": "e.md"}
    names["u"] = "docs/Über uns.md"
    written.keys |= {"größe", "meta.level"}
    for line in FOUND.strip().replace("\n", "; ").split("; "):
        query, found = line.split(" →")
        assert written.paths(query) == sorted(names[letter] for letter in found.split()), query
    decomposed = json.loads('"gro\\u0308sse"')
    assert written.paths(f"{decomposed}:STRASSE") == ["docs/Über uns.md"]


def test_an_exclusion_leaves_out_the_document_and_a_list_of_documents_is_newest_first(written):
    """A document that has the word anywhere, be it in another chunk, its title or its tags, is left out whole."""
    assert written.paths("x -draft") == ["api/a.md", "api/v2/b.md", "docs/d.md", "e.md"]
    assert written.paths('x -"draft of"') == sorted(set(written.paths("x")) - {"docs/Über uns.md"})
    assert "api/a.md" not in written.paths("x -infra")
    # A query of filters only lists documents by age, those of one time by path.
    with written.index.snapshot():
        rows = newest(written.index, written.selection("-tag:ops"), 3)
        places = written.index.places([chunk for chunk, _ in rows])
    assert [places[chunk][0] for chunk, _ in rows] == ["API/c.draft.md", "e.md", "docs/d.md"]
    assert [day for _, day in rows][2] == NOW - 40 * DAY


VALUES = st.builds(
    FilterValue, st.text(max_size=8), st.sampled_from(["=", ">", ">=", "<", "<=", ".."]), st.text(max_size=8)
)
FILTERS = st.builds(
    Filter,
    st.sampled_from(["tag", "path", "base", "kind", "age", "date", "priority", "owner", "\0"]),
    st.lists(VALUES, min_size=1, max_size=3).map(tuple),
    st.booleans(),
)


@given(st.lists(FILTERS, max_size=3), st.text())
def test_no_filter_fails(written, filters, text):
    understood = parse_query(text, written.keys)
    with written.index.snapshot():
        chosen = select(written.index, {"notes"}, [*filters, *understood.filters], understood.excluded, NOW)
        every = len(newest(written.index, None, 100))
        assert chosen is None or chosen.documents <= every


@pytest.fixture(scope="module")
def crowd(tmp_path_factory):
    """Three documents among thousands that all have the words and are nearer than they."""
    documents = [(f"x/{number}.md", {"tags": ["many"]}, "alpha beta " * (number % 7 + 1)) for number in range(3000)]
    for number in (0, 1500, 2999):
        documents[number] = (f"x/{number}.md", {"tags": ["rare"]}, "alpha " + "filler " * 300)
    return Written(tmp_path_factory.mktemp("crowd") / "crowd.db", documents)


def by_words(index, query, chosen):
    """Rank by keywords: chunk → score."""
    found = keyword_ranking([index], parse_query(query).terms, [chosen]).ranking
    return dict(zip((chunk for _, chunk in keys_of(found.chunks)), found.values.tolist(), strict=True))


def test_no_filter_starves_and_a_large_selection_is_ranked_as_the_whole_is(crowd):
    for tag, wanted in {"rare": ["x/0.md", "x/1500.md", "x/2999.md"], "none": []}.items():
        with crowd.index.snapshot():
            chosen = crowd.selection(f"tag:{tag}")
            by_word = by_words(crowd.index, "alpha beta", chosen)
            by_vector = dict(nearest(crowd.index, vector(7), 100, chosen))
            listed = dict(newest(crowd.index, chosen, 10))
            places = crowd.index.places([*by_word, *by_vector, *listed])
        assert chosen is not None
        assert chosen.documents == len(wanted)
        for found in (by_word, by_vector, listed):
            assert sorted(places[chunk][0] for chunk in found) == wanted

    # A filter that most documents pass gives the same order as none, less those that do not pass.
    with crowd.index.snapshot():
        chosen = crowd.selection("tag:many")
        best = nearest(crowd.index, vector(7), 50, chosen)
        every = nearest(crowd.index, vector(7), 60)
        assert chosen is not None
        inside = set(chosen.chunks)
        assert best == [one for one in every if one[0] in inside][:50]
        assert by_words(crowd.index, "beta", chosen) == by_words(crowd.index, "beta", None)


NAMES = (
    "Luther prints on a printer from Kubernetes; Docker, Kafka and Postgres by Чехов. Dmitry Kuznetsov met "
    "Elena, Fatima and Cohen in Jerusalem and Mumbai: Grafana is for Mohammed, Philippos and Rachel."
)

TEXTS = (
    "# Deployment\n\nThe deployment of a release is rolled back by the operators.",
    "Replication of the catalogue; authentication and the search of kubernetes clusters.",
    "Next the café opens; Installationsanleitung und Überwachung. The mergeQueue merged it.",
)


@pytest.fixture(scope="module")
def bases(tmp_path_factory):
    """Two bases, the texts divided between them."""
    folder = tmp_path_factory.mktemp("bases")
    indexes = []
    for base, texts in enumerate((TEXTS[:2], TEXTS[2:])):
        path = folder / f"{base}.db"
        with IndexWriter(path) as writer, writer.transaction():
            for number, text in enumerate(texts):
                told = (f"{number}.md", f"{base}{number}", 1, 1, b"", "A page", ("observability",), (), {}, None, None)
                writer.put(NewDocument(*told, (Chunk((), 1, 3, text),), (number,)), {})
        indexes.append(SqliteIndex(path, str(base)))
    with indexes[0].snapshot(), indexes[1].snapshot():
        yield indexes


def used(bases, query: str) -> dict[str, str]:
    return {one.typed: one.used for one in corrections(bases, parse_query(query).terms)}


def test_a_slip_is_put_right_and_what_is_none_stays_and_only_so_many_words_change(bases):
    """Anywhere in a word, in its ending too, it leads to the word as it stands in a text of some base."""
    for slips, meant in {
        "deploymnt Depolyment? edployment": "deployment", "relase": "release", "replicaton": "replication",
        "authentcaiton": "authentication", "serch saerch": "search", "kuberntes": "kubernetes", "mreged": "merged",
        "observabilty": "observability", "instalationsanleitung": "installationsanleitung",
        "überwachng": "überwachung",
    }.items():  # fmt: skip
        for slip in slips.split():
            (found,) = corrections(bases, parse_query(slip).terms)
            assert found.used == meant
            assert sum(len(index.postings(found.term).positions) for index in bases) > 0

    # Identifiers, numbers, capitals, quoted, very short and real words are never changed, nor what is too far.
    for query in (
        "next2", "relase_x", "--serch", "SERCH", '"deploymnt"', "saerchIt", "nxt", "nect", "sext", "検策",
        "deploym3nt", "x" * 5000, "entirely", "help", "resale", "oprtrs", "",
    ):  # fmt: skip
        assert used(bases, query) == {}, query
    slips = " ".join(f"deploym{letter}nt" for letter in "abcdfghijklmnopqrstuvwxyz")
    assert len(used(bases, slips)) == 8


def test_the_beginning_of_a_word_is_completed_and_a_query_written_anew_with_the_words_used(bases):
    for typed, meant in {
        "how is a Deplo": "how is a deployment", "deploymen": "deployment", "repl": "replication", "": "", "re": "re",
        "überw": "überwachung", "the release": "the release", "releases ": "releases ", "mergeQueuz": "mergeQueuz",
    }.items():  # fmt: skip
        assert completed(bases, typed) == meant
    # What is embedded has the words that were meant, and nothing else is changed in it.
    made = corrections(bases, parse_query("Deploymnt deploymnts, serch").terms)
    assert corrected("Deploymnt deploymntX, serch", [one for one in made if one.typed != "deploymnts"]) == (
        "deployment deploymntX, search"
    )
    assert [type(one) for one in made] == [Respelling] * len(made)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("Кубернетес", "kubernetes"), ("كوبرنيتيس", "kubernetes"), ("कुबेरनेटिस", "kubernetes"), ("Λούθερ", "luther"),
        ("Постгрес", "postgres"), ("कैफ़का", "kafka"), ("דוקר", "docker"), ("принтер", "printer"), ("Chekhov", "чехов"),
        ("Дмитрий", "dmitry"), ("Кузнецов", "kuznetsov"), ("Графана", "grafana"), ("Ελένα", "elena"),
        ("فاطمة", "fatima"), ("כהן", "cohen"), ("ירושלים", "jerusalem"), ("קפקא", "kafka"), ("मुंबई", "mumbai"),
    ],
)  # fmt: skip
def test_a_name_is_found_in_another_script(tmp_path, typed, meant):
    index = make_index(tmp_path / "names.db", {"a.md": NAMES})
    with index.snapshot():
        assert used([index], f"{typed} ?") == {typed: meant}


@pytest.mark.parametrize("typed", ["море", "мост", "как", "стол", "तालिका", "مكتبة", "Prag", "كيف"])
def test_a_word_in_another_script_is_no_name_for_its_sound(tmp_path, typed):
    """`море` means sea and not more, and `стол` table and not steel."""
    text = "Most of the cake is more than steel; a style, Tall in a Cake. Keep it."
    index = make_index(tmp_path / "words.db", {"a.md": text})
    with index.snapshot():
        assert used([index], typed) == {}


@given(st.text())
def test_any_term_can_be_asked_for(bases, text):
    """Whatever stands in a query, asking for corrections never fails, and what comes back occurs in a base."""
    for one in corrections(bases, parse_query(text).terms):
        assert any(len(index.postings(one.term).positions) for index in bases)


def reference(left: str, right: str) -> int:
    """The textbook's optimal string alignment distance."""
    rows = [[at + column if not at * column else 0 for column in range(len(right) + 1)] for at in range(len(left) + 1)]
    for at in range(1, len(left) + 1):
        for column in range(1, len(right) + 1):
            same = left[at - 1] == right[column - 1]
            rows[at][column] = min(
                rows[at - 1][column] + 1, rows[at][column - 1] + 1, rows[at - 1][column - 1] + (not same)
            )
            crossed = at > 1 and column > 1 and left[at - 1] == right[column - 2] and left[at - 2] == right[column - 1]
            if crossed:
                rows[at][column] = min(rows[at][column], rows[at - 2][column - 2] + 1)
    return rows[-1][-1]


WORDS = st.text(alphabet="abc", max_size=7)


@given(WORDS, WORDS, st.integers(0, 8))
def test_slips_are_counted_as_in_the_textbook(left, right, most):
    assert distance(left, right, most) == min(reference(left, right), most + 1)
