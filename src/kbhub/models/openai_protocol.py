"""Embeddings from an OpenAI-compatible server (LM Studio, llama.cpp, vLLM, LiteLLM, OpenAI)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
from pydantic import BaseModel, ValidationError

from kbhub.errors import ModelUnavailable
from kbhub.models.inference import Deadline, is_local, is_too_long, shown, shown_address

if TYPE_CHECKING:
    from collections.abc import Sequence

SILENCE_SECONDS, CONNECT_SECONDS = 120.0, 10.0
"""Read timeout, as some servers load models on demand, and connect timeout."""

SAMPLE = "How do we roll back a release?"
"""Text embedded to distinguish models of the same name."""

_BUSY = (429, 502, 503, 504)
_KEY = (401, 403)


class _Item(BaseModel):
    index: int
    embedding: list[float]


class _Reply(BaseModel):
    data: list[_Item]


class OpenAIEndpoint:
    """A model on a server, whose address ends with `/v1`; connected on first use."""

    def __init__(self, url: str, model: str, key: str | None) -> None:
        self._url, self._model = url.rstrip("/"), model
        self._where = f"The server at {shown_address(url)}"
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        # Redirects are not followed: they would send texts and key to a server that the user did not choose.
        self._client = httpx.Client(
            headers=headers,
            timeout=httpx.Timeout(SILENCE_SECONDS, connect=CONNECT_SECONDS),
            # No keep-alive: minutes may pass until the next request, and nothing would close the connection.
            limits=httpx.Limits(max_keepalive_connections=0),
            trust_env=not is_local(url),
        )

    def vectors(self, texts: Sequence[str], deadline: Deadline) -> list[list[float]]:
        """Return one vector per text; see `remote.EmbeddingServer`."""
        vectors = deadline.wait_for(lambda: self._post(texts), f"{self._where} with {self._model!r}")
        if len(vectors) != len(texts):
            raise self._nonsense()
        return vectors

    def version(self, deadline: Deadline) -> str:
        """Return the length of the vectors; the protocol reveals no more about a model."""
        return str(len(self.vectors([SAMPLE], deadline)[0]))

    def _post(self, texts: Sequence[str]) -> list[list[float]]:
        try:
            response = self._client.post(f"{self._url}/embeddings", json={"model": self._model, "input": list(texts)})
            if not response.is_success:
                raise self._refused(response)
            reply = _Reply.model_validate_json(response.content)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError):
            raise ModelUnavailable("unreachable", f"{self._where} does not answer. Start it.") from None
        except httpx.TimeoutException:
            raise ModelUnavailable("late", f"{self._where} sent nothing for {SILENCE_SECONDS:g} s.") from None
        except httpx.HTTPError:
            raise ModelUnavailable("lost", f"The connection to {self._where} was lost. Try again.") from None
        except httpx.InvalidURL as error:
            raise ModelUnavailable(
                "unreachable", f"embedder.url is not a valid address: {shown(str(error))}."
            ) from None
        except ValidationError:
            raise self._nonsense() from None
        return [item.embedding for item in sorted(reply.data, key=lambda item: item.index)]

    def _refused(self, response: httpx.Response) -> ModelUnavailable:
        status, said = response.status_code, shown(response.text)
        if response.has_redirect_location:
            return ModelUnavailable(
                "refused", f"{self._where} redirects elsewhere. Set `embedder.url` to that address."
            )
        if status in _KEY:
            return ModelUnavailable(
                "refused", f"{self._where} rejected the API key. Check the variable that `embedder.keyVariable` names."
            )
        if status == httpx.codes.NOT_FOUND:
            return ModelUnavailable(
                "missing",
                f"{self._where} has no model {self._model!r}, or no embeddings ({said}). Name a model it has.",
            )
        if status in _BUSY:
            return ModelUnavailable("busy", f"{self._where} is busy ({status}: {said}). Try again.")
        if is_too_long(said):
            return ModelUnavailable("too long", f"A text is too long for {self._model!r} ({said}).")
        return ModelUnavailable("refused", f"{self._where} reports an error ({status}: {said}).")

    def _nonsense(self) -> ModelUnavailable:
        return ModelUnavailable(
            "nonsense", f"{self._where} does not answer like OpenAI. Check that its address ends in `/v1`."
        )
