"""A file of a converted format can do no harm: it is parsed in a process of its own, within limits."""

import io
import socket
import subprocess
import sys

import pytest

from kbhub.documents import source as limits
from kbhub.documents.source import GREETING, MOST_BYTES, IsolatedParser, packed, unpacked
from kbhub.extensions.formats.packages import XML_BYTES
from kbhub.types import Document
from office_files import a_docx, a_zip, an_epub, an_odt, an_xlsx, paragraph

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
    with IsolatedParser() as slow:
        assert "All is well." in told(slow, GOOD)[0]
        first = slow._process
        with monkeypatch.context() as hurried:
            hurried.setattr(limits, "PARSE_SECONDS", 0.5)
            assert told(slow, SLOW) == ("", "It takes more than 0.5 seconds to read; left out.")
        assert first.returncode is not None
        assert "All is well." in told(slow, GOOD)[0]
        assert slow._process is not first
        monkeypatch.setattr(limits, "MOST_LATE", 1)
        left_out = slow.parse("b.docx", "docx", GOOD)
        assert left_out.lines == ()
        assert "such as a.docx" in left_out.problems[0]
        assert "kbhub admin index --full" in left_out.problems[0]
        process = slow._process
        process.stdin.close()
        assert process.wait(20) == 0  # it ends with whoever started it
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
    """In the middle of a file, each time; one that died before or once is not the file's fault."""
    read = limits._read
    told(parser, GOOD)
    parser._process.kill()
    parser._process.wait()
    assert "All is well." in told(parser, GOOD)[0]
    monkeypatch.setattr(limits, "_read", killing(parser, read, before=monkeypatch.undo))
    assert "All is well." in told(parser, a_docx(paragraph("All is well."), *[paragraph("Words.")] * 2_000))[0]
    monkeypatch.setattr(limits, "_read", killing(parser, read))
    assert told(parser, a_docx(paragraph("Words.") * 2_000)) == ("", "Its parser broke off; left out.")


class Answering:
    """What has taken a process over, and says this."""

    def __init__(self, said):
        self.stdin, self.stdout, self.returncode = io.BytesIO(), io.BytesIO(said), None
        self.poll, self.kill, self.wait = (lambda *_: None for _ in range(3))


@pytest.mark.parametrize(
    "said",
    [
        b"%d\n{}" % (MOST_BYTES + 1), b"-1\n", b"x\n", b"5\n{}", b"2\n{}", b"2\n[]", b"4\nnull", b"2\n}{",
        b"9\n" + b"[" * 9, b"1" * 4000,
    ],
)  # fmt: skip
def test_an_answer_that_is_none_costs_its_file(monkeypatch, said):
    monkeypatch.setattr(limits, "start", lambda _: Answering(GREETING + said))
    with IsolatedParser() as parser:
        assert told(parser, GOOD) == ("", "Its parser broke off; left out.")
        assert parser._process is None


def test_another_program_is_not_listened_to(monkeypatch):
    """One that greets otherwise, such as another version."""
    monkeypatch.setattr(limits, "start", lambda _: Answering(b"hello\n" * 20))
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
    "open('/etc/hostname')", "open(sys.argv[1])", "open(sys.argv[1], 'w')", "os.open(sys.argv[1], os.O_RDWR)",
    "socket.create_connection(('127.0.0.1', 9))", "subprocess.run([sys.executable, '-c', ''])", "os.system('true')",
    "os.execv(sys.executable, ['x'])", "open(os.__file__, 'a')",
]  # fmt: skip


def test_a_parser_may_not_leave_its_process(tmp_path):
    """No other file, no connection and no program, whatever a library would do."""
    place = tmp_path / "there.txt"
    place.write_text("secret")
    script = "import os, socket, subprocess, sys\nfrom kbhub.documents.source import _confine\n_confine()\n"
    for statement in FORBIDDEN:
        script += f"try:\n    {statement}\nexcept PermissionError as error:\n    print('may not' in str(error))\n"
    done = subprocess.run([sys.executable, "-c", script, str(place)], capture_output=True, text=True, timeout=60)

    assert done.stdout.split() == ["True"] * len(FORBIDDEN), done.stderr
    assert place.read_text() == "secret"
