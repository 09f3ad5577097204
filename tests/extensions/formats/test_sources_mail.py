"""Mails: subject, people and date, the best text, attachments by name, and no mail too broken."""

from email.message import EmailMessage

import pytest
from hypothesis import given
from hypothesis import strategies as st

from documents.soundness import check_soundness
from kbhub.extensions.formats.mail import read_mail


def mail(text: str | None = None, subject: str = "The subject") -> EmailMessage:
    message = EmailMessage()
    message["Subject"] = subject
    message["From"] = "Änn Author <ann@example.org>"
    message["To"] = "Bob <bob@example.org>, team@example.org"
    message["Date"] = "Tue, 05 Mar 2024 10:30:00 +0200"
    if text is not None:
        message.set_content(text)
    return message


def test_a_mail_has_its_subject_people_and_text_or_html_and_a_forwarded_one_is_a_section():
    """Headers are front matter and the first lines; plain text comes before HTML, attachments are named."""
    message = mail("Plain [b](b.md)\n\n> quoted ü\n", subject="Déjà vu")
    message.add_alternative("<p>other</p>", subtype="html")
    message.add_attachment(b"secret", maintype="application", subtype="pdf", filename="plan ü.pdf")
    document = read_mail("in/a.eml", message.as_bytes())

    assert document.title == "Déjà vu"
    assert document.front_matter == {
        "from": "Änn Author <ann@example.org>",
        "to": "Bob <bob@example.org>, team@example.org",
        "date": "2024-03-05T08:30:00+00:00",
    }
    assert document.body == 4
    assert "\n".join(document.lines) == (
        "from: Änn Author <ann@example.org>\nto: Bob <bob@example.org>, team@example.org\n"
        "date: 2024-03-05T08:30:00+00:00\n\nPlain [b](b.md)\n\n> quoted ü\n\n"
        "Attachments:\n\n- plan ü.pdf (application/pdf)"
    )
    assert [link.target for link in document.links] == ["b.md"]
    assert document.problems == ()

    # A newsletter is Markdown; an empty plain part does not hide it.
    message = mail(" \n")
    message.add_alternative("<h1>News</h1><ul><li>one</ul>", subtype="html")
    message.add_attachment(mail("Inner text.", subject="Earlier"))
    document = read_mail("a.eml", message.as_bytes())
    assert document.lines[4:9] == ("# News", "", "- one", "", "## Earlier")
    assert document.lines[-1] == "Inner text."


@pytest.mark.parametrize(
    ("head", "body", "text"),
    [
        (
            "text/plain; charset=latin1\nContent-Transfer-Encoding: quoted-printable",
            b"caf=E9 =\nau lait",
            "café au lait",
        ),
        ("text/plain; charset=koi8-r", b"\xc4\xc1", "да"),
        ("text/plain; charset=utf-8\nContent-Transfer-Encoding: base64", b"w6k=", "é"),
        ("text/plain; charset=no-such", b"x", "x"),
        ('text/html; charset="shift_jis"', b"<p>\x93\xfa", "日"),
        ("text/plain\nContent-Transfer-Encoding: base64", b"!!!", None),
        ("text/x-unknown", b"words", "words"),
    ],
)
def test_encodings_of_transfer_and_of_text(head, body, text):
    """Each part is decoded as it says, and as UTF-8 if it says nothing usable."""
    document = read_mail("a.eml", b"Subject: s\nContent-Type: " + head.encode() + b"\n\n" + body)
    if text is not None:
        assert document.lines == (text,)
        assert document.problems == ()
    assert document.title == "s"


@pytest.mark.parametrize(
    "data",
    [
        b"Subject: s\nContent-Type: multipart/mixed\n\nwords",
        b"Subject: s\nContent-Type: multipart/mixed; boundary=b\n\nwords",
        b"Subject: s\nContent-Type: multipart/mixed; boundary=b\n\n--b\n\nwords\n--b",
        b"From nobody Mon\nSubject: s\n\nwords\n",
        b"Subject: =?utf-8?q?s?=\nDate: never\nFrom: <<>>;\n\nwords",
        b"Subject: s\r\n\r\nwords\r\n",
    ],
)
def test_odd_mails_keep_their_words(data):
    document = read_mail("a.eml", data)
    assert document.title == "s"
    assert "words" in document.lines


@pytest.mark.parametrize(
    "data",
    [
        b"no mail at all",
        b"".join(b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n" % (n, n) for n in range(2000)) + b"deep",
        b"Content-Type: message/rfc822\n\n" * 2000 + b"deep",
        b"Content-Type: multipart/mixed; boundary=a\n\n" + b"--a\n\nb\n" * 30_000,
    ],
)
def test_what_is_no_mail_is_kept_as_text(data):
    document = read_mail("a/my-mail.eml", data)
    assert document.lines == tuple(data.decode().removesuffix("\n").split("\n"))
    assert "indexed as plain text" in document.problems[0]


def test_long_headers_and_many_recipients_take_no_time():
    """The library's quadratic parsers see the start of a header."""
    for header, pieces in {
        b"Subject: ": (b"=?utf-8?q?a?= ", b"<"),
        b"To: ": (b"=?utf-8?q?a?= ", b"<", b"a,", b"("),
        b"Content-Type: text/plain; ": (b"(", b";", b"a*0*=x;"),
    }.items():
        for piece in pieces:
            document = read_mail("a.eml", header + piece * 20_000 + b"\n\nwords")
            assert "words" in document.lines
            assert document.problems


lines = st.sampled_from(
    (
        "Subject: s", "From: a@b", "From: =?utf-8?b?!?=", "Date: Tue, 99 Foo", "To: <(", "Content-Type: text/html",
        "Content-Type: multipart/mixed; boundary=b", "Content-Type: multipart/alternative; boundary=b", "--b",
        "--b--", "Content-Type: message/rfc822", "Content-Transfer-Encoding: base64",
        "Content-Transfer-Encoding: x-uuencode", "Content-Disposition: attachment; filename*0*=utf-8''%",
        "Content-Type: text/plain; charset*=x''y", "", "", "", "begin 644 a", "words", "=E9=", "w6k=", "<p>x",
        " folded", "Content-Type: ;", "Content-Type: message/partial",
    )
)  # fmt: skip


@given(st.one_of(st.binary(max_size=200), st.lists(lines, max_size=30).map("\n".join).map(str.encode)))
def test_any_bytes_parse(data):
    check_soundness(read_mail("a.eml", data))
