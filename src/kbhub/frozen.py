"""The base class of kbhub's pydantic models; `values` says when to use it."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict
from pydantic import main as pydantic_main

DEFERRED = hasattr(pydantic_main, "_rebuild_lock")
"""Whether what validates and serializes a model is built when one is first made: it takes a millisecond a class, and a
process uses few of the hundred. Before 2.14, pydantic built it without a lock, and threads met a half-built one."""


class Model(BaseModel):
    """A frozen value that crosses an edge."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=DEFERRED)
