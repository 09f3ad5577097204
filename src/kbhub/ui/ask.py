"""Questions: the cited answer as it is written, each citation leading to its passage."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
from starlette.responses import StreamingResponse

from kbhub.answers.answer import Answer, Source
from kbhub.answers.question import answer_without_client, prepare
from kbhub.errors import KbhubError
from kbhub.render.html import answer_html, rendered
from kbhub.render.search import answer_notes
from kbhub.ui.documents import read_address
from kbhub.ui.site import Site, site_of
from kbhub.usage.log import USER

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response


def ask_page(request: Request) -> Response:
    """Show the question, and have the browser fetch the answer."""
    site = site_of(request)
    site.look()
    question = request.query_params.get("q", "").strip()
    return site.page(
        request,
        "ask.html",
        title=question or "Ask",
        question=question,
        bases=site.bases(),
        chosen=request.query_params.getlist("base"),
        model=site.hub.config().settings.answers.model,
    )


async def stream(request: Request) -> Response:
    """Stream an answer as events: `sources`, then `text` as it is written, then `answer`, or `fault`."""
    site, values = site_of(request), request.query_params
    events = _events(site, values.get("q", ""), values.getlist("base"))
    return StreamingResponse(events, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


async def _events(site: Site, question: str, bases: list[str]) -> AsyncIterator[str]:
    send, receive = anyio.create_memory_object_stream[str](math.inf)
    loop = asyncio.get_running_loop()

    def say(event: str, value: Any) -> None:
        """Send an event from any thread; ignored if the browser has left."""

        def put() -> None:
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                send.send_nowait(f"event: {event}\ndata: {json.dumps(value)}\n\n")

        loop.call_soon_threadsafe(put)

    async def answer() -> None:
        async with send:
            await loop.run_in_executor(site.answering, _say_answer, site, question, bases, say)
            await anyio.lowlevel.checkpoint()  # what was said last is put before the end

    async with anyio.create_task_group() as group:
        group.start_soon(answer)
        async with receive:
            async for event in receive:
                yield event
        group.cancel_scope.cancel()


def _say_answer(site: Site, question: str, bases: list[str], say: Callable[[str, Any], None]) -> None:
    """Answer, and send each part as soon as it is there."""
    try:
        prepared = prepare(site.hub, question, bases=bases, asker=USER)
        say("sources", rendered("sources.html", sources=_with_addresses(prepared.passages), cited=None))
        answer = answer_without_client(site.hub, prepared, on_text=lambda text: say("text", text))
        say("answer", answer_part(answer))
    except KbhubError as error:
        say("fault", str(error))


def answer_part(answer: Answer) -> str:
    """Return an answer as a part of the page."""
    addresses = {source.number: _address(source) for source in answer.references}
    return rendered(
        "answer.html",
        answer=answer,
        body=answer_html(answer.text, addresses),
        notes=answer_notes(answer),
        sources=_with_addresses(answer.references),
        cited={reference.number for reference in answer.references if reference.cited},
        passages=[(passage, _address(passage)) for passage in answer.passages],
        support=[(one, addresses.get(one.number, "")) for one in answer.support],
    )


def _with_addresses(sources: Iterable[Source]) -> list[tuple[Source, str]]:
    return [(source, _address(source)) for source in sources]


def _address(source: Source) -> str:
    return read_address(f"{source.ref}:{source.start_line}-{source.end_line}")
