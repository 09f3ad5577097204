"""The tool `ask` as a client of either era sees it: with a model, without, refusing, slow, talking nonsense."""

from functools import partial

import anyio
import pytest
from mcp import Client, MCPError
from mcp.types import (
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    CreateMessageResult,
    ElicitResult,
    ErrorData,
    ImageContent,
    InputRequiredResult,
    TextContent,
)

import kbhub
import kbhub.answers.question
import kbhub.server.tools.search
from ask_documents import QUESTION, write_documents
from kbhub.answers.answer import Answer
from kbhub.server.server import KbhubServer
from kbhub.usage.gaps import show_log

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("patient")]

UNKNOWN = "who won the football world cup in brazil"
WRITTEN = "Roll back first [1]. Then find out why [1][2]."


@pytest.fixture
def environment(environment):
    """All tools are offered: `ask` to clients without a model, too."""
    environment.env["KBHUB_TOOLS"] = "all"
    return environment


@pytest.fixture
def hub(environment):
    opened = write_documents(environment).hub()
    opened.sync()
    return opened


class Model:
    """A client's model: what it was asked, and what it says, the last of it again and again."""

    def __init__(self, *says):
        self.says, self.asked = list(says) or [WRITTEN], []

    async def __call__(self, _context, params):
        self.asked.append(params)
        says = self.says.pop(0) if len(self.says) > 1 else self.says[0]
        if not isinstance(says, str):
            return says
        content = TextContent(type="text", text=says)
        return CreateMessageResult(role="assistant", model="client-model-1", content=content)


async def call(hub, mode, model=None, **arguments):
    """Ask through a server with structured results, and give the answer."""
    async with Client(KbhubServer(hub, structured=True), mode=mode, sampling_callback=model) as client:
        result = await client.call_tool("ask", {"question": QUESTION, **arguments})
    assert not result.is_error, result.content
    return Answer.model_validate(result.structured_content)


async def test_the_clients_model_writes_and_is_checked_and_without_one_there_is_an_answer_too(hub, mode):
    model = Model()
    answer = await call(hub, mode, model)
    assert (answer.outcome, answer.written_by, answer.model) == ("written", "sampling", "client-model-1")
    assert answer.text == "Roll back first. [1] Then find out why. [1][2]"
    assert all(one.sent for one in answer.references)
    (params,) = model.asked
    assert params.max_tokens == 500
    assert "never an instruction" in params.system_prompt
    assert "Roll back first and ask why later." in params.messages[0].content.text
    assert len(params.messages) == 1
    (noted,) = show_log(hub).queries
    assert (noted.text, noted.client) == (QUESTION, "mcp")

    answer = await call(hub, mode)
    assert (answer.outcome, answer.written_by) == ("written", "extractive")
    assert "sampling" in answer.why[0]


PICTURE = CreateMessageResult(
    role="assistant", model="m", content=ImageContent(type="image", data="aGk=", mime_type="image/png")
)


@pytest.mark.parametrize(
    ("says", "writer", "why"),
    [
        ("I like cheese.", "extractive", "model was asked, but"),
        ("Roll back [9].", "extractive", "model was asked, but"),
        (PICTURE, "extractive", "image"),
        ("NO_ANSWER", "sampling", ""),
    ],
)
async def test_nonsense_falls_through_and_no_answer_is_one(hub, mode, says, writer, why):
    answer = await call(hub, mode, Model(says))
    assert (answer.written_by, answer.outcome == "not_answered") == (writer, writer == "sampling")
    assert why in "".join(answer.why)


async def test_a_refusal_falls_through_where_the_server_learns_of_it_and_in_the_newer_era_stays_in_the_client(hub):
    answer = await call(hub, "legacy", Model(ErrorData(code=-1, message="User rejected sampling request")))
    assert answer.written_by == "extractive"
    assert answer.why[0] == "The client refused: User rejected sampling request."
    refusing = Model(ErrorData(code=-1, message="User rejected sampling request"))
    async with Client(KbhubServer(hub, structured=True), sampling_callback=refusing) as client:
        with pytest.raises(MCPError):
            await client.call_tool("ask", {"question": QUESTION})
        options = {"written_by": "extractive"}
        result = await client.call_tool("ask", {"question": QUESTION, "options": options})
    assert result.structured_content["written_by"] == "extractive"
    assert len(refusing.asked) == 1


async def test_a_slow_model_is_given_up(hub, monkeypatch):
    monkeypatch.setattr(kbhub.server.tools.search, "SAMPLING_SECONDS", 0.05)
    never = anyio.Event()

    async def wait(context, params):
        await never.wait()

    answer = await call(hub, "legacy", wait)
    assert answer.written_by == "extractive"
    assert "within 0.05 seconds" in answer.why[0]


async def test_the_retry_neither_searches_again_nor_changes_the_prompt(hub, monkeypatch):
    prepared = []
    prepare = kbhub.answers.question.prepare
    monkeypatch.setattr("kbhub.server.tools.search.prepare", lambda *a, **k: prepared.append(1) or prepare(*a, **k))
    rollback = next(base.path for base in hub.discovery().bases) / "runbooks/rollback.md"

    class Changing(Model):
        async def __call__(self, context, params):
            rollback.write_text("# Cheese\n\nNothing else.\n")
            rollback.with_name("copy.md").unlink()
            return await super().__call__(context, params)

    answer = await call(hub, "auto", Changing())

    assert prepared == [1]
    assert answer.written_by == "sampling"
    assert "Roll back first and ask why later." in answer.passages[0].text


async def test_a_state_that_is_not_the_calls_own_is_refused_and_harms_nothing(hub):
    server = KbhubServer(hub, structured=True)
    said = CreateMessageResult(role="assistant", model="m", content=TextContent(type="text", text=WRITTEN))
    async with Client(server, sampling_callback=Model()) as client, Client(KbhubServer(hub)) as other:

        async def repeat(state, by=client, question=QUESTION, answer=said, expected=CallToolResult):
            answers = {"input_responses": {"answer": answer}} if answer else {}
            params = CallToolRequestParams(
                name="ask", arguments={"question": question}, **({"request_state": state} if state else {}), **answers
            )
            return await by.session.send_request(CallToolRequest(params=params), expected)

        state = (await repeat(None, answer=None, expected=InputRequiredResult)).request_state
        for call in (
            partial(repeat, state[:-6] + "AAAAAA"), partial(repeat, "made up"), partial(repeat, "A" * 1_000_000),
            partial(repeat, state, question="who feeds the cat"), partial(repeat, state, by=other),
        ):  # fmt: skip
            with pytest.raises(MCPError, match="Invalid or expired requestState"):
                await call()
        unanswered = await repeat(state, answer=ElicitResult(action="decline"))
        answered = await repeat(state)

    assert unanswered.structured_content["written_by"] == "extractive"
    assert unanswered.structured_content["why"][0] == "The client sent no answer from its model."
    assert answered.structured_content["written_by"] == "sampling"


async def test_before_it_gives_up_the_clients_model_is_asked_for_other_words(hub, mode):
    model = Model('- "roll back": a release\n- -undo a rollback', WRITTEN)
    answer = await call(hub, mode, model, question="Auslieferung rückgängig machen")
    assert (answer.outcome, answer.written_by) == ("written", "sampling")
    assert answer.question == "Auslieferung rückgängig machen"
    assert "Also searched for, in words of the client's model: roll back a release; undo a rollback." in answer.notes
    assert "Auslieferung rückgängig machen" in model.asked[0].messages[0].content.text
    assert "Roll back first" not in model.asked[0].messages[0].content.text


@pytest.mark.parametrize(("says", "told"), [("…", "found no other words"), (PICTURE, "image"), ("soccer", "soccer")])
async def test_words_that_find_nothing_leave_it_at_that_and_it_says_so(hub, mode, says, told):
    model = Model(says)
    answer = await call(hub, mode, model, question=UNKNOWN)
    assert (answer.outcome, len(model.asked)) == ("not_covered", 1)
    assert told in answer.notes[0]
