"""Whatever is sent to the page, and however much of it: an answer below 500."""

from __future__ import annotations

import os
import re
import socket
import time
from contextlib import ExitStack
from http.client import HTTPConnection
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from browsers import served
from daemons import until
from kbhub.ui.app import ROUTES
from ollama_server import running_ollama

SECONDS = 30

EXAMPLES = 40


def sent(port: int, request: bytes) -> bytes:
    """Send bytes, and return the beginning of what comes back until the server has answered or closed."""
    with socket.create_connection(("127.0.0.1", port), SECONDS) as connection:
        try:
            connection.sendall(request)
            return connection.recv(4096)
        except ConnectionError:  # refused before all of it was read
            return b""


def test_a_form_that_breaks_off_changes_nothing(shared):
    _, opened, cookie = shared
    (ref, *_) = re.findall(r'name="id" value="([^"]+)"', opened.ask("/memories", Cookie=cookie)[2])
    body = f"action=forget&id={quote(ref)}"
    head = f"POST /memories/change HTTP/1.1\r\nHost: localhost\r\nCookie: {cookie}\r\nOrigin: {opened.origin}\r\n"
    head += f"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {len(body) + 5}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", opened.port), SECONDS) as connection:
        connection.sendall((head + body).encode())
        connection.shutdown(socket.SHUT_WR)
        connection.recv(4096)

    assert ref in opened.ask("/memories", Cookie=cookie)[2]


def test_a_document_that_was_just_written_is_new(shared):
    """While its time may not be trusted yet, which it is not for two seconds before and after."""
    environment, opened, cookie = shared
    file = environment.write("knowledge/new.md", "# New\n\nJust written.\n")
    os.utime(file, (0, time.time() + 1.9))
    until(lambda: "new.md" in opened.ask("/?q=written", Cookie=cookie)[2])
    text = opened.ask("/read?ref=new.md", Cookie=cookie)[2]
    assert " old</span>" in text
    assert "years" not in text
    assert "stale" not in text


@pytest.mark.slow
def test_many_answers_at_a_time_do_not_stop_the_page(project):
    project.configure(answers={"model": "qwen3:0.6b"})
    with running_ollama() as server, served(project, OLLAMA_HOST=server.url) as opened, ExitStack() as stack:
        server.say, server.silent = lambda _body: "Run `orchard rollback` [1].", True
        stack.callback(server.released.set)
        cookie = opened.enter()
        connections = [HTTPConnection("127.0.0.1", opened.port, timeout=SECONDS) for _ in range(60)]
        for connection in connections:
            stack.callback(connection.close)
            connection.request("GET", "/ask/stream?q=how+do+I+roll+back", headers={"Cookie": cookie})
        for _ in range(20):
            assert opened.ask("/?q=rollback", Cookie=cookie)[0] == 200
        server.released.set()
        for connection in connections:
            assert b"event: answer" in connection.getresponse().read()


NAMES = [
    *("q", "ref", "base", "path", "id", "action", "scope"),
    *("offset", "hit", "mode", "token", "text", "around", "from"),
]
VALUES = st.one_of(
    st.text(max_size=30),
    st.sampled_from(
        ("rollback.md", "project", "memory", "forget", "merge", "edit", "move", "restore", "1", "-1", "..")
    ),
    st.sampled_from(("rollback.md:1-9999999999999999999999", "\0", "kind:", "age:<99999999999999d", '"', "a" * 5000)),
)
PAIRS = st.lists(st.tuples(st.sampled_from(NAMES), VALUES), max_size=5).map(
    lambda pairs: "&".join(f"{name}={quote(value.encode('utf-8', 'replace'))}" for name, value in pairs).encode()
)
BYTES = st.binary(max_size=60)
LINE = BYTES.map(lambda value: re.sub(rb"[\x00-\x20\x7f]", b"", value))
ESCAPED = BYTES.map(lambda value: quote(value).encode())
PAGES = [(method.encode(), route.path.encode()) for route in ROUTES for method in route.methods]
METHODS = st.sampled_from((b"GET", b"POST", b"HEAD", b"PUT", b"DELETE", b"OPTIONS", b"TRACE", b"ODD"))
TARGETS = st.one_of(
    st.sampled_from([page for page in PAGES if page[1] != b"/events"]),
    st.tuples(METHODS, st.one_of(ESCAPED, LINE).map(lambda path: b"/" + path)),
)
HEADERS = st.lists(
    st.tuples(
        st.sampled_from((b"Accept", b"Content-Type", b"Range", b"If-None-Match", b"HX-Request", b"Expect", b"X-Odd")),
        st.one_of(LINE, st.sampled_from((b"multipart/form-data", b"multipart/form-data; boundary=b", b"bytes=9-1"))),
    ),
    max_size=3,
)
STRANGERS = st.lists(st.tuples(st.sampled_from((b"Cookie", b"Origin", b"Host")), BYTES), min_size=1, max_size=2)
FORM = b"application/x-www-form-urlencoded"


@settings(max_examples=EXAMPLES)
@given(TARGETS, PAIRS | ESCAPED, HEADERS, PAIRS | BYTES, st.none() | STRANGERS)
def test_no_request_is_an_error_of_the_server(shared, target, query, headers, body, stranger):
    _, page, cookie = shared
    known = [(b"Cookie", cookie.encode()), (b"Origin", page.origin.encode()), (b"Content-Type", FORM)]
    headers = [(b"Host", b"localhost"), *(known if stranger is None else stranger), *headers]
    headers += [(b"Connection", b"close"), (b"Content-Length", b"%d" % len(body))]
    lines = b"".join(b"%b: %b\r\n" % header for header in headers)
    request = b"%b %b?%b HTTP/1.1\r\n%b\r\n%b" % (*target, query, lines, body)

    answer = sent(page.port, request)

    assert re.match(rb"HTTP/1.1 [1-4]\d\d ", answer) or not answer, (request, answer)
