"""The tools `write_document`, `delete_document` and `rename_document`."""

# No `from __future__ import annotations`: the SDK builds the tools' schemas from the annotations at run time.

import json
from typing import Annotated, Any

from mcp.server.mcpserver import Context
from mcp.types import CallToolResult
from pydantic import Field

from kbhub.editing import Deleted, Renamed, Restored, Written, rename
from kbhub.editing import delete_document as delete
from kbhub.editing import restore as restore_deleted
from kbhub.editing import write_document as write
from kbhub.editing.documents import WriteMode
from kbhub.errors import UsageError
from kbhub.frozen import Model
from kbhub.render import model
from kbhub.render.documents import edit_report
from kbhub.server.calls import Calls
from kbhub.server.client import client_name
from kbhub.server.definitions import brief

BasedOn = Annotated[
    str | None, Field(description="Hash from `read` or the last edit; fails if the file changed since.")
]


OneDocument = Annotated[str, Field(description="`path.md`, `base@path.md` or `#docid`.", json_schema_extra=brief())]


MOST_TEXT_BYTES, MOST_FRONT_MATTER_BYTES = 1_000_000, 100_000
"""Most UTF-8 bytes of a text, and of front matter as JSON, per call: ten times the longest document in the vaults at
hand. The result is indexed at once, which takes up to eighty times as much memory."""


class Removal(Model):
    """What `delete_document` did: one of the two."""

    deleted: Deleted | None = Field(None, description="What was deleted.")
    restored: Restored | None = Field(None, description="What was restored.")


async def write_document(
    calls: Calls,
    ref: Annotated[str, Field(description="`path.md`, `base@path.md`, or `#docid` of an existing one.")],
    context: Context[None, Any],
    text: Annotated[
        str | None,
        Field(description=("Markdown. `update` replaces the body or `section` with it; `append` adds it at the end.")),
    ] = None,
    mode: Annotated[
        WriteMode,
        Field(
            description="Create a new document, replace text, or append to it.",
            json_schema_extra=brief(),
        ),
    ] = "create",
    section: Annotated[str | None, Field(description="A heading, or `Above > Below`.")] = None,
    front_matter: Annotated[
        dict[str, Any] | None, Field(description="Keys to set, such as `tags`; null removes one.")
    ] = None,
    based_on: BasedOn = None,
) -> Annotated[CallToolResult, Written]:
    """Create or change a document; the rest of the file stays byte for byte the same. Reports broken links."""
    _check_size(text or "", front_matter or {})
    done = await calls.run(
        write,
        calls.hub,
        ref,
        text=text,
        front_matter=front_matter,
        section=section,
        mode=mode,
        based_on=based_on,
        client=client_name(context),
    )
    return await calls.changed(edit_report(done))


async def delete_document(
    calls: Calls,
    ref: OneDocument,
    based_on: BasedOn = None,
    restore: Annotated[bool, Field(description="Restore it, by its former ref or name in the trash.")] = False,
) -> Annotated[CallToolResult, Removal]:
    """Move a document to the trash. Lists the links this breaks."""
    if restore:
        done = Removal(restored=await calls.run(restore_deleted, calls.hub, ref))
    else:
        done = Removal(deleted=await calls.run(delete, calls.hub, ref, based_on))
    await calls.run(calls.announcer.look)
    one = done.deleted or done.restored
    return calls.result(model.answer(edit_report(one))[0] if one else "", done)


async def rename_document(
    calls: Calls,
    ref: OneDocument,
    to: Annotated[str, Field(description="New path in its base, or a folder ending in `/`.")],
    update_links: Annotated[bool, Field(description="Update the links to it; otherwise they are listed.")] = False,
) -> Annotated[CallToolResult, Renamed]:
    """Rename or move a document."""
    done = await calls.run(rename, calls.hub, ref, to, update_links=update_links)
    return await calls.changed(edit_report(done))


def _check_size(text: str, front_matter: dict[str, Any]) -> None:
    """Reject oversized input; nothing is truncated."""
    if (size := len(text.encode("utf-8", "replace"))) > MOST_TEXT_BYTES:
        raise UsageError(
            f"The text has {size:,} bytes, but a call can write at most {MOST_TEXT_BYTES:,}. Nothing was written. "
            "Split it into several documents, or `append` in several calls."
        )
    if (size := len(json.dumps(front_matter))) > MOST_FRONT_MATTER_BYTES:
        raise UsageError(
            f"The front matter has {size:,} bytes, but a call can write at most {MOST_FRONT_MATTER_BYTES:,}. "
            "Nothing was written. Shorten it."
        )
