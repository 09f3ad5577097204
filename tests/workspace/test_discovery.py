"""Which bases are active in a directory: one test for each rule of discovery and trust."""

import json
import os
import shutil
from pathlib import Path, PurePosixPath, PureWindowsPath

import pytest

from kbhub.errors import ConfigError, UsageError
from kbhub.workspace.config import load_config, parse_base_arguments
from kbhub.workspace.discovery import discover, find_workspace, path_of_uri, workspace_from_roots
from kbhub.workspace.project import TrustStore, owned_by_user, trust_pointer
from repositories import add_worktree


class Place:
    """A file system of its own: a home directory, work outside it, and a trust store."""

    def __init__(self, folder: Path) -> None:
        self.top = Path(os.path.realpath(folder))
        self.home = self.folder("home")
        self.work = self.folder("work")
        self.trust_store = TrustStore(self.top / "data" / "trust.json")
        self.env: dict[str, str] = {}

    def folder(self, path) -> Path:
        made = self.top / path
        made.mkdir(parents=True, exist_ok=True)
        return made

    def knowledge(self, path) -> Path:
        made = self.folder(path)
        (made / "a.md").write_text("# A\n")
        return made

    def repository(self, path, *knowledge) -> Path:
        """Folders of knowledge lie in it, or beside it."""
        self.folder(f"{path}/.git")
        for name in knowledge:
            self.knowledge(os.path.normpath(f"{path}/{name}"))
        return self.top / path

    def app(self, *knowledge) -> Path:
        return self.repository("work/app", *knowledge)

    def pointer(self, path, data, name=".kbhub.json") -> Path:
        file = self.folder(path) / name
        file.write_text(data if isinstance(data, str) else json.dumps(data))
        return file

    def config(self, bases=None, repos=None, **more) -> None:
        """Bases of which only the ids are given have a folder each, below home."""
        if isinstance(bases, str):
            bases = {name: f"~/{name}" for name in bases.split() if self.knowledge(f"home/{name}")}
        data = {"bases": bases or {}, "repos": repos or {}, **more}
        (self.home / ".kbhub.json").write_text(json.dumps(data))

    def trust(self, path, *, writable=False):
        return trust_pointer(path, self.trust_store, writable=writable, home=self.home)

    def workspace(self, cwd, root=None, *, serve=False):
        return find_workspace(root=root, env=self.env, cwd=cwd, home=self.home, serve=serve)

    def discover(self, cwd, **more):
        config = load_config(None, self.env, self.home)
        given = {"named": {}, "env": self.env, "home": self.home, **more}
        return discover(self.workspace(cwd), config, self.trust_store, **given)

    def ids(self, cwd, **more) -> list[str]:
        return [base.id for base in self.discover(cwd, **more).bases]

    def project(self, cwd):
        """The project base, which must be there without a problem."""
        found = self.discover(cwd)
        assert found.problems == ()
        assert found.bases[0].id == "project"
        return found.bases[0]

    def problem(self, cwd) -> str:
        """The only problem, which leaves no project base."""
        found = self.discover(cwd)
        assert "project" not in [base.id for base in found.bases]
        (problem,) = found.problems
        return problem.message

    def nothing(self, cwd, **more) -> None:
        found = self.discover(cwd, **more)
        assert (found.bases, found.problems) == ((), ())


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


@pytest.mark.parametrize(
    ("root", "variables", "serve", "chosen", "source"),
    [
        ("a", ["KBHUB_ROOT", "CLAUDE_PROJECT_DIR"], True, "a", "--root"),
        (None, ["KBHUB_ROOT", "CLAUDE_PROJECT_DIR"], True, "KBHUB_ROOT", "KBHUB_ROOT"),
        (None, ["CLAUDE_PROJECT_DIR"], True, "CLAUDE_PROJECT_DIR", "CLAUDE_PROJECT_DIR"),
        (None, ["CLAUDE_PROJECT_DIR"], False, ".", "the working directory"),
        ("~/b", [], False, "../home/b", "--root"),
        ("~", [], False, "../home", "--root"),
    ],
)
def test_what_names_the_workspace(place, root, variables, serve, chosen, source):
    place.env = {name: str(place.folder(f"work/{name}")) for name in variables}
    place.folder("work/a")
    place.folder("home/b")
    found = place.workspace(place.work, root=root, serve=serve)
    assert (found.directory, found.source) == ((place.work / chosen).resolve(), source)


@pytest.mark.parametrize("value", ["", "relative", "/no/such/directory", "a\0b"])
def test_a_wrong_variable_of_the_client_is_passed_over(place, value):
    place.env = {"CLAUDE_PROJECT_DIR": value}
    assert place.workspace(place.work, serve=True).source == "the working directory"


def test_a_linked_working_directory_is_resolved_and_what_names_no_directory_is_an_error(place):
    app = place.app("knowledge")
    link = place.work / "link"
    link.symlink_to(app)
    assert place.workspace(link).directory == app
    assert place.project(link).path == app / "knowledge"
    with pytest.raises(UsageError, match=r"--root .*missing is not a directory"):
        place.workspace(place.work, root="missing")
    place.env = {"KBHUB_ROOT": str(place.work / "missing")}
    with pytest.raises(ConfigError, match=r"^KBHUB_ROOT: "):
        place.workspace(place.work)


@pytest.mark.parametrize(
    "cwd",
    [
        *("/", "home", "work/gone", "uvcache/x", "home/.cache/uv/archive-v0/x", "home/.cache/pip/x"),
        *("home/.local/share/uv/tools/kbhub", "home/.local/pipx/venvs/kbhub", "home/.npm/_npx/1234"),
    ],
)
def test_what_says_nothing_about_a_project_is_no_workspace(place, cwd):
    place.env = {"UV_CACHE_DIR": str(place.top / "uvcache")}
    folder = place.top / cwd if cwd == "work/gone" else place.folder(cwd)
    found = place.workspace(folder)
    assert (found.directory, found.source, found.git_root) == (None, "none", None)
    assert place.workspace(place.folder("home/src/app")).directory == place.home / "src/app"


def test_the_first_root_that_is_a_directory_here_is_the_workspace(place):
    folder = place.repository("work/my app é")
    uris = ["https://example.org/", "file:///no/such", folder.as_uri(), place.home.as_uri()]
    found = workspace_from_roots(uris, home=place.home)
    assert (found.directory, found.source, found.git_root) == (folder, "the client's root", folder)
    for uris in ([], ["not a uri"], ["file://"], ["file://[", "file:///a%00b"]):
        assert workspace_from_roots(uris, home=place.home).directory is None


@pytest.mark.parametrize(
    ("uri", "windows", "path"),
    [
        ("file:///home/u/my%20app", False, PurePosixPath("/home/u/my app")),
        ("file://localhost/x", False, PurePosixPath("/x")),
        ("FILE:///x", False, PurePosixPath("/x")),
        ("file:///a%2525b", False, PurePosixPath("/a%25b")),
        ("file://server/share", False, None),
        ("file:///C:/Users/u/my%20app", True, PureWindowsPath("C:/Users/u/my app")),
        ("file:///c%3A/Users", True, PureWindowsPath("c:/Users")),
        ("file:///D:", True, PureWindowsPath("D:/")),
        ("file://server/share/x", True, PureWindowsPath("//server/share/x")),
        ("http://localhost/x", False, None),
    ],
)
def test_a_root_uri_is_decoded_as_its_system_writes_it(uri, windows, path):
    assert path_of_uri(uri, windows=windows) == path


def test_the_patterns_of_one_directory_are_tried_in_order(place):
    app = place.app("../app.knowledge")
    assert (place.project(app).origin, place.project(app).path) == ("sibling", place.work / "app.knowledge")
    for name in (".knowledge", "knowledge"):
        place.app(name)
        assert (place.project(app).origin, place.project(app).path) == (name, app / name)
    for target, name in (("p2", ".knowledge.json"), ("p1", ".kbhub.json")):
        place.app(target)
        place.pointer("work/app", {"knowledge": target}, name)
        assert (place.project(app).origin, place.project(app).path) == ("pointer", app / target)


@pytest.mark.parametrize(
    ("folders", "pointers", "cwd", "origin", "path"),
    [
        ("k sub.knowledge", {".": {"knowledge": "k"}}, "sub/deep", "sibling", "sub.knowledge"),  # whatever its pattern
        ("knowledge sub/knowledge", {".": {}, "sub": {}}, "sub/x", "pointer", "sub/knowledge"),
        ("knowledge sub/.knowledge", {}, "sub/deep", ".knowledge", "sub/.knowledge"),
    ],
)
def test_the_nearest_directory_wins(place, folders, pointers, cwd, origin, path):
    app = place.app(*folders.split())
    for name, data in pointers.items():
        place.pointer(f"work/app/{name}", data)
    found = place.project(place.folder(f"work/app/{cwd}"))
    assert (found.origin, found.path) == (origin, app / path)


def test_a_folder_called_like_a_pointer_and_a_file_called_like_a_folder_do_not_count(place):
    app = place.app()
    place.folder("work/app/.kbhub.json")
    (app / "knowledge").write_text("a file")
    place.nothing(app)


def test_a_pointer_describes_its_base(place):
    app = place.app("knowledge")
    assert place.project(app).name == "app"
    data = {"name": "My\x1b[31m\n app", "description": "D", "contexts": {"a/": "A\nB"}, "include": ["*.txt"]}
    place.pointer("work/app", {**data, "exclude": ["x"]})
    base = place.project(app)
    assert (base.name, base.description, base.contexts) == ("My [31m app", "D", {"a/": "A B"})
    assert (base.include, base.exclude) == (("*.txt",), ("x",))


def test_above_the_git_root_or_without_one_pointer_and_sibling_count_and_knowledge_folders_do_not(place):
    for name in ("knowledge", ".knowledge"):
        place.knowledge(f"work/outer/{name}")
    place.nothing(place.folder("work/outer"))
    inner = place.repository("work/outer/inner")
    place.nothing(inner)
    assert any("outer/knowledge (ignored outside" in text for text in place.discover(inner).looked_for)

    place.knowledge("work/outer/knowledge")
    pointer = place.pointer("work/outer", {})
    folders = (place.folder("work/outer/plain"), place.repository("work/outer/app"))
    assert [place.project(folder).origin for folder in folders] == ["pointer", "pointer"]
    pointer.unlink()
    place.knowledge("work/outer.knowledge")
    assert [place.project(folder).origin for folder in folders] == ["sibling", "sibling"]


def test_the_home_directory_is_never_a_git_root(place):
    """A repository of dotfiles does not make the user's notes part of every project."""
    place.repository("home", "knowledge", "src/.knowledge", "docs")
    src = place.folder("home/src/plain")
    assert place.workspace(src).git_root is None
    place.nothing(src, named={})
    assert place.project(place.repository("home/src/app", "knowledge")).writable is True


def test_the_global_config_is_never_a_pointer(place):
    """Though the file has a pointer's name, wherever it lies."""
    place.knowledge("home/knowledge")
    place.config()
    below = place.folder("home/src/app")
    place.nothing(below)
    assert str(place.home / ".kbhub.json") not in place.discover(below).looked_for
    place.env = {"KBHUB_CONFIG": str(place.pointer("work/app", {"bases": {}}))}
    place.nothing(place.app())


@pytest.fixture
def owned(monkeypatch):
    return lambda is_owned: monkeypatch.setattr("kbhub.workspace.project.owned_by_user", is_owned)


def test_the_owner_matters_outside_a_git_root_and_beside_it_and_not_inside(place, owned):
    place.knowledge("work/knowledge")
    pointer = place.pointer("work", {})
    app = place.app()
    assert place.project(app).origin == "pointer"
    owned(lambda path: path != pointer)
    place.nothing(app)
    assert any("belongs to another user" in text for text in place.discover(app).looked_for)
    theirs = place.pointer("work/shared", {"name": "theirs"})
    place.pointer("work", {"name": "mine"})
    owned(lambda path: path != theirs)  # the walk goes on above it
    assert place.project(place.folder("work/shared/app")).name == "mine"

    app = place.app("../app.knowledge")
    owned(lambda _: False)
    place.nothing(app)
    place.app("knowledge")
    place.pointer("work/app", {})
    assert place.project(app).origin == "pointer"


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="needs owners of files")
def test_ownership_is_of_the_file_and_of_a_link_to_it(place):
    file = place.pointer("work", {})
    link = file.with_name("link")
    link.symlink_to(file)
    assert (owned_by_user(file), owned_by_user(link), owned_by_user(file.with_name("missing"))) == (True, True, False)
    if os.getuid() != 0:
        return  # only root can give a file away
    os.chown(file, 65534, -1)
    assert (owned_by_user(file), owned_by_user(link)) == (False, False)
    os.chown(file, 0, -1)
    os.chown(link, 65534, -1, follow_symlinks=False)
    assert not owned_by_user(link)


@pytest.fixture
def main(place):
    """The worktree `trees/feature` is of this repository."""
    made = place.repository("work/main")
    add_worktree(made, place.top / "trees/feature")
    return made


def test_in_a_worktree_the_main_worktrees_untracked_knowledge_and_sibling_count_after_its_own(place, main):
    sub = place.folder("trees/feature/sub")
    place.nothing(sub)
    for made in map(place.knowledge, ("work/main.knowledge", "work/main/.knowledge", "work/main/knowledge")):
        assert (place.project(sub).path, place.project(sub).writable) == (made, False)
    for made in map(place.knowledge, ("trees/feature.knowledge", "trees/feature/.knowledge")):
        assert place.project(sub).path == made
    assert place.project(sub).writable is True


def test_the_main_worktrees_link_that_leads_out_of_it_needs_trust(place, main):
    (main / "knowledge").symlink_to(place.knowledge("elsewhere"))
    assert f"kbhub base trust {main / 'knowledge'}" in place.problem(place.top / "trees/feature")


def test_a_git_file_that_the_other_repository_does_not_know_leads_to_no_main_worktree(place, main):
    """An archive may bring a `.git` file that names any repository of the user's."""
    place.knowledge("work/main/knowledge")
    forged = place.folder("work/forged")
    (forged / ".git").write_bytes((place.top / "trees/feature/.git").read_bytes())
    place.nothing(forged)
    assert place.project(place.top / "trees/feature").path == main / "knowledge"


def test_a_pointer_that_is_not_enabled_switches_kbhub_off_for_its_project(place):
    app = place.app("knowledge")
    place.config("notes", {"*": ["notes"]})
    place.pointer("work/app", {"enabled": False})
    place.nothing(app)
    assert place.discover(app).looked_for[-1].startswith(f"{app / '.kbhub.json'} (it says")
    assert place.ids(place.work) == ["notes"]


@pytest.mark.parametrize(("value", "bases"), [("1", 0), ("true", 0), ("0", 1), ("", 1)])
def test_the_variable_switches_kbhub_off(place, value, bases):
    app = place.app("knowledge")
    place.env = {"KBHUB_DISABLE": value}
    assert len(place.discover(app).bases) == bases


def test_docs_with_its_readme_is_a_read_only_base_where_nothing_else_is(place):
    app = place.app("docs/guide")
    (app / "ReadMe.MD").write_text("# App")
    base = place.project(place.folder("work/app/src"))
    assert (base.origin, base.path, base.name) == ("docs", app, "app")
    assert (base.only, base.writable) == (("ReadMe.MD", "docs"), False)
    (app / "ReadMe.MD").unlink()
    assert place.project(app).only == ("docs",)


def test_docs_without_markdown_outside_a_git_root_or_behind_a_link_out_of_it_is_no_base(place):
    app = place.app()
    place.folder("work/app/docs/node_modules/x")
    for name in ("docs/a.html", "docs/node_modules/x/readme.md", "README.md"):
        (app / name).write_text("")
    place.nothing(app)
    place.knowledge("work/plain/docs")
    place.nothing(place.work / "plain")
    shutil.rmtree(app / "docs")
    (app / "docs").symlink_to(place.work / "plain/docs")
    place.nothing(app)


WIKI = "knowledge wiki docs docs/knowledge"


@pytest.mark.parametrize(
    ("folders", "pointer", "config", "ids"),
    [
        (WIKI, None, {}, "project docs"),
        (WIKI, {"name": "App"}, {}, "project docs"),
        (".knowledge docs", {"knowledge": ".knowledge"}, {}, "project docs"),
        (WIKI, {"docsFallback": False}, {}, "project"),
        (WIKI, {"knowledge": "wiki"}, {}, "project"),
        (WIKI, {"knowledge": "wiki", "docsFallback": True}, {}, "project docs"),
        (WIKI, {"knowledge": "docs", "docsFallback": True}, {}, "project"),
        (WIKI, {"knowledge": "docs/knowledge"}, {}, "project"),
        (WIKI, {"knowledge": ".", "docsFallback": True}, {}, "project"),
        ("docs", "{", {}, ""),  # any match comes first, even one that cannot be used
        ("docs", None, {"docsFallback": False}, ""),
        ("knowledge docs", {"docsFallback": True}, {"docsFallback": False}, "project"),
        ("docs", None, {"bases": {"d": "../work/app/docs"}, "repos": {"*": "d"}}, "d"),
        # not an id of the user's, though elsewhere: refs would lead to another folder there
        ("knowledge docs", None, {"bases": "docs"}, "project project-docs"),
    ],
)
def test_the_pointer_and_the_user_decide_whether_docs_is_a_base(place, folders, pointer, config, ids):
    app = place.app(*folders.split())
    if pointer is not None:
        place.pointer("work/app", pointer)
    place.config(**config)
    assert place.ids(app) == ids.split()
    switched_off = any("docsFallback` is false" in one for one in place.discover(app).looked_for)
    assert switched_off == (config == {"docsFallback": False})


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("{", "malformed JSON"),
        ({"knowledge": 3}, "knowledge: expected a valid string"),
        ({"knowledge": "missing"}, "which is not a directory"),
        ({"knowledge": ".kbhub.json"}, "which is not a directory"),
        ({"knowledge": ".git"}, "inside a .git folder"),
    ],
)
def test_an_error_in_a_pointer_is_a_problem_of_the_project_base_alone(place, data, text):
    app = place.app("knowledge")
    place.config("notes", {"*": "notes"})
    pointer = place.pointer("work/app", data)
    assert text in place.problem(app)
    assert str(pointer) in place.problem(app)
    found = place.discover(app)
    assert ([base.id for base in found.bases], found.problems[0].subject) == (["notes"], "project")
    pointer.unlink()
    assert place.project(app).path == app / "knowledge"


def test_a_target_in_the_project_is_followed(place):
    app = place.app("notes", "../app.knowledge")
    place.pointer("work/app/sub", {"knowledge": "../notes"})
    assert (place.project(app / "sub").path, place.project(app / "sub").writable) == (app / "notes", True)
    place.pointer("work/plain", {})
    knowledge = place.knowledge("work/plain/knowledge")
    assert place.project(place.work / "plain").path == knowledge
    place.pointer("work/app", {"knowledge": "../app.knowledge"})
    assert place.project(app).path == place.work / "app.knowledge"
    (app / ".kbhub.json").unlink()
    (app / "knowledge").symlink_to(app / "notes")  # no pointer, and a link inside the git root
    assert place.project(app).path == app / "notes"


@pytest.mark.parametrize("knowledge", ["../private", "~/private", "link", "../app-private"])
def test_any_other_target_waits_for_trust(place, knowledge):
    app = place.app("../private", "../app-private")
    (app / "link").symlink_to(place.knowledge("home/private"))
    pointer = place.pointer("work/app", {"knowledge": knowledge})
    assert f"`kbhub base trust {pointer}`" in place.problem(app)
    place.trust(pointer)
    assert place.project(app).path == Path(os.path.realpath(app / knowledge.replace("~", str(place.home))))
    assert place.project(app).writable is False
    place.trust(pointer, writable=True)
    assert place.project(app).writable is True


@pytest.mark.parametrize("name", ["knowledge", ".knowledge", "../app.knowledge"])
def test_a_link_that_leads_out_waits_for_trust_in_the_link(place, name):
    secrets = place.knowledge("home/secrets")
    place.pointer("home/secrets", {"knowledge": "./other"})
    app = place.app()
    link = Path(os.path.normpath(app / name))
    link.symlink_to(secrets)
    assert f"`kbhub base trust {link}`" in place.problem(app)
    place.trust(link)
    assert place.project(app).path == secrets


def test_an_index_that_came_with_a_clone_is_not_opened_before_it_is_trusted(place):
    app = place.app("knowledge", "../x")
    pointer = place.pointer("work/app", {"cacheDir": "../x"})
    found = place.discover(app)
    assert found.bases[0].cache_dir is None
    assert f"`kbhub base trust {pointer}`" in found.problems[0].message
    place.trust(pointer)
    assert place.project(app).cache_dir == place.work / "x"
    place.pointer("work/app", {"cacheDir": ".other"})
    assert place.discover(app).bases[0].cache_dir is None
    place.pointer("work/app", {"knowledge": "../x"})  # no trust to read it
    assert "kbhub base trust" in place.problem(app)


def test_a_pointer_can_take_writing_away_but_not_give_it_or_raise_a_weight(place):
    app = place.app()
    pointer = place.pointer("work/app", {"knowledge": ".", "readOnly": True})
    assert not place.project(app).writable
    place.trust(pointer, writable=True)
    assert place.project(app).writable
    place.knowledge("work/plain/knowledge")
    place.pointer("work/plain", {"writable": True, "weight": 9})
    found = place.discover(place.work / "plain")
    assert (found.bases[0].writable, found.bases[0].weight) == (False, 1.0)
    told = [problem.message.split(";")[0] for problem in found.problems]
    assert told == [f"a pointer cannot set '{name}'" for name in ("writable", "weight")]


def test_a_command_in_a_problem_is_quoted_for_the_shell_and_trust_ends_when_the_pointer_names_another_target(place):
    app = place.repository("work/my app; rm -rf x")
    pointer = place.pointer(app, {"knowledge": "~"})
    assert f"`kbhub base trust '{pointer}'`" in place.problem(app)
    app = place.app("../a", "../b")
    place.trust(place.pointer("work/app", {"knowledge": "../a"}))
    assert place.project(app).path == place.work / "a"
    place.pointer("work/app", {"knowledge": "../b"})
    assert "kbhub base trust" in place.problem(app)


def test_there_must_be_something_to_trust_and_a_malformed_store_is_a_problem_of_the_project_alone(place):
    (place.work / "file.txt").write_text("not json")
    nowhere = place.pointer("work", {"knowledge": "~/missing"})
    with pytest.raises(UsageError, match="which is not a folder"):
        place.trust(nowhere)
    for name in ("missing", "file.txt"):
        with pytest.raises((UsageError, ConfigError)):
            place.trust(place.work / name)
    assert place.trust_store.entries() == ()

    app = place.app()
    place.knowledge("home/notes")
    place.pointer("work/app", {"knowledge": "~/notes"})
    place.folder("data")
    place.trust_store.path.write_text("{")
    assert "the trust store cannot be used" in place.problem(app)


def test_a_folder_called_knowledge_may_be_a_project_with_a_pointer_and_a_link_of_that_name_is_none(place):
    target = place.knowledge("home/notes")
    pointer = place.pointer("knowledge", {"knowledge": str(target)})
    (grant,) = place.trust(pointer.parent)
    assert (grant.pointer, grant.target) == (pointer, target)
    place.pointer("home/notes", {"knowledge": "./elsewhere"})
    link = place.work / "knowledge"
    link.symlink_to(target)
    (grant,) = place.trust(link)
    assert (grant.pointer, grant.target) == (link, target)


@pytest.mark.parametrize(
    ("repos", "cwd", "ids"),
    [
        ({"*": ["b", "a"]}, "work", ["a", "b"]),
        ({"*": ["b", "a"]}, "/", ["a", "b"]),
        ({"*": ["c"], "../work": ["a"]}, "work", ["a", "c"]),
        *[({"../work": ["a"], "../work/x": ["b"], "../work/x/de": ["c"]}, "work/x/deep", ["b"])],
        *[({"../work": ["a"], "../work/x": ["b"]}, "work/xy", ["a"])],
        ({"../work": ["a"]}, "other", []),
        ({"/": ["a"]}, "work", ["a"]),
        *[({key: ["a"]}, "home/src/app", ["a"]) for key in ("~/src", "src", "~/link", "~")],
        ({"~/src": ["a"], "~/src/": ["b"], "~": ["c"]}, "home/src/app", ["a", "b"]),
    ],
)
def test_bases_are_active_everywhere_and_below_the_longest_prefix(place, repos, cwd, ids):
    """A key may be relative, start with the home directory, or be a link; two spellings of a folder are one entry."""
    (place.home / "link").symlink_to(place.home / "src")
    place.config("a b c", repos)
    assert place.ids(place.folder(cwd)) == ids


@pytest.mark.parametrize(("case_insensitive", "ids"), [(True, ["a"]), (False, [])])
def test_prefixes_are_compared_as_the_system_compares_names(place, monkeypatch, case_insensitive, ids):
    monkeypatch.setattr("kbhub.workspace.discovery.CASE_INSENSITIVE", case_insensitive)
    app = place.folder("work/App")
    place.config("a", {str(place.work / "APP"): ["a"]})
    assert place.ids(app) == ids


def test_a_base_of_the_users_has_what_the_config_says_and_one_that_is_not_there_is_a_problem_and_the_rest_work(place):
    place.knowledge("home/n")
    entry = {"knowledge": "n", "name": "Notes", "weight": 2, "writable": True, "cacheDir": "~/c", "include": ["*.txt"]}
    sessions = {"knowledge": str(place.knowledge("home/s")), "kind": "session", "keepDeleted": ["2026/"]}
    place.config({"n": entry, "s": sessions}, {"*": ["n", "s"]})
    base, other = place.discover(place.work).bases
    assert (base.path, base.origin, base.name) == (place.home / "n", "config", "Notes")
    assert (base.weight, base.writable, base.cache_dir, base.include) == (2, True, place.home / "c", ("*.txt",))
    assert (other.kind, other.keep_deleted) == ("session", ("2026/",))
    assert (other.name, other.writable, other.weight) == ("s", False, 1.0)

    a = place.knowledge("home/a")
    place.config({"a": "~/a", "gone": "~/gone", "file": "~/.kbhub.json"}, {"*": ["a", "gone", "file"]})
    found = place.discover(place.work)
    assert place.ids(place.work) == ["a"]
    assert [problem.subject for problem in found.problems if "`bases." in problem.message] == ["file", "gone"]
    a.rename(place.home / "gone")
    assert place.ids(place.work) == ["gone"]
    assert [problem.subject for problem in place.discover(place.work).problems] == ["a", "file"]


def test_named_bases_win_over_the_configs_and_arguments_over_the_variable(place):
    place.config("a b", {"*": "a"})
    other = place.knowledge("work/other")
    named = {"a": other, "n": place.knowledge("work/n"), "gone": place.work / "gone"}
    found = place.discover(place.work, named=named)
    assert [(base.id, base.path, base.origin, base.writable) for base in found.bases] == [
        ("a", other, "argument", False),
        ("n", place.work / "n", "argument", False),
    ]
    (problem,) = found.problems
    assert problem.subject == "gone"
    assert "fix the --base or KBHUB_BASES that names it" in problem.message

    home = {"HOME": str(place.home), "USERPROFILE": str(place.home)}
    env = {**home, "KBHUB_BASES": os.pathsep.join(["a=/x", "b=~/y", ""])}
    assert parse_base_arguments(["a=/z=1"], env) == {"a": Path("/z=1"), "b": place.home / "y"}
    assert parse_base_arguments([], {}) == {}
    with pytest.raises(UsageError, match="given twice"):
        parse_base_arguments(["a=/x", "a=/y"], {})


@pytest.mark.parametrize(
    "value", ["a", "=x", "a=", "project=/x", "*=/x", "a b=/x", "a@b=/x", "a/b=/x", "user=/x", "memory=/x", "a=\0"]
)
def test_a_wrong_argument_is_an_error_that_names_its_source(value):
    with pytest.raises(UsageError, match=r"^--base "):
        parse_base_arguments([value], {})
    if os.pathsep not in value:
        with pytest.raises(ConfigError, match=r"^KBHUB_BASES: "):
            parse_base_arguments([], {"KBHUB_BASES": value})


def test_a_project_base_that_is_one_of_the_users_is_one_base_with_both_names(place):
    app = place.app("knowledge")
    place.pointer("work/app", {"contexts": {"a": "pointer", "b": "pointer"}, "exclude": ["x"], "name": "P"})
    (place.home / "link").symlink_to(app / "knowledge")
    entry = {"knowledge": "~/link", "weight": 3, "writable": False, "contexts": {"b": "mine"}, "description": "D"}
    place.config({"mine": entry}, {"*": "mine"})
    (base,) = place.discover(app).bases
    assert (base.id, base.names, base.origin, base.name) == ("project", ("mine",), "pointer", "P")
    assert (base.weight, base.writable, base.description) == (3, False, "D")
    assert (base.contexts, base.exclude) == ({"a": "pointer", "b": "mine"}, ("x",))
    place.config({"mine": entry})  # not active here
    assert (place.project(app).names, place.project(app).weight) == ((), 1.0)


def test_two_own_bases_on_one_directory_are_an_error_and_the_users_word_makes_one_writable(place):
    place.config("a", {"*": "a"})
    (place.work / "link").symlink_to(place.home / "a")
    with pytest.raises(ConfigError, match="'a' and 'n' are the same directory"):
        place.discover(place.work, named={"n": place.work / "link"})
    app = place.app("../app.knowledge")
    place.config({"k": {"knowledge": str(place.work / "app.knowledge"), "writable": True}}, {"*": "k"})
    assert place.project(app).writable is True
