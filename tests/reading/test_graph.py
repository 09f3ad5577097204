"""What is related to a document is found over all bases, and what leads nowhere is said."""

from collections import Counter

import pytest

from conftest import synced
from kbhub.errors import DocumentNotFound, IndexUnavailable, UsageError
from kbhub.reading.graph import resolved_links
from kbhub.reading.neighbours import related

DEPLOY = """---
aliases: [Shipping]
tags: [deploy, team/ops]
related:
  - runbooks/rollback
  - "[[Canary|one in ten]]"
  - ops@oncall
  - nowhere
  - https://example.com/page
---
# Deploying

Look at [how to go back](../runbooks/rollback.md#by-hand), and
again [back](../runbooks/rollback.md) or [[Canary#watch]].

![[plan.png]] and [the script](../deploy.sh), [source](../../src/main.py), [gone](gone.md),
[far](../../../../elsewhere.md), [on call][oncall], [[ops@oncall]], [[nobase@x]], [mine](#deploying).

[oncall]: ops@oncall.md
"""


@pytest.fixture
def shop(environment):
    """A project base and two global ones, linked to each other."""
    for path, text in {
        "knowledge/guides/deploy.md": DEPLOY,
        "knowledge/runbooks/rollback.md": "---\ntags: deploy\n---\n# Roll back\n\n## By hand\n\nCopy.\n",
        "knowledge/runbooks/canary.md": "---\ntags: [Deploy, team]\n---\n# Canary\n\nOr [back](rollback.md).\n",
        "knowledge/alone.md": "# Alone\n\nPenguins live in the cold south.\n",
        **dict.fromkeys(("knowledge/img/plan.png", "knowledge/deploy.sh", "src/main.py"), "true\n"),
        environment.home / "ops/oncall.md": "# On call\n\nRead [[project@Shipping]] and [p](../notes/p.md).\n",
        environment.home / "notes/p.md": "---\nrelated: project@Roll back\n---\n# Page\n\nEmpty.\n",
    }.items():
        environment.write(path, text)
    environment.configure(bases={"ops": "~/ops", "notes": "~/notes"}, repos={"*": ["ops", "notes"]})
    return environment


@pytest.fixture
def hub(shop):
    """A hub over them, indexed."""
    return synced(shop)


def of(result, kind):
    return [one for one in result.neighbours if one.kind == kind]


def refs(result, kind):
    return [one.ref for one in of(result, kind)]


def test_links_come_with_line_text_and_heading(hub):
    """In the order of the document, each document once, links into other bases among them, also by the real path."""
    links = of(related(hub, "guides/deploy.md"), "link")

    assert [
        ("runbooks/rollback.md", 13, "how to go back", "by-hand", 2),
        ("runbooks/canary.md", 14, "Canary#watch", "watch", 1),
        ("ops@oncall.md", 17, "on call", "", 2),
    ] == [(one.ref, one.line, one.context, one.heading, one.count) for one in links]
    assert {("out", 1, None)} == {(one.direction, one.hop, one.via) for one in links}
    assert ["Roll back", "Canary", "On call"] == [one.title for one in links]
    assert refs(related(hub, "ops@oncall.md"), "link")[1:] == ["notes@p.md"]

    found = of(related(hub, "Shipping"), "backlink")
    assert [("ops@oncall.md", 3, "in")] == [(one.ref, one.line, one.direction) for one in found]


def test_related_goes_both_ways_and_is_marked(hub):
    """`related` without ending, in brackets, with a base; and who names the document so."""
    out = of(related(hub, "guides/deploy.md"), "related")
    back = of(related(hub, "runbooks/rollback.md"), "related")

    assert [("runbooks/rollback.md", 5), ("runbooks/canary.md", 6), ("ops@oncall.md", 7)] == [
        (one.ref, one.line) for one in out
    ]
    assert {"out"} == {one.direction for one in out}
    assert {("guides/deploy.md", "in"), ("notes@p.md", "in")} == {(one.ref, one.direction) for one in back}


def test_what_leads_to_no_document_is_said(hub):
    """Broken links as they stand, places outside, and other files, which are not broken; with all links of a base."""
    left = [(one.status, one.target, one.line) for one in related(hub, "guides/deploy.md").left]

    assert [
        ("broken", "nowhere", 8), ("broken", "gone.md", 16), ("broken", "nobase@x", 17),
        ("outside", "../../../../elsewhere.md", 17), ("file", "plan.png", 16), ("file", "../deploy.sh", 16),
        ("file", "../../src/main.py", 16),
    ] == left  # fmt: skip

    found = resolved_links(hub, *hub.select(["project"]))
    assert sorted({one.path for one in found}) == list(dict.fromkeys(one.path for one in found))
    assert {"document": 10, "broken": 3, "outside": 1, "file": 3} == Counter(one.status for one in found)
    own = next(one for one in found if one.by == "itself")
    assert (("project", "guides/deploy.md"), "deploying") == (own.goal, own.fragment)
    assert all((one.goal is None) == bool(one.why) == (one.status != "document") for one in found)


def test_nothing_outside_is_looked_at(environment):
    """A link that leads out of the base is no way to learn which files a machine has."""
    environment.write(environment.home / "secret.txt", "secret")
    environment.write("knowledge/a.md", "[a](secret.txt) [b](../../../home/secret.txt) [c](/secret.txt) [d](\0)\n")
    (environment.project / "knowledge" / "secret.txt").symlink_to(environment.home / "secret.txt")
    hub = synced(environment)

    left = {one.target: one.status for one in related(hub, "a.md").left}

    assert "file" not in left.values()
    assert "outside" == left["../../../home/secret.txt"]


def test_hops_go_on_from_what_was_reached(hub):
    """Each document at its fewest hops, with the one before it; at none, what there is one hop away is counted."""
    reached = {("runbooks/canary.md", 1, None), ("guides/deploy.md", 1, None), ("notes@p.md", 1, None)}
    for hops, more in ((1, set()), (2, {("ops@oncall.md", 2, "guides/deploy.md")})):
        found = related(hub, "runbooks/rollback.md", hops=hops, kinds=("link", "backlink", "related")).neighbours
        assert reached | more == {(one.ref, one.hop, one.via) for one in found}
        assert len({one.ref for one in found if one.hop > 1}) == len([one for one in found if one.hop > 1])

    result = related(hub, "guides/deploy.md", hops=0)
    assert () == result.neighbours
    assert {"link": 3, "backlink": 1, "related": 3, "tag": 2} == result.totals
    assert 7 == len(result.left)


def test_rare_tags_weigh_more(environment):
    environment.write("knowledge/a.md", "---\ntags: [all, rare/one]\n---\n# A\n")
    for name, tags in {"b": "all", "c": "RARE/One", "d": "rare", "e": "all", "f": "all"}.items():
        environment.write(f"knowledge/{name}.md", f"---\ntags: [{tags}]\n---\n# {name}\n")
    hub = synced(environment)

    found = of(related(hub, "a.md", kinds=("tag",)), "tag")

    assert ["c.md", "d.md", "b.md", "e.md", "f.md"] == [one.ref for one in found]
    assert ["#rare/one", "#rare", "#all", "#all", "#all"] == [one.context.lower() for one in found]
    assert 1 > found[0].score > found[1].score > found[2].score == found[3].score > 0


def test_documents_of_like_meaning_are_near(environment):
    """Over all bases, best first, itself left out, and what is about something else left out too."""
    environment.write("knowledge/a.md", "# Database backups\n\nBack up the database to another server every night.\n")
    environment.write("knowledge/b.md", "# Penguins\n\nEmperor penguins breed on the ice in winter.\n")
    environment.write(
        environment.home / "ops/c.md", "# Backing up\n\nA nightly database backup goes to a second server.\n"
    )
    environment.configure(bases={"ops": "~/ops"}, repos={"*": "ops"})
    hub = synced(environment)

    found = of(related(hub, "a.md"), "near")
    assert ["ops@c.md"] == [one.ref for one in found]
    assert 0.4 < found[0].score <= 1

    environment.configure(embedder={"model": "none"})
    assert 0 == related(synced(environment), "a.md").totals["near"]


def test_a_document_goes_by_every_ref_that_read_takes(hub):
    for ref in ("guides/deploy", "deploying", "Shipping", "project@Shipping", "guides/deploy.md:3:2"):
        result = related(hub, ref, hops=0)
        assert "guides/deploy.md" == result.ref
        assert result == related(hub, result.docid, hops=0)


def test_what_cannot_be_meant_is_refused(hub, shop):
    """Also a ref to a document that is in no index yet, which is told from one that is not there."""
    shop.write("knowledge/new.md", "# New\n")
    for ref, told in {
        "guides/deplyo.md": r"Did you mean .*guides/deploy\.md",
        "new.md": "kbhub admin index project",
    }.items():
        with pytest.raises(DocumentNotFound, match=told):
            related(hub, ref)
    for wrong in ({"hops": 4}, {"hops": -1}, {"limit": 0}, {"kinds": ("friend",)}):
        with pytest.raises(UsageError, match=r"must be|Kinds: "):
            related(hub, "guides/deploy.md", **wrong)


def test_of_many_neighbours_some_are_shown_and_all_counted(environment):
    environment.write("knowledge/hub.md", "# Hub\n")
    for number in range(30):
        environment.write(f"knowledge/n{number:02}.md", "[h](hub.md)\n" * (2 if number == 17 else 1))
    hub = synced(environment)

    result = related(hub, "hub.md", limit=3)

    assert ["n17.md", "n00.md", "n01.md"] == refs(result, "backlink")
    assert 30 == result.totals["backlink"]


def test_an_ambiguous_link_takes_the_nearest_and_says_so(environment):
    environment.write("knowledge/x.md", "[[note]]\n")
    environment.write("knowledge/a/note.md", "# A\n")
    environment.write("knowledge/b/deep/note.md", "# B\n")
    hub = synced(environment)

    (link,) = of(related(hub, "x.md"), "link")

    assert ("a/note.md", ("b/deep/note.md",)) == (link.ref, link.ambiguous)


def test_a_base_that_cannot_be_looked_at_is_named_and_refs_of_others_stay_theirs(hub, shop):
    shop.write("knowledge/ops@sign.md", "# A sign\n\n[alone](alone.md)\n")
    hub.sync()
    (ops,) = hub.select(["ops"])
    hub.index(ops).path.write_bytes(b"no index")

    result = related(hub, "guides/deploy.md")

    assert ["ops"] == [one.base for one in result.skipped]
    assert ["runbooks/rollback.md", "runbooks/canary.md"] == refs(result, "link")
    assert "outside" == next(one for one in result.left if one.target == "ops@oncall").status
    with pytest.raises(IndexUnavailable):
        resolved_links(hub, ops)
    assert related(hub, "project@ops@sign.md").ref == "project@ops@sign.md"


def test_the_root_of_a_repository_counts_as_on_github(environment):
    """A path that begins with a slash is one from the base, else from the repository."""
    environment.write("knowledge/a.md", "[b](/knowledge/b.md) [s](/src/x.py) [n](/src/y.py)\n")
    environment.write("knowledge/b.md", "# B\n")
    environment.write("src/x.py", "pass\n")

    result = related(synced(environment), "a.md")
    assert ["b.md"] == refs(result, "link")
    assert {"/src/x.py": "file", "/src/y.py": "broken"} == {one.target: one.status for one in result.left}


def test_odd_values_of_related_do_no_harm(environment):
    environment.write(
        "knowledge/1.md", "---\nrelated: [1, null, true, [b, [b]], {c: d}, '', '[[]]', '#x']\n---\n# One\n"
    )
    environment.write("knowledge/b.md", "---\nRelated: 1\n---\n# B\n")
    hub = synced(environment)

    result = related(hub, "1.md")

    assert [("b.md", "out"), ("b.md", "in")] == [(one.ref, one.direction) for one in of(result, "related")]
    assert 1 == result.totals["related"]
    assert () == result.left
