"""Cleaning of a model's text: removes wrappings, and whatever would load or link to something unknown."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from kbhub.answers.marks import MARK
from kbhub.answers.prompts import PASSAGES_END

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kbhub.answers.models import Passage

HEAD_LETTERS = 40
"""Limit of letters of a line such as `Sources:`."""

_CODE = re.compile(
    r"^ {0,3}(?P<tick>`{3,}|~{3,}).*?(?:^ {0,3}(?P=tick)|\Z)|(?P<run>`+)(?!`).+?(?<!`)(?P=run)(?!`)",
    re.DOTALL | re.MULTILINE,
)
_TARGET = r"(?P<target>(?:[^()\s]|\([^()\s]{0,200}\)){0,500})[^()\n]{0,200}"
_IMAGE = re.compile(rf"!\[(?P<text>[^\[\]]*)\](?:\({_TARGET}\)|\[[^\[\]]*\])")
_LINK = re.compile(rf"\[(?P<text>(?!\^?\d{{1,4}}\])[^\[\]]*)\]\({_TARGET}\)")  # `[1](file.md)` is a citation
_ADDRESS = re.compile(r"[ \t]?<?\b(?P<target>https?://[^\s<>()\[\]\"'`]+)>?", re.IGNORECASE)
_TAG = re.compile(r"</?[A-Za-z][^<>]*>|<!--[^<>]*-->")
_WRAPPED = re.compile(
    r"\s*(?P<tick>`{3,}|~{3,})(?:markdown|md|text|txt)[ \t]*\n(?P<text>.*)\n(?P=tick)\s*", re.DOTALL | re.IGNORECASE
)
_LISTED = re.compile(rf"^[ \t]*(?:[-*+][ \t]+)?(?:{MARK.pattern}):?[ \t]*[`\"(<]?(?P<rest>.*)", re.IGNORECASE)


def cleaned(text: str, passages: Sequence[Passage]) -> str:
    """Return the answer in a model's text.

    Removes a fence around all of it, a list of sources, images, tags, and links and addresses that are in no passage.
    Returns an empty text for JSON, or a repetition of the prompt, in place of an answer.

    Args:
        text: the model's text.
        passages: the passages that were sent.
    """
    if wrapped := _WRAPPED.fullmatch(text):
        text = wrapped["text"]
    if PASSAGES_END in text or _is_data(text):
        return ""
    text = _without_list(text, [passage.ref for passage in passages])
    quoted = "\n".join(passage.text for passage in passages)

    def is_quoted(match: re.Match[str]) -> bool:
        target = match["target"].rstrip(".,;:!?")
        return bool(target) and target in quoted

    def harmless(part: str) -> str:
        part = _ADDRESS.sub(lambda match: match[0] if is_quoted(match) else "", part)
        part = _TAG.sub("", _IMAGE.sub(lambda match: match["text"], part))
        return _LINK.sub(lambda match: match[0] if is_quoted(match) else match["text"], part)

    return outside_code(text, harmless)


def outside_code(text: str, change: Callable[[str], str]) -> str:
    """Apply a change to a text, except to code in it."""
    changed, at = "", 0
    for start, end in code_spans(text):
        changed += change(text[at:start]) + text[start:end]
        at = end
    return changed + change(text[at:])


def code_spans(text: str) -> list[tuple[int, int]]:
    """Return the start and end of code in a text, both fenced and inline."""
    return [match.span() for match in _CODE.finditer(text)]


def _is_data(text: str) -> bool:
    """Return whether a text is a JSON object or list, fenced or not."""
    bare = re.sub(r"^```\w*\n|\n```$", "", text.strip())
    if not bare.startswith(("{", "[")):
        return False
    try:
        return isinstance(json.loads(bare), (dict, list))
    except (ValueError, RecursionError):
        return False


def _without_list(text: str, refs: Sequence[str]) -> str:
    """Remove a list of sources with the line above it, such as `Sources:`."""
    kept: list[str] = []
    for line in text.split("\n"):
        if (match := _LISTED.match(line)) and match["rest"].startswith(tuple(refs)):
            if kept and not kept[-1].strip():
                kept.pop()
            if kept and len(kept[-1]) <= HEAD_LETTERS and kept[-1].rstrip(" *_").endswith(":"):
                kept.pop()
        else:
            kept.append(line)
    return "\n".join(kept)
