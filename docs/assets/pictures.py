"""Take the pictures of `kbhub ui`: `python docs/assets/pictures.py`. Needs the dev group and Chromium."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).parents[2]
TARGET = Path(__file__).parent / "ui"
SIZE = {"width": 1280, "height": 760}

MEMORIES = (
    (
        ["--tag", "deploy", "--about", "runbooks/rollback.md"],
        "Roll back with the previous tag, never with a revert commit.",
    ),
    (["--tag", "deploy"], "Releases need the VPN; without it the upload hangs."),
    (["--tag", "data"], "The staging database is wiped on Sundays at noon."),
)

ASKED = ("how do we roll back a release", "who is on call", "zeppelin moorings", "feature flags", "local setup")


def main() -> None:
    """Make a user with some memories and questions, and take the pictures."""
    home = Path(tempfile.mkdtemp(prefix="kbhub-pictures-"))
    project = home / "team"
    shutil.copytree(ROOT / "examples" / "team", project)
    env = {"PATH": os.environ["PATH"], "HOME": str(home)}
    kbhub = [sys.executable, "-m", "kbhub"]

    def run(command: list[str]) -> None:
        subprocess.run(command, cwd=project, env=env, check=True, capture_output=True)  # noqa: S603 - our own command

    try:
        for options, text in MEMORIES:
            run([*kbhub, "remember", *options, text])
        for text in ASKED:
            run([*kbhub, "search", text])
        with subprocess.Popen(  # noqa: S603 - our own command
            [*kbhub, "ui", "--no-open"], cwd=project, env=env, stdout=subprocess.PIPE, text=True
        ) as process:
            try:
                take(process.stdout.readline().strip())
            finally:
                process.send_signal(signal.SIGINT)
                process.wait(20)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def take(address: str) -> None:
    """Take a picture of each page."""
    TARGET.mkdir(exist_ok=True)
    origin = f"http://{urlsplit(address).netloc}"
    path = os.environ.get("KBHUB_TEST_BROWSER") or shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as running:
        browser = running.chromium.launch(executable_path=path, args=["--no-sandbox", "--enable-unsafe-swiftshader"])
        page = browser.new_page(viewport=SIZE)
        page.goto(address)
        page.locator("header.top").wait_for()

        def shown(name: str, place: str, ready: str) -> Page:
            page.goto(f"{origin}{place}")
            page.locator(ready).first.wait_for()
            page.screenshot(path=TARGET / f"{name}.png")
            return page

        shown("search", "/?q=how+do+we+roll+back+a+release", "#preview .body")
        page.locator(".why summary").first.click()
        page.locator(".hit").first.screenshot(path=TARGET / "trace.png")
        shown("read", "/read?ref=runbooks/rollback.md:8-19", ".body")
        shown("graph", "/graph?near=1", "#graph[data-drawn]")
        shown("memories", "/memories", ".memory")
        shown("gaps", "/gaps", ".columns")
        shown("ask", "/?mode=ask&q=how+do+we+roll+back+a+release", "#answer[aria-busy=false]")
        page.emulate_media(color_scheme="dark")
        shown("dark", "/?q=how+do+we+roll+back+a+release", "#preview .body")
        browser.close()


if __name__ == "__main__":
    main()
