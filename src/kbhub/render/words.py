"""Wording that several renderings share, and untrusted text made safe to print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kbhub.workspace.formats import remedy_of

if TYPE_CHECKING:
    from kbhub.types import Problem, SearchResult, Signal


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


CONTRIBUTION_DIGITS = 4
"""Decimal digits of a signal's contribution to a score; as many as the score has."""

REMEMBERED = {
    "stored": "Remembered",
    "strengthened": "Already known, strengthened",
    "updated": "Changed",
    "confirmed": "Confirmed",
}
"""Outcome of `remember` → words for it."""


def neutralised(text: str) -> str:
    """Replace control characters except newline and tab, and bidirectional ones, by visible substitutes."""
    return text.translate(_VISIBLE)


def visible_line(text: str) -> str:
    """Neutralise a text that must stay on one line, such as a file name."""
    return neutralised(text).replace("\n", "\u240a").replace("\t", "\u2409")


def json_escaped(document: str) -> str:
    """Escape the characters that JSON allows unescaped but a terminal would act on."""
    return document.translate(_IN_JSON)


def shortened(text: str, characters: int) -> str:
    """Cut a text at a number of characters, marked with `…`."""
    return text if len(text) <= characters else f"{text[: characters - 1]}…"


def heading_path(title: str, headings: Sequence[str]) -> list[str]:
    """Return a document's title and the headings below it, without repeating a first heading that is the title."""
    return [title, *(headings[1:] if tuple(headings[:1]) == (title,) else headings)]


def message_of(problem: Problem) -> str:
    """Return the message of a problem without its subject, with which some messages start."""
    return problem.message.removeprefix(f"{problem.subject}: ")


def verdict_words(verdict: str) -> str:
    """Return a sentence with the verdict, for formats that have no field for it."""
    meaning = ", the bases may not cover this" if verdict == "weak" else ""
    return f"Verdict: {verdict}{meaning}."


def contribution_of(signal: Signal) -> str:
    """Return a signal's contribution to the score, with its sign; never `-0.0000`."""
    return f"{round(signal.contribution, CONTRIBUTION_DIGITS) + 0.0:+.{CONTRIBUTION_DIGITS}f}"


def total_of(result: SearchResult) -> str:
    """Return the total number of hits, with `at least` if there may be more."""
    return str(result.total) if result.total_exact else f"at least {result.total}"


def warnings_text(warnings: Sequence[Problem]) -> str:
    """Return a sentence about settings and variables without effect, empty if there are none."""
    if not warnings:
        return ""
    first, more = warnings[0], len(warnings) - 1
    return f"{first.subject}: {message_of(first)}" + (f" {more} more; see `kbhub status`." if more else "")


def passed_over_text(counts: Mapping[str, int]) -> str:
    """Return how many files of which kinds are not indexed and how to include them, empty if there are none.

    `counts` maps a file name suffix to a number of files.
    """
    remedies: dict[str, list[str]] = {}
    for suffix, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        remedies.setdefault(remedy_of(suffix), []).append(f"{count} {suffix}")
    kinds_text = ", ".join(f"{', '.join(kinds)} ({remedy})" for remedy, kinds in remedies.items())
    return f"not indexed: {kinds_text}" if kinds_text else ""
