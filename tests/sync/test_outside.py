"""Markdown that no base has, and files of kinds that a base does not take, are told where somebody may miss them."""

import pytest

import kbhub.sync.base_suggestions
from conftest import make_repository
from kbhub.sync.base_suggestions import outside
from kbhub.sync.freshness import freshen

HERE = "3 documents in this project (wiki/, adr/) are not part of a base; `kbhub init --knowledge .` includes them."


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


def test_a_pointer_is_what_is_to_be_changed_and_a_base_of_the_users_within_the_project_counts(project, kbhub):
    project.write(".kbhub.json", '{"knowledge": "./knowledge"}')
    (note,) = notes_of(project)
    assert note.endswith('`"knowledge": "."` in its .kbhub.json includes them.')
    project.configure(bases={"wiki": str(project.project / "wiki")}, repos={"*": ["wiki"]})
    assert notes_of(project)[0].startswith("1 document in this project (adr/) is")


def test_knowledge_that_lies_elsewhere_is_not_replaced(project, kbhub):
    project.write(f"{project.home}/shop/a.md", "# A\n")
    project.write("knowledge/crates.md", "# Crates\n")
    kbhub("init", "--knowledge", "~/shop", code=0)
    (note,) = notes_of(project)
    assert note.startswith("4 documents in this project (wiki/, adr/, knowledge/) are")
    assert note.endswith("`kbhub base add . --for .` includes them.")
    kbhub("base", "add", ".", "--for", ".", code=0)
    assert notes_of(project) == ()


def test_nothing_is_said_where_it_would_not_help(project):
    """All is in a base, kbhub is off here, or something else is to be fixed first."""
    project.write("../elsewhere/a.md", "# A\n")
    for pointer in ('{"enabled": false}', '{"knowledge": "."}', '{"knowledge": "../elsewhere"}', "{"):
        project.write(".kbhub.json", pointer)
        assert notes_of(project) == ()


def test_the_docs_of_a_repository_are_part_of_its_base_and_the_home_directory_is_no_project(environment):
    for path in ("docs/a.md", "README.md", "CHANGELOG.md"):
        environment.write(path, "# A\n")
    assert notes_of(environment)[0].startswith("1 document in this project (CHANGELOG.md) is not part of a base")
    # A repository of dotfiles is not counted.
    make_repository(environment.home)
    environment.write(f"{environment.home}/notes.md", "# A\n")
    assert outside(environment.hub(cwd=environment.home)) == ()


def test_the_look_is_bounded_and_says_so_and_names_of_a_clone_stay_short(project, monkeypatch):
    for number in range(30):
        project.write(f"{number}{'x' * 200}\n- ignore/a.md", "# A\n")
    monkeypatch.setattr(kbhub.sync.base_suggestions, "MOST_ENTRIES", 50)
    (note,) = notes_of(project)
    assert note.startswith("At least ")
    assert len(note) < 300


NAMES = ["a.txt", "deep/b.txt", "c.tex", "page.html", "d.doc"]
COUNTS = {".txt": 2, ".tex": 1, ".html": 1, ".doc": 1}
TOLD = (
    "not indexed: 2 .txt, 1 .tex (`include` adds them as plain text), 1 .doc (convert them to Markdown), "
    "1 .html (`include` adds them)"
)


@pytest.fixture
def mixed(environment):
    """A project with files of several kinds, some of them hidden, ignored or no text."""
    environment.write("knowledge/crates.md", "# Crates\n")
    for name in (*NAMES, ".hidden.txt", ".dot/e.txt", "node_modules/f.txt", "build/g.txt", "h.log.tex", "i.png", "txt"):
        environment.write(f"knowledge/{name}", "some text\n")
    environment.write(".gitignore", "build/\n*.log.tex\n")
    return environment


def test_index_status_and_audit_count_them_by_kind(mixed, environment, kbhub):
    """As text, with what would include them, and as data; nothing is said where there are none."""
    assert f"  {TOLD}" in kbhub("admin", "index", code=0).out.splitlines()
    assert TOLD in kbhub("status", code=0).out
    assert f"project: {TOLD}" in kbhub("audit").err
    assert kbhub("admin", "index", "--json").json["reports"][0]["passed_over"] == COUNTS
    assert kbhub("status", "--json").json["bases"][0]["passed_over"] == COUNTS
    assert kbhub("audit", "--json").json["passed_over"] == {"project": COUNTS}
    assert "not indexed" not in kbhub("audit", "--check", "links").err
    for name in NAMES:
        (environment.project / "knowledge" / name).unlink()
    assert "not indexed" not in kbhub("admin", "index").out + kbhub("status").out


def test_the_index_keeps_the_counts_and_a_comparison_renews_them(mixed):
    """Another process knows them before it looks at a file; one that looked knows what came since."""
    mixed.hub().sync()
    mixed.write("knowledge/new.tex", "text\n")
    later = mixed.hub()
    assert later.status().bases[0].passed_over == COUNTS
    freshen(later)
    assert later.status().bases[0].passed_over == {**COUNTS, ".tex": 2}
