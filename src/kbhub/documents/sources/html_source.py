"""Take out of HTML what is not its text, so that the standard library's parser reads any of it in linear time.

Before Python 3.13.6 that parser takes quadratic time for comments and tags that are not closed, and raises an error on
unknown `<![…]>` and on long numbers of characters. After this only tags and text are left.
"""

from __future__ import annotations

import html
import re

_SPECIAL = re.compile(r"<(?:(!--)|(!\[CDATA\[)|(script|style)(?=[\s/>])|[!?])", re.IGNORECASE)
_STRAY = re.compile(r"<(?!/?[a-zA-Z]|[!?])")
_LONG_REFERENCE = re.compile(r"&(?=#[xX]?[0-9a-fA-F]{10})")


def plain_tags(text: str) -> str:
    """Remove comments, declarations, scripts and styles, and escape each `<` that opens no tag.

    Args:
        text: HTML or XHTML.
    """
    text = text.replace("\0", "\ufffd").replace("\r\n", "\n").replace("\r", "\n")
    text = _LONG_REFERENCE.sub("&amp;", _STRAY.sub("&lt;", text))
    parts: list[str] = []
    position = 0
    missing: set[str] = set()
    """Ends that do not occur after this place, so that they are sought once."""
    while match := _SPECIAL.search(text, position):
        parts.append(text[position : match.start()])
        position, kept = _passed(text, match, missing)
        parts.append(kept)
    parts.append(text[position:])
    text = "".join(parts)
    last = text.rfind(">") + 1
    return text[:last] + text[last:].replace("<", "&lt;")


def _passed(text: str, match: re.Match[str], missing: set[str]) -> tuple[int, str]:
    """Return where to go on after a special construct, and what is kept of it."""
    start, begin = match.span()
    if match[3]:
        return _after_code(text, begin, match[3].lower(), missing)
    closer = "-->" if match[1] else "]]>" if match[2] else ">"
    end = -1 if closer in missing else text.find(closer, start + 2 if match[1] else begin)
    if end < 0:
        missing.add(closer)
        return begin, html.escape(match[0])
    return end + len(closer), html.escape(text[begin:end]) if match[2] else ""


def _after_code(text: str, begin: int, name: str, missing: set[str]) -> tuple[int, str]:
    """Pass a script or a style sheet; one that is not closed goes to the end of the text, as in browsers."""
    opened = text.find(">", begin)
    if opened < 0 or name in missing:
        return begin, f"&lt;{name}" if opened < 0 else ""
    if text[opened - 1] == "/":
        return opened + 1, ""
    end = re.compile(rf"</{name}", re.IGNORECASE).search(text, opened + 1)
    closed = text.find(">", end.end()) + 1 if end else 0
    return (closed, " ") if closed else (len(text), "")
