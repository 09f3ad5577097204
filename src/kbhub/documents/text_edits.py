"""Edit a document line by line, keeping all other bytes as they are."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from kbhub.documents.markdown import decode, encoding_of
from kbhub.errors import WriteRefused
from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Sequence

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")


@struct
class Text:
    """A document's lines, with what is needed to write them back."""

    lines: tuple[str, ...] = ()
    """Each with its line ending, which the last one may lack; numbered as by `parse_document`."""
    mark: bytes = b""
    """Byte order mark."""
    encoding: str = "utf-8"

    @property
    def bare(self) -> list[str]:
        """The lines without their endings."""
        return [line.rstrip("\r\n") for line in self.lines]

    @property
    def newline(self) -> str:
        """The most common line ending, for new lines; the first one on a tie."""
        endings = Counter(line[len(line.rstrip("\r\n")) :] for line in self.lines)
        del endings[""]
        # After a line that ends in CR, an empty line with LF would be read as the second half of its ending.
        if endings["\r"] and len(+endings) > 1:
            return "\r\n"
        return endings.most_common(1)[0][0] if +endings else "\n"

    @property
    def ends_with_newline(self) -> bool:
        """Whether the last line has a line ending; true for an empty text."""
        return not self.lines or self.lines[-1].endswith(("\r", "\n"))

    def replaced(self, start: int, end: int, new: Sequence[str]) -> Text:
        """Return the text with some lines replaced.

        Args:
            start: index of the first line to replace.
            end: index after the last one.
            new: lines with their endings.
        """
        return replace(self, lines=(*self.lines[:start], *new, *self.lines[end:]))

    def encoded(self) -> bytes:
        """Return the bytes of the file."""
        return self.mark + "".join(self.lines).encode(self.encoding)


def lines_of(text: str) -> tuple[str, ...]:
    """Split a text into lines with their endings."""
    return tuple(_LINE.findall(text))


def text_of(ref: str, data: bytes) -> Text:
    """Decode a document's bytes so that they can be written back unchanged.

    Args:
        ref: the document, for error messages.
        data: the whole file.

    Raises:
        WriteRefused: it does not decode, so writing it would lose bytes.
    """
    if problem := decode(data)[1]:
        raise WriteRefused(ref, f"an edit would lose bytes, because it cannot be read as text ({problem.rstrip('.')})")
    mark, encoding, _ = encoding_of(data)
    return Text(lines_of(data[len(mark) :].decode(encoding)), mark, encoding)


def check_writable_text(ref: str, text: str) -> None:
    """Raise `WriteRefused` if a text contains NUL or lone surrogates."""
    if "\0" in text:
        raise WriteRefused(ref, "the new text contains NUL characters; remove them")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise WriteRefused(ref, "the new text contains half characters (lone surrogates); remove them") from None
