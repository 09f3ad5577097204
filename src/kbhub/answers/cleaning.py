"""A model's text → its sentences: without what stands around them, and without what would load or lead somewhere."""

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
"""Letters of a line such as `Sources:`, at most."""

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
    """Give what a model wrote as an answer.

    A fence around all of it goes, as do a list of the sources, images, tags, and links and addresses that no passage
    has. Of data, or of the prompt itself, in place of an answer nothing is left.

    Args:
        text: what it wrote.
        passages: those that it got.
    """
    if wrapped := _WRAPPED.fullmatch(text):
        text = wrapped["text"]
    if PASSAGES_END in text or _is_data(text):
        return ""
    text = _without_list(text, [one.ref for one in passages])
    everything = "\n".join(one.text for one in passages)

    def named(match: re.Match[str]) -> bool:
        target = match["target"].rstrip(".,;:!?")
        return bool(target) and target in everything

    def harmless(part: str) -> str:
        part = _IMAGE.sub(
            lambda match: match["text"], _ADDRESS.sub(lambda match: match[0] if named(match) else "", part)
        )
        return _LINK.sub(lambda match: match[0] if named(match) else match["text"], _TAG.sub("", part))

    return outside_code(text, harmless)


def outside_code(text: str, change: Callable[[str], str]) -> str:
    """Change what of a text is no code."""
    made, at = "", 0
    for start, end in code_spans(text):
        made += change(text[at:start]) + text[start:end]
        at = end
    return made + change(text[at:])


def code_spans(text: str) -> list[tuple[int, int]]:
    """Give where code in a text begins and ends, fenced or within a line."""
    return [match.span() for match in _CODE.finditer(text)]


def _is_data(text: str) -> bool:
    """Say whether a text is one object or list of JSON, fenced or not."""
    bare = re.sub(r"^```\w*\n|\n```$", "", text.strip())
    if not bare.startswith(("{", "[")):
        return False
    try:
        return isinstance(json.loads(bare), (dict, list))
    except (ValueError, RecursionError):
        return False


def _without_list(text: str, refs: Sequence[str]) -> str:
    """Leave out the lines that say which number is which source, and the line above them that says so."""
    kept: list[str] = []
    for line in text.split("\n"):
        if (found := _LISTED.match(line)) and found["rest"].startswith(tuple(refs)):
            if kept and not kept[-1].strip():
                kept.pop()
            if kept and len(kept[-1]) <= HEAD_LETTERS and kept[-1].rstrip(" *_").endswith(":"):
                kept.pop()
        else:
            kept.append(line)
    return "\n".join(kept)
