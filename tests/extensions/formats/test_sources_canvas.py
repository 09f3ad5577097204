"""Canvases of Obsidian: cards in reading order, groups as headings, files as links, connections as a list."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbhub.documents.chunking import chunk_document
from kbhub.extensions.formats.notebook import read_canvas


def node(kind: str, x: int, y: int, size: int = 10, **more: object) -> dict[str, object]:
    return {"id": f"{kind}{x}.{y}", "type": kind, "x": x, "y": y, "width": size, "height": size, **more}


def test_a_canvas_is_read_from_top_to_bottom():
    """Cards of a group come below its heading, and their own headings below that."""
    document = read_canvas(
        "maps/my-plan.canvas",
        json.dumps(
            {
                "nodes": [
                    node("text", 500, 20, text="right"), node("text", 5, 105, text="# In *inner*\nmore"),
                    node("group", 0, 100, 100, label="Outer"), node("group", 2, 102, 50, label="Inner"),
                    node("file", 80, 180, file="notes/a b.md", subpath="#Part"),
                    node("text", 0, 0, text="left\n\n```\nopen"), node("link", 0, 300, url="https://example.org"),
                    node("text", 0, 400, text="last"),
                ],
                "edges": [
                    {"fromNode": "text0.0", "toNode": "file80.180", "label": "leads to"},
                    {"fromNode": "text5.105", "toNode": "text0.400"},
                    {"fromNode": "nobody", "toNode": "text0.400"},
                ],
            }
        ).encode(),
    )  # fmt: skip

    assert "\n".join(document.lines) == (
        "left\n\n```\nopen\n```\n\nright\n\nhttps://example.org\n\nlast\n\n"
        "# Outer\n\n[[notes/a b.md#Part]]\n\n## Inner\n\n### In *inner*\nmore\n\n"
        "- left → a b: leads to\n- In *inner → last"
    )
    assert document.title == "my plan"
    assert [(heading.level, heading.text) for heading in document.headings] == [
        (1, "Outer"),
        (2, "Inner"),
        (3, "In *inner*"),
    ]
    assert [(link.target, link.fragment, link.kind) for link in document.links] == [
        ("notes/a b.md", "Part", "wikilink")
    ]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"{", "It is no JSON"),
        (b"[]", "It has no nodes"),
        (b'{"nodes": {}}', "It has no nodes"),
        (b"[" * 99_999, "It is"),
    ],
)
def test_a_damaged_canvas_is_kept_as_text(data, problem):
    document = read_canvas("a.canvas", data)

    assert document.lines == (data.decode(),)
    assert document.problems[0].startswith(problem)


def test_nodes_without_text_are_counted():
    document = read_canvas("a.canvas", b'{"nodes": [1, {"type": "x"}, {"type": "text", "text": "a"}]}')

    assert document.lines == ("a",)
    assert document.problems == ("2 nodes without text or a known type are left out.",)
    assert read_canvas("a.canvas", b"{}").lines == ()


values = st.one_of(st.none(), st.text(max_size=20), st.integers(), st.floats(), st.lists(st.integers(), max_size=2))
keys = st.sampled_from(("id", "type", "x", "y", "width", "height", "text", "file", "url", "label", "subpath"))
nodes = st.one_of(
    st.dictionaries(keys, values, max_size=8),
    st.builds(
        node,
        st.sampled_from(("text", "group", "file")),
        st.integers(0, 9),
        st.integers(0, 9),
        st.integers(0, 20),
        text=st.text("a#`\n ", max_size=20),
        label=st.text("ab", max_size=3),
        file=st.sampled_from(("", "a.md")),
    ),
)


@given(
    st.one_of(
        st.binary(max_size=200),
        st.lists(nodes, max_size=12).map(lambda found: json.dumps({"nodes": found, "edges": found}).encode()),
    )
)
def test_any_bytes_parse(data):
    document = read_canvas("a.canvas", data)

    "\n".join(document.lines).encode()
    assert all("\n" not in line and "\0" not in line for line in document.lines)
    chunk_document(document)


@given(st.lists(st.tuples(*[st.integers(0, 30)] * 4), max_size=12))
def test_no_card_is_lost_however_groups_overlap(places):
    records = [
        {
            "id": str(number), "type": kind, "x": x, "y": y, "width": w, "height": h, "text": f"n{number}.",
            "label": f"n{number}.",
        }
        for number, (x, y, w, h) in enumerate(places)
        for kind in ["group" if number % 2 else "text"]
    ]  # fmt: skip
    text = "\n".join(read_canvas("a.canvas", json.dumps({"nodes": records}).encode()).lines)

    assert [text.count(f"n{number}.") for number in range(len(places))] == [1] * len(places)
