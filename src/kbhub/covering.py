"""Which contexts are about a path; what the search needs of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def matching(contexts: Mapping[str, str], everywhere: Mapping[str, str], path: str) -> tuple[str, ...]:
    """Give the contexts of a path, the most general first.

    Args:
        contexts: those of its base: prefix → text. A prefix ends where a part of the path does: `api` and `api/` are
            about `api/x.md` and not about `apis.md`.
        everywhere: those of the global config, which are about every base.
        path: relative to the base, with `/`.

    Returns:
        All that match, the longest prefix last; of equal ones, what is said of every base first.
    """
    found = [
        (len(folder), of_base, text)
        for of_base, said in ((False, everywhere), (True, contexts))
        for prefix, text in said.items()
        if text and covers(folder := plain(prefix), path)
    ]
    return tuple(dict.fromkeys(text for _, _, text in sorted(found)))


def plain(prefix: str) -> str:
    """Give a prefix without what people write around it: `./api/`, `/api` and `api` are the same."""
    return prefix.strip().removeprefix("./").strip("/").removesuffix("/.") if prefix.strip() != "." else ""


def covers(prefix: str, path: str) -> bool:
    """Whether a plain prefix is a path or a folder above it; the empty one is above everything."""
    return not prefix or path == prefix or path.startswith(f"{prefix}/")
