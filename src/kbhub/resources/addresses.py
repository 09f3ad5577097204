"""The addresses of documents: `kbhub://{base}/{+path}`, by RFC 6570. Pure."""

from __future__ import annotations

import re
from urllib.parse import quote, unquote

TEMPLATE = "kbhub://{base}/{+path}"

# What RFC 6570 leaves as it is in `{+path}`, less `?`, `#` and the brackets, which would end or break the path.
_KEPT = ":/@!$&'()*+,;="

_ADDRESS = re.compile(r"kbhub://([^/?#]+)/([^?#]+)", re.IGNORECASE)
_ODD = re.compile(r"[%?#\[\]]")

Address = tuple[str, str]
"""Id of a base, and a path in it."""


def uri_of(base: str, path: str) -> str:
    """Give the address of a document.

    Args:
        base: id of its base.
        path: relative to the base, with `/`.
    """
    return f"kbhub://{quote(base, safe='')}/{quote(path, safe=_KEPT)}"


def parse_uri(uri: str) -> Address | None:
    """Give the base and the path that an address names, however it is escaped; none if it is no address of ours."""
    found = _ADDRESS.fullmatch(uri)
    if found is None:
        return None
    base, path = map(unquote, found.groups())
    return (base, path) if base and path else None


def template_value(path: str) -> str:
    """Give a path as the value of `{+path}`: what the template's expansion would leave to break the address is escaped.

    Expansion leaves what is escaped already as it is (RFC 6570, section 3.2.3).
    """
    return _ODD.sub(lambda found: quote(found[0], safe=""), path)


def from_template_value(value: str) -> str:
    """Give the path that a person means who may have begun to type one, or to go on with one that is escaped."""
    return unquote(value)
