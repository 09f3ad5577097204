"""An audit finds what is wrong, says where and what to do, and is quiet about what is right."""

import json
import time

import pytest

from kbhub.editing.audit import audit
from kbhub.editing.findings import CHECKS
from kbhub.errors import BaseNotFound, UsageError
from kbhub.memory.changes import remember
from kbhub.render.documents import audit_report
from kbhub.render.report import FULL_ANSWER_BYTES, model_answer
from kbhub.render.terminal import text as text_of

SAME = " ".join(f"word{number} and the rest of sentence {number}" for number in range(60))


@pytest.fixture
def audited(environment):
    """Writes documents into the project's knowledge and, if told, a base `notes`; gives what an audit finds."""

    def run(files=None, *, names=(), checks=(), hub=None, notes=None, **options):
        for path, text in (files or {}).items():
            environment.write(f"knowledge/{path}", text)
        for path, text in (notes or {}).items():
            environment.write(environment.home / "notes" / path, text)
        hub = hub or environment.hub(**({"bases": {"notes": environment.home / "notes"}} if notes else {}))
        hub.sync()
        return audit(hub, names, checks=checks, **options)

    return run


def lines(report):
    """What was found, as (ref, line, severity, check)."""
    return [(one.ref, one.line, one.severity, one.check) for one in report.findings]


def only(report):
    (finding,) = report.findings
    return finding


def test_a_broken_link_is_an_error_with_its_line_and_the_document_that_was_meant(audited):
    """Numbers make another document: `eip-7` is not suggested to somebody who wrote `eip-8`."""
    files = {"a.md": "# A\n\nSee [x](runbooks/rollbak.md).\n\n[x](eip-8.md)\n", "runbooks/rollback.md": "# R\n"}
    found, other = audited(files | {"eip-7.md": "# 7\n"}, checks=["links"]).findings
    assert (found.ref, found.line, found.severity) == ("a.md", 3, "error")
    assert found.message == "The link to 'runbooks/rollbak.md' is broken: no such document or file."
    assert found.remedy.startswith("Did you mean 'runbooks/rollback.md'? ")
    assert found.others == ("runbooks/rollback.md",)
    assert found.docid.startswith("#")
    assert other.others == ()


def test_links_that_lead_somewhere_are_left_alone(audited, environment):
    environment.write("src/app.py", "x = 1\n")
    text = """# A

[b](b.md) [b](./b.md#part-two) [b](<b.md>) [[b]] [[b#Part two|that]] ![[b]] [f](data.csv) [g](sub/) [up](../src/app.py)
[s](https://example.com/no.md) `[c](gone.md)` [self](#a) [ref]

```
[c](gone.md)
```

[ref]: b.md
"""
    files = {"a.md": text, "b.md": "# B\n\n## Part two\n\n[[a]]\n", "data.csv": "1\n", "sub/README.md": "# S\n"}
    assert audited(files).findings == ()


BROKEN = """[[gone]]
![[gone]]
[x](gone.md)
[x][r]
[x](sub/gone.png)
![x](gone.png)
![](img/gone.png)
![x][pic]
[![x](gone.png)](a.md)
![x](gone%20.png)

[r]: gone.md
[pic]: gone.png
"""


def test_every_way_to_write_a_link_or_an_image_and_every_entry_of_related_is_checked(audited):
    report = audited({"a.md": BROKEN}, checks=["links"])
    assert lines(report) == [("a.md", line, "error", "links") for line in range(1, 11)]
    assert ["The image '" in one.message for one in report.findings] == [False] * 5 + [True] * 5
    front = "---\nrelated:\n  - b\n  - sub/c.md\n  - gone/d\n  - project@b\n---\n# A\n"
    report = audited({"a.md": front, "b.md": "# B\n", "sub/c.md": "# C\n"}, checks=["related"])
    assert lines(report) == [("a.md", 5, "error", "related")]
    assert "'gone/d'" in only(report).message


SOUND = """# A

![x](there.png) ![x](./there.png#part) ![x](/there.png?raw=true) ![x](far.png) ![x](img/far.png)
![x](<with space.png> "title") ![x](with%20space.png) ![x](b.md) ![x][pic] `![x](gone.png)` <img src="gone.png">
![x](https://example.org/gone.png) ![x](//example.org/gone.png) ![x](data:image/png;base64,aGk=)

```
![x](gone.png)
```

[pic]: https://example.org/gone.png
"""


def test_an_image_that_is_there_or_elsewhere_is_left_alone(audited, environment):
    """Beside the document, below the base, by name alone as in Obsidian, on the web; it joins no documents."""
    for path in ("there.png", "img/far.png", "with space.png"):
        environment.write(f"knowledge/{path}", b"\x89PNG")
    report = audited({"a.md": SOUND, "b.md": "# B\n"}, checks=["links", "orphans"])
    assert [(one.path, one.check) for one in report.findings] == [("a.md", "orphans"), ("b.md", "orphans")]


def test_links_out_of_everything_are_noted_once_and_never_called_broken(audited):
    """What lies outside is not looked at, so nobody can say that it is not there."""
    report = audited(notes={"a.md": "# A\n\n[x](../../elsewhere/y.md) [z](../z.md)\n"}, checks=["links"])
    assert report.findings == ()
    assert report.notes == ("notes: 2 links lead out of every base and the project; not checked.",)


def test_headings_are_found_as_programs_write_their_anchors(audited):
    """GitHub, Obsidian and site generators make different anchors of one heading; each is one that is there."""
    headings = [
        *("## Rolling back, twice!", "## The `init()` call", "## See [docs](b.md)", "## Über uns", "## 1. Intro"),
        *("## Fixed {#custom}", '<a id="here"></a>', "<h2>In HTML</h2>", "## Twice", "## Twice", "A block. ^abc1"),
        *("## Top part", "### Inner", "Setext\n------", "> ### Why *quoted*?", "## In MDX {/*mdx-id*/}"),
    ]
    anchors = [
        *("rolling-back-twice", "the-init-call", "see-docs", "über-uns", "intro", "custom", "here", "in-html"),
        *("twice-1", "^abc1", "Top part#Inner", "setext", "why-quoted", "mdx-id", "in-mdx", "L10-L20"),
    ]
    files = {"a.md": "".join(f"[[b#{anchor}]]\n" for anchor in anchors), "b.md": "# B\n\n" + "\n\n".join(headings)}
    assert audited(files, checks=["headings"]).findings == ()


def test_an_ambiguous_name_is_told_with_the_others_and_headings_are_looked_for_in_other_bases(audited):
    report = audited({"a.md": "# A\n\n[[setup]]\n", "x/setup.md": "# 1\n", "y/setup.md": "# 2\n"}, checks=["ambiguous"])
    found = only(report)
    assert (found.severity, found.line, found.others) == ("info", 3, ("y/setup.md",))
    assert found.message == "'setup' resolves to 'x/setup.md', but could also mean 'y/setup.md'."
    files = {"a.md": "# A\n\n[[notes@n#There]] [[notes@n#Missing]]\n"}
    report = audited(files, notes={"n.md": "# N\n\n## There\n"}, checks=["links", "headings"], names=["project"])
    assert "'Missing'" in only(report).message


def test_links_that_only_kbhub_follows_are_told(audited):
    """On GitHub case and ending of a path matter; of a name in brackets they do not."""
    paths = ("Guides/setup.md", "guides/Setup", "./GUIDES/setup", "setup.md", "guides/Setup.html", "guides/Setup.md")
    links = [*(f"[x]({path})" for path in paths), "[[SETUP]]"]
    files = {"a.md": "\n".join(links), "guides/Setup.md": "# S\n", "b/c.md": "[x](guides/Setup.md)"}
    report = audited(files, checks=["spelling"])
    assert "'guides/Setup.md' works here, but it resolves only by name or from" in report.findings[-1].message
    found = {one.line: (one.severity, one.fix and one.fix.after) for one in report.findings if one.ref == "a.md"}
    assert found == {
        1: ("warning", "guides/Setup.md"), 2: ("info", "guides/Setup.md"), 3: ("warning", "./guides/Setup.md"),
        4: ("info", None), 5: ("info", None),
    }  # fmt: skip


def test_a_suffix_is_not_missed_where_most_links_have_none(audited):
    assert audited({"a.md": "[b](b) [b](/b) [b](b.md)\n", "b.md": "# B\n"}, checks=["spelling"]).findings == ()
    contents = {"a.md": "# A\n[x](#a) [y](#a) [b](b) [c](c.md)\n", "b.md": "# B\n", "c.md": "# C\n"}
    assert only(audited(contents, checks=["spelling"])).line == 2


def test_front_matter_and_bytes_that_cannot_be_read_are_errors_at_their_lines(audited):
    """The line is the document's, not the parser's; neither hides the other."""
    files = {
        "a.md": "---\ntitle: x\ntags: [a, b\n---\n# A\n",
        "b.md": b"# A\n\nfine\n\ncaf\xe9\n",
        "c.md": b"---\ntags: [a\n---\ncaf\xe9\n",
    }
    front, encoding, *both = audited(files, checks=["encoding", "front-matter"]).findings
    assert (front.ref, front.check, front.line in (3, 4)) == ("a.md", "front-matter", True)
    assert "not valid YAML" in front.message
    assert (encoding.ref, encoding.line, encoding.severity, encoding.check) == ("b.md", 5, "error", "encoding")
    assert encoding.remedy == "Save the file as UTF-8."
    assert {(one.ref, one.check) for one in both} == {("c.md", "encoding"), ("c.md", "front-matter")}


def test_a_converted_file_that_cannot_be_read_is_not_to_be_saved_as_text_and_files_that_no_index_has_are_told(
    audited, parsed_here, environment
):
    found = only(audited({"a.docx": b"PK"}, checks=["encoding"]))
    assert found.message == "It cannot be read (it is no such file, or broken); left out."
    assert found.remedy.startswith("Save it again in the program that wrote it")
    environment.env["KBHUB_LIMITS__FILE_BYTES"] = "1024"
    report = audited({"big.md": "x" * 2000, "small.md": "# S\n"}, checks=["files"])
    assert lines(report) == [("big.md", None, "warning", "files")]
    assert only(report).docid == ""


def test_documents_without_title_or_text_are_told(audited):
    """A title that only the file name gives is none; a heading of the same words is one."""
    report = audited(
        {
            "no-title.md": "Just text.\n", "empty.md": "", "only-front.md": "---\ntags: [a]\n---\n",
            "fine.md": "# fine\n", "named.md": "---\ntitle: named\n---\ntext\n", "section.md": "## section\n",
        },
        checks=["titles"],
    )  # fmt: skip
    assert [(one.ref, one.message) for one in report.findings] == [
        ("empty.md", "The document is empty."),
        ("no-title.md", "No title: neither a heading nor `title` in front matter."),
        ("only-front.md", "The document is empty."),
    ]


def test_stale_documents_are_told_once_for_their_gravest_reason(audited, environment):
    """Past a day that the document names itself is graver than old; the word of a newer one is enough."""
    now = 1_780_272_000.0  # 2026-06-01
    fronts = [
        *("updated: 2019-05-01", "updated: 2026-05-01\nreview: 2026-05-31"),
        *("updated: 2026-05-01\nexpires: 2026-01-01", "updated: 2026-05-01\nstatus: superseded"),
        *("updated: 2026-05-01\nsuperseded_by: 1.md", "updated: 2026-05-01\nreview: 2027-01-01", "supersedes: old"),
    ]
    files = {f"{number}.md": f"---\n{front}\n---\n# A\n" for number, front in enumerate(fronts)}
    report = audited(files | {"old.md": "# Old\n"}, hub=environment.hub(clock=lambda: now), checks=["stale"])
    assert {one.ref: (one.severity, one.line) for one in report.findings} == {
        "0.md": ("info", None), "1.md": ("warning", 3), "2.md": ("warning", 3), "3.md": ("info", 3),
        "4.md": ("info", 3), "old.md": ("info", None),
    }  # fmt: skip
    assert report.findings[-1].message == "It says: superseded by 6.md."
    assert "Not changed for 7.1 years." in [one.message for one in report.findings]


def test_orphans_have_no_link_and_no_tag(audited):
    report = audited(
        {
            "alone.md": "# Alone\n", "self.md": "# Self\n\n[me](#self)\n", "tagged.md": "---\ntags: [a]\n---\n# T\n",
            "source.md": "# S\n\n[[goal]]\n", "goal.md": "# G\n", "related.md": "---\nrelated: [kin]\n---\n# R\n",
            "kin.md": "# K\n", "README.md": "# Readme\n", "x/index.md": "# Index\n", "overview.md": "# O\n",
        },
        checks=["orphans"],
    )  # fmt: skip
    assert [one.ref for one in report.findings] == ["alone.md", "self.md"]


def test_what_the_build_of_a_site_knows_is_no_finding(audited):
    """Folders of pages with any name, pages and headings that the build writes, files beside them; no orphans."""
    text = (
        "# Start\n\n[a](/guide/install/) [b](../cli.md#run) [c](/gone/) [d](../api.md#shop.run) [e](install.md#all)\n\n"
        '=== "Tab"\n\n    ```toml\n    [[tool.shop.matrix]]\n    ```\n\n![f](/img/f.png) [g](/guide/8-0) [h](new)\n'
        "![i](@site/static/img/f.png) [j](@site/handbook/pages/cli.md) [k](@site/handbook/pages/guide/new.md) "
        "[l](/docs/category/guide)\n"
    )
    files = {
        "mkdocs.yml": "docs_dir: handbook/pages\nnav:\n  - Commands: cli.md\n",
        "handbook/pages/guide/start.md": text,
        "handbook/pages/guide/install.md": "---\ntitle: Install\n---\n--8<-- 'INSTALL.md'\n",
        "handbook/pages/guide/7-0.md": "# Seven\n",
        "handbook/pages/guide/8-0.md": "# Eight\n",
        "handbook/pages/guide/new.md": "# New\n",
        "handbook/pages/api.md": "# API\n\n::: shop.run\n",
        "static/img/f.png": "x",
    }
    report = audited(files, checks=["links", "headings", "titles", "spelling", "orphans"])
    assert [one.message for one in report.findings] == ["The link to '/gone/' is broken: no such document or file."]


def test_links_out_of_a_book_and_to_other_projects_are_no_findings(audited):
    files = {
        "../book.toml": "[book]\ntitle = 'Shop'\nsrc = 'knowledge'\n",
        "a.md": "# A\n\n[b](b.html#b) [std](../std/index.html) [gone](gone.html)\n",
        "b.md": "# B\n\n[[TOC]] [[_toc_]]\n",
        "c.rst": "C\n=\n\n:ref:`pip:install` :doc:`Docs <pip:index>` :ref:`guides/gone:Install` :doc:`lost`\n",
    }
    told = {one.message.split("'")[1] for one in audited(files, checks=["links", "spelling"]).findings}
    assert told == {"/guides/gone.rst", "gone.html", "lost.rst"}


def test_tags_that_differ_by_case_or_plural_are_told_the_usual_form(audited):
    """What most documents of all bases write is right; words that only look like a plural are let be."""
    files = {f"{name}.md": "---\ntags: [runbook, https]\n---\n# X\n" for name in "abc"}
    files["d.md"] = "---\ntags:\n  - Runbooks\n  - http\n  - other\n---\n# D\n"
    report = audited(files, checks=["tags"])
    found = only(report)
    assert (found.ref, found.line, found.severity) == ("d.md", 3, "warning")
    assert (found.fix.before, found.fix.after) == ("Runbooks", "runbook")
    notes = {f"{name}.md": "---\ntags: [Deploy]\n---\n# N\n" for name in "xyz"}
    report = audited({"z.md": "---\ntags: [deploy]\n---\n# A\n"}, notes=notes, checks=["tags"])
    assert [(one.ref, one.fix.after) for one in report.findings] == [("d.md", "runbook"), ("z.md", "Deploy")]


def test_the_same_content_is_told_once_per_copy(audited):
    """The first is the one to keep, also across bases; empty files are no copies."""
    same = "# A\n\nThe same text.\n"
    report = audited({"a.md": same, "b.md": same, "e.md": "", "f.md": ""}, notes={"c.md": same}, checks=["duplicates"])
    assert [(one.ref, one.others) for one in report.findings] == [("b.md", ("a.md",)), ("notes@c.md", ("a.md",))]
    assert "content is the same" in report.findings[0].message


def test_versions_of_a_documentation_are_no_duplicates(audited):
    words = " ".join(f"word{number}" for number in range(200))
    files = {f"docs/{path}.md": f"# A\n\n{words}\n" for path in ("v1/a", "v2/a", "v3/b")}
    files |= {"docs/v3/moved/a.md": f"# A\n\n{words} more\n", "c.md": "# A\n\nB.\n"}
    report = audited(files, notes={"docs/v2/c.md": "# A\n\nB.\n"}, checks=["duplicates"])
    assert [(one.ref, one.others) for one in report.findings] == [("notes@docs/v2/c.md", ("c.md",))]


def test_nearly_the_same_text_is_told_with_how_much_is_the_same(audited):
    """Front matter does not count, a changed word does little, another half is another document."""
    words = SAME.split()
    text = "".join(chr(0x4E00 + number * 7) for number in range(400))  # Japanese has no words to split at
    files = {
        "a.md": SAME,
        "ja.md": text,
        "ja2.md": text[:200] + "新" + text[201:],
        "near.md": f"---\ntags: [x]\n---\n{SAME.replace('word7 ', 'changed ')}",
        "half.md": " ".join(words[: len(words) // 2] + [f"new{number}" for number in range(len(words) // 2)]),
        "short.md": "a few words",
        "short2.md": "a few words!",
    }
    report = audited(files, checks=["duplicates"])
    assert [(one.ref, one.others) for one in report.findings] == [("ja2.md", ("ja.md",)), ("near.md", ("a.md",))]
    assert report.findings[1].message.startswith("The text is 9")


def test_one_file_in_two_bases_or_by_two_names_is_no_duplicate(audited, environment):
    environment.write("knowledge/sub/a.md", "# A\n\nText of some length.\n")
    (environment.project / "knowledge" / "README.md").symlink_to("sub/a.md")
    inner = environment.project / "knowledge" / "sub"
    report = audited(hub=environment.hub(bases={"inner": inner}), checks=["duplicates"])
    assert report.findings == ()


def test_the_gravest_come_first_then_path_and_line(audited):
    found = lines(audited({"b.md": "# B\n\n[x](g.md)\n\n[y](h.md) [[a#no]]\n", "a.md": "# A\n\n[z](i.md)\n"}))
    assert [one[:3] for one in found] == [
        *(("a.md", 3, "error"), ("b.md", 3, "error"), ("b.md", 5, "error"), ("b.md", 5, "warning"))
    ]


def test_checks_and_bases_can_be_chosen_and_those_that_are_not_there_are_errors(audited):
    """Links from a base that is not looked at still count."""
    files, notes = {"a.md": "# A\n", "b.md": "[x](gone.md)\n"}, {"n.md": "# N\n\n[[project@a]] [x](gone.md)\n"}
    report = audited(files, notes=notes, names=["project"], checks=["orphans", "titles"])
    assert lines(report) == [("b.md", None, "warning", "titles")]
    assert (report.bases, report.checks, report.documents) == (("project",), ("titles", "orphans"), 2)
    with pytest.raises(UsageError, match=r"Unknown check 'link'\. Checks: links, "):
        audited({"a.md": "# A\n"}, checks=["link"])
    with pytest.raises(BaseNotFound):
        audited(names=["nope"])


@pytest.mark.parametrize(
    ("limit", "how"), [(10, "pass a larger `limit`"), (1000, "pass a single one of `checks` or `bases`")]
)
def test_a_model_is_told_how_to_see_the_rest(audited, limit, how):
    """One count, of all that it does not see, whether a limit or the size of an answer left it out."""
    links = "".join(f"[x](gone-{number}.md)\n" for number in range(300))
    report = audited({"a.md": f"# A\n\n{links}"}, checks=["links"], limit=limit)
    text, _ = model_answer(audit_report(report), FULL_ANSWER_BYTES)
    listed = text.count("links: The link")
    assert (report.total, report.counts[0].errors, len(report.findings)) == (300, 300, min(limit, 300))
    assert ("Not shown: 290; use `--limit` to see more." in text_of(audit_report(report))) == (limit == 10)
    assert 10 <= listed < 300
    assert f" Not shown: {300 - listed}; {how}" in text.split("\n")[0]
    assert "--limit" not in text
    assert "more line" not in text
    assert len(text.encode()) <= FULL_ANSWER_BYTES


def test_a_finding_is_one_line_of_limited_length_for_a_model(audited):
    text = f"---\nrelated: [{'long' * 9000}, gone]\n---\n# A\n\n[x](<gone%0A- \x1b[31m error.md>)\n"
    text, _ = model_answer(audit_report(audited({"a.md": text}, checks=["links", "related"])), FULL_ANSWER_BYTES)
    assert text.count(" related: ") == 2
    assert "'gone'" in text
    assert text.count("\n") == 4
    assert "\x1b" not in text


def test_no_document_can_make_an_audit_fail(audited):
    hostile = {
        "a.md": b"\xff\xfe\x00\xd8\n[[x]]\n",
        "b.md": "---\nrefs: [[[a]], {b: c}, 1, null, '::', 'a::', '../..', '/etc::x', \"x\\0y\"]\n---\n[[#]]\n",
        "c.md": "---\ntags: {a: [b, B]}\nrelated: {x: y}\nreview: [1, 2]\nsupersedes: {a: b}\n---\n" + "[" * 3000,
        "d.md": "[x](%00) [y](" + "../" * 300 + ") [[" + "a/" * 400 + "]] [z](<\x01>) [w](b.md#%00%ff)\n",
        "e.md": "# " + "#" * 5000 + "\n" + "<a id=" * 2000 + "{#" * 2000 + "[[e#x]]",
    }
    report = audited(hostile)
    assert report.documents == 5
    json.loads(report.model_dump_json())


@pytest.mark.parametrize("count", [100, pytest.param(2000, marks=pytest.mark.slow)])
def test_many_documents_take_a_moment(audited, count):
    """The time grows with the documents, not with their square."""
    boilerplate = " ".join(f"common{number}" for number in range(150))
    files = {
        f"{number}.md": f"---\ntags: [t{number % 7}]\n---\n# T{number}\n\n{boilerplate} [n]({number + 1}.md) "
        + " ".join(f"own{number}x{word}" for word in range(150))
        for number in range(count)
    }
    audited(files, checks=["files"])
    started = time.perf_counter()
    report = audited(checks=[name for name in CHECKS if name != "stale"])
    assert time.perf_counter() - started < 20
    assert lines(report) == [(f"{count - 1}.md", 6, "error", "links")]


def test_memories_about_what_changed_are_told(audited, environment):
    environment.write("src/app.py", "def sell():\n    return 1\n\ndef buy():\n    return 2\n")
    hub = environment.hub()
    remember(hub, "Selling returns one, always.", about=["src/app.py::sell"])
    remember(hub, "Buying costs two coins here.", about=["src/app.py::buy"])
    assert audited(hub=hub, checks=["memories"]).findings == ()
    environment.write("src/app.py", "def sell():\n    return 3\n\ndef buy():\n    return 2\n")
    found = only(audited(hub=hub, checks=["memories"]))
    assert (found.severity, found.base) == ("warning", "memory")
    assert "'src/app.py::sell', changed since" in found.message


def test_the_links_of_an_ingested_copy_lead_elsewhere(audited):
    text = "# Copy\n\n[next](next.md) ![plan](plan.png)\n"
    assert [one.ref for one in audited({"sources/a.markdown": text, "sources/b.md": text}).findings if one.line] == [
        "sources/b.md",
        "sources/b.md",
    ]
