"""Take the pictures of `kbhub ui` for the docs, or of every screen, light and dark, wide and narrow, into a folder.

`python docs/assets/pictures.py [FOLDER]`. Needs the dev group and Chromium.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from itertools import product
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).parents[2]
SIZES = {"wide": {"width": 1280, "height": 760}, "narrow": {"width": 360, "height": 740}}
ASK = "/?mode=ask&q="
SCREENS = {
    "start": ("/", ".start"),
    "search": ("/?q=how+do+we+roll+back+a+release", ".hit"),
    "nothing": ("/?q=zeppelin+moorings", ".summary"),
    "ask": (f"{ASK}how+do+we+roll+back+a+release", "#answer[aria-busy=false]"),
    "not-covered": (f"{ASK}who+feeds+the+hamster", "#answer[aria-busy=false]"),
    "documents": ("/documents", ".list"),
    "folder": ("/documents?base=project&folder=decisions", ".list"),
    "read": ("/read?ref=runbooks/rollback.md:8-19", ".body"),
    "decision": ("/read?ref=decisions/0001-postgres-not-mongodb.md", ".body"),
    "graph": ("/graph", "#graph[data-drawn]"),
    "memories": ("/memories", ".memory"),
    "memory": ("/memories", ".memory"),
    "merge": ("/memories", ".memory"),
    "gaps": ("/gaps", "table"),
    "health": ("/health", "#audit .summary"),
    "palette": ("/", ".start"),
    "keys": ("/", ".start"),
    "missing": ("/nowhere", "h1"),
}
"""Where each screen is, and what is there once it is complete."""

IN_DOCS = ("search", "memories")

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
    """Take a picture of each screen, or of those in the docs."""
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "ui"
    target.mkdir(exist_ok=True)
    origin = f"http://{urlsplit(address).netloc}"
    path = os.environ.get("KBHUB_TEST_BROWSER") or shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as running:
        browser = running.chromium.launch(executable_path=path, args=["--no-sandbox", "--enable-unsafe-swiftshader"])
        page = browser.new_page(viewport=SIZES["wide"])
        page.goto(address)
        page.locator("header.top").wait_for()
        if len(sys.argv) == 1:
            for name in IN_DOCS:
                show(page, origin, name)
                page.screenshot(path=target / f"{name}.png")
        else:
            for size, scheme, name in product(SIZES, ("light", "dark"), SCREENS):
                page.set_viewport_size(SIZES[size])
                page.emulate_media(color_scheme=scheme)
                show(page, origin, name)
                page.screenshot(path=target / f"{name}-{size}-{scheme}.png")
        browser.close()


def show(page: Page, origin: str, name: str) -> None:
    """Go to a screen, and do what it takes to see it."""
    place, ready = SCREENS[name]
    page.goto(f"{origin}{place}")
    page.locator(ready).first.wait_for()
    match name:
        case "search" if page.viewport_size == SIZES["wide"]:
            page.locator("#preview .body").wait_for()
        case "memory":
            page.locator(".memory h2 a").first.click()
        case "merge":
            page.get_by_role("checkbox").nth(0).check()
            page.get_by_role("checkbox").nth(1).check()
            page.get_by_role("button", name="Merge into one").click()
        case "palette":
            page.keyboard.press("Control+k")
            page.locator(".places li").first.wait_for()
        case "keys":
            page.locator("[data-keys]").click()


if __name__ == "__main__":
    main()
