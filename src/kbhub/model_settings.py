"""Settings of what models do: vectors, other words, grades. All but vectors is off unless somebody asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from kbhub.checking import Declared

if TYPE_CHECKING:
    from pydantic import Field

DEFAULT_OLLAMA_MODEL = "qwen3:0.6b"
"""The smallest model of Ollama's library (0.5 GB) that answers in a given form; it runs on any machine."""
DEFAULT_MODEL_SECONDS = 4.0
"""Longest that a search waits for a language model: as long as people wait for a page."""
DEFAULT_ANSWER_SECONDS = 45.0
"""Longest that an answer waits for its writer: several MCP clients give a call up after 60 seconds."""
MOST_MODEL_SECONDS = 600.0
"""Longest wait that can be set; who asks has gone by then."""
MOST_CANDIDATES = 40
"""Hits that are graded at most: what comes after is hardly ever the answer, and each costs a request."""
DEFAULT_CANDIDATES = 20
"""Hits that are graded; those that the built-in second look takes in."""


class EmbedderSettings(Declared):
    """What turns text into vectors."""

    model: Annotated[str | None, Field(min_length=1)] = None
    """Folder or hub id of a model2vec model, `minilm` (all-MiniLM-L6-v2, of the extra `kbhub[onnx]`), `ollama/MODEL`,
    or `openai/MODEL` of an OpenAI-compatible server at `embedder.url`; null is the one that comes with kbhub; `none`
    switches semantic search off."""
    url: Annotated[str | None, Field(pattern=r"^https?://[^\s/]+")] = None
    """Address of the server of an `openai/` model, up to and with `/v1`; of an `ollama/` model, if it is not the one
    of `OLLAMA_HOST`."""
    key_variable: Annotated[str | None, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] = None
    """Name of the environment variable that holds the key for the server of an `openai/` model, where it wants
    one."""


class ExpansionSettings(Declared):
    """Other words for a query, by a language model of Ollama."""

    enabled: bool = False
    """Whether every search is expanded; without it, only where one asks so."""
    model: Annotated[str, Field(min_length=1)] = DEFAULT_OLLAMA_MODEL
    """Model of Ollama."""
    seconds: Annotated[float, Field(gt=0, le=MOST_MODEL_SECONDS)] = DEFAULT_MODEL_SECONDS
    """Longest that a search waits for it; then it goes on without."""


class RerankSettings(Declared):
    """Grades for the best hits, by a language model of Ollama."""

    enabled: bool = False
    """Whether every search is reranked; without it, only where one asks so."""
    model: Annotated[str, Field(min_length=1)] = DEFAULT_OLLAMA_MODEL
    """Model of Ollama."""
    seconds: Annotated[float, Field(gt=0, le=MOST_MODEL_SECONDS)] = DEFAULT_MODEL_SECONDS
    """Longest that a search waits for grades; those that are there by then count."""
    candidates: Annotated[int, Field(ge=2, le=MOST_CANDIDATES)] = DEFAULT_CANDIDATES
    """Hits that are graded, from the first one on."""


class AnswerSettings(Declared):
    """Who writes the answers of `ask` where the client's own model does not."""

    model: Annotated[str | None, Field(min_length=1)] = None
    """Model of Ollama that writes; null for none, then answers are made of sentences of the documents."""
    seconds: Annotated[float, Field(gt=0, le=MOST_MODEL_SECONDS)] = DEFAULT_ANSWER_SECONDS
    """Longest that an answer waits for it; then it is made of sentences of the documents."""
