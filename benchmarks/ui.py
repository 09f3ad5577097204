"""The page of `kbhub ui` in numbers: `python benchmarks/ui.py VAULT… [options]`.

Indexes the vaults as one base, serves the page, and measures: the time of the server per search page beside that of the
search alone, in a real browser on the loopback the first paint and the time from a key to its hits, the weight of each
page, and how fluently the graph moves. Needs the dev group, and Chromium for what a browser shows (`--no-browser` leaves
that out). `--load N` keeps N processors busy meanwhile.
"""

from __future__ import annotations

import http.client
import itertools
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from bench.common import environment, machine, parser, unpack
from kbhub.hub import Hub, HubOptions
from kbhub.search.search import search
from kbhub.sync.freshness import sync
from kbhub.types import Query
from team import QUESTIONS

PAGES = ("/", "/?q=transaction+gas+limit", "/documents?base=all", "/memories", "/gaps", "/health", "/graph", "/ask")
FRAMES_MS = 3_000
"""How long the graph is moved."""

PAINT = """new Promise(done => new PerformanceObserver(list => list.getEntries().forEach(
  entry => entry.name === "first-contentful-paint" && done(entry.startTime)
)).observe({type: "paint", buffered: true}))"""

TYPED = """() => {
  let pressed = 0; const field = document.querySelector("#q"); window.shown = null;
  field.addEventListener("keydown", () => { pressed = performance.now(); window.shown = null; });
  new MutationObserver(() => requestAnimationFrame(() => {
    window.shown = {q: new URLSearchParams(location.search).get("q"), took: performance.now() - pressed};
  })).observe(document.querySelector("#results"), {childList: true});
}"""
"""Takes the time from a key to its hits on the screen, with the 30 ms that the page waits for another."""

MOVING = """ms => new Promise(done => {
  const times = []; const start = performance.now(); const place = document.querySelector("#graph canvas:last-of-type");
  const box = place.getBoundingClientRect(); let at = 0;
  const step = now => {
    times.push(now); at += 7;
    const where = {clientX: box.x + box.width / 2 + 80 * Math.sin(at / 40), clientY: box.y + box.height / 2, bubbles: true};
    place.dispatchEvent(new WheelEvent("wheel", {...where, deltaY: at % 140 < 70 ? -60 : 60}));
    now - start < ms ? requestAnimationFrame(step) : done(times);
  };
  requestAnimationFrame(step);
})"""


def main() -> None:
    reading = parser(__doc__)
    reading.add_argument("vaults", nargs="+", type=Path)
    reading.add_argument("--rounds", type=int, default=5)
    reading.add_argument("--no-browser", action="store_true")
    reading.add_argument("--load", type=int, default=0, help="busy processes beside the browser")
    arguments = reading.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="kbhub-ui-"))
    try:
        base = folder / "all"
        base.mkdir()
        for vault in arguments.vaults:
            shutil.copytree(unpack(vault, folder), base / f"{vault.name.split('.')[0]}{len(os.listdir(base))}")
        home = folder / "home"
        home.mkdir()
        config = {"bases": {"all": str(base)}, "repos": {"*": ["all"]}, "search": {"secondLook": False}}
        (home / ".kbhub.json").write_text(json.dumps(config))
        env = environment(folder, home)
        hub = Hub(HubOptions(env=env, home=home, cwd=home))
        (report,) = sync(hub)
        print(json.dumps(machine()))
        print(f"{report.added:,} documents, {report.chunks:,} chunks")
        with served(env, home) as (address, cookie):
            measure_server(hub, address, cookie, arguments.rounds)
            weigh(address, cookie)
            if not arguments.no_browser:
                with served(env, home, enter=False) as (entrance, _), busy(arguments.load):
                    look(entrance, arguments.rounds)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """Keep processors busy."""
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


@contextmanager
def served(env: dict[str, str], cwd: Path, *, enter: bool = True) -> Iterator[tuple[str, str]]:
    """Serve the page; yield its address, and the cookie if it is to be entered."""
    command = [sys.executable, "-m", "kbhub", "ui", "--no-open"]
    with subprocess.Popen(command, env=env, cwd=cwd, stdout=subprocess.PIPE, text=True) as process:
        try:
            address = process.stdout.readline().strip()
            cookie = got(address)[1].get("set-cookie", "").partition(";")[0] if enter else ""
            yield address, cookie
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(30)


def got(address: str, path: str | None = None, cookie: str = "", **headers: str) -> tuple[bytes, dict[str, str], float]:
    """Fetch; return the content, the headers and the seconds it took."""
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=60)
    began = time.perf_counter()
    connection.request("GET", path or f"/?{parts.query}", headers={"Cookie": cookie, **headers})
    answer = connection.getresponse()
    content = answer.read()
    took = time.perf_counter() - began
    connection.close()
    return content, {name.lower(): value for name, value in answer.getheaders()}, took


def shown(name: str, times: Sequence[float]) -> None:
    ordered = sorted(1000 * one for one in times)
    print(f"{name:<34} p50 {statistics.median(ordered):6.1f} ms   p95 {ordered[int(len(ordered) * 0.95)]:6.1f} ms")


def measure_server(hub: Hub, address: str, cookie: str, rounds: int) -> None:
    """Search pages as one types and as one opens them, beside the search itself in this process."""
    for name, headers in (("as one types", {"X-Part": "1"}), ("a whole page", {})):
        paths = [f"/?q={quote(text)}" for text in QUESTIONS]
        for path in paths:
            got(address, path, cookie, **headers)
        shown(f"search, {name}", [got(address, path, cookie, **headers)[2] for _ in range(rounds) for path in paths])
    alone = []
    for text in (*QUESTIONS, *QUESTIONS * rounds):
        began = time.perf_counter()
        search(hub, Query(text=text, limit=60, explain=True))
        alone.append(time.perf_counter() - began)
    shown("the search of 60 hits alone", alone[len(QUESTIONS) :])
    for path in ("/", *PAGES[2:]):
        got(address, path, cookie)
        shown(path, [got(address, path, cookie)[2] for _ in range(rounds)])


def weigh(address: str, cookie: str) -> None:
    """The page with its style and scripts, uncompressed, in kB."""
    shared = sum(len(got(address, f"/static/{name}", cookie)[0]) for name in ("kbhub.css", "kbhub.js", "icon.svg"))
    drawn = sum(
        len(got(address, f"/static/{name}", cookie)[0])
        for name in ("graph.js", "vendor/sigma.min.js", "vendor/graphology.umd.min.js")
    )
    for path in PAGES:
        own = len(got(address, path, cookie)[0])
        total = own + shared + (drawn if path == "/graph" else 0)
        print(f"{path:<34} {own / 1000:7.1f} kB, with style and scripts {total / 1000:.0f} kB")
    print(f"{'/graph/data':<34} {len(got(address, '/graph/data', cookie)[0]) / 1000:7.1f} kB")


def look(address: str, rounds: int) -> None:
    """First paint of a search page, and frames of the moved graph, in Chromium."""
    from playwright.sync_api import sync_playwright

    origin = f"http://{urlsplit(address).netloc}"
    path = os.environ.get("KBHUB_TEST_BROWSER") or shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as running:
        browser = running.chromium.launch(executable_path=path, args=["--no-sandbox", "--enable-unsafe-swiftshader"])
        page = browser.new_page(viewport={"width": 1200, "height": 900})
        page.goto(address)
        paints = []
        for text in QUESTIONS[:rounds]:
            page.goto(f"{origin}/?q={quote(text)}")
            paints.append(page.evaluate(PAINT) / 1000)
        shown("first paint of a search page", paints)
        page.goto(f"{origin}/")
        page.evaluate(TYPED)
        keys = []
        for text in QUESTIONS:
            page.locator("#q").fill(text[:-1])
            page.locator("#q").press(text[-1])
            page.wait_for_function("q => window.shown?.q === q", arg=text)
            keys.append(page.evaluate("window.shown.took") / 1000)
        shown("from a key to its hits", keys)
        began = time.perf_counter()
        page.goto(f"{origin}/graph")
        page.locator("#graph[data-drawn]").wait_for(timeout=60_000)
        drawn: Any = page.locator("#graph").get_attribute("data-drawn")
        print(f"graph of {drawn} documents drawn after {time.perf_counter() - began:.1f} s")
        times = page.evaluate(MOVING, FRAMES_MS)
        gaps = [after - before for before, after in itertools.pairwise(times)]
        shown("frame of the graph, zoomed", [gap / 1000 for gap in gaps])
        browser.close()


if __name__ == "__main__":
    main()
