"""Recurring questions that are known, their current answers, and the refs that lead to them."""

from __future__ import annotations

import base64
import hashlib
import re
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kbhub.documents.markdown import anchor
from kbhub.documents.walk import open_contained
from kbhub.errors import KbhubError
from kbhub.index.side_files import Kind, QueryLog, Topic
from kbhub.memory.catalog import active_shelves, section_text
from kbhub.memory.files import read
from kbhub.search.search import search
from kbhub.types import Base, Hit, Query
from kbhub.values import struct
from kbhub.workspace.files import is_directory
from kbhub.workspace.formats import CONVERTED_KINDS
from kbhub.workspace.memory_folders import MEMORY_ID, PROJECT_ID

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kbhub.hub import Hub
    from kbhub.usage.clusters import Cluster

    Embed = Callable[[Sequence[str]], NDArray[np.float32]]

KEY_DIGITS = 32
"""Hex digits of a question's hash, enough to avoid collisions."""

ID_CHARACTERS = 8
"""Length of an id: 40 bits, as for memories."""


class TimeLimit:
    """A time limit, in seconds from its creation."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        self.met = True
        """Whether `over` never returned True: nothing was left undone."""

    def over(self) -> bool:
        """Return whether the time is up."""
        if time.monotonic() > self._end:
            self.met = False
        return not self.met


class Topics:
    """The topics of one kind in a log; questions whose cosine exceeds `similarity` are the same."""

    def __init__(self, log: QueryLog, kind: Kind, embed: Embed, similarity: float) -> None:
        self._similarity = similarity
        self.topics = log.topics(kind)
        self._vectors = embed([topic.question for topic in self.topics]) if self.topics else None

    def about(self, cluster: Cluster) -> Topic | None:
        """Return the topic of a cluster, the nearest if several match, or None if it is new."""
        keys = set(map(topic_key, cluster.keys))
        for topic in self.topics:
            if topic.key in keys:
                return topic
        if self._vectors is None:
            return None
        near = self._vectors @ cluster.vector
        nearest = int(near.argmax())
        return self.topics[nearest] if near[nearest] > self._similarity else None


def topic_key(key: str) -> str:
    """Hash the key of a query, to recognise it after its text was deleted."""
    return hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()[:KEY_DIGITS]


def topic_id(kind: Kind, key: str) -> str:
    """Derive the id of a topic from its key."""
    digest = hashlib.sha256(f"{kind}\0{key}".encode()).digest()
    return base64.b32encode(digest)[:ID_CHARACTERS].decode("ascii").lower()


PROMOTED_KINDS = ("document", *(kind for kind in CONVERTED_KINDS if kind != "session"))
"""Kinds that a memory may refer to. Session logs are rotated away, and memories are remembered already."""

TARGET_CHARACTERS = 200
"""Limit of a ref in a memory; longer ones are text rather than names."""

DIGEST_DIGITS = 16
"""Hex digits of a text's hash; it is only compared with one other."""

_NAME = re.compile(r"[^\x00-\x20\x7f-\xa0`#:@<>\[\]|\\]+(?: [^\x00-\x20\x7f-\xa0`#:@<>\[\]|\\]+)*")
"""Paths that are unambiguous as a ref, and cannot end the code span that holds them in a memory."""


@struct
class LoggedAnswer:
    """The current answer to a question."""

    verdict: str | None
    hit: Hit | None
    """The best hit."""
    complete: bool
    """Whether everything could be searched."""

    @property
    def strong(self) -> bool:
        """Whether it answers the question."""
        return self.verdict == "strong" and self.hit is not None


def answer_in_documents(hub: Hub, question: str) -> LoggedAnswer:
    """Search everything but this project's memories, where promoted ones are stored."""
    bases = tuple(base.id for base in hub.discovery().bases if base.id != MEMORY_ID)
    return _answer(hub, question, bases) if bases else LoggedAnswer(None, None, complete=False)


def answer_anywhere(hub: Hub, question: str) -> LoggedAnswer:
    """Search everything, not counting promoted memories as answers: they only refer to one."""
    answer = answer_in_documents(hub, question)
    if answer.strong or all(base.id != MEMORY_ID for base in hub.discovery().bases):
        return answer
    overall = _answer(hub, question, ())
    return overall if overall.strong and overall.hit and not _is_promoted(hub, overall.hit) else answer


def target_of(hub: Hub, hit: Hit) -> str | None:
    """Return the ref of a hit's document, with its section as an anchor.

    None if the hit is not a document, or its path is not a plain name. The only text taken from the document is the
    letters and digits of a heading.
    """
    if hit.kind not in PROMOTED_KINDS or not _NAME.fullmatch(hit.path) or len(hit.ref) > TARGET_CHARACTERS:
        return None
    ref = hit.path if hit.base == PROJECT_ID else f"{hit.base}@{hit.path}"
    heading = anchor(hit.headings[-1]) if hit.headings and hit.headings != (hit.title,) else ""
    if not heading or not _NAME.fullmatch(heading) or len(ref) + len(heading) >= TARGET_CHARACTERS:
        return ref
    part = text_at(hub, f"{ref}#{heading}")
    line = next((line for line in hit.excerpt.splitlines() if line.strip()), "").strip()
    # If two sections share an anchor, the ref leads to the first, which may not be the section of the hit.
    return f"{ref}#{heading}" if part and line in part else ref


def text_at(hub: Hub, target: str) -> str | None:
    """Return the current text of a target, or None if its document or section is gone."""
    base, path, heading = _parts(hub, target)
    if base is None:
        return None
    try:
        with open_contained(base, path) as file:
            data = file.read(hub.config().settings.limits.file_bytes)
    except (OSError, KbhubError):
        return None
    return section_text(path, data, heading)


def is_known(hub: Hub, target: str) -> bool:
    """Return whether a target's base is active and its folder exists; otherwise its absence proves nothing."""
    base = _parts(hub, target)[0]
    return base is not None and is_directory(base.path)


def digest(text: str) -> str:
    """Hash a text."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:DIGEST_DIGITS]


def _parts(hub: Hub, target: str) -> tuple[Base | None, str, str]:
    """Split a target into base, path and heading."""
    whole, _, heading = target.partition("#")
    name, mark, path = whole.rpartition("@")
    base_id = name if mark else PROJECT_ID
    bases = (base for base in hub.discovery().bases if base_id in (base.id, *base.names))
    return next(bases, None), path, heading


def _answer(hub: Hub, question: str, bases: tuple[str, ...]) -> LoggedAnswer:
    result = search(hub, Query(text=question, bases=bases, limit=1))
    return LoggedAnswer(result.verdict, result.hits[0] if result.hits else None, complete=not result.skipped)


def _is_promoted(hub: Hub, hit: Hit) -> bool:
    for shelf in active_shelves(hub):
        if shelf.base.id == hit.base and (stored := read(shelf, hit.path)):
            return stored.facts.source == "promoted"
    return False
