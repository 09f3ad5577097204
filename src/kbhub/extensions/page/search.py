"""Pages of search: hits as you type, facets, and cited answers, streamed as they are written."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import nullcontext, suppress
from functools import partial
from typing import Any
from urllib.parse import parse_qs, urlencode

from anyio.to_thread import run_sync
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from kbhub.answers.answer import Answer, Passage
from kbhub.answers.question import answer_without_client, prepare
from kbhub.answers.sentences import CLOSING_FENCE, CODE_FENCE
from kbhub.documents.shown_text import fenced
from kbhub.errors import KbhubError, QueryLogUnavailable, UsageError
from kbhub.extensions.page.documents import counted_bases, read_address
from kbhub.extensions.page.site import Form, Site, number_of, posted, site_of
from kbhub.index.catalogue import tag_counts, tags_of, values_of
from kbhub.index.query.parser import FILTER, read_filter
from kbhub.index.references import ref_of
from kbhub.index.side_files import QueryLog
from kbhub.reading.lists import date_of
from kbhub.render.html import answer_html, rendered
from kbhub.render.search import answer_notes
from kbhub.search.judge import LEADING_NOTES
from kbhub.search.search import search
from kbhub.types import Query, SearchResult
from kbhub.usage.gaps import show_log
from kbhub.usage.log import USER, log_path, record
from kbhub.workspace.formats import has_markdown

PAGE = 10

FACETED = 20
"""Hits whose bases, types, statuses and tags are counted."""

SHOWN_TAGS = 8

STARTED = 8

LOGGED = 60
"""Queries among which those of the user are looked for."""

SAVED = "saved "
"""Begins the key of a saved search in the query log; its address follows."""

ASK = "ask"

_FILTER_WORD = re.compile(rf"(?:^|\s+)(-?{FILTER})")


async def search_page(request: Request) -> Response:
    """Answer a query; while one types, two at a time, and none that the browser no longer waits for."""
    async with site_of(request).typing if "x-part" in request.headers else nullcontext():
        return Response() if await request.is_disconnected() else await run_sync(_answered, request)


def _answered(request: Request) -> Response:
    """Answer a query, have the browser fetch the answer to a question, or show where to start."""
    site, mode = site_of(request), request.query_params.get("mode", "hybrid")
    site.look()
    asked = query_of(request)
    if not asked.text.strip() or mode == ASK:
        return _start(site, request, asked, mode)
    began = time.perf_counter()
    typing = "x-part" in request.headers
    result = search(site.hub, asked, typing=typing)
    asked = asked.model_copy(update={"text": result.query})  # links lead to the same hits, if a word was completed
    if not typing:
        record(site.hub, result, asked, took=time.perf_counter() - began)
    keys, chosen = {one.lstrip("-").partition(":")[0] for one in result.filters}, list[tuple[str, str]]()
    """The filters of the query, each with the address of the same query without it."""
    for one in _FILTER_WORD.finditer(asked.text):
        if (read := read_filter(one["key"], one["values"])) and read.key in keys:
            rest = f"{asked.text[: one.start()]}{asked.text[one.end() :]}".strip()
            chosen.append((one[1], address_of(asked, text=rest)))
    for base in asked.bases:
        chosen.append((f"in {base}", address_of(asked, bases=[other for other in asked.bases if other != base])))
    return site.page(
        request,
        "search.html",
        asked=asked,
        mode=mode,
        result=result,
        shown=result.hits[:PAGE],
        notes=[note for note in result.notes if note not in LEADING_NOTES],
        facets=list(_facets(site, asked, result)),
        chosen=chosen,
        next_page=address_of(asked, offset=asked.offset + PAGE) if len(result.hits) > PAGE else None,
        previous_page=address_of(asked, offset=max(0, asked.offset - PAGE)),
        address=(address := address_of(asked)),
        saved=address in _saved(site),
    )


def _saved(site: Site) -> list[str]:
    """Return the addresses of the saved searches of this project."""
    with suppress(QueryLogUnavailable):
        return [key.removeprefix(SAVED) for key in QueryLog(log_path(site.hub)).noted(SAVED)]
    return []


@posted
def save(request: Request, form: Form) -> str:
    """Save the search of this address, or save it no longer, and show it or where to start."""
    asked, hub = query_of(request), site_of(request).hub
    if asked.text.strip():
        log, key = QueryLog(log_path(hub)), f"{SAVED}{address_of(asked)}"
        log.note(key, hub.options.clock()) if form.get("saved") else log.forget(key)
    return "/" if form.get("start") else address_of(asked)


def _start(site: Site, request: Request, asked: Query, mode: str) -> Response:
    """Show what was asked and changed last, tags and bases; for a question, the place of its answer."""
    empty, tags, changed = not asked.text.strip(), Counter[str](), list[tuple[str, str, str]]()
    queries = show_log(site.hub, LOGGED).queries if empty else ()
    own = {query.text: query for query in reversed(queries) if query.client == USER}
    for base, counts, rows in site.each(lambda *of: (of[0], tag_counts(of[1]), of[1].latest(STARTED))) if empty else ():
        tags.update(counts)
        changed += [(date_of(row) or "", ref_of(base, row.path, site.bases()), row.title) for row in rows]
    return site.page(
        request,
        "search.html",
        asked=asked,
        mode=mode,
        result=None,
        bases=site.bases(),
        model=site.hub.config().settings.answers.model,
        recent=[own[text] for text in dict.fromkeys([query.text for query in queries if query.text in own])][:STARTED],
        saved=[(parse_qs(address[2:])["q"][0], address) for address in (_saved(site) if empty else ())],
        changed=sorted(changed, key=lambda one: one[0], reverse=True)[:STARTED],
        tags=tags.most_common(SHOWN_TAGS * 3),
        counted_bases=counted_bases(site) if empty else (),
    )


def query_of(request: Request) -> Query:
    """Return the query of a request; raise `UsageError` for an invalid parameter."""
    values = request.query_params
    try:
        return Query(
            text=values.get("q", ""),
            mode=values.get("mode", "hybrid").replace(ASK, "hybrid"),  # type: ignore[arg-type]  # checked by the query
            bases=tuple(values.getlist("base")),
            limit=FACETED,
            offset=number_of(values.get("offset", "")),
            explain=True,
        )
    except ValueError as error:
        raise UsageError(f"{error}.") from error


def address_of(asked: Query, *, text: str | None = None, bases: Iterable[str] | None = None, offset: int = 0) -> str:
    """Return the address of a query, changed in some way."""
    chosen = asked.bases if bases is None else tuple(bases)
    pairs: list[tuple[str, Any]] = [("q", asked.text if text is None else text)]
    pairs += [("mode", asked.mode)] if asked.mode != "hybrid" else []
    pairs += [("base", base) for base in chosen]
    pairs += [("offset", offset)] if offset else []
    return f"/?{urlencode(pairs)}"


def _facets(site: Site, asked: Query, result: SearchResult) -> Iterable[tuple[str, list[tuple[str, int, str]]]]:
    """Yield facets with their values: of each its label, how many hits have it, and the narrower search's address."""
    hits, words = result.hits, asked.text.split()

    def added(word: str) -> str:
        return address_of(asked, text=f"{asked.text} {word}")

    def of_hits(read: Callable[[Any, list[str]], Any]) -> Iterable[Any]:
        paths = {base: [hit.path for hit in hits if hit.base == base] for base in by_base}
        return site.each(lambda base, index: read(index, paths[base.id]), by_base)

    by_base = Counter(hit.base for hit in hits)
    if len(by_base) > 1:
        yield "base", [(base, count, address_of(asked, bases=[base])) for base, count in by_base.most_common()]
    for key in ("type", "status"):
        values = of_hits(partial(values_of, key=key))
        counts = Counter(value for found in values for _, value in found if isinstance(value, str) and '"' not in value)
        if len(counts) > 1:
            filters = [(value, count, f'{key}:"{value}"') for value, count in counts.most_common(SHOWN_TAGS)]
            yield key, [(value, count, added(word)) for value, count, word in filters if word not in asked.text]
    tags = Counter(tag for found in of_hits(tags_of) for tags in found.values() for tag in tags)
    narrowing = [(tag, count) for tag, count in tags.most_common() if f"tag:{tag}" not in words and " " not in tag]
    if narrowing:
        yield "tag", [(f"#{tag}", count, added(f"tag:{tag}")) for tag, count in narrowing[:SHOWN_TAGS]]


async def stream(request: Request) -> Response:
    """Stream an answer as events: `sources`, then `text` as it is written, then `answer`, or `fault`."""
    site, values = site_of(request), request.query_params
    events = _events(site, values.get("q", ""), values.getlist("base"))
    return StreamingResponse(events, media_type="text/event-stream")


async def _events(site: Site, question: str, bases: list[str]) -> AsyncIterator[str]:
    loop, said = asyncio.get_running_loop(), asyncio.Queue[str]()

    def say(event: str, value: Any) -> None:
        """Send an event from any thread."""
        loop.call_soon_threadsafe(said.put_nowait, f"event: {event}\ndata: {json.dumps(value)}\n\n")

    answered = loop.run_in_executor(site.answering, _say_answer, site, question, bases, say)
    answered.add_done_callback(lambda _: said.put_nowait(""))  # after all that was said
    try:
        while event := await said.get():
            yield event
        if not answered.cancelled():  # as if the page ends
            answered.result()
    finally:
        answered.cancel()  # if the browser left before its turn


def _say_answer(site: Site, question: str, bases: list[str], say: Callable[[str, Any], None]) -> None:
    """Answer, and send each part as soon as it is there."""
    try:
        prepared = prepare(site.hub, question, bases=bases, asker=USER)
        say("sources", rendered("sources.html", sources=prepared.passages))
        answer = answer_without_client(site.hub, prepared, on_text=lambda text: say("text", text))
        say("answer", answer_part(answer))
    except KbhubError as error:
        say("fault", str(error))


def answer_part(answer: Answer) -> str:
    """Return an answer as a part of the page."""
    addresses = {one.number: read_address(f"{one.ref}:{one.start_line}-{one.end_line}") for one in answer.references}
    return rendered(
        "answer.html",
        answer=answer,
        body=answer_html(answer.text, addresses),
        notes=answer_notes(answer, (answer.question,)),  # without the hint at an option of the command
        sources=answer.references,
        passages=[(passage, _passage_html(passage)) for passage in answer.passages],
        addresses=addresses,
    )


def _passage_html(passage: Passage) -> Markup:
    text = passage.readable
    if passage.in_code:
        fence = next(filter(CLOSING_FENCE.match, text.split("\n")), CODE_FENCE)
        text = f"{fence}\n{text}"
    elif not has_markdown(passage.ref):
        text = fenced(text)
    return answer_html(text)
