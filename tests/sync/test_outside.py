"""Markdown of a project that no base has is told where somebody may miss it."""

import pytest

import kbhub.sync.base_suggestions
from conftest import make_repository
from kbhub.sync.base_suggestions import outside

HERE = (
    "3 Markdown files in this project (wiki/, adr/) are not part of a base; `kbhub init --knowledge .` includes them."
)


@pytest.fixture
def project(environment):
    """A project whose wiki and decisions lie beside its knowledge."""
    environment.write("knowledge/crates.md", "# Crates\n\nA crate holds bottles.\n")
    for path in ("wiki/a.md", "wiki/deep/b.MD", "adr/0001.markdown"):
        environment.write(path, "# Something else\n")
    environment.write(".github/pull.md", "hidden")
    environment.write("node_modules/x/README.md", "another's")
    environment.write("wiki/picture.png", "")
    environment.write("build/out.md", "made")
    environment.write(".gitignore", "build/\n")
    return environment


def notes_of(environment):
    return outside(environment.hub())


def test_search_and_status_say_what_is_not_searched(project, kbhub):
    assert f"kbhub: {HERE}\n" in kbhub("search", "zebra flight").err
    assert kbhub("search", "zebra flight", "--json").json["notes"] == [HERE]
    assert "not part of a base" not in kbhub("search", "what does a crate hold").err
    assert f"Note: {HERE}" in kbhub("status").out.splitlines()
    assert kbhub("status", "--json").json["notes"] == [HERE]


def test_where_nothing_is_active_the_command_line_says_what_could_be(environment, kbhub):
    """A vault that is no repository has its documents in its root."""
    for name in ("one.md", "two.md"):
        environment.write(f"../vault/{name}", "# A note\n")

    vault = environment.project.parent / "vault"
    err = kbhub("search", "crate", "--root", str(vault), code=1).err

    assert "2 Markdown files in this project (one.md, two.md) are not part of a base; " in err
    assert f"`kbhub init --root {vault} --knowledge {vault}` includes them." in err


def test_a_pointer_is_what_is_to_be_changed(project, kbhub):
    project.write(".kbhub.json", '{"knowledge": "./knowledge"}')

    (note,) = notes_of(project)
    assert note.endswith('`"knowledge": "."` in its .kbhub.json includes them.')


def test_knowledge_that_lies_elsewhere_is_not_replaced(project, kbhub):
    project.write(f"{project.home}/shop/a.md", "# A\n")
    project.write("knowledge/crates.md", "# Crates\n")
    kbhub("init", "--knowledge", "~/shop", code=0)

    (note,) = notes_of(project)
    assert note.startswith("4 Markdown files in this project (wiki/, adr/, knowledge/) are")
    assert note.endswith("`kbhub base add . --for .` includes them.")
    kbhub("base", "add", ".", "--for", ".", code=0)
    assert notes_of(project) == ()


def test_nothing_is_said_where_it_would_not_help(project):
    """All is in a base, kbhub is off here, or something else is to be fixed first."""
    project.write("../elsewhere/a.md", "# A\n")
    for pointer in ('{"enabled": false}', '{"knowledge": "."}', '{"knowledge": "../elsewhere"}', "{"):
        project.write(".kbhub.json", pointer)
        assert notes_of(project) == ()


def test_the_docs_of_a_repository_are_part_of_its_base(environment):
    for path in ("docs/a.md", "README.md", "CHANGELOG.md"):
        environment.write(path, "# A\n")

    assert notes_of(environment)[0].startswith("1 Markdown file in this project (CHANGELOG.md) is not part of a base")


def test_a_base_of_the_users_within_the_project_counts(project):
    project.configure(bases={"wiki": str(project.project / "wiki")}, repos={"*": ["wiki"]})

    assert notes_of(project)[0].startswith("1 Markdown file in this project (adr/) is")


def test_the_home_directory_is_no_project(environment):
    """A repository of dotfiles is not counted."""
    make_repository(environment.home)
    environment.write(f"{environment.home}/notes.md", "# A\n")

    assert outside(environment.hub(cwd=environment.home)) == ()


def test_the_look_is_bounded_and_says_so(project, monkeypatch):
    for number in range(30):
        project.write(f"wiki/n{number}.md", "# N\n")
    monkeypatch.setattr(kbhub.sync.base_suggestions, "MOST_ENTRIES", 20)

    (note,) = notes_of(project)
    assert note.startswith("At least ")


def test_a_name_of_a_clone_stays_short_and_on_one_line(project):
    for number in range(4):
        project.write(f"{number}{'x' * 200}\n- ignore/a.md", "# A\n")

    (note,) = notes_of(project)
    assert len(note) < 300
