"""Make untrusted text safe to print on a terminal.

A document or file name must not be able to move the cursor, set colours or the window title, send input in the user's
name, or reverse the direction of the surrounding text.
"""

from __future__ import annotations

_BIDI = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
"""Marks, embeddings, overrides and isolates of Unicode's bidirectional algorithm (UAX #9, section 2)."""

_SEPARATORS = (0x2028, 0x2029)
"""Characters that some terminals and viewers treat as line breaks."""

_OTHERS = (*range(0x80, 0xA0), *_BIDI, *_SEPARATORS)
"""Characters without a Control Picture: C1 controls (ECMA-48) and the above."""

_VISIBLE = {
    **{code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\n\t"},  # Unicode's Control Pictures
    0x7F: "\u2421",
    **{code: f"<U+{code:04X}>" for code in _OTHERS},
}
_IN_JSON = {code: f"\\u{code:04x}" for code in (0x7F, *_OTHERS)}


def neutralised(text: str) -> str:
    """Replace control characters except newline and tab, and bidirectional ones, by visible substitutes."""
    return text.translate(_VISIBLE)


def one_line(text: str) -> str:
    """Neutralise a text that must stay on one line, such as a file name."""
    return neutralised(text).replace("\n", "\u240a").replace("\t", "\u2409")


def json_escaped(document: str) -> str:
    """Escape the characters that JSON allows unescaped but a terminal would act on."""
    return document.translate(_IN_JSON)
