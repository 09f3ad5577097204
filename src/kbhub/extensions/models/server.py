"""Models on a server such as Ollama, called with a deadline and with their answers validated.

All of it is opt-in. Any failure is an `errors.ModelUnavailable` with one sentence, which the caller turns into a note.
"""

from __future__ import annotations

import hashlib
import json
import shlex
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx
from pydantic import BaseModel, ValidationError

from kbhub.answers.answer import WritingRequest
from kbhub.documents.shown_text import without_thinking
from kbhub.errors import ModelUnavailable
from kbhub.workspace.extensions import load
from kbhub.workspace.files import ANSWERS, private_directory, read_regular, write_atomically
from kbhub.workspace.settings import cut

SHOWN_CHARACTERS = 200

TOO_LONG = (
    "context length",  # Ollama, OpenAI
    "too large to process",  # llama.cpp
    "maximum model length",  # vLLM
)

T = TypeVar("T")

_left_behind: dict[str, Future[object]] = {}


def shown_address(address: str) -> str:
    """Return an address for messages: with its scheme, without credentials and query string."""
    scheme, _, rest = with_scheme(address).partition("://")
    return f"{scheme}://{rest.rpartition('@')[2].partition('?')[0]}"


def is_local(address: str) -> bool:
    """Return whether an address is on this machine, so that proxies must not be used for it."""
    try:
        host = urlsplit(with_scheme(address)).hostname or "localhost"
    except ValueError:
        return True
    return host in ("localhost", "::1", "::") or host.startswith("127.")


def with_scheme(address: str) -> str:
    """Return an address with a scheme, `http` by default."""
    return address if "://" in address else f"http://{address}"


def shown(said: str) -> str:
    """Return a server's message on one line, truncated."""
    return cut(" ".join(said.split()), SHOWN_CHARACTERS)


def is_too_long(said: str) -> bool:
    """Return whether a message says that a text is too long for the model."""
    return any(part in said.casefold() for part in TOO_LONG)


def connection_fault(error: Exception, where: str, unreachable: str) -> ModelUnavailable:
    """Return why a request failed before its answer was there; `unreachable` is for no connection."""
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.ProxyError | ConnectionError):
        return ModelUnavailable("unreachable", f"{where} {unreachable}")
    if isinstance(error, httpx.TimeoutException):
        return ModelUnavailable("late", f"{where} sent nothing for {LOAD_SECONDS:g} s. Check whether it hangs.")
    return ModelUnavailable("lost", f"The connection to {where} was lost. Try again.")


class Deadline:
    """The time by which a step must be done.

    Socket timeouts limit single reads, but neither slow streams nor name resolution. So each request runs in its own
    thread, which is abandoned when the time is over. It is not cancelled: a server that is loading a model would stop
    loading, and never finish. There is at most one such thread per server and model; `patient` waits for that to finish
    first, else it is an error at once. `setting` allows more time, for the message.
    """

    def __init__(self, seconds: float, setting: str = "", *, patient: bool = False) -> None:
        self.seconds, self.setting, self.patient = seconds, setting, patient
        self._end = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds left, 0 when the time is over."""
        return max(0.0, self._end - time.monotonic())

    def wait_for(self, work: Callable[[], T], asked: str) -> T:
        """Return, or raise, what comes of something that may hang and go on; `asked` names server and model."""
        earlier = _left_behind.get(asked)
        if earlier is not None and self.patient:
            wait((earlier,), self.left)
        if earlier is not None and not earlier.done():
            busy = f"{asked} is still busy with an earlier request; it may be loading the model."
            raise ModelUnavailable("late", busy)
        future: Future[T] = Future()

        def run() -> None:
            try:
                future.set_result(work())
            except BaseException as error:  # noqa: BLE001 - re-raised in the waiting thread
                future.set_exception(error)

        threading.Thread(target=run, name=f"kbhub: {asked}", daemon=True).start()
        done, _ = wait((future,), self.left)
        if not done:
            _left_behind[asked] = future  # type: ignore[assignment] # only `done` is used
            raise self.passed(asked)
        return future.result()

    def passed(self, asked: str) -> ModelUnavailable:
        """Return the error for a missed deadline."""
        more = f" Raise `{self.setting}` to wait longer." if self.setting else ""
        late = f"{asked} took longer than {self.seconds:g} s; it may still be loading the model.{more}"
        return ModelUnavailable("late", late)


LOAD_SECONDS = 120.0
"""Read timeout: loading a model of some gigabytes from a slow disk takes a minute. Callers wait less, but the
connection stays open, as Ollama stops loading when it closes."""

PATIENCE = httpx.Timeout(LOAD_SECONDS, connect=10.0)

ANSWER_CHARACTERS = 100_000
"""Longest answer; a server that exceeds it is stuck in a loop."""

ONE_REQUEST = httpx.Limits(max_keepalive_connections=0)
"""No keep-alive: minutes may pass until the next request, and nothing would close the connection."""

OPTIONS = {"temperature": 0.0, "seed": 1}

_BUSY = (429, 503)
_NONSENSE = (ValueError, TypeError, AttributeError, KeyError, RecursionError)
"""Raised by Ollama's client for JSON that is broken or unexpected."""

MOST_FILES = 1000
"""Cached answers, a few megabytes at most; the oldest are deleted when there are more."""

KEPT_FILES = 900
"""Answers left after pruning, so that not every new one triggers it."""

MOST_BYTES = 64 * 1024
"""Largest file that is read; kbhub writes no larger ones."""

Shape = TypeVar("Shape", bound=BaseModel)

DEFAULT_HOST = "http://127.0.0.1:11434"


class StoredAnswers:
    """Model answers, cached by question in a folder that the first answer creates."""

    def __init__(self, cache: Path) -> None:
        self.folder = cache / ANSWERS

    def load(self, shape: type[Shape], asked: Sequence[str]) -> Shape | None:
        """Return a valid cached answer or None; it depends on all that was `asked`: model's name and prompt."""
        with suppress(OSError, ValidationError):
            return shape.model_validate_json(read_regular(self._file(asked), MOST_BYTES, follow=False))
        return None

    def save(self, answer: BaseModel, asked: Sequence[str]) -> None:
        """Cache an answer to what `load` is asked; write errors are ignored."""
        with suppress(OSError):
            write_atomically(private_directory(self.folder) / self._file(asked).name, answer.model_dump_json())
            if len(files := list(self.folder.glob("*.json"))) > MOST_FILES:
                ages = sorted((path.lstat().st_mtime_ns, path) for path in files)
                for _, path in ages[: len(files) - KEPT_FILES]:
                    path.unlink(missing_ok=True)

    def _file(self, asked: Sequence[str]) -> Path:
        digest = hashlib.sha256(json.dumps(list(asked)).encode()).hexdigest()
        return self.folder / f"{digest[:40]}.json"


class Ollama:
    """An Ollama server, connected on first use; `OLLAMA_HOST` in `env` is the default address."""

    def __init__(self, env: Mapping[str, str], url: str | None = None) -> None:
        self._named = url
        # The variable also configures the server, to listen on 0.0.0.0; Windows cannot connect to that.
        self._host = (url or env.get("OLLAMA_HOST", "").strip() or DEFAULT_HOST).replace("0.0.0.0", "127.0.0.1")  # noqa: S104
        self.where = f"Ollama at {shown_address(self._host)}"
        """Its name in messages: the address without a password."""
        self._client: Any = None

    def generate(
        self,
        model: str,
        request: WritingRequest,
        deadline: Deadline,
        *,
        on_text: Callable[[str], object] | None = None,
        schema: dict[str, Any] | None = None,
    ) -> str:
        """Return a model's answer, which is not empty; its thinking only goes to `on_text`, piece by piece."""
        options = {**OPTIONS, "num_predict": request.max_tokens}
        messages = [{"role": "system", "content": request.system}, {"role": "user", "content": request.prompt}]

        def chat(client: Any) -> str:
            parts: list[str] = []
            # Streamed, so that the server can stop when nobody waits for the answer any more.
            for part in client.chat(model, messages, stream=True, think=False, format=schema, options=options):
                parts.append(part.message.content or "")
                if on_text and parts[-1]:
                    on_text(parts[-1])
                if not deadline.left:
                    raise deadline.passed(self.where)
                if sum(map(len, parts)) > ANSWER_CHARACTERS:
                    raise ModelUnavailable("nonsense", f"{self.where} did not stop writing. Try another model.")
            return "".join(parts)

        if text := without_thinking(self._call(chat, model, deadline)):
            return text
        raise self._nonsense(model)

    def generate_as(self, shape: type[Shape], model: str, request: WritingRequest, deadline: Deadline) -> Shape:
        """Return a model's answer in a shape, whose schema the server is given, and prompts should describe."""
        text = self.generate(model, request, deadline, schema=shape.model_json_schema())
        try:
            return shape.model_validate_json(text[text.find("{") : text.rfind("}") + 1])
        except ValidationError:
            raise self._nonsense(model) from None

    def embed(self, model: str, texts: Sequence[str], deadline: Deadline) -> list[list[float]]:
        """Return one vector per text; texts are not empty, and have the prefixes that the model expects."""
        vectors = self._call(lambda client: list(map(list, client.embed(model, texts).embeddings)), model, deadline)
        if len(vectors) != len(texts):
            raise self._nonsense(model)
        return vectors

    def digest(self, model: str, deadline: Deadline) -> str:
        """Return the digest of a model, which changes with its version, without loading it."""

        def listed(client: Any) -> dict[str, str]:
            return {(one.model or "").casefold(): one.digest or "" for one in client.list().models}

        digests = self._call(listed, "", deadline)
        for name in (model, f"{model}:latest"):
            if digest := digests.get(name.casefold()):
                return digest
        raise self._missing(model)

    def _call(self, work: Callable[[Any], T], model: str, deadline: Deadline) -> T:
        """Return what the client answers; an empty `model` stands for the server itself."""
        if self._client is None:
            # Following a redirect would send prompts to a server that the user did not choose; no proxy is on this
            # machine.
            try:
                self._client = load("ollama:Client")(  # takes 0.4 s to import
                    self._host,
                    timeout=PATIENCE,
                    limits=ONE_REQUEST,
                    follow_redirects=False,
                    trust_env=not is_local(self._host),
                )
            except (ValueError, httpx.InvalidURL) as error:
                raise self._no_address(error) from None

        def run() -> T:
            try:
                return work(self._client)
            except load("ollama:ResponseError") as error:
                raise self._refused(error, model) from None
            except (httpx.HTTPError, httpx.StreamError, ConnectionError) as error:
                raise connection_fault(error, self.where, "does not answer. Start it with `ollama serve`.") from None
            except httpx.InvalidURL as error:
                raise self._no_address(error) from None
            except _NONSENSE:
                strange = f"{self.where} does not answer like Ollama. Check the address."
                raise ModelUnavailable("nonsense", strange) from None

        return deadline.wait_for(run, f"{self.where} with {model!r}" if model else self.where)

    def _refused(self, error: Any, model: str) -> ModelUnavailable:
        said = shown(error.error)
        if error.status_code == httpx.codes.NOT_FOUND and "not found" in said and "model" in said:
            return self._missing(model)
        if error.status_code in _BUSY:
            return ModelUnavailable("busy", f"{self.where} is busy ({said}). Try again.")
        if is_too_long(said):
            return ModelUnavailable("too long", f"A text is too long for {model!r} ({said}).")
        number = f"{error.status_code}: " if error.status_code > 0 else ""
        return ModelUnavailable("refused", f"{self.where} reports an error ({number}{said or 'without details'}).")

    def _no_address(self, error: Exception) -> ModelUnavailable:
        return ModelUnavailable("unreachable", f"{self.where} is not a valid address ({shown(str(error))}).")

    def _missing(self, model: str) -> ModelUnavailable:
        host = f"OLLAMA_HOST={shlex.quote(self._named)} " if self._named else ""
        pull = f"{host}ollama pull {shlex.quote(model)}"
        return ModelUnavailable("missing", f"{self.where} has no model {model!r}. Fetch it with `{pull}`.")

    def _nonsense(self, model: str) -> ModelUnavailable:
        said = f"{self.where} with {model!r} did not answer in the requested form. Try another model."
        return ModelUnavailable("nonsense", said)
