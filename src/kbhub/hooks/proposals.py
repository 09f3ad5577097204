"""What a session's log suggests to remember: sentences in which the user corrected the agent, or decided something.

No model reads the log. A sentence is proposed as the user wrote it, by words that mark a rule (`always`, `from now
on`), a correction (`no, …`, `instead`) or a decision (`we decided`, `let's go with`); a person accepts it or not.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from kbhub.documents.secrets import find_secrets
from kbhub.hooks.quotes import inert
from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kbhub.documents.sources.sessions import Turn

Why = Literal["asked", "decided", "corrected"]

MOST_PROPOSALS = 3
"""Proposals per session: issue "Knowledge that arrives by itself"."""

SHORTEST, LONGEST = 24, 400
"""Characters of a sentence: shorter ones need what was said before, longer ones are pastes."""

LEAST_CONTENT = 3
"""Words of a sentence that say what it is about."""

_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z0-9`\"'])|\n+")
_CODE_BLOCK = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_QUOTED = re.compile(r"^[ \t]*(?:[-*] )?(?:>|\||[$#%] ).*$", re.MULTILINE)
"""Lines that the user did not write: quotes, what hooks said among them, tables, and commands."""

_MARKS: tuple[tuple[Why, int, str], ...] = (
    ("asked", 4, r"\b(?:remember|keep in mind|make a note|note(?: to self)?:|for (?:the )?future)\b"),
    ("asked", 4, r"\b(?:from now on|going forward|in (?:this|our) (?:repo|repository|project|code ?base))\b"),
    ("decided", 3, r"\b(?:we|i) (?:have )?(?:decided|agreed|chose|settled|went with)\b|\bdecision:"),
    ("decided", 3, r"\blet'?s (?:go with|use|stick (?:with|to)|keep)\b|\bwe(?:'ll| will) (?:use|go with|keep)\b"),
    ("decided", 2, r"\b(?:rule|convention|policy|standard) (?:here )?is\b|\bwe (?:only|prefer|require)\b"),
    ("corrected", 3, r"\b(?:always|never)\b(?! mind)"),
    ("corrected", 3, r"^(?:no|nope|wrong|actually|that'?s (?:wrong|not right)|not like that)\b[,.:! ]"),
    ("corrected", 2, r"^(?:please )?(?:do not|don'?t|stop|avoid)\b|\binstead(?: of)?\b|\bnot\b.{3,60}\bbut\b"),
)
"""Why a sentence is worth remembering, how much, and the words that show it."""

_LEADING = re.compile(
    r"^(?:no|nope|wrong|actually|ok(?:ay)?|well|hm+|please|remember(?: that)?)[,.:!]?\s+", re.IGNORECASE
)
_POINTING = """
about again also always another because before doing done from have here instead into just like make more never only
please remember same should something still stop sure than thanks that their them then there these they thing things
this those very want wants what when where which will with would wrong your
"""
"""Words of four letters and more that say nothing without what was said before."""
_EMPTY = frozenset(_POINTING.split())
_WORD = re.compile(r"[\w./:@#-]{4,}")
_IDENTIFIER = re.compile(r"`[^`]+`|\b\w+[._/:-]\w+|\b[a-z]+[A-Z]\w+|\b[A-Z]{2,}\b")


@struct
class Suggested:
    """A sentence that may be worth remembering."""

    text: str
    why: Why
    line: int
    """Line of the session's log, from 1; 0 if unknown."""
    weight: int


def suggested(turns: Iterable[Turn]) -> list[Suggested]:
    """Return the suggestions of a session in the order of its turns, at most `MOST_PROPOSALS`."""
    found: dict[str, Suggested] = {}
    answered = False
    for turn in turns:
        if turn.role == "user":
            for text in turn.texts:
                for one in _of(text, turn.line, answered=answered):
                    key = " ".join(one.text.casefold().split())
                    found[key] = max(one, found.get(key, one), key=lambda one: one.weight)
        answered = turn.role == "assistant"
    best = sorted(found.values(), key=lambda one: (-one.weight, one.line))[:MOST_PROPOSALS]
    return sorted(best, key=lambda one: one.line)


def _of(text: str, line: int, *, answered: bool) -> Iterator[Suggested]:
    for sentence in _SENTENCE.split(_QUOTED.sub("", _CODE_BLOCK.sub("\n", text))):
        said = sentence.strip(" \t-*•")
        if not SHORTEST <= len(said) <= LONGEST or said.endswith("?") or said[0] in "</{[":
            continue
        marks = [(weight, why) for why, weight, pattern in _MARKS if re.search(pattern, said, re.IGNORECASE)]
        # A correction answers something; at the beginning of a session, the same words begin a task.
        marks = [(weight, why) for weight, why in marks if answered or why != "corrected" or weight > 2]
        plain = _LEADING.sub("", said)
        content = {word.casefold() for word in _WORD.findall(plain)} - _EMPTY
        if not marks or len(content) < LEAST_CONTENT or find_secrets(said):
            continue
        weight = sum(weight for weight, _ in marks) + bool(_IDENTIFIER.search(plain))
        yield Suggested(inert(plain[0].upper() + plain[1:], LONGEST), max(marks)[1], line, weight)
