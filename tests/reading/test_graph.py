"""Links lead where GitHub and Obsidian take them, over all bases; what they, tags and meaning relate is found."""

import time
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import synced
from kbhub.errors import BaseNotFound, DocumentNotFound, IndexUnavailable, UsageError
from kbhub.reading.graph import resolved_links
from kbhub.reading.links import MOST_OTHERS, PathTable
from kbhub.reading.neighbours import related, tags

DEPLOY = Path(__file__).with_name("linked.md").read_text("utf-8")


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


def test_links_come_with_line_text_and_heading_and_what_leads_to_no_document_is_said(hub):
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

    # Broken links as they stand, places outside, and other files, which are not broken; with all links of a base.
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


def test_nothing_outside_is_looked_at_and_the_root_of_a_repository_counts_as_on_github(environment):
    """A link that leads out of the base is no way to learn which files a machine has."""
    environment.write(environment.home / "secret.txt", "secret")
    environment.write("knowledge/a.md", "[a](secret.txt) [b](../../../home/secret.txt) [c](/secret.txt) [d](\0)\n")
    (environment.project / "knowledge" / "secret.txt").symlink_to(environment.home / "secret.txt")
    hub = synced(environment)
    left = {one.target: one.status for one in related(hub, "a.md").left}
    assert "file" not in left.values()
    assert "outside" == left["../../../home/secret.txt"]

    # A path that begins with a slash is one from the base, else from the repository.
    environment.write("knowledge/a.md", "[b](/knowledge/b.md) [s](/src/x.py) [n](/src/y.py)\n")
    environment.write("knowledge/b.md", "# B\n")
    environment.write("src/x.py", "pass\n")
    result = related(synced(environment), "a.md")
    assert ["b.md"] == refs(result, "link")
    assert {"/src/x.py": "file", "/src/y.py": "broken"} == {one.target: one.status for one in result.left}


def test_hops_go_on_from_what_was_reached_and_what_is_named_as_related_goes_both_ways(hub):
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

    # `related` without ending, in brackets, with a base; and who names the document so.
    out = of(related(hub, "guides/deploy.md"), "related")
    back = of(related(hub, "runbooks/rollback.md"), "related")
    assert [("runbooks/rollback.md", 5), ("runbooks/canary.md", 6), ("ops@oncall.md", 7)] == [
        (one.ref, one.line) for one in out
    ]
    assert {"out"} == {one.direction for one in out}
    assert {("guides/deploy.md", "in"), ("notes@p.md", "in")} == {(one.ref, one.direction) for one in back}


def test_rare_tags_weigh_more_and_documents_of_like_meaning_are_near(environment):
    environment.write("knowledge/a.md", "---\ntags: [all, rare/one]\n---\n# A\n")
    for name, tag in {"b": "all", "c": "RARE/One", "d": "rare", "e": "all", "f": "all"}.items():
        environment.write(f"knowledge/{name}.md", f"---\ntags: [{tag}]\n---\n# {name}\n")
    hub = synced(environment)
    found = of(related(hub, "a.md", kinds=("tag",)), "tag")
    assert ["c.md", "d.md", "b.md", "e.md", "f.md"] == [one.ref for one in found]
    assert ["#rare/one", "#rare", "#all", "#all", "#all"] == [one.context.lower() for one in found]
    assert 1 > found[0].score > found[1].score > found[2].score == found[3].score > 0

    # Over all bases, best first, itself left out, and what is about something else left out too.
    environment.write("knowledge/a.md", "# Database backups\n\nBack up the database to another server every night.\n")
    environment.write("knowledge/b.md", "# Penguins\n\nEmperor penguins breed on the ice in winter.\n")
    text = "# Backing up\n\nA nightly database backup goes to a second server.\n"
    environment.write(environment.home / "ops/c.md", text)
    environment.configure(bases={"ops": "~/ops"}, repos={"*": "ops"})
    hub = synced(environment)

    found = of(related(hub, "a.md"), "near")
    assert ["ops@c.md"] == [one.ref for one in found]
    assert 0.4 < found[0].score <= 1
    for version in ("v1", "v2"):
        environment.write(environment.home / f"ops/{version}/c.md", text)
    assert ["ops@c.md", "a.md"] == [one.ref for one in of(related(synced(environment), "ops@v2/c.md"), "near")]

    environment.configure(embedder={"model": "none"})
    assert 0 == related(synced(environment), "a.md").totals["near"]


def test_what_cannot_be_meant_is_refused(hub, shop):
    """Also a ref to a document that is in no index yet."""
    shop.write("knowledge/new.md", "# New\n")
    with pytest.raises(DocumentNotFound, match="kbhub admin index project"):
        related(hub, "new.md")
    for wrong in ({"hops": 4}, {"hops": -1}, {"limit": 0}, {"kinds": ("friend",)}):
        with pytest.raises(UsageError, match=r"must be|Kinds: "):
            related(hub, "guides/deploy.md", **wrong)


def test_of_many_neighbours_some_are_shown_and_all_counted_and_of_namesakes_the_nearest_is_taken(environment):
    environment.write("knowledge/hub.md", "# Hub\n\n[[note]]\n")
    for path in ("a/note", "b/deep/note"):
        environment.write(f"knowledge/{path}.md", "# A note\n")
    for number in range(30):
        environment.write(f"knowledge/n{number:02}.md", "[h](hub.md)\n" * (2 if number == 17 else 1))
    hub = synced(environment)
    result = related(hub, "hub.md", limit=3)
    assert ["n17.md", "n00.md", "n01.md"] == refs(result, "backlink")
    assert 30 == result.totals["backlink"]
    assert [("a/note.md", ("b/deep/note.md",))] == [(one.ref, one.ambiguous) for one in of(result, "link")]


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


def test_odd_values_of_related_do_no_harm(environment):
    environment.write("knowledge/1.md", "---\nrelated: [1, null, true, [b, [b]], {c: d}, '', '[[]]', '#x']\n---\n# 1\n")
    environment.write("knowledge/b.md", "---\nRelated: 1\n---\n# B\n")
    hub = synced(environment)
    result = related(hub, "1.md")
    assert [("b.md", "out"), ("b.md", "in")] == [(one.ref, one.direction) for one in of(result, "related")]
    assert 1 == result.totals["related"]
    assert () == result.left


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


def test_a_path_is_one_from_the_documents_folder_and_a_wikilink_or_related_one_from_the_root_or_a_name():
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

    # Exact path first, then relative, then file name, title and alias; a whole path is not ambiguous.
    for target, path in {
        "note": "note.md", "b/note": "b/note.md", "deep/note": "a/deep/note.md", "./note": "a/note.md",
        "../b/note": "b/note.md", "only one": "b/only one.md", "Only One.md": "b/only one.md",
        "the only one": "b/only one.md", "SOLO": "b/only one.md", "CI/CD: how": "c/page.markdown",
        "branch-naming": "workflow/branch-naming.md", "c": "c/index.md", "ly one": None, "plan": None, "": "a/x.md",
    }.items():  # fmt: skip
        assert path == led("a/x.md", target, "wikilink"), target
    assert () == TABLE.resolve("a/x.md", "note", "wikilink").others
    twin = TABLE.resolve("b/only one.md", "twin", "wikilink")
    assert ("b/note.md", "title", ("a/x.md",)) == (twin.path, twin.by, twin.others)

    for target, path in {
        "workflow/branch-naming": "workflow/branch-naming.md", "note": "note.md", "deep/y": "a/deep/y.md",
        "Solo": "b/only one.md", "../b/note": "b/note.md", "c": "c/index.md",
    }.items():  # fmt: skip
        assert path == led("a/x.md", target, "related"), target


def test_a_link_by_the_address_on_a_documentation_site_leads_to_its_page_whose_root_may_be_a_folder_above():
    """By the root of the site, slug, id, a name without its number, and from the page as from a folder."""
    paths = ["docs/adr/0003-cache.mdx", "docs/guides/index.md", "docs/native-setup.md", "docs/cli/plan.md", "docs/b.md"]
    paths.append("docs/adr/0004-cache.mdx")
    table = PathTable(paths, (), [("docs/native-setup.md", "/native/setup"), ("docs/b.md", "bee")], ["docs"])
    inner = PathTable(path.removeprefix("docs/") for path in paths)
    leads = {
        "/adr/cache": "docs/adr/0003-cache.mdx", "./cache": "docs/adr/0003-cache.mdx",
        "/guides/": "docs/guides/index.md", "/docs/cli/plan": "docs/cli/plan.md",
        "../../cli/plan": "docs/cli/plan.md", "/native/setup": "docs/native-setup.md", "../bee": "docs/b.md",
        "/docs/native/setup": "docs/native-setup.md", "@site/docs/b.md": "docs/b.md", "/adr/0004-cache": paths[-1],
        "/plan": None, "../../../../b": None, "@sites/b": None,
    }  # fmt: skip
    found = {target: table.resolve("docs/adr/0004-queue.md", target, "markdown") for target in leads}
    assert leads == {target: one and one.path for target, one in found.items()}
    assert found["/adr/cache"].by == "site"
    for target in ("/docs/cli/plan.md", "@site/docs/cli/plan.md"):
        assert inner.resolve("b.md", target, "markdown").path == "cli/plan.md"
    assert inner.resolve("b.md", "/other/cli/plan.md", "wikilink") is None

    # As Hugo, VitePress, Starlight and Jekyll have it; a path that leads out of it is none.
    paths = [
        "README.md", "content/en/_index.md", "content/en/flux/_index.md", "content/en/flux/cmd/get.md",
        "content/de/flux/cmd/get.md", "x.md",
    ]  # fmt: skip
    paths += ["content/en/blog/2021-06-08-bug/index.md", "_posts/2021-06-09-fix.md", "_posts/2022-06-09-fix.md", "p.md"]
    slugs = [(paths[6], "bug-scrub"), ("p.md", "/about/us/"), (paths[8], 7)]
    table = PathTable(paths, [("x.md", "/old/x/"), ("x.md", "/en/flux/cmd/get")], slugs)
    leads = {
        "/flux/cmd/get/": "content/en/flux/cmd/get.md", "/flux/": "content/en/flux/_index.md",
        "/flux/cmd/get.html": "content/en/flux/cmd/get.md", "/old/x": "x.md", "/about/us": "p.md",
        "/blog/2021/06/bug-scrub/": "content/en/blog/2021-06-08-bug/index.md",
        "/news/2021/06/09/fix.html": "_posts/2021-06-09-fix.md", "/news/2021/07/09/fix/": None,
        "/2022/06/7/": "_posts/2022-06-09-fix.md", "/en/flux/cmd/get": "content/en/flux/cmd/get.md",
        "/cmd/../../../x": None, "/get": None, "/cmd/get": None, "/": "content/en/_index.md",
    }  # fmt: skip
    found = {target: table.resolve("content/en/flux/start.md", target, "markdown") for target in leads}
    assert leads == {target: one and one.path for target, one in found.items()}
    inside = PathTable(["en/flux/get.md", "de/flux/get.md"])
    assert inside.resolve("de/start.md", "/flux/get/", "markdown").path == "de/flux/get.md"
    many, began = PathTable(f"docs/{number}.md" for number in range(5000)), time.process_time()
    assert not any(many.resolve("docs/1.md", f"/other/{number}/x", "markdown") for number in range(5000))
    assert time.process_time() - began < 3


@pytest.mark.parametrize("kind", ["wikilink", "embed", "related"])
def test_of_several_of_one_name_the_nearest_is_meant_and_it_is_said(kind):
    """Same folder, then below it, then with most folders in common, then the shortest path; the others are named."""
    table = PathTable(["p/deep/note.md", "q/note.md", "q/deep/note.md", "long/way/note.md", "q/x.md", "y.md"])
    same = table.resolve("q/x.md", "note", kind)
    elsewhere = table.resolve("y.md", "note", kind)
    below = table.resolve("p/z.md", "note", kind)
    assert ("q/note.md", ("q/deep/note.md", "p/deep/note.md", "long/way/note.md")) == (same.path, same.others)
    assert ("q/note.md", "name", 3) == (elsewhere.path, elsewhere.by, len(elsewhere.others))
    assert "p/deep/note.md" == below.path
    languages = PathTable(["bn/sync/note.md", "da/deep/sync/note.md", "da/ext/x.md"])
    assert "da/deep/sync/note.md" == languages.resolve("da/ext/x.md", "note", kind).path


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
    paths = [f"folder{number:05}/index.md" for number in range(300)]
    table = PathTable([*paths, "a.md"], [(path, "Untitled") for path in paths])
    found = {number: table.resolve("a.md", "index", "wikilink") for number in range(300)}
    titled = {number: table.resolve(paths[number], "untitled", "related") for number in range(300)}
    assert {"folder00000/index.md"} == {one.path for one in found.values()}
    assert all(len(one.others) == MOST_OTHERS for one in (*found.values(), *titled.values()))


@pytest.fixture
def tagged(environment):
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


def test_tags_are_listed_with_their_documents_counted_and_a_name_that_is_no_tag_is_said_or_refused(tagged):
    """As most often written; those under a tag count for it, each document once, and stand below it."""
    found = tags(tagged)
    assert [
        ("ops", 3, 3, 0), ("team", 2, 0, 0), ("team/blue", 1, 1, 1), ("team/blue/sky", 1, 1, 2),
        ("team/red", 1, 1, 1), ("2024", 1, 1, 0), ("draft", 1, 1, 0),
    ] == [(one.tag, one.count, one.own, one.depth) for one in found.tags]  # fmt: skip
    assert (7, 4) == (found.total, found.tagged)
    assert ["2024", "draft"] == [one.tag for one in tags(tagged, bases=["notes"]).tags]
    with pytest.raises(BaseNotFound):
        tags(tagged, bases=["nothing"])
    assert ["ops", "team"] == [one.tag for one in tags(tagged, limit=2).tags]
    assert 7 == tags(tagged, limit=2).total
    assert tags(tagged).tags == tags(tagged, limit=2, everything=True).tags

    result = tags(tagged, ["opps", "red", "draft", "zebra"], hops=0)
    assert {"opps": ("ops",), "red": ("team/red",), "zebra": ()} == result.unknown
    assert ["notes@x.md"] == [one.ref for one in result.documents]
    for wrong in ({"hops": 4}, {"limit": 0}, {"names": ["#"]}, {"names": ["", "ops"]}):
        with pytest.raises(UsageError):
            tags(tagged, **wrong)


def test_what_links_join_to_them_comes_after_them_and_documents_that_have_any_of_some_tags(tagged):
    """Marked with the hops and the way, also from other bases.

    Several names mean any of them, and a tag those under it; case does not matter.
    """
    first = [("a.md", 0, None, None), ("c.md", 1, "a.md", "link"), ("notes@x.md", 1, "a.md", "backlink")]
    for hops, found in (
        (1, first),
        (2, [*first, ("e.md", 2, "c.md", "link")]),
        (3, [*first, ("e.md", 2, "c.md", "link")]),
    ):
        assert documents(tags(tagged, ["team/red"], hops=hops)) == found
    assert [("b.md", 0, None, None), ("d.md", 1, "b.md", "related")] == documents(tags(tagged, ["team/blue"]))

    for names, found in (
        ("ops", ["a.md", "b.md", "d.md"]), ("#OPS", ["a.md", "b.md", "d.md"]), ("team", ["a.md", "b.md"]),
        ("team/blue", ["b.md"]), ("team/*", ["a.md", "b.md"]), ("draft team/red", ["a.md", "notes@x.md"]),
        ("*", ["a.md", "b.md", "d.md", "notes@x.md"]), ("2024", ["notes@x.md"]), ("inline", []),
    ):  # fmt: skip
        result = tags(tagged, names.split(), hops=0)
        assert found == [one.ref for one in result.documents]
        assert (len(found), len(found)) == (result.tagged, result.total)
