"""Wording that several renderings share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbhub.workspace.formats import remedy_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kbhub.types import Problem, SearchResult, Signal

CONTRIBUTION_DIGITS = 4
"""Decimal digits of a signal's contribution to a score; as many as the score has."""

REMEMBERED = {
    "stored": "Remembered",
    "strengthened": "Known already, strengthened",
    "updated": "Changed",
    "confirmed": "Confirmed",
}
"""Outcome of `remember` → words for it."""


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
    """Return a sentence with the verdict, for formats that have no field for it.

    Args:
        verdict: `strong`, `weak` or `none`.
    """
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
    return f"{first.subject}: {message_of(first)}" + (f" {more} more; `kbhub status` lists them." if more else "")


def passed_over_text(counts: Mapping[str, int]) -> str:
    """Return how many files of which kinds are not indexed and how to include them, empty if there are none.

    Args:
        counts: file name suffix → number of files.
    """
    remedies: dict[str, list[str]] = {}
    for suffix, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        remedies.setdefault(remedy_of(suffix), []).append(f"{count} {suffix}")
    kinds_text = ", ".join(f"{', '.join(kinds)} ({remedy})" for remedy, kinds in remedies.items())
    return f"passed over: {kinds_text}" if kinds_text else ""
