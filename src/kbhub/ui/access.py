"""Who may see the page: a browser of this machine that was given the token, and no other page in it."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from kbhub.render.html.templates import rendered
from kbhub.ui.loopback import foreign

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

TOKEN = "token"  # noqa: S105 - its name
"""Parameter of the address that `kbhub ui` opens."""

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
"""Content-Security-Policy: nothing but what this server sends, and nothing inline."""

HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # with `no-referrer` browsers hide the origin of forms, too
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Guard:
    """Answers only requests of a browser that has the session's cookie.

    Args:
        app: what answers them.
        port: port it listens on; the name of the cookie has it, since cookies belong to all ports of a host.
        token: secret in the address that is opened, used up by the first visit.
        session: secret in the cookie.
    """

    def __init__(self, app: ASGIApp, port: int, token: str, session: str) -> None:
        self._app, self._port, self._token, self._session = app, port, token, session
        self._cookie = f"kbhub-{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        await self._answer(request)(scope, receive, _with_headers(send))

    def _answer(self, request: Request) -> ASGIApp:
        if refusal := foreign(request, self._port):
            return refusal.response
        if request.method not in ("GET", "HEAD") and "origin" not in request.headers:
            return _refused("Changes are only accepted from this page.", 403)
        known = hmac.compare_digest(request.cookies.get(self._cookie, ""), self._session)
        if (token := request.query_params.get(TOKEN)) is not None:
            return self._entered(request, token, known=known)
        return self._app if known else _refused("Open this page with the address printed by `kbhub ui`.", 401)

    def _entered(self, request: Request, token: str, *, known: bool) -> Response:
        """Turn the token into a cookie, and take it out of the address."""
        if not known and not (self._token and hmac.compare_digest(token.encode(), self._token.encode())):
            return _refused(
                "This address was already used, or is from an earlier `kbhub ui`. Run `kbhub ui` again.", 401
            )
        self._token = "" if not known else self._token
        rest = urlencode([(name, value) for name, value in request.query_params.multi_items() if name != TOKEN])
        response = RedirectResponse(f"{request.url.path}?{rest}" if rest else request.url.path, 303)
        response.set_cookie(self._cookie, self._session, httponly=True, samesite="strict")
        return response


def _refused(message: str, status: int) -> HTMLResponse:
    return HTMLResponse(rendered("refused.html", message=message), status)


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sending
