"""Words that occur nowhere are searched for as what was probably meant, and only then."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpus import make_index
from kbhub.index.engine import NewDocument
from kbhub.index.query.parser import parse_query
from kbhub.index.query.spelling import Respelling, completed, correctable, corrected, corrections, distance
from kbhub.index.sqlite.index import IndexWriter, SqliteIndex
from kbhub.types import Chunk

NAMES = "Luther prints on a printer from Kubernetes; Docker, Kafka and Postgres are written by Чекхов."

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


def test_a_slip_is_put_right(bases):
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
            assert sum(len(index.postings(found.term)) for index in bases) > 0


def test_the_beginning_of_a_word_is_completed_if_nothing_has_it(bases):
    for typed, meant in {
        "how is a Deplo": "how is a deployment", "deploymen": "deployment", "repl": "replication", "": "", "re": "re",
        "überw": "überwachung", "the release": "the release", "releases ": "releases ", "mergeQueuz": "mergeQueuz",
    }.items():  # fmt: skip
        assert completed(bases, typed) == meant


def test_what_is_no_slip_stays_and_only_so_many_words_are_put_right(bases):
    """Identifiers, numbers, capitals, quoted, very short and real words are never changed, nor what is too far."""
    for query in (
        "next2", "relase_x", "--serch", "SERCH", '"deploymnt"', "saerchIt", "nxt", "nect", "sext", "検策",
        "deploym3nt", "x" * 5000, "entirely", "help", "resale", "oprtrs", "",
    ):  # fmt: skip
        assert used(bases, query) == {}, query

    slips = " ".join(f"deploym{letter}nt" for letter in "abcdfghijklmnopqrstuvwxyz")

    assert len(used(bases, slips)) == 8


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("Кубернетес", "kubernetes"), ("كوبرنيتيس", "kubernetes"), ("कुबेरनेटिस", "kubernetes"), ("Λούθερ", "luther"),
        ("Постгрес", "postgres"), ("कैफ़का", "kafka"), ("דוקר", "docker"), ("принтер", "printer"), ("Chekhov", "чекхов"),
    ],
)  # fmt: skip
def test_a_name_is_found_in_another_script(tmp_path, typed, meant):
    index = make_index(tmp_path / "names.db", {"a.md": NAMES})
    with index.snapshot():
        assert used([index], f"{typed} ?") == {typed: meant}


@pytest.mark.parametrize("typed", ["море", "мост", "как", "стол", "तालिका", "مكتبة", "Prag"])
def test_a_word_in_another_script_is_no_name_for_its_sound(tmp_path, typed):
    """`море` means sea and not more, and `стол` table and not steel."""
    index = make_index(tmp_path / "words.db", {"a.md": "Most of the cake is more than steel; a style, Tall in a Cake."})
    with index.snapshot():
        assert used([index], typed) == {}


def test_a_query_is_written_anew_with_the_words_used(bases):
    """What is embedded has the words that were meant, and nothing else is changed in it."""
    made = corrections(bases, parse_query("Deploymnt deploymnts, serch").terms)

    assert corrected("Deploymnt deploymntX, serch", [one for one in made if one.typed != "deploymnts"]) == (
        "deployment deploymntX, search"
    )
    assert [type(one) for one in made] == [Respelling] * len(made)


@given(st.text())
def test_any_term_can_be_asked_for(bases, text):
    """Whatever stands in a query, asking for corrections never fails, and what comes back occurs in a base."""
    for one in corrections(bases, parse_query(text).terms):
        assert any(len(index.postings(one.term)) for index in bases)


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


@given(st.text())
def test_what_is_corrected_is_one_word_of_letters(text):
    for term in parse_query(text).terms:
        word = correctable(term)
        assert not word or (len(term.tokens) == 1 and not any(letter.isdigit() for letter in word))
