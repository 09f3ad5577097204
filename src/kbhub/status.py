"""The state of bases and their indexes, as it is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbhub.errors import BaseUnavailable, IndexUnavailable
from kbhub.index.reader import NOT_THERE
from kbhub.places import is_directory
from kbhub.reports import BaseStatus
from kbhub.types import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kbhub.index import Index
    from kbhub.types import Base


def base_status(base: Base, index: Index, *, indexing: str | None, failure: str | None) -> BaseStatus:
    """Describe a base; what keeps its index from being read is one of the problems.

    Args:
        base: the base.
        index: its index, which may not be there.
        indexing: how far indexing is, where it goes on.
        failure: why the index could not be brought in step when that was last tried.
    """
    problems = [] if is_directory(base.path) else [Problem(subject=base.id, message=f"{base.path} is gone.")]
    if failure:
        problems.append(Problem(subject=base.id, message=failure))
    try:
        with index.snapshot():
            documents, chunks, vectors = index.counts()
            problems += [Problem(subject=path, message=message) for path, message in index.problems()]
            synced = index.meta("synced")
            index_bytes = index.path.stat().st_size
    except FileNotFoundError:  # set aside this moment
        return BaseStatus(base=base, indexing=indexing, problems=tuple(problems))
    except IndexUnavailable as error:
        if error.reason != NOT_THERE and not failure:
            problems.append(Problem(subject=base.id, message=str(error)))
        return BaseStatus(base=base, indexing=indexing, problems=tuple(problems))
    return BaseStatus(
        base=base,
        documents=documents,
        chunks=chunks,
        vectors=vectors,
        index=index.path,
        index_bytes=index_bytes,
        synced=synced,
        indexing=indexing,
        problems=tuple(problems),
    )


def unsearched(
    base: Base,
    error: BaseUnavailable | IndexUnavailable,
    progress: Mapping[str, tuple[int, int]],
    *,
    in_hand: bool,
    failure: str | None,
) -> str:
    """Say why a base cannot be searched.

    Args:
        base: the base.
        error: what came of trying.
        progress: base → (files done, files to do), of those that are being indexed.
        in_hand: whether something sees to it that the base is indexed.
        failure: why the index could not be brought in step when that was last tried.
    """
    if base.id in progress:
        done, todo = progress[base.id]
        return f"It is being indexed ({done} of {todo} files)."
    if isinstance(error, BaseUnavailable) or error.reason != NOT_THERE:
        return str(error)
    if failure:
        return failure
    if progress:
        return f"It is not indexed yet; it comes after {' and '.join(map(repr, progress))}."
    return "It is not indexed yet; that is under way." if in_hand else str(error)
