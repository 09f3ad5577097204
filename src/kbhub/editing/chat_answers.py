"""Chat answers that are saved as documents."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime

from pydantic import Field

from kbhub.documents.secrets import refuse_secrets
from kbhub.editing.documents import write_document
from kbhub.editing.paths import why_not_writable
from kbhub.errors import KbhubError, UsageError
from kbhub.frozen import Model
from kbhub.hub import Hub
from kbhub.models.embedding import MINILM
from kbhub.search.search import search
from kbhub.sync.freshness import freshen
from kbhub.types import Base, Hit, Query
from kbhub.workspace.discovery import COMPLETIONS_ID, completions_folder
from kbhub.workspace.files import private_directory

FOLDER = "llm-completions"
"""Folder for the answers in a base, with one subfolder per model."""

SHORT = {"c": "claude", "x": "codex", "g": "gemini"}
"""Letter → alias; `distil.models` maps aliases to models."""

RELATED_WORDS = 100
"""Words at the beginning of a text that are used to search for related documents."""

RELATED = 3

RELATED_SIMILARITY = 0.5
"""Minimum cosine of a related document, higher than in a search, where a person judges the hits. Of the three documents
of 300 EIPs nearest to the beginning of another EIP, 96 in 100 are above it; of the three nearest to a text of
another subject (356 of aerodynamics, chip design and the examples), 3 in 100. At 0.4 it is 28 in 100.
"""

SIMILARITY_OF = {MINILM: 0.4}
"""The same for embedders with smaller cosines: 97 and 3 in 100, of 50 EIPs; at 0.5 it is 62 and none."""

SHOWN_IDS = 5
MODEL_CHARACTERS = 80
TITLE_CHARACTERS = 80
_UNSAFE = re.compile(r"[^\w.+-]+", re.ASCII)
_MARKS = re.compile(r"^[#>*\-\s]+|[*_`#]+")


class Distilled(Model):
    """What `kbhub doc distil` saved."""

    ref: str = Field(description="Ref of the document.")
    base: str = Field(description="Id of its base.")
    path: str = Field(description="Path in the base.")
    id: str = Field(description="Correlation id, which is its file name too.")
    model: str = Field(description="Name of the model.")
    related: tuple[str, ...] = Field(
        (), description="Documents of its base with a similar meaning, listed in its front matter."
    )
    indexed: bool = Field(description="Whether searches find it now; if not, they do after the next sync.")
    notes: tuple[str, ...] = Field((), description="Notes, as sentences.")


def distil(hub: Hub, model: str, text: str, *, base: str | None = None, allow_secret: bool = False) -> Distilled:
    """Save a chat answer as a document with front matter, and index it."""
    if not text.strip():
        raise UsageError("Nothing to save: the text is empty.")
    if not allow_secret:
        refuse_secrets("The answer", text)
    name = model_name(model, hub.config().settings.distil.models)
    home = _home(hub, base)
    now = datetime.fromtimestamp(hub.options.clock(), UTC)
    # Sortable by time, and unique within a second.
    number = f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
    related, notes = _related(hub, home, text)
    # The first line with text, without Markdown marks.
    lines = (_MARKS.sub("", line).strip() for line in text.splitlines() if not line.startswith(("---", "```")))
    title = next((line for line in lines if line), "Answer")
    written = write_document(
        hub,
        f"{home.id}@{FOLDER}/{folder_name(name)}/{number}.md",
        text=text,
        front_matter={
            "title": title if len(title) <= TITLE_CHARACTERS else f"{title[: TITLE_CHARACTERS - 1]}…",
            "date": now.date().isoformat(),
            "status": "raw",
            "id": number,
            "model": name,
            "related": list(related) or None,
            "created": None,
        },
        client="kbhub doc distil",
    )
    return Distilled(
        ref=written.ref,
        base=written.base,
        path=written.path,
        id=number,
        model=name,
        related=related,
        indexed=written.indexed,
        notes=notes,
    )


def model_name(model: str, models: Mapping[str, str]) -> str:
    """Resolve an alias, in any case, to a model's name; other names are kept. Raise `UsageError` if it is invalid."""
    alias = SHORT.get(model.casefold(), model.casefold())
    known = {key.casefold(): value for key, value in models.items()}
    name = " ".join(known.get(alias, alias if model.casefold() in SHORT else model).split())
    if not folder_name(name):
        raise UsageError(f"{model!r} is not a valid model name. Use one such as `claude` or `llama3:8b`.")
    return name


def folder_name(model: str) -> str:
    """Return a model's name as a portable folder name; empty if nothing is left."""
    return _UNSAFE.sub("-", model)[:MODEL_CHARACTERS].strip(".-_ ")


def _home(hub: Hub, base: str | None) -> Base:
    if base is not None:
        return hub.select((base,))[0]
    project = hub.discovery().project
    if project and why_not_writable(hub, project) is None:
        return project
    folder = completions_folder(hub.data)
    try:
        private_directory(folder)
    except OSError as error:
        raise KbhubError(f"Cannot create {folder}: {error.strerror}. Choose another base with `--in`.") from error
    hub.rediscover()
    return hub.select((COMPLETIONS_ID,))[0]


def _related(hub: Hub, home: Base, text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return paths of related documents in the same base, and notes about the choice.

    Other bases and memories are excluded, since the base may be shared with people who must not see them.
    """
    freshen(hub)
    found = similar(hub, home, text)
    if found is None:
        return (), ("No related documents were added, because there are no vectors to compare.",)
    least = least_similarity(hub)
    near = tuple(hit.path for hit, cosine in found if cosine >= least)
    notes = []
    if far := found[len(near) :]:
        names = ", ".join(f"{hit.path} ({cosine:.2f})" for hit, cosine in far)
        notes.append(f"Not added as related, because their similarity is below {least:.2f}: {names}.")
    elif not near:
        notes.append(f"No document of {home.id} is similar enough in meaning to be added as related.")
    if others := [base.id for base in hub.discovery().bases if base.id != home.id]:
        names = ", ".join(others[:SHOWN_IDS]) + (", …" if len(others) > SHOWN_IDS else "")
        notes.append(f"Only documents of {home.id} are added as related, not those of your other bases ({names}).")
    return near, tuple(notes)


def similar(hub: Hub, base: Base, text: str, filters: str = "") -> list[tuple[Hit, float]] | None:
    """Return the documents of a base nearest in meaning to the beginning of a text, with cosines; None if unknown."""
    words = " ".join((*text.split()[:RELATED_WORDS], filters))
    result = search(hub, Query(text=words, bases=(base.id,), mode="semantic", limit=RELATED, explain=True))
    if result.mode != "semantic":
        return None
    signals = [(hit, hit.trace.signals if hit.trace else ()) for hit in result.hits]
    return [(hit, max([one.value for one in some if one.name == "semantic"], default=0.0)) for hit, some in signals]


def least_similarity(hub: Hub) -> float:
    """Return the cosine from which a document is related, by the embedder in use."""
    return SIMILARITY_OF.get(hub.config().settings.embedder.model or "", RELATED_SIMILARITY)
