"""Addresses of documents: `kbhub://{base}/{+path}`, by RFC 6570. Pure."""

from __future__ import annotations

import re
from urllib.parse import quote, unquote

TEMPLATE = "kbhub://{base}/{+path}"

# What RFC 6570 does not escape in `{+path}`, without `?`, `#` and brackets, which would end or break the path.
_KEPT = ":/@!$&'()*+,;="

_ADDRESS = re.compile(r"kbhub://([^/?#]+)/([^?#]+)", re.IGNORECASE)
_ODD = re.compile(r"[%?#\[\]]")

Address = tuple[str, str]
"""Id of a base, and a path in it."""


def uri_of(base: str, path: str) -> str:
    """Return the address of a document.

    Args:
        base: id of its base.
        path: relative to the base, with `/`.
    """
    return f"kbhub://{quote(base, safe='')}/{quote(path, safe=_KEPT)}"


def parse_uri(uri: str) -> Address | None:
    """Return the base and path of an address, however it is escaped, or None if it is not one of ours."""
    match = _ADDRESS.fullmatch(uri)
    if match is None:
        return None
    base, path = map(unquote, match.groups())
    return (base, path) if base and path else None


def template_value(path: str) -> str:
    """Return a path as the value of `{+path}`, escaping what would break the expanded address.

    Expansion leaves escaped characters as they are (RFC 6570, section 3.2.3).
    """
    return _ODD.sub(lambda match: quote(match[0], safe=""), path)


def from_template_value(value: str) -> str:
    """Return the path for a value that a person typed, fully or partly, escaped or not."""
    return unquote(value)
