"""A server that speaks OpenAI's protocol (LM Studio, llama.cpp, vLLM, LiteLLM, OpenAI): vectors of one model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
from pydantic import BaseModel, ValidationError

from kbhub.errors import ModelUnavailable
from kbhub.inference.addresses import is_local, shown_address
from kbhub.inference.faults import is_too_long, shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kbhub.inference.deadline import Deadline

SILENCE_SECONDS, CONNECT_SECONDS = 120.0, 10.0
"""Longest silence, for some servers load a model when it is asked for, and longest wait for a connection."""

SAMPLE = "How do we roll back a release?"
"""Text whose vector tells one model of a name from another."""

_BUSY = (429, 502, 503, 504)
_KEY = (401, 403)


class _Item(BaseModel):
    index: int
    embedding: list[float]


class _Reply(BaseModel):
    data: list[_Item]


class OpenAIEndpoint:
    """A model at a server, not connected until it is asked.

    Args:
        url: address of the server, up to and with `/v1`.
        model: as the server calls it.
        key: proves who asks; none if the server does not want to know.
    """

    def __init__(self, url: str, model: str, key: str | None) -> None:
        self._url, self._model = url.rstrip("/"), model
        self._where = f"The server at {shown_address(url)}"
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        # A redirect is not followed: it would send texts and key to somebody whom the user did not name.
        self._client = httpx.Client(
            headers=headers,
            timeout=httpx.Timeout(SILENCE_SECONDS, connect=CONNECT_SECONDS),
            # Minutes may pass until the next request, and nobody would close a connection that is kept.
            limits=httpx.Limits(max_keepalive_connections=0),
            trust_env=not is_local(url),
        )

    def vectors(self, texts: Sequence[str], deadline: Deadline) -> list[list[float]]:
        """Give one vector per text; see `remote_embedding.Endpoint`."""
        made = deadline.wait_for(lambda: self._post(texts), f"{self._where} with {self._model!r}")
        if len(made) != len(texts):
            raise self._nonsense()
        return made

    def version(self, deadline: Deadline) -> str:
        """Give the length of the vectors: the protocol tells no more of a model."""
        return str(len(self.vectors([SAMPLE], deadline)[0]))

    def _post(self, texts: Sequence[str]) -> list[list[float]]:
        try:
            response = self._client.post(f"{self._url}/embeddings", json={"model": self._model, "input": list(texts)})
            if not response.is_success:
                raise self._refused(response)
            reply = _Reply.model_validate_json(response.content)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError):
            raise ModelUnavailable("unreachable", f"{self._where} does not answer; start it.") from None
        except httpx.TimeoutException:
            raise ModelUnavailable("late", f"{self._where} was silent for {SILENCE_SECONDS:g} s.") from None
        except httpx.HTTPError:
            raise ModelUnavailable("lost", f"The connection to {self._where} was lost; try again.") from None
        except httpx.InvalidURL as error:
            raise ModelUnavailable("unreachable", f"embedder.url is no address: {shown(str(error))}.") from None
        except ValidationError:
            raise self._nonsense() from None
        return [one.embedding for one in sorted(reply.data, key=lambda one: one.index)]

    def _refused(self, response: httpx.Response) -> ModelUnavailable:
        status, said = response.status_code, shown(response.text)
        if response.has_redirect_location:
            return ModelUnavailable("refused", f"{self._where} sends elsewhere; name that address in `embedder.url`.")
        if status in _KEY:
            return ModelUnavailable(
                "refused", f"{self._where} does not accept the key; `embedder.keyVariable` names the variable with it."
            )
        if status == httpx.codes.NOT_FOUND:
            return ModelUnavailable(
                "missing", f"{self._where} has no model {self._model!r}, or no embeddings ({said}); name one it has."
            )
        if status in _BUSY:
            return ModelUnavailable("busy", f"{self._where} is busy ({status}: {said}); try again.")
        if is_too_long(said):
            return ModelUnavailable("too long", f"A text is longer than {self._model!r} takes ({said}).")
        return ModelUnavailable("refused", f"{self._where} reports an error ({status}: {said}).")

    def _nonsense(self) -> ModelUnavailable:
        return ModelUnavailable(
            "nonsense", f"{self._where} does not answer as OpenAI does; does its address end in `/v1`?"
        )
