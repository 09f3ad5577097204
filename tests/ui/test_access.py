"""Only a browser of this machine that was given the token sees the page, and no other page in it."""

from __future__ import annotations

import os
import re
import stat
import sys
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pytest
from playwright.sync_api import expect

from browsers import Watched, served


@pytest.fixture
def base(environment):
    """A project with a document."""
    environment.write("knowledge/deploy.md", "# Deploy\n\nRun the xylophone.\n")
    return environment


def test_the_token_opens_once_and_becomes_a_cookie(base, opened):
    """And the page that comes in exchange leads on without it."""
    status, headers, text = opened.ask(f"/?token={opened.token}&q=deploy")

    assert status == 200
    assert 'content="0; url=/?q=deploy"' in text
    assert opened.token not in text
    assert re.search(r"HttpOnly; Path=/; SameSite=strict$", headers["set-cookie"])
    cookie = headers["set-cookie"].partition(";")[0]
    assert opened.ask("/", Cookie=cookie)[0] == 200
    assert opened.ask(f"/?token={opened.token}", Cookie=cookie)[0] == 200
    assert opened.ask("/", Cookie=cookie)[0] == 200


def test_a_token_used_twice_ends_the_first_session(base, opened):
    """Whoever was first may be somebody else: the terminal says so, and has a new address for its user."""
    first = opened.enter()
    assert opened.ask(f"/?token={opened.token}")[0] == 401

    assert "used a second time" in opened.process.stderr.readline()
    assert opened.ask("/", Cookie=first)[0] == 401
    again = replace(opened, address=opened.process.stdout.readline().strip())
    second = again.enter()
    assert opened.ask("/", Cookie=second)[0] == 200
    assert opened.ask(f"/?token={opened.token}")[0] == 401
    assert opened.ask("/", Cookie=second)[0] == 200


@pytest.fixture
def browser(tmp_path):
    """A command that opens nothing, and returns what it was told to open."""
    if sys.platform == "win32":
        pytest.skip("it is a script of a shell")
    script, argument = tmp_path / "browser", tmp_path / "argument"
    os.mkfifo(argument)
    script.write_text(f'#!/bin/sh\necho "$*" > {argument}\n')
    script.chmod(0o700)
    return str(script), lambda: argument.read_text().strip()


def test_the_token_is_no_argument_of_the_browser(base, chromium, browser):
    """It is named a file that only its user can read, which leads to the page and is gone afterwards."""
    command, argument = browser
    with served(base, BROWSER=command) as page:
        address = argument()
        file = Path(url2pathname(urlsplit(address).path))
        assert page.token not in address
        assert page.token in file.read_text()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        tab = Watched(chromium, page)
        tab.tab.goto(address)
        expect(tab.tab).to_have_url(f"{page.origin}/")
        expect(tab.tab.locator("#q")).to_be_visible()
        assert not file.exists()
        tab.context.close()


def test_a_file_that_no_browser_opened_is_removed(base, browser):
    command, argument = browser
    with served(base, BROWSER=command):
        file = Path(url2pathname(urlsplit(argument()).path))
        assert file.exists()
    assert not file.exists()


@pytest.mark.parametrize("path", ["//evil.example/", "/%2Fevil.example/", "/\\evil.example/"])
def test_the_token_leads_to_no_other_site(base, opened, path):
    """The address that is opened may have been made by somebody else."""
    text = opened.ask(f"{path}?token={opened.token}")[2]

    assert re.search(r'href="/(%5C)?evil\.example/"', text)


def test_a_cookie_of_any_bytes_is_only_wrong(base, opened):
    """Before anybody is known, nothing can make an error."""
    status, _, _ = opened.ask("/", Cookie=f"kbhub-{opened.port}=caf\u00e9")

    assert status == 401


@pytest.mark.parametrize("path", ["/", "/?token=wrong", "/read?ref=deploy.md", "/static/kbhub.css", "/events"])
def test_without_the_cookie_nothing_is_shown(base, opened, path):
    """Not even what every installation has."""
    status, _, text = opened.ask(path)

    assert status == 401
    assert "kbhub ui" in text
    assert "xylophone" not in text


def test_another_name_of_this_machine_is_refused(base, opened):
    """A page whose name was made to lead here has no way in, with or without the cookie."""
    cookie = opened.enter()

    assert opened.ask("/", Cookie=cookie, Host="evil.example")[0] == 421
    assert opened.ask("/", Cookie=cookie, Host=f"localhost:{opened.port}")[0] == 200


def test_another_site_is_refused(base, opened):
    """By its origin, whatever it sends."""
    cookie = opened.enter()

    assert opened.ask("/", Cookie=cookie, Origin="http://evil.example")[0] == 403
    assert opened.ask("/", Cookie=cookie, Origin="http://127.0.0.1:1")[0] == 403
    change = {"method": "POST", "body": "action=forget&id=x", "Cookie": cookie}
    form = {"Content_Type": "application/x-www-form-urlencoded"}
    assert opened.ask("/memories/change", **change, **form)[0] == 403
    assert opened.ask("/memories/change", **change, **form, Origin="null")[0] == 403
    assert opened.ask("/memories/change", **change, **form, Origin=opened.origin)[0] == 404  # no such memory


def test_every_answer_forbids_what_the_page_does_not_need(base, opened):
    """No script but its own, no frame around it, nothing remembered by caches."""
    cookie = opened.enter()
    for path in ("/", "/read?ref=deploy.md", "/nowhere", "/read?ref=missing.md"):
        headers = opened.ask(path, Cookie=cookie)[1]
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"


def test_a_taken_port_is_told(base, opened, kbhub):
    result = kbhub("ui", "--no-open", "--port", str(opened.port), code=2)

    assert "Choose another one with --port" in result.err


def test_read_only_writes_nothing(environment, base):
    """The buttons are gone, and a request without them is refused."""
    with served(environment, "--read-only") as page:
        cookie = page.enter()
        form = {"Content_Type": "application/x-www-form-urlencoded", "Cookie": cookie, "Origin": page.origin}
        assert '<button name="action"' not in page.ask("/memories", Cookie=cookie)[2]
        assert page.ask("/memories/change", "POST", "action=forget&id=x", **form)[0] == 403
        started = "base=project&path=a.md&question=Why"
        assert page.ask("/gaps/start", "POST", started, **form)[0] == 403
        assert page.ask("/health/repair", "POST", "", **form)[0] == 403
    assert not (environment.project / "knowledge/a.md").exists()


def test_images_only_are_sent_and_only_of_the_base(environment, base, opened):
    """No other file, and none outside it."""
    environment.write("knowledge/pictures/a.svg", "<svg xmlns='http://www.w3.org/2000/svg'/>")
    environment.write("secret.png", b"\x89PNG\r\n\x1a\nsecret")
    cookie = opened.enter()

    status, headers, _ = opened.ask("/image?base=project&path=pictures/a.svg", Cookie=cookie)
    assert (status, headers["content-type"]) == (200, "image/svg+xml")
    assert "sandbox" in headers["content-security-policy"]
    for path in ("../secret.png", "/etc/passwd", "deploy.md", "pictures/missing.png", "%2e%2e/secret.png"):
        assert opened.ask(f"/image?base=project&path={path}", Cookie=cookie)[0] == 404


ODD = (
    *("/compare?q=x&hit=1", "/compare?q=x&hit=0&hit=9999999999", f"/compare?q=x&hit={'9' * 5000}&hit=1"),
    *(f"/?q=x&offset={'9' * 5000}", "/?q=x&offset=999999999", "/?q=x&mode=none", "/?q=x&base=nowhere", "/?q=%00"),
    *("/read", "/read?ref=%00", "/read?ref=missing.md", "/read?ref=deploy.md:99-1", "/read?ref=deploy.md&from=99999"),
    *(
        "/documents?base=nowhere",
        "/documents?base=project&folder=../..",
        "/graph?around=missing.md",
        "/graph?color=red",
    ),
    *(
        "/graph?color=red",
        "/graph/data?base=project&near=1",
        "/memories?scope=all",
        "/memories/one",
        "/memories?offset=-1",
        "/nowhere",
    ),
)


@pytest.mark.parametrize("empty", [True, False])
def test_no_address_breaks_the_page(environment, empty):
    """Whatever stands in it, the answer is a page that says what is wrong; also without any base."""
    if not empty:
        environment.write("knowledge/deploy.md", "# Deploy\n")
    with served(environment) as page:
        cookie = page.enter()
        for path in ODD:
            status, _, text = page.ask(path, Cookie=cookie)
            assert status in (200, 400, 404), path
            assert path.startswith("/graph/data") or "<main" in text, path


def test_health_works_with_a_broken_config(environment, base, opened):
    """It is the page that says what is broken."""
    cookie = opened.enter()
    (environment.home / ".kbhub.json").write_text("{")

    for _ in range(100):
        status, _, text = opened.ask("/health", Cookie=cookie)
        if "line 1" in text:
            break
    assert status == 200
    assert "line 1" in text
