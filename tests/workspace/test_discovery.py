"""Which bases are active in a directory: one test for each rule of discovery and trust."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path, PurePosixPath, PureWindowsPath

import pytest

from kbhub.errors import ConfigError, UsageError
from kbhub.workspace.config import load_config
from kbhub.workspace.discovery import (
    discover,
    find_workspace,
    parse_base_arguments,
    path_of_uri,
    trust_pointer,
    workspace_from_roots,
)
from kbhub.workspace.project import TrustStore, owned_by_user


class Place:
    """A file system of its own: a home directory, work outside it, and a trust store."""

    def __init__(self, folder: Path) -> None:
        self.top = Path(os.path.realpath(folder))
        self.home = self.folder("home")
        self.work = self.folder("work")
        self.trust = TrustStore(self.top / "data" / "trust.json")
        self.env: dict[str, str] = {}

    def folder(self, path) -> Path:
        made = self.top / path
        made.mkdir(parents=True, exist_ok=True)
        return made

    def knowledge(self, path) -> Path:
        made = self.folder(path)
        (made / "a.md").write_text("# A\n")
        return made

    def repository(self, path) -> Path:
        made = self.folder(path)
        (made / ".git").mkdir()
        return made

    def pointer(self, path, data, name=".kbhub.json") -> Path:
        file = self.folder(path) / name
        file.write_text(data if isinstance(data, str) else json.dumps(data))
        return file

    def config(self, data) -> None:
        (self.home / ".kbhub.json").write_text(json.dumps(data))

    def workspace(self, cwd, root=None, *, serve=False):
        return find_workspace(root=root, env=self.env, cwd=cwd, home=self.home, serve=serve)

    def discover(self, cwd, **more):
        config = load_config(None, self.env, self.home)
        return discover(self.workspace(cwd), config, self.trust, env=self.env, home=self.home, **more)

    def project(self, cwd, **more):
        """The project base, which must be there without a problem."""
        found = self.discover(cwd, **more)
        assert found.problems == ()
        assert found.bases[0].id == "project"
        return found.bases[0]

    def nothing(self, cwd, **more) -> None:
        found = self.discover(cwd, **more)
        assert (found.bases, found.problems) == ((), ())


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


def git(folder, *arguments):
    settings = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "protocol.file.allow=always")
    subprocess.run(["git", *settings, *arguments], cwd=folder, check=True, capture_output=True)


# The workspace directory


def test_the_option_wins_over_every_other_way_to_name_a_directory(place):
    a, b, c, d = (place.folder(f"work/{name}") for name in "abcd")
    place.env = {"KBHUB_ROOT": str(b), "CLAUDE_PROJECT_DIR": str(c)}
    found = place.workspace(d, root=a, serve=True)
    assert (found.directory, found.source) == (a, "--root")


def test_the_variable_wins_over_the_clients_and_the_working_directory(place):
    b, c, d = (place.folder(f"work/{name}") for name in "bcd")
    place.env = {"KBHUB_ROOT": str(b), "CLAUDE_PROJECT_DIR": str(c)}
    found = place.workspace(d, serve=True)
    assert (found.directory, found.source) == (b, "KBHUB_ROOT")


def test_the_clients_variable_counts_for_serve_alone(place):
    c, d = place.folder("work/c"), place.folder("work/d")
    place.env = {"CLAUDE_PROJECT_DIR": str(c)}
    assert place.workspace(d, serve=True).directory == c
    assert place.workspace(d, serve=True).source == "CLAUDE_PROJECT_DIR"
    assert place.workspace(d).directory == d


@pytest.mark.parametrize("value", ["", "relative", "/no/such/directory", "a\0b"])
def test_a_wrong_variable_of_the_client_is_passed_over(place, value):
    place.env = {"CLAUDE_PROJECT_DIR": value}
    assert place.workspace(place.work, serve=True).source == "the working directory"


def test_a_root_is_relative_to_the_working_directory_and_knows_the_home(place):
    place.folder("work/a")
    place.folder("home/b")
    assert place.workspace(place.work, root="a").directory == place.work / "a"
    assert place.workspace(place.work, root="~/b").directory == place.home / "b"


def test_a_root_that_is_no_directory_is_a_usage_error(place):
    with pytest.raises(UsageError, match=r"--root .*missing is not a directory"):
        place.workspace(place.work, root="missing")


def test_a_variable_that_is_no_directory_is_a_config_error(place):
    place.env = {"KBHUB_ROOT": str(place.work / "missing")}
    with pytest.raises(ConfigError, match=r"^KBHUB_ROOT: "):
        place.workspace(place.work)


def test_the_root_of_the_file_system_and_the_home_directory_are_no_workspace(place):
    for cwd in (Path("/"), place.home):
        found = place.workspace(cwd)
        assert (found.directory, found.source, found.git_root) == (None, "none", None)


def test_the_home_directory_may_be_named(place):
    assert place.workspace(place.work, root=place.home).directory == place.home


@pytest.mark.parametrize(
    "cache",
    [
        "home/.cache/uv/archive-v0/x",
        "home/.cache/pip/x",
        "home/.local/share/uv/tools/kbhub",
        "home/.local/pipx/venvs/kbhub",
        "home/.npm/_npx/1234",
        "uvcache/x",
    ],
)
def test_a_package_runners_cache_is_no_workspace(place, cache):
    place.env = {"UV_CACHE_DIR": str(place.top / "uvcache")}
    assert place.workspace(place.folder(cache)).directory is None


def test_a_folder_below_home_is_a_workspace(place):
    folder = place.folder("home/src/app")
    assert place.workspace(folder).directory == folder


def test_a_linked_working_directory_is_resolved(place):
    real = place.repository("work/real")
    place.knowledge("work/real/knowledge")
    link = place.work / "link"
    link.symlink_to(real)
    assert place.workspace(link).directory == real
    assert place.project(link).path == real / "knowledge"


def test_a_working_directory_that_is_gone_is_no_workspace(place):
    assert place.workspace(place.work / "gone").directory is None


# The client's roots


def test_the_first_root_that_is_a_directory_here_is_the_workspace(place):
    folder = place.folder("work/my app é")
    place.repository("work/my app é")
    uris = ["https://example.org/", "file:///no/such", folder.as_uri(), place.home.as_uri()]
    found = workspace_from_roots(uris, home=place.home)
    assert (found.directory, found.source, found.git_root) == (folder, "the client's root", folder)


def test_no_usable_root_is_no_workspace(place):
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


# Phase 1: the four patterns


def test_the_patterns_of_one_directory_are_tried_in_order(place):
    app = place.repository("work/app")
    place.knowledge("work/app.knowledge")
    assert (place.project(app).origin, place.project(app).path) == ("sibling", place.work / "app.knowledge")
    place.knowledge("work/app/.knowledge")
    assert (place.project(app).origin, place.project(app).path) == (".knowledge", app / ".knowledge")
    place.knowledge("work/app/knowledge")
    assert (place.project(app).origin, place.project(app).path) == ("knowledge", app / "knowledge")
    place.knowledge("work/app/p2")
    place.pointer("work/app", {"knowledge": "p2"}, ".knowledge.json")
    assert (place.project(app).origin, place.project(app).path) == ("pointer", app / "p2")
    place.knowledge("work/app/p1")
    place.pointer("work/app", {"knowledge": "p1"})
    assert (place.project(app).origin, place.project(app).path) == ("pointer", app / "p1")


def test_a_nearer_directory_wins_whatever_its_pattern(place):
    place.repository("work/app")
    place.knowledge("work/app/k")
    place.pointer("work/app", {"knowledge": "k"})
    sub = place.folder("work/app/sub")
    place.knowledge("work/app/sub.knowledge")
    assert place.project(place.folder("work/app/sub/deep")).path == place.top / "work/app/sub.knowledge"
    assert place.project(sub).origin == "sibling"


def test_of_nested_pointers_the_nearest_counts(place):
    place.repository("work/app")
    for name in ("work/app", "work/app/sub"):
        place.knowledge(f"{name}/knowledge")
        place.pointer(name, {"name": name})
    assert place.project(place.folder("work/app/sub/x")).name == "work/app/sub"
    assert place.project(place.folder("work/app/other")).name == "work/app"


def test_every_place_that_was_tried_is_told_in_order(place):
    app = place.repository("work/app")
    found = place.discover(app)
    tried = [str(app / name) for name in (".kbhub.json", ".knowledge.json", "knowledge", ".knowledge")]
    assert list(found.looked_for[:5]) == [*tried, str(place.work / "app.knowledge")]
    assert found.looked_for[-1] == str(app / "docs")


def test_a_folder_called_like_a_pointer_and_a_file_called_like_a_folder_do_not_count(place):
    app = place.repository("work/app")
    place.folder("work/app/.kbhub.json")
    (app / "knowledge").write_text("a file")
    place.nothing(app)


def test_a_base_is_called_after_its_project(place):
    app = place.repository("work/app")
    place.knowledge("work/app/knowledge")
    assert place.project(app).name == "app"
    place.pointer("work/app", {"name": "My\x1b[31m\n app"})
    assert place.project(app).name == "My [31m app"


def test_a_pointer_describes_its_base(place):
    app = place.repository("work/app")
    place.knowledge("work/app/knowledge")
    data = {"description": "D", "contexts": {"a/": "A\nB"}, "include": ["*.txt"], "exclude": ["x"]}
    place.pointer("work/app", data)
    base = place.project(app)
    assert (base.description, base.contexts) == ("D", {"a/": "A B"})
    assert (base.include, base.exclude) == (("*.txt",), ("x",))


# The git root


def test_knowledge_folders_count_at_and_below_the_git_root(place):
    place.repository("work/app")
    place.knowledge("work/app/knowledge")
    place.knowledge("work/app/sub/.knowledge")
    assert place.project(place.folder("work/app/other")).origin == "knowledge"
    assert place.project(place.folder("work/app/sub/deep")).origin == ".knowledge"


def test_knowledge_folders_above_the_git_root_do_not_count(place):
    app = place.repository("work/app")
    place.knowledge("work/knowledge")
    place.knowledge("work/.knowledge")
    place.nothing(app)
    assert any("work/knowledge (ignored outside" in text for text in place.discover(app).looked_for)


def test_knowledge_folders_never_count_without_a_git_root(place):
    place.knowledge("work/app/knowledge")
    place.knowledge("work/app/.knowledge")
    place.nothing(place.folder("work/app"))


def test_pointer_and_sibling_count_without_a_git_root_and_above_one(place):
    place.knowledge("work/outer/knowledge")
    place.pointer("work/outer", {})
    assert place.project(place.folder("work/outer/plain")).origin == "pointer"
    assert place.project(place.repository("work/outer/app")).origin == "pointer"
    (place.work / "outer/.kbhub.json").unlink()
    place.knowledge("work/outer.knowledge")
    assert place.project(place.folder("work/outer/plain")).origin == "sibling"
    assert place.project(place.repository("work/outer/app2")).origin == "sibling"


def test_a_git_file_makes_a_git_root_as_a_folder_does(place):
    (place.folder("work/app") / ".git").write_text("gitdir: /somewhere\n")
    place.knowledge("work/app/knowledge")
    assert place.project(place.folder("work/app/sub")).origin == "knowledge"


def test_the_home_directory_is_never_a_git_root(place):
    """A repository of dotfiles does not make the user's notes part of every project."""
    place.repository("home")
    place.knowledge("home/knowledge")
    place.knowledge("home/src/.knowledge")
    place.knowledge("home/docs")
    src = place.folder("home/src/app")
    assert place.workspace(src).git_root is None
    place.nothing(src)
    assert place.discover(src, named={}).bases == ()


def test_a_repository_below_a_home_repository_is_one_of_its_own(place):
    place.repository("home")
    app = place.repository("home/src/app")
    place.knowledge("home/src/app/knowledge")
    assert place.project(app).writable is True


def test_the_global_config_is_never_a_pointer(place):
    """Walking up from below home ends in no project base, though the file has a pointer's name."""
    place.knowledge("home/knowledge")
    place.config({})
    found = place.discover(place.folder("home/src/app"))
    assert (found.bases, found.problems) == ((), ())
    assert str(place.home / ".kbhub.json") not in found.looked_for


def test_a_global_config_of_another_name_is_no_pointer_either(place):
    app = place.repository("work/app")
    file = place.pointer("work/app", {"bases": {}})
    place.env = {"KBHUB_CONFIG": str(file)}
    place.nothing(app)


# Owners


def test_outside_a_git_root_a_pointer_of_another_user_does_not_count(place):
    place.knowledge("work/knowledge")
    pointer = place.pointer("work", {})
    app = place.repository("work/app")
    place.nothing(app, owned=lambda path: path != pointer)
    assert any("belongs to another user" in text for text in place.discover(app, owned=lambda _: False).looked_for)
    assert place.project(app).origin == "pointer"


def test_the_walk_goes_on_above_a_pointer_of_another_user(place):
    place.knowledge("work/knowledge")
    place.pointer("work", {"name": "mine"})
    theirs = place.pointer("work/shared", {"name": "theirs"})
    assert place.project(place.folder("work/shared/app"), owned=lambda path: path != theirs).name == "mine"


def test_a_sibling_of_another_user_beside_the_git_root_does_not_count(place):
    app = place.repository("work/app")
    place.knowledge("work/app.knowledge")
    place.nothing(app, owned=lambda _: False)


def test_inside_a_git_root_the_owner_does_not_matter(place):
    app = place.repository("work/app")
    place.knowledge("work/app/knowledge")
    place.pointer("work/app", {})
    assert place.project(app, owned=lambda _: False).origin == "pointer"


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="needs owners of files")
def test_ownership_is_of_the_file_and_of_a_link_to_it(place):
    file = place.pointer("work", {})
    assert owned_by_user(file)
    assert not owned_by_user(file.with_name("missing"))
    link = file.with_name("link")
    link.symlink_to(file)
    assert owned_by_user(link)
    if os.getuid() != 0:
        return  # only root can give a file away
    os.chown(file, 65534, -1)
    assert not owned_by_user(file)
    assert not owned_by_user(link)
    os.chown(file, 0, -1)
    os.chown(link, 65534, -1, follow_symlinks=False)
    assert not owned_by_user(link)


# Worktrees and submodules


def commit(folder):
    (folder / "readme.txt").write_text("x")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "first")


def test_in_a_worktree_the_main_worktrees_untracked_knowledge_and_sibling_count_after_its_own(place):
    main = place.folder("work/main")
    git(main, "init", "-q")
    commit(main)
    tree = place.top / "trees" / "feature"
    git(main, "worktree", "add", "-q", str(tree))
    sub = place.folder("trees/feature/sub")
    place.nothing(sub)
    place.knowledge("work/main.knowledge")
    assert place.project(sub).path == place.work / "main.knowledge"
    place.knowledge("work/main/.knowledge")
    assert place.project(sub).path == main / ".knowledge"
    place.knowledge("work/main/knowledge")
    assert place.project(sub).path == main / "knowledge"
    assert place.project(sub).writable is False
    place.knowledge("trees/feature.knowledge")
    assert place.project(sub).path == place.top / "trees/feature.knowledge"
    place.knowledge("trees/feature/.knowledge")
    assert place.project(sub).path == tree / ".knowledge"
    assert place.project(sub).writable is True


def test_the_main_worktrees_link_that_leads_out_of_it_needs_trust(place):
    main = place.folder("work/main")
    git(main, "init", "-q")
    commit(main)
    git(main, "worktree", "add", "-q", str(place.top / "tree"))
    (main / "knowledge").symlink_to(place.knowledge("elsewhere"))
    (problem,) = place.discover(place.top / "tree").problems
    assert f"kbhub trust {main / 'knowledge'}" in problem.message


def test_a_git_file_that_the_other_repository_does_not_know_leads_to_no_main_worktree(place):
    """An archive may bring a `.git` file that names any repository of the user's."""
    main = place.folder("work/main")
    git(main, "init", "-q")
    commit(main)
    place.knowledge("work/main/knowledge")
    git(main, "worktree", "add", "-q", str(place.top / "tree"))
    forged = place.folder("work/forged")
    (forged / ".git").write_bytes((place.top / "tree/.git").read_bytes())
    place.nothing(forged)
    assert place.project(place.top / "tree").path == main / "knowledge"


def test_a_submodule_is_a_git_root_of_its_own(place):
    library = place.folder("work/library")
    git(library, "init", "-q")
    commit(library)
    app = place.folder("work/app")
    git(app, "init", "-q")
    git(app, "submodule", "add", "-q", str(library), "sub")
    place.knowledge("work/app/knowledge")
    sub = app / "sub"
    assert (sub / ".git").is_file()
    place.nothing(sub)
    place.knowledge("work/app/sub/knowledge")
    assert place.project(sub).path == sub / "knowledge"


# Switching off


def test_a_pointer_that_is_not_enabled_switches_kbhub_off_for_its_project(place):
    app = place.repository("work/app")
    place.knowledge("work/app/knowledge")
    place.knowledge("home/notes")
    place.config({"bases": {"notes": "~/notes"}, "repos": {"*": ["notes"]}})
    place.pointer("work/app", {"enabled": False})
    found = place.discover(app)
    assert (found.bases, found.problems) == ((), ())
    assert found.looked_for[-1].startswith(f"{app / '.kbhub.json'} (it says")
    assert [base.id for base in place.discover(place.work).bases] == ["notes"]


@pytest.mark.parametrize(("value", "bases"), [("1", 0), ("true", 0), ("0", 1), ("", 1)])
def test_the_variable_switches_kbhub_off(place, value, bases):
    app = place.repository("work/app")
    place.knowledge("work/app/knowledge")
    place.env = {"KBHUB_DISABLE": value}
    assert len(place.discover(app).bases) == bases


# The docs fallback


def test_docs_with_its_readme_is_a_read_only_base_where_nothing_else_is(place):
    app = place.repository("work/app")
    place.knowledge("work/app/docs/guide")
    (app / "ReadMe.MD").write_text("# App")
    base = place.project(place.folder("work/app/src"))
    assert (base.origin, base.path, base.name) == ("docs", app, "app")
    assert (base.only, base.writable) == (("ReadMe.MD", "docs"), False)


def test_docs_without_a_readme_is_docs_alone(place):
    app = place.repository("work/app")
    place.knowledge("work/app/docs")
    assert place.project(app).only == ("docs",)


def test_docs_without_markdown_is_no_base(place):
    app = place.repository("work/app")
    place.folder("work/app/docs/node_modules/x")
    (app / "docs/a.html").write_text("")
    (app / "docs/node_modules/x/readme.md").write_text("")
    (app / "README.md").write_text("")
    place.nothing(app)


def test_docs_outside_a_git_root_is_no_base(place):
    place.knowledge("work/app/docs")
    place.nothing(place.folder("work/app"))


def test_a_docs_link_that_leads_out_is_no_base(place):
    app = place.repository("work/app")
    (app / "docs").symlink_to(place.knowledge("elsewhere"))
    place.nothing(app)


def test_the_docs_fallback_can_be_switched_off(place):
    app = place.repository("work/app")
    place.knowledge("work/app/docs")
    place.config({"docsFallback": False})
    place.nothing(app)
    assert place.discover(app).looked_for[-1].endswith("(not read: `docsFallback` is false)")


def test_any_match_comes_before_docs_even_one_that_cannot_be_used(place):
    app = place.repository("work/app")
    place.knowledge("work/app/docs")
    place.pointer("work/app", "{")
    found = place.discover(app)
    assert found.bases == ()
    assert len(found.problems) == 1


def test_docs_that_the_user_has_as_a_base_is_not_two_bases(place):
    app = place.repository("work/app")
    place.knowledge("work/app/docs")
    place.config({"bases": {"d": str(app / "docs")}, "repos": {"*": "d"}})
    assert [base.id for base in place.discover(app).bases] == ["d"]


@pytest.mark.parametrize("folder", ["knowledge", ".knowledge"])
@pytest.mark.parametrize("pointer", [None, {"name": "App"}])
def test_docs_is_searched_beside_a_knowledge_folder(place, folder, pointer):
    """Whatever the folder has, and whether or not a pointer names it; only that folder is written to."""
    app = place.repository("work/app")
    place.folder(f"work/app/{folder}")
    place.knowledge("work/app/docs")
    (app / "README.md").write_text("# App")
    if pointer is not None:
        place.pointer("work/app", {"knowledge": folder, **pointer})
    project, docs = place.discover(place.folder("work/app/src")).bases
    assert (project.id, project.path, project.writable) == ("project", app / folder, True)
    assert (docs.id, docs.origin, docs.path, docs.only, docs.writable) == (
        "docs",
        "docs",
        app,
        ("README.md", "docs"),
        False,
    )


@pytest.mark.parametrize(
    ("pointer", "ids"),
    [
        ({"docsFallback": False}, ["project"]),
        ({"knowledge": "wiki"}, ["project"]),
        ({"knowledge": "wiki", "docsFallback": True}, ["project", "docs"]),
        ({"knowledge": "docs", "docsFallback": True}, ["project"]),
        ({"knowledge": "docs/knowledge"}, ["project"]),
        ({"knowledge": ".", "docsFallback": True}, ["project"]),
    ],
)
def test_a_pointer_decides_whether_docs_is_searched_too(place, pointer, ids):
    app = place.repository("work/app")
    for folder in ("knowledge", "wiki", "docs", "docs/knowledge"):
        place.knowledge(f"work/app/{folder}")
    place.pointer("work/app", pointer)
    assert [base.id for base in place.discover(app).bases] == ids


def test_the_user_can_switch_docs_off_beside_knowledge(place):
    app = place.repository("work/app")
    place.knowledge("work/app/knowledge")
    place.knowledge("work/app/docs")
    place.pointer("work/app", {"docsFallback": True})
    place.config({"docsFallback": False})
    assert place.project(app).path == app / "knowledge"
    assert len(place.discover(app).bases) == 1


def test_a_link_to_the_same_folder_is_not_two_bases(place):
    app = place.repository("work/app")
    place.knowledge("work/app/knowledge")
    (app / "docs").symlink_to("knowledge")
    assert [base.id for base in place.discover(app).bases] == ["project"]


def test_the_id_of_docs_is_never_one_of_the_users(place):
    """Not even of a base that is active elsewhere, as refs would lead to another folder there."""
    app = place.repository("work/app")
    place.knowledge("work/app/knowledge")
    place.knowledge("work/app/docs")
    place.config({"bases": {"docs": str(place.knowledge("notes"))}})
    assert [base.id for base in place.discover(app).bases] == ["project", "project-docs"]


def test_a_pointer_can_take_writing_away_and_the_user_can_allow_it(place):
    app = place.repository("work/app")
    pointer = place.pointer("work/app", {"knowledge": ".", "readOnly": True})
    assert not place.project(app).writable
    trust_pointer(pointer, place.trust, writable=True, home=place.home)
    assert place.project(app).writable


# Errors in a pointer


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
    app = place.repository("work/app")
    place.knowledge("work/app/knowledge")
    place.knowledge("home/notes")
    place.config({"bases": {"notes": "~/notes"}, "repos": {"*": "notes"}})
    place.pointer("work/app", data)
    found = place.discover(app)
    assert [base.id for base in found.bases] == ["notes"]
    (problem,) = found.problems
    assert problem.subject == "project"
    assert text in problem.message
    assert str(app / ".kbhub.json") in problem.message


def test_a_pointer_that_is_a_dangling_link_is_a_problem_and_ends_the_walk(place):
    app = place.repository("work/app")
    place.knowledge("work/app/knowledge")
    (app / ".kbhub.json").symlink_to(app / "gone.json")
    found = place.discover(app)
    assert found.bases == ()
    assert "cannot be read" in found.problems[0].message


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pointer_that_is_a_pipe_is_a_problem_and_does_not_hang(place):
    app = place.repository("work/app")
    os.mkfifo(app / ".kbhub.json")
    assert "Not a regular file" in place.discover(app).problems[0].message


def test_a_mended_pointer_is_taken_up_by_the_next_look(place):
    app = place.repository("work/app")
    place.knowledge("work/app/knowledge")
    place.pointer("work/app", "{")
    assert place.discover(app).problems
    place.pointer("work/app", "{}")
    assert place.project(app).path == app / "knowledge"


# Trust


def test_a_target_inside_the_same_git_root_is_followed(place):
    place.repository("work/app")
    place.knowledge("work/app/notes")
    place.pointer("work/app/sub", {"knowledge": "../notes"})
    base = place.project(place.top / "work/app/sub")
    assert (base.path, base.writable) == (place.top / "work/app/notes", True)


def test_a_target_below_the_pointers_own_folder_is_followed_without_a_git_root(place):
    place.knowledge("work/plain/knowledge")
    place.pointer("work/plain", {})
    assert place.project(place.top / "work/plain").path == place.top / "work/plain/knowledge"


def test_the_sibling_folder_is_followed_from_a_pointer(place):
    app = place.repository("work/app")
    place.knowledge("work/app.knowledge")
    place.pointer("work/app", {"knowledge": "../app.knowledge"})
    assert place.project(app).path == place.work / "app.knowledge"


@pytest.mark.parametrize("knowledge", ["../private", "~/private", "link"])
def test_any_other_target_waits_for_trust(place, knowledge):
    app = place.repository("work/app")
    place.knowledge("work/private")
    place.knowledge("home/private")
    (app / "link").symlink_to(place.home / "private")
    pointer = place.pointer("work/app", {"knowledge": knowledge})
    found = place.discover(app)
    assert found.bases == ()
    (problem,) = found.problems
    assert f"`kbhub trust {pointer}`" in problem.message
    trust_pointer(pointer, place.trust, writable=False, home=place.home)
    assert place.project(app).path.name == "private"


def test_a_folder_whose_name_starts_like_the_git_root_is_outside(place):
    app = place.repository("work/app")
    place.knowledge("work/app-private")
    place.pointer("work/app", {"knowledge": "../app-private"})
    assert place.discover(app).bases == ()


def test_trust_ends_when_the_pointer_names_another_target(place):
    app = place.repository("work/app")
    place.knowledge("home/a")
    place.knowledge("home/b")
    pointer = place.pointer("work/app", {"knowledge": "~/a"})
    trust_pointer(pointer, place.trust, writable=False, home=place.home)
    assert place.project(app).path == place.home / "a"
    place.pointer("work/app", {"knowledge": "~/b"})
    assert "kbhub trust" in place.discover(app).problems[0].message


@pytest.mark.parametrize("name", ["knowledge", ".knowledge"])
def test_a_knowledge_link_that_leads_out_waits_for_trust(place, name):
    app = place.repository("work/app")
    (app / name).symlink_to(place.knowledge("home/secrets"))
    (problem,) = place.discover(app).problems
    assert f"`kbhub trust {app / name}`" in problem.message
    trust_pointer(app / name, place.trust, writable=False, home=place.home)
    assert place.project(app).path == place.home / "secrets"


def test_a_knowledge_link_inside_the_git_root_is_followed(place):
    app = place.repository("work/app")
    (app / "knowledge").symlink_to(place.knowledge("work/app/wiki"))
    assert place.project(app).path == app / "wiki"


def test_a_sibling_that_is_a_link_waits_for_trust(place):
    app = place.repository("work/app")
    (place.work / "app.knowledge").symlink_to(place.knowledge("home/secrets"))
    assert "kbhub trust" in place.discover(app).problems[0].message


def test_an_index_that_came_with_a_clone_is_not_opened_before_it_is_trusted(place):
    app = place.repository("work/app")
    place.knowledge("work/app/knowledge")
    place.folder("work/app/.cache")
    pointer = place.pointer("work/app", {"cacheDir": ".cache"})
    found = place.discover(app)
    assert found.bases[0].cache_dir is None
    assert f"`kbhub trust {pointer}`" in found.problems[0].message
    trust_pointer(pointer, place.trust, writable=False, home=place.home)
    assert place.project(app).cache_dir == app / ".cache"
    place.folder("work/app/.other")
    place.pointer("work/app", {"cacheDir": ".other"})
    assert place.discover(app).bases[0].cache_dir is None


def test_trust_in_an_index_folder_is_no_trust_to_read_it(place):
    app = place.repository("work/app")
    place.knowledge("work/app/knowledge")
    place.knowledge("home/x")
    pointer = place.pointer("work/app", {"cacheDir": "~/x"})
    trust_pointer(pointer, place.trust, writable=False, home=place.home)
    place.pointer("work/app", {"knowledge": "~/x"})
    assert "kbhub trust" in place.discover(app).problems[0].message


def test_outside_the_git_root_a_base_is_read_only_unless_trusted_for_writing(place):
    app = place.repository("work/app")
    place.knowledge("home/notes")
    pointer = place.pointer("work/app", {"knowledge": "~/notes"})
    trust_pointer(pointer, place.trust, writable=False, home=place.home)
    assert place.project(app).writable is False
    trust_pointer(pointer, place.trust, writable=True, home=place.home)
    assert place.project(app).writable is True


def test_a_sibling_and_a_base_without_git_are_read_only_until_trusted_for_writing(place):
    app = place.repository("work/app")
    sibling = place.knowledge("work/app.knowledge")
    assert place.project(app).writable is False
    trust_pointer(sibling, place.trust, writable=True, home=place.home)
    assert place.project(app).writable is True
    place.knowledge("work/plain/knowledge")
    pointer = place.pointer("work/plain", {})
    assert place.project(pointer.parent).writable is False
    trust_pointer(pointer.parent, place.trust, writable=True, home=place.home)
    assert place.project(pointer.parent).writable is True


def test_a_pointer_cannot_make_a_base_writable_or_raise_its_weight(place):
    place.knowledge("work/plain/knowledge")
    place.pointer("work/plain", {"writable": True, "weight": 9})
    found = place.discover(place.top / "work/plain")
    assert (found.bases[0].writable, found.bases[0].weight) == (False, 1.0)
    assert [problem.message.split(";")[0] for problem in found.problems] == [
        "a pointer cannot set 'writable'",
        "a pointer cannot set 'weight'",
    ]


def test_a_malformed_trust_store_is_a_problem_of_the_project_alone(place):
    app = place.repository("work/app")
    place.knowledge("home/notes")
    place.pointer("work/app", {"knowledge": "~/notes"})
    place.folder("data")
    place.trust.path.write_text("{")
    (problem,) = place.discover(app).problems
    assert "the trust store cannot be used" in problem.message


def test_a_command_in_a_problem_is_quoted_for_the_shell(place):
    app = place.repository("work/my app; rm -rf x")
    pointer = place.pointer("work/my app; rm -rf x", {"knowledge": "~"})
    (problem,) = place.discover(app).problems
    assert f"`kbhub trust '{pointer}'`" in problem.message


@pytest.mark.parametrize("name", ["missing", "file.txt"])
def test_there_must_be_something_to_trust(place, name):
    (place.work / "file.txt").write_text("not json")
    with pytest.raises((UsageError, ConfigError)):
        trust_pointer(place.work / name, place.trust, writable=False, home=place.home)
    assert place.trust.entries() == ()


@pytest.mark.parametrize("name", ["knowledge", ".knowledge"])
def test_trust_in_a_link_is_in_the_link_whatever_lies_behind_it(place, name):
    notes = place.knowledge("home/notes")
    place.pointer("home/notes", {"knowledge": "./other"})
    place.repository("work")
    (place.work / name).symlink_to(notes)

    assert "kbhub trust" in place.discover(place.work).problems[0].message
    trust_pointer(place.work / name, place.trust, writable=False, home=place.home)

    assert place.discover(place.work).bases[0].path == notes


def test_trust_in_a_sibling_is_in_the_sibling_whatever_pointer_lies_in_it(place):
    sibling = place.knowledge("work.knowledge")
    place.pointer("work.knowledge", {"knowledge": "./other"})
    trust_pointer(sibling, place.trust, writable=True, home=place.home)

    assert place.discover(place.work).bases[0].writable


def test_a_folder_called_knowledge_may_be_a_project_with_a_pointer(place):
    target = place.knowledge("home/notes")
    pointer = place.pointer("knowledge", {"knowledge": str(target)})
    (grant,) = trust_pointer(pointer.parent, place.trust, writable=False, home=place.home)

    assert (grant.pointer, grant.target) == (pointer, target)


def test_a_pointer_to_nowhere_is_not_trusted(place):
    pointer = place.pointer("work", {"knowledge": "~/missing"})
    with pytest.raises(UsageError, match="which is not a folder"):
        trust_pointer(pointer, place.trust, writable=False, home=place.home)


# Phase 2: the user's own bases


def global_bases(place, names=("a", "b", "c")):
    for name in names:
        place.knowledge(f"home/{name}")
    return {name: f"~/{name}" for name in names}


def ids(found):
    return [base.id for base in found.bases]


def test_the_bases_of_everywhere_are_active_everywhere_and_without_a_workspace(place):
    place.config({"bases": global_bases(place), "repos": {"*": ["b", "a"]}})
    assert ids(place.discover(place.work)) == ["a", "b"]
    assert ids(place.discover(Path("/"))) == ["a", "b"]


def test_of_the_folders_the_longest_prefix_counts_alone(place):
    deep = place.folder("work/x/deep")
    repos = {str(place.work): ["a"], str(place.work / "x"): ["b"], str(place.work / "x/de"): ["c"]}
    place.config({"bases": global_bases(place), "repos": repos})
    assert ids(place.discover(deep)) == ["b"]
    assert ids(place.discover(place.folder("work/xy"))) == ["a"]
    assert ids(place.discover(place.folder("other"))) == []


def test_everywhere_is_added_to_the_longest_prefix(place):
    place.config({"bases": global_bases(place), "repos": {"*": ["c"], str(place.work): ["a"]}})
    assert ids(place.discover(place.work)) == ["a", "c"]


def test_the_root_of_the_file_system_is_a_prefix_of_everything(place):
    place.config({"bases": global_bases(place), "repos": {"/": ["a"]}})
    assert ids(place.discover(place.work)) == ["a"]


def test_a_prefix_may_use_the_home_directory_a_relative_path_and_a_link(place):
    app = place.folder("home/src/app")
    (place.home / "link").symlink_to(place.home / "src")
    for key in ("~/src", "src", "~/link", "~"):
        place.config({"bases": global_bases(place), "repos": {key: ["a"]}})
        assert ids(place.discover(app)) == ["a"], key


def test_two_spellings_of_one_folder_are_one_entry(place):
    place.config({"bases": global_bases(place), "repos": {"~/src": ["a"], "~/src/": ["b"], "~": ["c"]}})
    assert ids(place.discover(place.folder("home/src/app"))) == ["a", "b"]


def test_prefixes_are_compared_as_the_system_compares_names(place):
    app = place.folder("work/App")
    place.config({"bases": global_bases(place), "repos": {str(place.work / "APP"): ["a"]}})
    assert ids(place.discover(app, case_insensitive=True)) == ["a"]
    assert ids(place.discover(app, case_insensitive=False)) == []


def test_a_base_of_the_users_has_what_the_config_says(place):
    place.knowledge("home/n")
    entry = {"knowledge": "n", "name": "Notes", "weight": 2, "writable": True, "cacheDir": "~/c", "include": ["*.txt"]}
    place.config({"bases": {"n": entry}, "repos": {"*": "n"}})
    (base,) = place.discover(place.work).bases
    assert (base.path, base.origin, base.name) == (place.home / "n", "config", "Notes")
    assert (base.weight, base.writable, base.cache_dir) == (2, True, place.home / "c")
    assert base.include == ("*.txt",)


def test_a_base_of_the_users_is_read_only_and_called_by_its_id_by_default(place):
    place.config({"bases": global_bases(place, ["a"]), "repos": {"*": "a"}})
    (base,) = place.discover(place.work).bases
    assert (base.name, base.writable, base.weight) == ("a", False, 1.0)


def test_a_directory_that_is_not_there_is_a_problem_and_the_rest_work(place):
    bases = {**global_bases(place, ["a"]), "gone": "~/gone", "file": "~/.kbhub.json"}
    place.config({"bases": bases, "repos": {"*": ["a", "gone", "file"]}})
    found = place.discover(place.work)
    assert ids(found) == ["a"]
    assert [(problem.subject, "bases." in problem.message) for problem in found.problems] == [
        ("file", True),
        ("gone", True),
    ]


def test_a_directory_that_vanishes_becomes_a_problem_and_comes_back(place):
    place.config({"bases": global_bases(place, ["a"]), "repos": {"*": "a"}})
    assert ids(place.discover(place.work)) == ["a"]
    (place.home / "a").rename(place.home / "moved")
    found = place.discover(place.work)
    assert (ids(found), [problem.subject for problem in found.problems]) == ([], ["a"])
    (place.home / "moved").rename(place.home / "a")
    assert ids(place.discover(place.work)) == ["a"]


def test_a_base_says_what_its_files_are_and_which_are_kept(place):
    place.knowledge("home/s")
    place.config(
        {"bases": {"s": {"knowledge": "~/s", "kind": "session", "keepDeleted": ["2026/"]}}, "repos": {"*": "s"}}
    )
    found = place.discover(place.work)
    assert [("s", "session", ("2026/",))] == [(base.id, base.kind, base.keep_deleted) for base in found.bases]
    assert found.problems == ()


def test_warnings_of_the_config_are_problems_of_the_result(place):
    place.config({"docsFalback": True})
    assert "did you mean 'docsFallback'?" in place.discover(place.work).problems[0].message


# Bases in the client's server entry


def test_named_bases_are_active_and_win_over_the_configs(place):
    place.config({"bases": global_bases(place, ["a", "b"]), "repos": {"*": "a"}})
    other = place.knowledge("work/other")
    found = place.discover(place.work, named={"a": other, "n": place.knowledge("work/n")})
    assert [(base.id, base.path, base.origin) for base in found.bases] == [
        ("a", other, "argument"),
        ("n", place.work / "n", "argument"),
    ]


def test_named_bases_need_no_config(place):
    found = place.discover(Path("/"), named={"n": place.knowledge("work/n")})
    assert ids(found) == ["n"]
    assert found.bases[0].writable is False


def test_a_named_directory_that_is_not_there_is_a_problem(place):
    (problem,) = place.discover(place.work, named={"n": place.work / "gone"}).problems
    assert problem.subject == "n"
    assert "fix the --base or KBHUB_BASES that names it" in problem.message


def test_arguments_win_over_the_variable(place):
    home = {"HOME": str(place.home), "USERPROFILE": str(place.home)}
    env = {**home, "KBHUB_BASES": os.pathsep.join(["a=/x", "b=~/y", ""])}
    bases = parse_base_arguments(["a=/z=1"], env)
    assert bases == {"a": Path("/z=1"), "b": place.home / "y"}
    assert parse_base_arguments([], {}) == {}


@pytest.mark.parametrize(
    "value", ["a", "=x", "a=", "project=/x", "*=/x", "a b=/x", "a@b=/x", "a/b=/x", "user=/x", "memory=/x", "a=\0"]
)
def test_a_wrong_argument_is_an_error_that_names_its_source(value):
    with pytest.raises(UsageError, match=r"^--base "):
        parse_base_arguments([value], {})
    if os.pathsep not in value:
        with pytest.raises(ConfigError, match=r"^KBHUB_BASES: "):
            parse_base_arguments([], {"KBHUB_BASES": value})


def test_an_id_given_twice_is_an_error():
    with pytest.raises(UsageError, match="given twice"):
        parse_base_arguments(["a=/x", "a=/y"], {})


# One directory by two names


def test_a_project_base_that_is_one_of_the_users_is_one_base_with_both_names(place):
    app = place.repository("work/app")
    place.knowledge("work/app/knowledge")
    place.pointer("work/app", {"contexts": {"a": "pointer", "b": "pointer"}, "exclude": ["x"], "name": "P"})
    (place.home / "link").symlink_to(app / "knowledge")
    entry = {"knowledge": "~/link", "weight": 3, "writable": False, "contexts": {"b": "mine"}, "description": "D"}
    place.config({"bases": {"mine": entry}, "repos": {"*": "mine"}})
    (base,) = place.discover(app).bases
    assert (base.id, base.names, base.origin, base.name) == ("project", ("mine",), "pointer", "P")
    assert (base.weight, base.writable, base.description) == (3, False, "D")
    assert (base.contexts, base.exclude) == ({"a": "pointer", "b": "mine"}, ("x",))


def test_the_users_word_makes_a_read_only_project_base_writable(place):
    app = place.repository("work/app")
    place.knowledge("work/app.knowledge")
    place.config(
        {"bases": {"k": {"knowledge": str(place.work / "app.knowledge"), "writable": True}}, "repos": {"*": "k"}}
    )
    assert place.project(app).writable is True


def test_a_base_that_is_not_active_here_does_not_join_the_project(place):
    app = place.repository("work/app")
    place.knowledge("work/app/knowledge")
    place.config({"bases": {"k": {"knowledge": str(app / "knowledge"), "weight": 5}}})
    base = place.project(app)
    assert (base.names, base.weight) == ((), 1.0)


def test_two_of_the_users_own_bases_on_one_directory_are_an_error(place):
    place.config({"bases": global_bases(place, ["a"]), "repos": {"*": "a"}})
    (place.work / "link").symlink_to(place.home / "a")
    with pytest.raises(ConfigError, match="'a' and 'n' are the same directory"):
        place.discover(place.work, named={"n": place.work / "link"})


def test_the_project_base_comes_first_and_then_the_others_by_id(place):
    app = place.repository("work/app")
    place.knowledge("work/app/knowledge")
    place.config({"bases": global_bases(place), "repos": {"*": ["c", "a", "b"]}})
    assert ids(place.discover(app)) == ["project", "a", "b", "c"]


def test_nothing_found_is_no_error(place):
    found = place.discover(place.folder("work/empty"))
    assert (found.bases, found.problems) == ((), ())
    assert found.looked_for
