"""What models have answered, kept in the cache directory: one small file per question, for this user alone."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel, ValidationError

from kbhub.files import read_regular
from kbhub.places import private_directory, write_atomically

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

M = TypeVar("M", bound=BaseModel)

FOLDER = "answers"
"""In the cache directory."""

MOST_FILES = 1000
"""Answers kept; the oldest go when there are more. At most a few megabytes."""

KEPT_FILES = 900
"""Answers left when some had to go, so that not every further one makes the folder be read."""

MOST_BYTES = 64 * 1024
"""Of one file; a longer one is none of ours."""


class StoredAnswers:
    """Answers by what was asked.

    Args:
        cache: kbhub's cache directory; a folder is made in it when a first answer is kept.
    """

    def __init__(self, cache: Path) -> None:
        self.folder = cache / FOLDER

    def load(self, shape: type[M], asked: Sequence[str]) -> M | None:
        """Give what was answered; none if nothing was kept, or if that cannot be read.

        Args:
            shape: the form of the answer.
            asked: all that it depends on: the model, the words of the prompt.
        """
        try:
            return shape.model_validate_json(read_regular(self._file(asked), MOST_BYTES, follow=False))
        except (OSError, ValidationError):
            return None

    def save(self, answer: BaseModel, asked: Sequence[str]) -> None:
        """Keep an answer; one that cannot be kept is asked for again.

        Args:
            answer: what was answered.
            asked: as for `load`.
        """
        text = answer.model_dump_json()
        try:
            write_atomically(private_directory(self.folder) / self._file(asked).name, text)
            self._prune()
        except OSError:
            return

    def _file(self, asked: Sequence[str]) -> Path:
        digest = hashlib.sha256(json.dumps(list(asked)).encode()).hexdigest()
        return self.folder / f"{digest[:40]}.json"

    def _prune(self) -> None:
        files = list(self.folder.glob("*.json"))
        if len(files) <= MOST_FILES:
            return
        ages = sorted((path.lstat().st_mtime_ns, path) for path in files)
        for _, path in ages[: len(files) - KEPT_FILES]:
            path.unlink(missing_ok=True)
