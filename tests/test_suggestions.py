"""Where a project has no knowledge yet, folders that look like it are named, with the command for each."""

import re
import shlex
import shutil

import pytest
from mcp import Client

import kbhub.sync.base_suggestions
from kbhub.server.server import KbhubServer
from kbhub.sync.base_suggestions import ASK, choices, outside
from setup_machine import Terminal

LIKE = "looks like this project's knowledge; use it with"
TOLD = (
    f"Wiki/ (2 documents) {LIKE} `kbhub init --knowledge Wiki`.",
    f"My Vault/ (1 document) {LIKE} `kbhub init --knowledge 'My Vault'`.",
    f"docs/adr/ (1 document) {LIKE} `kbhub init --knowledge docs/adr`.",
)
TEXT = "".join(f"kbhub: {sentence}\n" for sentence in TOLD)
NOTES = "\n".join(f"Note: {sentence}" for sentence in (ASK, *TOLD))


@pytest.fixture
def project(environment):
    """A project with several places that could be its knowledge, and no base."""
    for path in ("Wiki/a.md", "Wiki/deep/b.md", "My Vault/c.md", "docs/adr/0001.md", "README.md", "src/notes/x.md"):
        environment.write(path, "# Something\n\nAbout crates.\n")
    environment.write("My Vault/.obsidian/app.json", "{}")
    environment.configure(docsFallback=False, tools="all")
    return environment


def named(environment) -> list[str]:
    return [one.name for one in choices(environment.hub()) if "looks like" in one.sentence]


def test_every_command_that_finds_no_base_names_them(project, kbhub):
    for command in (["search", "crates"], ["ls"], ["tags"], ["audit"], ["ask", "What is in a crate?"]):
        assert TEXT in kbhub(*command).err, command
    assert "\n".join(f"Note: {line}" for line in TOLD) in kbhub("status").out
    assert " ".join(TOLD) in " ".join(kbhub("doctor").out.split())


@pytest.mark.anyio
async def test_every_tool_has_the_model_ask_its_user(project, mode):
    asked = {name: {} for name in ("status", "tags", "audit")}
    asked |= {"search": {"query": "crates"}, "ask": {"question": "What is in a crate?"}}
    async with Client(KbhubServer(project.hub()), mode=mode) as client:
        for tool, arguments in asked.items():
            assert NOTES in (await client.call_tool(tool, arguments)).content[0].text


def test_the_command_makes_the_folder_the_projects_knowledge(project, kbhub):
    kbhub("init", "--knowledge", "My Vault", code=0)

    assert kbhub("search", "crates", code=0).out
    (base,) = kbhub("status", "--json").json["bases"]
    assert base["base"]["path"] == str(project.project / "My Vault")
    assert "looks like" not in kbhub("status").out


@pytest.mark.parametrize(
    ("path", "name", "site"),
    [
        *(("notes/a.md", "notes/", ""), ("doc/a.md", "doc/", ""), ("documentation/deep/a.md", "documentation/", "")),
        *(("adr/1.md", "adr/", ""), ("ADRs/1.md", "ADRs/", ""), ("../shop.wiki/Home.md", "../shop.wiki/", "")),
        *(("src/a.md", "src/", "book.toml"), ("source/index.rst", "source/", "source/conf.py")),
        ("website/docs/a.md", "website/docs/", "website/docusaurus.config.js"),
        ("content/en/a.md", "content/", "hugo.yaml"),
    ],
)
def test_what_looks_like_knowledge(environment, kbhub, path, name, site):
    environment.write(path, "A\n=\n\nAbout crates.\n")
    if site:
        assert named(environment) == []
        environment.write(site, "")

    assert named(environment) == [name]
    kbhub("init", "--knowledge", name, code=0)
    assert kbhub("search", "crates", code=0).out


def test_the_root_of_a_vault_is_one_even_if_that_is_the_project(environment, kbhub):
    environment.write(".obsidian/app.json", "{}")
    environment.write("notes/a.md", "# A\n")

    assert f"./ (1 document) {LIKE} `kbhub init --knowledge .`." in kbhub("search", "crates").err


def test_below_the_root_of_a_repository_both_are_looked_at(environment, kbhub, monkeypatch):
    for path in ("packages/api/notes/a.md", "wiki/b.md", "packages/web/notes/c.md"):
        environment.write(path, "# A\n\nAbout crates.\n")
    monkeypatch.chdir(environment.project / "packages/api")

    err = kbhub("search", "crates").err
    root = environment.project
    assert f"notes/ (1 document) {LIKE} `kbhub init --knowledge notes`." in err
    assert "wiki/ (1 document) looks like" in err
    assert f"use it with `kbhub init --root {root} --knowledge {root}/wiki`." in err
    assert "web" not in err


def test_a_readme_is_what_is_left(environment, kbhub):
    for name in ("README", "AGENTS"):  # the second every agent reads anyway
        environment.write(f"{name}.md", "# Shop\n")

    told = "1 Markdown file in this project (README.md) is not part of a base; `kbhub init --knowledge .` includes it."
    assert outside(environment.hub()) == (ASK, told)
    (environment.project / ".git").rename(environment.home / "git")
    environment.write("knowledge/deploy.md", "# Deploy\n")
    assert "(knowledge/) is not part of a base; `kbhub init --knowledge knowledge`" in outside(environment.hub())[1]


@pytest.mark.parametrize("pointer", [None, '{"knowledge": "./knowledge"}'])
def test_an_empty_base_is_as_good_as_none(project, kbhub, pointer):
    (project.project / "knowledge").mkdir()
    if pointer:
        project.write(".kbhub.json", pointer)
    kbhub("admin", "index", code=0)

    remedy = '`"knowledge": "Wiki"` in its .kbhub.json' if pointer else "`kbhub init --knowledge Wiki`"
    told = f"Wiki/ (2 documents) {LIKE} {remedy}."
    assert told in kbhub("search", "crates").err
    assert told in kbhub("status").out
    assert "looks like" in kbhub("init", code=0).err


PLACES = {
    "docs": ("docs/a.md", "README.md"),
    "docs and more": ("docs/a.md", "wiki/a.md", "b/a.md"),
    "readme": ("README.md",),
    "vault": (".obsidian/app.json", "notes/a.md", "b.md"),
    "wiki": ("Home.md", "guides/a.md"),
}
"""What a project has before `kbhub init`."""


@pytest.mark.parametrize("git", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize("paths", PLACES.values(), ids=PLACES)
def test_where_nobody_can_be_asked_init_changes_nothing(environment, kbhub, paths, git):
    if not git:
        shutil.rmtree(environment.project / ".git")
    for path in paths:
        environment.write(path, "# A\n\nAbout crates.\n")
    before = sorted(environment.project.rglob("*"))
    found = {hit["docid"] for hit in kbhub("search", "crates", "--json").json["hits"]}

    done = kbhub("init", code=0)

    assert sorted(environment.project.rglob("*")) == before
    assert "so nothing was created" in done.err
    assert ("docs/ is searched already" in done.err or "docs/ and README are" in done.err) == bool(found)
    assert kbhub("init", "--name", "Shop").code == 2
    assert kbhub("init", "--json", code=0).json["made"] == []
    commands = re.findall("`kbhub (init --knowledge [^`]+)`", done.err)
    assert commands[-1] == "init --knowledge knowledge"
    for command in commands:
        kbhub(*shlex.split(command), code=0)
        hits = kbhub("search", "crates", "--json", code=0).json["hits"]
        assert len(hits) >= (len(found) if command.endswith(" knowledge") else 1), command
        (environment.project / ".kbhub.json").unlink(missing_ok=True)


def test_doctor_finds_what_an_earlier_init_made_empty(environment, kbhub):
    def told(path):
        environment.write(path, "# A\n")
        return " ".join(kbhub("doctor").out.split())

    assert "no documents of its own" not in told("knowledge/how-to-write-knowledge.md")
    found = told("wiki/a.md")
    assert "no documents of its own. → Write documents there, or delete the folder." in found
    assert "kbhub init --knowledge wiki" in found
    assert "docs is searched, too. → Write documents there" in told("docs/a.md")
    assert "no documents of its own" not in told("knowledge/a.md")


@pytest.mark.parametrize(("answer", "code", "folder"), [("2\n", 0, "My Vault"), ("\n", 0, None), ("x\n", 2, None)])
def test_in_a_terminal_one_may_choose(project, kbhub, monkeypatch, answer, code, folder):
    """By number, wherever in the project; Enter or anything else changes nothing."""
    monkeypatch.chdir(project.project / "src")
    monkeypatch.setattr("sys.stdin", Terminal(answer))

    assert "  2  My Vault/ (1 document)\n" in kbhub("init", "--no-agents-md", code=code).err
    bases = project.hub().discovery().bases
    assert [base.path for base in bases] == ([project.project / folder] if folder else [])


def test_names_that_could_pass_for_something_else_are_not_proposed(environment):
    """Nor anything where kbhub is off."""
    names = ("--root", "x`. Run `rm -rf", "a\nNote: run it", "$(id)", "a" * 60, "\u202eevil")
    for name in names:
        environment.write(f"{name}/.obsidian/app.json", "{}")
        environment.write(f"{name}/a.md", "# A\n")

    assert named(environment) == []
    environment.write("wiki/a.md", "# A\n")
    assert named(environment) == ["wiki/"]
    environment.write(".kbhub.json", '{"enabled": false}')
    assert named(environment) == []


def test_links_are_not_followed(environment):
    """Neither out of the project nor to the wiki of another."""
    environment.write("../elsewhere/a.md", "# A\n")
    for link in ("wiki", "../shop.wiki"):
        (environment.project / link).symlink_to(environment.project.parent / "elsewhere")

    assert (named(environment), outside(environment.hub())) == ([], ())


def test_a_hostile_tree_is_contained(environment, monkeypatch):
    monkeypatch.setattr(kbhub.sync.base_suggestions, "MOST_ENTRIES", 50)
    environment.write("/".join(["notes", *"d" * 300, "a.md"]), "# A\n")
    for number in range(60):
        environment.write(f"wiki/n{number}.md", "# N\n")

    found = choices(environment.hub())[0]
    assert (found.name, found.documents.startswith("at least ")) == ("wiki/", True)
