"""The words of a document's path, as a person reads them."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import PurePosixPath

from kbhub.query.tokens import cased_parts

PATHS = 4096
"""Paths whose words are remembered."""

_PART = re.compile(r"[^\W\d_]+|\d+")


@lru_cache(maxsize=PATHS)
def words_of(path: str) -> str:
    """Give a path without its ending, followed by its words cut at separators, case and digits.

    Args:
        path: relative, with `/`; `runbooks/kafkaRestart2.md` → `runbooks/kafkaRestart2 kafka Restart 2`, with all
            parts of the name that are words of it already.
    """
    name = str(PurePosixPath(path).with_suffix(""))
    parts = [part for found in _PART.findall(name) for part in (found, *cased_parts(found))]
    return " ".join([name, *parts])
