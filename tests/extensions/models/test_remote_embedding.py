"""Texts → vectors by a server, where the user's config names one."""

import json
import threading

import numpy as np
import pytest

from conftest import synced
from kbhub.errors import EmbedderError
from kbhub.extensions.models import remote
from kbhub.extensions.models.remote import BATCH_TEXTS, FAILED_SECONDS, FORMATS, PAUSES, format_of, open_remote
from kbhub.models.embedding import open_embedder, own_model
from kbhub.types import Query
from kbhub.workspace.extensions import embedder_for
from kbhub.workspace.settings import EmbedderSettings
from ollama_server import CONTEXT_LETTERS, DIMENSIONS, running_ollama

NO_SETTINGS = EmbedderSettings()


@pytest.fixture
def embedder(ollama):
    made = open_remote("ollama/embeddinggemma", NO_SETTINGS, ollama.env)
    made._pause = [].append
    return made


def openai(ollama, env=None, **settings):
    """An embedder of the server by OpenAI's protocol."""
    made = open_remote("openai/some-model", EmbedderSettings(url=f"{ollama.url}/v1", **settings), env or {})
    made._pause = [].append
    return made


def sent(ollama, path="/api/embed"):
    """All texts that were sent, in order."""
    return [text for body in ollama.asked(path) for text in body["input"]]


# Vectors


def test_there_is_one_vector_of_length_1_per_text(ollama, embedder):
    """In the order of the texts; texts without a letter have none and are not sent."""
    vectors = embedder.embed(["green tea", " \n", "black coffee", "green tea"])

    assert vectors.shape == (4, DIMENSIONS)
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx([1, 0, 1, 1])
    assert (vectors[0] == vectors[3]).all()
    assert (vectors[0] != vectors[2]).any()
    assert len(sent(ollama)) == 3
    assert [embedder.embed(texts).shape for texts in ([], [""])] == [(0, DIMENSIONS), (1, DIMENSIONS)]
    assert embedder.embed(["a\ud800b"]).any()


def test_models_have_their_formats():
    """By their name, wherever they come from; unknown ones get the text as it is."""
    for model, query, document in (
        ("embeddinggemma:300m-qat-q4_0", "task: search result | query: ", "title: none | text: "),
        ("nomic-embed-text", "search_query: ", "search_document: "),
        ("text-embedding-nomic-embed-text-v1.5", "search_query: ", "search_document: "),
        ("hf.co/Qwen/Qwen3-Embedding-0.6B-GGUF:Q8_0", "Instruct: ", ""),
        ("mxbai-embed-large", "Represent this sentence", ""),
        ("snowflake-arctic-embed2:latest", "query: ", ""),
        ("snowflake-arctic-embed:22m", "Represent this sentence", ""),
        *((name, "", "") for name in ("bge-m3", "all-minilm", "text-embedding-3-small")),
    ):
        before_query, before_document = format_of(model)
        assert before_query.startswith(query)
        assert (bool(before_query), before_document) == (bool(query), document)
    assert all(format_of(f"{name}x") == wanted for name, wanted in FORMATS.items())


def test_many_texts_go_in_batches_and_a_text_that_the_model_finds_too_long_is_cut(ollama, embedder):
    """Servers do not always cut; the others of its batch come through whole."""
    assert len(embedder.embed([f"text {number}" for number in range(BATCH_TEXTS * 2 + 1)])) == BATCH_TEXTS * 2 + 1
    assert [len(body["input"]) for body in ollama.asked("/api/embed")] == [BATCH_TEXTS, BATCH_TEXTS, 1]

    vectors = embedder.embed(["short", "long " * CONTEXT_LETTERS, "short"])

    assert np.linalg.norm(vectors, axis=1) == pytest.approx([1, 1, 1])
    assert (vectors[0] == vectors[2]).all()
    assert CONTEXT_LETTERS / 4 < len(sent(ollama)[-2]) <= CONTEXT_LETTERS


# Identity


def test_the_fingerprint_names_model_version_and_format_but_no_host(ollama, embedder):
    """The same model on another machine has the same; another version has another. No model is loaded for it."""
    first = embedder.fingerprint
    assert first == embedder.fingerprint
    assert first.startswith("ollama/embeddinggemma@2222")
    assert "127.0.0.1" not in first
    assert [one.path for one in ollama.requests] == ["/api/tags"]

    with running_ollama() as other:
        assert open_remote("ollama/embeddinggemma", NO_SETTINGS, other.env).fingerprint == first
        other.models["embeddinggemma:latest"] = "3" * 64
        assert open_remote("ollama/embeddinggemma", NO_SETTINGS, other.env).fingerprint != first


def test_a_name_of_a_model_of_a_server_is_no_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ollama" / "embeddinggemma").mkdir(parents=True)
    (tmp_path / "ollama" / "embeddinggemma" / "model.safetensors").write_bytes(b"x")

    assert open_embedder("ollama/embeddinggemma", NO_SETTINGS, {}).name == "ollama/embeddinggemma"
    assert own_model("ollama/embeddinggemma") == "ollama/embeddinggemma"
    assert embedder_for("openai/x")
    assert not embedder_for("minishlab/potion-base-8M")


# Failures


def test_a_model_that_is_not_pulled_is_an_error_with_its_command(ollama):
    ollama.models.clear()
    with pytest.raises(
        EmbedderError, match=r"has no model 'embeddinggemma'\. Fetch it with `ollama pull embeddinggemma`"
    ):
        open_remote("ollama/embeddinggemma", NO_SETTINGS, ollama.env).embed(["x"])
    with pytest.raises(EmbedderError, match=rf"`OLLAMA_HOST={ollama.url} ollama pull embeddinggemma`"):
        open_remote("ollama/embeddinggemma", EmbedderSettings(url=ollama.url), {}).embed_query("x")


def test_a_server_that_is_not_there_is_an_error(ollama):
    """Not tried again and again: who was never there does not come."""
    with running_ollama() as gone:
        env = gone.env
    embedder = open_remote("ollama/embeddinggemma", NO_SETTINGS, env)
    embedder._pause = None
    with pytest.raises(EmbedderError, match="Start it with `ollama serve`"):
        embedder.embed(["x"])


def test_a_lost_connection_is_tried_again(ollama, embedder):
    embedder.embed(["x"])
    ollama.drop = 2

    assert embedder.embed(["y"]).any()
    assert embedder._pause.__self__ == list(PAUSES[:2])

    ollama.busy = 1
    assert embedder.embed(["z"]).any()


def test_a_server_that_failed_is_left_alone_for_a_moment(ollama):
    """So that not every search waits for it; then it is asked again."""
    now = [100.0]
    embedder = open_remote("ollama/embeddinggemma", NO_SETTINGS, ollama.env)
    embedder._clock = lambda: now[0]
    ollama.drop = 1
    with pytest.raises(EmbedderError) as first:
        embedder.embed_query("x")
    with pytest.raises(EmbedderError, match=str(first.value)):
        embedder.embed_query("x")
    assert len(ollama.requests) == 1

    now[0] += FAILED_SECONDS + 1
    assert embedder.embed_query("x").any()


def test_indexing_goes_on_behind_a_query_that_was_given_up(ollama, embedder, monkeypatch):
    """It has time, and waits until the server is free again."""
    assert embedder.embed_query("warm up").any()
    monkeypatch.setattr(remote, "QUERY_SECONDS", 0.1)
    ollama.silent = True
    for _ in range(2):
        with pytest.raises(EmbedderError, match=r"took longer than 0.1 s"):
            embedder.embed_query("x")
    asked = len(ollama.requests)
    ollama.silent = False
    threading.Timer(0.2, ollama.released.set).start()

    assert embedder.embed(["y"]).any()
    assert len(ollama.requests) == asked + 1
    assert embedder.embed_query("z").any()


def test_nonsense_is_an_error(ollama, embedder):
    assert embedder.fingerprint
    for raw in (
        *(b"", b"[]", b"{}", b'{"embeddings": []}', b'{"embeddings": [[]]}', b'{"embeddings": [[1, 2], [1]]}'),
        *(b'{"embeddings": [["a"]]}', b'{"embeddings": [[NaN, 1]]}', b'{"embeddings": 3}', b"\xff"),
    ):
        ollama.raw = raw
        with pytest.raises(EmbedderError):
            embedder.embed(["x", "y"])

    ollama.raw = None
    embedder.embed(["x"])
    ollama.vector = lambda text: [1.0, 2.0]
    with pytest.raises(EmbedderError, match="different lengths"):
        embedder.embed(["y"])


@pytest.mark.parametrize("model", ["ollama/", "openai/", "openai/ ", "openai/text-embedding-3-small"])
def test_a_model_without_a_name_or_an_address_is_an_error(model):
    settings, told = EmbedderSettings(url="http://127.0.0.1:1/v1"), "names no model"
    if model[7:].strip():
        settings, told = NO_SETTINGS, "embedder.url is missing"
    with pytest.raises(EmbedderError, match=told):
        open_embedder(model, settings, {"OPENAI_API_KEY": "k"})


# OpenAI's protocol


def test_a_server_of_openais_protocol_gives_vectors(ollama):
    """In the order asked for, whatever the order of the answer; the name of the model is the server's."""
    embedder = openai(ollama)
    vectors = embedder.embed(["green tea", "black coffee"])

    assert (vectors[0] == embedder.embed_query("green tea")).all()
    assert (vectors[0] != vectors[1]).any()
    assert ollama.asked("/v1/embeddings")[0] == {"model": "some-model", "input": ["green tea", "black coffee"]}
    assert embedder.fingerprint.startswith(f"openai/some-model@{DIMENSIONS}/")


def test_the_key_comes_from_the_variable_that_the_config_names_and_the_key_goes_to_nobody_else(ollama):
    """A redirect is not followed, and no error shows it."""
    ollama.key = "k-123"
    assert openai(ollama, {"MY_KEY": "k-123\n"}, key_variable="MY_KEY").embed(["x"]).any()
    assert ollama.requests[-1].headers["authorization"] == "Bearer k-123"
    with pytest.raises(EmbedderError, match=r"rejected the API key"):
        openai(ollama).embed(["x"])
    for value in ("", "ключ", "a\nb"):
        with pytest.raises(EmbedderError, match=r"MY_KEY named by `embedder.keyVariable` is empty"):
            openai(ollama, {"MY_KEY": value}, key_variable="MY_KEY")

    with running_ollama() as other:
        ollama.redirect = other.url
        with pytest.raises(EmbedderError, match="redirects elsewhere") as caught:
            openai(ollama, {"K": "k-123"}, key_variable="K").embed(["x"])

        assert other.requests == []
    assert "k-123" not in str(caught.value)


def test_failures_of_such_a_server_are_errors(ollama):
    embedder = openai(ollama)
    ollama.busy = 100
    with pytest.raises(EmbedderError, match="is busy"):
        embedder.embed(["x"])
    ollama.busy = 0
    ollama.raw = b'{"data": 3}'
    with pytest.raises(EmbedderError, match=r"ends in `/v1`"):
        embedder.embed(["x"])
    ollama.raw = None
    wrong = open_remote("openai/x", EmbedderSettings(url=f"{ollama.url}/v2"), {})
    with pytest.raises(EmbedderError, match="has no model 'x', or no embeddings"):
        wrong.embed(["x"])


# Bases


@pytest.fixture
def project(environment, ollama):
    """A project whose user names a model of the server."""
    environment.env.update(ollama.env)
    environment.configure(embedder={"model": "ollama/embeddinggemma"})
    environment.write("knowledge/tea.md", "# Tea\n\nGreen leaves and hot water.\n")
    environment.write("knowledge/coffee.md", "# Coffee\n\nGround beans.\n")
    return environment


def test_a_base_is_indexed_and_searched_with_a_model_of_a_server(project, ollama):
    hub = project.hub()
    [report] = hub.sync()
    assert (report.vectors_made, report.notes) == (2, ())
    assert hub.status().embedder == "ollama/embeddinggemma"

    result = hub.search(Query(text="Tea Green leaves and hot water.", mode="semantic"))

    assert (result.hits[0].ref, result.mode) == ("tea.md", "semantic")
    assert sent(ollama)[-1] == "task: search result | query: Tea Green leaves and hot water."
    made = len(sent(ollama))
    project.hub().sync()
    assert len(sent(ollama)) == made


def test_a_server_that_is_away_leaves_search_by_keywords(project, ollama):
    synced(project)
    ollama.drop = 100
    away = project.hub()
    result = away.search(Query(text="leaves"))
    assert ([hit.ref for hit in result.hits], result.mode) == (["tea.md"], "keyword")
    assert f"Keyword search only: The connection to Ollama at {ollama.url} was lost. Try again." in result.notes
    assert away.freshen() == ()
    ollama.drop = 0
    assert project.hub().search(Query(text="leaves")).mode == "hybrid"


def test_vectors_that_could_not_be_made_are_made_next_time(project, ollama):
    ollama.models.clear()
    [first] = project.hub().sync()
    assert (first.added, first.vectors_made) == (2, 0)
    assert any("`ollama pull embeddinggemma`" in note for note in first.notes)

    ollama.models["embeddinggemma:latest"] = "2" * 64
    [second] = project.hub().sync()
    assert second.vectors_made == 2


def test_doctor_says_what_to_pull(project, ollama):
    """The model is one of its checks, and a server that is away harms no other."""
    from kbhub.setup.doctor import examine

    project.hub().sync()
    ollama.models.clear()

    findings = [one for one in examine(project.hub()).findings if one.check == "embedder"]

    assert [one.level for one in findings] == ["error"]
    assert "`ollama pull embeddinggemma`" in findings[0].message


def test_a_pointer_cannot_name_a_server(project, ollama):
    (project.home / ".kbhub.json").unlink()
    project.write(
        ".kbhub.json", json.dumps({"embedder": {"model": "ollama/embeddinggemma", "url": ollama.url}, "knowledge": "."})
    )
    hub = synced(project)
    hub.search(Query(text="leaves"))

    assert ollama.requests == []
