"""Text of strangers, made harmless for a terminal.

A document or a file name must not be able to move the cursor, set colours or the window's title, answer in the
user's name, or turn the direction of our own words.
"""

from __future__ import annotations

_BIDI = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
"""Marks, embeddings, overrides and isolates of Unicode's bidirectional algorithm (UAX #9, section 2)."""

_SEPARATORS = (0x2028, 0x2029)
"""Line breaks that are none in a file, but to some terminals and viewers."""

_OTHERS = (*range(0x80, 0xA0), *_BIDI, *_SEPARATORS)
"""Those without a picture: C1 controls (ECMA-48) and the above."""

_VISIBLE = {
    **{code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\n\t"},  # Unicode's Control Pictures
    0x7F: "\u2421",
    **{code: f"<U+{code:04X}>" for code in _OTHERS},
}
_IN_JSON = {code: f"\\u{code:04x}" for code in (0x7F, *_OTHERS)}


def neutralised(text: str) -> str:
    """Make every control character but line feed and tab, and every bidirectional one, visible and harmless."""
    return text.translate(_VISIBLE)


def one_line(text: str) -> str:
    """Neutralise a text that must stay on its line, such as a file name."""
    return neutralised(text).replace("\n", "\u240a").replace("\t", "\u2409")


def json_escaped(document: str) -> str:
    """Write as escapes, which mean the same, what JSON lets stand and terminals act upon."""
    return document.translate(_IN_JSON)
