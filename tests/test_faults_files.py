"""Files as no one would write them: each is found and read by the ref that its hit shows, or named with a reason."""

import os
import time
import unicodedata

import pytest

from conftest import HOUR_NS, synced
from kbhub.documents.walk import Limits
from kbhub.sync.sync import compare
from kbhub.types import Query

pytestmark = pytest.mark.usefixtures("always_fresh")

LONGEST = 255
"""Bytes that a file name may have on the usual file systems."""


def found(hub, word):
    return hub.search(Query(text=word, mode="keyword", limit=100)).hits


def problems(hub):
    return {problem.subject: problem.message for base in hub.status().bases for problem in base.problems}


def differences(hub, base="project"):
    (chosen,) = hub.select([base])
    return len(compare(chosen, hub.index(chosen), Limits(5 << 20, 100_000)))


NAMES = [
    "new\nline.md", "tab\t.md", "carriage\rreturn.md", "esc\x1b[31m.md", "quo'te\".md", "back\\slash.md", "`tick`.md",
    "#.md", "#abcdef.md", "a#b.md", "a#b", "a::b.md", "@.md", "notes@x.md", "project@y.md", "who@where.md", "%41.md",
    "100%.md", "A.md", "-dash.md", "--help.md", "-", " space .md", "a, b.md", "a:3.md", "a:3:4", "a:3-5", "*.md",
    "[x].md", "?.md", "~.md", "$HOME.md", "CON.md", "אבג-\u202etxt.md", "مرحبا.md", "日本語.md", "🎉.md",
    "x" * (LONGEST - 3) + ".md", "語" * 84 + ".md", unicodedata.normalize("NFC", "é.md"),
    unicodedata.normalize("NFD", "é.md"), "Twin.md", "twin.md", "TWIN.md", "\u200b.md", "dir ect,ory/#1/@2.md",
]  # fmt: skip


@pytest.mark.skipif(os.name == "nt" or os.uname().sysname == "Darwin", reason="needs names of any characters")
def test_a_document_of_any_name_is_found_and_read_by_its_ref(environment):
    environment.write(".kbhub.json", '{"include": ["*"]}')
    environment.write(environment.home / "notes" / "x.md", "not the one\n")
    environment.configure(bases={"notes": "~/notes"}, repos={"*": "notes"})
    for number, name in enumerate(NAMES):
        environment.write(f"knowledge/{name}", f"# Title\n\nThe word zq{number}x.\n")
    hub = synced(environment)
    wrong = []
    for number, name in enumerate(NAMES):
        hits = found(hub, f"zq{number}x")
        if not hits:
            wrong.append((name, "not found", []))
            continue
        hit = hits[0]
        refs = (hit.ref, hit.docid, f"{hit.ref}:{hit.start_line}-{hit.end_line}")
        texts = [reading.text for ref in refs for reading in hub.read([ref]).readings]
        if hit.path != name or texts != [f"# Title\n\nThe word zq{number}x."] * 3:
            wrong.append((name, hit.ref, texts))

    assert wrong == []
    assert problems(hub) == {}
    assert differences(hub) == 0


@pytest.mark.skipif(os.name == "nt" or os.uname().sysname == "Darwin", reason="needs names of any bytes")
def test_a_document_whose_name_is_no_text_is_named_with_what_to_do(environment):
    environment.write("knowledge/a.md", "platypus\n")
    (environment.project / os.fsdecode(b"knowledge/caf\xe9.md")).write_text("platypus\n")
    hub = synced(environment)
    assert [hit.ref for hit in found(hub, "platypus")] == ["a.md"]
    assert problems(hub) == {"caf\\udce9.md": "caf\\udce9.md: its name is not valid UTF-8; rename it."}


@pytest.mark.skipif(os.name == "nt" or os.uname().sysname == "Darwin", reason="needs names of any bytes")
@pytest.mark.parametrize("name", [b"x" * LONGEST, "語".encode() * 85, b"a\nb #%'\"?", b"caf\xe9", b"-", b"..."])
def test_a_base_whose_folder_has_any_name_is_indexed(environment, name):
    folder = environment.home / os.fsdecode(name)
    environment.write(folder / "a.md", "platypus\n")
    hub = synced(environment, bases={"odd": folder})
    (hit,) = found(hub, "platypus")
    assert hub.read([hit.ref]).readings[0].text == "platypus"
    assert hub.status().problems == ()
    assert problems(hub) == {}


LEVELS = 3_000
BOMB = "".join(
    f"{key}: &{key} [{', '.join([f'*{above}'] * 9)}]\n" for above, key in zip("abcdefgh", "bcdefghi", strict=True)
)

TAGS = ("5", "1.5", "null", "true", "2024-01-01", "{a: b}", "[[a], {b: c}, null, 3]", "!!binary aGk=", "''", ".inf")

CONTENTS = {
    "nul": (b"before\0{}\0after\n", "NUL"),
    "utf-16": ("# Überschrift\n\n{}\n", None),
    "utf-16 without mark": ("{} a\n".encode("utf-16-le"), "NUL"),
    "latin-1": (b"caf\xe9 {} \xff\xfe\n", "UTF-8"),
    "crlf": (b"# Title\r\n\r\nThe {}.\r\n", None),
    "no final newline": (b"# Title\n\nThe {}", None),
    "many headings": (b"# Heading\n" * 5_000 + b"\n{}\n", None),
    "nested headings": ("".join(f"{'#' * (n % 6 + 1)} H{n}\n" for n in range(LEVELS)) + "\n{}\n", None),
    "nested lists": ("".join(f"{'  ' * level}- x\n" for level in range(2000)) + "\n{}\n", None),
    "nested lists in a line": ("- " * LEVELS + "{}\n", None),
    "nested quotes": (">" * LEVELS + " {}\n", None),
    "nested brackets": ("[" * LEVELS + "{}" + "](" * LEVELS + "\n", None),
    "yaml bomb": (f"---\na: &a [x, x]\n{BOMB}---\n{{}}\n", "Front matter"),
    "yaml nested": (f"---\na: {'[' * LEVELS}\n---\n{{}}\n", "Front matter"),
    "yaml loop": ("---\na: &a [*a]\n---\n{}\n", "Front matter"),
    "yaml list": ("---\n- a\n- b\n---\n{}\n", "Front matter"),
    "yaml text": ("---\njust text\n---\n{}\n", "Front matter"),
    "yaml number": ("---\n42\n---\n{}\n", "Front matter"),
    "yaml code": ("---\na: !!python/object/apply:os.system ['true']\n---\n{}\n", None),
    "yaml twice": ("---\na: 1\na: 2\n---\n{}\n", None),
    **{
        f"tags {number}": (f"---\ntags: {tags}\naliases: {tags}\ntitle: {tags}\ndate: {tags}\n---\n{{}}\n", None)
        for number, tags in enumerate(TAGS)
    },
}


def document(content: str | bytes, word: str, name: str) -> bytes:
    if name == "utf-16":
        return content.replace("{}", word).encode("utf-16")
    if name == "utf-16 without mark":
        return content.replace("{}".encode("utf-16-le"), word.encode("utf-16-le"))
    data = content.encode() if isinstance(content, str) else content
    return data.replace(b"{}", word.encode())


def test_a_document_of_any_content_is_found_and_read(environment, monkeypatch):
    monkeypatch.setattr("kbhub.sync.indexer.cores", lambda: 1)
    words = {name: f"zq{number}x" for number, name in enumerate(CONTENTS)}
    for name, (content, _) in CONTENTS.items():
        environment.write(f"knowledge/{name}.md", document(content, words[name], name))
    hub = environment.hub()
    (report,) = hub.sync()

    assert (report.added, report.failed) == (len(CONTENTS), ())
    told = problems(hub)
    for name, (_, problem) in CONTENTS.items():
        assert (problem or "") in told.pop(f"{name}.md", ""), name
        if name == "utf-16 without mark":  # nothing tells what it is; its letters stand apart
            continue
        hits = found(hub, words[name])
        assert [hit.path for hit in hits] == [f"{name}.md"], name
        part = hub.read([f"{hits[0].ref}:{hits[0].start_line}-{hits[0].end_line}"])
        assert len(part.readings) == 1, name
        assert words[name] in part.readings[0].text or len(part.readings[0].text) > LEVELS, name
    assert told == {}
    assert differences(hub) == 0


def test_a_line_of_five_megabytes_is_left_out_or_searched_as_the_limit_says(environment):
    """Over the limit it is named with the setting that would take it; under it each word is found."""
    words = " ".join(f"word{number:06}" for number in range(480_000))
    environment.write("knowledge/line.md", words)
    environment.write("knowledge/a.md", "word000001\n")
    hub = synced(environment)
    assert [hit.ref for hit in found(hub, "word000001")] == ["a.md"]
    assert "limits.fileBytes" in problems(hub)["line.md"]

    environment.env["KBHUB_LIMITS__FILE_BYTES"] = str(20 << 20)
    environment.env["KBHUB_EMBEDDER__MODEL"] = "none"
    hub = synced(environment)
    assert problems(hub) == {}
    for word in ("word000001", "word470000"):
        assert "line.md" in {hit.ref for hit in found(hub, word)}


@pytest.mark.parametrize(
    "seconds",
    [pytest.param(time.time() + 7200, id="in two hours"), 4_000_000_000, 15_000_000_000, 0, -1, -1_000_000_000],
)
def test_a_file_of_any_time_is_indexed_once_and_followed(environment, seconds):
    file = environment.write("knowledge/a.md", "platypus\n")
    os.utime(file, (seconds, seconds))
    hub = synced(environment)
    (hit,) = found(hub, "platypus")

    assert hit.age_days is not None
    assert hit.age_days >= 0
    assert (hit.age_days == 0) == (seconds > time.time())
    assert differences(hub) == 0
    stamp = file.stat()
    file.write_text("wombat, not only\n")
    os.utime(file, ns=(stamp.st_mtime_ns, stamp.st_mtime_ns + HOUR_NS))
    hub.freshen()
    assert len(found(hub, "wombat")) == 1
