"""Recurring questions that are known already, and which of them a cluster of queries is about."""

from __future__ import annotations

import base64
import hashlib
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from kbhub.index.querylog import Kind, QueryLog, Topic
    from kbhub.querylog.clusters import Cluster

    Embed = Callable[[Sequence[str]], NDArray[np.float32]]

KEY_DIGITS = 32
"""Hex digits of a hash that stands for a question: as many as no two share."""

ID_CHARACTERS = 8
"""Characters of an id: 40 bits, as those of memories."""


class Deadline:
    """When to stop.

    Args:
        seconds: how long there is from now.
    """

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        self.met = True
        """Whether nothing was left undone."""

    def over(self) -> bool:
        """Whether the time is up; who asks stops then."""
        if time.monotonic() > self._end:
            self.met = False
        return not self.met


class Topics:
    """The topics of one kind, as they are in the log.

    Args:
        log: the log.
        kind: which.
        embed: gives vectors for questions.
        similarity: cosine above which two questions are one.
    """

    def __init__(self, log: QueryLog, kind: Kind, embed: Embed, similarity: float) -> None:
        self._similarity = similarity
        self.topics = log.topics(kind)
        self._vectors = embed([topic.question for topic in self.topics]) if self.topics else None

    def about(self, cluster: Cluster) -> Topic | None:
        """Give the topic that a cluster is about; of several the nearest, none if it is a new one."""
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
    """Hash the key of a query: what must not come back is known by it when the words are forgotten."""
    return hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()[:KEY_DIGITS]


def topic_id(kind: Kind, key: str) -> str:
    """Give the id of a topic, which follows from its key."""
    found = hashlib.sha256(f"{kind}\0{key}".encode()).digest()
    return base64.b32encode(found)[:ID_CHARACTERS].decode("ascii").lower()
