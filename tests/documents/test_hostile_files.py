"""Whatever a file says, the answer is knowledge or one problem; some formats are parsed in a process of their own."""

import io
import json
import shutil
import socket
import sys
import tempfile
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conftest import make_environment
from kbhub.documents import source as limits
from kbhub.documents.filters import parse_rules
from kbhub.documents.source import GREETING, MOST_BYTES, IsolatedParser, packed, unpacked
from kbhub.errors import ConfigError
from kbhub.extensions.formats.packages import XML_BYTES
from kbhub.render.bases import status_report
from kbhub.render.report import model_answer
from kbhub.types import Document
from kbhub.workspace.config import parse_jsonc
from kbhub.workspace.settings import MAX_RULES
from office_files import a_docx, a_zip, an_epub, an_odt, an_xlsx, paragraph

LONG = "x" * 300
"""A name that no file system takes."""

SHORT, MANY = 12, 500
"""Examples of a fuzz that always runs, and of one that takes long."""

ANSWER_CHARACTERS = 5000
"""Most that `status` says of a project with one document, however much its files say."""

PATIENT = {"suppress_health_check": [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]}

TEXTS = st.one_of(
    st.text(st.characters(), max_size=20),
    st.sampled_from(
        [
            LONG, "x/" * 3000,
            *("\0", "a\0b", "\ud800", "\udc80x", "..", "../..", "/", "~", "~root", ".", "", " ", "\n"), "knowledge",
            "./knowledge/..", ".git", "/dev/null", "/proc/self/fd/0", ".kbhub.json", "\u202eknowledge", "[",
            "[" * 3000, "[z-a]", "*" * 3000, "*a" * 1000, "**/" * 40, "(" * 500, "\\", "!", "#", "[[:alpha:]]",
            "y" * 100_000,
        ]
    ),
)  # fmt: skip
VALUES = st.recursive(
    st.one_of(
        *(st.none(), st.booleans(), TEXTS, st.integers(), st.floats(allow_nan=False, allow_infinity=False)),
        st.sampled_from([10**400, -(10**30), 2**63, 1e308]),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=4)),
    max_leaves=8,
)
LISTS = st.one_of(VALUES, st.lists(TEXTS, max_size=6))
OBJECTS = st.one_of(VALUES, st.dictionaries(TEXTS, TEXTS, max_size=6))
BASE = {
    **dict.fromkeys(("knowledge", "cacheDir", "name", "description"), st.one_of(TEXTS, VALUES)),
    **dict.fromkeys(("include", "exclude", "keepDeleted"), LISTS),
    **dict.fromkeys(("weight", "writable", "kind", "enabled"), VALUES),
    "contexts": OBJECTS,
    LONG: VALUES,
}
POINTERS = st.one_of(VALUES, st.fixed_dictionaries({}, optional=BASE))
GROUPS = ("search", "embedder", "expansion", "rerank", "answers", "memory", "limits", "serve", "log", "distil")
CONFIGS = st.one_of(
    VALUES,
    st.fixed_dictionaries(
        {"bases": st.one_of(VALUES, st.dictionaries(TEXTS, st.fixed_dictionaries({}, optional=BASE), max_size=3))},
        optional={
            "repos": st.one_of(OBJECTS, st.dictionaries(TEXTS, LISTS, max_size=3)),
            "contexts": OBJECTS,
            **dict.fromkeys(("docsFallback", "readOnly", "tools", LONG), VALUES),
            **dict.fromkeys(GROUPS, st.dictionaries(TEXTS, VALUES, max_size=2)),
        },
    ),
)


class Shop:
    """A project with one document, and a base of the user's with another, in a folder that is deleted afterwards."""

    def __enter__(self):
        self._folder = tempfile.TemporaryDirectory()
        place = self.place = make_environment(Path(self._folder.name))
        place.write("knowledge/alpha.md", "# Alpha\n\nkraken\n")
        place.write(str(place.home / "notes" / "beta.md"), "# Beta\n\nkraken\n")
        return self

    def __exit__(self, *_):
        self._folder.cleanup()

    def hub(self):
        """Open a hub in which the user's base is active whatever the files say."""
        return self.place.hub(bases={"mine": self.place.home / "notes"})

    def check(self):
        """Ask everything, and give what is said of the state of things."""
        hub = self.hub()
        hub.sync()
        result = hub.search("kraken")
        assert "mine@beta.md" in [hit.ref for hit in result.hits]
        result.model_dump_json()
        status = hub.status()
        status.model_dump_json()
        said = model_answer(status_report(status))[0]
        assert len(said) <= ANSWER_CHARACTERS
        said.encode()
        return status


POINTER, CONFIG = ".kbhub.json", "~/.kbhub.json"
WRONG = [
    *((POINTER, json.dumps(said), ["project"]) for said in (
        *({"knowledge": LONG}, {"cacheDir": "x/" * 1900}, {"knowledge": "\ud800"}, {"name": "\udc80"}),
        *({"include": ["*.md"] * (MAX_RULES + 1)}, {"knowledge": "loop"}, {"enabled": 10**400}, ["knowledge"], None),
    )),
    *((POINTER, said, ["project"]) for said in (
        *("", '{"a":' * 5000, '{"a":' * 990 + "1" + "}" * 990, '{"name":' * 990 + "1" + "}" * 990),
        *('{"knowledge": ' + "9" * 5000 + "}", '{"knowledge": "' + '\\"' * 400_000, "/*" * 300_000, "\xff"),
        *('{"knowledge": NaN}', '{"name": ' + "[" * 600 + "]" * 600 + "}"),
    )),
    (POINTER, '{"x": 1e999}', [POINTER]),  # an unknown field
    *((CONFIG, json.dumps({"embedder": {"model": model}}), ["embedder.model"])
      for model in (f"/{LONG}", f"./{LONG}", "~/loop", "~nobody/x")),
    *((".git/config", f'[remote "origin"]\n\turl = {url}\n', [])
      for url in (f"/{LONG}", "../" + "x/" * 4000, "\xff", "loop")),
    *(("knowledge/.gitignore", rules, [])
      for rules in ("[" * 300_000, "[a\n" * 100_000, "*a" * 150_000, "\0\xff" * 1000, "a\n" * 150_000)),
]  # fmt: skip
"""File, what it says in Latin-1, and what there are problems with."""


@pytest.mark.parametrize(("file", "said", "subjects"), WRONG, ids=[f"{file} {said[:40]!r}" for file, said, _ in WRONG])
def test_what_cannot_be_followed_is_one_problem_or_as_good_as_none(file, said, subjects):
    """It costs no minutes, and the documents are found."""
    with Shop() as shop:
        for folder in (shop.place.home, shop.place.project):
            (folder / "loop").symlink_to("loop")
        place = shop.place.home / file[2:] if file == CONFIG else shop.place.project / file
        place.write_bytes(said.encode("latin-1"))
        status = shop.check()
    assert [Path(one.subject).name for one in status.problems] == subjects
    assert file == POINTER or status.bases[0].documents == 1


def test_unknown_fields_by_the_thousand_are_a_short_list_and_a_folder_that_is_none_a_problem_of_its_base():
    with Shop() as shop:
        (shop.place.project / ".kbhub.json").write_text(json.dumps({f"{n}{LONG}": n for n in range(3000)}))
        problems = shop.check().problems
        assert len(problems) == 11
        assert "2990 more" in problems[-1].message
        (shop.place.project / ".kbhub.json").unlink()
        (shop.place.home / "loop").symlink_to("loop")
        config = {"bases": {"round": "~/loop", "long": f"~/{LONG}"}, "repos": {"*": ["round", "long"], LONG: "round"}}
        (shop.place.home / ".kbhub.json").write_text(json.dumps(config))
        problems = shop.check().problems
    assert sorted(one.subject for one in problems) == ["long", "round"]


@pytest.mark.parametrize(
    "said",
    ["", LONG, *(f"gitdir: {place}" for place in (f"/{LONG}", "x/" * 3000, "a\0b", "\xff", ".", "loop"))],
    ids=lambda said: said[:20],
)
def test_a_git_file_that_leads_nowhere_is_as_good_as_none(said):
    with Shop() as shop:
        shutil.rmtree(shop.place.project / ".git")
        (shop.place.project / "loop").symlink_to("loop")
        (shop.place.project / ".git").write_bytes(said.encode("latin-1"))
        assert [base.base.id for base in shop.check().bases] == ["project", "mine"]


def test_rules_that_do_not_count_are_told_and_a_text_without_an_end_takes_no_time_by_its_square():
    with Shop() as shop:
        file = shop.place.write("knowledge/.kbhubignore", "".join(f"{n}.md\n" for n in range(MAX_RULES + 1)))
        (problem,) = shop.check().bases[0].problems
    assert str(MAX_RULES) in problem.message
    assert str(file) in problem.message
    with pytest.raises(ConfigError, match="malformed JSON"):
        parse_jsonc('{"a": "' + '\\"' * 500_000, "x")
    assert parse_rules(("[" * 1_000_000,), "x") == ()


def pointers_are_followed_or_refused(pointer):
    with Shop() as shop:
        (shop.place.project / ".kbhub.json").write_text(json.dumps(pointer))
        status = shop.check()
    assert all(len(one.message) < 2000 for one in status.problems)
    if all(one.base.id != "project" for one in status.bases):
        off = isinstance(pointer, dict) and pointer.get("enabled") is False
        assert off or "project" in [one.subject for one in status.problems]


def configs_are_followed_or_refused(config):
    """What is wrong is what every answer says."""
    with Shop() as shop:
        (shop.place.home / ".kbhub.json").write_text(json.dumps(config))
        hub = shop.hub()
        wrong = None
        try:
            hub.discovery()
        except ConfigError as error:
            wrong = str(error)
        if wrong is not None:
            assert len(wrong) < 2000
            for call in (hub.status, lambda: hub.search("kraken"), lambda: hub.read("beta.md")):
                with pytest.raises(ConfigError):
                    call()
            return
        status = hub.status()
        status.model_dump_json()
        model_answer(status_report(status))[0].encode()


def documents_are_found_whatever_stands_above_them(front):
    """What cannot be read is at most one problem of the document."""
    with Shop() as shop:
        shop.place.write("knowledge/front.md", b"---\n" + front + b"\n---\n# Front\n\nzebra\n")
        shop.check()
        hub = shop.hub()
        found = hub.search("zebra")
        assert "front.md" in [hit.ref for hit in found.hits]
        problems = [one for base in hub.status().bases for one in base.problems]
        assert len([one for one in problems if one.subject == "front.md"]) <= 1


LINES = st.one_of(
    st.binary(max_size=60),
    st.builds(
        lambda key, value: f"{key}: {value}".encode("utf-8", "surrogatepass"),
        st.sampled_from(
            ["tags", "aliases", "title", "date", "updated", "related", "source", "expires", "status", LONG]
        ),
        st.one_of(
            TEXTS.filter(lambda text: len(text) < 10_000),
            VALUES.map(json.dumps).filter(lambda text: len(text) < 10_000),
            st.sampled_from(
                ["[" * 200, "{a: " * 60, "&a [*a]", "!!python/object:x {}", "9" * 5000, "9999-99-99", ".inf"]
            ),
        ),
    ),
)
FRONT = st.lists(LINES, max_size=6).map(b"\n".join)


CHECKS = {
    "pointer": (pointers_are_followed_or_refused, POINTERS),
    "config": (configs_are_followed_or_refused, CONFIGS),
    "front matter": (documents_are_found_whatever_stands_above_them, FRONT),
}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("examples", [SHORT, pytest.param(MANY, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("check", "values"), CHECKS.values(), ids=CHECKS)
def test_any_files_end_nothing(check, values, examples):
    settings(max_examples=examples, **PATIENT)(given(values)(check))()


GOOD = a_docx(paragraph("All is well."))
LAUGHS = (
    '<!DOCTYPE l [<!ENTITY a "ha ha ha ha ha">'
    + "".join(f'<!ENTITY {one} "{f"&{other};" * 10}">' for other, one in zip("abcdefgh", "bcdefghi", strict=True))
    + "]>"
)


@pytest.fixture(scope="module")
def parser():
    """One process for all files, as in a sync."""
    with IsolatedParser() as made:
        yield made


@pytest.fixture
def port():
    """A port on which a connection would be seen; it is checked that there was none."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield listening.getsockname()[1]
        listening.setblocking(False)
        with pytest.raises(BlockingIOError):
            listening.accept()


def told(parser, data, kind="docx"):
    """The text of a file, and what could not be read."""
    document = parser.parse(f"a.{kind}", kind, data)
    return "\n".join(document.lines), " ".join(document.problems)


def entity(place):
    return f'<!DOCTYPE d [<!ENTITY e SYSTEM "{place}">]>'


def lying(data, size):
    """A zip file whose first member says that it is shorter than it is."""
    where = data.index(b"PK\x01\x02")
    with_local = data[:22] + size.to_bytes(4, "little") + data[26:]
    return with_local[: where + 24] + size.to_bytes(4, "little") + with_local[where + 28 :]


UTF_16 = a_docx(more={"word/document.xml": f"{entity('file:///etc/passwd')}<d>&e;</d>".encode("utf-16")})
BOMB = a_zip({"word/document.xml": b"<a>" + b" " * (XML_BYTES + 1)})


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (BOMB, f"It cannot be read (it has {XML_BYTES + 4:,} bytes when unpacked and the limit is {XML_BYTES:,})"),
        (lying(BOMB, 100), "It cannot be read (Bad CRC-32"),
        (a_docx("&i;", doctype=LAUGHS), "It cannot be read (its XML declares entities); left out."),
        (a_docx("&e;", doctype=entity("file:///etc/passwd")), "(its XML declares entities)"),
        (UTF_16, "(its XML declares entities)"),
        (a_docx("<w:tbl><w:tr><w:tc>" * 2_000 + "</w:tc></w:tr></w:tbl>" * 2_000), "It is nested too deep"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "EncryptedPackage".encode("utf-16-le"), "(it is encrypted, and kbhub"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600, "(it is in the format of before 2007"),
        (GOOD[: len(GOOD) // 2], "(it is no such file, or broken)"),
        (b"# Markdown\n", "(it is no such file, or broken)"),
        (b"", "(it is no such file, or broken)"),
        (an_xlsx(("A", [[1]])), "It cannot be read ("),
        (a_zip({f"{number}": b"" for number in range(20_001)}), "it has 20,001 members"),
    ],
    ids=["bomb", "lying bomb", "laughs", "entity", "utf-16", "deep", "encrypted", "old", "cut", "text", "empty",
         "other format", "members"],
)  # fmt: skip
def test_a_hostile_file_is_left_out_with_a_reason(parser, data, says):
    text, problem = told(parser, data)
    assert says in problem
    assert text == ""
    assert "All is well." in told(parser, GOOD)[0]


@pytest.mark.parametrize("kind", ["docx", "odt", "epub"])
@pytest.mark.parametrize("declaration", ['<!DOCTYPE d SYSTEM "{}">', '<!DOCTYPE d [<!ENTITY % p SYSTEM "{}"> %p;]>'])
def test_nothing_is_fetched(parser, port, kind, declaration):
    doctype = declaration.format(f"http://127.0.0.1:{port}/x.dtd")
    made = {
        "docx": lambda: a_docx(paragraph("Words"), doctype=doctype),
        "odt": lambda: an_odt("<text:p>Words</text:p>", doctype=doctype),
        "epub": lambda: an_epub("<p>Words</p>", doctype=doctype),
    }
    text, problem = told(parser, made[kind](), kind)
    assert ("Words" in text) != ("its XML declares entities" in problem)


def test_a_picture_that_lies_elsewhere_is_not_read(parser, port, tmp_path):
    """A document may name any file or address as the source of a picture."""
    secret = tmp_path / "secret.png"
    secret.write_text("hunter2")
    relations = "".join(
        f'<Relationship Id="p{number}" TargetMode="External" Target="{place}" '
        'Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/image"/>'
        for number, place in enumerate((secret.as_uri(), str(secret), f"http://127.0.0.1:{port}/a.png"))
    )
    pictures = "".join(
        '<w:p><w:r><w:drawing><a:blip xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" '
        f'r:link="p{number}"/></w:drawing></w:r></w:p>'
        for number in range(3)
    )
    more = {
        "word/_rels/document.xml.rels": '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/'
        f'relationships">{relations}</Relationships>'
    }
    text, _ = told(parser, a_docx(pictures, paragraph("Words"), more=more))

    assert "Words" in text
    assert "hunter2" not in text


def test_macros_and_files_within_a_file_are_nothing_and_few_bytes_are_not_millions_of_cells(parser):
    inner = {"word/vbaProject.bin": b"\xd0\xcf\x11\xe0Shell(calc)", "word/embeddings/a.docx": BOMB}
    assert told(parser, a_docx(paragraph("Words"), more=inner)) == ("author: Ada\ndate: 2025-11-02\n\nWords", "")
    cells = (
        '<table:table-cell table:number-columns-repeated="1000000"/>'
        '<table:table-cell table:number-columns-spanned="1000000"><text:p>c</text:p></table:table-cell>'
    )
    row = f'<table:table-row table:number-rows-repeated="1000000">{cells}</table:table-row>'
    spaces = '<text:p>a<text:s text:c="999999999"/>b</text:p>'
    text, problem = told(parser, an_odt(f"{spaces}<table:table>{row}</table:table>"), "odt")
    assert problem == ""
    assert len(text) < 2000


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit the memory of a process")
def test_memory_is_limited(parser):
    text, problem = told(parser, an_odt("<text:p/>" * 10_000_000), "odt")
    assert (text, problem) == ("", "Reading it takes more memory than kbhub allows; left out.")
    assert "All is well." in told(parser, GOOD)[0]


def test_a_document_has_so_many_characters(monkeypatch):
    monkeypatch.setattr(limits, "CHARACTERS", 9)
    document = limits.parsed("a.html", b"<h1>One</h1><p>Two<h1>Three</h1>")
    assert document.lines == ("# One", "")
    assert [heading.text for heading in document.headings] == ["One"]
    assert document.problems == ("It has more than 9 characters of text; lines from 3 on are left out.",)


SLOW = a_docx(paragraph("Words and words.") * 15_000)


def test_files_that_take_too_long_cost_themselves_until_they_are_too_many(parser, monkeypatch):
    """The process is killed, and the next file gets another one; then the rest is left out, the first one named."""
    monkeypatch.setattr(parser, "_late", [])
    assert "All is well." in told(parser, GOOD)[0]
    first = parser._process
    with monkeypatch.context() as hurried:
        hurried.setattr(limits, "PARSE_SECONDS", 0.5)
        assert told(parser, SLOW) == ("", "It takes more than 0.5 seconds to read; left out.")
    assert first.returncode is not None
    assert "All is well." in told(parser, GOOD)[0]
    assert parser._process is not first
    with monkeypatch.context() as full:
        full.setattr(limits, "MOST_LATE", 1)
        left_out = parser.parse("b.docx", "docx", GOOD)
    assert left_out.lines == ()
    assert "such as a.docx" in left_out.problems[0]
    assert "kbhub admin index --full" in left_out.problems[0]
    parser._process.stdin.close()
    assert parser._process.wait(20) == 0  # it ends with whoever started it
    assert "All is well." in told(parser, GOOD)[0]


def killing(parser, read, *, before=lambda: None):
    """Reads an answer of a process that has just been killed."""

    def killed(stream):
        before()
        parser._process.kill()
        parser._process.wait()
        return read(stream)

    return killed


def test_a_process_that_dies_costs_its_file_alone(parser, monkeypatch):
    """In the middle of a file, each time; one that died once is not the file's fault."""
    read = limits._read
    told(parser, GOOD)
    monkeypatch.setattr(limits, "_read", killing(parser, read, before=monkeypatch.undo))
    assert "All is well." in told(parser, a_docx(paragraph("All is well."), *[paragraph("Words.")] * 2_000))[0]
    monkeypatch.setattr(limits, "_read", killing(parser, read))
    assert told(parser, a_docx(paragraph("Words.") * 2_000)) == ("", "Its parser broke off; left out.")


def answering(said):
    """What has taken a process over, and says this."""
    return MagicMock(stdin=io.BytesIO(), stdout=io.BytesIO(said), returncode=None, poll=lambda: None)


@pytest.mark.parametrize(
    "said",
    [
        b"%d\n{}" % (MOST_BYTES + 1), b"-1\n", b"x\n", b"5\n{}", b"2\n{}", b"2\n[]", b"4\nnull", b"2\n}{",
        b"9\n" + b"[" * 9, b"1" * 4000,
    ],
)  # fmt: skip
def test_an_answer_that_is_none_costs_its_file(monkeypatch, said):
    monkeypatch.setattr(limits, "start", lambda _: answering(GREETING + said))
    with IsolatedParser() as parser:
        assert told(parser, GOOD) == ("", "Its parser broke off; left out.")
        assert parser._process is None


def test_another_program_is_not_listened_to(monkeypatch):
    """One that greets otherwise, such as another version."""
    monkeypatch.setattr(limits, "start", lambda _: answering(b"hello\n" * 20))
    with IsolatedParser() as parser, pytest.raises(OSError, match="cannot be started"):
        parser.parse("a.docx", "docx", GOOD)


PLAIN = packed(Document("a.docx", "T", ("# H", "x"), 0, {"date": "2025-01-01"}, (), (), (), (), ()))


@pytest.mark.parametrize(
    "wrong",
    [
        {"lines": [1]}, {"lines": ["a\nb"]}, {"lines": ["\ud800"]}, {"lines": ["\0"]}, {"lines": None},
        {"title": 1}, {"title": "\ud800"}, {"body": "x"}, {"body": None}, {"body": float("inf")}, {"body": -1},
        {"frontMatter": [1]},
        {"frontMatter": {"a": 1 << 70}}, {"frontMatter": {"a": ["\ud800"]}}, {"frontMatter": {"a": float("nan")}},
        {"frontMatter": {"\0": 1}}, {"problems": [None]}, {"tags": [[]]},
        {"headings": [{"level": 1, "text": "a", "line": 1 << 70}]},
        {"headings": [{"level": 1}]}, {"headings": [1]}, {"aliases": ["\n"]},
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["docx", "pdf"])
def test_values_that_no_index_can_store_are_refused(kind, wrong):
    assert unpacked("a.docx", kind, PLAIN).title == "T"
    with pytest.raises((ValueError, TypeError, KeyError, AttributeError)):
        unpacked("a.docx", kind, PLAIN | wrong)


FORBIDDEN = [
    "open('/etc/hostname')", "open(place)", "open(place, 'w')", "os.open(place, os.O_RDWR)",
    "socket.create_connection(('127.0.0.1', 9))", "subprocess.run([sys.executable, '-c', ''])", "os.system('true')",
    "os.execv(sys.executable, ['x'])", "open(os.__file__, 'a')",
]  # fmt: skip


def test_a_parser_may_not_leave_its_process(children, tmp_path):
    """No other file, no connection and no program, whatever a library would do."""
    place = tmp_path / "there.txt"
    place.write_text("secret")
    assert children.call("confined", FORBIDDEN, place) == [True] * len(FORBIDDEN)
    assert place.read_text() == "secret"
