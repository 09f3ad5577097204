"""Candidates by sign bits, and rank arithmetic."""

import numpy as np
import pytest

from corpus import EMBEDDER, ranking_of, sentences
from kbhub.index.engine import inverse_document_frequency
from kbhub.index.matches import scores, spread
from kbhub.index.signatures import (
    BITS,
    LEAST_COMPARED,
    Postings,
    Signatures,
    bits_of,
    likely,
    quantise,
    sign,
    similarity,
)


def vectors(count: int, seed: int = 1) -> np.ndarray:
    """Make unit vectors in clusters, as those of texts are."""
    random = np.random.default_rng(seed)
    centres = random.normal(size=(40, 64))
    made = centres[random.integers(0, 40, count)] + random.normal(size=(count, 64))
    return (made / np.linalg.norm(made, axis=1, keepdims=True)).astype(np.float32)


MOST = LEAST_COMPARED * BITS // 128
"""Of these short vectors that are compared."""


def reader(stored):
    """What reads int8 vectors by id, id being the row."""
    blobs = [row.tobytes() for row in quantise(stored)]
    return lambda ids: [(one, blobs[one]) for one in ids.tolist()]


def everywhere(signatures):
    """Allow every chunk."""
    return np.ones(len(signatures.signed), bool)


def nearest(signatures: Signatures, vector, least, allowed) -> np.ndarray:
    """The positions of one base that are compared."""
    (found,) = likely([(signatures, allowed)], vector, least)
    return found


@pytest.mark.parametrize("apart", [False, True], ids=["at random", "by what they are about"])
def test_bases_share_what_is_compared(apart):
    """The ten nearest are found wherever they are, and eight bases cost little more than one."""
    stored, asked = vectors(20_000), vectors(20, seed=2)
    order = np.argsort(stored @ stored[0]) if apart else np.random.default_rng(4).permutation(20_000)
    bases = np.array_split(order, 8)
    signed = [sign(None, np.arange(len(base)), reader(stored[base])) for base in bases]
    found = 0
    for vector in asked:
        near = likely([(one, everywhere(one)) for one in signed], vector, 100)
        compared = np.concatenate([base[at] for base, at in zip(bases, near, strict=True)])
        assert len(compared) <= 2 * MOST
        found += len(np.intersect1d(compared, np.argsort(-(stored @ vector))[:10]))

    assert found / 200 >= 0.97


def test_a_small_base_gives_nothing_that_may_not_be_found():
    """It has fewer chunks to compare than each base is granted, and others besides."""
    stored = vectors(20_040)
    large, small = (
        sign(None, np.arange(20_000), reader(stored[:20_000])),
        sign(None, np.arange(40), reader(stored[-40:])),
    )
    allowed = np.arange(40) % 2 == 0
    _, near = likely([(large, everywhere(large)), (small, allowed)], stored[0], 100)

    assert near.tolist() == np.flatnonzero(allowed).tolist()


@pytest.mark.parametrize("share", [0.1, 0.6, 1])
def test_what_may_not_be_found_takes_no_place(share):
    """Among some of 20,000 vectors, nearly all of the ten nearest of those are candidates, and nothing else is."""
    stored, asked = vectors(20_000), vectors(20, seed=2)
    signatures = sign(None, np.arange(20_000), reader(stored))
    chosen = np.random.default_rng(3).random(20_000) < share
    inside, found = np.flatnonzero(chosen), 0
    for vector in asked:
        candidates = set(nearest(signatures, vector, 100, chosen).tolist())
        assert candidates <= set(inside.tolist())
        assert len(candidates) <= MOST
        found += len(candidates & set(inside[np.argsort(-(stored[inside] @ vector))[:10]].tolist()))

    assert found / 200 >= 0.97


@pytest.mark.parametrize("first", [1000, 4500])
def test_signatures_follow_changes(first):
    stored = vectors(6_000)
    ids = np.arange(5_000)
    some = sign(None, ids[:first], lambda wanted: reader(stored)(wanted[wanted % 7 > 0]))
    followed, anew = sign(some, ids, reader(stored)), sign(None, ids, reader(stored))

    assert followed.signed.all()
    assert followed.bits.shape == anew.bits.shape
    candidates = nearest(followed, stored[4_000], 100, everywhere(followed))
    assert 4_000 in candidates
    assert len(np.intersect1d(candidates, nearest(anew, stored[4_000], 100, everywhere(anew)))) > 0.8 * len(candidates)


def test_a_change_of_a_large_base_copies_no_signatures():
    """They grow in place while there is room, and whoever still has the smaller ones sees no difference."""
    vectors = {
        chunk: blob.tobytes() for chunk, blob in enumerate(quantise(EMBEDDER.embed(list(sentences(200).values()))))
    }

    def read(ids):
        return [(int(chunk), vectors[int(chunk)]) for chunk in ids]

    grown = [sign(None, np.arange(160), read)]
    for size in (161, 165, 165, 171, 172):
        grown.append(sign(grown[-1], np.arange(size), read))
        assert len(grown[-1].signed) == grown[-1].bits.shape[1] == size

    memory = [one.bits.__array_interface__["data"][0] for one in grown]
    assert memory[1] == memory[2] == memory[3] == memory[4] != memory[5]
    for one in grown:
        size = len(one.signed)
        assert np.array_equal(one.bits, bits_of([vectors[chunk] for chunk in range(size)], one.mean))
        assert np.array_equal(one.nearest(np.ones(size, np.bool_), EMBEDDER.embed(["deploy"])[0], 5)[0],
                              sign(grown[0], np.arange(size), read).nearest(
                                  np.ones(size, np.bool_), EMBEDDER.embed(["deploy"])[0], 5)[0])  # fmt: skip


def test_no_vectors_are_no_candidates_and_rounding_changes_similarities_by_less_than_a_hundredth():
    for chunks in (0, 10):
        signatures = sign(None, np.arange(chunks), lambda ids: [])

        assert nearest(signatures, vectors(1)[0], 10, everywhere(signatures)).tolist() == []

    stored, asked = vectors(500), vectors(1, seed=3)[0]
    exact = stored @ asked
    rounded = similarity([row.tobytes() for row in quantise(stored)], quantise(asked))

    assert np.abs(exact - np.array(rounded)).max() < 0.01


def test_equal_scores_go_by_path_then_line_then_base():
    """Ties are decided the same way on every run and for every cut of a corpus."""
    places = {
        (0, 7): ("z.md", 1, "y"), (1, 1): ("b.md", 1, "x"), (0, 2): ("a.md", 9, "y"), (0, 1): ("a.md", 2, "y"),
        (1, 2): ("a.md", 2, "x"),
    }  # fmt: skip
    found = ranking_of([(key, 1, 2.0 if key == (0, 7) else 1.0) for key in places])
    asked = []

    def where(keys):
        asked.extend(keys)
        return places

    assert found.best(4, where).as_keys() == [(0, 7), (1, 2), (0, 1), (0, 2)]
    assert (0, 7) not in asked


def test_bm25_prefers_more_occurrences_of_rarer_terms_and_shorter_chunks():
    weight = inverse_document_frequency(100, 3)
    term = Postings(np.array([0, 1, 2]), np.array([2.0, 1.0, 1.0]))
    positions, (often, once, short), covered = scores([(term, weight)], np.array([100, 100, 50, 100]), 100.0)

    assert positions.tolist() == [0, 1, 2]
    assert covered.tolist() == [weight] * 3
    assert often > once
    assert short > once

    assert 0 < inverse_document_frequency(10, 9) < 0.001


def test_the_best_are_kept_with_those_that_are_as_good_as_the_last():
    """Which of equals is kept is decided by their places, not by where they lie in an index."""
    values = np.array([1.0, 3.0, 2.0, 2.0, 0.5, 2.0])

    assert sorted(spread(np.arange(6), values, 2, None)) == [1, 2, 3, 5]


@pytest.mark.parametrize(("each", "chosen"), [(1, [0, 4, 5]), (2, [0, 1, 4, 5]), (None, [0, 1, 2])])
def test_a_long_document_leaves_room_for_others(each, chosen):
    documents, values = np.array([7, 7, 7, 7, 8, 9]), np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.4])

    assert sorted(spread(documents, values, 3, each)) == chosen
