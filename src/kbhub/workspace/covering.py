"""Find the contexts that apply to a path."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def matching(contexts: Mapping[str, str], everywhere: Mapping[str, str], path: str) -> tuple[str, ...]:
    """Return the contexts of a path, most general first.

    Args:
        contexts: prefix → text, of the path's base. Prefixes match whole path segments: `api` and `api/` match
            `api/x.md` but not `apis.md`.
        everywhere: prefix → text, of the global config, which applies to every base.
        path: relative to the base, with `/`.

    Returns:
        All that match, longest prefix last; for equal prefixes, the global text comes first.
    """
    matches = [
        (len(folder), of_base, text)
        for of_base, texts in ((False, everywhere), (True, contexts))
        for prefix, text in texts.items()
        if text and covers(folder := plain(prefix), path)
    ]
    return tuple(dict.fromkeys(text for _, _, text in sorted(matches)))


def plain(prefix: str) -> str:
    """Normalise a prefix: `./api/`, `/api` and `api` are the same."""
    return prefix.strip().removeprefix("./").strip("/").removesuffix("/.") if prefix.strip() != "." else ""


def covers(prefix: str, path: str) -> bool:
    """Return whether a normalised prefix is a path or a folder above it; the empty one covers everything."""
    return not prefix or path == prefix or path.startswith(f"{prefix}/")
