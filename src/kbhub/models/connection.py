"""The connection to an Ollama server; imported on first use, as it imports Ollama's client."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import httpx
import ollama

from kbhub.errors import ModelUnavailable
from kbhub.models.inference import Deadline, Prompt, is_too_long, shown

LOAD_SECONDS = 120.0
"""Read timeout: loading a model of some gigabytes from a slow disk takes a minute. Callers wait less, but the
connection stays open, as Ollama stops loading when it closes."""

CONNECT_SECONDS = 10.0
"""Connect timeout."""

ANSWER_CHARACTERS = 100_000
"""Longest answer; a server that exceeds it is stuck in a loop."""

ONE_REQUEST = httpx.Limits(max_keepalive_connections=0)
"""No keep-alive: minutes may pass until the next request, and nothing would close the connection."""

OPTIONS = {"temperature": 0.0, "seed": 1}
"""Make answers reproducible."""

_BUSY = (429, 503)
_NONSENSE = (ValueError, TypeError, AttributeError, KeyError, RecursionError)
"""Raised by Ollama's client for JSON that is broken or unexpected."""


class Connection:
    """A connection to an Ollama server.

    Args:
        host: as in `OLLAMA_HOST`.
        where: name of the server in messages.
        pull: returns the command that fetches a model.
        local: whether it is on this machine, so that proxies are ignored.
    """

    def __init__(self, host: str, where: str, pull: Callable[[str], str], *, local: bool) -> None:
        self._where, self._pull = where, pull
        timeout = httpx.Timeout(LOAD_SECONDS, connect=CONNECT_SECONDS)
        try:
            # Following a redirect would send prompts to a server that the user did not choose.
            self._client = ollama.Client(
                host, timeout=timeout, limits=ONE_REQUEST, follow_redirects=False, trust_env=not local
            )
        except (ValueError, httpx.InvalidURL) as error:
            raise ModelUnavailable("unreachable", f"{where} is not a valid address ({shown(str(error))}).") from None

    def chat(
        self,
        model: str,
        prompt: Prompt,
        schema: dict[str, Any] | None,
        most_tokens: int,
        deadline: Deadline,
        on_text: Callable[[str], object] | None = None,
    ) -> str:
        """Return a model's answer; see `Ollama.generate`."""
        parts: list[str] = []
        with self._faults(model):
            # Streamed, so that the server can stop when nobody waits for the answer any more.
            for part in self._client.chat(
                model,
                prompt.messages(),
                stream=True,
                think=False,
                format=schema,
                options={**OPTIONS, "num_predict": most_tokens},
            ):
                parts.append(part.message.content or "")
                if on_text and parts[-1]:
                    on_text(parts[-1])
                if not deadline.left:
                    raise deadline.passed(self._where)
                if sum(map(len, parts)) > ANSWER_CHARACTERS:
                    raise ModelUnavailable("nonsense", f"{self._where} did not stop writing. Try another model.")
        return "".join(parts)

    def embed(self, model: str, texts: Sequence[str]) -> list[list[float]]:
        """Return one vector per text; see `Ollama.embed`."""
        with self._faults(model):
            return [list(vector) for vector in self._client.embed(model, texts).embeddings]

    def digests(self) -> dict[str, str]:
        """Return lower-case name → digest of the server's models."""
        with self._faults(""):
            return {(model.model or "").casefold(): model.digest or "" for model in self._client.list().models}

    def missing(self, model: str) -> ModelUnavailable:
        """Return the error for a model that the server does not have."""
        return ModelUnavailable(
            "missing", f"{self._where} has no model {model!r}. Fetch it with `{self._pull(model)}`."
        )

    @contextmanager
    def _faults(self, model: str) -> Iterator[None]:
        """Turn any failure of a request into `ModelUnavailable`."""
        try:
            yield
        except ollama.ResponseError as error:
            raise self._refused(error, model) from None
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError, ConnectionError):
            raise ModelUnavailable(
                "unreachable", f"{self._where} does not answer. Start it with `ollama serve`."
            ) from None
        except httpx.TimeoutException:
            raise ModelUnavailable(
                "late", f"{self._where} sent nothing for {LOAD_SECONDS:g} s. Check whether it hangs."
            ) from None
        except (httpx.HTTPError, httpx.StreamError):
            raise ModelUnavailable("lost", f"The connection to {self._where} was lost. Try again.") from None
        except httpx.InvalidURL as error:
            raise ModelUnavailable(
                "unreachable", f"{self._where} is not a valid address ({shown(str(error))})."
            ) from None
        except _NONSENSE:
            raise ModelUnavailable(
                "nonsense", f"{self._where} does not answer like Ollama. Check the address."
            ) from None

    def _refused(self, error: ollama.ResponseError, model: str) -> ModelUnavailable:
        said = shown(error.error)
        if error.status_code == httpx.codes.NOT_FOUND and "not found" in said and "model" in said:
            return self.missing(model)
        if error.status_code in _BUSY:
            return ModelUnavailable("busy", f"{self._where} is busy ({said}). Try again.")
        if is_too_long(said):
            return ModelUnavailable("too long", f"A text is too long for {model!r} ({said}).")
        number = f"{error.status_code}: " if error.status_code > 0 else ""
        return ModelUnavailable("refused", f"{self._where} reports an error ({number}{said or 'without details'}).")
