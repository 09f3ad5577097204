"""Tags are listed as a tree, and the documents of tags come with what links join to them."""

import pytest

from conftest import synced
from kbhub.errors import BaseNotFound, UsageError
from kbhub.reading.neighbours import tags


@pytest.fixture
def hub(environment):
    """Two bases with tags of all sorts, indexed."""
    environment.write("knowledge/a.md", "---\ntags: [Ops, team/red]\n---\n# A\n\n[c](c.md)\n")
    environment.write("knowledge/b.md", "---\ntags: [ops, Team/Blue, team/blue/sky]\nrelated: [d]\n---\n# B\n")
    environment.write("knowledge/c.md", "# C\n\n#inline is text, [e](e.md)\n")
    environment.write("knowledge/d.md", "---\ntags: ops\n---\n# D\n")
    environment.write("knowledge/e.md", "# E\n")
    environment.write(environment.home / "notes/x.md", "---\ntags: [draft, '2024']\n---\n# X\n\n[[project@a]]\n")
    environment.configure(bases={"notes": "~/notes"}, repos={"*": "notes"})
    return synced(environment)


def documents(result):
    return [(one.ref, one.hop, one.via, one.edge) for one in result.documents]


def test_tags_are_listed_with_their_documents_counted(hub):
    """As most often written; those under a tag count for it, each document once, and stand below it."""
    found = tags(hub)

    assert [
        ("ops", 3, 3, 0), ("team", 2, 0, 0), ("team/blue", 1, 1, 1), ("team/blue/sky", 1, 1, 2),
        ("team/red", 1, 1, 1), ("2024", 1, 1, 0), ("draft", 1, 1, 0),
    ] == [(one.tag, one.count, one.own, one.depth) for one in found.tags]  # fmt: skip
    assert (7, 4) == (found.total, found.tagged)


def test_tags_of_some_bases(hub):
    assert ["2024", "draft"] == [one.tag for one in tags(hub, bases=["notes"]).tags]
    with pytest.raises(BaseNotFound):
        tags(hub, bases=["nothing"])


def test_the_most_frequent_are_listed_first_or_all(hub):
    assert ["ops", "team"] == [one.tag for one in tags(hub, limit=2).tags]
    assert 7 == tags(hub, limit=2).total
    assert tags(hub).tags == tags(hub, limit=2, everything=True).tags


def test_documents_that_have_any_of_some_tags(hub):
    """Several names mean any of them, and a tag those under it; case does not matter."""
    for names, found in (
        ("ops", ["a.md", "b.md", "d.md"]), ("#OPS", ["a.md", "b.md", "d.md"]), ("team", ["a.md", "b.md"]),
        ("team/blue", ["b.md"]), ("team/*", ["a.md", "b.md"]), ("draft team/red", ["a.md", "notes@x.md"]),
        ("*", ["a.md", "b.md", "d.md", "notes@x.md"]), ("2024", ["notes@x.md"]), ("inline", []),
    ):  # fmt: skip
        result = tags(hub, names.split(), hops=0)
        assert found == [one.ref for one in result.documents]
        assert (len(found), len(found)) == (result.tagged, result.total)


def test_what_links_join_to_them_comes_after_them(hub):
    """Marked with the hops and the way, also from other bases."""
    first = [("a.md", 0, None, None), ("c.md", 1, "a.md", "link"), ("notes@x.md", 1, "a.md", "backlink")]
    for hops, found in (
        (1, first),
        (2, [*first, ("e.md", 2, "c.md", "link")]),
        (3, [*first, ("e.md", 2, "c.md", "link")]),
    ):
        assert documents(tags(hub, ["team/red"], hops=hops)) == found
    assert [("b.md", 0, None, None), ("d.md", 1, "b.md", "related")] == documents(tags(hub, ["team/blue"]))


def test_a_name_that_is_no_tag_is_said(hub):
    result = tags(hub, ["opps", "red", "draft", "zebra"], hops=0)

    assert {"opps": ("ops",), "red": ("team/red",), "zebra": ()} == result.unknown
    assert ["notes@x.md"] == [one.ref for one in result.documents]


def test_what_cannot_be_meant_is_refused(hub):
    for wrong in ({"hops": 4}, {"limit": 0}, {"names": ["#"]}, {"names": ["", "ops"]}):
        with pytest.raises(UsageError):
            tags(hub, **wrong)


def test_a_base_without_index_is_named(environment):
    environment.write("knowledge/a.md", "---\ntags: x\n---\n")

    result = tags(environment.hub())

    assert ["project"] == [one.base for one in result.skipped]
    assert () == result.tags
