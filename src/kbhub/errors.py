"""What can go wrong, and how kbhub says it.

KbhubError
├── UsageError            the call itself is wrong                    exit 2
├── ConfigError           a configuration file or variable is wrong   exit 2
├── BaseNotFound          no active base has this id                  exit 2
├── DocumentNotFound      no document answers to this ref             exit 1
├── PathNotContained      a path leads out of its base                exit 1
├── BaseUnavailable       the folder of a base cannot be read         exit 1
├── IndexUnavailable      a base's index cannot be opened or written  exit 1
└── EmbedderError         a model cannot be loaded or does not answer exit 1

Each is built from facts and makes its own sentence: what happened, to which thing, what to do next.
Edges (command line, server) translate them once; anything else is a bug and is shown as one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class KbhubError(Exception):
    """Any foreseeable failure; its text is meant for a person or a model."""

    exit_code = 1


class UsageError(KbhubError):
    """An argument or parameter that cannot be what was meant."""

    exit_code = 2


class ConfigError(KbhubError):
    """A configuration that cannot be used.

    Args:
        where: the file, or the name of the environment variable or option.
        message: what is wrong there and what was expected.
        field: the field in the file, dotted, if one is to blame.
    """

    exit_code = 2

    def __init__(self, where: Path | str, message: str, field: str | None = None) -> None:
        self.where, self.message, self.field = where, message, field
        super().__init__(f"{where}: {f'{field}: ' if field else ''}{message}")


class BaseNotFound(KbhubError):
    """No active base has this id."""

    exit_code = 2

    def __init__(self, name: str, known: Sequence[str]) -> None:
        self.name, self.known = name, tuple(known)
        listed = ", ".join(known) or "none is active here"
        super().__init__(f"No base {name!r}. Active bases: {listed}.")


class DocumentNotFound(KbhubError):
    """No document answers to this ref."""

    def __init__(self, ref: str, reason: str = "", near: Sequence[str] = ()) -> None:
        self.ref, self.reason, self.near = ref, reason, tuple(near)
        hint = f" Did you mean {', '.join(near)}?" if near else " `search` finds refs."
        super().__init__(f"No document {ref!r}{f': {reason}' if reason else ''}.{hint}")


class PathNotContained(KbhubError):
    """A path that leads out of the base it was named in."""

    def __init__(self, path: str, base: str) -> None:
        super().__init__(f"{path!r} lies outside the base {base!r}; only files inside a base are opened.")


class BaseUnavailable(KbhubError):
    """The folder of a base is gone or cannot be read."""

    def __init__(self, name: str, reason: str) -> None:
        self.name, self.reason = name, reason
        super().__init__(f"The folder of base {name!r} cannot be read: {reason}. Mend or remove the base.")


class IndexUnavailable(KbhubError):
    """The index of a base cannot be opened, read or written."""

    def __init__(self, base: str, reason: str, remedy: str = "") -> None:
        self.base, self.reason = base, reason
        super().__init__(f"The index of base {base!r} cannot be used: {reason}.{f' {remedy}' if remedy else ''}")


class EmbedderError(KbhubError):
    """An embedding model that cannot be loaded or does not answer."""
