"""Text formats are written as Markdown, each line where it was."""

from pathlib import Path

import pytest

from kbhub.workspace.formats import in_markdown

SAMPLES = Path(__file__).parent / "samples"


@pytest.mark.parametrize("name", ["shown.rst", "shown.adoc", "shown.org"])
def test_a_text_format_is_written_as_markdown_line_by_line(name, snapshot):
    text = (SAMPLES / name).read_text("utf-8")
    written = in_markdown(text, name)
    assert written == snapshot
    assert written.count("\n") == text.count("\n")
    assert in_markdown(text, "a.md") == in_markdown(text, "a.txt") == text


@pytest.mark.parametrize("start", range(0, 40, 3))
def test_a_part_of_a_document_is_written_as_far_as_it_tells(start):
    part = "\n".join((SAMPLES / "shown.rst").read_text("utf-8").split("\n")[start : start + 9])
    assert in_markdown(part, "a.rst").count("\n") == part.count("\n")
