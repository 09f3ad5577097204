"""Cache of model answers: one small private file per question, in the cache directory."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel, ValidationError

from kbhub.workspace.files import read_regular
from kbhub.workspace.places import private_directory, write_atomically

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

M = TypeVar("M", bound=BaseModel)

FOLDER = "answers"
"""Folder in the cache directory."""

MOST_FILES = 1000
"""Cached answers, a few megabytes at most; the oldest are deleted when there are more."""

KEPT_FILES = 900
"""Answers left after pruning, so that not every new one triggers it."""

MOST_BYTES = 64 * 1024
"""Largest file that is read; kbhub writes no larger ones."""


class StoredAnswers:
    """Model answers, cached by question.

    Args:
        cache: kbhub's cache directory; the folder in it is created with the first answer.
    """

    def __init__(self, cache: Path) -> None:
        self.folder = cache / FOLDER

    def load(self, shape: type[M], asked: Sequence[str]) -> M | None:
        """Return a cached answer, or None if there is no valid one.

        Args:
            shape: the model of the answer.
            asked: everything that the answer depends on: the model's name and the prompt.
        """
        try:
            return shape.model_validate_json(read_regular(self._file(asked), MOST_BYTES, follow=False))
        except (OSError, ValidationError):
            return None

    def save(self, answer: BaseModel, asked: Sequence[str]) -> None:
        """Cache an answer; write errors are ignored.

        Args:
            answer: the answer.
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
