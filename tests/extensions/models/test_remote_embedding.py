"""A server that the user's config names turns texts into vectors, and grades hits under a deadline."""

import json
import math
import threading
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import synced
from kbhub.errors import EmbedderError, ModelUnavailable
from kbhub.extensions.models import llm, remote
from kbhub.extensions.models.llm import NONSENSE_ALLOWED, blended, grade, rerank, search_reranked
from kbhub.extensions.models.remote import BATCH_TEXTS, FAILED_SECONDS, FORMATS, PAUSES, format_of, open_remote
from kbhub.extensions.models.server import Ollama, StoredAnswers
from kbhub.models.embedding import open_embedder, own_model
from kbhub.types import Query
from kbhub.workspace.extensions import embedder_for
from kbhub.workspace.settings import EmbedderSettings, RerankSettings
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


def test_a_model_that_is_not_pulled_or_a_server_that_is_not_there_is_an_error_with_its_command(ollama):
    ollama.models.clear()
    with pytest.raises(EmbedderError, match=r"no model 'embeddinggemma'\. Fetch it with `ollama pull embeddinggemma`"):
        open_remote("ollama/embeddinggemma", NO_SETTINGS, ollama.env).embed(["x"])
    with pytest.raises(EmbedderError, match=rf"`OLLAMA_HOST={ollama.url} ollama pull embeddinggemma`"):
        open_remote("ollama/embeddinggemma", EmbedderSettings(url=ollama.url), {}).embed_query("x")

    # Not tried again and again: who was never there does not come.
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


def test_a_server_of_openais_protocol_gives_vectors_and_its_failures_are_errors(ollama):
    """In the order asked for, whatever the order of the answer; the name of the model is the server's."""
    embedder = openai(ollama)
    vectors = embedder.embed(["green tea", "black coffee"])
    assert (vectors[0] == embedder.embed_query("green tea")).all()
    assert (vectors[0] != vectors[1]).any()
    assert ollama.asked("/v1/embeddings")[0] == {"model": "some-model", "input": ["green tea", "black coffee"]}
    assert embedder.fingerprint.startswith(f"openai/some-model@{DIMENSIONS}/")

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


@pytest.fixture
def project(environment, ollama):
    """A project whose user names a model of the server."""
    environment.env.update(ollama.env)
    environment.configure(embedder={"model": "ollama/embeddinggemma"})
    environment.write("knowledge/tea.md", "# Tea\n\nGreen leaves and hot water.\n")
    environment.write("knowledge/coffee.md", "# Coffee\n\nGround beans.\n")
    return environment


def test_a_base_is_indexed_and_searched_with_a_model_of_a_server_and_by_keywords_while_it_is_away(project, ollama):
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

    synced(project)
    ollama.drop = 100
    away = project.hub()
    result = away.search(Query(text="leaves"))
    assert ([hit.ref for hit in result.hits], result.mode) == (["tea.md"], "keyword")
    assert f"Keyword search only: The connection to Ollama at {ollama.url} was lost. Try again." in result.notes
    assert away.freshen() == ()
    ollama.drop = 0
    assert project.hub().search(Query(text="leaves")).mode == "hybrid"


def test_vectors_that_could_not_be_made_are_made_next_time_and_doctor_says_what_to_pull(project, ollama):
    ollama.models.clear()
    [first] = project.hub().sync()
    assert (first.added, first.vectors_made) == (2, 0)
    assert any("`ollama pull embeddinggemma`" in note for note in first.notes)
    ollama.models["embeddinggemma:latest"] = "2" * 64
    [second] = project.hub().sync()
    assert second.vectors_made == 2

    # The model is one of its checks, and a server that is away harms no other.
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


SETTINGS = RerankSettings(seconds=20)


@pytest.fixture
def hub(environment, ollama):
    """A hub over documents that all have the word of the query."""
    for number in range(12):
        text = f"# Note {number}\n\n{'Backup. ' * (12 - number)}Item {number}.\n"
        environment.write(f"knowledge/{number:02}.md", text)
    environment.env.update(ollama.env)
    return synced(environment)


def grades_by(ollama, judge):
    """Let the server grade by what it sees."""
    ollama.say = lambda body: f'{{"grade": {judge(body["messages"][1]["content"])}}}'


def refs(result):
    return [hit.ref for hit in result.hits]


def graded(ollama, tmp_path, passages, settings=SETTINGS, query="backup"):
    return grade(query, passages, settings, Ollama(ollama.env), StoredAnswers(tmp_path))


def test_each_passage_is_graded_by_itself(ollama, tmp_path):
    """One request each, of a form that allows four grades, thinking off."""
    grades_by(ollama, lambda content: 3 if "good" in content else 0)
    assert graded(ollama, tmp_path, ["bad one", "good one"]) == ({0: 0, 1: 3}, None)
    body, _ = ollama.asked("/api/chat")
    assert body["think"] is False
    assert body["format"]["properties"]["grade"]["enum"] == [0, 1, 2, 3]
    assert [message["role"] for message in body["messages"]] == ["system", "user"]
    ollama.models.clear()
    assert graded(ollama, tmp_path, ["good one", "bad one"]) == ({0: 3, 1: 0}, None)
    assert len(ollama.requests) == 2, "grades are kept"


def test_grades_that_are_there_at_the_deadline_count(ollama, tmp_path):
    grades_by(ollama, lambda content: 3)
    graded(ollama, tmp_path, ["known"])

    def slow(body):
        ollama.released.wait(0.25)
        return '{"grade": 1}'

    ollama.say = slow
    started = time.monotonic()
    grades, fault = graded(ollama, tmp_path, [*(f"text {n}" for n in range(30)), "known"], RerankSettings(seconds=0.6))

    assert time.monotonic() - started < 5
    assert 0 < len(grades) < 10
    assert grades[30] == 3, "what is known costs no time"
    assert "took longer than 0.6 s" in str(fault)
    assert "Raise `rerank.seconds`" in str(fault)


def test_a_note_says_what_was_not_graded(hub, monkeypatch):
    plain, fault = hub.search(Query(text="backup", mode="keyword", limit=12)), ModelUnavailable("late", "Late.")
    for grades, note in (({}, "Not reranked: Late."), ({0: 1}, "Reranked by the grades of 1 of 12 passages: Late.")):
        monkeypatch.setattr(llm, "grade", lambda *_, found=(grades, fault): found)
        assert rerank(hub, Query(text="backup"), plain, SETTINGS).notes == (*plain.notes, note)


def test_nonsense_about_one_passage_leaves_the_others(ollama, tmp_path):
    """A grade that is none is no grade; a model that gives none again and again is asked no more."""
    grades_by(ollama, lambda content: "7" if "odd" in content else "1")
    assert graded(ollama, tmp_path, ["odd", "even"])[0] == {1: 1}
    before = len(ollama.requests)
    assert graded(ollama, tmp_path, [f"odd {n}" for n in range(20)])[0] == {}
    assert len(ollama.requests) - before == NONSENSE_ALLOWED + 1


def test_the_shares_are_those_of_the_rank_and_what_was_not_graded_counts_as_the_mean():
    """Three quarters for the first three, three fifths up to ten, two fifths after."""
    values = blended([1.0] * 12, dict.fromkeys(range(12), 0))
    assert values == pytest.approx([0.75] * 3 + [0.6] * 7 + [0.4] * 2)
    best, worst, ungraded = blended([0.5, 0.5, 0.5], {0: 3, 1: 0})
    assert best > ungraded > worst


relevances = st.lists(st.floats(0, 1), min_size=1, max_size=40).map(lambda values: sorted(values, reverse=True))


@given(relevances, st.data())
def test_a_strong_match_cannot_be_lost(relevance, data):
    """What the retrieval is sure of falls behind at most those that it finds at least a third as good."""
    relevance = [1.0, *relevance]
    grades = {0: 0} | data.draw(st.dictionaries(st.integers(1, len(relevance) - 1), st.integers(0, 3)))
    values = blended(relevance, grades)
    assert all(0 <= value <= 1 for value in values)
    before = [relevance[number] for number in range(1, len(values)) if values[number] > values[0]]
    assert all(value > 0.33 for value in before)


def test_graded_hits_come_in_another_order(hub, ollama):
    query = Query(text="backup", mode="keyword", limit=12, explain=True)
    plain = hub.search(query)
    favourite = refs(plain)[2]
    title = plain.hits[2].title
    grades_by(ollama, lambda content: 3 if f"{title}\n" in content else 0)

    result = rerank(hub, query, plain, SETTINGS)

    assert refs(result).index(favourite) < 2
    assert sorted(refs(result)) == sorted(refs(plain))
    assert max(hit.score for hit in result.hits) == max(hit.score for hit in plain.hits)
    assert [hit.score for hit in result.hits] == sorted((hit.score for hit in result.hits), reverse=True)
    for hit in result.hits:
        assert hit.trace.signals[-1].name == "rerank"
        total = sum(signal.contribution for signal in hit.trace.signals) * math.prod(hit.trace.factors.values())
        assert total == pytest.approx(hit.score)
    assert result.notes == plain.notes


def test_hits_beyond_the_candidates_stay_where_they_are(hub, ollama):
    query = Query(text="backup", mode="keyword", limit=12)
    plain = hub.search(query)
    nothing = hub.search(Query(text="xyzzy", mode="keyword"))
    grades_by(ollama, lambda content: 1)
    assert rerank(hub, Query(text="xyzzy"), nothing, SETTINGS).hits == ()
    assert ollama.requests == [], "what has no order is not graded"
    result = rerank(hub, query, plain, RerankSettings(seconds=20, candidates=4))
    assert refs(result)[4:] == refs(plain)[4:]
    assert len(ollama.requests) == 4


def test_pages_are_cut_from_one_ranking(hub, ollama):
    grades_by(ollama, lambda content: int("Note 6\n" in content) * 3)
    query = Query(text="backup", mode="keyword", limit=12)
    whole = search_reranked(hub.search, hub, SETTINGS, query)
    halves = [query.model_copy(update={"limit": 6, "offset": offset}) for offset in (0, 6)]
    pages = [search_reranked(hub.search, hub, SETTINGS, half) for half in halves]
    assert [ref for page in pages for ref in refs(page)] == refs(whole)
    assert {page.total for page in pages} == {whole.total}
    assert refs(whole) != refs(hub.search(query))
