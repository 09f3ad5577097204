"""How sure an answer is."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from kbhub.search.evidence import gap
from kbhub.search.judge import MODELS, confidence
from kbhub.search.plan import Evidence

shares = st.floats(0, 1)
asked = st.fixed_dictionaries(
    {
        "evidence": st.builds(Evidence, **dict.fromkeys(("coverage", "together", "phrase", "names"), shares)),
        "similarity": st.none() | shares, "size": st.integers(0, 10_000_000), "terms": st.integers(1, 12),
        "cohesion": shares, "model": st.sampled_from([None, "ollama/unknown", *MODELS]),
    }
)  # fmt: skip


@given(asked, st.integers(0, 100))
def test_confidence_is_a_probability(asked, terms):
    assert 0 <= confidence(**{**asked, "terms": terms}) <= 1


@given(asked, shares, st.sampled_from(["coverage", "together", "phrase", "names", "similarity"]))
def test_more_evidence_is_never_less_sure(asked, similarity, what):
    asked = {**asked, "similarity": similarity}
    more = {"similarity": 1.0} if what == "similarity" else {"evidence": replace(asked["evidence"], **{what: 1.0})}

    assert confidence(**asked) <= confidence(**{**asked, **more})


@given(asked)
def test_a_large_base_is_judged_like_the_largest_that_was_measured(asked):
    """Beyond that, only its size would be left to decide."""
    small, measured, larger = (confidence(**{**asked, "size": size}) for size in (50, 8_000, 8_000_000))

    assert larger == measured <= small


@given(asked, st.sampled_from([("absent", 1.0), ("lacking", 2.0)]), shares, shares)
def test_words_that_are_nowhere_or_not_in_the_chunk_make_it_less_sure(asked, what, few, many):
    """A question about what no document names is answered by none, however near one is."""
    name, most = what
    fewer, more = (confidence(**{**asked, name: most * value}) for value in sorted((few, many)))

    assert more <= fewer


def test_a_word_that_another_one_resembles_is_hardly_lacking():
    """What a question asks for is often said in another word; a name or a unit is not."""
    text = "Two engineers rotate weekly.\nCompensation: 250 euros and a day of leave."

    assert gap([("salary", 1.0)], text) < gap([("password", 1.0)], text) == 1.0
    assert gap([], text) == 0.0
