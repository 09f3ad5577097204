"""A ref may name a document in many ways; one that names none, or several, is told so and what was meant."""

import hashlib
import math

import pytest

from conftest import synced
from kbhub.errors import UsageError
from kbhub.index.references import MOST_REFS, expand_braces
from kbhub.render.search import read_answer


@pytest.fixture
def shop(environment):
    """A project base and two global ones."""
    environment.write("knowledge/guides/deploy.md", "---\naliases: [Shipping, ship it]\n---\n# Deploying\n\nPush.\n")
    environment.write("knowledge/guides/café.md", "# Café\n\nCoffee.\n")
    environment.write("knowledge/runbooks/rollback.md", "# Roll back\n\nBack.\n\n## By hand\n\nCopy.\n")
    environment.write("knowledge/runbooks/canary.md", "# Canary\n\nOne in ten.\n\n## By hand\n\nWatch.\n")
    environment.write("knowledge/runbooks/old/legacy.md", "# Legacy\n\nGone.\n")
    environment.write("knowledge/notes [old].md", "# Old\n\nBrackets.\n")
    environment.write("knowledge/x{1,2}.md", "# Braces\n\nCurly.\n")
    environment.write("knowledge/twin-a.md", "# Twin\n")
    environment.write("knowledge/twin-b.md", "---\naliases: Twin\n---\n# Other twin\n")
    environment.write("knowledge/.gitignore", "private.md\n")
    environment.write("knowledge/private.md", "secret\n")
    for name in ("adr/0027-language", "adr/index", "adr/0028-menu", "adr-28-x", "de/adr/index", "decisions/31"):
        environment.write(f"knowledge/docs/{name}.md", f"# On {name}\n")
    for name in ("one", "two"):
        environment.write(environment.home / name / "shared.md", f"# Shared {name}\n")
        environment.write(environment.home / name / f"{name}.md", f"# Number {name}\n")
    bases = '{"bases": {"one": "~/one", "two": "~/two"}, "repos": {"*": ["one", "two"]}}'
    environment.write(environment.home / ".kbhub.json", bases)
    return environment


@pytest.fixture
def hub(shop):
    """A hub over them, indexed."""
    return synced(shop)


def refs_of(hub, refs):
    result = hub.read(refs)
    assert not result.unread, result.unread
    return [reading.ref for reading in result.readings]


def refused(hub, ref):
    result = hub.read([ref])
    assert () == result.readings
    (unread,) = result.unread
    return unread.message


def test_a_document_goes_by_title_and_alias(hub, shop):
    path = str(shop.project / "knowledge" / "guides" / "deploy.md")
    names = ("Deploying", "deploying", "Shipping", "ship it", " Shipping ", "project@Shipping", "guides/deploy")
    for ref in (*names, "./guides//deploy.md", "deploy.md", path):
        assert ["guides/deploy.md"] == refs_of(hub, [ref])
    for ref in ("Number two", "two@Number two", "/two/"):
        assert ["two@two.md"] == refs_of(hub, [ref])
    addresses = (f"{site}/adr/{page}" for site in ("", "https://x.org") for page in ("language", "0027-language.html"))
    for ref in (*addresses, "/adr/0027-language/", "adr/0027-language", "ADR-0027", "adr 27", "ADR-27:1"):
        assert ["docs/adr/0027-language.md"] == refs_of(hub, [ref])
    assert ["docs/adr/index.md", "docs/decisions/31.md"] == refs_of(hub, ["/adr/", "ADR-31"])


def test_a_page_is_read_by_its_address_and_the_answer_names_its_path(shop, kbhub):
    """As links have it, below a site's root or without; the end of a path, too, but no address that two pages have."""
    shop.write("knowledge/docs/help/review.mdx", "---\nslug: /review-guide\n---\n# Review\n")
    for place in (shop.home / "one/start.md", "knowledge/packages/a/page.md", "knowledge/packages/b/page.md"):
        shop.write(place, "---\nslug: begin\n---\n# Begin\n")
    hub, path = synced(shop), "docs/help/review.mdx"
    for ref in (
        "/review-guide",
        "/docs/review-guide",
        "docs/review-guide",
        "https://x.org/a/review-guide",
        "review.md",
    ):
        result = hub.read([ref])
        note = f"`{ref}` is read as `{path}`."
        assert ([path], (note,)) == ([one.ref for one in result.readings], result.notes)
    assert ["one@start.md"] == refs_of(hub, ["/docs/begin"])
    assert "packages/a/page.md, packages/b/page.md" in refused(hub, "/begin")
    assert () == hub.read([path, "guides/deploy", "Twin", "ship it"]).notes
    assert read_answer(result).startswith(f"Note: {note}\n\n")
    assert f"kbhub: {note}" in kbhub("read", "review.md", code=0).err
    assert [note] == kbhub("related", "review.md", "--json", code=0).json["notes"]


def test_a_title_may_have_a_part_and_a_comma_and_a_title_does_not_take_the_place_of_a_path(hub, shop):
    """A document cannot answer to the ref of another by calling itself so."""
    shop.write("knowledge/plan.md", "# First, think\n\nThen act.\n")
    hub.sync()
    assert "Push." == hub.read(["Shipping:6:1"]).readings[0].text
    assert "## By hand\n\nCopy." == hub.read(["roll back#By hand"]).readings[0].text
    assert ["plan.md"] == refs_of(hub, "First, think")
    shop.write("knowledge/evil.md", "---\naliases: ['guides/deploy.md', 'guides/deploy.md:4:1']\n---\n# Evil\n")
    hub.sync()
    assert ["guides/deploy.md"] == refs_of(hub, ["guides/deploy.md"])
    assert "# Deploying" == hub.read(["guides/deploy.md:4:1"]).readings[0].text


def test_what_leads_nowhere_is_told_why_and_an_ambiguous_name_refused_and_a_part_of_each_of_a_pattern_read(hub):
    for ref, told in (
        *((ref, "Did you mean guides/deploy.md") for ref in ("guide/deploy.md", "Deployin")),
        *((ref, "excluded by 'private.md'") for ref in ("private", "private.md")),
        ("tow@one.md", "no base 'tow' is active (active: project, one, two)"),
        ("tow@two.md", "two@two.md"),
        *((ref, "it is a folder; to read its documents, use `runbooks/**`") for ref in ("runbooks", "runbooks/")),
        *((ref, "outside all bases") for ref in ("/etc/passwd", "../work/x.md")),
        ("nowhere/*.md", "no indexed document matches"),
        ("runbooks/canary.md#Nowhere", "it has `Canary`, `By hand`"),
        ("runbooks/canary.md:99", "only 7 lines"),
        ("runbooks/canary.md:3+99", "its line 3 has only 11 characters"),
        ("{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}", f"more than {MOST_REFS} refs"),
    ):
        message = refused(hub, ref)

        assert told in message
        assert "\n" not in message

    twins = ("Twin", "twin-a.md, twin-b.md"), ("ADR-28", "docs/adr-28-x.md, docs/adr/0028-menu.md")
    ends = ("adr/index.md", "docs/adr/index.md, docs/de/adr/index.md"), ("shared.md", "one@shared.md, two@shared.md")
    for ref, candidates in (*twins, *ends):
        message = refused(hub, ref)
        assert f"{ref!r} is ambiguous" in message
        assert candidates in message
    headed = hub.read(["runbooks/*.md#By hand"])
    ranged = hub.read(["runbooks/*.md:1:1"])
    assert ["## By hand\n\nWatch.", "## By hand\n\nCopy."] == [reading.text for reading in headed.readings]
    assert ["# Canary", "# Roll back"] == [reading.text for reading in ranged.readings]


def test_the_nearest_of_many_namesakes_comes_first(shop):
    """The same file in a folder of the name that was meant comes before those of other folders."""
    for folder in ("pages.de", "pages.fr", "pages.zh", "pages"):
        shop.write(f"knowledge/{folder}/common/tar.md", f"# tar {folder}\n")
        shop.write(f"knowledge/{folder}/common/taxi.md", f"# taxi {folder}\n")
    hub = shop.hub()
    hub.sync()
    assert "4 documents" in refused(hub, "common/tar.md")
    for asked in ("page/common/tar.md", "pages/linux/tar.md"):
        assert "Did you mean pages/common/tar.md, pages." in refused(hub, asked), asked


def test_names_are_read_without_an_index_and_a_name_that_begins_with_a_dash_goes_after_two_dashes(shop, kbhub):
    hub = shop.hub()
    assert ["guides/deploy.md"] == refs_of(hub, ["guides/deploy"])
    assert "No document 'Shipping'" in refused(hub, "Shipping")
    shop.write("knowledge/-dash.md", "dashed\n")
    assert "Put refs that start with a dash after `--`." in kbhub("read", "-dash.md", code=2).err
    assert kbhub("read", "--", "-dash.md") == (0, "dashed\n", "")


def test_a_reading_has_the_hash_of_its_file_and_a_docid_and_what_is_gone_since_is_not_suggested(hub, shop, monkeypatch):
    data = (shop.project / "knowledge" / "guides" / "deploy.md").read_bytes()
    (reading,) = hub.read(["guides/deploy.md:2:1"]).readings
    assert hashlib.sha256(data).hexdigest()[:12] == reading.hash
    assert f"Did you mean {reading.docid}" in refused(hub, reading.docid.removeprefix("#"))
    monkeypatch.setattr("kbhub.hub.REDISCOVER_SECONDS", math.inf)
    (shop.project / "knowledge" / "runbooks" / "canary.md").unlink()
    (shop.home / "two").rename(shop.home / "moved")
    assert refused(hub, "runbooks/canary.md").startswith("No document 'runbooks/canary.md': its file is gone.")
    assert "Did you mean runbooks/canary.md" not in refused(hub, "runbooks/canary.md")
    assert refused(hub, "two@two.md").startswith(f"No document 'two@two.md': the folder {shop.home / 'two'} is gone.")
    assert "two@two.md?" not in refused(hub, "two@two.md")


def test_braces_are_written_out_and_one_ref_names_several_documents(hub):
    """Patterns as in `.gitignore`, braces and commas; what is named twice is read once, a real name wins."""
    for text, refs in (
        ("a.md", ["a.md"]), ("{a}.md", ["{a}.md"]), ("{a,b}.md", ["a.md", "b.md"]),
        ("{a,b}/{c,d}.md", ["a/c.md", "a/d.md", "b/c.md", "b/d.md"]), ("{a,b{c,d}}", ["a", "bc", "bd"]),
        ("{a,}.md", ["a.md", ".md"]), ("{a,b", ["{a,b"]),
    ):  # fmt: skip
        assert sorted(refs) == sorted(expand_braces(text))
    with pytest.raises(UsageError, match="stands for more than"):
        expand_braces("{a,b}" * 40)

    for refs, found in (
        (["runbooks/**"], ["runbooks/canary.md", "runbooks/old/legacy.md", "runbooks/rollback.md"]),
        (["[cd]*.md"], ["guides/café.md", "guides/deploy.md", "runbooks/canary.md"]),
        *((["two@*.md"], ["two@shared.md", "two@two.md"]), (["one.m?"], ["one@one.md"])),
        (["guides/cafe\u0301.*"], ["guides/café.md"]),
        (["{guides/d*,runbooks/{c,r}*}.md"], ["guides/deploy.md", "runbooks/canary.md", "runbooks/rollback.md"]),
        ("guides/{deploy,café}.md, Canary", ["guides/deploy.md", "guides/café.md", "runbooks/canary.md"]),
        *(([name], [name]) for name in ("notes [old].md", "x{1,2}.md")),
        (["runbooks/canary.md", "runbooks/*.md"], ["runbooks/canary.md", "runbooks/rollback.md"]),
    ):
        assert found == refs_of(hub, refs)
