"""kbhub's exceptions, with their exit codes.

Each exception takes facts and words its own message: what happened, to which object, what to do next. The command line
and the server handle them in one place; any other exception is a bug, and reported as one.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

ModelFault = Literal["unreachable", "lost", "busy", "missing", "too long", "refused", "nonsense", "late"]

MOST_QUOTED, CANDIDATES = 500, 10
"""Characters of a configuration's content shown in an error, and documents in that about an ambiguous ref."""


def _cut(text: str, most: int) -> str:
    """Truncate a text, and escape lone surrogates, which JSON cannot hold."""
    whole = text.encode("utf-8", "backslashreplace").decode()
    return whole if len(whole) <= most else f"{whole[:most]}…"


class KbhubError(Exception):
    """Any expected failure; its text is meant for a person or a model."""

    exit_code = 1


class UsageError(KbhubError):
    """An argument or parameter that is not valid."""

    exit_code = 2


class ConfigError(KbhubError):
    """A configuration that cannot be used.

    `where` is a file, or the name of a variable or option; `field` is the dotted name of an invalid field.
    """

    exit_code = 2

    def __init__(self, where: Path | str, message: str, field: str | None = None) -> None:
        # The message may quote a value as long as the file.
        named = f"{_cut(field, MOST_QUOTED // 2)}: " if field else ""
        super().__init__(f"{where}: {_cut(f'{named}{message}', MOST_QUOTED)}")


class BaseNotFound(KbhubError):
    """No active base has this id.

    `problem` says why it is not active and what to do, `meant` what was probably meant, as sentences.
    """

    exit_code = 2

    def __init__(self, name: str, known: Sequence[str], problem: str = "", meant: str = "") -> None:
        listed = ", ".join(known) or "none is active here"
        text = f"No base {name!r} is active: {problem}" if problem else f"No base {name!r}. Active bases: {listed}."
        super().__init__(f"{text} {meant}" if meant and not problem else text)


class DocumentNotFound(KbhubError):
    """No document matches this ref."""

    def __init__(self, ref: str, reason: str = "", near: Sequence[str] = ()) -> None:
        hint = f" Did you mean {', '.join(near)}?" if near else "" if reason else " Search for it to get its ref."
        super().__init__(f"No document {ref!r}{f': {reason}' if reason else ''}.{hint}")


class PartNotFound(DocumentNotFound):
    """A document exists, but not the part that a ref names, or nothing in it can be read."""

    def __init__(self, ref: str, reason: str) -> None:
        KbhubError.__init__(self, f"{ref!r} cannot be read: {reason}.")


class AmbiguousReference(DocumentNotFound):
    """Several documents match a ref that must name one."""

    def __init__(self, ref: str, what: str, candidates: Sequence[str]) -> None:
        shown = ", ".join(candidates[:CANDIDATES])
        more = f" and {len(candidates) - CANDIDATES} more" if len(candidates) > CANDIDATES else ""
        KbhubError.__init__(self, f"{ref!r} is ambiguous, {len(candidates)} documents have {what}: {shown}{more}.")


class PathNotContained(KbhubError):
    """A path that leads out of the base it was named in."""

    def __init__(self, path: str, base: str) -> None:
        super().__init__(f"{path!r} is outside the base {base!r}. Only files inside a base can be opened.")


class WriteRefused(KbhubError):
    """A document may not be written, moved or deleted, or not in this way.

    `reason` says why not and what to do, in one or two sentences without the full stop.
    """

    def __init__(self, ref: str, reason: str) -> None:
        super().__init__(f"{ref!r} was not changed: {reason}.")


class SecretFound(KbhubError):
    """A text was not stored, because it looks like it contains a credential.

    `what` is the text (`The memory`), `kind` what was found (`GitHub token`), and `shown` its first characters.
    """

    def __init__(self, what: str, kind: str, line: int, shown: str) -> None:
        super().__init__(
            f"{what} was not stored: line {line} looks like it contains a credential ({kind}, {shown}). Say where "
            "the credential is kept instead. If it is not a credential, the user can store it with "
            "`--allow-secret`."
        )


class DocumentChanged(KbhubError):
    """A document changed since it was read for an edit.

    `based_on` and `now` are the hashes of the two versions, `what` describes the change.
    """

    def __init__(self, ref: str, based_on: str, now: str, what: str) -> None:
        super().__init__(
            f"{ref!r} changed since it was read: the file is now {now} ({what}), not {based_on}. Read it again and "
            "redo the edit."
        )


class MemoryNotFound(KbhubError):
    """No memory has this id, or several have it."""

    def __init__(self, name: str, several: Sequence[str] = ()) -> None:
        none = f"No memory {name!r} here. List the memories of this project and its user to see their ids."
        some = f"{name!r} matches several memories: {', '.join(several)}. Name one of these."
        super().__init__(some if several else none)


class MemoriesUnavailable(KbhubError):
    """The folder of memories cannot be written, or another process holds it."""

    def __init__(self, where: Path | str, reason: str) -> None:
        super().__init__(f"Cannot write memories in {where}: {reason}. Nothing was changed.")


class QueryLogUnavailable(KbhubError):
    """The log of a project's queries cannot be read or written."""

    def __init__(self, where: Path, reason: str) -> None:
        super().__init__(f"Cannot use the query log {where}: {reason}. Searches still work.")


class BaseUnavailable(KbhubError):
    """The folder of a base is gone or cannot be read."""

    def __init__(self, base: str, reason: str) -> None:
        self.base, self.reason = base, reason  # and the text without the base, for lists that name it
        self.alone = f"Cannot read the folder: {reason}. Fix or remove the base."
        super().__init__(f"{base}: {self.alone}")


class IndexUnavailable(KbhubError):
    """The index of a base cannot be opened, read or written."""

    def __init__(self, base: str, reason: str, remedy: str = "") -> None:
        self.base, self.reason = base, reason  # and the text without the base, for lists that name it
        self.alone = f"Cannot use the index: {reason}.{f' {remedy}' if remedy else ''}"
        super().__init__(f"{base}: {self.alone}")


class EngineUnavailable(KbhubError):
    """A database of shared bases cannot be reached, or refuses."""

    def __init__(self, name: str, reason: str, remedy: str = "") -> None:
        self.name, self.reason, self.remedy = name, reason, remedy
        super().__init__(f"Cannot use {name}: {reason}.{f' {remedy}' if remedy else ''}")


class ModelUnavailable(KbhubError):
    """A request to a model server failed.

    `unreachable`: no connection; `lost`: it broke; `busy`: try again later; `missing`: no such model; `too long`: a
    text is longer than the model accepts; `refused`: any other error that the server reports; `nonsense`: the answer
    has an unexpected format; `late`: the deadline passed.
    """

    def __init__(self, kind: ModelFault, message: str) -> None:
        self.kind = kind
        super().__init__(message)


class EmbedderError(KbhubError):
    """An embedding model that cannot be loaded or does not answer."""


class DatasetError(KbhubError):
    """A set of judged queries, or a run file, that cannot be read.

    `fault` says what is wrong there and what was expected, without the full stop.
    """

    exit_code = 2

    def __init__(self, where: Path, fault: str, line: int | None = None) -> None:
        mark = f", line {line}:" if line else "" if fault.startswith(("is ", "has ", "cannot ")) else ":"
        super().__init__(f"{where}{mark} {fault}.")


class DaemonFault(KbhubError):
    """The shared daemon cannot be started or stopped."""
