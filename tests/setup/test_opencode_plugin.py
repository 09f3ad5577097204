"""Our plugin of opencode: what it runs, what the model is shown, and that nothing waits or fails if kbhub does."""

import json
import re
import shutil
import subprocess
import sys

import pytest

from daemons import until
from setup_machine import OPENCODE

NODE = shutil.which("node")
PLUGIN = ".config/opencode/plugins/kbhub.js"

STUB = """\
#!{python}
import json, sys
given = json.load(sys.stdin)
event = sys.argv[2]
open({log!r}, "a").write(json.dumps([event, sys.argv[3:], given]) + "\\n")
if event == "tool" and "broken" in str(given):
    print("no json")
elif event not in ("compact", "session-end"):
    print(json.dumps({{"hookSpecificOutput": {{"additionalContext": "told of " + event}}}}))
"""
DRIVER = """\
import plugin from "./kbhub.js"
plugin.setup()
const hooks = await plugin.server({ directory: process.cwd() })
const said = async (sessionID, text) => {
  const parts = [{ id: "prt_1", type: "text", text }, { id: "prt_2", type: "text", text: "aside", synthetic: true }]
  await hooks["chat.message"]({ sessionID }, { message: { id: "msg_1" }, parts })
  return parts.slice(2)
}
const tool = async (tool, args, output) => {
  const result = { output }
  await hooks["tool.execute.after"]({ tool, sessionID: "a", callID: "c", args }, result)
  return result.output
}
const event = (type, properties) => hooks.event({ event: { type, properties } })
const shown = []
await event("session.created", { info: { id: "a" } })
await event("session.created", { info: { id: "b", parentID: "a" } })
shown.push(await said("a", "one"), await said("a", "two"), await said("b", "inner"), await said("old", "three"))
shown.push(await tool("read", { filePath: "pay.py" }, "text"), await tool("grep", { pattern: "x" }, "text"))
shown.push(await tool("read", { filePath: "broken" }, "text"), await tool("bash", { command: "x" }, undefined))
await hooks["experimental.session.compacting"]({ sessionID: "a" }, { context: [] })
await event("session.compacted", { sessionID: "a" })
shown.push(await said("a", "four"))
for (const id of ["a", "a", "b"]) await event("session.idle", { sessionID: id })
await event("server.connected", undefined)
process.stdout.write(JSON.stringify(shown), () => process.exit()) // the time limit of what never began runs on
"""


def test_it_is_written_and_goes_again(account):
    account.file(".config/opencode/opencode.json", OPENCODE)
    code, _, _ = account.run("--client", "opencode", "--hooks", "--yes")
    file = account.home / PLUGIN

    assert code == 0
    command = re.search(r"^const COMMAND = (.*)$", file.read_text(), re.MULTILINE)
    assert json.loads(command[1])[-1].endswith("kbhub")
    code, out, _ = account.run("--client", "opencode", "--hooks", "--yes")
    assert "unchanged" in out
    theirs = file.with_name("theirs.js")
    theirs.write_text("export default {}")
    account.run("--client", "opencode", "--remove", "--yes")
    assert (file.exists(), theirs.exists()) == (False, True)

    file.write_text("// mine\n")
    code, out, _ = account.run("--client", "opencode", "--hooks", "--yes")
    assert (code, file.read_text()) == (1, "// mine\n")


@pytest.mark.skipif(NODE is None or sys.platform == "win32", reason="needs node and a script to run")
@pytest.mark.parametrize("works", [True, False], ids=["kbhub answers", "kbhub is gone"])
def test_a_session_is_told_what_kbhub_says(account, tmp_path, works):
    account.file(".config/opencode/opencode.json", OPENCODE)
    account.run("--client", "opencode", "--hooks", "--yes")
    stub, log = tmp_path / "stub", tmp_path / "log"
    stub.write_text(STUB.format(python=sys.executable, log=str(log)))
    stub.chmod(0o700 if works else 0o600)
    lines = (account.home / PLUGIN).read_text().splitlines(keepends=True)
    lines = [f"const COMMAND = {json.dumps([str(stub)])}\n" if line.startswith("const COM") else line for line in lines]
    for name, text in (("kbhub.js", "".join(lines)), ("driver.js", DRIVER), ("package.json", '{"type": "module"}')):
        (tmp_path / name).write_text(text)
    done = subprocess.run([NODE, "driver.js"], cwd=tmp_path, capture_output=True, text=True, timeout=60)

    assert (done.returncode, done.stderr) == (0, "")
    *messages, read, grep, broken, nothing, last = json.loads(done.stdout)
    if not works:
        assert [*messages, read, grep, broken, nothing, last] == [[], [], [], [], "text", "text", "text", None, []]
        return
    part = {"id": "prt_2k", "messageID": "msg_1", "type": "text", "synthetic": True}
    assert messages == [
        [{**part, "sessionID": "a", "text": "told of session-start\ntold of prompt"}],
        [{**part, "sessionID": "a", "text": "told of prompt"}],
        [{**part, "sessionID": "b", "text": "told of subagent-start"}],
        [{**part, "sessionID": "old", "text": "told of session-start\ntold of prompt"}],
    ]
    assert (read, grep, broken, nothing) == ("text\n\ntold of tool", "text", "text", None)
    assert last[0]["text"] == "told of session-start\ntold of prompt"
    until(lambda: '"session-end"' in log.read_text())  # for which nobody waited
    calls = [json.loads(line) for line in log.read_text().splitlines()]
    assert {tuple(words) for _, words, _ in calls} == {("--client", "opencode")}
    assert all(given.keys() >= {"session_id", "cwd"} for _, _, given in calls)
    starts = [(event, given["source"]) for event, _, given in calls if event.endswith("start")]
    assert starts == [("session-start", "startup"), ("subagent-start", "startup"), ("session-start", "resume"),
                      ("session-start", "compact")]  # fmt: skip
    assert [given["prompt"] for event, _, given in calls if event == "prompt"] == ["one", "two", "three", "four"]
    assert [given["session_id"] for event, _, given in calls if event in ("compact", "session-end")] == ["a", "a"]
