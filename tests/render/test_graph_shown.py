"""The link graph on the command line and for a model: readable, bounded, harmless."""

from __future__ import annotations

import json

import pytest

from conftest import synced
from kbhub.reading.neighbours import related, tags
from kbhub.render.documents import related_report, tags_report
from kbhub.render.model import answer
from kbhub.render.terminal import text

HOSTILE = '\x1b]0;owned\x07\u202egnp ``` " · fake'


@pytest.fixture
def kbhub(kbhub, environment):
    """Runs a command in this process, in a project with three documents."""
    environment.write("knowledge/a.md", "---\ntags: ops\n---\n# A\n\nSee [the other](b.md) and [none](gone.md).\n")
    environment.write("knowledge/b.md", "---\ntags: [ops/red]\n---\n# B\n\nNothing.\n")
    environment.write("knowledge/c.md", "# C\n\n[b](b.md)\n")
    return kbhub


@pytest.fixture
def hostile(environment):
    """A hub over documents that try to break out of an answer."""
    tags_line = json.dumps([f"{HOSTILE}\n# x"])
    environment.write('knowledge/odd `".md', f"---\ntags: {tags_line}\ntitle: {json.dumps(HOSTILE)}\n---\n[[a]]\n")
    link = HOSTILE.replace("`", "'")
    environment.write("knowledge/a.md", f"---\ntags: {tags_line}\n---\n# A\n\n[{link}](<{link}.md>)\n")
    return synced(environment)


def test_related_is_shown_by_kind(kbhub):
    """Headings with counts, documents with docid, line and text, then what is broken."""
    code, out, err = kbhub("related", "b.md", "--kind", "backlink", "--kind", "tag")
    assert (0, "") == (code, err)
    assert "Linked from (2)" in out
    assert "a.md" in out
    assert "the other" in out
    assert "Links to" not in out

    _, out, _ = kbhub("related", "a.md", "--hops", "0")
    assert "Links to (1)" in out
    assert "line 6  markdown gone.md  no such document or file" in out


def test_related_and_tags_in_every_format(kbhub):
    """JSON is the whole answer, the others are records; also valid when there is nothing to list."""
    _, out, _ = kbhub("related", "a.md", "--json", "--hops", "2")
    assert {"link", "backlink", "tag"} <= {one["kind"] for one in json.loads(out)["neighbours"]}
    _, out, _ = kbhub("related", "a.md", "--csv")
    assert out.startswith('"kind","direction","hop","docid","ref"')
    _, out, _ = kbhub("related", "a.md", "--files", "--kind", "link")
    assert ",b.md," in out
    _, out, _ = kbhub("ls", "--tags", "--csv")
    assert '"tag","count","own"\n"ops",2,1\n"ops/red",1,1\n' == out
    _, out, _ = kbhub("ls", "--tags", "nothing", "--md")
    assert out.startswith("| docid | ref |")


def test_tags_are_shown_as_a_tree(kbhub):
    assert kbhub("ls", "--tags") == (0, "#ops (2)\n  #ops/red (1)\n", "")


def test_documents_of_tags_are_shown_with_their_way(kbhub):
    code, out, err = kbhub("ls", "--tags", "ops", "opp", "--limit", "3")

    assert 0 == code
    assert ["a.md", "b.md", "c.md"] == [line.split()[1] for line in out.splitlines()]
    assert out.rstrip().endswith("hop 1, backlink via b.md")
    assert "No document has the tag opp. Did you mean ops?" in err


def test_wrong_usage_of_tags(kbhub):
    for arguments in (("--all", "--limit", "3"), ("--hops", "4"), ("--in", "nothing"), ("--json", "--csv")):
        kbhub("ls", "--tags", *arguments, code=2)


def test_hostile_texts_stay_where_they_are(hostile):
    """No line of an answer is theirs, no control character, no fence, no quote that ends ours."""
    own = ("a.md", "- ", "Li", "Sh", "Si", "Br", "5 tags", "2 documents")
    for report in (
        related_report(related(hostile, "a.md", hops=3)),
        tags_report(tags(hostile)),
        tags_report(tags(hostile, ["*"])),
    ):
        told = answer(report)[0]
        assert not {"\x1b", "\x07", "\u202e"} & {*told, *text(report)}
        assert "`" not in told
        assert all(line.startswith(own) for line in told.splitlines())


def test_a_lonely_document_is_said_to_be_one(environment):
    environment.write("knowledge/a.md", "# A\n")
    hub = synced(environment)

    assert "Nothing related" in answer(related_report(related(hub, "a.md")))[0]
