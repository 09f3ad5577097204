"""The connection to an Ollama server; imported when a first question is asked, for it imports the client of Ollama."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx
import ollama

from kbhub.errors import ModelUnavailable
from kbhub.inference.faults import is_too_long, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kbhub.inference.deadline import Deadline
    from kbhub.inference.prompts import Prompt

LOAD_SECONDS = 120.0
"""Longest silence: a model of some gigabytes on a slow disk takes a minute to load. Who asks waits for less, but the
connection stays: Ollama stops loading when it goes."""

CONNECT_SECONDS = 10.0
"""Longest wait for a connection; beyond, nobody listens."""

ANSWER_CHARACTERS = 100_000
"""Of a longest answer; a server that goes on has lost its way."""

ONE_REQUEST = httpx.Limits(max_keepalive_connections=0)
"""No connection is kept for later: minutes may pass until the next question, and nobody would close it."""

OPTIONS = {"temperature": 0.0, "seed": 1}
"""The same question gets the same answer."""

_BUSY = (429, 503)
_NONSENSE = (ValueError, TypeError, AttributeError, KeyError, RecursionError)
"""What the client of Ollama raises at JSON that is broken or of another form."""


class Connection:
    """A connection to an Ollama server.

    Args:
        host: as in `OLLAMA_HOST`.
        where: what the server is called in messages.
        pull: gives the command that fetches a model.
        local: whether it is on this machine, so that no proxy is asked.

    Raises:
        ModelUnavailable: `host` is no address.
    """

    def __init__(self, host: str, where: str, pull: Callable[[str], str], *, local: bool) -> None:
        self._where, self._pull = where, pull
        timeout = httpx.Timeout(LOAD_SECONDS, connect=CONNECT_SECONDS)
        try:
            # A redirect would send what is asked to somebody whom the user did not name.
            self._client = ollama.Client(
                host, timeout=timeout, limits=ONE_REQUEST, follow_redirects=False, trust_env=not local
            )
        except (ValueError, httpx.InvalidURL) as error:
            raise ModelUnavailable("unreachable", f"{where}: that is no address ({shown(str(error))}).") from None

    def chat(
        self, model: str, prompt: Prompt, schema: dict[str, Any] | None, most_tokens: int, deadline: Deadline
    ) -> str:
        """Give what a model answers; see `Ollama.generate`."""
        said: list[str] = []
        with self._faults(model):
            # Word by word, so that a server is not kept at an answer that nobody waits for.
            for part in self._client.chat(
                model,
                prompt.messages(),
                stream=True,
                think=False,
                format=schema,
                options={**OPTIONS, "num_predict": most_tokens},
            ):
                said.append(part.message.content or "")
                if not deadline.left:
                    raise deadline.passed(self._where)
                if sum(map(len, said)) > ANSWER_CHARACTERS:
                    raise ModelUnavailable("nonsense", f"{self._where} did not stop writing; try another model.")
        return "".join(said)

    def embed(self, model: str, texts: Sequence[str]) -> list[list[float]]:
        """Give one vector per text; see `Ollama.embed`."""
        with self._faults(model):
            return [list(vector) for vector in self._client.embed(model, texts).embeddings]

    def digests(self) -> dict[str, str]:
        """Give the digests of the models that the server has, by their names in lower case."""
        with self._faults(""):
            return {(one.model or "").casefold(): one.digest or "" for one in self._client.list().models}

    def missing(self, model: str) -> ModelUnavailable:
        """Make what is raised about a model that the server does not have."""
        return ModelUnavailable("missing", f"{self._where} has no model {model!r}; `{self._pull(model)}` fetches it.")

    @contextmanager
    def _faults(self, model: str) -> Iterator[None]:
        """Make one sentence of whatever goes wrong with a request."""
        try:
            yield
        except ollama.ResponseError as error:
            raise self._refused(error, model) from None
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError, ConnectionError):
            raise ModelUnavailable("unreachable", f"{self._where} does not answer; `ollama serve` starts it.") from None
        except httpx.TimeoutException:
            raise ModelUnavailable("late", f"{self._where} was silent for {LOAD_SECONDS:g} s; is it stuck?") from None
        except (httpx.HTTPError, httpx.StreamError):
            raise ModelUnavailable("lost", f"The connection to {self._where} was lost; try again.") from None
        except httpx.InvalidURL as error:
            raise ModelUnavailable("unreachable", f"{self._where}: that is no address ({shown(str(error))}).") from None
        except _NONSENSE:
            raise ModelUnavailable("nonsense", f"{self._where} does not answer as Ollama does; is it Ollama?") from None

    def _refused(self, error: ollama.ResponseError, model: str) -> ModelUnavailable:
        said = shown(error.error)
        if error.status_code == httpx.codes.NOT_FOUND and "not found" in said and "model" in said:
            return self.missing(model)
        if error.status_code in _BUSY:
            return ModelUnavailable("busy", f"{self._where} is busy ({said}); try again.")
        if is_too_long(said):
            return ModelUnavailable("too long", f"A text is longer than {model!r} takes ({said}).")
        number = f"{error.status_code}: " if error.status_code > 0 else ""
        return ModelUnavailable("refused", f"{self._where} reports an error ({number}{said or 'without a word'}).")
