"""The page of `kbhub ui` in a process of its own, and a real browser to look at it."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from conftest import Environment, make_environment
from faults import environment as child_environment
from kbhub.memory.changes import remember

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de"
    "0000000c49444154789c63f8cfc0000003010100c9fe92ef0000000049454e44ae426082"
)
"""A picture of one pixel."""

INTERNAL = "---\norder: 4\nprops: {a: b}\nby: [Ann, Bob on 2026-01-02 03:04]\nreviewed: 2026-01-02T03:04:05Z\n---\n"

DOCUMENTS = {
    "knowledge/rollback.md": Path(__file__).with_name("rollback.md").read_text("utf-8"),
    "knowledge/deploy.md": "---\ntags: [deploy]\n---\n# Deploying\n\nPush the release.\n\n## Take it out\n\nTo all.\n",
    "knowledge/people/oncall.md": "# On call\n\nWho carries the pager: see [rollback](../rollback.md).\n",
    "knowledge/people/alone.md": f"{INTERNAL}# Alone\n\nA zebra that nobody links to.\n",
}

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
END_SECONDS = 20

INTERRUPTIBLE = """
import runpy, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
runpy.run_module("kbhub", run_name="__main__")
"""
"""Runs the command. A shell that runs the tests in the background has what they start ignore interrupts."""


@dataclass
class Opened:
    """A page that is served."""

    address: str
    """As it was printed, with the token."""
    process: subprocess.Popen[str]
    """The command; its standard error is a pipe."""

    @property
    def port(self) -> int:
        return int(urlsplit(self.address).port or 0)

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def token(self) -> str:
        return parse_qs(urlsplit(self.address).query)["token"][0]

    def ask(self, path: str, method: str = "GET", body: str | None = None, **headers: str) -> tuple[int, dict, str]:
        """Send a request without a browser; return status, headers and text."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
            response = connection.getresponse()
            return response.status, dict(response.getheaders()), response.read().decode()
        finally:
            connection.close()

    def enter(self) -> str:
        """Use the token; return the cookie, as a browser sends it back."""
        status, headers, _ = self.ask(f"/?token={self.token}")
        assert status == 200
        return headers["set-cookie"].partition(";")[0]


@contextmanager
def served(environment: Environment, *arguments: str, **variables: str) -> Iterator[Opened]:
    """Run `kbhub ui` in the project of a user; it opens a browser only if `BROWSER` names one."""
    silent = [] if "BROWSER" in variables else ["--no-open"]
    command = [sys.executable, "-c", INTERRUPTIBLE, "ui", *silent, *arguments]
    env = {**child_environment(), **environment.env, **variables}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=environment.project, env=env, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            address = process.stdout.readline().strip()
            assert address.startswith("http://127.0.0.1:"), address
            yield Opened(address, process)
        finally:
            process.send_signal(signal.SIGINT)
            try:
                sys.stderr.write(process.communicate(timeout=END_SECONDS)[1])
            finally:
                process.kill()
    assert process.returncode == 0


@pytest.fixture(scope="module")
def chromium():
    """A real browser for the tests of a module: while playwright runs, its event loop is that of the thread."""
    path = os.environ.get("KBHUB_TEST_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip("there is no Chromium here (`apt-get install chromium`)")
    playwright = pytest.importorskip("playwright.sync_api", reason="there is no playwright for this platform")
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=path, args=["--no-sandbox", "--enable-unsafe-swiftshader"])
        yield browser
        browser.close()


@pytest.fixture
def opened(environment) -> Iterator[Opened]:
    """The page of the project as it is."""
    with served(environment) as page:
        yield page


@pytest.fixture(scope="module")
def shared(tmp_path_factory) -> Iterator[tuple[Environment, Opened, str]]:
    """A project, its page and the cookie of its session, for the tests of a module that change nothing."""
    environment = with_documents(make_environment(tmp_path_factory.mktemp("shared")))
    with served(environment) as page:
        yield environment, page, page.enter()


class Watched:
    """A tab, with all that it complained about or asked for."""

    def __init__(self, browser, opened: Opened, **options) -> None:
        self.context = browser.new_context(viewport=options.pop("viewport", {"width": 1200, "height": 900}), **options)
        self.context.grant_permissions(["clipboard-read", "clipboard-write"])
        self.tab = self.context.new_page()
        self.opened = opened
        self.complaints: list[str] = []
        self.asked: list[str] = []
        self.dialogs: list[str] = []
        self.tab.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.tab.on("console", self._hear)
        self.tab.on("request", lambda request: self.asked.append(request.url))
        self.tab.on("dialog", self._dialog)

    def _hear(self, said) -> None:
        # Mermaid says so of what it draws in a frame that is left meanwhile; that diagrams are drawn has a test.
        if said.type == "error" and "attribute transform: Expected number" not in said.text:
            self.complaints.append(said.text)

    def _dialog(self, dialog) -> None:
        self.dialogs.append(dialog.message)
        dialog.accept()

    def enter(self):
        self.tab.goto(self.opened.address)
        self.tab.locator("header.top").wait_for()
        return self.tab

    def go(self, path: str):
        self.tab.goto(f"{self.opened.origin}{path}")
        return self.tab


@pytest.fixture
def tab(chromium, opened):
    """A tab that has entered the page of the project."""
    watched = Watched(chromium, opened)
    watched.enter()
    yield watched
    watched.context.close()


@pytest.fixture(scope="module")
def shared_tab(chromium, shared):
    """A tab that has entered the page that a module shares."""
    _, page, cookie = shared
    watched = Watched(chromium, page)
    name, _, value = cookie.partition("=")
    watched.context.add_cookies([{"name": name, "value": value, "url": page.origin}])
    yield watched
    watched.context.close()
    assert watched.complaints == []


@pytest.fixture
def project(environment):
    """A project with linked documents, a picture and two memories."""
    return with_documents(environment)


def with_documents(environment: Environment) -> Environment:
    """Write linked documents, a picture and two memories into a project."""
    for path, text in DOCUMENTS.items():
        environment.write(path, text)
    environment.write("knowledge/pictures/flow.png", PNG)
    hub = environment.hub()
    hub.sync()
    remember(hub, "Roll back with the previous tag.", tags=["deploy"], about=["rollback.md"])
    remember(hub, "The staging database is wiped on Sundays.")
    return environment
