"""How sure an answer is."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from kbhub.search.evidence import gap
from kbhub.search.judge import MODELS, confidence
from kbhub.search.plan import Evidence

shares = st.floats(0, 1)
evidence = st.builds(Evidence, **dict.fromkeys(("coverage", "together", "phrase", "names"), shares))
similarities = st.none() | shares
models = st.sampled_from([None, "ollama/unknown", *MODELS])


@given(evidence, similarities, st.integers(0, 10_000_000), st.integers(0, 100), shares, models)
def test_confidence_is_a_probability(one, similarity, size, terms, cohesion, model):
    assert 0 <= confidence(one, similarity, size, terms, cohesion, model) <= 1


@given(
    evidence,
    shares,
    st.integers(0, 10_000_000),
    st.integers(1, 12),
    shares,
    models,
    st.sampled_from(["coverage", "together", "phrase", "names", "similarity"]),
)
def test_more_evidence_is_never_less_sure(one, similarity, size, terms, cohesion, model, what):
    more, nearer = (one, 1.0) if what == "similarity" else (replace(one, **{what: 1.0}), similarity)
    less_sure, surer = (
        confidence(some, value, size, terms, cohesion, model) for some, value in ((one, similarity), (more, nearer))
    )

    assert less_sure <= surer


@given(evidence, similarities, st.integers(1, 12), shares, models)
def test_a_large_base_is_judged_like_the_largest_that_was_measured(one, similarity, terms, cohesion, model):
    """Beyond that, only its size would be left to decide."""
    small, measured, larger = (
        confidence(one, similarity, size, terms, cohesion, model) for size in (50, 8_000, 8_000_000)
    )

    assert larger == measured <= small


@given(evidence, similarities, st.integers(0, 10_000_000), st.integers(1, 12), shares, models, shares, shares)
def test_words_that_occur_nowhere_make_it_less_sure(one, similarity, size, terms, cohesion, model, few, many):
    """A question about what no document names is answered by none, however near one is."""
    fewer, more = (confidence(one, similarity, size, terms, cohesion, model, absent) for absent in sorted((few, many)))

    assert more <= fewer


@given(evidence, similarities, st.integers(1, 12), shares, models, st.floats(0, 2), st.floats(0, 2))
def test_a_rarer_word_that_a_chunk_lacks_makes_it_less_sure(one, similarity, terms, cohesion, model, rare, rarer):
    less, more = (
        confidence(one, similarity, 50, terms, cohesion, model, lacking=lacking) for lacking in sorted((rare, rarer))
    )

    assert more <= less


def test_a_word_that_another_one_resembles_is_hardly_lacking():
    """What a question asks for is often said in another word; a name or a unit is not."""
    text = "Two engineers rotate weekly.\nCompensation: 250 euros and a day of leave."

    assert gap([("salary", 1.0)], text) < gap([("password", 1.0)], text) == 1.0
    assert gap([], text) == 0.0
