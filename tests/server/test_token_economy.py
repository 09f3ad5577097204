"""What the tools cost every conversation: the definitions as they are sent, in tokens."""

import json
import re
from functools import cache
from pathlib import Path
from unittest.mock import AsyncMock

import pytest
from mcp import Client
from tokenizers import Tokenizer

import generate
from kbhub.server import definitions
from kbhub.server.server import KbhubServer
from kbhub.workspace.tool_names import ALL, CORE, MEANT

pytestmark = pytest.mark.anyio

MODEL = Path(__file__).parents[2] / "src" / "kbhub" / "models" / "packaged" / "tokenizer.json"

LIMITS = {"core": 1_800, "all": 2_500}
"""Tokens of all definitions of a set: issue "Reading, linking, tagging, writing"."""

CONVERSATION = 1_900
"""Tokens of the default tools, `ask` too, and the instructions: issue "Knowledge that arrives by itself"."""

PIECES_PER_TOKEN = 1.6
"""Pieces that the packaged model's tokenizer (BERT's) makes of definitions, per token of a language model. BERT cuts
at every mark of JSON, so it makes many more: over these definitions 1.69 per token of o200k_base (GPT-4o and later),
1.75 of cl100k_base (GPT-4), 1.64 of the tokenizer that Anthropic has published. The least, less a margin of 2.5 %."""


MOST_PARAMETERS, MOST_SWITCHES = 7, 8


@pytest.fixture
def everything(environment):
    """A project in which every tool is of use, and is offered."""
    environment.write("knowledge/a.md", "# A\n")
    environment.configure(tools="all")
    return environment


async def listed(environment, **options):
    async with Client(KbhubServer(environment.hub(), **options)) as client:
        return (await client.list_tools()).tools


async def conversation(environment):
    """What a client that offers its model is sent by default: the instructions and the tools."""
    environment.configure()
    async with Client(KbhubServer(environment.hub()), sampling_callback=AsyncMock()) as client:
        return [client.instructions, *(compact(tool) for tool in (await client.list_tools()).tools)]


def compact(tool):
    """What a model gets of a tool, as it is sent."""
    sent = tool.model_dump(mode="json", by_alias=True, exclude_none=True)
    shown = {key: sent[key] for key in ("name", "description", "inputSchema")}
    return json.dumps(shown, ensure_ascii=False, separators=(",", ":"))


@cache
def bert():
    tokenizer = Tokenizer.from_file(str(MODEL))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def tokens(text):
    return len(bert().encode(text, add_special_tokens=False).ids) / PIECES_PER_TOKEN


async def test_the_definitions_and_a_conversation_cost_little_and_the_two_main_tools_stay_in_sight(everything):
    tools = await listed(everything)
    cost = {tool.name: tokens(compact(tool)) for tool in tools}
    sums = {"core": sum(cost[name] for name in CORE), "all": sum(cost.values())}
    assert tuple(cost) == ALL
    assert {name: total for name, total in sums.items() if total > LIMITS[name]} == {}, cost
    sent = await conversation(everything)
    assert len(sent) == len(CORE) + 2
    assert sum(map(tokens, sent)) <= CONVERSATION

    # Clients that hide tools find them by their names and first words; Claude Code never hides these two.
    tools = {tool.name: tool for tool in await listed(everything)}
    loaded = {name for name, tool in tools.items() if (tool.meta or {}).get("anthropic/alwaysLoad")}
    first = tools["search"].description.partition(".")[0]
    assert loaded == {"search", "remember"}
    assert [word for word in ("notes", "docs", "decisions", "conventions", "memory", "project") if word in first] == [
        *("notes", "docs", "decisions", "conventions", "memory", "project")
    ]


async def test_tools_are_plain(everything):
    for tool in await listed(everything):
        schema = tool.input_schema
        assert re.fullmatch(r"[a-z]+(_[a-z]+)?", tool.name)
        assert tool.title
        assert tool.description
        assert tool.output_schema is None
        assert len(schema["properties"]) <= MOST_PARAMETERS, tool.name
        assert schema["additionalProperties"] is False
        assert "$ref" not in json.dumps(schema)
        for inner in schema["properties"].values():
            assert len(inner.get("properties", {})) <= MOST_SWITCHES, tool.name


def test_no_name_from_elsewhere_is_one_of_ours():
    assert not set(MEANT) & set(ALL)
    assert set(MEANT.values()) <= set(ALL)


@pytest.mark.parametrize("structured", [True, False])
def test_what_is_sent_is_what_the_sdk_would_send(structured):
    """The stored definitions of the tools are those that the SDK makes of the tools."""
    assert definitions.kept(structured=structured) == generate.registered_tools(structured=structured)
