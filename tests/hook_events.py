"""What the clients send to their hooks, field by field as they do."""

import json

from kbhub.hooks.events import CLIENTS, Event, event_of

SESSION = "7f3c2a10-5d0e-4c3b-9a51-0b6f1c2d3e4f"

_CLAUDE_NAMES = {
    "session-start": "SessionStart", "subagent-start": "SubagentStart", "prompt": "UserPromptSubmit",
    "tool": "PreToolUse", "compact": "PreCompact", "session-end": "SessionEnd",
}  # fmt: skip
NAMES = {
    "claude-code": _CLAUDE_NAMES,
    "codex": _CLAUDE_NAMES,
    "copilot-cli": {**_CLAUDE_NAMES, "tool": "PostToolUse", "stop": "Stop"},
    "gemini-cli": {
        **_CLAUDE_NAMES, "subagent-start": "", "prompt": "BeforeAgent", "tool": "AfterTool", "compact": "PreCompress",
    },
    "opencode": _CLAUDE_NAMES,
}  # fmt: skip
"""The clients' names of our events."""

EDITS = {
    "claude-code": lambda path, text: (
        "Edit", {"file_path": path, "old_string": "x = 1", "new_string": text, "replace_all": False}),
    "codex": lambda path, text: (
        "apply_patch", {"command": f"*** Begin Patch\n*** Update File: {path}\n@@\n-x = 1\n+{text}\n*** End Patch"}),
    "copilot-cli": lambda path, text: ("edit", {"path": path, "old_str": "x = 1", "new_str": text}),
    "gemini-cli": lambda path, text: (
        "replace", {"file_path": path, "old_string": "x = 1", "new_string": text, "instruction": "change it"}),
    "opencode": lambda path, text: ("edit", {"filePath": path, "oldString": "x = 1", "newString": text}),
}  # fmt: skip
"""The tool of each client that changes a text in a file."""

READS = {
    "claude-code": lambda path: ("Read", {"file_path": path}),
    "codex": lambda path: ("Bash", {"command": f"sed -n '1,80p' {path}"}),
    "copilot-cli": lambda path: ("view", {"path": path}),
    "gemini-cli": lambda path: ("read_file", {"file_path": path}),
    "opencode": lambda path: ("read", {"filePath": path}),
}
"""The tool of each client that reads a file."""


def payload(client, name, cwd, *, session=SESSION, transcript=None, source="startup", prompt="", tool=None, agent="a"):
    """Give the JSON value that a client sends."""
    sent = {
        "session_id": session,
        "transcript_path": str(transcript) if transcript else None,
        "cwd": str(cwd),
        "hook_event_name": NAMES[client].get(name, ""),
    }
    if client == "opencode":  # what our plugin sends
        sent = {"session_id": session, "cwd": str(cwd)}
    if client in ("claude-code", "codex"):
        sent |= {"permission_mode": "default"}
    if client in ("copilot-cli", "gemini-cli"):
        sent |= {"timestamp": "2026-11-24T10:00:00.000Z"}
    if client == "copilot-cli":
        del sent["transcript_path"]
    if name == "session-start":
        sent |= {"source": source}
    elif name == "subagent-start":
        sent |= {"agent_id": agent, "agent_type": agent}
    elif name == "prompt":
        sent |= {"prompt": prompt}
    elif name == "tool":
        called, given = tool
        sent |= {"tool_name": called, "tool_input": given}
        if client in ("claude-code", "codex"):
            sent |= {"tool_use_id": "toolu_1"}
        else:
            key = "tool_response" if client == "gemini-cli" else "tool_result"
            sent |= {key: {"llmContent": "done", "result_type": "success"}}
    elif name == "compact":
        sent |= {"trigger": "auto"}
    else:
        sent |= {"reason": "exit"}
    return sent


def event(name, cwd, *, client="claude-code", **more) -> Event:
    """Give an event as kbhub takes it from a client."""
    found = event_of(name, client, payload(client, name, cwd, **more))
    assert found is not None
    return found


def edit(cwd, path, text="y = 2", *, client="claude-code", **more) -> Event:
    return event("tool", cwd, client=client, tool=EDITS[client](str(path), text), **more)


def reading(cwd, path, *, client="claude-code", **more) -> Event:
    return event("tool", cwd, client=client, tool=READS[client](str(path)), **more)


def sent(client, name, cwd, **more) -> bytes:
    return json.dumps(payload(client, name, cwd, **more)).encode()


def claude_log(path, *turns, session=SESSION, cwd="/work/shop"):
    """Write a log of Claude Code: pairs of a role and a text, or of a tool's name and its arguments.

    `result` is the role of what the tool before it gave.
    """
    lines = []
    for number, (role, said) in enumerate(turns):
        kind, content = role, said
        if role == "result":
            kind, content = "user", [{"type": "tool_result", "tool_use_id": f"t{number - 1}", **said}]
        elif not isinstance(said, str):
            kind, content = "assistant", [{"type": "tool_use", "id": f"t{number}", "name": role, "input": said}]
        message = {"role": kind, "content": content, "id": f"m{number}"}
        lines.append({"type": kind, "message": message, "sessionId": session, "cwd": str(cwd), "uuid": f"u{number}"})
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


__all__ = ["CLIENTS", "EDITS", "NAMES", "READS", "SESSION", "claude_log", "edit", "event", "payload", "reading", "sent"]
