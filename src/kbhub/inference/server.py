"""An Ollama server as kbhub asks it: for text, for text of a given form, for vectors."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel, ValidationError

from kbhub.errors import ModelUnavailable
from kbhub.inference.addresses import is_local, shown_address
from kbhub.inference.prompts import without_thinking

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kbhub.inference.connection import Connection
    from kbhub.inference.deadline import Deadline
    from kbhub.inference.prompts import Prompt

M = TypeVar("M", bound=BaseModel)

DEFAULT_HOST = "http://127.0.0.1:11434"
"""Where Ollama listens if nobody says otherwise."""


class Ollama:
    """An Ollama server, not connected until it is asked.

    Args:
        env: environment variables; `OLLAMA_HOST` says where it is.
        url: where it is, over the environment.
    """

    def __init__(self, env: Mapping[str, str], url: str | None = None) -> None:
        self._named = url
        # A server is told to listen everywhere by the same variable; as an address, Windows does not know that one.
        self._host = (url or env.get("OLLAMA_HOST", "").strip() or DEFAULT_HOST).replace("0.0.0.0", "127.0.0.1")  # noqa: S104
        self._connection: Connection | None = None

    @property
    def where(self) -> str:
        """What it is called in messages: its address, without a password."""
        return f"Ollama at {shown_address(self._host)}"

    def generate(self, model: str, prompt: Prompt, deadline: Deadline, *, most_tokens: int) -> str:
        """Let a model write.

        Args:
            model: its name.
            prompt: what to write.
            deadline: of the step that this is part of.
            most_tokens: length of the answer.

        Returns:
            The answer without what the model thought before; not empty.

        Raises:
            ModelUnavailable: there is no answer, or no sensible one.
        """
        return self._generate(model, prompt, deadline, None, most_tokens)

    def generate_as(self, shape: type[M], model: str, prompt: Prompt, deadline: Deadline, *, most_tokens: int) -> M:
        """Let a model fill in a form.

        Args:
            shape: the form; the server is told to allow nothing else, and what comes back is checked.
            model: its name.
            prompt: what with; it should say what the form is, for not every server and model keeps to it.
            deadline: of the step that this is part of.
            most_tokens: length of the answer.

        Raises:
            ModelUnavailable: there is no answer, or none of that form.
        """
        text = self._generate(model, prompt, deadline, shape, most_tokens)
        try:
            return shape.model_validate_json(text[text.find("{") : text.rfind("}") + 1])
        except ValidationError:
            raise self._nonsense(model) from None

    def embed(self, model: str, texts: Sequence[str], deadline: Deadline) -> list[list[float]]:
        """Let a model make vectors.

        Args:
            model: its name.
            texts: not empty ones, in the form that the model expects.
            deadline: of the step that this is part of.

        Raises:
            ModelUnavailable: there are none, or not one per text.
        """
        connection = self._connected()
        made = deadline.wait_for(lambda: connection.embed(model, texts), self._asked(model))
        if len(made) != len(texts):
            raise self._nonsense(model)
        return made

    def digest(self, model: str, deadline: Deadline) -> str:
        """Give what changes whenever a model of a name becomes another; loads nothing.

        Raises:
            ModelUnavailable: the server does not answer, or has no such model.
        """
        connection = self._connected()
        digests = deadline.wait_for(connection.digests, self.where)
        for name in (model, f"{model}:latest"):
            if found := digests.get(name.casefold()):
                return found
        raise connection.missing(model)

    def _generate(
        self, model: str, prompt: Prompt, deadline: Deadline, shape: type[BaseModel] | None, most_tokens: int
    ) -> str:
        connection = self._connected()
        schema = shape.model_json_schema() if shape else None
        said = deadline.wait_for(
            lambda: connection.chat(model, prompt, schema, most_tokens, deadline), self._asked(model)
        )
        if text := without_thinking(said):
            return text
        raise self._nonsense(model)

    def _asked(self, model: str) -> str:
        return f"{self.where} with {model!r}"

    def _nonsense(self, model: str) -> ModelUnavailable:
        return ModelUnavailable(
            "nonsense", f"{self._asked(model)} did not answer in the form that was asked for; try another model."
        )

    def _connected(self) -> Connection:
        if self._connection is None:
            # The client of Ollama takes 0.4 s to import, which only a first question is worth.
            from kbhub.inference.connection import Connection  # noqa: PLC0415

            self._connection = Connection(self._host, self.where, self._pull, local=is_local(self._host))
        return self._connection

    def _pull(self, model: str) -> str:
        """Give the command that fetches a model."""
        host = f"OLLAMA_HOST={shlex.quote(self._named)} " if self._named else ""
        return f"{host}ollama pull {shlex.quote(model)}"
