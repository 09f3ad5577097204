"""Only a browser of this machine that was given the token sees the page; nothing in a document runs or is fetched."""

import hashlib
import os
import re
import socket
import stat
import sys
import time
from contextlib import ExitStack, closing
from dataclasses import replace
from html.parser import HTMLParser
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import quote, urlsplit
from urllib.request import url2pathname

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from playwright.sync_api import expect

from browsers import served
from daemons import until
from kbhub.documents.source import parse_text
from kbhub.extensions.page.app import ROUTES
from kbhub.extensions.page.documents import EDITORS
from kbhub.render.html import STATIC, TAGS, Addresses, answer_html, document_html, part_with
from kbhub.types import Document, Heading
from kbhub.workspace.settings import Editor
from ollama_server import running_ollama


def test_the_token_opens_once_and_becomes_a_cookie(environment, opened):
    """Whoever used it first may be somebody else: the second use ends that session, and the terminal says so.

    Without knowledge, the page says what to do.
    """
    status, headers, text = opened.ask(f"/?token={opened.token}&q=deploy")
    assert status == 200
    assert 'content="0; url=/?q=deploy"' in text
    assert opened.token not in text
    assert re.search(r"HttpOnly; Path=/; SameSite=strict$", headers["set-cookie"])
    first = headers["set-cookie"].partition(";")[0]
    assert opened.ask(f"/?token={opened.token}", Cookie=first)[0] == 200
    assert "kbhub init" in opened.ask("/", Cookie=first)[2]
    check_odd(opened, first)
    assert opened.ask(f"/?token={opened.token}")[0] == 401
    assert "used a second time" in opened.process.stderr.readline()
    assert opened.ask("/", Cookie=first)[0] == 401
    second = replace(opened, address=opened.process.stdout.readline().strip()).enter()
    assert opened.ask("/", Cookie=second)[0] == 200
    assert opened.ask(f"/?token={opened.token}")[0] == 401
    assert opened.ask("/", Cookie=second)[0] == 200


@pytest.mark.skipif(sys.platform == "win32", reason="the browser is a script of a shell")
@pytest.mark.parametrize("entered", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_the_token_is_no_argument_of_the_browser(environment, tmp_path, entered):
    """It is named a file that only its user can read, which leads to the page and is gone afterwards."""
    script, argument = tmp_path / "browser", tmp_path / "argument"
    os.mkfifo(argument)
    script.write_text(f'#!/bin/sh\necho "$*" > {argument}\n')
    script.chmod(0o700)
    with served(environment, BROWSER=str(script)) as page:
        address = argument.read_text().strip()
        file = Path(url2pathname(urlsplit(address).path))
        assert page.token not in address
        assert page.token in file.read_text()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        if entered:
            page.enter()
            until(lambda: not file.exists())
    assert not file.exists()


@pytest.mark.parametrize("path", ["//evil.example/", "/%2Fevil.example/", "/\\evil.example/"])
def test_the_token_leads_to_no_other_site(shared, path):
    _, opened, cookie = shared
    assert re.search(r'href="/(%5C)?evil\.example/"', opened.ask(f"{path}?token={opened.token}", Cookie=cookie)[2])


def test_without_the_cookie_nothing_is_shown_and_every_answer_forbids_what_the_page_does_not_need(shared):
    """Not even what every installation has, and no cookie makes an error."""
    _, opened, cookie = shared
    for path in ("/", "/?token=wrong", "/read?ref=deploy.md", "/static/kbhub.css", "/events"):
        status, _, text = opened.ask(path)
        assert status == 401
        assert "kbhub ui" in text
        assert "release" not in text
    assert opened.ask("/", Cookie=f"kbhub-{opened.port}=caf\u00e9")[0] == 401
    for path in ("/", "/read?ref=deploy.md", "/nowhere", "/read?ref=missing.md"):
        headers = opened.ask(path, Cookie=cookie)[1]
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
    (style,) = re.findall(r'href="(/static/kbhub\.css\?(?:\w{12}))"', opened.ask("/", Cookie=cookie)[2])
    assert hashlib.sha256((STATIC / "kbhub.css").read_bytes()).hexdigest().startswith(style[-12:])
    assert opened.ask(style, Cookie=cookie)[1]["cache-control"] == "max-age=31536000, immutable"
    assert opened.ask(f"{style}&token=x", Cookie=cookie)[1]["cache-control"] == "no-store"  # it sets the cookie


def test_another_name_and_another_site_are_refused(shared):
    """A page whose name was made to lead here has no way in, with or without the cookie."""
    _, opened, cookie = shared
    assert opened.ask("/", Cookie=cookie, Host="evil.example")[0] == 421
    assert opened.ask("/", Cookie=cookie, Host=f"localhost:{opened.port}")[0] == 200
    assert opened.ask("/", Cookie=cookie, Origin="http://evil.example")[0] == 403
    assert opened.ask("/", Cookie=cookie, Origin="http://127.0.0.1:1")[0] == 403
    change = {"method": "POST", "body": "action=forget&id=x", "Cookie": cookie}
    form = {"Content_Type": "application/x-www-form-urlencoded"}
    assert opened.ask("/memories/change", **change, **form)[0] == 403
    assert opened.ask("/memories/change", **change, **form, Origin="null")[0] == 403
    assert opened.ask("/memories/change", **change, **form, Origin=opened.origin)[0] == 404  # no such memory


def test_a_taken_port_is_told_and_no_address_breaks_the_page(shared, kbhub):
    assert "Choose another one with --port" in kbhub("ui", "--no-open", "--port", str(shared[1].port), code=2).err
    check_odd(*shared[1:])


def test_read_only_writes_nothing(environment):
    environment.write("knowledge/only/deploy.md", "# Deploy\n")
    with served(environment, "--read-only") as page:
        cookie = page.enter()
        until(lambda: "/ only" in page.ask("/documents", Cookie=cookie)[2])  # the folder of a base that has no other
        form = {"Content_Type": "application/x-www-form-urlencoded", "Cookie": cookie, "Origin": page.origin}
        assert '<button name="action"' not in page.ask("/memories", Cookie=cookie)[2]
        assert page.ask("/memories/change", "POST", "action=forget&id=x", **form)[0] == 403
        assert page.ask("/gaps/start", "POST", "base=project&path=a.md&question=Why", **form)[0] == 403
        assert page.ask("/health/repair", "POST", "", **form)[0] == 403
    assert not (environment.project / "knowledge/a.md").exists()


def test_images_only_are_sent_and_only_of_the_base(shared):
    environment, opened, cookie = shared
    environment.write("knowledge/pictures/a.svg", "<svg xmlns='http://www.w3.org/2000/svg'/>")
    environment.write("secret.png", b"\x89PNG\r\n\x1a\nsecret")
    status, headers, _ = opened.ask("/image?base=project&path=pictures/a.svg", Cookie=cookie)
    assert (status, headers["content-type"]) == (200, "image/svg+xml")
    assert "sandbox" in headers["content-security-policy"]
    for path in ("../secret.png", "/etc/passwd", "deploy.md", "pictures/missing.png", "%2e%2e/secret.png"):
        assert opened.ask(f"/image?base=project&path={path}", Cookie=cookie)[0] == 404


ODD = [
    *(f"/?q=x&offset={'9' * 5000}", "/?q=x&offset=999999999", "/?q=x&mode=none", "/?q=x&base=nowhere", "/?q=%00"),
    *("/read", "/read?ref=%00", "/read?ref=missing.md", "/read?ref=deploy.md:99-1", "/read?ref=deploy.md&from=99999"),
    *("/documents?base=nowhere", "/documents?base=project&folder=../..", "/graph?around=missing.md"),
    *("/graph?color=red", "/graph/data?base=project&near=1", "/memories?scope=all", "/memories/one"),
    *("/memories?offset=-1", "/nowhere"),
]


def check_odd(opened, cookie: str) -> None:
    """Whatever stands in an address, the answer is a page that says what is wrong."""
    for path in ODD:
        status, _, text = opened.ask(path, Cookie=cookie)
        assert status in (200, 400, 404), path
        assert path.startswith("/graph/data") or "<main" in text, path


def test_health_works_with_a_broken_config_that_a_search_names_and_a_document_just_written_is_new(shared):
    environment, opened, cookie = shared
    config = environment.home / ".kbhub.json"
    config.write_text("{")
    until(lambda: "line 1" in opened.ask("/health/machine", Cookie=cookie)[2])
    assert re.search(r'class="problem"[^<]*>[^<]*\.kbhub\.json', opened.ask("/?q=rollback", Cookie=cookie)[2])
    config.unlink()
    until(lambda: "line 1" not in opened.ask("/health/machine", Cookie=cookie)[2])
    assert 'class="hit"' in opened.ask("/?q=rollback", Cookie=cookie)[2]

    # While its time may not be trusted yet, which it is not for two seconds before and after.
    file = environment.write("knowledge/new.md", "# New\n\nJust written.\n")
    os.utime(file, (0, time.time() + 1.9))
    until(lambda: "new.md" in opened.ask("/?q=written", Cookie=cookie)[2])
    text = opened.ask("/read?ref=new.md", Cookie=cookie)[2]
    assert "<span>today</span>" in text
    assert "stale" not in text


SECONDS = 30


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


@pytest.mark.slow
def test_many_answers_at_a_time_do_not_stop_the_page(project):
    project.configure(answers={"model": "qwen3:0.6b"})
    with running_ollama() as server, served(project, OLLAMA_HOST=server.url) as opened, ExitStack() as stack:
        server.say, server.silent = lambda _body: "Run `orchard rollback` [1].", True
        stack.callback(server.released.set)
        cookie = opened.enter()
        ends = (HTTPConnection("127.0.0.1", opened.port, timeout=SECONDS) for _ in range(60))
        connections = [stack.enter_context(closing(end)) for end in ends]
        for connection in connections:
            connection.request("GET", "/ask/stream?q=how+do+I+roll+back", headers={"Cookie": cookie})
        for _ in range(20):
            assert opened.ask("/?q=rollback", Cookie=cookie)[0] == 200
        server.released.set()
        for connection in connections:
            assert b"event: answer" in connection.getresponse().read()


NAMES = ["q", "ref", "base", "path", "id", "action", "scope", "offset", "mode", "token", "text", "around", "from"]
KNOWN_VALUES = ["rollback.md", "project", "memory", "forget", "merge", "edit", "move", "restore", "1", "-1"]
ODD_VALUES = ["rollback.md:1-9999999999999999999999", "\0", "kind:", "age:<99999999999999d", '"', "a" * 5000, ".."]
VALUES = st.text(max_size=30) | st.sampled_from(KNOWN_VALUES) | st.sampled_from(ODD_VALUES)
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
FIELDS = st.sampled_from((b"Accept", b"Content-Type", b"Range", b"If-None-Match", b"X-Part", b"Expect", b"X-Odd"))
CONTENTS = LINE | st.sampled_from((b"multipart/form-data", b"multipart/form-data; boundary=b", b"bytes=9-1"))
HEADERS = st.lists(st.tuples(FIELDS, CONTENTS), max_size=3)
STRANGERS = st.lists(st.tuples(st.sampled_from((b"Cookie", b"Origin", b"Host")), BYTES), min_size=1, max_size=2)
FORM = b"application/x-www-form-urlencoded"


@settings(max_examples=40)
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


def test_each_script_is_the_one_that_was_published_and_every_editor_of_the_settings_has_an_address():
    folder = STATIC / "vendor"
    table = (folder / "README.md").read_text()
    listed = dict(re.findall(r"^\| `([\w.]+)` .*`([0-9a-f]{64})` \|$", table, re.MULTILINE))
    assert {file.name for file in folder.iterdir()} == {*listed, "README.md"}
    assert {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in listed} == listed
    assert set(EDITORS) < set(Editor.__args__)


HOSTILE = Path(__file__).with_name("hostile.md").read_text("utf-8").rstrip() + "\n\n\u202egnp.tohs\u202c"
SCRIPTS = HOSTILE.split("\n\n")[1:]
"""What each paragraph tries by itself."""

ALLOWED = {"href", "src", "alt", "title", "width", "height", "class", "id", "rel", "start", "align"}
ALLOWED |= {"colspan", "rowspan", "scope", "open", "name"}


class Tags(HTMLParser):
    """Collects tags and attributes, as a browser reads them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


NOWHERE = Addresses(lambda _target, _fragment: None, lambda _path: None)


def html(text: str, path: str = "a.md") -> str:
    """Render a document."""
    document = parse_text(path, text.encode())
    return str(document_html(document, part_with(document, 1), NOWHERE, range(1, 4)))


def test_nothing_dangerous_is_left_and_tasks_have_boxes():
    """In what the page gets, tags and attributes that do something are gone; their text may stay."""
    for text in SCRIPTS:
        for tag, attributes in Tags(html(f"before\n\n{text}\n\nafter")).found:
            assert tag in TAGS
            assert attributes.keys() <= ALLOWED
            links = (attributes.get(name) or "https://" for name in ("href", "src"))
            assert all(link.startswith(("http://", "https://")) for link in links)
            assert (attributes.get("id") or "doc-").startswith("doc-")
            assert not {"top", "banner"} & set((attributes.get("class") or "").split())
            assert tag != "img" or "evil.example" not in str(attributes), "opening a document tells nobody"
    shown = html("- [x] Done\n- [ ] *Open*\n- [x](y.md) link\n\n[x] none\n\n```\n- [ ] code\n```\n")
    assert [shown.count(text) for text in ("☑ Done", "☐ <em>Open", "☑", "☐", "[x] none", "- [ ] code")] == [1] * 6
    assert "☑ Done" in answer_html("- [x] Done")


def test_only_callouts_look_like_callouts_an_indented_component_is_no_code_and_footnotes_lead_to_their_text():
    shown = html("> **Note** that.\n\n> [!WARNING] Mind\n> it\n\n:::tip\n\nUse it.\n\n:::")
    assert re.findall(r"<blockquote[^>]*>\n<p[^>]*><strong>\w+", shown) == [
        '<blockquote class="found">\n<p><strong>Note',
        '<blockquote class="callout callout-warning">\n<p class="found"><strong>Mind',
        '<blockquote class="callout callout-tip">\n<p><strong>Tip',
    ]
    assert ["<pre" in html("<Aside>\n    Text\n</Aside>", path) for path in ("a.md", "a.mdx")] == [True, False]
    shown = html("Pumps run hot.[^logs]\n\n[^logs]: sources/pumps.log, line 3\n\n[elsewhere](#fnord)")
    assert re.findall(r'<(?:a href|li id)="#?doc-([^"]*)"', shown) == ["fn1", "fn1", "fnref1"]
    assert "[^" not in shown
    assert "fnord" not in shown
    shown = html("a\n\nb\n\n<p class='found cite'>c</p>\n\n<p title='<' class=found>d")
    assert re.findall('class="([^"]*)">(.)', shown) == [("found", "a"), ("found", "b"), ("cite", "c")]


def test_of_blocks_within_each_other_only_the_outermost_is_marked():
    lists = ("- a\n  - b\n- c\n\nd", "- a\n\n  b\n- c\n- d", "1. a\n   > b\n\nc")
    assert [re.findall("<(.*) class=.found", html(text)) for text in lists] == [["ul"], ["li"], ["ol"]]


def test_tags_that_can_be_shown_are_and_media_are_links_and_placeholders_stay():
    assert "<figcaption>Cap" in html("x\n\ny\n\n<figure><figcaption>Cap</figcaption></figure>")
    shown = html("See <iframe src='https://v.example/1' width=5></iframe> <input value='a'> <source> <job-name> <b")
    assert 'href="https://v.example/1"' in shown
    assert re.sub("<[^<>]*>", "", shown) == "See https://v.example/1  &lt;source&gt; &lt;job-name&gt; &lt;b\n"
    assert '<td align="center">c</td>' in html("| a |\n|:-:|\n| c |")
    assert re.findall(r">([^<]+)</a>", html("[[A#B]] [[A#^b1]] [[#C]] [[A#B|said]]")) == ["A &gt; B", "A", "C", "said"]
    here = Addresses(lambda _target, _fragment: None, lambda path: f"/image?{path}")
    document = parse_text("a.md", b"![[a.png|100x140]]")
    assert 'src="/image?a.png" alt="a.png" width="100"' in document_html(document, part_with(document, 1), here)


def test_every_heading_has_an_anchor_of_its_line_and_text_of_other_formats_is_laid_out():
    """Headings with the same text or with links too; `found` takes no anchor away."""
    shown = html("# A\n\n## B\n\n## B [c](https://c.example)\n")
    assert re.findall(r'<h\d[^>]* id="([^"]*)"', shown) == ["doc-line-1", "doc-line-3", "doc-line-5"]
    rst = "=====\nGuide\n=====\n\n2*3*4 [j](javascript:k)::\n\n    <run>\n\nMore\n----\n\nTerm\n    Is.\n\n    So.\n"
    assert html(rst, "a.rst").splitlines() == [
        *('<h1 id="doc-line-1" class="found">Guide</h1>', "<p>2*3*4 [j](javascript:k):</p>"),
        *("<pre><code>&lt;run&gt;", "</code></pre>", '<h2 id="doc-line-9">More</h2>'),
        *("<p>Term<br>", "Is.</p>", "<p>So.</p>"),
    ]
    assert html("A\n=\n\n`j <javascript:k>`_ `h <https://i.example>`_\n", "a.rst").endswith(
        '<p>[j](javascript:k) <a href="https://i.example" rel="noopener noreferrer nofollow">h</a></p>\n'
    )
    assert '<ul class="found">\n<li class="task">☑ <a rel=' in html("= A\n\n* [x] link:b.adoc[c]\n", "a.adoc")
    # Pages have headings that are no lines of theirs.
    pages = Document("a.pdf", "A", ("one", "two", "---"), headings=(Heading(1, "Part", 1), Heading(2, "Page 1", 1)))
    shown = str(document_html(pages, part_with(pages, 1), NOWHERE))
    assert shown == '<pre class="plain prose"><span id="doc-line-1">one</span>\ntwo\n---</pre>'
    assert html("one\n", "a.txt") == '<pre class="plain"><span class="found">one</span></pre>'


@pytest.mark.parametrize(
    "text",
    [
        "[" * 20_000, "![" * 10_000, "*a_" * 20_000, "> " * 5_000 + "x", "- " * 2_000 + "x", "<" * 50_000,
        "`" * 20_001, "|" * 5_000 + "\n" + "|-" * 5_000, "<div>" * 5_000, "[[" + "a" * 100_000, "[a](" + "(" * 30_000,
        "&" * 50_000, "a" * 1_000_000,
    ],
    ids=lambda text: text[:6],
)  # fmt: skip
def test_a_document_made_to_be_slow_is_not(text):
    began = time.process_time()
    html(text)
    assert time.process_time() - began < 10


@pytest.fixture
def hostile(environment):
    """Knowledge made to harm, or large, there before a page looks for some."""
    environment.write("knowledge/hostile.md", HOSTILE)
    environment.write("knowledge/title.md", "---\ntitle: '<script>window.hacked=1</script>'\n---\nxylophone <b>x</b>\n")
    environment.write("knowledge/<img src=x onerror=hacked=1>.md", "# x\n\nxylophone\n")
    environment.write("knowledge/diagrams.md", Path(__file__).with_name("diagrams.md").read_bytes())
    lines = [f"Line {number} of it, with some words to make it long enough." for number in range(20_000)]
    environment.write("knowledge/large.md", "# Large\n\n" + "\n\n".join(lines))
    environment.write("knowledge/x.svg", "<svg xmlns='http://www.w3.org/2000/svg'><script>hacked=1</script></svg>")
    environment.hub().sync()


@pytest.mark.slow
@pytest.mark.usefixtures("hostile")
def test_all_of_it_at_once_in_a_browser(tab):
    searches = ("/?q=hacked", "/?q=xylophone", "/?q=<script>window.hacked=1</script>", "/?mode=ask&q=xylophone")
    for path in ("/read?ref=hostile.md", *searches, "/documents", "/graph", "/health", "/gaps"):
        page = tab.go(path)
        page.wait_for_load_state("networkidle") if path != "/health" else page.wait_for_timeout(1)
        assert page.evaluate("window.hacked") is None
        assert page.locator("header.top").is_visible()
    page = tab.go("/read?ref=hostile.md")
    for link in page.locator(".body a[href]").all():
        assert link.get_attribute("href").startswith(("https://", "/read?"))
    assert page.locator(".body a:not([href])").count()
    for link in page.locator(".body a:not([href])").all():
        link.click(force=True)
    assert page.url.endswith("/read?ref=hostile.md")
    assert page.evaluate("window.hacked") is None
    assert tab.go("/image?base=project&path=x.svg").evaluate("window.hacked") is None
    assert all(url.startswith((tab.opened.origin, "data:")) for url in tab.asked), tab.asked
    assert tab.dialogs == []


@pytest.mark.slow
@pytest.mark.usefixtures("hostile")
def test_a_diagram_runs_and_reaches_nothing(tab):
    page = tab.go("/read?ref=diagrams.md")
    expect(page.frame_locator(".diagram >> nth=0").locator("svg")).to_contain_text("Second")
    expect(page.frame_locator(".diagram >> nth=1").locator("svg")).to_contain_text("Third")
    expect(page.locator(".diagram")).to_have_count(2)
    expect(page.get_by_text("No diagram")).to_be_visible()
    for frame in page.frames[1:]:
        assert frame.evaluate("origin") == "null"
        assert frame.evaluate("fetch('/').then(() => 'reached', () => 'refused')") == "refused"
        assert frame.locator("a[*|href], img, iframe, svg script").count() == 0
        frame.get_by_text("Second").or_(frame.get_by_text("Third")).first.click()
    assert page.evaluate("window.hacked") is None
    assert page.url.endswith("/read?ref=diagrams.md")
    assert all(url.startswith(f"{tab.opened.origin}/") for url in tab.asked), tab.asked
    assert tab.dialogs == []


@pytest.mark.slow
@pytest.mark.usefixtures("hostile")
def test_a_large_document_is_shown_in_parts(tab):
    """A megabyte is not one page; the lines that were found are on the one that opens."""
    page = tab.go("/read?ref=large.md:30003-30003")
    found = page.locator(".body .found").first.inner_text()
    assert found == "Line 15000 of it, with some words to make it long enough."
    assert len(page.content()) < 1_000_000
    page.get_by_role("link", name="Lines before").click()
    assert "Line 9000 of it" in page.content() or "Line 12000 of it" in page.content()
