"""Read mails (.eml) and mailboxes (.mbox) as documents."""

from __future__ import annotations

import email
import email.policy
import re
from contextlib import suppress
from datetime import UTC, datetime
from email.message import EmailMessage, Message
from email.utils import parsedate_to_datetime
from pathlib import PurePosixPath

from kbhub.documents.converted import decode_as, document_of_markdown, storable
from kbhub.documents.markdown import plain_document
from kbhub.extensions.formats.html import markdown_of
from kbhub.extensions.formats.markdown_writer import closed
from kbhub.types import Document
from kbhub.workspace.formats import file_title

HEADER_CHARACTERS = 10_000
"""Longest header that is read; the library takes quadratic time for one."""

CONTENT_CHARACTERS = 1000
"""Longest header on a part's content, of which there may be thousands."""

NESTED_PARTS = 100
"""Multipart bodies and messages within a mail; the library recurses for those within each other."""

BOUNDARIES = 20_000
"""Lines that may begin a part; the library takes some 0.1 ms for each."""

PARTS = 1000

_POSTMARK = re.compile(rb"(?:\A|(?<=\n\n))From \S[^\n]*\n")
_LONG_HEADER = re.compile(rb"^([!-9;-~]{1,100}:[^\n]*(?:\n[ \t][^\n]*)*)", re.MULTILINE)
_NESTING = re.compile(rb"\bboundary\s*=|:\s*message/", re.IGNORECASE)
_READ = frozenset((b"mime-version", b"subject", b"from", b"to", b"cc", b"date"))
_SHOWN = ("from", "to", "cc", "date")


def read_mail(path: str, data: bytes) -> Document:
    """Read a mail: its plain text, else its HTML as Markdown; forwarded messages as sections; names of attachments."""
    try:
        whole = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if whole.count(b"\n--") > BOUNDARIES or len(_NESTING.findall(whole)) > NESTED_PARTS:
            fault = "It has too many parts within each other, so it is indexed as plain text."
            return plain_document(path, data, fault)
        if whole.startswith(b"From "):  # a line of a mailbox
            whole = whole.partition(b"\n")[2]
        short = _LONG_HEADER.sub(_shortened, whole)
        message = email.message_from_bytes(short, policy=email.policy.default)
        assert isinstance(message, EmailMessage)
        if not message.keys():
            return plain_document(path, data, "It has no headers of a mail, so it is indexed as plain text.")
        blocks, attachments, problems = _read(message)
        if len(short) < len(whole):
            problems.append(f"A header is longer than {CONTENT_CHARACTERS} characters; its end is left out.")
    except Exception as error:  # noqa: BLE001 - the library raises anything for a broken mail, which must not stop others
        what = f"{type(error).__name__}: {error}"[:200]
        return plain_document(path, data, f"It is no mail that can be read ({what}), so it is indexed as plain text.")
    values = {key: text for key in _SHOWN if (text := _header(message, key))}
    with suppress(ValueError, TypeError, OverflowError, IndexError):
        when: datetime = parsedate_to_datetime(_header(message, "date"))
        moment = (when if when.tzinfo else when.replace(tzinfo=UTC)).astimezone(UTC)
        values["date"] = moment.isoformat(timespec="seconds")
    if attachments:
        blocks.append("\n".join(["Attachments:", "", *(f"- {name}" for name in attachments)]))
    return document_of_markdown(
        path,
        "\n\n".join(blocks),
        title=_header(message, "subject"),
        front_matter=values,
        shown=_SHOWN,
        problems=tuple(dict.fromkeys(problems)),
    )


def read_mailbox(path: str, data: bytes) -> Document:
    """Read a mailbox: each mail as a section, below its subject."""
    mails = _POSTMARK.split(data.replace(b"\r\n", b"\n"))[1:]
    if not mails:
        return plain_document(path, data, "It has no line that begins a mail, so it is indexed as plain text.")
    read = [read_mail(path, mail.replace(b"\n>From ", b"\nFrom ")) for mail in mails]
    problems = dict.fromkeys(problem for one in read for problem in one.problems)
    text = "\n\n".join("\n".join((f"# {one.title}", "", *one.lines)) for one in read)
    return document_of_markdown(path, text, title=file_title(PurePosixPath(path)), problems=tuple(problems))


def _shortened(match: re.Match[bytes]) -> bytes:
    """Cut a header that is too long, and keep what may be a paragraph of the text."""
    header = match[1]
    name = header[: header.find(b":")].lower()
    if name.startswith(b"content-"):
        return header[:CONTENT_CHARACTERS]
    return header[:HEADER_CHARACTERS] if name in _READ else header


def _read(message: EmailMessage) -> tuple[list[str], list[str], list[str]]:
    """Return the text of all parts of a mail, the names of attachments, and problems, without recursion."""
    blocks, attachments, problems = list[str](), list[str](), list[str]()
    pending: list[tuple[Message, int]] = [(message, 1)]
    for _ in range(PARTS):
        if not pending:
            break
        part, level = pending.pop()
        kind = part.get_content_type()
        children = part.get_payload() if part.is_multipart() else []
        messages = [child for child in children if isinstance(child, Message)] if isinstance(children, list) else []
        if kind == "multipart/alternative":  # plain text if it says anything, else the last that can be read
            plain = [one for one in messages if one.get_content_type() == "text/plain" and _content(one).strip()]
            readable = [one for one in messages if one.is_multipart() or one.get_content_type() == "text/html"]
            pending += ((one, level) for one in plain[:1] or (readable or messages)[-1:])
        elif part.get_content_maintype() == "message" and messages:
            about = [f"{key}: {text}" for key in _SHOWN if (text := _header(messages[0], key))]
            blocks.append(f"{'#' * min(level + 1, 6)} {_header(messages[0], 'subject') or 'Forwarded message'}")
            blocks += ["\n".join(about)] if about else []
            pending += ((child, level + 1) for child in reversed(messages))
        elif messages:
            pending += ((child, level) for child in reversed(messages))
        elif kind in ("text/plain", "text/html") and not _attached(part):
            charset = part.get_param("charset", "")
            text, problem = decode_as(_content(part), charset if isinstance(charset, str) else "")
            text = markdown_of(storable(text)) if kind == "text/html" else closed(storable(text).strip("\n"))
            blocks += [text] if text.strip() else []
            problems += [problem] if problem else []
        else:
            name = ""
            with suppress(Exception):  # a broken header can raise anything, and counts as none
                name = " ".join(storable(part.get_filename() or "").split())[:200]
            if name or not kind.startswith(("text/", "multipart/")):
                attachments.append(f"{name or 'without a name'} ({kind})")
            elif (content := _content(part)).strip():
                # Other kinds of text, such as an invitation, and bodies without a boundary.
                blocks.append(closed(storable(decode_as(content, "")[0]).strip("\n")))
    if pending:
        problems.append(f"It has more than {PARTS} parts; the others are left out.")
    return blocks, attachments, problems


def _content(part: Message) -> bytes:
    payload = part.get_payload(decode=True)
    return payload if isinstance(payload, bytes) else b""


def _attached(part: Message) -> bool:
    with suppress(Exception):  # as above
        return part.get_content_disposition() == "attachment" or bool(part.get_filename())
    return False


def _header(message: Message, name: str) -> str:
    """Return a header on one line; "" if there is none or it cannot be read."""
    with suppress(Exception):  # the library raises anything for a broken header, which counts as none
        return " ".join(storable(str(message[name] or "")).split())[:HEADER_CHARACTERS]
    return ""
