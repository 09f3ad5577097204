"""The files of a base: which they are, and the one way to open one."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, BinaryIO

from kbhub.document_names import MARKDOWN_SUFFIXES
from kbhub.errors import PathNotContained
from kbhub.files import open_regular
from kbhub.filters import Filters, belongs, too_large
from kbhub.sources.kinds import byte_limit, kind_of
from kbhub.traversal import MAX_DEPTH, Traversal, inside_of, is_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kbhub.types import Base, Kind, Scan

__all__ = ["MARKDOWN_SUFFIXES", "MAX_DEPTH", "excluded_by", "open_contained", "scan"]

# Where a path can be opened step by step, nobody can slip in a link between the check and the opening.
_STEPWISE = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW") and hasattr(os, "O_DIRECTORY")


NO_LIMITS: Mapping[Kind, int] = MappingProxyType({})
"""No kind has a size limit of its own."""


def scan(base: Base, *, max_bytes: int, max_files: int, kind_bytes: Mapping[Kind, int] = NO_LIMITS) -> Scan:
    """List the files of a base, in order of path.

    Args:
        base: the base.
        max_bytes: a longer file is left out and reported.
        kind_bytes: the same for kinds of files that have a limit of their own.
        max_files: once there are this many files, the rest is left out and one entry says so.

    Raises:
        BaseUnavailable: its folder is gone or cannot be listed.
    """
    found = Traversal(base, max_bytes, max_files, kind_bytes).run()
    return replace(found, files=dict(sorted(found.files.items())))


def excluded_by(
    base: Base, path: str, *, max_bytes: int | None = None, kind_bytes: Mapping[Kind, int] = NO_LIMITS
) -> str | None:
    """What keeps an existing file out of a base, in words; none if `scan` takes it.

    Args:
        base: the base.
        path: relative to the base, with `/`.
        max_bytes: the size limit, if size is to count.
        kind_bytes: those of kinds that have their own.
    """
    try:
        with open_contained(base, path) as file:
            size = os.fstat(file.fileno()).st_size
    except PathNotContained:
        return "it lies outside the base"
    except OSError as error:
        return f"it cannot be opened ({error.strerror})"
    filters = Filters(base)
    reason = filters.reason(path) or _linked_reason(filters, path)
    kind = kind_of(base, path)
    if reason is None and max_bytes is not None and size > (limit := byte_limit(kind, max_bytes, kind_bytes)):
        return too_large(size, limit, kind)
    return reason


def _linked_reason(filters: Filters, path: str) -> str | None:
    """Why a file that a link leads to is not taken under this path."""
    root = str(filters.root)
    inside = _real_path(root, path)
    if inside is None or inside == path:
        return None
    folder, _, name = path.rpartition("/")
    home = _real_path(root, folder) if folder else ""
    if home is not None and home != folder and filters.reason(real := f"{home}/{name}".lstrip("/")) is None:
        return f"the base has it as {real!r}"
    return filters.target_reason(inside)


def _real_path(root: str, path: str) -> str | None:
    inside = inside_of(root, os.path.realpath(os.path.join(root, path)))  # noqa: PTH118
    return None if inside is None else inside.replace(os.sep, "/")


def open_contained(base: Base, path: str) -> BinaryIO:
    """Open a file of a base. Every path that came from a user, a model or a file goes through here.

    Links are followed as long as they stay in the base; what is opened is a regular file or nothing.

    Args:
        base: the base.
        path: relative to the base, with `/`. Any string is safe.

    Raises:
        PathNotContained: it is no path inside the base.
        FileNotFoundError: nothing is there.
        OSError: it is a folder, a device or a pipe, or cannot be opened.
    """
    parts = _parts(path)
    if parts is None or not belongs(path, base.only):
        raise PathNotContained(path, base.id)
    root = os.path.realpath(base.path)
    try:
        real = os.path.realpath(os.path.join(root, *parts), strict=True)  # noqa: PTH118
    except UnicodeEncodeError as error:  # a lone surrogate: no file can have that name
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from error
    inside = inside_of(root, real)
    if inside is None:
        raise PathNotContained(path, base.id)
    if not inside:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    return os.fdopen(_open_below(root, inside.replace(os.sep, "/").split("/")), "rb")


def _open_below(root: str, parts: list[str]) -> int:
    """Open a file by its real path, step by step; a link in it is new and is not followed."""
    if not _STEPWISE:
        return open_regular(os.path.join(root, *parts))  # noqa: PTH118
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    folder = os.open(root, flags)
    try:
        for part in parts[:-1]:
            inner = os.open(part, flags, dir_fd=folder)
            os.close(folder)
            folder = inner
        return open_regular(parts[-1], dir_fd=folder, follow=False)
    finally:
        os.close(folder)


def is_relative(path: str) -> bool:
    """Whether a string can be the path of a document: relative, going down only, and text."""
    return _parts(path) is not None and is_text(path)


def _parts(path: str) -> list[str] | None:
    """The segments of a relative path, or none if it is not one."""
    separators = {"/", os.sep}
    if not path or "\0" in path or path[0] in separators:
        return None
    parts = path.replace(os.sep, "/").split("/")
    # A colon names a drive or a hidden stream of a file on Windows.
    if any(part in ("", ".", "..") or (os.name == "nt" and ":" in part) for part in parts):
        return None
    return parts
