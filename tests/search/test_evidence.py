"""What the text of a chunk says, and how sure that makes an answer."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import synced
from kbhub.index.query.parser import parse_query
from kbhub.search.evidence import AMOUNTS, QueryTerms, is_identifier, lacking, words_of
from kbhub.search.judge import MODELS, confidence
from kbhub.search.plan import Evidence, WeightedTerm
from kbhub.types import Query


def terms(query: str, **weights: float) -> list[WeightedTerm]:
    """The terms of a query, each of weight 1 unless given."""
    return [WeightedTerm(one.text, one.tokens, weights.get(one.text, 1.0)) for one in parse_query(query).terms]


def test_names_of_programs_are_identifiers_and_words_are_not_and_coverage_counts_what_a_reader_sees():
    """Of what was asked for, what stands in the chunk, above it, or in what its document is called."""
    names = "max_retries --locked maxRetries main() PATH /api/v1 utf8 std::vec a.b $HOME"
    words = "release Release US naïve 日本 a 3 release. (see -"
    assert [word for word in names.split() if not is_identifier(word)] == []
    assert [word for word in words.split() if is_identifier(word)] == []
    asked = QueryTerms(terms("rollback canary banana"))
    without = asked.examine("The rollback.", ("Canary",), "Deploys")
    named = asked.examine("The rollback.", ("Canary",), "Deploys", (words_of("fruit/bananaSplit2.md"),))
    assert [word for word, _ in without.missing] == ["banana"]
    assert named.missing == ()


def test_a_title_that_says_more_is_about_it_a_rare_word_counts_more_and_one_that_is_resembled_hardly_lacks():
    """By the weight of the words: a title of one common word is about little, however much of it is asked for.

    By what the words say in language at large, so also in a base of two documents.
    """
    asked = QueryTerms(terms("why is the next release late", release=3.0, late=2.0))
    little, much = (asked.examine("Some text.", (), title) for title in ("Next", "Late releases in spring"))

    assert (little.title, little.about) == (1.0, pytest.approx(1 / 6))
    assert much.title == pytest.approx(2 / 4, abs=0.2)
    assert much.about == pytest.approx(5 / 6)

    assert QueryTerms(terms("route priority")).examine("## Priority of a route", ("Guide",), "Routes").heading == 1
    assert QueryTerms(terms("route priority")).examine("", ("Route",), "").heading == pytest.approx(1 / 8)
    assert QueryTerms(terms("--pre")).examine("", ("pre_start",), "").heading == 0
    asked = QueryTerms(terms("people kubernetes"))
    assert asked.examine("kubernetes", (), "").together > asked.examine("people", (), "").together

    # What a question asks for is often said in another word; a name or a unit is not.
    text = "Two engineers rotate weekly.\nCompensation: 250 euros and a day of leave."
    near, far = lacking([("salary", 1.0), ("password", 0.5)], text)
    assert near < 1.0
    assert far == 0.5
    assert lacking([], text) == []


def test_signals_can_be_left_out(environment):
    environment.write("knowledge/a.md", "# Pool\n\n## max_retries\n\nmax_retries pool\n")
    (hit,) = synced(environment).search(Query(text="max_retries pool", explain=True, without=("phrase", "title"))).hits
    assert {part.name for part in hit.trace.signals} & {*AMOUNTS} == {"identifier", "definition", "about", "heading"}


@pytest.mark.parametrize("query", ["max_retries", "max-retries", "MAX_RETRIES", "max retries"])
@pytest.mark.parametrize("text", ["maxRetries", "maxRetry", "HTTPMaxRetries", "max_retries", "µ maxRetries"])
def test_a_name_covers_its_other_spellings(query, text):
    """In the text, its headings and its title, in ASCII and beyond: who writes `max_retries` means `maxRetries`."""
    asked = QueryTerms(terms(query))
    within = asked.examine(f"Set {text} to three.", (), "Client")
    assert (within.missing, within.together, within.phrase) == ((), pytest.approx(1), 1)
    assert asked.examine("Three.", (f"Set {text}",), "Client").missing == ()
    assert asked.examine("Three.", (), text).missing == ()


@pytest.mark.parametrize(
    "text", ["Set maxretries to three.", "Set climaxRetries", "aGVsbG8gbWF4UmV0cmllcyBoZWxsbyBoZWxsbw"]
)
def test_a_word_that_is_no_name_is_not_taken_apart(text):
    assert QueryTerms(terms("max_retries")).examine(text, (), "").missing


@pytest.mark.parametrize("text", ["The pool of connections.", "プール connection pool"])
def test_what_stands_together_counts_together(text):
    asked = QueryTerms(terms("connection pool"))
    apart = f"A connection. {'Something else altogether. ' * 20} A pool."
    assert asked.examine(text, (), "").together == pytest.approx(1)
    assert asked.examine(apart, (), "").together < 1
    assert asked.examine(apart, (), "").missing == ()


def test_a_name_counts_only_letter_for_letter_and_neighbours_where_they_are_neighbours():
    """`--pre` is not `--pretty` or `pre_start`, and `histogram()` not `histograms`.

    `connection pool` is found as a phrase without quotes, stems apart or not.
    """
    flag, name = QueryTerms(terms("--pre")), QueryTerms(terms("max_retries"))
    found = name.examine("Set MAX_RETRIES.", (), "")

    assert flag.examine("Use `--pre` here.", (), "").identifier == 1
    assert flag.examine("Use `--pretty` or pre_start or pre.", (), "").identifier == 0
    assert (found.identifier, found.names) == (1, pytest.approx(1))
    assert 0 < QueryTerms(terms("set max_retries")).examine("Set MAX_RETRIES.", (), "").names < 1
    assert name.examine("Set max retries.", (), "").names == 0

    asked, heading = QueryTerms(terms("max_retries")), ("`max_retries`",)

    assert asked.examine("See max_retries.", (), "").definition == 0
    for text, headings in (("- `max_retries`: how often", ()), ("max_retries = 3", ()), ("How often.", heading)):
        assert asked.examine(text, headings, "").definition == 1

    asked = QueryTerms(terms("connection pool"))

    assert asked.examine("Connections pools are small.", (), "").phrase == 1
    assert asked.examine("A pool for each connection.", (), "").phrase == 0


shares = st.floats(0, 1)
asked = st.fixed_dictionaries(
    {
        "evidence": st.builds(Evidence, together=shares, names=shares), "similarity": st.none() | shares,
        "size": st.integers(0, 10_000_000), "cohesion": shares,
        "model": st.sampled_from([None, "ollama/unknown", *MODELS]),
    }
)  # fmt: skip
lacks = st.sampled_from([("absent", 1.0), ("gap", 1.7), ("lacking", 1.0)])


@given(asked, lacks, shares, shares)
def test_confidence_is_a_probability_and_falls_with_words_that_are_nowhere_or_not_in_the_chunk(asked, what, few, many):
    """A question about what no document names is answered by none, however near one is."""
    name, most = what
    fewer, more = (confidence(**{**asked, name: most * value}) for value in sorted((few, many)))
    assert 0 <= more <= fewer <= 1
    assert confidence(**{**asked, name: most}) < confidence(**asked)


@given(asked, shares, st.sampled_from([None, *MODELS]))
def test_more_evidence_is_surer(asked, share, model):
    least, some, most = (confidence(**{**asked, "model": model, "similarity": one}) for one in (0.0, share, 1.0))
    assert least <= some <= most
    assert model is None or least < most  # the cosines of other models are not calibrated
    for what in ("together", "names"):
        values = [{**asked, "evidence": replace(asked["evidence"], **{what: one})} for one in (0.0, share, 1.0)]
        least, some, most = (confidence(**one) for one in values)
        assert (least <= some <= most, least < most) == (True, True)


@given(asked)
def test_a_large_base_is_judged_like_the_largest_that_was_measured(asked):
    """Beyond that, only its size would be left to decide."""
    small, measured, larger = (confidence(**{**asked, "size": size}) for size in (50, 8_000, 8_000_000))
    assert larger == measured <= small
