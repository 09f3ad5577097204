"""What answers a question now, and the place that an answer leads to."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from kbhub.errors import KbhubError
from kbhub.markdown import parse_document
from kbhub.memory.folders import MEMORY_ID, PROJECT_ID
from kbhub.memory.known import active_shelves
from kbhub.memory.store import read
from kbhub.places import is_directory
from kbhub.sections import anchor, section
from kbhub.types import Query
from kbhub.values import struct
from kbhub.walk import open_contained

if TYPE_CHECKING:
    from kbhub.hub import Hub
    from kbhub.types import Base, Hit

PROMOTED_KINDS = ("document", "pdf")
"""Kinds of what a memory may refer to: session logs are rotated away, and memories are remembered already."""

TARGET_CHARACTERS = 200
"""Characters of a place that a memory refers to; a longer one is a text rather than a name."""

DIGEST_DIGITS = 16
"""Hex digits of a text's hash: it is compared with one other."""

_NAME = re.compile(r"[^\x00-\x20\x7f-\xa0`#:@<>\[\]|\\]+(?: [^\x00-\x20\x7f-\xa0`#:@<>\[\]|\\]+)*")
"""Paths that mean one thing as a ref, and that cannot end the code span in which a memory names them."""


@struct
class Answer:
    """What a question finds now."""

    verdict: str | None
    hit: Hit | None
    """The best one."""
    complete: bool
    """Whether everything could be searched."""

    @property
    def strong(self) -> bool:
        """Whether it answers."""
        return self.verdict == "strong" and self.hit is not None


def answer_in_documents(hub: Hub, question: str) -> Answer:
    """Ask everything but the memories of this project, which has those that were promoted."""
    bases = tuple(base.id for base in hub.discovery().bases if base.id != MEMORY_ID)
    return _asked(hub, question, bases) if bases else Answer(None, None, complete=False)


def answer_anywhere(hub: Hub, question: str) -> Answer:
    """Ask everything; a promoted memory, which says where to look and nothing else, is no answer."""
    found = answer_in_documents(hub, question)
    if found.strong or all(base.id != MEMORY_ID for base in hub.discovery().bases):
        return found
    every = _asked(hub, question, ())
    return every if every.strong and every.hit and not _is_promoted(hub, every.hit) else found


def target_of(hub: Hub, hit: Hit) -> str | None:
    """Give the ref that leads to a hit: its document, and its section as an anchor.

    Of what the document says nothing is in it but the letters and digits of a heading.

    Args:
        hub: what found it.
        hit: the hit.

    Returns:
        None if it cannot be referred to: it is no document, or its path is no plain name.
    """
    if hit.kind not in PROMOTED_KINDS or not _NAME.fullmatch(hit.path) or len(hit.ref) > TARGET_CHARACTERS:
        return None
    ref = hit.path if hit.base == PROJECT_ID else f"{hit.base}@{hit.path}"
    named = anchor(hit.headings[-1]) if hit.headings and hit.headings != (hit.title,) else ""
    if not named or not _NAME.fullmatch(named) or len(ref) + len(named) >= TARGET_CHARACTERS:
        return ref
    part = text_at(hub, f"{ref}#{named}")
    line = next((line for line in hit.excerpt.splitlines() if line.strip()), "").strip()
    # Of two sections with one anchor a ref leads to the first, which need not be the one that was found.
    return f"{ref}#{named}" if part and line in part else ref


def text_at(hub: Hub, target: str) -> str | None:
    """Give what a target leads to now; none if the document or its section is gone."""
    base, path, heading = _parts(hub, target)
    if base is None:
        return None
    try:
        with open_contained(base, path) as file:
            data = file.read(hub.config().settings.limits.file_bytes)
    except (OSError, KbhubError):
        return None
    document = parse_document(path, data)
    if not heading:
        return "\n".join(document.lines)
    lines = section(document, heading)
    return "\n".join(document.lines[lines[0] - 1 : lines[1]]) if lines else None


def is_known(hub: Hub, target: str) -> bool:
    """Whether the base of a target is active and its folder there: of another nobody can say what is gone."""
    base = _parts(hub, target)[0]
    return base is not None and is_directory(base.path)


def digest(text: str) -> str:
    """Hash a text."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:DIGEST_DIGITS]


def _parts(hub: Hub, target: str) -> tuple[Base | None, str, str]:
    """Give the base, the path and the heading of a target."""
    whole, _, heading = target.partition("#")
    name, mark, path = whole.rpartition("@")
    wanted = name if mark else PROJECT_ID
    bases = (base for base in hub.discovery().bases if wanted in (base.id, *base.names))
    return next(bases, None), path, heading


def _asked(hub: Hub, question: str, bases: tuple[str, ...]) -> Answer:
    result = hub.search(Query(text=question, bases=bases, limit=1))
    return Answer(result.verdict, result.hits[0] if result.hits else None, complete=not result.skipped)


def _is_promoted(hub: Hub, hit: Hit) -> bool:
    for shelf in active_shelves(hub):
        if shelf.base.id == hit.base and (stored := read(shelf, hit.path)):
            return stored.content.facts.source == "promoted"
    return False
