"""The tools `remember`, `memories` and `forget`."""

# No `from __future__ import annotations`: the SDK builds the tools' schemas from the annotations at run time.

from typing import Annotated, Any

from mcp.server.mcpserver import Context
from mcp.types import CallToolResult, InputRequiredResult
from pydantic import BeforeValidator, Field

from kbhub.errors import WriteRefused
from kbhub.frozen import Model
from kbhub.memory import changes, lists
from kbhub.memory.results import Forgotten, MemoryList, Remembered
from kbhub.render.memories import forgotten_report, memories_report, remembered_report
from kbhub.server.calls import Calls
from kbhub.server.client import client_name, confirm, view_for
from kbhub.server.definitions import Names, as_list, brief
from kbhub.usage.log import LogSession
from kbhub.workspace.discovery import Scope


class RememberOptions(Model):
    """Rarely needed."""

    supersedes: Annotated[tuple[str, ...], BeforeValidator(as_list), Field(description="Ids it replaces.")] = ()
    namespace: str | None = Field(None, description="`a/b`, to file it under.")
    rejected: bool | None = Field(None, description="Tried, and not taken; say why.")
    misleading: bool = Field(False, description="`id` misled.")


OnlyScope = Annotated[Scope | None, Field(description="Only this scope.", json_schema_extra=brief())]
OnlyNamespace = Annotated[
    str | None, Field(description="Only in or below this namespace, `a/b`.", json_schema_extra=brief())
]


async def remember(
    calls: Calls,
    context: Context[None, Any],
    text: Annotated[str | None, Field(description="One fact, clear without this chat.")] = None,
    tags: Annotated[Names | None, Field(description="Tags to find it by.", json_schema_extra=brief())] = None,
    scope: Annotated[Scope | None, Field(description="`user`: all projects.")] = None,
    about: Annotated[Names | None, Field(description="Documents, files, `file::symbol`.")] = None,
    id: Annotated[  # noqa: A002 - the name agents know
        str | None, Field(description="Id to change; without `text`, confirms that it helped.")
    ] = None,
    options: RememberOptions | None = None,
) -> Annotated[CallToolResult, Remembered]:
    """Remember a decision, convention, preference, pitfall or rejected way of this project for later sessions. Known
    facts are strengthened, not duplicated.
    """
    what = {"tags": tuple(tags or ()), "scope": scope, "about": tuple(about or ()), "id": id}
    who = {"client": client_name(context), "session": calls.hub.state(LogSession).name or None}
    more = (options or RememberOptions()).model_dump()
    done = await calls.run(changes.remember, calls.hub, text, **what, **more, **who)
    return await calls.changed(remembered_report(done))


async def memories(
    calls: Calls,
    context: Context[None, Any],
    query: Annotated[str | None, Field(description="Omit to list all, strongest first.")] = None,
    scope: OnlyScope = None,
    tags: Annotated[Names | None, Field(description="All of these.")] = None,
    namespace: OnlyNamespace = None,
    limit: Annotated[
        int, Field(ge=1, le=100, description="Maximum number of memories.", json_schema_extra=brief())
    ] = lists.LISTED,
    offset: Annotated[int, Field(ge=0, description="Memories to skip.", json_schema_extra=brief())] = 0,
) -> Annotated[CallToolResult, MemoryList]:
    """List or search the memory of this project and its user, with ids. `search` finds memories, too."""
    only = {"scope": scope, "tags": tuple(tags or ()), "namespace": namespace}
    result = await calls.run(lists.memories, calls.hub, query, **only, limit=limit, offset=offset)
    told = calls.told(memories_report(result, offset))
    view = view_for(calls.added, context)
    return await calls.run(view.answer, told, result) if view else told


async def forget(
    calls: Calls,
    context: Context[None, Any],
    ids: Annotated[Names | None, Field(description="Or filter by the others.")] = None,
    tags: Annotated[Names | None, Field(description="All of these.")] = None,
    namespace: OnlyNamespace = None,
    scope: OnlyScope = None,
    older_than: Annotated[float | None, Field(ge=0, description="Days unused.")] = None,
    everything: Annotated[bool, Field(description="Allow forgetting a whole scope.")] = False,
) -> Annotated[CallToolResult, Forgotten] | InputRequiredResult:
    """Forget memories that are wrong or useless. They can be restored for a while."""
    chosen: dict[str, Any] = {"ids": tuple(ids or ()), "tags": tuple(tags or ()), "namespace": namespace}
    chosen |= {"scope": scope, "older_than": older_than, "everything": everything}
    if everything:
        count = len(await calls.run(changes.to_forget, calls.hub, **chosen))
        whose = {"user": "yours for all projects", "shared": "the shared ones", "team": "the team's"}
        question = (
            f"An agent wants to forget {'1 memory' if count == 1 else f'all {count} memories'} "
            f"({whose.get(scope or '', 'those of this project')}). Allow it? They stay in the trash for a while."
        )
        reply = await confirm(context, "forget", question) if count else None
        if isinstance(reply, InputRequiredResult):
            return reply
        if reply not in (None, "accept"):
            raise WriteRefused("memories", "the user was asked and did not allow it; nothing was forgotten")
    return await calls.changed(forgotten_report(await calls.run(changes.forget, calls.hub, **chosen)))
