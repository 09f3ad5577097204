"""Texts → vectors, offline."""

import hashlib
import socket
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from model2vec import StaticModel
from tokenizers import AddedToken, Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from conftest import ran
from kbhub.errors import EmbedderError
from kbhub.models.embedding import PACKAGED_MODEL, PACKAGED_SHA256, open_embedder, packaged_embedder
from kbhub.models.static_model import load_model
from kbhub.models.static_vectors import WordTokens, word_pattern


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


def test_the_packaged_model_is_the_one_that_is_named_and_vectors_are_those_of_model2vec(embedder):
    """The constant that stands for the packaged model in every index is the hash of the file that ships."""
    assert hashlib.sha256((PACKAGED_MODEL / "model.safetensors").read_bytes()).hexdigest() == PACKAGED_SHA256
    texts = ["how to restart the server", "--no-track NO_COLOR", "a table of HTTP status codes " * 200]
    model = StaticModel.from_pretrained(str(PACKAGED_MODEL), max_length=None)
    np.testing.assert_allclose(embedder.embed(texts), model.encode(texts), atol=1e-6)


@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "float64"])
@pytest.mark.parametrize("quantized", [False, True])
def test_every_kind_of_model_file_gives_the_vectors_of_model2vec(tmp_path, dtype, quantized):
    """Whatever numbers a model consists of, with weights and shared rows or without: the library gives the same."""
    words = {"[UNK]": 0, "red": 1, "green": 2, "blue": 3, "grey": 4}
    tokenizer = Tokenizer(WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    rows = np.random.default_rng(1).integers(-100, 100, (3 if quantized else 5, 7)).astype(dtype)
    mapping, weights = np.array([0, 1, 2, 1, 2]), np.array([0.5, 1, 2, 3, 0.25])
    shared = {"token_mapping": mapping, "weights": weights} if quantized else {}
    StaticModel(rows, tokenizer, normalize=True, **shared).save_pretrained(tmp_path / "model")
    model = StaticModel.from_pretrained(str(tmp_path / "model"), max_length=None)
    texts = ["red green", "blue", "grey grey blue", "green red red blue"]

    vectors = open_embedder(str(tmp_path / "model")).embed(texts)

    # The library computes in the numbers of the file, kbhub always in 32 bits.
    np.testing.assert_allclose(vectors, model.encode(texts), atol=1e-3 if dtype == "float16" else 1e-6)


def test_a_query_of_known_words_loads_no_tokenizer_and_no_model_on_disk_the_library(small_model):
    code = (
        "import sys; from kbhub.models.embedding import open_embedder, packaged_embedder\n"
        "for query in sys.argv[2:]: assert packaged_embedder().embed_query(query).any()\n"
        "print({'tokenizers', 'model2vec'} & set(sys.modules))\n"
        "for model in (None, sys.argv[1]): assert open_embedder(model).embed(['red'] * 9).any()\n"
        "print({'model2vec', 'huggingface_hub', 'joblib', 'tqdm', 'httpx'} & set(sys.modules))\n"
    )
    queries = ["how do we roll back a release?", "как перезапустить сервер?", "如何重新启动服务器？"]
    assert ran(sys.executable, "-c", code, small_model, *queries) == (0, "set()\nset()\n", "")


QUESTIONS = (
    *("Wie starte ich den Server neu?", "¿Cómo reinicio el servidor?", "Comment redémarrer le serveur ?"),
    *("Làm thế nào để khởi động lại máy chủ?", "Как перезапустить сервер?", "如何重新启动服务器？"),
    *("サーバーを再起動する方法", "서버를 다시 시작하는 방법"),
)


def test_a_question_in_another_language_is_near_its_english_answer(embedder):
    """Alone and in a batch, as a text and as a query."""
    *vectors, answer, other = embedder.embed(
        [*QUESTIONS, "restart the server with systemctl restart", "bake bread in the oven"]
    )
    for question, vector in zip(QUESTIONS, vectors, strict=True):
        assert vector @ answer > 0.4, question
        assert vector @ other < 0.3, question
        np.testing.assert_array_equal(packaged_embedder().embed_query(question), vector)
        np.testing.assert_array_equal(embedder.embed([question])[0], vector)


def test_an_inflected_form_has_the_vector_of_its_word_and_other_scripts_that_of_the_english_one(embedder):
    """Up to three letters are taken from the end of a word of the lexicon's languages, and of no English one.

    But an unknown word beside others counts once, however it is spelt, and marks do not count.
    """
    lexicon = embedder._load().model.lexicon
    found = lexicon.tokens(["Verzeichnisses", "директорией", "reasonableness", "verzeichnis"])

    assert found["Verzeichnisses"] == found["verzeichnis"]
    assert "директорией" in found
    assert "reasonableness" not in found

    texts = ["", "+++", "😀", "როგორ გადავტვირთო სერვერი", "சேவையகத்தை மறுதொடக்கம்", "ჟღბ ჩშც", "ъъыщ щщэъ"]
    assert not embedder.embed(texts).any()
    assert all(row.any() for row in embedder.embed(["ماذا اخترع نيكولا تسلا؟", "निकोला ने क्या आविष्कार किया?"]))

    texts = ["إعدادات الطابعة", "प्रिंटर सेटिंग", "การตั้งค่าเครื่องพิมพ์", "Ρυθμίσεις εκτυπωτή"]
    meant, other = embedder.embed(["printer settings", "a wolf hunts in the forest"])

    for asked in embedder.embed(texts):
        assert asked @ meant > 0.3 > asked @ other


def test_what_the_lexicon_does_not_know_is_left_to_the_tokenizer_and_a_word_after_it_changes_no_tokens(embedder):
    lexicon = embedder._load().model.lexicon
    tokens, rest = lexicon.tokens(["使用Git提交"])["使用Git提交"]
    assert len(tokens) > 3
    assert rest == "git"
    assert lexicon.tokens(["release", "[UNK]", "“”", ""]) == {}

    # Such a text is split by the pattern of words, ASCII alone by its spaces: to the same words, in any case.
    model = embedder._load().model
    words = WordTokens(model.tokenizer, model.lexicon)
    texts = [*STRANGE, "Der Hund und die KATZE; el Perro, maxRetries=3, getHTTPServer()"]
    valid = [text.encode("utf-8", "replace").decode() for text in texts]
    (together,) = words.blocks([*valid, *(f"{text} é" for text in valid), "é"])
    plain, followed, after = together[: len(valid)], together[len(valid) : -1], together[-1]
    for text, one, more in zip(valid, plain, followed, strict=True):
        assert [*one, *after] == [*more], text


def test_another_model_is_a_folder_and_the_packaged_matrix_is_mapped_and_nobody_elses(small_model):
    """The packaged model's numbers are pages of its file; a model of the user's may be rewritten at any time."""
    embedder = open_embedder(str(small_model))
    assert (embedder.dimensions, embedder.name) == (3, "colours")
    np.testing.assert_allclose(
        embedder.embed(["red", "red blue", "mauve"]), [[1, 0, 0], [2**-0.5, 0, 2**-0.5], [0, 0, 0]], atol=1e-6
    )
    packaged, own = (load_model(str(folder)).embedding for folder in (PACKAGED_MODEL, small_model))
    assert (isinstance(packaged.base, np.memmap), isinstance(own.base, np.memmap)) == (True, False)
    assert not packaged.flags.writeable


def test_what_can_be_no_model_is_an_error_of_ours(tmp_path):
    """A mistyped path is no download; a folder without a model is told with the file that should be there."""
    for model, told in {
        **dict.fromkeys(("/nowhere/at/all", "./nowhere", "~/nowhere"), "does not exist"),
        str(tmp_path): r"model\.safetensors",
        **dict.fromkeys(("~nobody-of-this-name/model", "bad\0name/\0"), None),
    }.items():
        with pytest.raises(EmbedderError, match=told):
            open_embedder(model).embed(["x"])
    assert open_embedder("none") is None


@pytest.mark.parametrize("file", ["model.safetensors", "tokenizer.json", "config.json"])
def test_a_damaged_model_is_an_error_of_ours(small_model, file):
    for damage in (b"", b"{}", b"\x10" * 100):
        (small_model / file).write_bytes(damage)
        embedder = open_embedder(str(small_model))
        if file == "config.json" and damage == b"{}":
            assert embedder.dimensions == 3
            continue
        with pytest.raises(EmbedderError, match="Cannot load"):
            embedder.embed(["red"])


STRANGE = (
    "", " \t\r\n", "|", "a|b||c", "|[PAD]|", "x[PAD]y [UNK] [unk] [PA D]", "'quoted', don't! e.g. v1.2.3",
    "Ünïcödé Straße ΟΔΥΣΣΕΎΣ İstanbul", "日本語とEnglish混在、テスト。", "a\u0301\u0308b !\u0301 =\u0338", "\u0301x",
    "nul\0in\x0bside\x0cof\x1fa\x85word\u2028line\u00a0space", "\0", "zero\u200bwidth \ufeffmark", "🙂👍🏽 ok",
    "x" * 101, "y" * 100 + "-" + "z" * 3000, "a" * 99 + "é", "\ud800lone", "naïve — “quotes” … ½ km²",
    "\u037e \u1fef",
)  # fmt: skip


def as_the_tokenizer_does(tokenizer, texts):
    """Whether texts have the tokens that the tokenizer gives them as wholes."""
    wholes = [one.ids for one in tokenizer.encode_batch_fast(texts, add_special_tokens=False)]
    return [tokens.tolist() for block in WordTokens(tokenizer).blocks(texts) for tokens in block] == wholes


@pytest.mark.parametrize("copies", [1, 40])
def test_a_word_looked_up_once_has_the_tokens_it_has_in_its_text(embedder, copies):
    tokenizer = embedder._load().model.tokenizer
    assert word_pattern(tokenizer) is not None
    assert as_the_tokenizer_does(tokenizer, [text.encode("utf-8", "replace").decode() for text in STRANGE] * copies)
    assert np.array_equal(embedder.embed(STRANGE), np.stack([embedder.embed([text])[0] for text in STRANGE]))


def test_words_whose_tokens_were_not_found_are_looked_up_again(embedder, monkeypatch):
    """An error, or Ctrl-C, while words are looked up leaves none behind that has no tokens."""
    model = embedder._load().model
    words = WordTokens(model.tokenizer, model.lexicon)
    texts = ["some new words", "and some more"]
    (before,) = words.blocks(texts)
    with monkeypatch.context() as patch:
        patch.setattr(words, "_looked_up", lambda _: {})
        with pytest.raises(KeyError):
            list(words.blocks(["unseen"]))
    (after,) = words.blocks([*texts, "unseen"])
    assert [one.tolist() for one in after[:2]] == [one.tolist() for one in before]
    assert len(after[2])


@given(texts=st.lists(st.text(st.one_of(st.sampled_from("aB1 |[]'\n\u0301é日ΣK\0\x0b\u3000"), st.characters()))))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_texts_have_the_tokens_that_the_tokenizer_gives_them(embedder, texts):
    valid = ["[PAD] a|b", *(text.encode("utf-8", "replace").decode() for text in texts)]
    assert as_the_tokenizer_does(embedder._load().model.tokenizer, valid)


def test_a_tokenizer_with_other_rules_is_given_whole_texts():
    """Where a word's tokens could depend on what is around it, nothing is taken apart."""
    texts = ["a word, swords", "<|end|> < | end | >", "the  [mask] [MASK] x[mask]y"]
    for special in (
        AddedToken("word", normalized=False),
        AddedToken("<|end|>", normalized=False),
        AddedToken("[mask]", lstrip=True, normalized=False),
        AddedToken("[mask]", single_word=True, normalized=False),
        AddedToken("[mask]", normalized=True),
    ):
        tokenizer = Tokenizer.from_file(str(PACKAGED_MODEL / "tokenizer.json"))
        tokenizer.no_padding()
        tokenizer.add_tokens([special])

        assert word_pattern(tokenizer) is None
        assert as_the_tokenizer_does(tokenizer, texts)
