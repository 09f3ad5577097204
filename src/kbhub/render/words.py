"""Small matters of English that every rendering shares."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kbhub.types import Problem, SearchResult


def counted(count: int, noun: str) -> str:
    """Give a number with its noun, in the plural if there is not exactly one: `1 chunk`, `2 chunks`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


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


def total_of(result: SearchResult) -> str:
    """Give the number of hits in all, as `at least` so many where there may be more."""
    return str(result.total) if result.total_exact else f"at least {result.total}"
