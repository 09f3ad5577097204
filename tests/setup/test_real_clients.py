"""`kbhub setup`, hooks and plugins with the command lines that clients publish to npm, in a home of their own.

python tests/node_packages.py --clients && pytest -m slow tests/setup/test_real_clients.py
"""

import json
import os
import sys
import tomllib
from contextlib import contextmanager
from pathlib import Path

import pytest

import conftest
from daemons import until, windows
from kbhub.hooks.inbox import waiting
from kbhub.memory.changes import remember
from kbhub.setup.clients import client_named
from kbhub.workspace.config import parse_jsonc
from model_apis import ModelServer
from node_packages import PROGRAMS, PYTHON_BIN, node_program
from setup_machine import CODEX, OPENCODE

ROOT = Path(__file__).parents[2]
SECONDS = 120
"""What a client may take for two turns of a conversation; five to ten on an idle machine."""

CLIENTS = {
    "claude": ("claude-code", "Connected", ".claude.json", "mcpServers"),
    "codex": ("codex", "kbhub", ".codex/config.toml", "mcp_servers"),
    "gemini": ("gemini-cli", "kbhub", ".gemini/settings.json", "mcpServers"),
    "opencode": ("opencode", "connected", ".config/opencode/opencode.json", "mcp"),
    "copilot": ("copilot-cli", "kbhub", ".copilot/mcp-config.json", "mcpServers"),
    "amp": ("amp", "kbhub", ".config/amp/settings.json", "amp.mcpServers"),
    "qwen": ("qwen-code", " - Connected", ".qwen/settings.json", "mcpServers"),
    "kilo": ("kilo-code", "connected", ".config/kilo/kilo.jsonc", "mcp"),
    "droid": ("factory", " connected ", ".factory/mcp.json", "mcpServers"),
}
"""Program → our name of the client, what `mcp list` says of a server, its file, the key of servers there."""

PROMPT = (
    "On which day are refunds booked in the ledger?\n"
    "From now on, run make check before every commit in this repository."
)
FAKE_MODEL = """\
model = "gpt-5"
model_provider = "fake"

[model_providers.fake]
name = "fake"
base_url = "{address}/v1"
wire_api = "responses"
env_key = "FAKE_KEY"
"""
GEMINI = {"security": {"auth": {"selectedType": "gemini-api-key"}}}
SANDBOXED = ["--dangerously-bypass-hook-trust", "--sandbox", "read-only"]
ASKED = {
    "claude": (lambda file: ("Read", {"file_path": file}), ["-p", PROMPT]),
    "codex": (lambda file: ("exec_command", {"cmd": f"cat {file}"}), ["exec", *SANDBOXED, PROMPT]),
    "gemini": (lambda file: ("read_file", {"file_path": file}), ["-m", "gemini-2.5-pro", "-p", PROMPT]),
    "copilot": (lambda file: ("view", {"path": file}), ["-p", PROMPT, "--allow-all-tools"]),
    "opencode": (lambda file: ("read", {"filePath": file}), ["run", "-m", "fake/m", PROMPT]),
}
"""Program → the tool that its model calls, its arguments."""

MARKETPLACE = ["plugin", "marketplace", "add", str(ROOT)]
INSTALLED = {
    "claude": [MARKETPLACE, ["plugin", "install", "kbhub@kbhub"]],
    "codex": [MARKETPLACE, ["plugin", "add", "kbhub@kbhub"]],
    "copilot": [MARKETPLACE, ["plugin", "install", "kbhub@kbhub"]],
    "gemini": [["extensions", "install", "--consent", str(ROOT / "plugins" / "gemini-cli")]],
}
"""Program → arguments that install kbhub's plugin."""

PATIENT = "from kbhub.server.daemon import launch\n\nlaunch.HOOK_SECONDS = 60.0\n"
"""A hook is silent after 0.4 s, as it should be beside a person; what it says is asked here, on a busy machine too."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not any(map(node_program, CLIENTS)), reason="no clients: `python tests/node_packages.py --clients` gets them"
    ),
]


@pytest.fixture
def account(account, monkeypatch):
    """A user who has the clients, and can start this kbhub."""
    account.env["PATH"] = os.pathsep.join([str(account.bin), str(PYTHON_BIN), "/usr/bin", "/bin"])
    account.file("patient/sitecustomize.py", PATIENT)
    account.env["PYTHONPATH"] = os.pathsep.join([str(account.home / "patient"), str(ROOT / "src")])
    for name, value in account.env.items():
        monkeypatch.setenv(name, value)
    return account


def install(account, program):
    if node_program(program) is None:
        pytest.skip(f"{program} is not installed")
    (account.bin / program).symlink_to((PROGRAMS / program).resolve())


def ran(account, program, *arguments, typed="", **variables):
    options = {"env": account.env | variables, "cwd": account.project, "input": typed}
    return conftest.ran(account.bin / program, *arguments, **options, timeout=SECONDS)


def servers(account, program):
    _, _, path, key = CLIENTS[program]
    if not (account.home / path).exists():
        return {}
    text = (account.home / path).read_text("utf-8")
    data = tomllib.loads(text) if path.endswith(".toml") else parse_jsonc(text, path)
    return data.get(key, {})


@pytest.mark.parametrize("program", CLIENTS)
def test_a_real_client_takes_the_registration_and_lists_it(account, program):
    install(account, program)
    # A client may have one package per system, which npm leaves out silently if it cannot be had.
    if ran(account, program, "--version").code:
        pytest.skip(f"{program} does not start")
    if program == "codex":
        account.file(".codex/config.toml", CODEX)
    if program == "opencode":
        account.file(".config/opencode/opencode.json", OPENCODE)
    client, wanted, _, _ = CLIENTS[program]

    code, out, _ = account.run("--yes", "--json", "--client", client)
    (step,) = json.loads(out)["steps"]
    named = client_named(client)
    assert (code, step["state"]) == (0, "done")
    assert step["notes"] == [note for note in (named.hint, named.caveat) if note]
    assert "kbhub" in servers(account, program)
    listed = ran(account, program, "mcp", "list")
    assert wanted in listed.out + listed.err
    assert account.run("--client", client)[1].split()[0] == "unchanged"
    code, out, _ = account.run("--yes", "--json", "--client", client, "--remove")
    assert (code, json.loads(out)["steps"][0]["notes"]) == (0, [])
    assert "kbhub" not in servers(account, program)
    assert program != "codex" or "# the big one" in (account.home / ".codex/config.toml").read_text()


@contextmanager
def model(account, environment, program):
    """A window, and a server of models that the client is led to: gives the server, and what leads to it."""
    called, _ = ASKED[program]
    with (
        windows(environment) as begin,
        ModelServer(called(str(environment.project / "src/pay.py"))).serving() as server,
    ):
        begin().handshake()
        address = server.address
        if program == "codex":
            account.file(".codex/config.toml", FAKE_MODEL.format(address=address))
        if program == "gemini":
            account.file(".gemini/settings.json", json.dumps(GEMINI))
        if program == "opencode":
            options = {"baseURL": f"{address}/v1", "apiKey": "x"}
            fake = {"npm": "@ai-sdk/openai-compatible", "options": options, "models": {"m": {}}}
            account.file(CLIENTS[program][2], json.dumps({"provider": {"fake": fake}, "autoupdate": False}))
        yield (
            server,
            {
                "ANTHROPIC_BASE_URL": address, "ANTHROPIC_API_KEY": "x",
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "FAKE_KEY": "x", "GEMINI_API_KEY": "x",
                "GOOGLE_GEMINI_BASE_URL": address, "GEMINI_CLI_TRUST_WORKSPACE": "true",
                "COPILOT_PROVIDER_BASE_URL": f"{address}/v1", "COPILOT_PROVIDER_API_KEY": "x",
                "COPILOT_MODEL": "gpt-5", "COPILOT_OFFLINE": "true", "OPENCODE_DISABLE_MODELS_FETCH": "1",
            },
        )  # fmt: skip


@pytest.mark.parametrize("program", ASKED)
def test_a_real_client_runs_the_hooks_and_tells_its_model(shop, account, environment, program):
    """Start, prompt, tool: what kbhub says is in what the model is sent; the end fills the inbox."""
    install(account, program)
    remember(shop, "charge() must not round: cents are integers.", about=["src/pay.py"])
    remember(shop, "The shop is closed on Sundays.", tags=["standing"])
    with model(account, environment, program) as (server, variables):
        assert account.run("--yes", "--hooks", "--client", CLIENTS[program][0])[0] == 0
        done = ran(account, program, *ASKED[program][1], **variables)

    said = "\n".join(server.requests)
    assert "Done." in done.out, done.out + done.err
    for told in ("kbhub can search these notes", "closed on Sundays", "the bank confirms them", "cents are integers"):
        assert told in said
    assert "cents are integers" not in server.requests[0]
    if program != "copilot":  # it does not say where its log is
        until(lambda: waiting(shop) or program != "opencode")  # which does not wait for a hook at the end
        assert [one.text.rstrip('"') for one in waiting(shop)] == [PROMPT.splitlines()[1]]


def test_claude_code_shows_its_model_the_tools_without_a_search(account, environment):
    """Though it hides those of other servers; without the key in its entry, only those with the key in `_meta`."""
    install(account, "claude")
    with model(account, environment, "claude") as (server, variables):
        assert account.run("--yes", "--no-hooks", "--client", "claude-code")[0] == 0
        file = account.home / ".claude.json"
        ran(account, "claude", "-p", "Hello", ENABLE_TOOL_SEARCH="true", **variables)
        shown = [tools_of(request) for request in server.requests]
        data = json.loads(file.read_text("utf-8"))
        del data["mcpServers"]["kbhub"]["alwaysLoad"]
        file.write_text(json.dumps(data), "utf-8")
        server.requests.clear()
        variables["MCP_CONNECTION_NONBLOCKING"] = "false"  # else the first turn does not wait for the server
        ran(account, "claude", "-p", "Hello", ENABLE_TOOL_SEARCH="true", **variables)

    assert any({"search", "read", "remember", "memories"} <= tools for tools in shown)
    assert max(map(tools_of, server.requests), key=len) == {"search", "remember"}


def tools_of(request):
    """The tools of kbhub that a model is shown."""
    named = (tool.get("name", "") for tool in json.loads(request).get("tools", []) if not tool.get("defer_loading"))
    return {name.removeprefix("mcp__kbhub__") for name in named if name.startswith("mcp__kbhub__")}


def test_claude_code_tells_its_subagent_and_knows_ours(shop, account, environment):
    """The model calls the subagent `kbhub-researcher`, whose model is told by its file and by the hook."""
    install(account, "claude")
    task = {"description": "look up", "prompt": "When are refunds booked?", "subagent_type": "kbhub-researcher"}
    with model(account, environment, "claude") as (server, variables):
        server.tool = ("Agent", task)
        assert account.run("--yes", "--hooks", "--client", "claude-code")[0] == 0
        assert account.run("--yes", "--subagent", "--client", "claude-code")[0] == 0
        done = ran(account, "claude", "-p", "Ask the researcher.", **variables)
    told = [request for request in server.requests if "You answer one question from what is written down" in request]
    assert told, done.out + done.err
    assert "kbhub can search these notes" in told[0]


@pytest.mark.parametrize("program", INSTALLED)
def test_a_real_client_runs_the_hooks_of_the_plugin(shop, account, environment, program):
    """Nothing was set up but the plugin, and the model is told what the notes say about the prompt."""
    install(account, program)
    account.program("kbhub", f'exec "{sys.executable}" -m kbhub "$@"')
    with model(account, environment, program) as (server, variables):
        for line in INSTALLED[program]:
            installed = ran(account, program, *line, typed="y\n")
            assert installed.code == 0, installed.out + installed.err
        done = ran(account, program, *ASKED[program][1], **variables)
    assert "Done." in done.out, done.out + done.err
    assert "the bank confirms them" in "\n".join(server.requests)
