"""A ref leads to the text that is on disk now."""

import os

import pytest

import kbhub.reading.read
from conftest import synced
from kbhub.index.references import ParsedRef, parse_reference

DEPLOY = """---
tags: [ops]
---
# Deploy

Push a tag.

## Roll back

Run the rollback job.

### By hand

Copy the old files.

## Canary

One in ten.
"""


@pytest.fixture
def hub(environment):
    """A hub over two indexed bases."""
    for name, text in {
        "guides/deploy.md": DEPLOY, "odd:name#1@home.md": "# Odd\n", "café.md": "coffee\n",
        "release:5-3.md": "# Release\n", ".gitignore": "private.md\n", "private.md": "secret\n", "data.bin": "binary\n",
        environment.home / "notes/vim.md": "# Vim\n", environment.home / "secret.md": "# Outside\n",
    }.items():  # fmt: skip
        environment.write(environment.project / "knowledge" / name, text)
    environment.configure(bases={"notes": "~/notes"}, repos={"*": ["notes"]})
    return synced(environment)


def read(hub, ref):
    result = hub.read([ref])
    assert not result.unread, result.unread
    return result.readings[0]


def test_a_ref_says_what_part_is_wanted():
    for text, meaning in {
        "a.md": ParsedRef("a.md"), "a.md:12": ParsedRef("a.md", 12), "a.md:12:40": ParsedRef("a.md", 12, 40),
        "a.md:12-40": ParsedRef("a.md", 12, 29), "ops@a.md:3": ParsedRef("ops@a.md", 3),
        "#a1b2c3": ParsedRef("#a1b2c3"), "#a1b2c3:5:2": ParsedRef("#a1b2c3", 5, 2),
        "a.md#Roll back": ParsedRef("a.md", heading="Roll back"),
        "a.md::Deploy > Roll back": ParsedRef("a.md", heading="Deploy > Roll back"), "a.md:0": ParsedRef("a.md", 0),
        "a.md:12+5000": ParsedRef("a.md", 12, offset=5000), "a.md:12+5000:3": ParsedRef("a.md", 12, 3, offset=5000),
        "{a,b}.md:2": ParsedRef("{a,b}.md", 2),
    }.items():  # fmt: skip
        assert meaning in parse_reference(text), text


def test_a_document_is_read_whole_and_verbatim(hub, environment):
    """Also one that is not indexed yet."""
    environment.write("knowledge/fresh.md", DEPLOY)
    for ref in ("guides/deploy.md", "fresh.md"):
        reading = read(hub, ref)
        assert (reading.ref, reading.text + "\n", reading.title, reading.rest) == (ref, DEPLOY, "Deploy", None)
        assert (reading.start_line, reading.end_line, reading.total_lines) == (1, 18, 18)


def test_a_part_is_read(hub):
    docid = read(hub, "guides/deploy.md").docid
    for ref, first, last in (
        ("guides/deploy.md:6", "Push a tag.", "One in ten."), ("guides/deploy.md:6:1", "Push a tag.", "Push a tag."),
        ("guides/deploy.md:8-10", "## Roll back", "Run the rollback job."),
        ("guides/deploy.md#Roll back", "## Roll back", "Copy the old files."),
        ("guides/deploy.md#roll-back", "## Roll back", "Copy the old files."),
        ("guides/deploy::Deploy > Roll back > By hand", "### By hand", "Copy the old files."),
        ("guides/deploy", "---", "One in ten."), (docid, "---", "One in ten."),
        (f"{docid}:4:1", "# Deploy", "# Deploy"), ("project@guides/deploy.md:4:1", "# Deploy", "# Deploy"),
        ("notes@vim.md", "# Vim", "# Vim"), ("vim.md", "# Vim", "# Vim"), ("cafe\u0301.md", "coffee", "coffee"),
        ("odd:name#1@home.md", "# Odd", "# Odd"), ("release:5-3", "# Release", "# Release"),
    ):  # fmt: skip
        lines = read(hub, ref).text.strip().split("\n")
        assert (first, last) == (lines[0], lines[-1]), ref


def test_the_end_of_a_path_is_a_ref_if_it_is_the_only_one(hub, environment):
    """Whole names of folders and files, with or without extension; exact paths, titles and the project come first."""
    environment.write("knowledge/docs/contributing/feature-flags.md", "# Flags\n\nOne.\n")
    environment.write("knowledge/docs/deploying/vim.md", "# In the project\n")
    environment.write(environment.home / "notes/old/contributing/feature-flags.md", "# Other flags\n")
    environment.write(environment.home / "notes/old/2024/plan.md", "# Plan\n")
    hub.sync()

    for ref in ("contributing/feature-flags.md", "feature-flags", "./feature-flags.md:1:1", "feature-flags.md#Flags"):
        assert read(hub, ref).ref == "docs/contributing/feature-flags.md"
    assert read(hub, "notes@feature-flags").ref == "notes@old/contributing/feature-flags.md"
    assert read(hub, "2024/plan.md").ref == read(hub, "notes@plan").ref == "notes@old/2024/plan.md"
    assert read(hub, "vim.md").ref == "notes@vim.md"
    for ref in ("flags.md", "tributing/feature-flags.md", "../feature-flags.md", "/feature-flags.md", ".md"):
        assert hub.read([ref]).unread


def test_the_end_of_several_paths_is_no_ref_and_all_are_listed(hub, environment):
    environment.write("knowledge/a/setup/index.md", "# A\n")
    second = environment.write("knowledge/b/setup/index.md", "# B\n")
    hub.sync()

    (unread,) = hub.read(["setup/index.md"]).unread
    assert "ambiguous" in unread.message
    assert "a/setup/index.md, b/setup/index.md" in unread.message
    second.unlink()
    assert read(hub, "setup/index.md").ref == "a/setup/index.md"


def test_several_refs_may_be_one_text(environment):
    """With commas and patterns, and a base before a slash; a title or a name with a comma is one ref."""
    for name, text in (("a, b", "Both"), ("glossary", "Words, explained"), ("x/canary", "C"), ("x/rollback", "R")):
        environment.write(f"knowledge/{name}.md", f"# {text}\n")
    environment.write(f"{environment.home}/handbook/vpn.md", "# Tunnels\n\nTwo.\n")
    environment.write(f"{environment.home}/handbook/dns.md", "# Names\n")
    config = '{"bases": {"ops": "~/handbook"}, "repos": {"*": ["ops"]}, "docsFallback": false}'
    environment.write(f"{environment.home}/.kbhub.json", config)
    hub = synced(environment)
    for refs, found in {
        "x/canary.md,glossary.md": ["x/canary.md", "glossary.md"],
        "glossary.md, ops@vpn.md": ["glossary.md", "ops@vpn.md"], "x/*.md": ["x/canary.md", "x/rollback.md"],
        "x/r*.md,glossary": ["x/rollback.md", "glossary.md"],
        "{glossary,x/canary}.md": ["glossary.md", "x/canary.md"], "project/glossary.md": ["glossary.md"],
        "ops/vpn.md:1-1": ["ops@vpn.md"], "ops/*.md": ["ops@dns.md", "ops@vpn.md"], "ops/Tunnels": ["ops@vpn.md"],
        "a, b.md": ["a, b.md"], "Words, explained": ["glossary.md"],
    }.items():  # fmt: skip
        assert [one.ref for one in hub.read(refs).readings] == [one.ref for one in hub.read([refs]).readings] == found
    environment.write("knowledge/ops/vpn.md", "# Ours\n")
    assert read(hub, "ops/vpn.md").title == "Ours"
    assert read(hub, "ops@vpn.md").title == "Tunnels"


def test_what_cannot_be_read_says_why(hub):
    for ref, message in {
        "guides/deplyo.md": "guides/deploy.md",
        "notes@vmi.md": "notes@vim.md",
        "private.md": "private.md",
        "data.bin": "`include`",
        "../../../home/secret.md": "outside",
        "/etc/passwd": "outside",
        "guides/deploy.md#Nowhere": "Roll back",
        "guides/deploy.md:99": "18 lines",
        **{
            ref: f"{ref!r} is not a valid range of lines"
            for ref in (
                *("guides/deploy.md:5-3", "guides/deploy:0", "guides/deploy.md:0-2", "guides/deploy.md:0:2"),
                *("guides/deploy.md:3:0", "guides/deploy.md:0+5", "guides/*.md:3-2"),
            )
        },
        "guides/deploy.md:99999999999999999999": "18 lines",
        f"guides/deploy.md:{'9' * 5000}": "18 lines",
        f"guides/deploy.md:1-{'9' * 5000}x": "guides/deploy.md",
        f"guides/deploy.md#x{' ' * 5_000}y": "Roll back",
        f"guides/deploy.md#x{' ' * 100_000}y": "at most 8,192 characters",
        "project@": "project@",
        **dict.fromkeys(("#ffffff", "x" * 10_000, "a/" * 5_000, "@", "::", "#", "", "\0"), "search"),
    }.items():
        result = hub.read([ref])
        assert () == result.readings
        assert message in result.unread[0].message

    # What the command line passes on of another encoding can be sent on.
    hub.read(["\udcff.md", "project@\ud800"]).model_dump_json()


@pytest.mark.skipif(os.name != "posix", reason="links need rights elsewhere")
def test_a_link_out_of_the_base_is_not_followed(hub, environment):
    (environment.project / "knowledge" / "leak.md").symlink_to(environment.home / "secret.md")

    assert "outside" in hub.read(["leak.md"]).unread[0].message


def test_a_file_that_may_not_be_read_is_said_to_be_there(environment, bound, closed):
    """Whether it was indexed or not; one that is not there is not found."""
    environment.write("knowledge/deploy.md", DEPLOY)
    synced(environment)
    environment.write("knowledge/shut/deploy.md", DEPLOY)
    closed(environment.project / "knowledge/deploy.md", 0)
    closed(environment.project / "knowledge/shut", 0)
    refs = ("deploy.md", "shut/deploy.md", "gone.md")

    done = bound("read", *refs)
    assert (done.code, done.out) == (1, "")
    *told, gone = done.err.splitlines()[-3:]  # what could not be indexed may stand before it
    for ref, line in zip(refs, told, strict=False):
        said = f"kbhub: No document {ref!r}: it cannot be opened (Permission denied)."
        assert line.startswith(said)
        assert ref not in line.removeprefix(said)
    assert "gone.md" in gone
    assert "Permission" not in gone


def test_what_does_not_fit_is_continued(hub, environment):
    lines = [f"line {number} " + "x" * 100 for number in range(1000)]
    environment.write("knowledge/long.md", "\n".join(lines))
    ref: str | None = "long.md"
    got: list[str] = []
    while ref:
        reading = read(hub, ref)
        assert len(reading.text.encode()) <= kbhub.reading.read.ANSWER_BYTES
        got += reading.text.split("\n")
        assert len(got) <= len(lines)
        ref = reading.rest

    assert lines == got
