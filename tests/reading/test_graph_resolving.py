"""A link leads where GitHub and Obsidian take it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbhub.reading.links import MOST_OTHERS, PathTable

PATHS = [
    *("README.md", "note.md", "a/note.md", "a/x.md", "a/deep/note.md", "a/deep/y.md", "b/note.md", "b/only one.md"),
    *("b/Café.md", "c/index.md", "c/page.markdown", "d/README.md", "d/index.md", "e/plan.txt"),
    *("workflow/branch-naming.md", "dotted/v1.2.md"),
]
NAMES = [
    ("b/only one.md", "The Only One"), ("b/only one.md", "Solo"), ("a/x.md", "Twin"), ("b/note.md", "Twin"),
    ("c/page.markdown", "CI/CD: how"),
]  # fmt: skip
TABLE = PathTable(PATHS, NAMES)


def led(source, target, kind):
    found = TABLE.resolve(source, target, kind)
    return found and found.path


def test_a_path_is_one_from_the_documents_folder():
    """Markdown links go by path, with or without ending and case; a folder has a page; nothing leads out."""
    for target, path in {
        "note.md": "a/note.md", "./note.md": "a/note.md", "../note.md": "note.md", "/b/note.md": "b/note.md",
        "/note.md": "note.md", "deep/note": "a/deep/note.md", "b/note.md": "b/note.md",
        "../b/only one.md": "b/only one.md", "../b/ONLY One.md": "b/only one.md", "../b/Cafe\u0301.md": "b/Café.md",
        "../c": "c/index.md", "../c/": "c/index.md", "../d": "d/README.md", "..": "README.md", "/": "README.md",
        "../c/page": "c/page.markdown", "../e/plan.txt": "e/plan.txt", "only one.md": "b/only one.md", "": "a/x.md",
        "v1.2": "dotted/v1.2.md", "note.html": "a/note.md", "../c/page.html": "c/page.markdown",
        "../../note.md": None, "/b/../../note.md": None, "./only one.md": None,
        "The Only One": None, "../e/plan": None, "gone.md": None,
    }.items():  # fmt: skip
        assert path == led("a/x.md", target, "markdown"), target


def test_a_link_by_the_address_on_a_documentation_site_leads_to_its_page():
    """By the root of the site, slug, id, a name without its number, and from the page as from a folder."""
    paths = ["docs/adr/0003-cache.mdx", "docs/guides/index.md", "docs/native-setup.md", "docs/cli/plan.md", "docs/b.md"]
    table = PathTable(paths, (), [("docs/native-setup.md", "/native/setup"), ("docs/b.md", "bee")])
    inner = PathTable(path.removeprefix("docs/") for path in paths)
    leads = {
        "/adr/cache": "docs/adr/0003-cache.mdx", "./cache": "docs/adr/0003-cache.mdx",
        "/guides/": "docs/guides/index.md", "/docs/cli/plan": "docs/cli/plan.md",
        "../../cli/plan": "docs/cli/plan.md", "/native/setup": "docs/native-setup.md", "../bee": "docs/b.md",
        "/plan": None, "../../../../b": None,
    }  # fmt: skip
    found = {target: table.resolve("docs/adr/0004-queue.md", target, "markdown") for target in leads}

    assert leads == {target: one and one.path for target, one in found.items()}
    assert found["/adr/cache"].by == "site"
    assert inner.resolve("b.md", "/docs/cli/plan.md", "markdown").path == "cli/plan.md"
    assert inner.resolve("b.md", "/other/cli/plan.md", "wikilink") is None


def test_a_wikilink_is_a_path_from_the_root_or_a_name():
    """Exact path first, then relative, then file name, title and alias."""
    for target, path in {
        "note": "note.md", "b/note": "b/note.md", "deep/note": "a/deep/note.md", "./note": "a/note.md",
        "../b/note": "b/note.md", "only one": "b/only one.md", "Only One.md": "b/only one.md",
        "the only one": "b/only one.md", "SOLO": "b/only one.md", "CI/CD: how": "c/page.markdown",
        "branch-naming": "workflow/branch-naming.md", "c": "c/index.md", "ly one": None, "plan": None, "": "a/x.md",
    }.items():  # fmt: skip
        assert path == led("a/x.md", target, "wikilink"), target


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
    found = TABLE.resolve("b/only one.md", "twin", "wikilink")

    assert ("b/note.md", "title", ("a/x.md",)) == (found.path, found.by, found.others)


def test_an_entry_of_related_is_a_path_from_the_root():
    """Without ending; then it is relative to its document, then a name."""
    for target, path in {
        "workflow/branch-naming": "workflow/branch-naming.md", "note": "note.md", "deep/y": "a/deep/y.md",
        "Solo": "b/only one.md", "../b/note": "b/note.md", "c": "c/index.md",
    }.items():  # fmt: skip
        assert path == led("a/x.md", target, "related"), target


def test_a_root_document_is_not_ambiguous():
    """Who writes the whole path means that document, whatever others are called."""
    assert () == TABLE.resolve("a/x.md", "note", "wikilink").others


@given(
    st.text(max_size=40),
    st.sampled_from(["markdown", "reference", "wikilink", "embed", "related"]),
    st.sampled_from(PATHS),
)
def test_any_target_leads_to_a_document_or_nowhere(target, kind, source):
    found = TABLE.resolve(source, target, kind)

    assert found is None or found.path in TABLE.paths


@given(st.sampled_from(PATHS), st.sampled_from(PATHS))
def test_every_document_can_be_linked_from_every_other(source, goal):
    assert goal == led(source, f"/{goal}", "markdown")
    assert goal == led(source, goal, "wikilink")
    assert goal == led(source, goal, "related")


def test_thousands_of_one_name_are_no_burden():
    paths = [f"folder{number:05}/index.md" for number in range(1_000)]
    table = PathTable([*paths, "a.md"], [(path, "Untitled") for path in paths])

    found = {number: table.resolve("a.md", "index", "wikilink") for number in range(1_000)}
    titled = {number: table.resolve(paths[number], "untitled", "related") for number in range(1_000)}

    assert {"folder00000/index.md"} == {one.path for one in found.values()}
    assert all(len(one.others) == MOST_OTHERS for one in (*found.values(), *titled.values()))
