"""`kbhub init` makes what is missing and points to what is there, which is suggested where nothing is searched yet."""

import os
import re
import shlex
import shutil
import stat

import pytest
from mcp import Client

import kbhub.sync.base_suggestions
from kbhub.errors import ConfigError, UsageError
from kbhub.server.server import KbhubServer
from kbhub.setup.init import STARTER, STARTER_NAME, create_file, make_knowledge, point_to
from kbhub.sync.base_suggestions import ASK, choices, outside
from kbhub.workspace.config import read_jsonc, read_pointer
from setup_machine import Terminal


def make(environment, **options):
    return make_knowledge(environment.hub().discovery(), **options)


def point(environment, knowledge, cwd=None, **options):
    """From below the project, where a folder is named."""
    cwd = environment.project / (cwd or "")
    cwd.mkdir(exist_ok=True)
    hub = environment.hub(cwd=cwd)
    return point_to(hub.discovery(), str(knowledge), trust=hub.trust, home=environment.home, cwd=cwd, **options)


def project_base(environment):
    return next((base for base in environment.hub().discovery().bases if base.id == "project"), None)


def test_a_repository_gets_a_folder_with_a_starter_and_a_name_is_kept_in_a_pointer(environment):
    made = make(environment)
    assert made.made == (environment.project / "knowledge" / STARTER_NAME,)
    assert made.made[0].read_bytes() == STARTER.read_bytes()
    assert sorted(path.name for path in environment.project.iterdir()) == [".git", "knowledge"]
    assert project_base(environment).path == environment.project / "knowledge"
    make(environment, name="Obst & Gemüse")
    pointer, warnings = read_pointer(environment.project / ".kbhub.json")
    assert (pointer.name, pointer.knowledge, warnings) == ("Obst & Gemüse", "./knowledge", ())
    (environment.project / ".kbhub.json").unlink()
    assert make(environment, name="Shop").made == (environment.project / ".kbhub.json",)
    assert project_base(environment).name == "Shop"


def test_outside_a_repository_a_pointer_is_made_too(environment):
    shutil.rmtree(environment.project / ".git")
    made = make(environment)
    assert made.made == (environment.project / "knowledge" / STARTER_NAME, environment.project / ".kbhub.json")
    assert project_base(environment).path == environment.project / "knowledge"
    (environment.project / ".kbhub.json").unlink()  # so that the folder does not count
    assert make(environment).made == (environment.project / ".kbhub.json",)
    assert [path.name for path in (environment.project / "knowledge").iterdir()] == [STARTER_NAME]


def test_knowledge_that_is_there_is_left_alone_and_a_new_folder_says_what_it_replaces(environment):
    environment.write("knowledge/a.md", "# A\n")
    below = environment.project / "src"
    below.mkdir()
    made = make_knowledge(environment.hub(cwd=below).discovery())
    assert made.made == ()
    assert str(environment.project / "knowledge") in made.notes[0]
    assert list(below.iterdir()) == []
    assert [path.name for path in (environment.project / "knowledge").iterdir()] == ["a.md"]
    made = point(environment, "knowledge", "app")
    assert made.made == (environment.project / "app/knowledge" / STARTER_NAME,)
    assert str(environment.project / "knowledge") in made.notes[0]
    assert str(environment.project / "knowledge") in point(environment, environment.home, "web").notes[0]


@pytest.mark.parametrize("folder", ["knowledge", "wiki"])
def test_docs_is_not_hidden_by_a_folder_that_is_asked_for(environment, folder):
    environment.write("docs/a.md", "# A\n")
    environment.write("wiki/b.md", "# B\n")
    made = point(environment, folder)
    project, docs = environment.hub().discovery().bases
    assert (project.path, docs.id, docs.only) == (environment.project / folder, "docs", ("docs",))
    assert made.notes == (
        f'{environment.project / "docs"} is still searched, too; `"docsFallback": false` in .kbhub.json ends that.',
    )


def test_a_part_of_docs_replaces_it_and_says_so(environment):
    environment.write("docs/adr/a.md", "# A\n")
    made = point(environment, "docs/adr")
    assert [base.path for base in environment.hub().discovery().bases] == [environment.project / "docs/adr"]
    assert made.notes == (f"This replaces {environment.project / 'docs'}, which was searched until now.",)


@pytest.mark.parametrize("name", [".kbhub.json", ".knowledge.json"])
@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"enabled": false}', 'says "enabled": false'), ("{broken", "line 1"),
        ('{"knowledge": "/"}', "kbhub base trust"), ('{"knowledge": "gone"}', "not a directory"),
    ],
)  # fmt: skip
def test_a_pointer_is_never_overwritten_and_why_it_cannot_be_used_is_said(environment, content, said, name):
    pointer = environment.write(name, content)
    with pytest.raises(UsageError, match=f"(?s)(?=.*{pointer}).*{said}"):
        make(environment)
    with pytest.raises(UsageError, match=str(pointer)):
        point(environment, environment.home)
    assert pointer.read_text() == content
    assert sorted(path.name for path in environment.project.iterdir()) == [".git", name]


@pytest.mark.parametrize("folder", ["docs", "../../home/notes"])
def test_a_pointer_to_the_same_folder_again_changes_nothing(environment, folder):
    (environment.project / "docs").mkdir()
    (environment.home / "notes").mkdir()
    point(environment, folder, name="Shop")
    text, grants = (environment.project / ".kbhub.json").read_text("utf-8"), environment.hub().trust.entries()
    for again in (point(environment, folder), point(environment, folder, name="Shop")):
        assert (again.made, again.trusted) == ((), False)
        assert again.notes == (f"This project already has its knowledge in {again.knowledge}; nothing had to change.",)
    assert point(environment, environment.project / folder, "src").made == ()
    assert (environment.project / ".kbhub.json").read_text("utf-8") == text
    assert environment.hub().trust.entries() == grants
    assert list((environment.project / "src").iterdir()) == []


def test_a_pointer_that_came_with_a_clone_is_trusted_for_the_folder_that_the_user_names(environment):
    """The folder is the one that the pointer names, so the user's word for it is all that is missing."""
    notes = environment.home / "notes"
    notes.mkdir()
    environment.write(".kbhub.json", '{"knowledge": "../../home/notes", "cacheDir": "../../home"}')
    made = point(environment, notes)
    assert (made.made, made.trusted) == ((), True)
    assert project_base(environment).path == notes
    assert [grant.use for grant in environment.hub().trust.entries()] == ["knowledge"], "they did not name the other"


def test_a_pointer_to_another_folder_is_refused_with_the_next_step(environment):
    (environment.project / "docs").mkdir()
    (environment.project / "wiki").mkdir()
    point(environment, "docs")
    with pytest.raises(UsageError) as refused:
        point(environment, "wiki")
    pointer, project = environment.project / ".kbhub.json", environment.project
    assert str(refused.value) == (
        f"{pointer} says that this project's knowledge is in {project / 'docs'}, and was left unchanged. To use "
        f'{project / "wiki"}, set "knowledge" there to "./wiki", or remove the file and run this command again.'
    )


@pytest.mark.parametrize("action", [make, lambda environment, **options: point(environment, "knowledge", **options)])
def test_another_name_is_not_dropped_silently(environment, action):
    make(environment, name="Shop")
    with pytest.raises(UsageError, match=r'is called "Shop".*set "name" in .*\.kbhub\.json'):
        action(environment, name="Store")
    assert project_base(environment).name == "Shop"


def test_without_a_workspace_there_is_nowhere_to_make_it_and_a_file_in_the_way_is_named(environment):
    hub = environment.hub(cwd=environment.home)
    with pytest.raises(UsageError, match="--root"):
        make_knowledge(hub.discovery())
    assert list(environment.home.iterdir()) == []
    file = environment.write("knowledge", "mine")
    with pytest.raises(UsageError, match=str(file)):
        make(environment)
    assert file.read_text() == "mine"


@pytest.mark.parametrize(("name", "target"), [("knowledge", "gone"), ("knowledge", "."), (".kbhub.json", "gone")])
def test_a_link_is_not_followed(environment, name, target):
    (environment.project / name).symlink_to(environment.home / target)
    for options in ({}, {"name": "x"}):
        with pytest.raises(UsageError, match=r"is a symlink|is a link to"):
            make(environment, **options)
    assert list(environment.home.iterdir()) == []


@pytest.mark.parametrize(
    ("folder", "named", "trusted"), [("docs", "./docs", False), ("../other", "../other", True), ("~/notes", None, True)]
)
def test_a_pointer_out_of_the_project_is_trusted_where_the_user_named_it(environment, folder, named, trusted):
    """The user named the folder, so no second command is needed; it is read-only all the same."""
    with pytest.raises(UsageError, match="is not a directory"):
        point(environment, folder)
    assert not (environment.project / ".kbhub.json").exists()
    target = environment.home / "notes" if named is None else (environment.project / folder).resolve()
    target.mkdir()
    assert point(environment, folder, name="Notes").trusted is trusted
    pointer = read_jsonc(environment.project / ".kbhub.json")
    assert pointer == {"knowledge": named or "../../home/notes", "name": "Notes"}
    base = project_base(environment)
    assert (base.path, base.writable) == (target, not trusted)
    assert len(environment.hub().trust.entries()) == trusted


def test_a_broken_trust_store_stops_before_anything_is_written(environment):
    store = environment.hub().trust.path
    store.parent.mkdir(parents=True)
    store.write_text("{broken")
    with pytest.raises(ConfigError, match="trust store"):
        point(environment, environment.home)
    assert not (environment.project / ".kbhub.json").exists()


@pytest.mark.skipif(os.name == "nt", reason="Windows has no umask")
def test_files_are_shared_as_the_user_shares_files_and_made_once(environment):
    """A pointer that only its author could read would be no use in a team."""
    before = os.umask(0o022)
    try:
        file = create_file(environment.project / "a.md", "text\n")
    finally:
        os.umask(before)
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    with pytest.raises(UsageError, match="already exists"):
        create_file(file, "second\n")
    assert file.read_text() == "text\n"
    assert sorted(path.name for path in environment.project.iterdir()) == [".git", "a.md"]


def test_a_pointer_to_the_project_itself_is_a_dot(environment):
    """Not `./.`; and read-only, as `docs/` would be, until the user allows writing."""
    made = point(environment, environment.project)
    assert read_jsonc(made.made[0]) == {"knowledge": ".", "readOnly": True}
    assert "kbhub base trust --writable" in made.notes[0]
    base = project_base(environment)
    assert (base.path, base.writable) == (environment.project, False)
    made.made[0].unlink()
    environment.write("knowledge/a.md", "# A\n")
    assert read_jsonc(point(environment, environment.project).made[0]) == {"knowledge": "."}
    assert project_base(environment).writable  # as its knowledge was


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


@pytest.mark.parametrize(
    ("path", "name", "site"),
    [
        *(("notes/a.md", "notes/", ""), ("doc/a.md", "doc/", ""), ("documentation/deep/a.md", "documentation/", "")),
        *(("adr/1.md", "adr/", ""), ("ADRs/1.md", "ADRs/", ""), ("../shop.wiki/Home.md", "../shop.wiki/", "")),
        *(("src/a.md", "src/", "book.toml"), ("source/index.rst", "source/", "source/conf.py")),
        ("website/docs/a.md", "website/docs/", "website/docusaurus.config.js"),
        *(("content/en/a.md", "content/", "hugo.yaml"), ("handbook/a.md", "handbook/", "mkdocs.yml")),
        *(("guide/a.md", "guide/", "website/docusaurus.config.ts"), ("b/a.md", "./", ".obsidian/app.json")),
        ("b/a.md", "./", "book.toml"),
    ],
)
def test_what_looks_like_knowledge(environment, kbhub, path, name, site):
    environment.write(path, "A\n=\n\nAbout crates.\n")
    if site:
        assert named(environment) == []
        paths = "docs: {path: '../guide'}, blog: {path: '../../../home'}\npath: /etc"
        environment.write(site, "src = '.'\n" if name == "./" else f"docs_dir: handbook\n {paths}\n")
    assert named(environment) == [name]
    kbhub("init", "--knowledge", name, code=0)
    assert kbhub("search", "crates", code=0).out
    assert "looks like" not in kbhub("status").out


def test_a_readme_is_what_is_left(environment, kbhub):
    for name in ("README", "AGENTS"):  # the second every agent reads anyway
        environment.write(f"{name}.md", "# Shop\n")
    told = "1 document in this project (README.md) is not part of a base; `kbhub init --knowledge .` includes it."
    assert outside(environment.hub()) == (ASK, told)
    (environment.project / ".git").rename(environment.home / "git")
    environment.write("knowledge/deploy.md", "# Deploy\n")
    assert "(knowledge/) is not part of a base; `kbhub init --knowledge knowledge`" in outside(environment.hub())[1]


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
    assert "so no knowledge was created" in done.err
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
