"""A small HTTP server that speaks Ollama's API, and OpenAI's for embeddings, as scripted by a test."""

import hashlib
import json
import threading
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

DIMENSIONS = 8
CONTEXT_LETTERS = 5000
"""A longer text is refused, as by an Ollama that does not cut."""


@dataclass
class Request:
    """What a client asked."""

    path: str
    headers: dict[str, str]
    body: Any


@dataclass
class OllamaServer:
    """A server with some models, what it says, and what it was asked."""

    url: str = ""
    models: dict[str, str] = field(default_factory=lambda: {"qwen3:0.6b": "1" * 64, "embeddinggemma:latest": "2" * 64})
    """Name → digest of each model that is pulled."""
    say: Callable[[dict[str, Any]], str] = lambda body: "{}"
    """Gives the text of an answer, for the body of a request to chat."""
    drop: int = 0
    """Requests to come whose connection is dropped without an answer."""
    busy: int = 0
    """Requests to come that are answered with 503."""
    raw: bytes | None = None
    """Instead of any answer with status 200."""
    redirect: str = ""
    """Where every request is sent instead."""
    drip: bool = False
    """Whether an answer comes letter by letter, and never ends."""
    silent: bool = False
    """Whether nothing is answered until `release`."""
    key: str = ""
    """What who asks must prove to know, if not empty."""
    vector: Callable[[str], list[float]] | None = None
    requests: list[Request] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)

    @property
    def env(self) -> dict[str, str]:
        return {"OLLAMA_HOST": self.url}

    def asked(self, path: str) -> list[Any]:
        return [one.body for one in self.requests if one.path == path]

    def answers(self, *values: Any) -> None:
        """Let it answer these values as JSON, one after the other, the last one again and again."""
        left = list(values)

        def say(body: dict[str, Any]) -> str:
            return json.dumps(left.pop(0) if len(left) > 1 else left[0])

        self.say = say


def words_vector(text: str) -> list[float]:
    """Give a vector in which equal words count: texts that share words are near."""
    vector = [0.0] * DIMENSIONS
    for word in text.lower().split():
        vector[int(hashlib.sha256(word.strip(".,:;?").encode()).hexdigest(), 16) % DIMENSIONS] += 1
    return vector


class Handler(BaseHTTPRequestHandler):
    """What answers without a word on standard error."""

    def log_message(self, *arguments) -> None:
        """Say nothing."""

    def answer(self, data: bytes, status: int = 200, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@contextmanager
def serving(handler: type[Handler]):
    """Serve on a free port of this machine until the end of the block; gives the address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def running_ollama():
    """Run a server until the end of the block."""
    script = OllamaServer()
    with serving(type("Scripted", (_Ollama,), {"server_script": script})) as script.url:
        try:
            yield script
        finally:
            script.released.set()


@pytest.fixture
def ollama():
    """A server that any test may script."""
    with running_ollama() as running:
        yield running


class _Ollama(Handler):
    server_script: OllamaServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._serve(None)

    def do_POST(self) -> None:
        self._serve(json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"null"))

    def _serve(self, body: Any) -> None:
        script = self.server_script
        headers = {name.lower(): value for name, value in self.headers.items()}
        script.requests.append(Request(self.path, headers, body))
        self.close_connection = True
        try:
            if not self._fails():
                self._answer(body)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the client has gone

    def _fails(self) -> bool:
        script = self.server_script
        if script.silent:
            script.released.wait(30)
        elif script.drop:
            script.drop -= 1
        elif script.busy:
            script.busy -= 1
            self._json({"error": "server busy"}, 503)
        elif script.redirect:
            self.send_response(307)
            self.send_header("Location", script.redirect + self.path)
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif script.key and self.headers.get("Authorization") != f"Bearer {script.key}":
            self._json({"error": {"message": "Incorrect API key provided"}}, 401)
        elif script.drip:
            self._drip()
        elif script.raw is not None:
            self.answer(script.raw)
        else:
            return False
        return True

    def _answer(self, body: Any) -> None:
        script = self.server_script
        answer = {
            "/api/tags": lambda: self._json(
                {"models": [{"model": name, "name": name, "digest": one} for name, one in script.models.items()]}
            ),
            "/api/chat": lambda: self._model(body, lambda: self._chat(body)),
            "/api/embed": lambda: self._model(body, lambda: self._embed(body)),
            "/v1/embeddings": lambda: self._openai(body),
        }.get(self.path)
        if answer is None:
            self.answer(b"404 page not found", 404, "text/plain")
        else:
            answer()

    def _model(self, body: Any, answer: Callable[[], None]) -> None:
        names = self.server_script.models
        if body["model"] in names or f"{body['model']}:latest" in names:
            answer()
        else:
            self._json({"error": f"model '{body['model']}' not found"}, 404)

    def _chat(self, body: Any) -> None:
        said = self.server_script.say(body)
        half, lines = len(said) // 2, b""
        for piece, done in ((said[:half], False), (said[half:], True)):
            message = {"role": "assistant", "content": piece}
            lines += json.dumps({"model": body["model"], "done": done, "message": message}).encode() + b"\n"
        self.answer(lines, 200, "application/x-ndjson")

    def _embed(self, body: Any) -> None:
        if any(len(text) > CONTEXT_LETTERS for text in body["input"]):
            self._json({"error": "the input length exceeds the context length"}, 400)
        else:
            self._json({"model": body["model"], "embeddings": self._vectors(body["input"])})

    def _openai(self, body: Any) -> None:
        vectors = self._vectors(body["input"])
        rows = [{"object": "embedding", "index": n, "embedding": one} for n, one in enumerate(vectors)]
        self._json({"object": "list", "data": rows[::-1], "model": body["model"]})

    def _vectors(self, texts: list[str]) -> list[list[float]]:
        return [*map(self.server_script.vector or words_vector, texts)]

    def _drip(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/x-ndjson")
        self.end_headers()
        while not self.server_script.released.wait(0.01):
            self.wfile.write(b" ")
            self.wfile.flush()

    def _json(self, value: Any, status: int = 200) -> None:
        self.answer(json.dumps(value).encode(), status)
