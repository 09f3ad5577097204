"""kbhub's server with the tools, resources and prompts that the conformance suite asks for, over Streamable HTTP.

The endpoint, the hub, the middleware, the pages, subscriptions, completions, the announcements and how errors are told
are kbhub's own: the fixtures come after them. Run as a program, it serves the project in its working directory on a
free port of 127.0.0.1, without a token as the suite can send none, and prints the address.
"""

import base64
import json
import os
import sys
import warnings
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
from mcp import MCPDeprecationWarning
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ResourceNotFoundError
from mcp.server.mcpserver.prompts import Prompt
from mcp.server.mcpserver.prompts.base import UserMessage
from mcp.types import EmptyResult, InputRequiredResult, SetLevelRequestParams
from mcp.types import Tool as ToolDefinition

from conformance.fixture_tools import IMAGE, PNG, SCHEMA, SCHEMA_TOOL, TOOLS, Ctx, embedded, filled, form
from kbhub.api import Hub
from kbhub.hub import HubOptions
from kbhub.server.daemon.http import MCP_PATH, Guarded, mcp_app
from kbhub.server.server import KbhubServer
from kbhub.ui.loopback import HOST, HttpServer, bind_port
from kbhub.workspace.tool_names import ALL

CONTEXT = {"type": "object", "properties": {"context": {"type": "string"}}, "required": ["context"]}
TOGGLE = "test_trigger_tool_change"
FIXTURE_SCHEME = "test://"


class FixtureServer(KbhubServer):
    """kbhub's server, and the fixtures, one of which changes the global config."""

    def __init__(self, hub: Hub, config: Path) -> None:
        super().__init__(hub)
        self._config = config
        self._tools_all = False

        async def set_level(_context: Any, _params: SetLevelRequestParams) -> EmptyResult:
            return EmptyResult()

        self._lowlevel_server.add_request_handler("logging/setLevel", SetLevelRequestParams, set_level)
        self._register(ALL)
        for name, tool in TOOLS.items():
            self.add_tool(tool, name=name, structured_output=False)
        self.add_tool(self._trigger_tool_change, name=TOGGLE, structured_output=False)
        _add_resources(self)
        for prompt in PROMPTS:
            self.add_prompt(Prompt.from_function(prompt))

    def _by_resources(self, request: str) -> Callable[..., Awaitable[Any]]:
        own = super()._by_resources(request)

        async def answered(context: Any, params: Any, *more: Any) -> Any:
            fixture = getattr(params, "uri", "").startswith(FIXTURE_SCHEME)
            return EmptyResult() if fixture else await own(context, params, *more)

        return answered

    async def list_tools(self, *, samples: bool = False) -> list[ToolDefinition]:
        """List kbhub's tools and the fixtures; one of them with its schema as it was written."""
        # kbhub writes references in its own schemas out, to save tokens; here it is asked what the wire keeps.
        return [
            tool.model_copy(update={"input_schema": SCHEMA}) if tool.name == SCHEMA_TOOL else tool
            for tool in await super().list_tools(samples=samples)
        ]

    async def read_resource(self, uri: Any, context: Ctx | None = None) -> Iterable[Any] | InputRequiredResult:
        """Read a fixture, or a document."""
        if str(uri).startswith(FIXTURE_SCHEME):
            try:
                return await MCPServer.read_resource(self, uri, context)
            except ResourceNotFoundError:
                pass  # kbhub says what is no resource of its
        return await super().read_resource(uri, context)

    def _offered(self, *, samples: bool = False) -> tuple[str, ...]:
        return (*super()._offered(samples=samples), *TOOLS, TOGGLE)

    async def _trigger_tool_change(self) -> str:
        """Change the settings so that other tools are offered."""
        self._tools_all = not self._tools_all
        self._config.write_text(json.dumps({"tools": "all" if self._tools_all else "core"}), "utf-8")
        await (await self.calls()).run(self.announcer.look)
        return "Changed."


def _add_resources(server: MCPServer[None]) -> None:
    @server.resource("test://static-text", mime_type="text/plain")
    def static_text() -> str:
        """A text."""
        return "This is the content of the static text resource."

    @server.resource("test://static-binary", mime_type="image/png")
    def static_binary() -> bytes:
        """A picture."""
        return base64.b64decode(PNG)

    @server.resource("test://template/{id}/data", mime_type="application/json")
    def template_data(id: str) -> str:  # noqa: A002 - the suite names it
        """What a template names."""
        return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})


def test_simple_prompt() -> str:
    """A prompt without arguments."""
    return "This is a simple prompt for testing."


def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
    """A prompt with arguments."""
    return f"Prompt with arguments: arg1={arg1!r}, arg2={arg2!r}"


def test_prompt_with_embedded_resource(resourceUri: str) -> list[UserMessage]:  # noqa: N803 - the suite names it
    """A prompt with a resource."""
    resource = embedded(resourceUri, "text/plain", "Embedded resource content for testing.")
    return [UserMessage(resource), UserMessage("Please process the embedded resource above.")]


def test_prompt_with_image() -> list[UserMessage]:
    """A prompt with a picture."""
    return [UserMessage(IMAGE), UserMessage("Please analyze the image above.")]


def test_input_required_result_prompt(ctx: Ctx) -> Any:
    """A prompt that asks the user first."""
    context = filled(ctx, "user_context", "context")
    if context is None:
        question = form("What context should the prompt use?", CONTEXT)
        return InputRequiredResult(input_requests={"user_context": question})
    return f"Context: {context}"


PROMPTS = (
    test_simple_prompt, test_prompt_with_arguments, test_prompt_with_embedded_resource, test_prompt_with_image,
    test_input_required_result_prompt,
)  # fmt: skip


class OneWorkspace:
    """What kbhub's endpoint serves: the fixtures, whatever directory a request names."""

    def __init__(self, app: Any) -> None:
        self.workspace = SimpleNamespace(app=app, busy=0, used=0.0)

    async def get(self, _root: Path | None) -> Any:
        """Give it."""
        return self.workspace


async def serve(hub: Hub, config: Path) -> None:
    """Serve on a free port until the process is ended."""
    server = FixtureServer(hub, config)
    app = mcp_app(server)
    with bind_port(0) as bound:
        port = bound.getsockname()[1]
        guarded = Guarded(OneWorkspace(app), None, port, dict)
        sys.stdout.write(f"http://{HOST}:{port}{MCP_PATH}\n")
        sys.stdout.flush()
        async with server.session_manager.run():
            await HttpServer(guarded).serve(sockets=[bound])


def main() -> None:
    """Serve the project in the working directory."""
    warnings.filterwarnings("ignore", category=MCPDeprecationWarning)  # sampling, roots and logging are asked for
    home = Path(os.environ["HOME"])
    anyio.run(serve, Hub(HubOptions(cwd=Path.cwd(), home=home, env=dict(os.environ))), home / ".kbhub.json")


if __name__ == "__main__":
    main()
