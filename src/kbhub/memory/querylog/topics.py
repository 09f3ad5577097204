"""Recurring questions that are already known, and which of them a cluster of queries is about."""

from __future__ import annotations

import base64
import hashlib
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from kbhub.index.logged import Kind, Topic
    from kbhub.index.querylog import QueryLog
    from kbhub.memory.querylog.clusters import Cluster

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
