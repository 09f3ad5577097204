"""Questions to the user through the client (elicitation): whether to forget all memories, where a pointer may lead."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Literal

import anyio
from anyio.to_thread import run_sync
from mcp import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp.types import ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequiredResult
from pydantic import ValidationError

from kbhub.documents.safe_text import one_line
from kbhub.server.capabilities import asks_user, is_stateless

if TYPE_CHECKING:
    from pathlib import Path

    from mcp.server.mcpserver import Context

    from kbhub.hub import Hub

log = logging.getLogger(__name__)

ANSWER_SECONDS = 50.0
"""How long a call waits for the user: several clients give up on it after 60 seconds."""

PATH_BYTES = 300
"""Most UTF-8 bytes shown of a path; one from a repository may be as long as it likes."""

Reply = Literal["accept", "decline", "cancel"]

_CHOICE: dict[str, Any] = {"type": "object", "properties": {}}
"""Nothing to fill in: to accept is yes."""


async def confirm(context: Context[Any, Any], key: str, question: str) -> Reply | InputRequiredResult | None:
    """Ask the user a question of yes or no; `key` tells questions apart, and the SDK seals it.

    Returns the reply, `cancel` without one in time; the result for the call to return so that the client asks and calls
    again; or None if the client cannot ask its user.
    """
    if not asks_user(context):
        return None
    if context.request_state == key:
        answer = (context.input_responses or {}).get(key)
        return answer.action if isinstance(answer, ElicitResult) else "cancel"
    request = ElicitRequest(params=ElicitRequestFormParams(message=question, requested_schema=_CHOICE))
    if is_stateless(context):
        return InputRequiredResult(input_requests={key: request}, request_state=key)
    try:
        with anyio.fail_after(ANSWER_SECONDS):
            metadata = ServerMessageMetadata(related_request_id=context.request_id)
            answered: ElicitResult = await context.session.send_request(request, ElicitResult, metadata=metadata)
            return answered.action
    except (MCPError, TimeoutError, ValidationError) as error:
        log.info("The user was asked and said nothing: %s", error)
        return "cancel"


class TrustQuestion:
    """The question whether the project's pointer may lead out of it: asked once a connection, never after a no."""

    def __init__(self) -> None:
        self._asked: tuple[Path, Path] | None = None

    async def ask(self, context: Context[Any, Any], hub: Hub, wanted: tuple[Path, Path]) -> InputRequiredResult | None:
        """Ask whether the pointer may lead to its target, unless that was done, and store the answer.

        Returns the result for the call to return, if the client is to call again with the answer.
        """
        # The answer comes with the question's state, and is of no use for another pointer or place.
        key = f"trust {wanted[0]} {wanted[1]}"
        if wanted == self._asked and context.request_state != key:
            return None
        self._asked = wanted
        pointer, target = (one_line(str(path), PATH_BYTES) for path in wanted)
        reply = await confirm(
            context,
            key,
            f"{pointer}, which came with the project, says that the project's knowledge is in {target}, outside "
            "the project. Allow kbhub to read and index that folder? Only allow it if you know the folder.",
        )
        if isinstance(reply, InputRequiredResult):
            return reply
        if reply in ("accept", "decline"):
            await run_sync(_keep, hub, wanted, reply == "accept")
        return None


def _keep(hub: Hub, wanted: tuple[Path, Path], allowed: bool) -> None:
    # What was shown is allowed, not what the pointer says by now.
    hub.trust.add(*wanted, use="knowledge" if allowed else "refused")
    hub.rediscover()
