"""Client for an Ollama server: text, structured text and vectors, with a private cache of its answers."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel, ValidationError

from kbhub.errors import ModelUnavailable
from kbhub.models.inference import Deadline, Prompt, is_local, shown_address, without_thinking
from kbhub.workspace.atomic_writes import write_atomically
from kbhub.workspace.files import private_directory, read_regular

if TYPE_CHECKING:
    from kbhub.models.connection import Connection

FOLDER = "answers"
"""Folder in the cache directory."""

MOST_FILES = 1000
"""Cached answers, a few megabytes at most; the oldest are deleted when there are more."""

KEPT_FILES = 900
"""Answers left after pruning, so that not every new one triggers it."""

MOST_BYTES = 64 * 1024
"""Largest file that is read; kbhub writes no larger ones."""

Shape = TypeVar("Shape", bound=BaseModel)

DEFAULT_HOST = "http://127.0.0.1:11434"
"""Ollama's default address."""


class StoredAnswers:
    """Model answers, cached by question in a folder that the first answer creates."""

    def __init__(self, cache: Path) -> None:
        self.folder = cache / FOLDER

    def load(self, shape: type[Shape], asked: Sequence[str]) -> Shape | None:
        """Return a cached answer, or None if there is no valid one.

        `asked` is everything that the answer depends on: the model's name and the prompt.
        """
        try:
            return shape.model_validate_json(read_regular(self._file(asked), MOST_BYTES, follow=False))
        except (OSError, ValidationError):
            return None

    def save(self, answer: BaseModel, asked: Sequence[str]) -> None:
        """Cache an answer to what `load` is asked; write errors are ignored."""
        text = answer.model_dump_json()
        try:
            write_atomically(private_directory(self.folder) / self._file(asked).name, text)
            self._prune()
        except OSError:
            return

    def _file(self, asked: Sequence[str]) -> Path:
        digest = hashlib.sha256(json.dumps(list(asked)).encode()).hexdigest()
        return self.folder / f"{digest[:40]}.json"

    def _prune(self) -> None:
        files = list(self.folder.glob("*.json"))
        if len(files) <= MOST_FILES:
            return
        ages = sorted((path.lstat().st_mtime_ns, path) for path in files)
        for _, path in ages[: len(files) - KEPT_FILES]:
            path.unlink(missing_ok=True)


class Ollama:
    """An Ollama server, connected on first use; `OLLAMA_HOST` in `env` is the default address."""

    def __init__(self, env: Mapping[str, str], url: str | None = None) -> None:
        self._named = url
        # The variable also configures the server, to listen on 0.0.0.0; Windows cannot connect to that.
        self._host = (url or env.get("OLLAMA_HOST", "").strip() or DEFAULT_HOST).replace("0.0.0.0", "127.0.0.1")  # noqa: S104
        self._connection: Connection | None = None

    @property
    def where(self) -> str:
        """Its name in messages: the address without a password."""
        return f"Ollama at {shown_address(self._host)}"

    def generate(
        self,
        model: str,
        prompt: Prompt,
        deadline: Deadline,
        *,
        most_tokens: int,
        on_text: Callable[[str], object] | None = None,
    ) -> str:
        """Return a model's answer without its thinking; it is not empty.

        `on_text` is called with each piece as it comes, thinking included. The deadline is that of the whole step.
        """
        return self._generate(model, prompt, deadline, None, most_tokens, on_text)

    def generate_as(
        self, shape: type[Shape], model: str, prompt: Prompt, deadline: Deadline, *, most_tokens: int
    ) -> Shape:
        """Return a model's answer in a shape: the server is given its schema, and the answer is validated.

        The prompt should describe the format too, as not every server and model follows the schema.
        """
        text = self._generate(model, prompt, deadline, shape, most_tokens)
        try:
            return shape.model_validate_json(text[text.find("{") : text.rfind("}") + 1])
        except ValidationError:
            raise self._nonsense(model) from None

    def embed(self, model: str, texts: Sequence[str], deadline: Deadline) -> list[list[float]]:
        """Return one vector per text; texts are not empty, and have the prefixes that the model expects."""
        connection = self._connected()
        vectors = deadline.wait_for(lambda: connection.embed(model, texts), self._asked(model))
        if len(vectors) != len(texts):
            raise self._nonsense(model)
        return vectors

    def digest(self, model: str, deadline: Deadline) -> str:
        """Return the digest of a model, which changes with its version, without loading it."""
        connection = self._connected()
        digests = deadline.wait_for(connection.digests, self.where)
        for name in (model, f"{model}:latest"):
            if digest := digests.get(name.casefold()):
                return digest
        raise connection.missing(model)

    def _generate(
        self,
        model: str,
        prompt: Prompt,
        deadline: Deadline,
        shape: type[BaseModel] | None,
        most_tokens: int,
        on_text: Callable[[str], object] | None = None,
    ) -> str:
        connection = self._connected()
        schema = shape.model_json_schema() if shape else None
        answer = deadline.wait_for(
            lambda: connection.chat(model, prompt, schema, most_tokens, deadline, on_text), self._asked(model)
        )
        if text := without_thinking(answer):
            return text
        raise self._nonsense(model)

    def _asked(self, model: str) -> str:
        return f"{self.where} with {model!r}"

    def _nonsense(self, model: str) -> ModelUnavailable:
        return ModelUnavailable(
            "nonsense", f"{self._asked(model)} did not answer in the requested form. Try another model."
        )

    def _connected(self) -> Connection:
        if self._connection is None:
            # Ollama's client takes 0.4 s to import.
            from kbhub.models.connection import Connection  # noqa: PLC0415

            self._connection = Connection(self._host, self.where, self._pull, local=is_local(self._host))
        return self._connection

    def _pull(self, model: str) -> str:
        """Return the command that fetches a model."""
        host = f"OLLAMA_HOST={shlex.quote(self._named)} " if self._named else ""
        return f"{host}ollama pull {shlex.quote(model)}"
