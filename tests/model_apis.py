"""The models' side of the wire for real clients: one tool call, then a word, and every request kept."""

import json
from contextlib import contextmanager

from ollama_server import Handler, serving

SAID = "Done."


def anthropic(asked, tool):
    blocks = [{"type": "text", "text": SAID}]
    if tool and not any(has(message, "tool_result") for message in asked["messages"]):
        blocks = [{"type": "tool_use", "id": "toolu_1", "name": tool[0], "input": {}}]
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": asked["model"], "content": []}
    yield {"type": "message_start", "message": {**message, "stop_reason": None, "stop_sequence": None, "usage": usage}}
    for number, block in enumerate(blocks):
        begun, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": SAID}
        if block["type"] == "tool_use":
            begun, delta = block, {"type": "input_json_delta", "partial_json": json.dumps(tool[1])}
        yield {"type": "content_block_start", "index": number, "content_block": begun}
        yield {"type": "content_block_delta", "index": number, "delta": delta}
        yield {"type": "content_block_stop", "index": number}
    reason = "tool_use" if blocks[0]["type"] == "tool_use" else "end_turn"
    yield {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage}
    yield {"type": "message_stop"}


def responses(asked, tool):
    item = {
        "type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": SAID, "annotations": []}],
    }  # fmt: skip
    if tool and not any(one.get("type") == "function_call_output" for one in asked["input"]):
        called = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "status": "completed"}
        item = {**called, "name": tool[0], "arguments": json.dumps(tool[1])}
    answer = {"id": "resp_1", "object": "response", "status": "completed", "output": [item]}
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    yield {"type": "response.created", "response": {**answer, "status": "in_progress", "output": []}}
    yield {"type": "response.output_item.added", "output_index": 0, "item": item}
    yield {"type": "response.output_item.done", "output_index": 0, "item": item}
    yield {"type": "response.completed", "response": {**answer, "usage": usage}}


def completions(asked, tool):
    delta, reason = {"role": "assistant", "content": SAID}, "stop"
    if tool and not any(message["role"] == "tool" for message in asked["messages"]):
        function = {"name": tool[0], "arguments": json.dumps(tool[1])}
        call = {"index": 0, "id": "call_1", "type": "function", "function": function}
        delta, reason = {"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls"
    about = {"id": "c_1", "object": "chat.completion.chunk", "created": 1, "model": asked["model"]}
    yield {**about, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    yield {**about, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": usage}
    yield None


def gemini(asked, tool):
    part = {"text": SAID}
    if tool and not any(has(content.get("parts", []), "functionResponse") for content in asked["contents"]):
        part = {"functionCall": {"name": tool[0], "args": tool[1]}}
    usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
    content = {"role": "model", "parts": [part]}
    yield {"candidates": [{"content": content, "finishReason": "STOP", "index": 0}], "usageMetadata": usage}


def has(value, word):
    return f'"{word}"' in json.dumps(value)


FORMS = {
    "/v1/messages": anthropic,
    "/v1/responses": responses,
    "/v1/chat/completions": completions,
    ":streamGenerateContent": gemini,
}


class ModelServer:
    """All of them: which tool a model calls, and what it was sent."""

    def __init__(self, tool):
        self.requests: list[str] = []
        self.tool = tool

    def _handler(outer):  # noqa: N805 - the handler is `self`
        class Models(Handler):
            def do_POST(self):  # noqa: N802 - the library names it, as below
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
                form = next((form for end, form in FORMS.items() if end in self.path), None)
                if form is None or "count_tokens" in self.path:
                    self.answer(b'{"input_tokens": 1}')
                    return
                outer.requests.append(body)
                asked = json.loads(body)
                events = list(form(asked, outer.tool if asked.get("tools") else None))
                named = form in (anthropic, responses)
                lines = [
                    (f"event: {event['type']}\n" if named else "")
                    + f"data: {json.dumps(event) if event else '[DONE]'}\n\n"
                    for event in events
                ]
                self.answer("".join(lines).encode(), kind="text/event-stream")

            def do_GET(self):  # noqa: N802
                self.answer(b'{"data": [], "models": []}')

        return Models

    @contextmanager
    def serving(self):
        with serving(self._handler()) as self.address:
            yield self
