"""A ref leads to the text that is on disk now, in answers that keep their size, and the rest can be asked for."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conftest import synced
from kbhub.errors import UsageError
from kbhub.index.references import ParsedRef, parse_reference
from kbhub.reading.read import ANSWER_BYTES, FRAME_BYTES, LEAST_BYTES, ReadOptions

DEPLOY = Path(__file__).with_name("sections.md").read_text("utf-8")


@pytest.fixture
def hub(environment):
    """A hub over two indexed bases."""
    for name, text in {
        "guides/deploy.md": DEPLOY, "odd:name#1@home.md": "# Odd\n", "café.md": "coffee\n",
        "release:5-3.md": "# Release\n", "data.bin": "binary\n",
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


def test_a_part_is_read_and_what_cannot_be_read_says_why(hub):
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

    for ref, message in {
        "data.bin": "`include`",
        "../../../home/secret.md": "outside",
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
        **dict.fromkeys(("#ffffff", "x" * 10_000, "a/" * 5_000, "@", "::", "#", "", "\0"), "Search for it"),
    }.items():
        result = hub.read([ref])
        assert () == result.readings
        assert message in result.unread[0].message

    # What the command line passes on of another encoding can be sent on.
    hub.read(["\udcff.md", "project@\ud800"]).model_dump_json()


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


STEPS = 2_000
"""Bound of the loops that read on."""


def whole(hub, ref, options=None):
    """Read on until nothing is left; give the text, and how many answers it took."""
    text = ""
    for step in range(STEPS):
        (reading,) = hub.read([ref], options).readings
        size, room = len(reading.text.encode()), options.document_bytes if options else ANSWER_BYTES
        assert size <= room or len(reading.text) == 1
        text += reading.text if step == 0 or reading.offset else f"\n{reading.text}"
        if reading.rest is None:
            return text, step + 1
        ref = reading.rest
    raise AssertionError("reading on does not end")


def pages(hub, refs, options=None):
    """Give every page of some refs."""
    options = options or ReadOptions()
    found = [hub.read(refs, options)]
    while found[-1].cursor:
        assert len(found) < STEPS
        found.append(hub.read(refs, ReadOptions(**{**_fields(options), "cursor": found[-1].cursor})))
    return found


def _fields(options):
    return {name: getattr(options, name) for name in ReadOptions.__slots__}


def size_of(result):
    return sum(len((reading.text + reading.ref + reading.title).encode()) + FRAME_BYTES for reading in result.readings)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(
    lines=st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), max_size=40), max_size=20),
    room=st.integers(1, 60),
)
def test_any_document_is_read_to_its_end_in_pieces_of_any_size(environment, lines, room):
    text = "\n".join(["# Any", *lines, "end"])
    environment.write("knowledge/any.md", text)
    read, _ = whole(environment.hub(), "any.md", ReadOptions(document_bytes=room))
    assert text == read


def test_a_reading_says_how_far_it_goes_and_reading_on_stays_in_the_part_that_was_asked_for(environment):
    environment.write("knowledge/a.md", "one\n" + "x" * 100 + "\nthree\n")
    hub = environment.hub()

    first = hub.read(["a.md"], ReadOptions(document_bytes=50)).readings[0]
    second = hub.read([first.rest], ReadOptions(document_bytes=50)).readings[0]
    third = hub.read([second.rest], ReadOptions(document_bytes=50)).readings[0]
    assert ("one\n" + "x" * 46, 1, 2, 0) == (first.text, first.start_line, first.end_line, first.offset)
    assert ("x" * 50, 2, 2, 46) == (second.text, second.start_line, second.end_line, second.offset)
    assert ("xxxx\nthree", 2, 3, 96) == (third.text, third.start_line, third.end_line, third.offset)
    assert ["a.md:2+46:2", "a.md:2+96:2", None] == [one.rest for one in (first, second, third)]

    environment.write("knowledge/a.md", "# A\n\n## B\n\n" + "x" * 500 + "\nlast of b\n\n## C\n\nnot asked for\n")
    hub = environment.hub()
    assert whole(hub, "a.md#B", ReadOptions(document_bytes=100))[0].startswith("## B\n\nxxx")
    assert whole(hub, "a.md#B", ReadOptions(document_bytes=100))[0].rstrip().endswith("x\nlast of b")
    assert "x" * 490 == whole(hub, "a.md:5+10:1", ReadOptions(document_bytes=100))[0]


def test_many_documents_come_in_pages_with_a_cursor_of_their_refs_only(environment):
    """Each within its size, all documents once, in order; the last has no cursor, and another list's is refused."""
    for number in range(60):
        environment.write(f"knowledge/n{number:03}.md", f"# Note {number}\n\n{'about it ' * (number * 14)}\n")
    hub = synced(environment)

    found = pages(hub, ["*.md"])
    assert [f"n{number:03}.md" for number in range(60)] == [one.ref for page in found for one in page.readings]
    assert {60} == {page.total for page in found}
    assert 2 <= len(found) <= 40
    for page in found:
        assert () == page.unread
        assert size_of(page) <= ANSWER_BYTES + len("# Note 999")
    for one in (one for page in found for one in page.readings if one.rest):
        assert len(one.text) > LEAST_BYTES // 2  # nobody is given a few words

    cursor = hub.read("*.md").cursor
    assert cursor
    with pytest.raises(UsageError, match="to other refs"):
        hub.read("n*.md", ReadOptions(cursor=cursor))
    with pytest.raises(UsageError, match="not one from kbhub"):
        hub.read("*.md", ReadOptions(cursor="page 2"))


def test_several_documents_share_an_answer_line_numbers_take_their_room_and_a_failure_does_not_end_a_page(environment):
    """Three of which one is short: the others get more than a third each."""
    environment.write("knowledge/short.md", "short\n")
    for name in ("long", "longer"):
        environment.write(f"knowledge/{name}.md", "".join(f"{name} {number}\n" for number in range(5_000)))
    result = environment.hub().read(["short.md", "long.md", "longer.md"])
    assert [None] == [one.rest for one in result.readings if one.ref == "short.md"]
    assert all(len(one.text) > ANSWER_BYTES / 3 + 1_000 for one in result.readings if one.ref != "short.md")
    assert size_of(result) <= ANSWER_BYTES + len("longer")

    # Refs that lead nowhere count with those that lead somewhere; of each document the beginning fits its limit.
    environment.write("knowledge/a.md", "x\n" * 20_000)
    hub = environment.hub()
    plain = hub.read(["a.md"]).readings[0]
    numbered = hub.read(["a.md"], ReadOptions(line_numbers=True)).readings[0]
    assert set(plain.text) == set(numbered.text) == {"x", "\n"}
    assert plain.end_line > 4 * numbered.end_line
    environment.write("knowledge/a.md", "# A\n" + "line\n" * 100)
    result = environment.hub().read(["nope.md", "a.md", "neither.md"], ReadOptions(document_bytes=30))
    assert [(one.ref, one.rest, len(one.text) <= 30) for one in result.readings] == [("a.md", "a.md:7:95", True)]
    assert ([one.ref for one in result.unread], result.total, result.cursor) == (["nope.md", "neither.md"], 3, None)
