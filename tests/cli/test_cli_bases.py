"""Bases, contexts, listings and their formats from the shell."""

import csv
import io
import json
import sys
from xml.etree.ElementTree import fromstring

import pytest

from kbhub.cli.commands.search import MACHINE_LIMIT
from kbhub.documents.shown_text import cell_width
from setup_machine import Terminal

NUMBERED = "# Rolling back\n\nfirst\n\nRun `shop rollback`.\n\nthen\n\nwait\n\nafter\n\nTell them of the rollback.\n"


@pytest.fixture
def kbhub(kbhub, environment):
    """Runs a command in this process, in the project, as a user with a base of notes and a project with knowledge."""
    environment.write("knowledge/rollback.md", NUMBERED)
    environment.write(f"{environment.home}/notes/ops/a.md", "---\ntags: [x, y/z]\ndate: 2024-01-02\n---\n# A | b\n")
    environment.configure(bases={"notes": "~/notes"}, repos={"*": "notes"})
    return kbhub


def test_a_base_is_added_listed_renamed_and_removed(kbhub, environment):
    environment.write(environment.home / "team" / "t.md", "# T\n")
    added = kbhub("base", "add", "ops=~/team", "--for", str(environment.home))
    assert added.out == f"Added ops: {environment.home}/team\nActive in projects below ~, but not here.\n"
    listed = kbhub("base", "list")
    assert [line.split()[0] for line in listed.out.splitlines()] == ["project", "notes", "ops"]
    assert "Renamed to o2" in kbhub("base", "rename", "ops", "o2").out
    assert f"{environment.home}/team" in kbhub("base", "show", "o2").out
    assert "Removed o2" in kbhub("base", "remove", "o2").out
    again = kbhub("base", "remove", "o2")
    assert (again.code, again.err) == (2, "kbhub: No base 'o2'; there are: notes.\n")


def test_every_listing_is_valid_in_every_format_and_lines_are_shown_as_grep_does_chosen_and_numbered(kbhub):
    for line in ("ls notes/nope", "base list", "base context list", "status", "search rollback", "read rollback.md"):
        command = line.split()
        json.loads(kbhub(*command, "--json").out)
        assert fromstring(kbhub(*command, "--xml").out).tag == "results"
        assert len({len(row) for row in csv.reader(io.StringIO(kbhub(*command, "--csv").out))}) == 1
        assert kbhub(*command, "--md").out.startswith(("| ", "## "))
        assert all(len(row) == 4 for row in csv.reader(io.StringIO(kbhub(*command, "--files").out)))

    out = kbhub("search", "shop rollback", "--in", "project", "-C", "1", "--line-numbers").out
    shown = [line.removeprefix("  │ ") for line in out.splitlines() if line.startswith("  │")]
    assert shown == [*(" 4-", " 5:Run `shop rollback`.", " 6-", "--"), *("12-", "13:Tell them of the rollback.")]
    assert kbhub("read", "rollback.md", "--from", "5", "-l", "3", "--line-numbers").out == (
        "5:Run `shop rollback`.\n6:\n7:then\n"
    )
    reading = json.loads(kbhub("read", "rollback.md", "--from", "5", "-l", "3", "--json").out)["readings"][0]
    assert (reading["start_line"], reading["end_line"], reading["rest"]) == (5, 7, "rollback.md:8:6")


def test_contexts_are_shown_with_files_and_hits(kbhub, environment, monkeypatch):
    kbhub("base", "context", "add", "/", "all of it")
    kbhub("base", "context", "add", "notes/ops", "what to do")
    monkeypatch.chdir(environment.project / "knowledge")
    assert kbhub("base", "context", "add", "the shop").out.startswith("project is: the shop\n")
    assert kbhub("ls", "notes", "--files").out.split(",")[-1] == "all of it / what to do\n"
    assert kbhub("search", "rollback", "--files", "-n", "1").out.endswith(",rollback.md,all of it / the shop\n")
    assert "notes/ops/  what to do" in kbhub("base", "context", "list").out
    assert kbhub("base", "context", "rm").code == 0
    assert kbhub("base", "context", "rm").code == 2


def test_whole_documents_and_every_hit_are_shown_if_wanted(kbhub, environment):
    for number in range(MACHINE_LIMIT + 10):
        environment.write(f"knowledge/n{number}.md", f"# Rollback {number}\n\n{'filler words here. ' * 80}\nthe end\n")

    def hits(*options):
        return json.loads(kbhub("search", "rollback", "--in", "project", "--json", *options).out)["hits"]

    assert len(hits()) == MACHINE_LIMIT
    assert len(hits("-n", "3")) == 3
    assert len(hits("--all")) == MACHINE_LIMIT + 11
    assert all(hit["excerpt"].rstrip().endswith("the end") for hit in hits("--full") if hit["path"] != "rollback.md")
    assert all(hit["score"] >= 0.5 for hit in hits("--all", "--min-score", "0.5"))


def test_cleanup_asks_before_it_deletes(kbhub, environment, monkeypatch):
    kbhub("admin", "index")
    kbhub("base", "remove", "notes")
    index = next((environment.hub().cache / "bases").glob("notes-*.db"))

    dry = kbhub("admin", "cleanup", "--dry-run")
    asked = kbhub("admin", "cleanup")
    assert (dry.code, asked.code) == (0, 2)
    assert str(index) in dry.out
    assert "--yes" in asked.err
    monkeypatch.setattr(sys, "stdin", Terminal("n\n"))
    assert kbhub("admin", "cleanup").code == 0
    assert index.exists()
    monkeypatch.setattr(sys, "stdin", Terminal("y\n"))
    assert "freed" in kbhub("admin", "cleanup").out
    assert not index.exists()
    assert "Nothing to delete" in kbhub("admin", "cleanup").out


def test_long_text_goes_through_the_pager_of_a_terminal(kbhub, streams, environment, tmp_path):
    """Which may be a line of shell, as an editor's terminal sets `head -n 10000 | cat`; the lines fit."""
    for number in range(30):
        environment.write(f"knowledge/n{number}.md", f"# Rollback {number}\n\n{'A rollback. ' * 9}\n")
    paged = tmp_path / "paged"
    pager = {"PAGER": f"cat > {paged}", "LINES": "24", "NO_COLOR": "1", "COLUMNS": "60"}
    assert "# Rollback" not in streams("search", "rollback", "-n", "20", **pager)
    assert paged.read_text().count("│ # Roll") == 20
    assert 50 < max(map(cell_width, paged.read_text().splitlines())) <= 60
    paged.unlink()
    assert "# Rollback" in streams("search", "rollback", "-n", "20", "--no-pager", **pager)
    assert "# Rollback" in streams("search", "rollback", "-n", "2", **pager)
    assert not paged.exists()
