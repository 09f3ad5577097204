"""A project's `docs/` is searched beside its `knowledge/`, and every document of both can be named."""

import pytest

from conftest import synced
from kbhub.editing.audit import audit
from kbhub.reading.graph import resolved_links
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


def test_links_between_them_are_followed(shop):
    hub = synced(shop)
    links = [link for base in hub.discovery().bases for link in resolved_links(hub, base)]
    assert {(link.path, link.status, link.goal) for link in links} == {
        ("caching.md", "document", ("docs", "docs/guide/crates.md")),
        ("docs/guide/crates.md", "document", ("project", "caching.md")),
        ("README.md", "file", None),
    }
    assert [one.check for one in audit(hub).findings if "link" in one.check] == []
