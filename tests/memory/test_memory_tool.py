"""Claude's memory tool over a project's memories: the six commands, their words, and what they may not do."""

from __future__ import annotations

import json

import pytest

from kbhub import memory_tool
from kbhub.errors import KbhubError, SecretFound, UsageError, WriteRefused
from kbhub.memory.lists import memories, trashed
from kbhub.memory.remember import remember
from kbhub.search.search import search
from kbhub.types import Query
from trees import snapshot

NOTES = "# Shop\n\nDeploys go out on Mondays.\nThe canary runs for an hour.\nNever on Fridays."


@pytest.fixture
def hub(environment):
    environment.write("knowledge/a.md", "# A\n")
    return environment.hub()


@pytest.fixture
def noted(hub):
    run(hub, "create", path="/memories/notes.md", file_text=NOTES)
    return hub


def run(hub, command, **parameters):
    return memory_tool(hub, {"command": command, **parameters})


def view(hub, path="/memories", **parameters):
    return run(hub, "view", path=path, **parameters)


def paths(hub):
    return [line.split("\t")[1] for line in view(hub).splitlines()[2:]]


def test_nothing_is_there_at_first(hub):
    """Agents look before they write, so an empty folder is no error."""
    assert view(hub) == (
        "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items and node_modules:\n"
        "0B\t/memories"
    )


def test_a_file_is_a_memory(noted):
    """It keeps its name, is shown with line numbers, and is found by search and by the other tools."""
    assert view(noted, "/memories/notes.md") == (
        "Here's the content of /memories/notes.md with line numbers:\n"
        "     1\t# Shop\n     2\t\n     3\tDeploys go out on Mondays.\n     4\tThe canary runs for an hour.\n"
        "     5\tNever on Fridays."
    )
    (memory,) = memories(noted, whole=True).memories
    assert (memory.text, memory.by, memory.source) == (NOTES, "memory tool", "agent")
    assert "canary" in search(noted, Query(text="how long does the canary run")).hits[0].excerpt


def test_what_was_remembered_otherwise_is_a_file_too(hub):
    """Below the folder of its namespace, under the name of its own file."""
    done = remember(hub, "Releases need the VPN.", namespace="ops/release")
    (shown,) = [path for path in paths(hub) if path.endswith("/")][-1:]

    assert shown == "/memories/ops/release/"
    file = f"/memories/ops/release/releases-need-the-vpn-{done.memory.id}.md"
    assert file in view(hub, "/memories/ops")
    assert "Releases need the VPN." in view(hub, file)


def test_a_folder_is_listed_two_levels_deep(hub):
    """Folders have a slash and the size of all that is in them."""
    for number, path in enumerate(("a.md", "x/b.md", "x/y/c.md", "x/y/z/d.md")):
        run(hub, "create", path=f"/memories/{path}", file_text=f"Fact {number} " + "of zebras " * 10 ** min(number, 3))

    assert paths(hub) == ["/memories/a.md", "/memories/x/", "/memories/x/b.md", "/memories/x/y/"]
    assert "K\t/memories/x/y/" in view(hub)
    assert "/memories/x/y/z/" in view(hub, "/memories/x")


def test_a_range_of_lines_is_shown(noted):
    """From 1, to the end by -1."""
    assert view(noted, "/memories/notes.md", view_range=[4, -1]).splitlines()[1:] == [
        "     4\tThe canary runs for an hour.",
        "     5\tNever on Fridays.",
    ]
    with pytest.raises(UsageError, match=r"\[1, 5\]"):
        view(noted, "/memories/notes.md", view_range=[4, 9])


def test_a_text_is_replaced_where_it_is_once(noted):
    """The answer shows the place."""
    told = run(noted, "str_replace", path="/memories/notes.md", old_str="Mondays", new_str="Tuesdays")

    assert told.startswith("The memory file has been edited.")
    assert "     3\tDeploys go out on Tuesdays." in told
    (memory,) = memories(noted, whole=True).memories
    assert memory.text == NOTES.replace("Mondays", "Tuesdays")


def test_a_text_is_inserted_behind_a_line(noted):
    """Line 0 is the beginning."""
    told = run(noted, "insert", path="/memories/notes.md", insert_line=3, insert_text="At noon.\n")
    run(noted, "insert", path="/memories/notes.md", insert_line=0, insert_text="First.")

    assert told == "The file /memories/notes.md has been edited."
    (memory,) = memories(noted, whole=True).memories
    assert memory.text.splitlines()[:5] == ["First.", "# Shop", "", "Deploys go out on Mondays.", "At noon."]


def test_what_is_deleted_can_be_had_back(noted):
    """A file, then a folder with all that is in it."""
    run(noted, "create", path="/memories/ops/one.md", file_text="One thing.")
    run(noted, "create", path="/memories/ops/deep/two.md", file_text="Another thing altogether.")

    assert run(noted, "delete", path="/memories/notes.md") == "Successfully deleted /memories/notes.md"
    assert run(noted, "delete", path="/memories/ops") == "Successfully deleted /memories/ops"
    assert paths(noted) == []
    assert len(trashed(noted)) == 3


def test_files_and_folders_are_renamed(noted):
    """Text, id and all the rest of a memory stay."""
    (before,) = memories(noted).memories
    run(noted, "rename", old_path="/memories/notes.md", new_path="/memories/shop/deploys.md")
    told = run(noted, "rename", old_path="/memories/shop", new_path="/memories/archive/2026")

    assert told == "Successfully renamed /memories/shop to /memories/archive/2026"
    assert "# Shop" in view(noted, "/memories/archive/2026/deploys.md")
    (after,) = memories(noted).memories
    assert (after.id, after.namespace) == (before.id, "archive/2026")


@pytest.mark.parametrize(
    ("command", "parameters", "told"),
    [
        (
            "view",
            {"path": "/memories/none.md"},
            "The path /memories/none.md does not exist. Please provide a valid path.",
        ),
        ("create", {"path": "/memories/notes.md", "file_text": "x"}, "File /memories/notes.md already exists"),
        ("create", {"path": "/memories/twin.md", "file_text": NOTES}, "/memories/notes.md already says the same"),
        ("create", {"path": "/memories/notes.md/x.md", "file_text": "x"}, "notes.md is a file, not a directory"),
        ("create", {"path": "/memories/empty.md", "file_text": " "}, "The text is empty"),
        ("str_replace", {"path": "/memories/notes.md", "old_str": "zebra", "new_str": ""}, "did not appear verbatim"),
        ("str_replace", {"path": "/memories/notes.md", "old_str": "", "new_str": "x"}, "did not appear verbatim"),
        (
            "str_replace",
            {"path": "/memories/notes.md", "old_str": "on ", "new_str": ""},
            "in lines: [3, 5]. Please ensure",
        ),
        ("insert", {"path": "/memories/notes.md", "insert_line": 6, "insert_text": "x"}, "of the file: [0, 5]"),
        ("insert", {"path": "/memories/none.md", "insert_line": 0, "insert_text": "x"}, "does not exist"),
        ("delete", {"path": "/memories/none.md"}, "The path /memories/none.md does not exist"),
        ("delete", {"path": "/memories"}, "itself cannot be deleted"),
        ("rename", {"old_path": "/memories/none.md", "new_path": "/memories/x.md"}, "does not exist"),
        ("rename", {"old_path": "/memories/notes.md", "new_path": "/memories/notes.md"}, "already exists"),
        ("rename", {"old_path": "/memories", "new_path": "/memories/x"}, "does not exist"),
        ("view", {}, "`path`"),
        ("view", {"path": "/memories", "depth": 3}, "`depth`"),
        ("chmod", {"path": "/memories"}, "`command`"),
        ("insert", {"path": "/memories/notes.md", "insert_line": "two", "insert_text": "x"}, "`insert_line`"),
    ],
)
def test_what_cannot_be_done_is_said(noted, command, parameters, told):
    """In the words that models know, and nothing is changed."""
    before = memories(noted, whole=True).memories
    with pytest.raises(UsageError) as raised:
        run(noted, command, **parameters)

    assert told in str(raised.value)
    assert [(one.id, one.text) for one in memories(noted, whole=True).memories] == [
        (one.id, one.text) for one in before
    ]


@pytest.mark.parametrize(
    "path",
    [
        *("/etc/passwd", "/memories/../../x.md", "/memories/../x.md", "notes.md", "/memories/a/../../x.md", ""),
        *("/memoriesx/a.md", "/memories/.hidden", "/memories/a\x00b.md", "/memories/", "/"),
        f"/memories/{'x' * 200}.md",
    ],
)
def test_no_path_leads_out(environment, noted, path):
    """Whatever the path, no file outside the memories is read or written."""
    environment.write(f"{environment.home}/x.md", "secret\n")
    before = snapshot(environment.home)
    for command in ("create", "rename"):
        given = {"path": path, "file_text": "x"} if command == "create" else {"old_path": "/memories/notes.md"}
        with pytest.raises(KbhubError):
            run(noted, command, **given, **({"new_path": path} if command == "rename" else {}))
    if path != "/memories/":
        with pytest.raises(KbhubError):
            view(noted, path)

    assert snapshot(environment.home) == before


def test_a_credential_is_refused(hub):
    """As by `remember`."""
    with pytest.raises(SecretFound):
        run(hub, "create", path="/memories/key.md", file_text="AWS: AKIA" + "Z7QHTWB4MPLX3KRC")
    assert paths(hub) == []


def test_read_only_means_it(environment, noted):
    """Everything that writes is refused."""
    (environment.home / ".kbhub.json").write_text(json.dumps({"readOnly": True}))
    closed = environment.hub()
    for command, given in (
        ("create", {"path": "/memories/x.md", "file_text": "x"}),
        ("str_replace", {"path": "/memories/notes.md", "old_str": "Mondays", "new_str": "x"}),
        ("insert", {"path": "/memories/notes.md", "insert_line": 0, "insert_text": "x"}),
        ("delete", {"path": "/memories/notes.md"}),
        ("rename", {"old_path": "/memories/notes.md", "new_path": "/memories/x.md"}),
    ):
        with pytest.raises(WriteRefused):
            run(closed, command, **given)
    assert "# Shop" in view(closed, "/memories/notes.md")


def test_the_command_line_takes_a_tool_use_block(environment, kbhub):
    """For programs that are not written in Python."""
    environment.write("knowledge/a.md", "# A\n")

    def tool(code, *arguments, **command):
        return kbhub("memories", "tool", *arguments, stdin=json.dumps(command).encode(), code=code)

    made = tool(0, "--client", "shop-agent", command="create", path="/memories/n.md", file_text="Canaries first.")
    seen = tool(0, command="view", path="/memories/n.md")
    failed = tool(2, command="view", path="/memories/none.md")
    nonsense = kbhub("memories", "tool", stdin=b"hello", code=2)

    assert made.out == "File created successfully at: /memories/n.md\n"
    assert seen.out.endswith("     1\tCanaries first.\n")
    assert "does not exist. Please provide a valid path." in failed.err
    assert "not a JSON object" in nonsense.err
    assert memories(environment.hub()).memories[0].by == "shop-agent"
