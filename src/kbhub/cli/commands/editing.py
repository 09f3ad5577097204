"""Commands that change documents: write, delete, restore, rename, distil."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pyperclip
from cyclopts import Parameter
from cyclopts.validators import Number
from pydantic import Field

from kbhub import editing
from kbhub.cli.console import complain, show_json, show_text
from kbhub.cli.hubs import hub_options
from kbhub.cli.options import AllowSecret, Common, argument, optional, standard_input
from kbhub.editing.distil import distil as save_answer
from kbhub.editing.trash import TrashEntry
from kbhub.errors import KbhubError, UsageError
from kbhub.frozen import Model
from kbhub.hub import Hub
from kbhub.render.editing import deleted_text, renamed_text, restored_text, trash_text, written_text

if TYPE_CHECKING:
    from collections.abc import Iterable


class TrashResult(Model):
    """What `kbhub restore` listed or removed for good."""

    entries: tuple[TrashEntry, ...] = Field((), description="What is in the trash, with `--list`; the latest first.")
    removed: tuple[TrashEntry, ...] = Field((), description="What was removed for good.")


def write(
    ref: str,
    /,
    *,
    text: Annotated[str | None, Parameter(metavar="TEXT", allow_leading_hyphen=True)] = None,
    stdin: Annotated[bool, Parameter(name="-")] = False,
    mode: Literal["create", "update", "append"] = "create",
    section: Annotated[str | None, Parameter(metavar="HEADING", allow_leading_hyphen=True)] = None,
    set_: Annotated[tuple[str, ...], Parameter(name="--set", metavar="KEY=VALUE")] = (),
    unset: Annotated[tuple[str, ...], Parameter(name="--unset", metavar="KEY")] = (),
    based_on: Annotated[str | None, Parameter(metavar="HASH")] = None,
    common: Common = Common(),  # noqa: B008 - frozen
) -> int:
    """Create a document, or change one; what is not to be changed stays byte for byte.

    REF is a path in the project base, or ID@PATH in a base that is marked writable; a path that leads into the folder
    of a base from outside of it is meant as it is typed. An update replaces all below the front matter, or one section;
    with --set and --unset alone it changes nothing but those keys.

    Example: kbhub write runbooks/rollback.md --mode append --section Log --text "- Rolled back on Friday."

    Args:
        ref: The document, or where to create it.
        text: Markdown to write.
        stdin: Read the text from standard input.
        mode: What to do: `create` fails if the document is there, the others if it is not.
        section: Heading of the section to update or append to, or "Heading > Heading".
        set_: Set a key of the front matter; VALUE is JSON, or else text. May be repeated.
        unset: Remove a key of the front matter; may be repeated.
        based_on: Change nothing unless the document still has this content hash.
        common: Options of every command.
    """
    if stdin and text is not None:
        raise UsageError("--text and `-` exclude each other; use one.")
    hub = Hub(hub_options(common))
    done = editing.write_document(
        hub,
        argument(ref),
        text=standard_input(hub.config().settings.limits.file_bytes, "a document") if stdin else optional(text),
        front_matter={**_assigned(set_), **dict.fromkeys(unset)},
        section=optional(section),
        mode=mode,
        based_on=based_on,
    )
    if common.json:
        show_json(done.model_dump_json(indent=2))
    else:
        show_text(written_text(done))
        _complain_all(done.warnings)
    return 0


def delete(
    ref: str,
    /,
    *,
    based_on: Annotated[str | None, Parameter(metavar="HASH")] = None,
    common: Common = Common(),  # noqa: B008 - frozen
) -> int:
    """Move a document to kbhub's trash, and name the links that lead nowhere now.

    Example: kbhub delete drafts/idea.md

    Args:
        ref: The document: a path, ID@PATH or a docid.
        based_on: Delete it only if it still has this content hash.
        common: Options of every command.
    """
    done = editing.delete_document(Hub(hub_options(common)), argument(ref), based_on)
    if common.json:
        show_json(done.model_dump_json(indent=2))
    else:
        show_text(deleted_text(done))
        _complain_all(f"{link}: the link to it leads nowhere now." for link in done.broken)
    return 0


def restore(
    name: str | None = None,
    /,
    *,
    list_: Annotated[bool, Parameter(name="--list")] = False,
    empty_older_than: Annotated[float | None, Parameter(metavar="DAYS", validator=Number(gte=0))] = None,
    common: Common = Common(),  # noqa: B008 - frozen
) -> int:
    """Bring a deleted document back; nothing that is there is overwritten.

    Example: kbhub restore drafts/idea.md

    Args:
        name: Its name in the trash, or the ref that it had, also without its ending.
        list_: Show what is in the trash.
        empty_older_than: Remove for good what was deleted more than so many days ago; 0 is everything.
        common: Options of every command.
    """
    if (name is not None) + list_ + (empty_older_than is not None) != 1:
        raise UsageError("Give a NAME, --list, or --empty-older-than DAYS: one of the three.")
    hub = Hub(hub_options(common))
    if name is not None:
        done = editing.restore(hub, argument(name))
        if common.json:
            show_json(done.model_dump_json(indent=2))
        else:
            show_text(restored_text(done))
        return 0
    removed = () if empty_older_than is None else editing.empty_trash(hub, older_than_days=empty_older_than)
    result = TrashResult(entries=editing.trash(hub) if list_ else (), removed=removed)
    if common.json:
        show_json(result.model_dump_json(indent=2))
    else:
        show_text(trash_text(result.entries if list_ else result.removed, emptied=not list_))
    return 0


def rename(
    ref: str,
    new: str,
    /,
    *,
    mend_links: bool = False,
    common: Common = Common(),  # noqa: B008 - frozen
) -> int:
    """Give a document another path in its base, and show which links that breaks.

    Example: kbhub rename rollback.md runbooks/ --mend-links

    Args:
        ref: The document: a path, ID@PATH or a docid.
        new: Its new path; with a slash at the end, the folder to move it to.
        mend_links: Rewrite the links that would break, in all documents that may be written.
        common: Options of every command.

    Returns:
        The exit code: 1 if links could not be mended that should have been.
    """
    done = editing.rename(Hub(hub_options(common)), argument(ref), argument(new), mend_links=mend_links)
    if common.json:
        show_json(done.model_dump_json(indent=2))
    else:
        show_text(renamed_text(done))
        _complain_all(f"{problem.subject}: {problem.message}" for problem in done.unmended)
        if done.links and not mend_links:
            complain("The links are as they were; --mend-links rewrites them when a document is renamed.")
    return 1 if mend_links and done.unmended else 0


def _assigned(assignments: Iterable[str]) -> dict[str, Any]:
    """Return the keys and values of `KEY=VALUE`; a value that is not JSON is text."""
    values: dict[str, Any] = {}
    for assignment in assignments:
        key, mark, value = argument(assignment).partition("=")
        if not mark or not key.strip():
            raise UsageError(f"--set {assignment!r}: expected KEY=VALUE.")
        try:
            values[key.strip()] = json.loads(value)
        except ValueError:
            values[key.strip()] = value
        if values[key.strip()] is None:
            raise UsageError(f"--set {assignment!r}: --unset {key.strip()} removes a key.")
    return values


def _complain_all(messages: Iterable[str]) -> None:
    for message in messages:
        complain(message)


def distil(
    model: str,
    text: str | None = None,
    /,
    *,
    base_id: Annotated[str | None, Parameter(name="--in", metavar="BASE")] = None,
    allow_secret: AllowSecret = False,
    common: Common = Common(),  # noqa: B008 - frozen
) -> int:
    """Save a chat answer as a document, with links to what is near it in meaning.

    The text is the argument, else standard input if that is no terminal, else the clipboard. It goes to
    llm-completions/MODEL/ of the project base if that may be written, else to a base in your data.

    Example: kbhub distil claude < answer.md

    Args:
        model: Who answered: a name, or an alias: c (claude), x (codex), g (gemini), or one of the config.
        text: The answer.
        base_id: Save it in this base.
        allow_secret: Save it even if it seems to hold a credential.
        common: Options of every command.
    """
    hub = Hub(hub_options(common))
    given = _text(text, hub.config().settings.limits.file_bytes)
    saved = save_answer(hub, model, given, base=base_id, allow_secret=allow_secret)
    if common.json:
        show_json(saved.model_dump_json(indent=2))
        return 0
    show_text(f"Saved {saved.ref}")
    if saved.related:
        show_text(f"related: {', '.join(saved.related)}")
    for note in saved.notes:
        complain(note)
    return 0


def _text(text: str | None, most: int) -> str:
    if text is not None:
        return argument(text)
    if sys.stdin is not None and not sys.stdin.isatty():
        given = standard_input(most, "a document")
        if not given.strip():
            raise UsageError("There is no text to save: standard input is empty.")
        return given
    return _clipboard()


def _clipboard() -> str:
    try:
        found = str(pyperclip.paste())
    except (pyperclip.PyperclipException, OSError) as error:
        raise KbhubError(
            "There is no text to save, and the clipboard cannot be read here. Give the text as an argument or on "
            "standard input; on Linux, wl-clipboard, xclip or xsel makes the clipboard readable."
        ) from error
    if not found.strip():
        raise UsageError(
            "There is no text to save: the clipboard is empty. Give it as an argument or on standard input."
        )
    return found
