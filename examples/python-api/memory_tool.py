"""Run a command of Claude's memory tool (`memory_20250818`) on the memories of a project.

Usage: python memory_tool.py FOLDER JSON, the JSON being the input of a `tool_use` block. Each file of the tool is a
memory that has its path as a tag.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from kbhub import Hub, KbhubError, Memory, forget, memories, remember


def run(hub: Hub, command: dict[str, Any]) -> str:
    """Run one command, and return the text for its `tool_result`."""
    every = memories(hub, scope="project", limit=10_000, whole=True).memories
    files = {f"/{tag}": memory for memory in every for tag in memory.tags if tag.startswith("memories/")}
    name, path = command["command"], command.get("path", command.get("old_path", "")).rstrip("/")
    inside = {file: memory for file, memory in files.items() if file == path or file.startswith(f"{path}/")}
    if name == "create":
        return _create(hub, path, command["file_text"], taken=bool(inside))
    if name == "view" and path not in files and (inside or path == "/memories"):
        return "\n".join((f"Here're the files in {path}:", *sorted(inside)))
    if not inside:
        raise ValueError(f"The path {path} does not exist. Please provide a valid path.")
    if name == "delete":
        forget(hub, [memory.ref for memory in inside.values()], scope="project")
        return f"Successfully deleted {path}"
    if name == "rename":
        new = command["new_path"].rstrip("/")
        if any(file == new or file.startswith(f"{new}/") for file in files):
            raise ValueError(f"The destination {new} already exists")
        for file, memory in inside.items():
            others = [tag for tag in memory.tags if tag != file[1:]]
            remember(hub, id=memory.ref, tags=[*others, f"{new}{file[len(path) :]}"[1:]], client="memory tool")
        return f"Successfully renamed {path} to {new}"
    if path not in files:
        raise ValueError(f"{path} is a directory.")
    return _view_or_edit(hub, name, path, files[path], command)


def _create(hub: Hub, path: str, text: str, *, taken: bool) -> str:
    if taken or not path.startswith("/memories/"):
        raise ValueError(f"File {path} already exists" if taken else f"The path {path} is not below /memories.")
    done = remember(hub, text, tags=(path[1:],), client="memory tool")
    if done.did != "stored":
        raise ValueError(f"File {path} was not created: the memory {done.memory.id} already says the same")
    return f"File created successfully at: {path}"


def _view_or_edit(hub: Hub, name: str, path: str, memory: Memory, command: dict[str, Any]) -> str:
    lines = memory.text.split("\n")
    if name == "view":
        first, last = command.get("view_range", (1, -1))
        shown = list(enumerate(lines, 1))[first - 1 : None if last == -1 else last]
        numbered = "\n".join(f"{number:6}\t{line}" for number, line in shown)
        return f"Here's the content of {path} with line numbers:\n{numbered}"
    if name == "insert":
        lines[command["insert_line"] : command["insert_line"]] = command["insert_text"].split("\n")
        text = "\n".join(lines)
    elif memory.text.count(command["old_str"]) == 1:
        text = memory.text.replace(command["old_str"], command.get("new_str", ""))
    else:
        raise ValueError(f"No replacement was performed: old_str is not in {path} exactly once.")
    remember(hub, text, id=memory.ref, client="memory tool")
    return f"The file {path} has been edited."


if __name__ == "__main__":
    try:
        print(run(Hub.open(sys.argv[1]), json.loads(sys.argv[2])))
        sys.exit(0)
    except (KbhubError, ValueError) as error:
        sys.exit(f"memory_tool.py: {error}")
