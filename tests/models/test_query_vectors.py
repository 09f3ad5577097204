"""The vector of a query is the one that the whole model gives, to the last bit, whatever is asked."""

import shutil
import string
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbhub.errors import EmbedderError
from kbhub.models.embedding import PACKAGED_MODEL, packaged_embedder
from kbhub.models.static_model import (
    INFORMATIVE_NORM,
    LONGEST_PIECE,
    LONGEST_PLAIN,
    LONGEST_WORD,
    MEDIAN_NORM,
    PIECES,
    UNKNOWN_ID,
    QueryVectors,
)
from kbhub.models.static_vectors import StaticVectors, _all_norms

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def whole():
    return StaticVectors(str(PACKAGED_MODEL))


@pytest.fixture(scope="module")
def quick():
    return QueryVectors(PACKAGED_MODEL)


def tokens_of(whole, text):
    return next(whole._tokens.blocks([text]))[0].tolist()


def has_its_vector(quick, whole, text):
    """Whether a text has the vector that the whole model gives, or is left to it."""
    vectors = quick.embed([text])
    return vectors is None or np.array_equal(vectors, whole.embed([text]))


def test_the_constants_are_those_of_the_model_and_the_list_of_pieces_is_that_of_the_tokenizer(whole):
    """No token is so near the border between those with and without a meaning that rounding decides.

    It is made here; a run that changes it fails.
    """
    lengths = _all_norms(whole.model.embedding)
    vocabulary = whole.model.tokenizer.get_vocab()

    assert pytest.approx(np.median(lengths), abs=0.01) == MEDIAN_NORM
    assert np.abs(lengths - INFORMATIVE_NORM * MEDIAN_NORM).min() > 1
    assert (whole.model.unk_token_id, vocabulary["[UNK]"]) == (UNKNOWN_ID, UNKNOWN_ID)
    assert (whole.model.weights, whole.model.token_mapping) == (None, None)
    assert max(len(token.removeprefix("##")) for token in vocabulary if token.isascii()) <= LONGEST_PIECE

    file = PACKAGED_MODEL / PIECES
    vocabulary = whole.model.tokenizer.get_vocab()
    lines = sorted(f"{token} {number}\n".encode() for token, number in vocabulary.items() if token.isascii())
    before = file.read_bytes() if file.exists() else b""
    if before != b"".join(lines):
        file.write_bytes(b"".join(lines))

    assert before == b"".join(lines), f"{file.name} was out of date and has been written anew"


@pytest.mark.parametrize("step", [10, pytest.param(1, marks=pytest.mark.slow)])
def test_every_word_of_the_vocabulary_is_found(quick, whole, step):
    """Each mark, each word in capitals; each that may stand within a word, there; one in ten in every run."""
    vocabulary = [token for token in whole.model.tokenizer.get_vocab() if token.isascii() and "[" not in token]
    texts = [token.upper() for token in vocabulary if not token.startswith("##")]
    texts += [f"a{token.removeprefix('##')}q" for token in vocabulary if token.startswith("##")]
    assert [text for text in texts[::step] if quick.plain_tokens([text])[0] != tokens_of(whole, text)] == []


PRINTED = "".join(chr(code) for code in range(32, 127))


@given(st.text(PRINTED, max_size=60) | st.text(string.ascii_letters + " -", max_size=90) | st.text(max_size=30))
def test_any_text_has_its_vector(quick, whole, text):
    assert has_its_vector(quick, whole, text)
    assert quick.plain_tokens([text])[0] in (None, tokens_of(whole, text.encode("utf-8", "replace").decode()))


def test_what_is_odd_has_its_vector(quick, whole):
    """Names of special tokens, other scripts, control characters, marks of JSON, endless words."""
    for text in (
        "", " ", "!", "?!", "x", "[UNK]", "[PAD] a", "a[b", "qqqqzzzz", "0123456789abcdef0123456789abcdef", "naïve",
        "日本語", "Привет", "ж", "tab\there", "line\nbreak", "nul\0", "\ud800", "é", "“quoted”", "a " * 500, "don't",
        '"', "\\", '":1,"', "snake_case::path", "#a1b2c3", "aa" * (LONGEST_WORD // 2),
        "aa" * (LONGEST_WORD // 2) + "a", "qz" * LONGEST_WORD, "q1zx " * LONGEST_PLAIN,
    ):  # fmt: skip
        assert has_its_vector(quick, whole, text), text
        assert np.array_equal(packaged_embedder().embed_query(text), whole.embed([text])[0]), text


@pytest.mark.parametrize(
    ("name", "left"),
    [(PIECES, None), ("model.safetensors", b"{}"), ("model.safetensors", b""), ("model.safetensors", None)],
)
def test_an_installation_that_lost_or_damaged_a_file_says_so(tmp_path, name, left):
    file = shutil.copytree(PACKAGED_MODEL, tmp_path / "model") / name
    file.unlink() if left is None else file.write_bytes(left)
    with pytest.raises(EmbedderError, match="Cannot load"):
        QueryVectors(file.parent)
