"""Jupyter notebooks: Markdown cells as they are, code fenced, outputs bounded, damage reported."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbhub.documents.chunking import chunk_document
from kbhub.extensions.formats.notebook import OUTPUT_CHARACTERS, read_notebook


def read(record: object):
    return read_notebook("a/my-work.ipynb", json.dumps(record).encode())


def test_a_notebook_is_its_cells():
    """Headings come from Markdown cells alone, code has the kernel's language, and outputs follow their code."""
    document = read(
        {
            "nbformat": 4,
            "metadata": {"language_info": {"name": "python"}, "title": "Named"},
            "cells": [
                {"cell_type": "raw", "source": "---\ntags: [a, b]\nauthor: Ann\n---"},
                {
                    "cell_type": "markdown",
                    "source": ["# First\n", "\n", "See [b](b.md).\n", "| k |\n", "|---|\n", "| v |"],
                },
                {
                    "cell_type": "code",
                    "source": ["# no heading\n", "print('```')"],
                    "outputs": [
                        {"output_type": "stream", "text": ["one\n", "\x1b[31mtwo\x1b[0m\n"]},
                        {"output_type": "execute_result", "data": {"text/html": "<b>no</b>", "text/plain": ["three"]}},
                        {"output_type": "display_data", "data": {"image/png": "aGVsbG8="}},
                        {"output_type": "error", "ename": "ValueError", "evalue": "bad", "traceback": ["long"]},
                    ],
                },
                {"cell_type": "markdown", "source": "## Second\n\n~~~\nnever closed"},
                {"cell_type": "markdown", "source": "## Third"},
            ],
        }
    )

    assert document.title == "Named"
    assert document.tags == ("a", "b")
    assert document.front_matter == {"language": "python", "tags": ["a", "b"], "author": "Ann"}
    assert [(heading.level, heading.text) for heading in document.headings] == [
        (1, "First"),
        (2, "Second"),
        (2, "Third"),
    ]
    text = "\n".join(document.lines)
    assert "````python\n# no heading\nprint('```')\n````\n\n```output\none\ntwo\n```\n\n```output\nthree\n```" in text
    assert "```output\nValueError: bad\n```" in text
    assert "aGVsbG8" not in text
    assert "long" not in text
    assert len(document.fences) == 5
    assert len(document.tables) == 1
    assert [link.target for link in document.links] == ["b.md"]
    assert document.problems == ()


def test_format_3_has_sheets_and_cells_that_are_headings():
    document = read(
        {
            "nbformat": 3,
            "metadata": {"name": ""},
            "worksheets": [
                {
                    "cells": [
                        {"cell_type": "heading", "level": 2, "source": ["The\n", "name"]},
                        {
                            "cell_type": "code",
                            "language": "python",
                            "input": ["x = 1"],
                            "outputs": [{"output_type": "pyout", "text": ["1"]}],
                        },
                    ]
                }
            ],
        }
    )

    assert document.lines == ("## The name", "", "```python", "x = 1", "```", "", "```output", "1", "```")
    assert document.title == "The name"


def test_long_outputs_are_cut():
    """The log of a training run does not fill the index; what is missing is said."""
    outputs = [{"output_type": "stream", "text": "word " * 10_000}] * 50
    document = read({"cells": [{"cell_type": "code", "source": "run()", "outputs": outputs}]})
    text = "\n".join(document.lines)

    assert len(text) < 25 * OUTPUT_CHARACTERS
    assert f"… {50_000 - 1 - OUTPUT_CHARACTERS} more" in text or f"… {50_000 - OUTPUT_CHARACTERS} more" in text
    assert "more outputs are left out" in text


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b'{"cells": [', "It is no JSON"), (b"# just text", "It is no JSON"), (b"[" * 100_000, "It is no JSON"),
        (b"[1, 2]", "It has no cells"), (b'{"cells": 1}', "It has no cells"),
        (b'{"a": ' + b"9" * 10_000 + b"}", "It is no JSON"),
    ],
)  # fmt: skip
def test_a_damaged_notebook_is_kept_as_text(data, problem):
    document = read_notebook("a/my-work.ipynb", data)

    assert document.title == "my work"
    assert document.lines == (data.decode(),)
    assert document.problems[0].startswith(problem)


def test_strange_cells_are_counted():
    document = read({"cells": [1, {"cell_type": 2}, {"cell_type": "markdown", "source": "text \ud800"}]})

    assert document.lines == ("text ?",)
    assert document.problems == ("2 cells are not in the format of a notebook and left out.",)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=20)
    | st.sampled_from(("```", "<!--", "markdown", "code")),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                (
                    *("cells", "cell_type", "source", "outputs", "text", "data", "text/plain", "metadata"),
                    *("worksheets", "level"),
                )
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)
cells = st.fixed_dictionaries(
    {
        "cell_type": st.sampled_from(("markdown", "code", "raw", "heading")),
        "source": json_values,
        "outputs": json_values,
    }
)


@given(
    st.one_of(
        st.binary(max_size=200),
        json_values.map(lambda value: json.dumps(value).encode()),
        st.lists(cells, max_size=4).map(lambda values: json.dumps({"cells": values}).encode()),
    )
)
def test_any_bytes_parse(data):
    document = read_notebook("a.ipynb", data)

    "\n".join(document.lines).encode()
    assert all("\n" not in line and "\0" not in line for line in document.lines)
    chunk_document(document)


@given(st.lists(st.text("ab#`~<!->\n ", max_size=40), max_size=5))
def test_a_cell_hides_nothing_of_the_next(sources):
    record = {"cells": [{"cell_type": "markdown", "source": f"{source}\n"} for source in (*sources, "# The last")]}

    assert "The last" in [heading.text for heading in read(record).headings]
