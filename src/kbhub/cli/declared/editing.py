"""Commands that change documents: write, delete, restore, rename."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from kbhub.cli import commands
from kbhub.cli.app import app
from kbhub.cli.options import Common


@app.command(usage="kbhub write [OPTIONS] REF")
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
    return commands.editing.write(
        ref,
        text=text,
        stdin=stdin,
        mode=mode,
        section=section,
        assignments=set_,
        unset=unset,
        based_on=based_on,
        common=common,
    )


@app.command(usage="kbhub delete [OPTIONS] REF")
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
    return commands.editing.delete(ref, based_on=based_on, common=common)


@app.command(usage="kbhub restore [OPTIONS] [NAME]")
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
    return commands.editing.restore(name, listed=list_, empty_older_than=empty_older_than, common=common)


@app.command(usage="kbhub rename [OPTIONS] REF NEW")
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
    """
    return commands.editing.rename(ref, new, mend_links=mend_links, common=common)
