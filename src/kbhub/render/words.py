"""Small matters of English that every rendering shares."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbhub.workspace.formats import remedy_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kbhub.types import Problem, SearchResult, Signal

CONTRIBUTION_DIGITS = 4
"""Digits of what a signal adds to a score; as many as a score has."""


def message_of(problem: Problem) -> str:
    """Give the message of a problem without its subject, which some messages begin with."""
    return problem.message.removeprefix(f"{problem.subject}: ")


def verdict_words(verdict: str) -> str:
    """Say how well the bases cover what was asked, for whoever reads a format that has no field for it.

    Args:
        verdict: `strong`, `weak` or `none`.
    """
    return f"Verdict: {verdict}{_MEANING.get(verdict, '')}."


_MEANING = {"weak": ", the bases may not cover this", "none": ""}


def contribution_of(signal: Signal) -> str:
    """Give what a signal adds to a score, with its sign; what rounds to nothing has none of its own."""
    return f"{round(signal.contribution, CONTRIBUTION_DIGITS) + 0.0:+.{CONTRIBUTION_DIGITS}f}"


def total_of(result: SearchResult) -> str:
    """Give the number of hits in all, as `at least` so many where there may be more."""
    return str(result.total) if result.total_exact else f"at least {result.total}"


def warnings_text(warnings: Sequence[Problem]) -> str:
    """Say in one sentence which fields and variables have no effect; empty if there are none."""
    if not warnings:
        return ""
    first, more = warnings[0], len(warnings) - 1
    return f"{first.subject}: {message_of(first)}" + (f" {more} more; `kbhub status` lists them." if more else "")


def passed_over_text(counts: Mapping[str, int]) -> str:
    """Say how many files of which kinds are passed over, and what would include them; empty if there are none.

    Args:
        counts: end of the name → files.
    """
    remedies: dict[str, list[str]] = {}
    for suffix, count in sorted(counts.items(), key=lambda one: (-one[1], one[0])):
        remedies.setdefault(remedy_of(suffix), []).append(f"{count} {suffix}")
    told = ", ".join(f"{', '.join(kinds)} ({remedy})" for remedy, kinds in remedies.items())
    return f"passed over: {told}" if told else ""
