"""Candidates by sign bits."""

from __future__ import annotations

import numpy as np
import pytest

from corpus import EMBEDDER, make_index, sentences
from kbhub.signatures import LEAST_CANDIDATES, MOST_CANDIDATES, sign
from kbhub.vectors import quantise, similarity


def vectors(count: int, seed: int = 1) -> np.ndarray:
    """Make unit vectors in clusters, as those of texts are."""
    random = np.random.default_rng(seed)
    centres = random.normal(size=(40, 64))
    made = centres[random.integers(0, 40, count)] + random.normal(size=(count, 64))
    return (made / np.linalg.norm(made, axis=1, keepdims=True)).astype(np.float32)


def reader(stored):
    """What reads int8 vectors by id, id being the row."""
    blobs = [row.tobytes() for row in quantise(stored)]
    return lambda ids: [(one, blobs[one]) for one in ids]


def test_candidates_hold_the_nearest():
    """Of the ten nearest of 20,000 vectors, nearly all are among the candidates, which are a tenth of all."""
    stored, asked = vectors(20_000), vectors(50, seed=2)
    signatures = sign(None, np.arange(20_000), reader(stored))
    found = 0
    for vector in asked:
        candidates = set(signatures.nearest(vector, 100).tolist())
        assert len(candidates) < 2 * MOST_CANDIDATES
        found += len(candidates & set(np.argsort(-(stored @ vector))[:10].tolist()))

    assert found / 500 >= 0.97


def test_a_small_base_is_compared_whole():
    """Where all vectors are candidates, nothing can be missed."""
    signatures = sign(None, np.arange(LEAST_CANDIDATES), reader(vectors(LEAST_CANDIDATES)))

    assert len(signatures.nearest(vectors(1)[0], 10)) == LEAST_CANDIDATES


def test_a_selection_is_never_starved():
    """Three selected vectors among 20,000 are found however far away they are."""
    stored = vectors(20_000)
    signatures = sign(None, np.arange(20_000), reader(stored))

    assert signatures.nearest(stored[5], 100, [17, 4_000, 19_999]).tolist() == [17, 4_000, 19_999]


@pytest.mark.parametrize("mean_of_first", [1000, 4500])
def test_signatures_follow_changes(mean_of_first):
    """Vectors that came and went leave the same ids as a build from nothing, and the same candidates or nearly."""
    stored = vectors(6_000)
    first = sign(None, np.arange(mean_of_first), reader(stored))
    ids = np.array([one for one in range(5_000) if one % 7])
    followed, anew = sign(first, ids, reader(stored)), sign(None, ids, reader(stored))

    assert followed.ids.tolist() == anew.ids.tolist() == ids.tolist()
    assert followed.bits.shape == anew.bits.shape
    candidates = followed.nearest(stored[4_000], 100)
    assert 4_000 in candidates
    assert len(np.intersect1d(candidates, anew.nearest(stored[4_000], 100))) > 0.8 * len(candidates)


def test_no_vectors_are_no_candidates():
    """An index without vectors finds nothing and does not fail."""
    signatures = sign(None, np.zeros(0, np.int64), lambda ids: [])

    assert signatures.nearest(vectors(1)[0], 10).tolist() == []


def test_the_extension_and_numpy_agree(tmp_path):
    """Similarities are the same with sqlite-vec as without it, and near those of the vectors before rounding."""
    texts = sentences(40)
    index = make_index(tmp_path / "a.db", texts, "a")
    vector = EMBEDDER.embed(["deploy a release"])[0]
    with index.snapshot():
        found = dict(index.semantic(vector, 100))
        blobs = dict(index._vectors(list(found)))
    by_numpy = similarity([blobs[one] for one in found], quantise(vector))

    assert len(found) == 40
    assert list(found.values()) == pytest.approx(by_numpy, abs=1e-5)


def test_rounding_changes_similarities_by_less_than_a_hundredth():
    """int8 keeps what ranks."""
    stored, asked = vectors(500), vectors(1, seed=3)[0]
    exact = stored @ asked
    rounded = similarity([row.tobytes() for row in quantise(stored)], quantise(asked))

    assert np.abs(exact - np.array(rounded)).max() < 0.01
