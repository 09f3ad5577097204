"""Embedder for models on a server that the user's config names: Ollama, or one with an OpenAI-compatible API."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

import httpx
import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from kbhub.errors import EmbedderError, ModelFault, ModelUnavailable
from kbhub.extensions.models import server
from kbhub.extensions.models.server import Deadline
from kbhub.frozen import Model
from kbhub.workspace.settings import EmbedderSettings

Rows = list[list[float]]
"""A vector per text, as a server sends them."""

SAMPLE = "How do we roll back a release?"

_BUSY = (429, 502, 503, 504)
_KEY = (401, 403)


class _Item(Model, extra="ignore"):
    index: int
    embedding: list[float]


class _Reply(Model, extra="ignore"):
    data: list[_Item]


class OpenAIEndpoint:
    """A model on a server, whose address ends with `/v1`; connected on first use."""

    def __init__(self, url: str, model: str, key: str | None) -> None:
        self._url, self._model = url.rstrip("/"), model
        self._where = f"The server at {server.shown_address(url)}"
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        # Redirects are not followed: they would send texts and key to a server that the user did not choose.
        self._client = httpx.Client(
            headers=headers, timeout=server.PATIENCE, limits=server.ONE_REQUEST, trust_env=not server.is_local(url)
        )

    def vectors(self, texts: Sequence[str], deadline: Deadline) -> Rows:
        """Return one vector per text."""
        vectors = deadline.wait_for(lambda: self._post(texts), f"{self._where} with {self._model!r}")
        if len(vectors) != len(texts):
            raise self._nonsense()
        return vectors

    def version(self, deadline: Deadline) -> str:
        """Return the length of the vectors; the protocol reveals no more about a model."""
        return str(len(self.vectors([SAMPLE], deadline)[0]))

    def _post(self, texts: Sequence[str]) -> Rows:
        try:
            response = self._client.post(f"{self._url}/embeddings", json={"model": self._model, "input": list(texts)})
            if not response.is_success:
                raise self._refused(response)
            reply = _Reply.model_validate_json(response.content)
        except httpx.HTTPError as error:
            raise server.connection_fault(error, self._where, "does not answer. Start it.") from None
        except httpx.InvalidURL as error:
            said = f"embedder.url is not a valid address: {server.shown(str(error))}."
            raise ModelUnavailable("unreachable", said) from None
        except ValidationError:
            raise self._nonsense() from None
        return [item.embedding for item in sorted(reply.data, key=lambda item: item.index)]

    def _refused(self, response: httpx.Response) -> ModelUnavailable:
        status, said = response.status_code, server.shown(response.text)
        kind: ModelFault = "refused"
        fault = f"reports an error ({status}: {said})."
        if response.has_redirect_location:
            fault = "redirects elsewhere. Set `embedder.url` to that address."
        elif status in _KEY:
            fault = "rejected the API key. Check the variable that `embedder.keyVariable` names."
        elif status == httpx.codes.NOT_FOUND:
            kind, fault = "missing", f"has no model {self._model!r}, or no embeddings ({said}). Name a model it has."
        elif status in _BUSY:
            kind, fault = "busy", f"is busy ({status}: {said}). Try again."
        elif server.is_too_long(said):
            return ModelUnavailable("too long", f"A text is too long for {self._model!r} ({said}).")
        return ModelUnavailable(kind, f"{self._where} {fault}")

    def _nonsense(self) -> ModelUnavailable:
        said = f"{self._where} does not answer like OpenAI. Check that its address ends in `/v1`."
        return ModelUnavailable("nonsense", said)


FORMAT_DIGITS = 8
_REPRESENT = "Represent this sentence for searching relevant passages: "
_INSTRUCT = "Instruct: Given a search query, retrieve relevant passages that answer the query\nQuery:"

BATCH_TEXTS, BATCH_CHARACTERS = 32, 64_000
"""Texts and characters per request: some seconds for a small model without a GPU."""

MOST_CHARACTERS = 20_000
"""Characters sent of a text; models take 2,000 to 32,000 tokens, and truncate or refuse longer texts."""

LEAST_CHARACTERS = 250
"""A text that is refused as too long is halved until it is shorter than this; all models accept such a text."""

QUERY_SECONDS = 5.0
"""Seconds that a search waits for the vector of its query before it falls back to keywords."""

BATCH_SECONDS = 300.0
"""Seconds that indexing waits for one request: enough for a large model without a GPU, including loading."""

PAUSES = (0.5, 2.0, 5.0)
"""Seconds before each retry of a lost request: a server that restarts is back by then."""

FAILED_SECONDS = 10.0
"""Seconds that searches do not contact a server that has failed."""

FORMATS = {
    "embeddinggemma": ("task: search result | query: ", "title: none | text: "),
    "nomic-embed-text": ("search_query: ", "search_document: "),
    "qwen3-embedding": (_INSTRUCT, ""),
    "mxbai-embed": (_REPRESENT, ""),
    "snowflake-arctic-embed2": ("query: ", ""),
    "snowflake-arctic-embed-l-v2": ("query: ", ""),
    "snowflake-arctic-embed-m-v2": ("query: ", ""),
    "snowflake-arctic-embed": (_REPRESENT, ""),
    "bge-m3": ("", ""),
    "bge-": (_REPRESENT, ""),
    "multilingual-e5": ("query: ", "passage: "),
    "e5-": ("query: ", "passage: "),
}
"""Beginning of a model's name → what queries and documents begin with, from its model card; the first match applies."""


def format_of(model: str) -> tuple[str, str]:
    """Return the prefixes of a model such as `hf.co/Qwen/Qwen3-Embedding-0.6B-GGUF:Q8_0`; none if it is unknown."""
    name = model.rpartition("/")[2].partition(":")[0].casefold().removeprefix("text-embedding-")
    return next((prefixes for begin, prefixes in FORMATS.items() if name.startswith(begin)), ("", ""))


class RemoteEmbedder:
    """An `Embedder` whose model runs on a server.

    Its name has no host, so that an index stays valid if the server moves. `vectors` returns one vector per text, and
    `version` a string that changes whenever the name stands for another model; both may raise `ModelUnavailable`.
    """

    def __init__(
        self, vectors: Callable[[Sequence[str], Deadline], Rows], version: Callable[[Deadline], str], name: str
    ) -> None:
        self.name = name
        self._vectors_of, self._version = vectors, version
        self._before_query, self._before_document = format_of(name)
        self._pause, self._clock = time.sleep, time.monotonic
        self._identifying = threading.Lock()
        self._fingerprint: str | None = None
        self._dimensions: int | None = None
        self._failed: tuple[float, ModelUnavailable] | None = None
        """Time and error of the last failure; None after a success."""

    @property
    def fingerprint(self) -> str:
        """Model, its version on the server, and prompt format; contacts the server the first time."""
        if self._fingerprint is not None:
            return self._fingerprint
        with self._faults(waiting=True):
            return self._identified(Deadline(QUERY_SECONDS))

    @property
    def dimensions(self) -> int:
        """Length of a vector; loads the model the first time."""
        return self._dimensions or self.embed([SAMPLE]).shape[1]

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one vector per text of a document; see `Embedder.embed`."""
        return self._vectors(self._before_document, texts, self._rows_patiently)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Return the vector of a query; see `Embedder.embed_query`."""
        deadline = Deadline(QUERY_SECONDS)
        with self._faults(waiting=True):
            self._identified(deadline)
        row: NDArray[np.float32] = self._vectors(self._before_query, [text], partial(self._rows, deadline=deadline))[0]
        return row

    def _identified(self, deadline: Deadline) -> str:
        with self._identifying:
            if self._fingerprint is None:
                prefixes = hashlib.sha256(f"{self._before_query}\0{self._before_document}".encode()).hexdigest()
                self._fingerprint = f"{self.name}@{self._version(deadline)}/{prefixes[:FORMAT_DIGITS]}"
            return self._fingerprint

    def _vectors(
        self, prefix: str, texts: Sequence[str], rows_of: Callable[[Sequence[str]], Rows]
    ) -> NDArray[np.float32]:
        """Return unit vectors; blank texts are not sent and get zeros."""
        sent = {
            number: f"{prefix}{text[:MOST_CHARACTERS]}".encode("utf-8", "replace").decode("utf-8")  # no lone surrogates
            for number, text in enumerate(texts)
            if text.strip()
        }
        if not sent:
            return np.zeros((len(texts), self.dimensions), np.float32)
        with self._faults():
            rows = np.concatenate([self._checked(rows_of(batch)) for batch in _batches(list(sent.values()))])
        vectors = np.zeros((len(texts), rows.shape[1]), np.float32)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        vectors[list(sent)] = rows / np.where(lengths > 0, lengths, 1)
        return vectors

    def _rows_patiently(self, batch: Sequence[str]) -> Rows:
        """Return one row per text, retrying lost requests."""
        for pause in PAUSES:
            try:
                return self._rows(batch, Deadline(BATCH_SECONDS, patient=True))
            except ModelUnavailable as fault:
                # Don't wait for a server that never answered.
                restarting = fault.kind == "unreachable" and self._dimensions is not None
                if fault.kind not in ("lost", "busy") and not restarting:
                    raise
            self._pause(pause)
        return self._rows(batch, Deadline(BATCH_SECONDS, patient=True))

    def _rows(self, batch: Sequence[str], deadline: Deadline) -> Rows:
        """Return one row per text, halving texts that the server refuses as too long."""
        try:
            return self._vectors_of(batch, deadline)
        except ModelUnavailable as fault:
            if fault.kind != "too long" or (len(batch) == 1 and len(batch[0]) < LEAST_CHARACTERS):
                raise
        if len(batch) == 1:
            return self._rows([batch[0][: len(batch[0]) // 2]], deadline)
        return [row for text in batch for row in self._rows([text], deadline)]

    def _checked(self, rows: Rows) -> NDArray[np.float32]:
        """Convert rows to an array, checking that all vectors of the model are finite and have the same length."""
        try:
            vectors = np.asarray(rows, np.float32)
        except ValueError:
            vectors = np.zeros(0, np.float32)
        if vectors.ndim != 2 or not vectors.shape[1] or vectors.shape[1] != (self._dimensions or vectors.shape[1]):
            raise ModelUnavailable("nonsense", f"{self.name} returns vectors of different lengths. Try another model.")
        if not np.isfinite(vectors).all():
            raise ModelUnavailable("nonsense", f"{self.name} returns vectors that are not numbers. Try another model.")
        self._dimensions = vectors.shape[1]
        return vectors

    @contextmanager
    def _faults(self, *, waiting: bool = False) -> Iterator[None]:
        """Turn server faults into `EmbedderError`; if a search is `waiting`, repeat a recent failure at once."""
        if waiting and self._failed and self._clock() - self._failed[0] < FAILED_SECONDS:
            raise EmbedderError(str(self._failed[1]))
        try:
            yield
            self._failed = None
        except ModelUnavailable as fault:
            if fault.kind in ("unreachable", "lost", "late"):
                self._failed = self._clock(), fault
            raise EmbedderError(str(fault)) from None


def open_remote(model: str, settings: EmbedderSettings, env: Mapping[str, str]) -> RemoteEmbedder:
    """Create the embedder of `ollama/MODEL` or `openai/MODEL`, without contacting its server."""
    kind, _, name = model.partition("/")
    if not name.strip():
        raise EmbedderError(f"embedder.model: {model!r} names no model. Name one, such as `ollama/embeddinggemma`.")
    if kind == "ollama":
        ollama = server.Ollama(env, settings.url)
        return RemoteEmbedder(partial(ollama.embed, name), partial(ollama.digest, name), model)
    if settings.url is None:
        raise EmbedderError(
            f"embedder.url is missing. Set it to the server of {name!r}, such as http://localhost:1234/v1."
        )
    key = None
    if settings.key_variable:
        key = env.get(settings.key_variable, "").strip()
        if not (key and key.isascii() and key.isprintable()):
            what = f"The variable {settings.key_variable} named by `embedder.keyVariable` is empty."
            raise EmbedderError(f"{what} Set it to the API key for {server.shown_address(settings.url)}.")
    endpoint = OpenAIEndpoint(settings.url, name, key)
    return RemoteEmbedder(endpoint.vectors, endpoint.version, model)


def _batches(texts: Sequence[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for text in texts:
        if batch and (len(batch) >= BATCH_TEXTS or size + len(text) > BATCH_CHARACTERS):
            yield batch
            batch, size = [], 0
        batch.append(text)
        size += len(text)
    if batch:
        yield batch
