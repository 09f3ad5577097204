"""Texts of files that were rotated away stay searchable, until they are forgotten."""

import json
import os
import shutil
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest

from conftest import synced
from kbhub.documents.walk import KEPT
from kbhub.errors import UsageError
from kbhub.sync.comparison import DeletedTexts, change_keeping
from kbhub.types import Query
from office_files import a_docx, paragraph
from pdfs import a_pdf

TURNS = b"".join(
    json.dumps({"type": role, "sessionId": "s-1", "message": {"role": role, "content": text}}).encode() + b"\n"
    for role, text in (("user", "Why is the pump loud?"), ("assistant", "The bearing is worn."))
)


class Place:
    """A base of logs and notes whose logs are kept."""

    def __init__(self, environment, patterns=("*.jsonl",)):
        self.environment = environment
        self.folder = environment.home / "logs"
        self.configure(patterns)
        self.write("2026/a.jsonl", TURNS)
        self.write("b.jsonl", TURNS.replace(b"pump", b"fan"))

    def configure(self, patterns, **more):
        base = {"knowledge": "~/logs", "kind": "session", "keepDeleted": list(patterns), **more}
        self.environment.configure(bases={"logs": base}, repos={"*": "logs"})

    def write(self, path, data):
        return self.environment.write(self.folder / path, data)

    def sync(self, **options):
        """Open a new hub, as another process would, and sync."""
        self.hub = self.environment.hub()
        (self.report,) = self.hub.sync(["logs"], **options)
        return self.report

    def found(self, words="bearing"):
        return sorted(hit.path for hit in self.hub.search(Query(text=words, mode="keyword", limit=50)).hits)

    @property
    def kept(self) -> list[Path]:
        return sorted((Path(self.environment.env["KBHUB_DATA_DIR"]) / KEPT).rglob("*.kept"))


@pytest.fixture
def place(environment):
    made = Place(environment)
    made.sync()
    return made


@pytest.mark.parametrize("how", ["full", "cache deleted", "folder of the file deleted"])
def test_it_survives_rebuilds(place, how):
    shutil.rmtree(place.folder / "2026")
    if how != "full":
        place.sync()
        shutil.rmtree(place.environment.env["KBHUB_CACHE_DIR"])
    place.sync(full=how == "full")
    assert ["2026/a.jsonl", "b.jsonl"] == place.found()


def test_a_file_that_comes_back_is_a_file_again_and_since_when_it_is_deleted_starts_anew_and_survives_a_rebuild(place):
    file = place.folder / "b.jsonl"
    file.unlink()
    place.sync()
    place.write("b.jsonl", TURNS.replace(b"bearing", b"gasket"))
    place.sync()
    assert ["2026/a.jsonl"] == place.found()
    assert ["b.jsonl"] == place.found("gasket")

    # The day is that on which the file was first missed, and a file that was there again was not.
    (place.folder / "b.jsonl").unlink()
    place.sync()
    keeping = DeletedTexts(Path(place.environment.env["KBHUB_DATA_DIR"]) / KEPT, place.hub.discovery().bases[0])
    first = keeping.gone_since("b.jsonl")
    place.sync(full=True)
    assert first == keeping.gone_since("b.jsonl")

    place.write("b.jsonl", TURNS.replace(b"pump", b"fan"))
    place.sync()
    assert keeping.gone_since("b.jsonl") is None
    (place.folder / "b.jsonl").unlink()
    place.sync()
    assert keeping.gone_since("b.jsonl") > first
    assert "loud" in place.hub.read(["logs@b.jsonl"]).readings[0].text


def test_patterns_count_as_they_are_now(environment):
    """One that comes later keeps what is indexed already; what is unwanted or excluded stays until it is forgotten."""
    place = Place(environment, [])
    place.sync()
    assert place.kept == []
    place.configure(["*"])
    place.sync()
    (place.folder / "b.jsonl").unlink()
    for patterns, more, found in (
        (["*"], {}, ["2026/a.jsonl", "b.jsonl"]),
        ([], {}, ["2026/a.jsonl"]),
        (["*"], {"exclude": ["b.jsonl"]}, ["2026/a.jsonl"]),
        (["*"], {}, ["2026/a.jsonl", "b.jsonl"]),
    ):
        place.configure(patterns, **more)
        place.sync()
        assert place.found() == found


def test_what_is_kept_is_text_for_its_owner_alone_and_what_was_deleted_is_still_found_and_read(place):
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (*place.kept, place.kept[0].parent)}
    assert len(place.kept) == 2
    assert modes == ({0o600, 0o700} if os.name != "nt" else modes)
    before = place.hub.read(["logs@2026/a.jsonl"]).readings[0]
    (place.folder / "2026" / "a.jsonl").unlink()
    for report in (place.sync(), place.sync()):
        assert (0, 0, 0, 2) == (report.added, report.changed, report.removed, report.unchanged)
    assert () == place.hub.freshen()
    after = place.hub.read(["logs@2026/a.jsonl"]).readings[0]
    assert ["2026/a.jsonl", "b.jsonl"] == place.found()
    assert (before.text, before.hash, before.docid) == (after.text, after.hash, after.docid)
    assert place.hub.search(Query(text="loud pump")).hits[0].kind == "session"


def test_other_formats_are_kept_too(environment, parsed_here):
    environment.configure(bases={"n": {"knowledge": "~/n", "keepDeleted": ["*"]}}, repos={"*": "n"})
    files = {
        "note.md": "---\ntags: [ops]\n---\n# Note\n\nonions [x](y.md)\n", "guide.rst": "Guide\n=====\n\nleeks\n",
        "manual.pdf": a_pdf("valve torque", title="Valves"), "pump.docx": a_docx(paragraph("Intake", "heading1")),
    }  # fmt: skip
    for name, data in files.items():
        environment.write(environment.home / "n" / name, data)
    hub, refs = synced(environment), ["n@note.md", "n@manual.pdf", "n@guide.rst#Guide", "n@pump.docx#Intake"]
    before = hub.read(refs)
    for name in files:
        (environment.home / "n" / name).unlink()
    hub = environment.hub()
    hub.sync(full=True)

    after = hub.read(refs).readings
    assert before.readings == tuple(one.model_copy(update={"deleted": None}) for one in after)
    assert all("deleted" in one.deleted for one in after)
    found = [hub.search(Query(text=text)).hits[0] for text in ("valve torque", "onions", "intake")]
    assert [("pdf", "Valves"), ("document", "Note"), ("docx", "Pump manual")] == [
        (one.kind, one.title) for one in found
    ]


def test_a_damaged_copy_does_no_harm(place):
    shutil.rmtree(place.folder / "2026")
    for path in place.kept:
        head = path.read_bytes().partition(b"\n")[0]
        if b"2026" in head:
            path.write_bytes(head + b"\nbroken")
    shutil.rmtree(place.environment.env["KBHUB_CACHE_DIR"])
    report = place.sync()
    assert ["b.jsonl"] == place.found()
    assert ["2026/a.jsonl"] == [problem.subject for problem in report.failed]


def test_a_kept_text_is_no_way_out_of_its_base(place):
    """A crafted copy names no other file than its own."""
    path = place.kept[0]
    head, _, rest = path.read_bytes().partition(b"\n")
    header = json.loads(head) | {"path": "../../secret.jsonl"}
    path.write_bytes(json.dumps(header).encode() + b"\n" + rest)
    shutil.rmtree(place.folder)
    place.folder.mkdir()
    place.sync(full=True)
    assert 1 == len(place.found())
    assert place.hub.read(["logs@../../secret.jsonl"]).unread


def test_a_pattern_of_the_command_line_is_remembered_until_it_is_taken_back(environment):
    place = Place(environment, [])
    place.sync()
    change_keeping(place.hub, ["logs"], keep=["*.jsonl"], forget=[])
    place.sync()
    (place.folder / "b.jsonl").unlink()
    place.sync()
    place.sync(full=True)
    assert ["2026/a.jsonl", "b.jsonl"] == place.found()

    with pytest.raises(UsageError, match="Empty pattern"):
        change_keeping(place.hub, ["logs"], keep=[" "], forget=[])
    change_keeping(place.hub, ["logs"], keep=[], forget=["*.jsonl"])
    (place.folder / "2026/a.jsonl").unlink()
    place.sync()
    assert [] == place.found()


def test_what_is_forgotten_is_gone(place):
    shutil.rmtree(place.folder / "2026")
    place.sync()
    said = change_keeping(place.hub, ["logs"], keep=[], forget=["*.jsonl"])
    place.sync(full=True)
    assert ["b.jsonl"] == place.found()
    assert 1 == len(place.kept)
    assert "deleted the kept text of 1 deleted file." in said[0]
    assert "the config still keeps '*.jsonl'" in said[1]


def test_the_command_keeps_and_forgets(environment, kbhub):
    place = Place(environment, [])
    assert "match '2026' is kept" in kbhub("admin", "index", "logs", "--keep-deleted", "2026", code=0).err
    shutil.rmtree(place.folder / "2026")
    kbhub("admin", "index", "logs", code=0)
    assert "The bearing is worn." in kbhub("read", "logs@2026/a.jsonl", code=0).out
    kbhub("admin", "index", "logs", "--forget-deleted", "*", code=0)
    kbhub("read", "logs@2026/a.jsonl", code=1)


def test_a_deleted_file_never_reads_as_if_it_lived(place, kbhub, environment):
    """Hits, sources and what is read say that it is deleted and since when, in every format."""
    (place.folder / "b.jsonl").unlink()
    place.sync()
    words = f"deleted, first missed on {datetime.now(UTC).date()}"

    assert words in place.hub.search(Query(text="loud fan")).hits[0].outdated
    assert words in place.hub.read(["logs@b.jsonl"]).readings[0].deleted
    for form in ("--json", "--csv", "--xml", "--md", "--files", "--no-pager"):
        for line in (("search", "loud fan", form), ("read", "logs@b.jsonl", form)):
            done = kbhub(*line)
            assert words in done.out + done.err, line
    for form in ((), ("--md",), ("--json",)):
        assert words in kbhub("ask", "Why is the fan loud?", "--threshold", "0", *form).out
    assert "deleted" not in kbhub("read", "logs@2026/a.jsonl").err
