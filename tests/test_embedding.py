"""Texts → vectors, offline."""

from __future__ import annotations

import hashlib
import socket

import numpy as np
import pytest
from model2vec import StaticModel
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from kbhub.embedding import PACKAGED_MODEL, PACKAGED_SHA256, open_embedder, packaged_embedder
from kbhub.errors import EmbedderError


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    """Any attempt to connect fails the test."""

    def refuse(*arguments):
        raise AssertionError(f"network: {arguments}")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.fixture(scope="module")
def embedder():
    return packaged_embedder()


@pytest.fixture
def small_model(tmp_path):
    """A real model2vec model of four words on disk."""
    words = {"[UNK]": 0, "red": 1, "green": 2, "blue": 3}
    tokenizer = Tokenizer(WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    vectors = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], np.float32)
    folder = tmp_path / "colours"
    StaticModel(vectors, tokenizer, normalize=True).save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    return folder


def test_the_packaged_model_is_the_one_that_is_named():
    """The constant that stands for the packaged model in every index is the hash of the file that ships."""
    assert hashlib.sha256((PACKAGED_MODEL / "model.safetensors").read_bytes()).hexdigest() == PACKAGED_SHA256


def test_vectors_are_those_of_model2vec(embedder):
    """Ordinary text gets the vector that model2vec itself gives."""
    texts = ["how to restart the server", "--no-track NO_COLOR", "a table of HTTP status codes " * 200]
    model = StaticModel.from_pretrained(str(PACKAGED_MODEL), max_length=None)

    np.testing.assert_allclose(embedder.embed(texts), model.encode(texts), atol=1e-6)


def test_near_in_meaning_is_near_in_space(embedder):
    """A paraphrase is nearer than another topic."""
    question, answer, other = embedder.embed(
        ["undo a bad deployment", "roll back the release to the previous version", "bake bread in the oven"]
    )

    assert question @ answer > question @ other


@pytest.mark.parametrize(
    "text", ["", "+++", "😀", "サーバーを再起動する方法", "重启服务器的方法", "как перезапустить сервер"]
)
def test_what_the_model_does_not_know_has_no_vector(embedder, text):
    """Text without meaning, or of a script the model has no words for, gets zeros instead of noise."""
    assert not embedder.embed([text]).any()


def test_one_text_alone_has_the_vector_it_has_in_a_batch(embedder):
    """Batches change nothing."""
    texts = ["one", "two words", "три", "and three more words"]

    np.testing.assert_array_equal(embedder.embed(texts), np.concatenate([embedder.embed([text]) for text in texts]))


def test_another_model_is_a_folder(small_model):
    """A model2vec model in a folder is used by its path."""
    embedder = open_embedder(str(small_model))

    assert (embedder.dimensions, embedder.name) == (3, "colours")
    np.testing.assert_allclose(
        embedder.embed(["red", "red blue", "mauve"]), [[1, 0, 0], [2**-0.5, 0, 2**-0.5], [0, 0, 0]], atol=1e-6
    )


def test_none_means_none():
    """The semantic side can be switched off."""
    assert open_embedder("none") is None


@pytest.mark.parametrize("model", ["/nowhere/at/all", "./nowhere", "~/nowhere"])
def test_a_folder_that_is_not_there_is_never_asked_of_the_network(model):
    """A mistyped path is an error, not a download."""
    with pytest.raises(EmbedderError, match="does not exist"):
        open_embedder(model)


def test_a_folder_without_a_model_says_what_is_missing(tmp_path):
    """The error names the file that should be there."""
    with pytest.raises(EmbedderError, match=r"model\.safetensors"):
        open_embedder(str(tmp_path))


@pytest.mark.parametrize("model", ["~nobody-of-this-name/model", "bad\0name/\0"])
def test_a_name_that_can_be_no_model_is_an_error_of_ours(model):
    """Whatever stands in the setting, it ends in one sentence."""
    with pytest.raises(EmbedderError):
        embedder = open_embedder(model)
        assert embedder is not None
        embedder.embed(["x"])


@pytest.mark.parametrize("file", ["model.safetensors", "tokenizer.json", "config.json"])
@pytest.mark.parametrize("damage", [b"", b"{}", b"\x10" * 100])
def test_a_damaged_model_is_an_error_of_ours(small_model, file, damage):
    """A file that was cut off or replaced is named as what it is, not shown as a bug."""
    (small_model / file).write_bytes(damage)
    embedder = open_embedder(str(small_model))
    assert embedder is not None
    if file == "config.json" and damage == b"{}":
        assert embedder.dimensions == 3
        return
    with pytest.raises(EmbedderError, match="cannot be loaded"):
        embedder.embed(["red"])
