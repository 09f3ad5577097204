"""The findings of `status`, `doctor` and `audit`, with their fixes, and the progress of indexing as it happens."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from concurrent.futures import wait
from contextlib import suppress
from typing import Any

import anyio
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from kbhub.editing.findings import CHECKS
from kbhub.errors import ConfigError, UsageError
from kbhub.extensions.page.site import Form, Site, posted, site_of
from kbhub.reading.lists import status
from kbhub.setup.bases import edit_config
from kbhub.setup.doctor import examine, repair
from kbhub.sync.base_suggestions import outside
from kbhub.workspace.config_edits import set_value

EVENT_SECONDS = 0.1

AUDIT_SECONDS = 0.5
"""How long a request waits for the end of an audit before it says how far that is."""


def health_page(request: Request) -> Response:
    """Show the bases and the problems with them; what takes longer comes as parts."""
    site, overview = site_of(request), None
    site.look()
    with suppress(ConfigError):  # which `doctor` reports
        overview = status(site.hub).model_copy(update={"notes": outside(site.hub)})
    return site.page(request, "health.html", title="Health", overview=overview)


def machine_part(request: Request) -> Response:
    """Show the problems with this machine, found by looking at every page of the indexes."""
    site = site_of(request)
    return site.page(request, "machine.html", title="This machine", diagnosis=examine(site.hub))


def audit_part(request: Request) -> Response:
    """Show the findings of an audit, or how far it is; the browser then asks again."""
    site, auditing = site_of(request), site_of(request).auditing
    ignored = site.hub.config().settings.audit.ignore
    state = (ignored, *site.each(lambda base, index: (base.id, index.generation())))
    audit = ("began" in request.query_params and auditing.latest) or auditing.begin(state)
    wait([audit], AUDIT_SECONDS)
    return site.page(
        request,
        "audit.html",
        title="Audit",
        report=audit.result() if audit.done() else None,
        progress=auditing.progress,
        ignored=ignored,
    )


@posted
def index(request: Request, _form: Form) -> str:
    """Look at all files now."""
    site_of(request).auditing.state = None
    site_of(request).background.look()
    return "/health"


@posted
def repaired(request: Request, _form: Form) -> str:
    """Do what `kbhub doctor --fix` does."""
    site = site_of(request)
    site.check_writable("this hub")
    repair(site.hub, examine(site.hub))
    return "/health"


@posted
def fix(request: Request, _form: Form) -> str:
    """Do what `kbhub audit --fix` does."""
    site = site_of(request)
    site.check_writable("this hub")
    site.auditing.begin(None, fixing=True)
    return "/health#audit"


@posted
def ignore(request: Request, form: Form) -> str:
    """Set the checks that an audit leaves out, in the config."""
    site, names = site_of(request), form.getlist("check")
    site.check_writable("this hub")
    if unknown := sorted(set(names) - CHECKS.keys()):
        raise UsageError(f"Unknown check {unknown[0]!r}.")
    edit_config(site.hub, lambda text, _: set_value(text, ("audit", "ignore"), names, site.hub.config().file))
    return "/health#audit"


async def events(request: Request) -> Response:
    """Stream the progress of indexing: an event whenever it changes."""
    return StreamingResponse(_progress(request, site_of(request)), media_type="text/event-stream")


async def _progress(request: Request, site: Site) -> AsyncIterator[str]:
    before: dict[str, Any] | None = None
    while not await request.is_disconnected():
        done, todo = site.background.progress()
        now = {"bases": site.background.busy(), "done": done, "todo": todo}
        if now != before:
            yield f"data: {json.dumps(now)}\n\n"
            before = now
        await anyio.sleep(EVENT_SECONDS)
