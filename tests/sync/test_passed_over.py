"""Files of kinds that are not taken are counted, with what would include them."""

from __future__ import annotations

import pytest

NAMES = ["a.txt", "deep/b.txt", "c.tex", "page.html", "d.doc"]
COUNTS = {".txt": 2, ".tex": 1, ".html": 1, ".doc": 1}
TOLD = (
    "passed over: 2 .txt, 1 .tex (`include` takes them in as plain text), 1 .doc (convert them to Markdown), "
    "1 .html (`include` takes them in)"
)


@pytest.fixture
def mixed(environment):
    """A project with files of several kinds, some of them hidden, ignored or no text."""
    environment.write("knowledge/crates.md", "# Crates\n")
    for name in (*NAMES, ".hidden.txt", ".dot/e.txt", "node_modules/f.txt", "build/g.txt", "h.log.tex", "i.png", "txt"):
        environment.write(f"knowledge/{name}", "some text\n")
    environment.write(".gitignore", "build/\n*.log.tex\n")
    return environment


def test_index_and_status_count_them_by_kind(mixed, kbhub):
    """As text, with what would include them, and as data."""
    assert f"  {TOLD}" in kbhub("index", code=0).out.splitlines()
    assert f"project: {TOLD}" in kbhub("status", code=0).out.splitlines()
    assert kbhub("index", "--json").json["reports"][0]["passed_over"] == COUNTS
    assert kbhub("status", "--json").json["bases"][0]["passed_over"] == COUNTS


def test_what_include_names_is_taken_and_no_longer_counted(mixed, kbhub):
    """The rest is counted as before."""
    mixed.write(".kbhub.json", '{"include": ["*.txt"]}')

    (report,) = kbhub("index", "--json").json["reports"]

    assert report["added"] == 3
    assert report["passed_over"] == {name: count for name, count in COUNTS.items() if name != ".txt"}


def test_where_there_are_none_nothing_is_said(environment, kbhub):
    """Markdown and pictures are all that there is."""
    environment.write("knowledge/crates.md", "# Crates\n")
    environment.write("knowledge/a.png", "")

    assert "passed over" not in kbhub("index").out + kbhub("status").out


def test_of_the_docs_of_a_repository_what_is_beside_them_does_not_count(environment):
    """Only what lies in the parts that belong to the base."""
    for name in ("docs/a.md", "docs/b.tex", "LICENSE.txt", "src/requirements.txt"):
        environment.write(name, "text\n")

    (report,) = environment.hub().sync()

    assert report.passed_over == {".tex": 1}


def test_of_session_logs_nothing_else_is_counted(environment):
    """A folder of them is full of other files."""
    environment.write("../logs/a.txt", "text\n")
    environment.write(
        f"{environment.home}/.kbhub.json",
        '{"bases": {"logs": {"knowledge": "%s", "kind": "session"}}, "repos": {"*": ["logs"]}}'
        % (environment.project.parent / "logs"),
    )
    hub = environment.hub()

    assert [report.passed_over for report in hub.sync()] == [{}]


@pytest.mark.parametrize("files", [3, 100])
def test_a_base_that_is_full_counts_a_file_once(mixed, files):
    """A folder with more files than may be is listed twice."""
    for number in range(6):
        mixed.write(f"knowledge/n{number}.md", "# N\n")
    mixed.write(f"{mixed.home}/.kbhub.json", f'{{"limits": {{"files": {files}}}}}')

    (report,) = mixed.hub().sync()

    assert report.passed_over[".tex"] == 1
