"""Generated files are what the code says, and explain everything."""

import importlib
import pkgutil
import re
import shlex
from contextlib import suppress
from pathlib import Path

import pytest

import generate
import kbhub
import reference_pages as made
from kbhub.cli import command_table
from kbhub.errors import KbhubError

REFERENCE = Path(__file__).parent.parent / "docs" / "reference"
COMMANDS = made.pages()


@pytest.fixture(scope="module", autouse=True)
def _everything_is_loaded():
    """Errors may be defined anywhere."""
    for module in pkgutil.walk_packages(kbhub.__path__, "kbhub."):
        if not module.name.endswith("__main__"):
            with suppress(ModuleNotFoundError):  # what an extra brings that is not installed
                importlib.import_module(module.name)


def test_generated_files_are_up_to_date_and_the_python_page_has_the_whole_api():
    assert list(generate.stale()) == []
    headings = set(re.findall(r"^## `(\w+)`", (REFERENCE / "python.md").read_text("utf-8"), re.MULTILINE))
    assert headings == set(kbhub.__all__) - {"__version__"}


@pytest.mark.parametrize("page", COMMANDS, ids=lambda page: page.name)
def test_every_command_is_explained(page):
    rows = [row for entries in page.panels.values() for row in entries]

    assert re.fullmatch(r"[A-Z`].*\.", page.summary)
    assert command_table().get(" ".join(page.words), ("", "", page.summary))[2] == page.summary
    assert [names for names, about, _ in rows if not about.endswith((".", ".)"))] == []
    if "Commands" in page.panels:
        return  # a group, which does nothing itself
    assert page.usage.startswith(page.name)
    assert [names for names, *_ in page.panels.get("Arguments", ()) if names.split("`")[1] not in page.usage] == []
    assert page.example
    if page.example.startswith("Example: "):
        words = shlex.split(re.split(r" [<>] ", page.example.removeprefix("Example: "))[0], comments=False)
        words = words[: words.index("&&")] if "&&" in words else words
        assert words[: len(page.words) + 1] == page.name.split()
        made.app.parse_args(words[1:])


def test_every_error_has_its_place_on_the_page():
    classes = {one.__name__: one for one in made.error_classes()}
    assert {name: type(example) for name, (example, _) in made.ERRORS.items()} == classes
    for example, advice in made.ERRORS.values():
        assert isinstance(example, KbhubError)
        assert "\n" not in str(example)
        assert advice.endswith(".")
