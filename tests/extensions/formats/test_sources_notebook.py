"""Notebooks and canvases: cells and cards in their order, code fenced, outputs bounded, damage reported."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from documents.soundness import check_soundness
from kbhub.extensions.formats.notebook import OUTPUT_CHARACTERS, read_canvas, read_notebook


def read(record: object):
    return read_notebook("a/my-work.ipynb", json.dumps(record).encode())


def headings(document):
    return [(heading.level, heading.text) for heading in document.headings]


def test_a_notebook_is_its_cells():
    """Headings come from Markdown cells alone, code has the kernel's language, and outputs follow their code."""
    outputs = [
        {"output_type": "stream", "text": ["one\n", "\x1b[31mtwo\x1b[0m\n"]},
        {"output_type": "execute_result", "data": {"text/html": "<b>no</b>", "text/plain": ["three"]}},
        {"output_type": "display_data", "data": {"image/png": "aGVsbG8="}},
        {"output_type": "error", "ename": "ValueError", "evalue": "bad", "traceback": ["long"]},
    ]
    cells = [
        {"cell_type": "raw", "source": "---\ntags: [a, b]\nauthor: Ann\n---"},
        {"cell_type": "markdown", "source": ["# First\n", "\n", "See [b](b.md).\n", "| k |\n", "|---|\n", "| v |"]},
        {"cell_type": "code", "source": ["# no heading\n", "print('```')"], "outputs": outputs},
        {"cell_type": "markdown", "source": "## Second\n\n~~~\nnever closed"},
        {"cell_type": "markdown", "source": "## Third"},
    ]
    metadata = {"language_info": {"name": "python"}, "title": "Named"}
    document = read({"nbformat": 4, "metadata": metadata, "cells": cells})

    assert (document.title, document.tags, document.problems) == ("Named", ("a", "b"), ())
    assert document.front_matter == {"language": "python", "tags": ["a", "b"], "author": "Ann"}
    assert headings(document) == [(1, "First"), (2, "Second"), (2, "Third")]
    text = "\n".join(document.lines)
    assert "````python\n# no heading\nprint('```')\n````\n\n```output\none\ntwo\n```\n\n```output\nthree\n```" in text
    assert "```output\nValueError: bad\n```" in text
    assert "aGVsbG8" not in text
    assert "long" not in text
    assert (len(document.fences), len(document.tables)) == (5, 1)
    assert [link.target for link in document.links] == ["b.md"]


def test_long_outputs_are_cut_and_strange_cells_and_nodes_are_counted():
    """The log of a training run does not fill the index; what is missing is said."""
    outputs = [{"output_type": "stream", "text": "word " * 10_000}] * 50
    text = "\n".join(read({"cells": [{"cell_type": "code", "source": "run()", "outputs": outputs}]}).lines)
    assert len(text) < 25 * OUTPUT_CHARACTERS
    assert f"… {50_000 - OUTPUT_CHARACTERS} more" in text
    assert "more outputs are left out" in text
    notebook = read({"cells": [1, {"cell_type": 2}, {"cell_type": "markdown", "source": "text \ud800"}]})
    canvas = read_canvas("a.canvas", b'{"nodes": [1, {"type": "x"}, {"type": "text", "text": "a"}]}')
    assert (notebook.lines, canvas.lines, read_canvas("a.canvas", b"{}").lines) == (("text ?",), ("a",), ())
    assert notebook.problems == ("2 cells are not in the format of a notebook and left out.",)
    assert canvas.problems == ("2 nodes without text or a known type are left out.",)


def node(kind: str, x: int, y: int, size: int = 10, **more: object) -> dict[str, object]:
    return {"id": f"{kind}{x}.{y}", "type": kind, "x": x, "y": y, "width": size, "height": size, **more}


def test_a_canvas_is_read_from_top_to_bottom():
    """Cards of a group come below its heading, and their own headings below that."""
    nodes = [
        node("text", 500, 20, text="right"), node("text", 5, 105, text="# In *inner*\nmore"),
        node("group", 0, 100, 100, label="Outer"), node("group", 2, 102, 50, label="Inner"),
        node("file", 80, 180, file="notes/a b.md", subpath="#Part"), node("text", 0, 0, text="left\n\n```\nopen"),
        node("link", 0, 300, url="https://example.org"), node("text", 0, 400, text="last"),
    ]  # fmt: skip
    edges = [
        {"fromNode": "text0.0", "toNode": "file80.180", "label": "leads to"},
        *({"fromNode": one, "toNode": "text0.400"} for one in ("text5.105", "nobody")),
    ]
    document = read_canvas("maps/my-plan.canvas", json.dumps({"nodes": nodes, "edges": edges}).encode())

    assert "\n".join(document.lines) == (
        "left\n\n```\nopen\n```\n\nright\n\nhttps://example.org\n\nlast\n\n"
        "# Outer\n\n[[notes/a b.md#Part]]\n\n## Inner\n\n### In *inner*\nmore\n\n"
        "- left → a b: leads to\n- In *inner → last"
    )
    assert document.title == "my plan"
    assert headings(document) == [(1, "Outer"), (2, "Inner"), (3, "In *inner*")]
    assert [(one.target, one.fragment, one.kind) for one in document.links] == [("notes/a b.md", "Part", "wikilink")]


@pytest.mark.parametrize(
    ("reader", "data", "problem"),
    [
        *((read_notebook, data, "It is no JSON") for data in (b'{"cells": [', b"# just text", b"[" * 100_000)),
        (read_notebook, b'{"a": ' + b"9" * 10_000 + b"}", "It is no JSON"),
        *((read_notebook, data, "It has no cells") for data in (b"[1, 2]", b'{"cells": 1}')),
        *((read_canvas, data, "It is no JSON") for data in (b"{", b"[" * 100_000)),
        *((read_canvas, data, "It has no nodes") for data in (b"[]", b'{"nodes": {}}')),
    ],
)
def test_a_damaged_file_is_kept_as_text(reader, data, problem):
    document = reader("a/my-work.ipynb", data)
    assert (document.title, document.lines) == ("my work", (data.decode(),))
    assert document.problems[0].startswith(problem)


words = ("```", "<!--", "markdown", "code")
names = ("cells", "cell_type", "source", "outputs", "text", "data", "text/plain", "metadata")
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.sampled_from(words),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(names), inner, max_size=4),
    max_leaves=20,
)
kinds = st.sampled_from(("markdown", "code", "raw"))
cells = st.fixed_dictionaries({"cell_type": kinds, "source": values, "outputs": values})
keys = st.sampled_from(("id", "type", "x", "y", "width", "height", "text", "file", "url", "label", "subpath"))
places = st.integers(0, 20)
nodes = st.dictionaries(keys, values, max_size=8) | st.builds(
    node, st.sampled_from(("text", "group", "file")), places, places, places,
    text=st.text("a#`\n ", max_size=20), label=st.text("ab", max_size=3), file=st.sampled_from(("", "a.md")),
)  # fmt: skip


@given(
    st.binary(max_size=200)
    | values.map(lambda value: json.dumps(value).encode())
    | st.lists(cells, max_size=4).map(lambda found: json.dumps({"cells": found}).encode())
    | st.lists(nodes, max_size=12).map(lambda found: json.dumps({"nodes": found, "edges": found}).encode())
)
def test_any_bytes_parse(data):
    for reader in (read_notebook, read_canvas):
        check_soundness(reader("a.ipynb", data))


@example([">```", "- > ~~~\n  > a", "1. ```\n   b"])
@given(st.lists(st.text("ab#`~<!->\n ", max_size=40), max_size=5))
def test_a_cell_hides_nothing_of_the_next(sources):
    record = {"cells": [{"cell_type": "markdown", "source": f"{source}\n"} for source in (*sources, "# The last")]}
    assert "The last" in [text for _, text in headings(read(record))]


@given(st.lists(st.tuples(*[st.integers(0, 30)] * 4), max_size=12))
def test_no_card_is_lost_however_groups_overlap(places):
    records = [
        {"id": f"{n}", "type": "group" if n % 2 else "text", "text": f"n{n}.", "label": f"n{n}."}
        | dict(zip(("x", "y", "width", "height"), place, strict=True))
        for n, place in enumerate(places)
    ]
    text = "\n".join(read_canvas("a.canvas", json.dumps({"nodes": records}).encode()).lines)
    assert [text.count(f"n{n}.") for n in range(len(places))] == [1] * len(places)
