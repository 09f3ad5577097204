"""Texts → vectors by a server: Ollama, or one that speaks OpenAI's protocol. Only where the user's config names one."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Protocol

from kbhub.errors import EmbedderError, ModelUnavailable
from kbhub.inference import Deadline, Ollama
from kbhub.prompt_formats import PromptFormat, format_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

OLLAMA_PREFIX, OPENAI_PREFIX = "ollama/", "openai/"
"""What the name of a model at a server begins with in the setting `embedder.model`."""

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
        self._knowing = threading.RLock()
        self._fingerprint: str | None = None
        self._dimensions: int | None = None
        self._failed: tuple[float, EmbedderError] | None = None

    @property
    def fingerprint(self) -> str:
        """Model, its version at the server, and prompt format; asks the server the first time.

        Raises:
            EmbedderError: the server does not answer, or has no such model.
        """
        return self._known_fingerprint(Deadline(QUERY_SECONDS))

    @property
    def dimensions(self) -> int:
        """Length of a vector; loads the model the first time.

        Raises:
            EmbedderError: the server does not answer, or has no such model.
        """
        if self._dimensions is None:
            self._rows(self._formats.document, [SAMPLE], Deadline(BATCH_SECONDS))
        return self._dimensions or 0

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Give one vector per text of a document; see `Embedder.embed`."""
        return self._embedded(self._formats.document, texts, self._patiently)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Give the vector of a query; see `Embedder.embed_query`."""
        deadline = Deadline(QUERY_SECONDS)
        self._known_fingerprint(deadline)
        row: NDArray[np.float32] = self._embedded(
            self._formats.query, [text], lambda prompts: self._tried(prompts, deadline)
        )[0]
        return row
