"""Text arguments that are stored: text that is not UTF-8 is rejected rather than stored damaged."""

from __future__ import annotations

import sys

from kbhub.errors import UsageError


def standard_input(limit: int, of: str) -> str:
    """Read a text from standard input.

    Args:
        limit: maximum of bytes.
        of: what the limit applies to, for the error message.

    Raises:
        UsageError: the text is longer, or not UTF-8.
    """
    data = sys.stdin.buffer.read(limit + 1)
    if len(data) > limit:
        raise UsageError(f"Standard input is longer than {of} may be, {limit} bytes.")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"Standard input is no UTF-8 from byte {error.start}; convert it first.") from error


def argument(given: str) -> str:
    """Return an argument as Unicode: Python hands over bytes that the locale does not know as lone surrogates.

    Raises:
        UsageError: it is no UTF-8.
    """
    try:
        return given.encode("utf-8", "surrogateescape").decode("utf-8")
    except UnicodeError as error:
        raise UsageError(f"{given!r} is no UTF-8; convert it first.") from error


def optional(given: str | None) -> str | None:
    """Return an argument, if there is one, as `argument` does."""
    return None if given is None else argument(given)
