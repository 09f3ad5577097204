"""The documentation is a site that is whole, works offline, and shows kbhub as it is."""

import importlib
import re
import shutil
import subprocess
import sys
import tomllib
from html import unescape
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PICTURES = sorted((DOCS / "assets").glob("*.svg"))
SECONDS = 300
"""Longest that a build or a recording may take, on a machine that may be busy."""


def build(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=SECONDS)


def copied(folder: Path) -> Path:
    shutil.copytree(DOCS, folder / "docs", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "zensical.toml", folder)
    return folder


def named(entry) -> list[str]:
    """Give the pages in a part of the navigation."""
    if isinstance(entry, str):
        return [entry]
    parts = entry.values() if isinstance(entry, dict) else entry
    return [page for part in parts for page in named(part)]


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The built site."""
    pytest.importorskip("zensical", reason="the dependency group `docs` is not installed")
    folder = copied(tmp_path_factory.mktemp("site"))
    done = build(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "build" / "site"


@pytest.mark.timeout(SECONDS)
def test_the_site_is_built_without_a_warning_and_fetches_nothing_from_elsewhere(site):
    """No font, script, style or picture comes from another host, so that reading tells nobody and works offline."""
    fetched = re.compile(
        r"<(?:script|img|iframe|source)\b[^>]*\bsrc=\"?https?:|<link\b[^>]*\bhref=\"?https?:|@import|url\(https?:"
    )
    sources = [page.relative_to(DOCS).with_suffix(".html") for page in sorted(DOCS.rglob("*.md"))]
    pages = [*site.rglob("*.html"), *site.rglob("*.css")]
    assert [str(page) for page in sources if not (site / page).is_file()] == []
    assert len(pages) > 20
    assert [str(page.relative_to(site)) for page in pages if fetched.search(page.read_text("utf-8"))] == []


@pytest.mark.slow
@pytest.mark.timeout(SECONDS)
def test_a_dead_anchor_fails_the_build(tmp_path):
    pytest.importorskip("zensical", reason="the dependency group `docs` is not installed")
    folder = copied(tmp_path)
    page = folder / "docs" / "index.md"
    page.write_text(f"{page.read_text('utf-8')}\n[nowhere](tutorial.md#no-such-heading)\n", "utf-8")
    assert build(folder).returncode != 0


def test_every_page_is_in_the_navigation_once():
    navigation = named(tomllib.loads((ROOT / "zensical.toml").read_text("utf-8"))["project"]["nav"])
    pages = sorted(page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md"))
    assert sorted(navigation) == pages


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
def test_a_picture_stands_by_itself(picture):
    text = picture.read_text("utf-8")
    root = ET.fromstring(text)
    assert root.find("{http://www.w3.org/2000/svg}title") is not None
    assert re.findall(r"https?://[^\"' )]+", text) == ["http://www.w3.org/2000/svg"]
    assert "@font-face" not in text


def lines_of(picture: str) -> list[str]:
    """Give the lines of text in a recorded picture, without what differs from run to run."""
    rows: dict[float, list[tuple[float, str]]] = {}
    for x, y, text in re.findall(r'<text [^>]*?x="([\d.]+)" y="([\d.]+)"[^>]*>([^<]*)</text>', picture):
        rows.setdefault(float(y), []).append((float(x), unescape(text).replace("\xa0", " ")))
    lines = ["".join(text for _, text in sorted(row)) for _, row in sorted(rows.items())]
    varying = r"#[0-9a-f]{6,}|\d\.\d\d|-[0-9a-z]{8}\.md|\[[0-9a-z]{8}\]|\bid [0-9a-z]{8}\b"
    return [re.sub(varying, "…", line).rstrip() for line in lines]


@pytest.mark.slow
@pytest.mark.timeout(SECONDS)
@pytest.mark.skipif(sys.platform == "win32", reason="the session was recorded in a POSIX shell")
@pytest.mark.parametrize(
    ("picture", "sign", "steps", "run", "draw"),
    [("PICTURE", "$", "COMMANDS", "run", "draw"), ("AGENT_PICTURE", "●", "TURNS", "call", "draw_agent")],
    ids=["session", "agent"],
)
def test_what_was_recorded_is_what_kbhub_prints(tmp_path, monkeypatch, picture, sign, steps, run, draw):
    monkeypatch.syspath_prepend(str(DOCS / "assets"))
    record = importlib.import_module("record")
    shown = lines_of(getattr(record, picture).read_text("utf-8"))
    assert len([line for line in shown if line.startswith(f"{sign} kbhub ")]) == len(getattr(record, steps))
    assert lines_of(getattr(record, draw)(getattr(record, run)(tmp_path.resolve()))) == shown
