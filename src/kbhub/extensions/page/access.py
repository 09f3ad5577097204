"""Access to the page: a browser of this machine that was given the token, and no other page in it."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from urllib.parse import urlencode

from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kbhub.render.html import rendered
from kbhub.server.daemon.loopback import HOST, foreign
from kbhub.values import struct

SECRET_BYTES = 24

TOKEN = "token"  # noqa: S105 - its name

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; frame-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""Content-Security-Policy: nothing but what this server sends, and nothing inline."""

UNCHANGING = "max-age=31536000, immutable"
"""Of static files, whose addresses change with their content; everything else is fetched anew."""

HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # with `no-referrer` browsers hide the origin of forms, too
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@struct
class PageAddress:
    """Where the page is, and the secrets that open it."""

    port: int
    token: str
    """In the address that is opened; works once, and is empty from then on."""
    session: str
    """In the cookie; another process that takes the page over keeps it, so that tabs go on."""
    spent: str = ""
    """The token that was exchanged for the session."""

    @property
    def address(self) -> str:
        """The address to open."""
        return f"http://{HOST}:{self.port}/?{urlencode({TOKEN: self.token})}"


def door_at(port: int, session: str = "", spent: str = "") -> PageAddress:
    """Return a door with a new token; if it replaces one, with its session and the token exchanged for that."""
    return PageAddress(port, secrets.token_urlsafe(SECRET_BYTES), session or secrets.token_urlsafe(SECRET_BYTES), spent)


class Guard:
    """Answers only requests of a browser that has the session's cookie.

    The cookie's name has the door's port, since cookies belong to all ports of a host. `changed` is called with the
    door after its token was used: the first time without a token; the second time with a new one and a new session,
    since it is unknown which of the two was the user.
    """

    def __init__(self, app: ASGIApp, door: PageAddress, changed: Callable[[PageAddress], Awaitable[object]]) -> None:
        self._app, self._door, self._changed = app, door, changed
        self._cookie = f"kbhub-{door.port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                if answer is self._app and scope["path"].startswith("/static/") and message["status"] == 200:
                    headers["Cache-Control"] = UNCHANGING
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        if scope["type"] == "http":
            answer = await self._answer(Request(scope, receive))
            with suppress(ClientDisconnect):
                await answer(scope, receive, sending)

    async def _answer(self, request: Request) -> ASGIApp:
        if refusal := foreign(request, self._door.port):
            return refusal
        if request.method not in ("GET", "HEAD") and "origin" not in request.headers:
            return _refused("Changes are only accepted from this page.", 403)
        known = _same(request.cookies.get(self._cookie, ""), self._door.session)
        if (token := request.query_params.get(TOKEN)) is None:
            return self._app if known else _refused("Open this page with the address printed by `kbhub ui`.", 401)
        # Turn the token into a cookie, and lead on to the address without it.
        if not known and _same(token, self._door.spent):
            self._door = door_at(self._door.port)
            await self._changed(self._door)
            ended = "This address was used before, so that visit has ended. `kbhub ui` printed a new address."
            return _refused(ended, 401)
        if not known and not _same(token, self._door.token):
            return _refused("This address is from an earlier `kbhub ui`. Use the address that it printed last.", 401)
        if not known:
            self._door = replace(self._door, token="", spent=token)
            await self._changed(self._door)
        path = "/" + request.url.path.lstrip("/")
        rest = urlencode([(name, value) for name, value in request.query_params.multi_items() if name != TOKEN])
        # After a redirection by status, the visit would still count as the other site's that began it, which a file
        # is, and browsers would hold the cookie back.
        response = HTMLResponse(rendered("redirect.html", address=f"{path}?{rest}" if rest else path))
        response.set_cookie(self._cookie, self._door.session, httponly=True, samesite="strict")
        return response


def _same(given: str, secret: str) -> bool:
    return bool(secret) and hmac.compare_digest(given.encode(), secret.encode())


def _refused(message: str, status: int) -> HTMLResponse:
    return HTMLResponse(rendered("refused.html", title="Access denied", message=message), status)
