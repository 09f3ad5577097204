"""Where clients keep their servers, how this kbhub is started, and how the two come together, per operating system."""

import os
from pathlib import Path
from typing import get_args

import pytest

from kbhub.setup.clients import CLIENTS, ClientName, Machine, client_named
from kbhub.setup.plan import Installation, carry_out, launch
from kbhub.setup.registration import chosen_clients, client_tasks, registrations, unregistered

HOWTO = Path(__file__).parents[2] / "docs" / "how-to" / "clients.md"
ALL = ("linux", "darwin", "win32")
HOME = Path("/home/ann")


@pytest.mark.parametrize("platform", ALL)
def test_each_client_has_its_file_on_each_system(platform, snapshot):
    machine = Machine(HOME, {}, platform)
    assert "\n".join(f"{client.name}  {machine.file(client).as_posix()}" for client in CLIENTS) == snapshot


@pytest.mark.parametrize(
    ("name", "variable", "file"),
    [
        ("claude-code", "CLAUDE_CONFIG_DIR", "/x/.claude.json"), ("codex", "CODEX_HOME", "/x/config.toml"),
        ("copilot-cli", "COPILOT_HOME", "/x/mcp-config.json"), ("qwen-code", "QWEN_HOME", "/x/settings.json"),
        ("opencode", "XDG_CONFIG_HOME", "/x/opencode/opencode.json"),
        ("crush", "CRUSH_GLOBAL_CONFIG", "/x/crush.json"), ("crush", "XDG_CONFIG_HOME", "/x/crush/crush.json"),
        ("kilo-code", "XDG_CONFIG_HOME", "/x/kilo/kilo.jsonc"),
        ("continue", "CONTINUE_GLOBAL_DIR", "/x/mcpServers/kbhub.json"),
        ("vscode", "APPDATA", "/x/Code/User/mcp.json"),  # roaming profiles of Windows
    ],
)  # fmt: skip
def test_a_variable_moves_a_clients_file(name, variable, file):
    platform = "win32" if variable == "APPDATA" else "linux"
    assert Machine(HOME, {variable: "/x"}, platform).file(client_named(name)) == Path(file)


def test_every_client_is_in_the_table_and_in_the_documentation():
    text = HOWTO.read_text("utf-8")
    assert [client.name for client in CLIENTS] == list(get_args(ClientName))
    for client in CLIENTS:
        assert f"--client {client.name}`" in text or f"`{client.name}`" in text
        assert client.title.removesuffix(" Insiders") in text


@pytest.mark.parametrize("name", ["opencode", "antigravity", "kilo-code"])
def test_of_several_files_the_one_that_exists_counts(tmp_path, name):
    machine = Machine(tmp_path, {}, "linux")
    first = machine.path(client_named(name).files[0])
    first.parent.mkdir(parents=True)
    first.write_text("{}")
    assert machine.file(client_named(name)) == first


@pytest.mark.parametrize("platform", ALL)
@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_each_client_is_found_registered_and_taken_out_again_on_each_system(tmp_path, client, platform):
    home, env = tmp_path / "home", {"KBHUB_DATA_DIR": str(tmp_path / "data"), "PATH": ""}
    machine = Machine(home, env, platform)
    machine.file(client).parent.mkdir(parents=True)
    for sign in client.signs[:1]:
        machine.path(sign).mkdir(parents=True, exist_ok=True)
    if client.form == "yaml" or not client.signs:
        machine.file(client).write_text("")
    new = not machine.file(client).exists()

    assert client in chosen_clients(machine, ())
    assert client.title in unregistered(machine)
    steps = [carry_out(task) for task in client_tasks([client], machine, ("/x/kbhub", "serve"), remove=False)]
    assert [step.state for step in steps] == ["done"]
    assert os.name == "nt" or not new or machine.file(client).stat().st_mode & 0o777 == 0o600
    (found,) = (one for one in registrations(machine) if one.client == client)
    assert (found.entry.argv, found.entry.enabled) == (("/x/kbhub", "serve"), True)
    assert client.title not in unregistered(machine)
    steps = [carry_out(task) for task in client_tasks([client], machine, ("/x/kbhub", "serve"), remove=True)]
    assert [step.state for step in steps] == ["done"]
    assert new != machine.file(client).exists()


def installed(prefix: Path, *, isolated=True, origin="", script=True) -> Installation:
    """An environment with kbhub in it."""
    (prefix / "bin").mkdir(parents=True)
    if script:
        (prefix / "bin" / "kbhub").write_text("#!/bin/sh\n")
        (prefix / "bin" / "kbhub").chmod(0o755)
    return Installation(prefix, prefix / "bin" / "python", prefix / "bin", isolated, origin)


def linked(link: Path, target: Path) -> Path:
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(target)
    return link


def runner(folder: Path, name: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / name
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    return program


@pytest.mark.skipif(os.name == "nt", reason="links and modes of POSIX")
class TestLaunching:
    """What is registered outlives the next upgrade."""

    @pytest.mark.parametrize("receipt", ["uv-receipt.toml", "pipx_metadata.json"])
    @pytest.mark.parametrize("own", [True, False])
    def test_a_tool_is_started_by_its_launcher(self, tmp_path, receipt, own):
        """The link beside which uv and pipx put newer versions, on the search path or not; no other environment's."""
        found, other = installed(tmp_path / "tools" / "kbhub"), installed(tmp_path / "other")
        (found.prefix / receipt).write_text("")
        link = linked(tmp_path / ".local" / "bin" / "kbhub", (found if own else other).scripts / "kbhub")
        started = launch(found, Machine(tmp_path, {}, "linux"))
        assert started.argv == (str(link if own else found.scripts / "kbhub"),)
        assert started.note == ""

    def test_the_launcher_of_a_tool_on_windows_is_no_link_and_uvx_is_found_through_uv(self, tmp_path):
        found = installed(tmp_path / "tools" / "kbhub")
        (found.prefix / "uv-receipt.toml").write_text("")
        launcher = runner(tmp_path / "bin", "kbhub.exe")
        env = {"UV_TOOL_BIN_DIR": str(launcher.parent)}
        assert launch(found, Machine(tmp_path, env, "win32")).argv == (str(launcher),)
        found = installed(tmp_path / "cache" / "environments-v2" / "kbhub-1")
        uv = runner(tmp_path / "opt", "uv")
        env = {"UV": str(uv), "UV_CACHE_DIR": str(tmp_path / "cache")}
        assert launch(found, Machine(tmp_path, env, "linux")).argv == (str(uv), "tool", "run", "kbhub")

    def test_a_versioned_folder_is_started_by_its_link_an_environment_by_its_script_or_module(self, tmp_path):
        found = installed(tmp_path / "Cellar" / "kbhub" / "1.2" / "libexec")
        link = linked(tmp_path / "brew" / "bin" / "kbhub", found.scripts / "kbhub")
        assert launch(found, Machine(tmp_path, {"PATH": str(link.parent)}, "darwin")).argv == (str(link),)
        found = installed(tmp_path / "proj" / ".venv")
        started = launch(found, Machine(tmp_path, {}, "linux"))
        assert started.argv == (str(found.scripts / "kbhub"),)
        assert "uv tool install kbhub" in started.note
        found = installed(tmp_path / "env", isolated=False, script=False)
        assert launch(found, Machine(tmp_path, {}, "linux")).argv == (str(found.executable), "-P", "-m", "kbhub")

    @pytest.mark.parametrize(
        ("origin", "more"), [("", ()), ("git+https://git.test/kbhub", ("--from", "git+https://git.test/kbhub"))]
    )
    def test_uvx_is_registered_as_uvx(self, tmp_path, origin, more):
        found = installed(tmp_path / ".cache" / "uv" / "archive-v0" / "Xy12", origin=origin)
        uvx = runner(tmp_path / "bin", "uvx")
        started = launch(found, Machine(tmp_path, {"PATH": str(uvx.parent)}, "linux"))
        assert started.argv == (str(uvx), *more, "kbhub")
