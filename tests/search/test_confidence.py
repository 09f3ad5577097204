"""How sure an answer is."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from kbhub.search.judge import MODELS, ChunkSupport, confidence

shares = st.floats(0, 1)
models = st.sampled_from([None, "ollama/unknown", *MODELS])
supports = st.builds(
    ChunkSupport,
    coverage=shares,
    together=shares,
    phrase=shares,
    names=shares,
    similarity=st.none() | shares,
    size=st.integers(0, 10_000_000),
)


@given(st.lists(supports, max_size=20), st.integers(0, 100), shares, models)
def test_confidence_is_a_probability(found, terms, cohesion, model):
    assert 0 <= confidence(found, terms, cohesion, model) <= 1


@given(
    supports,
    st.integers(1, 12),
    shares,
    models,
    st.sampled_from(["coverage", "together", "phrase", "names", "similarity"]),
)
def test_more_evidence_is_never_less_sure(one, terms, cohesion, model, what):
    one = replace(one, similarity=0.5 if one.similarity is None else one.similarity)
    more = replace(one, **{what: 1.0})
    assert confidence([one], terms, cohesion, model) <= confidence([more], terms, cohesion, model)


@given(st.lists(supports, min_size=1, max_size=9), supports, st.integers(1, 12), shares, models)
def test_a_further_chunk_never_lowers_it(found, further, terms, cohesion, model):
    """What is searched beside a base takes nothing away from what it answers."""
    assert confidence([*found, further], terms, cohesion, model) >= confidence(found, terms, cohesion, model)


@given(supports, st.integers(1, 12), shares, models)
def test_a_large_base_is_judged_like_the_largest_that_was_measured(one, terms, cohesion, model):
    """Beyond that, only its size would be left to decide."""
    measured, larger = (confidence([replace(one, size=size)], terms, cohesion, model) for size in (8_000, 8_000_000))
    small = confidence([replace(one, size=50)], terms, cohesion, model)

    assert larger == measured <= small


@given(supports, st.integers(1, 12), shares, models, shares, shares)
def test_words_that_occur_nowhere_make_it_less_sure(one, terms, cohesion, model, few, many):
    """A question about what no document names is answered by none, however near one is."""
    fewer, more = (confidence([one], terms, cohesion, model, absent) for absent in sorted((few, many)))

    assert more <= fewer
