"""Documents are written, deleted, restored and renamed from a shell."""

import json
from functools import partial

import pytest

from conftest import write_two_bases


@pytest.fixture
def kbhub(kbhub, environment):
    """Runs a command in this process, in a project with a document; it is to end well, unless told otherwise."""
    environment.write("knowledge/a.md", "---\nx: 1\n---\n# A\n\n## Log\n\n- one\n")
    environment.write("knowledge/index.md", "[a](a.md)\n")
    return partial(kbhub, code=0)


def text_of(environment, path):
    return (environment.project / "knowledge" / path).read_text()


def test_a_document_is_written_and_changed_with_keys_of_json_or_text_and_text_from_standard_input(kbhub, environment):
    assert kbhub("doc", "write", "new", "--text", "# New").out.startswith("Created new.md  #")
    done = kbhub("doc", "write", "a", "--mode", "append", "--section", "Log", "--text", "- two", "--json").json
    assert done["action"] == "appended"
    assert "lines" in kbhub("doc", "write", "a", "--mode", "append", "--text", "End.", "--based-on", done["hash"]).out
    again = kbhub("doc", "write", "a", "--mode", "append", "--text", "End.", "--based-on", done["hash"], code=1)
    assert "changed since" in again.err
    assert text_of(environment, "a.md") == "---\nx: 1\n---\n# A\n\n## Log\n\n- one\n- two\n\nEnd.\n"

    given = ("--set", 'tags=["a"]', "--set", "n=3", "--set", "s=a: b", "--unset", "x")
    kbhub("doc", "write", "a", "--mode", "update", *given)
    assert text_of(environment, "a.md").startswith("---\ntags: [a]\nn: 3\ns: 'a: b'\n---\n# A\n")
    kbhub("doc", "write", "über", "-", stdin="# Über\n".encode())
    assert text_of(environment, "über.md").endswith("# Über\n")
    assert "UTF-8" in kbhub("doc", "write", "latin", "-", stdin=b"\xff", code=2).err
    assert not (environment.project / "knowledge" / "latin.md").exists()


def test_a_document_comes_back_by_what_it_was_deleted_by_and_is_listed_restored_and_emptied(kbhub, environment):
    for name in ("a", "a.md", "project@a", "knowledge/a.md", "./knowledge/a"):
        kbhub("doc", "delete", name)
        assert kbhub("doc", "restore", name).out.startswith("Restored a.md  ")
    assert (environment.project / "knowledge" / "a.md").exists()

    kbhub("admin", "index")
    done = kbhub("doc", "delete", "a")
    assert "kbhub doc restore" in done.out
    assert done.err == "kbhub: Broken now: index.md:1\n"
    assert "a.md" in kbhub("doc", "restore", "--list").out == kbhub("doc", "restore").out
    assert kbhub("doc", "restore", "a.md").out.startswith("Restored a.md")
    assert kbhub("doc", "restore").out == "The trash is empty.\n"
    kbhub("doc", "delete", "a")
    assert len(json.loads(kbhub("doc", "restore", "--list", "--json").out)["entries"]) == 1
    assert kbhub("doc", "restore", "--empty-older-than", "1").out == "Deleted 0 documents for good.\n"
    assert kbhub("doc", "restore", "--empty-older-than", "0").out == "Deleted 1 document for good.\n"


def test_paths_from_the_working_directory_lead_into_bases(kbhub, environment, monkeypatch):
    environment.write("knowledge/runbooks/rollback.md", "# Rollback\n\nAgain.\n")
    environment.write(environment.home / "notes" / "vim.md", "# Vim\n")
    write_two_bases(environment)
    assert kbhub("read", "knowledge/runbooks/rollback.md:3", "--json").json["readings"][0]["ref"] == (
        "runbooks/rollback.md"
    )
    assert environment.hub().read(["knowledge/runbooks/rollback.md"]).unread, "only where a person types"
    for place in ("knowledge/runbooks", "./knowledge/runbooks/", "knowledge/runbooks/rollback.md"):
        assert [one["path"] for one in kbhub("ls", place, "--json").json["documents"]] == ["runbooks/rollback.md"]
    assert len(kbhub("ls", "./knowledge", "--json").json["documents"]) == 3
    assert kbhub("related", "./knowledge/a.md", "--json").json["ref"] == "a.md"
    for line, said in (
        ("write knowledge/a.md --mode append --text End.", "Appended a.md "),
        ("rename knowledge/a.md knowledge/runbooks/", "Renamed a.md to runbooks/a.md"),
        ("rename knowledge/runbooks/a.md knowledge/", "Renamed runbooks/a.md to a.md"),
    ):
        assert kbhub("doc", *line.split()).out.startswith(said)

    monkeypatch.chdir(environment.project / "knowledge" / "runbooks")
    assert kbhub("read", "rollback.md").out == "# Rollback\n\nAgain.\n"
    assert kbhub("read", "../../../../home/notes/vim.md").out == "# Vim\n"
    assert kbhub("ls", "../runbooks", "--json").json["documents"][0]["path"] == "runbooks/rollback.md"
    assert kbhub("doc", "delete", "../a").out.startswith("Deleted a.md")


def test_a_new_document_goes_where_a_path_from_the_working_directory_leads(kbhub, environment, monkeypatch):
    """It is not nested, unless the base has a folder of that name; in a base, paths begin at its top."""

    def written(path, code=0):
        return kbhub("doc", "write", path, "--text", "# Text", code=code)

    def lead(paths):
        assert {path: written(path).out.split("  ")[0] for path in paths} == paths

    lead(
        {
            "knowledge/foo": "Created foo.md", "./knowledge/guides/foo.md": "Created guides/foo.md",
            "knowledge": "Created knowledge.md", "elsewhere/foo": "Created elsewhere/foo.md",
        }
    )  # fmt: skip
    assert not (environment.project / "knowledge" / "knowledge").exists()

    monkeypatch.chdir(environment.project / "knowledge" / "guides")
    lead({"bar": "Created bar.md", "../other/bar": "Created other/bar.md"})
    assert "outside" in written("../../bar", code=1).err

    monkeypatch.chdir(environment.project)
    (environment.project / "knowledge" / "knowledge").mkdir()
    lead({"knowledge/bar": "Created knowledge/bar.md"})
