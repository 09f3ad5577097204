"""What catalogues and clients install kbhub by agrees with kbhub: plugins, `server.json`, the bundle, links, images."""

import base64
import hashlib
import io
import json
import os
import re
import shlex
import sys
import tarfile
import tomllib
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
import yaml
from mcp import Client, StdioServerParameters

import daemons
import formula
import links
import stores
from kbhub import __version__
from kbhub.cli.app import app
from kbhub.hooks.events import CLIENTS as HOOK_CLIENTS
from kbhub.setup.clients import Machine, client_named
from kbhub.setup.instructions import SKILL
from kbhub.setup.plan import carry_out
from kbhub.setup.registration import client_tasks
from kbhub.workspace.config import parse_jsonc
from kbhub.workspace.tool_names import ALL
from test_workflows import fit_schema

ROOT = Path(__file__).parent.parent
PLUGINS = ROOT / "plugins"
MANIFESTS = [
    ROOT / "server.json", *sorted(ROOT.glob(".*/**/marketplace.json")), *sorted(PLUGINS.rglob("plugin.json")),
    PLUGINS / "gemini-cli" / "gemini-extension.json", PLUGINS / "bundle" / "manifest.json",
]  # fmt: skip


def data_of(path):
    return json.loads(path.read_text("utf-8"))


def values(data, key):
    if isinstance(data, dict):
        return [*([data[key]] if key in data else []), *values([*data.values()], key)]
    return [found for value in data for found in values(value, key)] if isinstance(data, list) else []


def test_the_files_are_those_of_the_script_and_all_versions_the_packages():
    made = stores.files()
    pages = {"README.md", "claude-code/README.md"}
    there = {path.relative_to(PLUGINS).as_posix() for path in PLUGINS.rglob("*") if path.is_file()}
    found = {path.relative_to(ROOT).as_posix(): values(data_of(path), "version") for path in MANIFESTS}
    project = tomllib.loads((PLUGINS / "bundle" / "pyproject.toml").read_text("utf-8"))["project"]
    assert {path for path in there - pages if f"plugins/{path}" not in made and "__pycache__" not in path} == set()
    assert len(MANIFESTS) == 9
    assert {version for versions in found.values() for version in versions} == {__version__}
    assert sum(map(len, found.values())) >= 7
    assert (project["version"], project["dependencies"]) == (__version__, [f"kbhub=={__version__}"])


@pytest.mark.parametrize("name", [name for name in HOOK_CLIENTS if (PLUGINS / name).is_dir()])
def test_a_plugin_has_the_skill_the_server_and_the_hooks_of_setup(account, name):
    account.run("--yes", "--hooks", "--client", name)
    plugin = PLUGINS / name
    (hooks,) = plugin.rglob("hooks.json")
    written = {
        "claude-code": ".claude/settings.json", "codex": ".codex/hooks.json",
        "copilot-cli": ".copilot/hooks/kbhub.json", "gemini-cli": ".gemini/settings.json",
    }[name]  # fmt: skip
    ours, theirs = data_of(hooks)["hooks"], data_of(account.home / written)["hooks"]
    commands = [line for key in ("command", "bash") for line in values(ours, key)]

    assert (plugin / "skills" / "kbhub" / "SKILL.md").read_bytes() == SKILL.read_bytes()
    assert (ours.keys(), values(ours, "matcher")) == (theirs.keys(), values(theirs, "matcher"))
    assert len(commands) == len(theirs)
    for line in commands:
        program, *arguments = shlex.split(line)
        _, bound, _ = app.parse_args(arguments, exit_on_error=False, print_error=False)
        assert (program, bound.kwargs["client"]) == ("kbhub", name)


@pytest.mark.parametrize("file", sorted(PLUGINS.rglob(".mcp.json")), ids=lambda file: file.parent.name)
def test_a_plugins_server_is_that_of_a_projects_file(account, file):
    account.run("--project", "--yes", "--client", "claude-code")
    entry, shared = (data_of(one)["mcpServers"]["kbhub"] for one in (file, account.project / ".mcp.json"))
    named = {"claude-code": {"alwaysLoad"}, "copilot-cli": {"deferTools"}}.get(file.parent.name, set())
    assert entry == {key: value for key, value in shared.items() if key in {"command", "args", *named}}


def test_the_marketplaces_lead_to_the_plugins_and_the_readme_proves_that_package_and_entry_have_one_owner():
    for catalogue, manifest in {
        ".claude-plugin": ".claude-plugin/plugin.json",
        ".agents/plugins": ".codex-plugin/plugin.json",
        ".github/plugin": "plugin.json",
    }.items():
        (entry,) = data_of(ROOT / catalogue / "marketplace.json")["plugins"]
        source = entry["source"] if isinstance(entry["source"], str) else entry["source"]["path"]
        assert data_of(ROOT / source / manifest)["name"] == entry["name"] == "kbhub"

    entry = data_of(ROOT / "server.json")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    (package,) = entry["packages"]

    assert project["readme"] == "README.md"
    assert f"mcp-name: {entry['name']} " in (ROOT / "README.md").read_text("utf-8")
    assert package["identifier"] == project["name"]


def test_the_commands_name_tools_that_there_are():
    pages = sorted(PLUGINS.glob("*/commands/**/*.*"))
    assert len(pages) == 9
    for page in pages:
        text = page.read_text("utf-8")
        assert set(re.findall(r"`([a-z_]+)`", text)) <= {*ALL, "kbhub"}, page.name
        if page.suffix == ".toml":
            assert "{{args}}" in tomllib.loads(text)["prompt"]
        else:
            _, head, body = text.split("---\n", 2)
            assert yaml.safe_load(head)["description"]
            assert "$ARGUMENTS" in body


def test_the_registrys_entry_starts_a_server(environment, kbhub, monkeypatch):
    environment.write("notes/rollback.md", "# Rollback")
    (package,) = data_of(ROOT / "server.json")["packages"]
    (variable,) = package["environmentVariables"]
    monkeypatch.setenv(variable["name"], f"notes={environment.project / 'notes'}")
    assert [argument["value"] for argument in package["packageArguments"]] == ["serve", "--connect"]
    assert "notes@rollback.md" in kbhub("search", "rollback").out


def decoded(client):
    """Give the name and the entry that a client takes from its link."""
    parts = urlsplit(links.link(client))
    asked = parse_qs(parts.query)
    if client in ("cursor", "lm-studio"):
        return asked["name"][0], json.loads(base64.b64decode(asked["config"][0], validate=True))
    scheme, _, rest = asked["url"][0].partition(":")
    assert (scheme, rest.partition("?")[0]) == (client, "mcp/install")
    entry = json.loads(unquote(rest.partition("?")[2]))
    return entry.pop("name"), entry


@pytest.mark.parametrize("client", links.LINKED)
def test_a_link_registers_what_setup_would(account, client):
    machine = Machine(account.home, account.env, "linux")
    (task,) = client_tasks([client_named(client)], machine, links.LAUNCH, remove=False)
    step = carry_out(task)
    written = parse_jsonc(step.file.read_text("utf-8"), step.file)[client_named(client).keys[0]]
    assert step.state == "done"
    assert decoded(client) == next(iter(written.items()))


@pytest.mark.parametrize("page", ["README.md", "docs/how-to/install.md"])
def test_a_page_has_every_link_with_its_button(page):
    """A button is a picture beside the page, so that nothing is fetched from elsewhere."""
    text = (ROOT / page).read_text("utf-8")
    for client in links.LINKED:
        assert f"]({links.link(client)})" in text
        assert f"assets/add-to-{client}.svg" in text


@pytest.mark.anyio
async def test_the_bundle_searches_the_folder_that_was_chosen(environment):
    environment.write("notes/rollback.md", "# Rollback\n\nRedeploy the tag before.\n")
    manifest = data_of(PLUGINS / "bundle" / "manifest.json")
    launch = manifest["server"]["mcp_config"]
    chosen = {"${__dirname}": str(PLUGINS / "bundle"), "${user_config.notes}": str(environment.project / "notes")}
    line = [re.sub(r"\$\{.*?\}", lambda match: chosen[match[0]], part) for part in launch["args"]]
    assert [launch["command"], *line[:3]] == ["uv", "run", "--directory", str(PLUGINS / "bundle")]
    assert line[3] == manifest["server"]["entry_point"]
    server = StdioServerParameters(
        command=sys.executable,
        args=[str(PLUGINS / "bundle" / line[3]), *line[4:]],
        env={**environment.env, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=environment.home,
    )
    async with Client(server) as client:
        found = await client.call_tool("search", {"query": "roll back"})
    assert daemons.launch.stop(daemons.folder_of(environment)).stopped
    assert "notes@rollback.md" in found.content[0].text


def instructions():
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text("utf-8"), flags=re.MULTILINE)
    return [line.split(" ", 1) for line in text.splitlines() if line]


def test_the_image_is_built_of_files_that_there_are_and_the_services_of_compose_are_what_they_should_be():
    copied = [line.split()[:-1] for name, line in instructions() if name == "COPY" and "--from" not in line]
    paths = {path.removeprefix("./") for line in copied for path in line}
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines() if line.startswith("!")}
    built = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert {path for path in paths if not (ROOT / path).exists()} == set()
    assert paths == allowed
    wheel = built["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = {built["project"]["readme"], "LICENSE", "src", *wheel["force-include"], "pyproject.toml"}
    assert needed <= paths

    fit_schema("compose-spec", ROOT / "compose.yaml")
    compose = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))
    for service in compose["services"].values():
        source, target = re.fullmatch(r"(\$\{.*?\}\}):(\$\{.*?\}\}):ro", service["volumes"][0]).groups()
        assert source == target == service["working_dir"]  # its path tells a project's indexes from those of others
        assert "ports" not in service
        app.parse_args(service.get("command", ["serve"]), exit_on_error=False, print_error=False)
    assert compose["services"]["http"]["network_mode"] == "host"


def test_the_image_serves_as_nobody_special_and_keeps_everything_in_its_volume():
    """With a Python that is supported."""
    lines = instructions()
    (user,), (variables,) = ([line for name, line in lines if name == wanted] for wanted in ("USER", "ENV"))
    images = {line.split()[0] for name, line in lines if name == "FROM"}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    places = dict(part.split("=", 1) for part in variables.split() if part.startswith("KBHUB_"))
    assert user not in ("root", "0")
    assert images == {f"python:{formula.PYTHON}-slim"}
    assert f"Programming Language :: Python :: {formula.PYTHON}" in project["classifiers"]
    started = [json.loads(line) for name, line in lines if name in ("ENTRYPOINT", "CMD")]
    assert started == [["kbhub"], ["serve"]]
    assert places == {"KBHUB_CACHE_DIR": "/data/cache", "KBHUB_DATA_DIR": "/data/data"}


def test_the_formula_names_the_files_of_a_release_and_their_digests(tmp_path):
    (tmp_path / "kbhub-1.2.3-py3-none-any.whl").write_bytes(b"wheel")
    file = tmp_path / "kbhub-1.2.3.tar.gz"
    with tarfile.open(file, "w:gz") as made:
        made.addfile(tarfile.TarInfo("kbhub-1.2.3/requirements.txt"), io.BytesIO())
    text = formula.formula(file, "ada/kbhub")
    for name, data in (("kbhub-1.2.3.tar.gz", file.read_bytes()), ("kbhub-1.2.3-py3-none-any.whl", b"wheel")):
        assert f'url "https://github.com/ada/kbhub/releases/download/v1.2.3/{name}"' in text
        assert f'sha256 "{hashlib.sha256(data).hexdigest()}"' in text
    assert f'depends_on "python@{formula.PYTHON}"' in text
