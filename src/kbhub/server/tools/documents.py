"""The tools on documents: to read, list, audit, write, delete and rename them, and the state of bases."""

# No `from __future__ import annotations`: the SDK builds the tools' schemas from the annotations at run time.

import json
from dataclasses import replace
from math import inf
from typing import Annotated, Any

from mcp.server.mcpserver import Context
from mcp.types import CallToolResult
from pydantic import BeforeValidator, Field

from kbhub.editing import documents, renames, trash
from kbhub.editing.audit import audit as audit_documents
from kbhub.editing.findings import AuditReport
from kbhub.errors import UsageError
from kbhub.frozen import Model
from kbhub.hooks.sessions import mark_read
from kbhub.reading import neighbours
from kbhub.reading.lists import status as status_of
from kbhub.reading.read import ReadOptions, by_index
from kbhub.reading.read import read as read_refs
from kbhub.reading.reports import EDGE_KINDS, EdgeKind, ReadResult, Related, Status, Tags
from kbhub.render.bases import status_report
from kbhub.render.documents import audit_report, edit_report, related_report, tags_report
from kbhub.render.report import ANSWER_BYTES, FULL_ANSWER_BYTES
from kbhub.render.search import read_answer
from kbhub.server.calls import Calls
from kbhub.server.client import client_name
from kbhub.server.definitions import Names, as_list, brief
from kbhub.sync.base_suggestions import outside
from kbhub.usage.gaps import summary

MAX_REFS = 50
"""Most refs per call; an answer has room for a few hundred lines of each."""

Hops = Annotated[int, Field(ge=0, le=neighbours.MOST_HOPS, description="Links to follow.")]


async def read(
    calls: Calls,
    refs: Annotated[
        str | list[str],
        Field(
            description="`path.md` or its end, `base@path.md`, a title or `#docid`; for a part, add `:from:count`, "
            "`:from-to` or `#Heading`. Several: `runbooks/*.md`, `{a,b}.md`, a list, or with "
            "commas."
        ),
    ],
    context: Context[None, Any],
    line_numbers: Annotated[bool, Field(description="Number the lines.")] = False,
    cursor: Annotated[str | None, Field(description="From the last answer.")] = None,
) -> Annotated[CallToolResult, ReadResult]:
    """Read notes and docs, or parts of them, as they are on disk. Use it to open what `search` or a link names."""
    listed = [ref for ref in ([refs] if isinstance(refs, str) else refs) if ref.strip(" ,")]
    if not listed:
        raise UsageError("read requires at least one ref in `refs`; `search` finds refs.")
    if sum(ref.count(",") for ref in listed) + len(listed) > MAX_REFS:
        raise UsageError(f"read opens at most {MAX_REFS} refs per call. Split them into several calls.")
    if not (await calls.state())[1].bases:
        return await calls.nothing(ReadResult())
    options = ReadOptions(line_numbers=line_numbers, cursor=cursor)
    wanted = refs if isinstance(refs, str) else listed
    result = await calls.run(read_refs, calls.hub, wanted, options)
    if by_index(wanted, result):
        await calls.freshen(context, first_index=True)
        result = await calls.run(read_refs, calls.hub, wanted, options)
    await calls.run(mark_read, calls.hub, [reading.ref for reading in result.readings], client_name(context))
    text = read_answer(result, wanted, line_numbers=line_numbers)
    return calls.result(text, result, is_error=not result.readings)


async def related(
    calls: Calls,
    ref: Annotated[str, Field(description="One document, as for `read`.")],
    context: Context[None, Any],
    hops: Hops = 1,
    kinds: Annotated[
        list[EdgeKind] | None,
        BeforeValidator(as_list),
        Field(description="Only these kinds of relation.", json_schema_extra=brief()),
    ] = None,
    limit: Annotated[int, Field(ge=1, le=100, description="Per kind.")] = neighbours.RELATED_LIMIT,
) -> Annotated[CallToolResult, Related]:
    """Show what is related to a document: links, backlinks, `related` of its front matter, shared tags, similar
    meaning; and its broken links.
    """
    await calls.freshen(context, first_index=True)
    result = await calls.run(neighbours.related, calls.hub, ref, hops=hops, kinds=kinds or EDGE_KINDS, limit=limit)
    return calls.told(related_report(result))


async def tags(
    calls: Calls,
    context: Context[None, Any],
    names: Annotated[Names | None, Field(description="Any of these tags; omit to list all tags.")] = None,
    bases: Annotated[Names | None, Field(description="Only these, by id.")] = None,
    hops: Hops = 1,
    limit: Annotated[
        int, Field(ge=1, description="Maximum number of tags or documents.", json_schema_extra=brief())
    ] = neighbours.TAGS_LIMIT,
    everything: Annotated[bool, Field(description="No limit.")] = False,
) -> Annotated[CallToolResult, Tags]:
    """List all tags with counts or, given `names`, all documents that have them and what those link to: all about a
    subject.
    """
    chosen = tuple(bases or ())
    if not (await calls.state())[1].bases:
        return await calls.nothing(Tags())
    await calls.freshen(context, chosen, first_index=True)
    result = await calls.run(
        neighbours.tags, calls.hub, tuple(names or ()), bases=chosen, hops=hops, limit=limit, everything=everything
    )
    return calls.told(tags_report(result), inf if everything else ANSWER_BYTES)


SHOWN = 50


async def status(
    calls: Calls,
    context: Context[None, Any],
    reload: Annotated[bool, Field(description="First reload configuration, bases and files.")] = False,
) -> Annotated[CallToolResult, Status]:
    """List the knowledge bases with their size and state, and any problems. Use it when something is not found."""
    if reload:
        await calls.run(calls.hub.rediscover)
        await calls.run(calls.announcer.look)
    await calls.freshen(context, first_index=reload, max_age=0.0 if reload else None)
    status = await calls.run(status_of, calls.hub)
    watched = tuple(base.model_copy(update={"watched": calls.watcher.state(base.base.id)}) for base in status.bases)
    queries = await calls.run(summary, calls.hub)
    notes = await calls.run(outside, calls.hub)
    status = status.model_copy(update={"bases": watched, "notes": notes, "queries": queries})
    return calls.told(status_report(status))


async def audit(
    calls: Calls,
    context: Context[None, Any],
    bases: Annotated[Names | None, Field(description="Only these, by id.")] = None,
    checks: Annotated[Names | None, Field(description="Only these, as named in the answer.")] = None,
    limit: Annotated[
        int, Field(ge=1, le=1000, description="Maximum number of findings.", json_schema_extra=brief())
    ] = SHOWN,
) -> Annotated[CallToolResult, AuditReport]:
    """Find problems in documents and how to fix them: broken links and references, duplicates, orphans, stale
    documents, front matter, inconsistent tags. Changes nothing.
    """
    chosen, only = tuple(bases or ()), tuple(checks or ())
    if not (await calls.state())[1].bases:
        return await calls.nothing(AuditReport())
    reported = await calls.freshen(context, first_index=True)  # all bases, since links cross them
    progress = calls.progress(context, "Checking", reported)
    report = await calls.run(audit_documents, calls.hub, chosen, checks=only, limit=limit, progress=progress)
    return calls.told(audit_report(report), FULL_ANSWER_BYTES)


BasedOn = Annotated[
    str | None, Field(description="Hash from `read` or the last edit; fails if the file changed since.")
]

OneDocument = Annotated[str, Field(description="`path.md`, `base@path.md` or `#docid`.", json_schema_extra=brief())]

MOST_TEXT_BYTES, MOST_FRONT_MATTER_BYTES = 1_000_000, 100_000
"""Most UTF-8 bytes of a text, and of front matter as JSON, per call: ten times the longest document in the vaults at
hand. The result is indexed at once, which takes up to eighty times as much memory."""


class Removal(Model):
    """What `delete_document` did: one of the two."""

    deleted: trash.Deleted | None = Field(None, description="What was deleted.")
    restored: trash.Restored | None = Field(None, description="What was restored.")


async def write_document(
    calls: Calls,
    ref: Annotated[str, Field(description="`path.md`, `base@path.md`, or `#docid` of an existing one.")],
    context: Context[None, Any],
    text: Annotated[
        str | None,
        Field(description="Markdown. `update` replaces the body or `section` with it; `append` adds it at the end."),
    ] = None,
    mode: Annotated[
        documents.WriteMode,
        Field(description="Create a new document, replace text, or append to it.", json_schema_extra=brief()),
    ] = "create",
    section: Annotated[str | None, Field(description="A heading, or `Above > Below`.")] = None,
    front_matter: Annotated[
        dict[str, Any] | None, Field(description="Keys to set, such as `tags`; null removes one.")
    ] = None,
    based_on: BasedOn = None,
) -> Annotated[CallToolResult, documents.Written]:
    """Create or change a document; the rest of the file stays byte for byte the same. Reports broken links."""
    if (size := len((text or "").encode("utf-8", "replace"))) > MOST_TEXT_BYTES:
        raise UsageError(
            f"The text has {size:,} bytes, but a call can write at most {MOST_TEXT_BYTES:,}. Nothing was written. "
            "Split it into several documents, or `append` in several calls."
        )
    if (size := len(json.dumps(front_matter or {}))) > MOST_FRONT_MATTER_BYTES:
        raise UsageError(
            f"The front matter has {size:,} bytes, but a call can write at most {MOST_FRONT_MATTER_BYTES:,}. "
            "Nothing was written. Shorten it."
        )
    what = {"text": text, "front_matter": front_matter, "section": section, "mode": mode, "based_on": based_on}
    done = await calls.run(documents.write_document, calls.hub, ref, **what, client=client_name(context))
    return await calls.changed(edit_report(done))


async def delete_document(
    calls: Calls,
    ref: OneDocument,
    based_on: BasedOn = None,
    restore: Annotated[bool, Field(description="Restore it, by its former ref or name in the trash.")] = False,
) -> Annotated[CallToolResult, Removal]:
    """Move a document to the trash. Lists the links this breaks."""
    if restore:
        restored = await calls.run(trash.restore, calls.hub, ref)
        return await calls.changed(replace(edit_report(restored), data=Removal(restored=restored)))
    deleted = await calls.run(trash.delete_document, calls.hub, ref, based_on)
    return await calls.changed(replace(edit_report(deleted), data=Removal(deleted=deleted)))


async def rename_document(
    calls: Calls,
    ref: OneDocument,
    to: Annotated[str, Field(description="New path in its base, or a folder ending in `/`.")],
    update_links: Annotated[bool, Field(description="Update the links to it; otherwise they are listed.")] = False,
) -> Annotated[CallToolResult, renames.Renamed]:
    """Rename or move a document."""
    done = await calls.run(renames.rename, calls.hub, ref, to, update_links=update_links)
    return await calls.changed(edit_report(done))
