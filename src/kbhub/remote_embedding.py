"""Texts → vectors by a server: Ollama, or one that speaks OpenAI's protocol. Only where the user's config names one.

Imported when such a model is named, for it imports numpy and httpx.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import numpy as np

from kbhub.embedding import OLLAMA_PREFIX
from kbhub.errors import EmbedderError, ModelUnavailable
from kbhub.inference import Deadline, Ollama
from kbhub.inference.addresses import shown_address
from kbhub.inference.openai_protocol import OpenAIEndpoint
from kbhub.prompt_formats import PromptFormat, format_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from kbhub.model_settings import EmbedderSettings

BATCH_TEXTS, BATCH_CHARACTERS = 32, 64_000
"""Texts of one request, and characters: some seconds of a small model without a graphics card."""

MOST_CHARACTERS = 20_000
"""Of a text that is sent; the models take 2,000 to 32,000 tokens and leave out the rest, where they do not refuse."""

LEAST_CHARACTERS = 250
"""A text that a model refuses as too long is halved down to this; no model takes less."""

QUERY_SECONDS = 5.0
"""Longest that a search waits for the vector of its query; then it goes on by keywords."""

BATCH_SECONDS = 300.0
"""Longest that indexing waits for one request: a large model without a graphics card, with its loading."""

PAUSES = (0.5, 2.0, 5.0)
"""Seconds before each further try of a request that got lost: a server that restarts is back by then."""

FAILED_SECONDS = 10.0
"""How long a server that failed is not asked again, so that not every search waits for it."""

SAMPLE = "How do we roll back a release?"
"""Text whose vector shows how long vectors are."""


class Endpoint(Protocol):
    """A server with a model."""

    def vectors(self, texts: Sequence[str], deadline: Deadline) -> list[list[float]]:
        """Give one vector per text.

        Raises:
            ModelUnavailable: there are none.
        """
        ...

    def version(self, deadline: Deadline) -> str:
        """Give what changes whenever the model of that name is another one.

        Raises:
            ModelUnavailable: the server does not answer, or has no such model.
        """
        ...


class OllamaEndpoint:
    """A model of an Ollama server."""

    def __init__(self, server: Ollama, model: str) -> None:
        self._server, self._model = server, model

    def vectors(self, texts: Sequence[str], deadline: Deadline) -> list[list[float]]:
        """Give one vector per text; see `Endpoint.vectors`."""
        return self._server.embed(self._model, texts, deadline)

    def version(self, deadline: Deadline) -> str:
        """Give the digest of the model."""
        return self._server.digest(self._model, deadline)


class RemoteEmbedder:
    """An `Embedder` whose model runs on a server.

    Args:
        endpoint: the server with its model.
        name: as in the setting: it names no host, so that an index serves wherever the model runs.
        formats: what the model wants to stand before texts.
        pause: waits so many seconds.
        clock: seconds that only grow.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        name: str,
        formats: PromptFormat,
        *,
        pause: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self._endpoint, self._formats, self._pause, self._clock = endpoint, formats, pause, clock
        self._identifying = threading.Lock()
        self._fingerprint: str | None = None
        self._dimensions: int | None = None
        self._failed: tuple[float, ModelUnavailable] | None = None
        """When the server failed last, and how; none if it has done its work since."""

    @property
    def fingerprint(self) -> str:
        """Model, its version at the server, and prompt format; asks the server the first time.

        Raises:
            EmbedderError: the server does not answer, or has no such model.
        """
        if self._fingerprint is not None:
            return self._fingerprint
        with self._faults(waiting=True):
            return self._identified(Deadline(QUERY_SECONDS))

    @property
    def dimensions(self) -> int:
        """Length of a vector; loads the model the first time.

        Raises:
            EmbedderError: the server does not answer, or has no such model.
        """
        return self._dimensions or self.embed([SAMPLE]).shape[1]

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Give one vector per text of a document; see `Embedder.embed`."""
        return self._vectors(self._formats.document, texts, self._rows_patiently)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Give the vector of a query; see `Embedder.embed_query`."""
        deadline = Deadline(QUERY_SECONDS)
        with self._faults(waiting=True):
            self._identified(deadline)
        row: NDArray[np.float32] = self._vectors(
            self._formats.query, [text], lambda batch: self._rows(batch, deadline)
        )[0]
        return row

    def _identified(self, deadline: Deadline) -> str:
        with self._identifying:
            if self._fingerprint is None:
                version = self._endpoint.version(deadline)
                self._fingerprint = f"{self.name}@{version}/{self._formats.fingerprint}"
            return self._fingerprint

    def _vectors(
        self, prefix: str, texts: Sequence[str], rows_of: Callable[[Sequence[str]], list[list[float]]]
    ) -> NDArray[np.float32]:
        """Give vectors of length 1; texts without a letter have none and are not sent."""
        sent = {number: _prompt(prefix, text) for number, text in enumerate(texts) if text.strip()}
        if not sent:
            return np.zeros((len(texts), self.dimensions), np.float32)
        with self._faults():
            rows = np.concatenate([self._checked(rows_of(batch)) for batch in _batches(list(sent.values()))])
        vectors = np.zeros((len(texts), rows.shape[1]), np.float32)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        vectors[list(sent)] = rows / np.where(lengths > 0, lengths, 1)
        return vectors

    def _rows_patiently(self, batch: Sequence[str]) -> list[list[float]]:
        """Give one row per text; a request that gets lost is sent again."""
        for pause in PAUSES:
            try:
                return self._rows(batch, Deadline(BATCH_SECONDS, patient=True))
            except ModelUnavailable as fault:
                # Who was never there is not waited for.
                restarting = fault.kind == "unreachable" and self._dimensions is not None
                if fault.kind not in ("lost", "busy") and not restarting:
                    raise
            self._pause(pause)
        return self._rows(batch, Deadline(BATCH_SECONDS, patient=True))

    def _rows(self, batch: Sequence[str], deadline: Deadline) -> list[list[float]]:
        """Give one row per text; one that the model finds too long, and the server does not cut, is cut here."""
        try:
            return self._endpoint.vectors(batch, deadline)
        except ModelUnavailable as fault:
            if fault.kind != "too long" or (len(batch) == 1 and len(batch[0]) < LEAST_CHARACTERS):
                raise
        if len(batch) == 1:
            return self._rows([batch[0][: len(batch[0]) // 2]], deadline)
        return [row for text in batch for row in self._rows([text], deadline)]

    def _checked(self, rows: list[list[float]]) -> NDArray[np.float32]:
        """Give rows as numbers of the length that all vectors of the model have."""
        try:
            made = np.asarray(rows, np.float32)
        except ValueError:
            made = np.zeros(0, np.float32)
        if made.ndim != 2 or not made.shape[1] or made.shape[1] != (self._dimensions or made.shape[1]):
            raise ModelUnavailable("nonsense", f"{self.name} gives vectors of different lengths; try another model.")
        if not np.isfinite(made).all():
            raise ModelUnavailable("nonsense", f"{self.name} gives vectors that are no numbers; try another model.")
        self._dimensions = made.shape[1]
        return made

    @contextmanager
    def _faults(self, *, waiting: bool = False) -> Iterator[None]:
        """Make an `EmbedderError` of a fault of the server.

        Args:
            waiting: whether a search waits: then, if the server failed a moment ago, the same error at once.
        """
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
    """Make the embedder of a model at a server; asks nobody yet.

    Args:
        model: `ollama/MODEL` or `openai/MODEL`.
        settings: where the server is, and where its key.
        env: environment variables.

    Raises:
        EmbedderError: the settings lack something.
    """
    kind, _, name = model.partition("/")
    if not name.strip():
        raise EmbedderError(f"embedder.model: {model!r} names no model; name one, such as `ollama/embeddinggemma`.")
    endpoint: Endpoint
    if f"{kind}/" == OLLAMA_PREFIX:
        endpoint = OllamaEndpoint(Ollama(env, settings.url), name)
    else:
        endpoint = _openai_endpoint(name, settings, env)
    return RemoteEmbedder(endpoint, model, format_of(name))


def _openai_endpoint(name: str, settings: EmbedderSettings, env: Mapping[str, str]) -> OpenAIEndpoint:
    if settings.url is None:
        raise EmbedderError(
            f"embedder.url is missing: it names the server of {name!r}, such as http://localhost:1234/v1."
        )
    key = None
    if settings.key_variable:
        key = env.get(settings.key_variable, "").strip()
        if not (key and key.isascii() and key.isprintable()):
            raise EmbedderError(
                f"The variable {settings.key_variable}, which `embedder.keyVariable` names, holds no key; put the one "
                f"for {shown_address(settings.url)} there."
            )
    return OpenAIEndpoint(settings.url, name, key)


def _prompt(prefix: str, text: str) -> str:
    # A lone surrogate is no UTF-8.
    return f"{prefix}{text[:MOST_CHARACTERS]}".encode("utf-8", "replace").decode("utf-8")


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
