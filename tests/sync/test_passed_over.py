"""Files of kinds that are not taken are counted, with what would include them."""

import pytest
from mcp import Client

from kbhub.server.server import KbhubServer
from kbhub.sync.freshness import freshen

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


def test_what_include_names_is_taken_and_no_longer_counted(mixed, kbhub):
    mixed.write(".kbhub.json", '{"include": ["*.txt"]}')

    (report,) = kbhub("admin", "index", "--json").json["reports"]

    assert report["added"] == 3
    assert report["passed_over"] == {name: count for name, count in COUNTS.items() if name != ".txt"}


def test_of_the_docs_of_a_repository_what_is_beside_them_does_not_count(environment):
    """Only what lies in the parts that belong to the base."""
    for name in ("docs/a.md", "docs/b.tex", "LICENSE.txt", "src/requirements.txt"):
        environment.write(name, "text\n")

    (report,) = environment.hub().sync()

    assert report.passed_over == {".tex": 1}


def test_of_session_logs_nothing_else_is_counted(environment):
    """A folder of them is full of other files."""
    environment.write("../logs/a.txt", "text\n")
    logs = {"knowledge": str(environment.project.parent / "logs"), "kind": "session"}
    environment.configure(bases={"logs": logs}, repos={"*": "logs"})

    assert [report.passed_over for report in environment.hub().sync()] == [{}]


@pytest.mark.parametrize("files", [3, 100])
def test_a_base_that_is_full_counts_a_file_once(mixed, files):
    """A folder with more files than may be is listed twice."""
    for number in range(6):
        mixed.write(f"knowledge/n{number}.md", "# N\n")
    mixed.configure(limits={"files": files})

    (report,) = mixed.hub().sync()

    assert report.passed_over[".tex"] == 1


@pytest.mark.anyio
@pytest.mark.usefixtures("patient")
async def test_a_model_is_told_in_status_and_in_an_audit(mixed, mode):
    mixed.configure(tools="all")
    async with Client(KbhubServer(mixed.hub(), structured=True), mode=mode) as client:
        status = await client.call_tool("status", {"reload": True})
        audit = await client.call_tool("audit", {"checks": ["files"]})

    assert TOLD in status.content[0].text
    assert status.structured_content["bases"][0]["passed_over"] == COUNTS
    assert f"project: {TOLD}" in audit.content[0].text
    assert audit.structured_content["passed_over"] == {"project": COUNTS}


def test_the_index_keeps_the_counts_and_a_comparison_renews_them(mixed):
    """Another process knows them before it looks at a file; one that looked knows what came since."""
    mixed.hub().sync()
    mixed.write("knowledge/new.tex", "text\n")
    later = mixed.hub()

    assert later.status().bases[0].passed_over == COUNTS
    freshen(later)
    assert later.status().bases[0].passed_over == {**COUNTS, ".tex": 2}
