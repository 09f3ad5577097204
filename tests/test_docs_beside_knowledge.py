"""A project's `docs/` is searched beside its `knowledge/`, and every document of both can be named."""

import pytest

from kbhub.editing import delete_document, write_document
from kbhub.editing.audit import audit
from kbhub.errors import WriteRefused
from kbhub.reading.faults import resolved_links
from kbhub.reading.read import read

REFS = {"caching.md", "README.md", "docs@README.md", "docs@docs/caching.md", "docs@docs/guide/crates.md"}


@pytest.fixture
def shop(environment):
    """A repository with documents of the same names in both places, which link to each other."""
    environment.write("knowledge/caching.md", "# Caching crates\n\nSee [the guide](../docs/guide/crates.md).\n")
    environment.write("knowledge/README.md", "# What we know about crates\n")
    environment.write("README.md", "# Shop of crates\n\nThe code is in [src](src/shop.py).\n")
    environment.write("docs/caching.md", "# Caching crates, for users\n")
    environment.write("docs/guide/crates.md", "# Crates\n\nWhy: [caching](../../knowledge/caching.md).\n")
    environment.write("src/shop.py", "crates = 1\n")
    return environment


def test_every_ref_that_search_prints_can_be_read(shop, kbhub):
    hits = kbhub("search", "crates", "-n", "20", "--json", code=0).json["hits"]
    assert {hit["ref"] for hit in hits} == REFS
    for hit in hits:
        (reading,) = read(shop.hub(), [hit["ref"]]).readings
        assert (reading.ref, reading.title) == (hit["ref"], hit["title"])
        assert kbhub("read", hit["docid"], code=0).out == kbhub("read", hit["ref"], code=0).out


@pytest.mark.parametrize(
    ("ref", "title"),
    [
        ("docs/guide/crates.md", "Crates"),
        ("docs/caching.md", "Caching crates, for users"),
        ("README.md", "What we know about crates"),
    ],
)
def test_refs_from_before_still_lead_somewhere(shop, ref, title):
    assert [reading.title for reading in read(shop.hub(), [ref]).readings] == [title]


def test_links_between_them_are_followed(shop):
    hub = shop.hub()
    hub.sync()
    links = [link for base in hub.discovery().bases for link in resolved_links(hub, base)]
    assert {(link.base, link.path, link.status, link.goal) for link in links} == {
        ("project", "caching.md", "document", ("docs", "docs/guide/crates.md")),
        ("docs", "docs/guide/crates.md", "document", ("project", "caching.md")),
        ("docs", "README.md", "file", None),
    }
    assert [one.check for one in audit(hub).findings if "link" in one.check] == []


def test_the_listings_show_both(shop, kbhub):
    assert {one["ref"] for one in kbhub("ls", "--json", code=0).json["documents"]} == REFS
    assert [one["ref"] for one in kbhub("ls", "docs/guide", "--json", code=0).json["documents"]] == [
        "docs@docs/guide/crates.md"
    ]
    assert [one["base"]["id"] for one in kbhub("status", "--json", code=0).json["bases"]] == ["project", "docs"]
    shop.write("docs/guide/crates.md", "# Crates are boxes\n")
    assert "docs@docs/guide/crates.md" in kbhub("search", "boxes", code=0).out


def test_only_knowledge_is_written_to(shop):
    hub = shop.hub()
    assert write_document(hub, "new", text="# New\n").ref == "new.md"
    assert (shop.project / "knowledge/new.md").exists()
    for act in (
        lambda: write_document(hub, "docs@docs/new.md", text="# New\n"),
        lambda: write_document(hub, "docs/caching.md", text="# New\n"),
        lambda: delete_document(hub, "docs@docs/caching.md"),
    ):
        with pytest.raises(WriteRefused, match="read-only"):
            act()
    assert (shop.project / "docs/caching.md").read_text() == "# Caching crates, for users\n"
