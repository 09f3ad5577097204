"""Documents changed, and how they are related: write, delete, restore, rename, distil, related, tags."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from typing import Annotated, Any, Literal

import pyperclip
from cyclopts import Parameter
from cyclopts.validators import Number
from pydantic import Field

from kbhub.cli.options import Reply, argument, command, optional, standard_input
from kbhub.editing import renames, trash
from kbhub.editing.chat_answers import distil as save_answer
from kbhub.editing.documents import Written, write_document
from kbhub.editing.trash import Deleted
from kbhub.errors import KbhubError, UsageError
from kbhub.frozen import Model
from kbhub.hub import Hub
from kbhub.render.documents import edit_report, trash_report
from kbhub.values import counted
from kbhub.workspace.trash import Trash, TrashEntry


class TrashResult(Model):
    """What `kbhub doc restore` listed, or deleted for good."""

    entries: tuple[TrashEntry, ...] = Field((), description="What is in the trash, newest first.")
    removed: tuple[TrashEntry, ...] = Field((), description="What was deleted for good.")


@command(edit_report)
def write(
    hub: Hub,
    ref: str,
    /,
    *,
    text: Annotated[str | None, Parameter(metavar="TEXT", allow_leading_hyphen=True)] = None,
    stdin: Annotated[bool, Parameter(name="-")] = False,
    mode: Literal["create", "update", "append"] = "create",
    section: Annotated[str | None, Parameter(metavar="HEADING", allow_leading_hyphen=True)] = None,
    set_: Annotated[tuple[str, ...], Parameter(metavar="KEY=VALUE")] = (),
    unset: Annotated[tuple[str, ...], Parameter(metavar="KEY")] = (),
    based_on: Annotated[str | None, Parameter(metavar="HASH")] = None,
) -> Written:
    """Create or change a document, leaving the rest of it byte for byte the same.

    REF is a path in the project base, ID@PATH in another writable base, or a path from the working directory into the
    folder of a base. `update` replaces everything below the front matter, or one section; with only --set and --unset,
    it changes just those keys.

    Example: kbhub doc write runbooks/rollback.md --mode append --section Log --text "- Rolled back on Friday."

    Args:
        ref: The document, or where to create it.
        text: Markdown to write.
        stdin: Read the text from standard input.
        mode: What to do: `create` fails if the document exists, the others if it does not.
        section: Section to update or append to: its heading, or "Heading > Subheading".
        set_: Set a key of the front matter; VALUE is JSON or text; may be repeated.
        unset: Remove a key of the front matter; may be repeated.
        based_on: Fail unless the document still has this content hash.
    """
    if stdin and text is not None:
        raise UsageError("--text cannot be used with `-`.")
    given = standard_input(hub.config().settings.limits.file_bytes, "a document") if stdin else optional(text)
    values: dict[str, Any] = {}
    for assignment in set_:
        key, mark, value = argument(assignment).partition("=")
        if not mark or not key.strip():
            raise UsageError(f"Invalid --set {assignment!r}: expected KEY=VALUE.")
        values[key.strip()] = value
        with suppress(ValueError):  # a value that is not JSON is text
            values[key.strip()] = json.loads(value)
        if values[key.strip()] is None:
            raise UsageError(f"Invalid --set {assignment!r}: no value. To remove a key, use --unset {key.strip()}.")
    values |= dict.fromkeys(unset)
    return write_document(
        hub, argument(ref), text=given, front_matter=values, section=optional(section), mode=mode, based_on=based_on
    )


@command(edit_report)
def delete(hub: Hub, ref: str, /, *, based_on: Annotated[str | None, Parameter(metavar="HASH")] = None) -> Deleted:
    """Move a document to kbhub's trash, and list the links this breaks.

    Example: kbhub doc delete drafts/idea.md

    Args:
        ref: The document: a path, ID@PATH or a docid.
        based_on: Fail unless the document still has this content hash.
    """
    return trash.delete_document(hub, argument(ref), based_on)


@command()
def restore(
    hub: Hub,
    name: str | None = None,
    /,
    *,
    list_: bool = False,
    empty_older_than: Annotated[float | None, Parameter(metavar="DAYS", validator=Number(gte=0))] = None,
) -> Reply:
    """Restore a deleted document, or list those that can be restored. Never overwrites a file.

    Example: kbhub doc restore drafts/idea.md

    Args:
        name: Its name in the trash or its former ref, with or without the suffix; without it, list the trash.
        list_: List the trash.
        empty_older_than: Delete for good what has been in the trash for more than this many days; 0 empties it.
    """
    if (name is not None) + list_ + (empty_older_than is not None) > 1:
        raise UsageError("Give at most one of NAME, --list and --empty-older-than DAYS.")
    if name is not None:
        done = trash.restore(hub, argument(name))
        return Reply(done, edit_report(done))
    if empty_older_than is not None:
        removed = trash.empty_trash(hub, older_than_days=empty_older_than)
        return Reply(TrashResult(removed=removed), f"Deleted {counted(len(removed), 'document')} for good.")
    entries = Trash(hub.data).documents()
    return Reply(TrashResult(entries=entries), trash_report(entries))


@command(edit_report)
def rename(hub: Hub, ref: str, new: str, /, *, update_links: bool = False) -> Reply:
    """Move a document to another path in its base, and list the links this breaks.

    Example: kbhub doc rename rollback.md runbooks/ --update-links

    Args:
        ref: The document: a path, ID@PATH or a docid.
        new: The new path; a trailing slash means the folder to move it to.
        update_links: Update the links to it in all writable documents.

    Returns:
        The exit code: 1 if some links could not be updated.
    """
    done = renames.rename(hub, argument(ref), argument(new), update_links=update_links)
    unchanged = "The links were not changed. To update them, rename it back, then again with --update-links."
    said = (unchanged,) if done.links and not update_links else ()
    return Reply(done, notes=said, code=1 if update_links and done.not_updated else 0)


@command()
def distil(
    hub: Hub,
    model: str,
    text: str | None = None,
    /,
    *,
    base_id: Annotated[str | None, Parameter(name="--in", metavar="BASE")] = None,
    allow_secret: bool = False,
) -> Reply:
    """Save a chat answer as a document, with links to documents similar in meaning.

    The text is taken from the argument, standard input (unless it is a terminal), or the clipboard, in this order. It
    is saved in llm-completions/MODEL/ of the project base if that is writable, otherwise in a base in the data
    directory.

    Example: kbhub doc distil claude < answer.md

    Args:
        model: The model that answered: a name or an alias, c (claude), x (codex), g (gemini) or one from the config.
        text: The answer.
        base_id: Save the answer in this base.
        allow_secret: Save it even if it looks like it contains a credential.
    """
    given = _text(text, hub.config().settings.limits.file_bytes)
    saved = save_answer(hub, model, given, base=base_id, allow_secret=allow_secret)
    lines = [f"Saved {saved.ref}", *([f"related: {', '.join(saved.related)}"] if saved.related else [])]
    return Reply(saved, "\n".join(lines), notes=saved.notes)


def _text(text: str | None, most: int) -> str:
    if text is not None:
        return argument(text)
    if sys.stdin is not None and not sys.stdin.isatty():
        given = standard_input(most, "a document")
        if not given.strip():
            raise UsageError("Nothing to save: standard input is empty.")
        return given
    try:
        found = str(pyperclip.paste())
    except (pyperclip.PyperclipException, OSError) as error:
        raise KbhubError(
            "Nothing to save: the clipboard cannot be read here. Give the text as an argument or on standard "
            "input. On Linux, install wl-clipboard, xclip or xsel to make the clipboard readable."
        ) from error
    if not found.strip():
        raise UsageError("Nothing to save: the clipboard is empty. Give the text as an argument or on standard input.")
    return found
