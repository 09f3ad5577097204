"""A link leads where GitHub and Obsidian take it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbhub.reading.links import MOST_OTHERS, PathTable

PATHS = [
    "README.md",
    "note.md",
    "a/note.md",
    "a/x.md",
    "a/deep/note.md",
    "a/deep/y.md",
    "b/note.md",
    "b/only one.md",
    "b/Café.md",
    "c/index.md",
    "c/page.markdown",
    "d/README.md",
    "d/index.md",
    "e/plan.txt",
    "workflow/branch-naming.md",
    "dotted/v1.2.md",
]
NAMES = [
    ("b/only one.md", "The Only One"),
    ("b/only one.md", "Solo"),
    ("a/x.md", "Twin"),
    ("b/note.md", "Twin"),
    ("c/page.markdown", "CI/CD: how"),
]
TABLE = PathTable(PATHS, NAMES)


def led(source, target, kind="markdown"):
    found = TABLE.resolve(source, target, kind)
    return found and found.path


@pytest.mark.parametrize(
    ("source", "target", "path"),
    [
        ("a/x.md", "note.md", "a/note.md"),
        ("a/x.md", "./note.md", "a/note.md"),
        ("a/x.md", "../note.md", "note.md"),
        ("a/x.md", "/b/note.md", "b/note.md"),
        ("a/x.md", "/note.md", "note.md"),
        ("a/x.md", "deep/note", "a/deep/note.md"),
        ("a/x.md", "b/note.md", "b/note.md"),
        ("a/x.md", "../b/only one.md", "b/only one.md"),
        ("a/x.md", "../b/ONLY One.md", "b/only one.md"),
        ("a/x.md", "../b/Cafe\u0301.md", "b/Café.md"),
        ("a/x.md", "../c", "c/index.md"),
        ("a/x.md", "../c/", "c/index.md"),
        ("a/x.md", "../d", "d/README.md"),
        ("a/x.md", "..", "README.md"),
        ("a/x.md", "/", "README.md"),
        ("a/x.md", "../c/page", "c/page.markdown"),
        ("a/x.md", "../e/plan.txt", "e/plan.txt"),
        ("a/x.md", "only one.md", "b/only one.md"),
        ("a/x.md", "", "a/x.md"),
        ("a/x.md", "v1.2", "dotted/v1.2.md"),
        ("a/x.md", "../../note.md", None),
        ("a/x.md", "/b/../../note.md", None),
        ("a/x.md", "./only one.md", None),
        ("a/x.md", "The Only One", None),
        ("a/x.md", "../e/plan", None),
        ("a/x.md", "gone.md", None),
    ],
)
def test_a_path_is_one_from_the_documents_folder(source, target, path):
    """Markdown links go by path, with or without ending and case; a folder has a page; nothing leads out."""
    assert path == led(source, target)


@pytest.mark.parametrize(
    ("source", "target", "path"),
    [
        ("a/x.md", "note", "note.md"),
        ("a/x.md", "b/note", "b/note.md"),
        ("a/x.md", "deep/note", "a/deep/note.md"),
        ("a/x.md", "./note", "a/note.md"),
        ("a/x.md", "../b/note", "b/note.md"),
        ("a/x.md", "only one", "b/only one.md"),
        ("a/x.md", "Only One.md", "b/only one.md"),
        ("a/x.md", "the only one", "b/only one.md"),
        ("a/x.md", "SOLO", "b/only one.md"),
        ("a/x.md", "CI/CD: how", "c/page.markdown"),
        ("a/x.md", "branch-naming", "workflow/branch-naming.md"),
        ("a/x.md", "c", "c/index.md"),
        ("a/x.md", "ly one", None),
        ("a/x.md", "plan", None),
        ("a/x.md", "", "a/x.md"),
    ],
)
def test_a_wikilink_is_a_path_from_the_root_or_a_name(source, target, path):
    """Exact path first, then relative, then file name, title and alias."""
    assert path == led(source, target, "wikilink")


@pytest.mark.parametrize("kind", ["wikilink", "embed", "related"])
def test_of_several_of_one_name_the_nearest_is_meant_and_it_is_said(kind):
    """Same folder, then below it, then the shortest path; the others are named."""
    table = PathTable(["p/deep/note.md", "q/note.md", "q/deep/note.md", "long/way/note.md", "q/x.md", "y.md"])

    same = table.resolve("q/x.md", "note", kind)
    elsewhere = table.resolve("y.md", "note", kind)
    below = table.resolve("p/z.md", "note", kind)

    assert ("q/note.md", ("q/deep/note.md", "p/deep/note.md", "long/way/note.md")) == (same.path, same.others)
    assert ("q/note.md", "name", 3) == (elsewhere.path, elsewhere.by, len(elsewhere.others))
    assert "p/deep/note.md" == below.path


def test_a_title_that_two_documents_have_is_ambiguous():
    """The nearest is taken, and the other named."""
    found = TABLE.resolve("b/only one.md", "twin", "wikilink")

    assert ("b/note.md", "title", ("a/x.md",)) == (found.path, found.by, found.others)


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("workflow/branch-naming", "workflow/branch-naming.md"),
        ("note", "note.md"),
        ("deep/y", "a/deep/y.md"),
        ("Solo", "b/only one.md"),
        ("../b/note", "b/note.md"),
        ("c", "c/index.md"),
    ],
)
def test_an_entry_of_related_is_a_path_from_the_root(target, path):
    """Without ending; then it is relative to its document, then a name."""
    assert path == led("a/x.md", target, "related")


def test_a_root_document_is_not_ambiguous():
    """Who writes the whole path means that document, whatever others are called."""
    assert () == TABLE.resolve("a/x.md", "note", "wikilink").others


@given(
    st.text(max_size=40),
    st.sampled_from(["markdown", "reference", "wikilink", "embed", "related"]),
    st.sampled_from(PATHS),
)
def test_any_target_leads_to_a_document_or_nowhere(target, kind, source):
    """Resolution is total, and never leaves the table."""
    found = TABLE.resolve(source, target, kind)

    assert found is None or found.path in TABLE.paths


@given(st.sampled_from(PATHS), st.sampled_from(PATHS))
def test_every_document_can_be_linked_from_every_other(source, goal):
    """By its path from the root, in every way to write a link."""
    assert goal == led(source, f"/{goal}", "markdown")
    assert goal == led(source, goal, "wikilink")
    assert goal == led(source, goal, "related")


def test_thousands_of_one_name_are_no_burden():
    """The nearest of those with the shortest paths is taken, and few others are named."""
    paths = [f"folder{number:05}/index.md" for number in range(2_000)]
    table = PathTable([*paths, "a.md"], [(path, "Untitled") for path in paths])

    found = {number: table.resolve("a.md", "index", "wikilink") for number in range(2_000)}
    titled = {number: table.resolve(paths[number], "untitled", "related") for number in range(2_000)}

    assert {"folder00000/index.md"} == {one.path for one in found.values()}
    assert all(len(one.others) == MOST_OTHERS for one in (*found.values(), *titled.values()))
