"""What the documentation says is so."""

import ast
import re
import shlex
from pathlib import Path

import pytest

from kbhub.cli import HELP_OPTIONS
from kbhub.cli.app import app
from kbhub.documents.chunking import CHUNK_WORDS
from kbhub.search.document_signals import HALF_LIFE_DAYS
from kbhub.search.evidence import AMOUNTS
from kbhub.search.judge import STRONG, WEAK
from kbhub.search.plan import EXAMINED
from kbhub.search.retrieval import SEMANTIC_SHARE
from kbhub.workspace.config import parse_jsonc
from test_architecture import TREES

ROOT = Path(__file__).parent.parent
PAGES = [
    ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "SECURITY.md", ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "examples").glob("*/README.md")),
    *sorted((ROOT / "plugins").rglob("README.md")),
]  # fmt: skip
TROUBLESHOOTING = ROOT / "docs" / "how-to" / "troubleshooting.md"


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere_and_snippets_of_json_are_json(page):
    whole = page.read_text("utf-8")
    text = re.sub(r"```.*?```", "", whole, flags=re.DOTALL)
    targets = [target.partition("#")[0] for target in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in target]
    assert [] == [target for target in targets if target and not (page.parent / target).exists()]
    for snippet in re.findall(r"```jsonc?\n(.*?)```", whole, flags=re.DOTALL):
        parse_jsonc(snippet, page)


@pytest.mark.parametrize("page", [page for page in PAGES if page.name[:4] not in ("CHAN", "CONT")], ids=name_of)
def test_commands_exist(page):
    """Every `kbhub …` that a page shows can be typed, options and all."""
    # Headings, and links to them, name commands alone; below a heading stands the usage.
    text = re.sub(r"^#.*$|^`kbhub .*`$|\[`kbhub [^\]]*\]", "", page.read_text("utf-8"), flags=re.MULTILINE)
    shown = re.findall(r"`kbhub ([^`\n]+)`", text)
    verbs = re.compile(r"(?:^|[/ ])kbhub ((?:search|read|index|status|init|trust|serve)\b.*)$", re.MULTILINE)
    for block in re.findall(r"```sh\n(.*?)```", text, flags=re.DOTALL):
        shown += verbs.findall(block)
    for line in shown:
        words = shlex.split(re.split(r" (?:[|<>]|&&) ?", line)[0], comments=True)
        if words != HELP_OPTIONS:
            app.parse_args(words)


TRANSLATED = re.compile(
    r"\b(answerable|mend(?:s|ed|ing)?|anew|unasked|in step|both eras|has no authority|lies in your|so many of the)\b"
)
"""Words that a translator would write; CONTRIBUTING.md has what to write instead."""


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_page_reads_translated(page):
    text = page.read_text("utf-8")
    for other in (r"<!-- [\w-]+: generated .*?<!-- end -->", r"^ *```.*?^ *```", r"^## Words$.*?(?=^## )"):
        text = re.sub(other, "", text, flags=re.DOTALL | re.MULTILINE)
    assert TRANSLATED.findall(re.sub(r"`[^`]*`", "", text)) == []


def source_texts() -> list[str]:
    """Give every text that stands in the source, adjacent ones joined as Python joins them."""
    nodes = (node for tree in TREES.values() for node in ast.walk(tree) if isinstance(node, ast.Constant))
    return [node.value for node in nodes if isinstance(node.value, str)]


def test_messages_and_checks_of_doctor_that_are_explained_are_those_that_there_are():
    rows = [line for line in TROUBLESHOOTING.read_text("utf-8").splitlines() if line.startswith("| ")]
    messages = [message for row in rows for message in re.findall(r"^\| (?:doctor: )?`([^`]*…[^`]*|[^`]*\.)`", row)]
    parts = [part.strip(" :;.,") for message in messages for part in message.split("…")]
    everything = "\n".join(source_texts())
    assert len(messages) > 30
    assert [part for part in parts if len(part) > 3 and part not in everything] == []

    source = "\n".join(path.read_text("utf-8") for path in (ROOT / "src/kbhub/setup/doctor").glob("*.py"))
    named = r'(?:\b(?:check|CHECK)(?:: str)? ?= ?|\b(?:ok|bad|_finding|_directory)\(\s*)"([a-z-]+)"'
    checks = set(re.findall(named, source))
    listed = TROUBLESHOOTING.read_text("utf-8").partition("## What doctor checks")[2]
    assert len(checks) > 15
    assert [check for check in sorted(checks) if f"`{check}`" not in listed] == []


def test_numbers_that_pages_explain_are_those_of_the_code():
    expected = {
        "docs/how-to/tuning.md": [
            f"adds {AMOUNTS['title']:.1f}".replace("0.", "."), f"name {AMOUNTS['identifier']:.1f}".replace("0.", "."),
            f"{1 - SEMANTIC_SHARE:.0%} words, {SEMANTIC_SHARE:.0%} vectors".replace("%", " %"),
            f"age/{HALF_LIFE_DAYS:.0f} days", f"{STRONG} and more".removeprefix("0"),
            f"below {WEAK} nothing".replace("0.", "."), f"up to {CHUNK_WORDS} words",
        ],
        "docs/explanation/architecture.md": [
            f"{1 - SEMANTIC_SHARE:.0%} words and {SEMANTIC_SHARE:.0%} vectors".replace("%", " %"),
            f"best {EXAMINED} chunks",
            f"over {CHUNK_WORDS} words",
        ],
        "docs/explanation/glossary.md": [
            f"Up to {CHUNK_WORDS} words",
            f"({STRONG} and more)".replace("0.", "."),
            f"(below {WEAK})".replace("0.", "."),
        ],
    }  # fmt: skip
    texts = {name: " ".join((ROOT / name).read_text("utf-8").split()) for name in expected}

    assert [(name, part) for name, parts in expected.items() for part in parts if part not in texts[name]] == []


def test_the_readme_is_short_and_begins_with_its_two_commands_and_nothing_names_a_registry():
    text = (ROOT / "README.md").read_text("utf-8")
    commands = re.findall(r"```sh\n(.*?)```", text, flags=re.DOTALL)
    assert "kbhub search --root examples/team" in commands[0]
    assert "pytest" in commands[1]
    assert text.count("\n") < 100
    hosts = re.compile(r"pypi\.org|pythonhosted|registry\.npmjs|deb\.debian")
    files = [path for path in ROOT.glob("*") if path.suffix in {".md", ".txt", ".toml"}]
    assert [] == [path.name for path in files if hosts.search(path.read_text("utf-8"))]
