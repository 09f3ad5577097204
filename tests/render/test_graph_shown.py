"""The link graph on the command line and for a model: readable, bounded, harmless."""

import json
import re

import pytest

from conftest import synced
from kbhub.reading.neighbours import related, tags
from kbhub.render.documents import related_report, tags_report
from kbhub.render.report import model_answer
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


def test_tags_are_shown_as_a_tree_and_related_by_kind_in_every_format(kbhub, environment):
    assert kbhub("ls", "--tags") == (0, "#ops (2)\n  #ops/red (1)\n", "")
    assert kbhub("ls", "--tags", "--csv").out == '"tag","count","own"\n"ops",2,1\n"ops/red",1,1\n'
    assert kbhub("ls", "--tags", "nothing", "--md").out.startswith("| docid | ref |")
    for arguments in (("--all", "--limit", "3"), ("--hops", "4"), ("--in", "nothing"), ("--json", "--csv")):
        kbhub("ls", "--tags", *arguments, code=2)
    _, out, err = kbhub("ls", "--tags", "ops", "opp", "--limit", "3", code=0)
    assert ["a.md", "b.md", "c.md"] == [line.split()[1] for line in out.splitlines()]
    assert out.rstrip().endswith("hop 1, backlink via b.md")
    assert "No document has the tag opp. Did you mean ops?" in err

    # Headings with counts, documents with line and text, what is broken; JSON is the whole, others are records.
    code, out, err = kbhub("related", "b.md", "--kind", "backlink", "--kind", "tag")
    assert (0, "") == (code, err)
    assert all(part in out for part in ("Linked from (2)", "a.md", "the other"))
    assert "Links to" not in out

    out = kbhub("related", "a.md", "--hops", "0").out
    assert "Links to (1)" in out
    assert "line 6  markdown gone.md  no such document or file" in out
    environment.write("knowledge/d.md", "# D\n\n[[b#B]] and [[c#C|the third]]\n")
    out = kbhub("related", "d.md", "--kind", "link").out
    assert (out.count("at B"), out.count("at C")) == (0, 1)
    whole = kbhub("related", "a.md", "--json", "--hops", "2").json
    assert {"link", "backlink", "tag"} <= {one["kind"] for one in whole["neighbours"]}
    assert kbhub("related", "a.md", "--csv").out.startswith('"kind","direction","hop","docid","ref"')
    assert ",b.md," in kbhub("related", "a.md", "--files", "--kind", "link").out


def test_a_model_is_told_what_is_related_by_kind_or_that_nothing_is(environment, snapshot):
    """Of each neighbour what it shares or says, and how it was reached; docids and scores are left out here."""
    environment.write("knowledge/a.md", "---\ntags: ops\nrelated: [c]\n---\n# A\n\nSee [the other](b.md#Part).\n")
    environment.write("knowledge/b.md", "---\ntags: [ops/red]\n---\n# B\n\n## Part\n\n[back](a.md), [again](a.md)\n")
    environment.write("knowledge/c.md", "---\ntags: ops\nrelated: a\n---\n# C\n")
    environment.write("knowledge/d.md", "# D\n")
    hub, kinds = synced(environment), ("link", "backlink", "related", "tag")
    told, none = (model_answer(related_report(related(hub, ref, limit=1, kinds=kinds)))[0] for ref in ("a.md", "d.md"))
    assert re.sub(r"#[0-9a-f]{6}|\d\.\d\d", "…", told) == snapshot
    assert "Nothing related" in none


def test_hostile_texts_stay_where_they_are(hostile):
    """No line of an answer is theirs, no control character, no fence, no quote that ends ours."""
    own = ("a.md", "- ", "Li", "Sh", "Si", "Br", "5 tags", "2 documents")
    for report in (
        related_report(related(hostile, "a.md", hops=3)),
        tags_report(tags(hostile)),
        tags_report(tags(hostile, ["*"])),
    ):
        told = model_answer(report)[0]
        assert not {"\x1b", "\x07", "\u202e"} & {*told, *text(report)}
        assert "`" not in told
        assert all(line.startswith(own) for line in told.splitlines())
