"""The history of questions: unanswered ones, documents read, numbers per day, and slow queries."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import anyio.to_thread
from starlette.responses import RedirectResponse

from kbhub.editing.documents import write_document
from kbhub.editing.paths import why_not_writable
from kbhub.errors import UsageError
from kbhub.memory.files import slug
from kbhub.render.html import HEIGHT, WIDTH, columns
from kbhub.ui.documents import read_address
from kbhub.ui.site import Site, site_of
from kbhub.usage.gaps import close_gap, gaps_and_unanswered
from kbhub.usage.reports import show_log

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

LOGGED = 2_000
"""Queries that are looked at."""

SHOWN = 30

DAYS = 30
"""Days of the plot."""

MOST_READ = 10

VERDICTS = ("strong", "weak", "none", "unjudged")

STARTED = """# {title}

Asked as: {question}

"""
"""A document that is started from a gap."""


def gaps_page(request: Request) -> Response:
    """Show gaps and the history of questions."""
    site = site_of(request)
    found, log = gaps_and_unanswered(site.hub), show_log(site.hub, LOGGED)
    by_day: dict[str, Counter[str]] = {}
    for query in log.queries:
        by_day.setdefault(query.asked[:10], Counter())[query.verdict or "unjudged"] += 1
    today = datetime.fromtimestamp(site.hub.options.clock(), UTC).date()
    days = [(today - timedelta(days=back)).isoformat() for back in range(DAYS - 1, -1, -1)]
    read = Counter(ref for query in log.queries for ref in query.read)
    timed = [query for query in log.queries if query.seconds is not None]
    return site.page(
        request,
        "gaps.html",
        title="Gaps and use",
        found=found,
        log=log,
        recent=log.queries[:SHOWN],
        columns=columns(days, by_day, VERDICTS),
        names=VERDICTS,
        size=(WIDTH, HEIGHT),
        most_read=[(ref, read_address(ref), count) for ref, count in read.most_common(MOST_READ)],
        slow=sorted(timed, key=lambda query: -(query.seconds or 0))[:MOST_READ],
        places=[base for base in site.bases() if why_not_writable(site.hub, base) is None and base.kind == "document"],
        slug=slug,
    )


async def close(request: Request) -> Response:
    """Close a gap for good."""
    form = await request.form()
    await anyio.to_thread.run_sync(close_gap, site_of(request).hub, str(form.get("id", "")))
    return RedirectResponse("/gaps", 303)


async def start_document(request: Request) -> Response:
    """Write the beginning of a document that would answer a gap, and show it."""
    form = {name: value for name, value in (await request.form()).items() if isinstance(value, str)}
    ref = await anyio.to_thread.run_sync(_started, site_of(request), form)
    return RedirectResponse(f"/read?{urlencode({'ref': ref})}", 303)


def _started(site: Site, form: dict[str, str]) -> str:
    question, path = form.get("question", "").strip(), form.get("path", "").strip()
    if not question or not path:
        raise UsageError("Enter the question, and the path of the document that should answer it.")
    title = " ".join(question.rstrip("?").split())
    text = STARTED.format(title=title[:1].upper() + title[1:], question=" ".join(question.split()))
    return write_document(site.hub, f"{form.get('base', 'project')}@{path}", text=text).ref
