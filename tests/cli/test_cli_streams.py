"""No traceback for what can be foreseen: streams that are closed or full, a folder that is gone; and `--verbose`."""

import io
import os
import sys
from pathlib import Path

import pytest

from conftest import ran
from kbhub.api import Hub
from kbhub.cli.app import MESSAGE_CHARACTERS, complain
from kbhub.workspace.files import WORKING_DIRECTORY_GONE

ROOT = Path(__file__).parents[2]
POSIX = pytest.mark.skipif(os.name == "nt", reason="needs a POSIX shell")
FULL = pytest.mark.skipif(not Path("/dev/full").exists(), reason="has no device that is always full")


@pytest.fixture
def project(environment):
    """A project with a document."""
    environment.write("knowledge/crate.md", "# Crates\n\nA crate is a parcel.\n")
    return environment


@POSIX
def test_closed_streams_read_and_write_nothing_and_a_working_directory_that_is_gone_is_said(
    project, kbhub, monkeypatch
):
    gone = project.home / "gone"
    script = (
        f'kbhub() {{ "{sys.executable}" -m kbhub "$@"; }}\n'
        "kbhub read nowhere.md <&- >&- 2>&-\n"  # which makes the index first
        f"code=$?; mkdir {gone}; cd {gone}; rmdir {gone}; kbhub serve < /dev/null && exit $code"
    )
    env = {**project.env, "PYTHONPATH": str(ROOT / "src")}
    assert ran("sh", "-c", script, cwd=project.project, env=env) == (1, "", "")
    assert (project.project / "knowledge" / "crate.md").read_text("utf-8") == "# Crates\n\nA crate is a parcel.\n"
    monkeypatch.setattr(sys, "stdin", None)
    assert "Traceback" not in kbhub("search", "-", code=2).err
    sys.stdin.close()

    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert kbhub("search", "crate") == (2, "", f"kbhub: {WORKING_DIRECTORY_GONE}\n")
    kbhub("--help", code=0)
    assert f"{project.project}/knowledge" in kbhub("status", "--root", str(project.project), code=0).out
    assert Hub.open().options.cwd == Path(os.sep)


@FULL
@pytest.mark.parametrize(("command", "buffered"), [("read crate.md", True), ("status --json", False), ("--help", True)])
def test_results_that_cannot_be_written_are_said(project, kbhub, monkeypatch, command, buffered):
    """A full disk behind `>`: one sentence and exit code 1, buffered or not."""
    buffer = Path("/dev/full").open("wb", buffering=-1 if buffered else 0)  # noqa: SIM115
    with io.TextIOWrapper(buffer, write_through=not buffered) as full:
        monkeypatch.setattr(sys, "stdout", full)
        done = kbhub(*command.split(), code=1)
        monkeypatch.undo()
    assert done.err == "kbhub: Cannot write the results: No space left on device.\n"


def test_an_endless_argument_makes_no_endless_message(project, kbhub, capsys):
    told = kbhub("read", "a" * 100_000, code=1).err
    assert len(told) < MESSAGE_CHARACTERS + 100
    assert told.endswith("Search for it to get its ref.\n")
    complain("x" * MESSAGE_CHARACTERS)
    assert capsys.readouterr().err == f"kbhub: {'x' * MESSAGE_CHARACTERS}\n"


COMMANDS = (
    *("ask crate", "audit", "ls", "doc write new.md --text x", "doc delete crate.md", "base trust knowledge"),
    *("doc restore", "ls --tags", "remember x", "memories", "recall x", "dev log show", "dev log clear", "gaps"),
    *("doc distil c x", "base trust --list", "doctor", "doctor --fix", "admin index", "search crate", "read crate.md"),
    *("status", "related crate.md", "admin cleanup", "forget --all", "memories restore", "admin stop", "base list"),
)


@pytest.mark.parametrize("fault", ["Not a directory. Name", "Permission denied. Make it writable, or name"])
@pytest.mark.parametrize("variable", ["KBHUB_CACHE_DIR", "KBHUB_DATA_DIR"])
def test_a_folder_of_ours_that_is_a_file_or_closed_is_no_crash(
    project, kbhub, bound, closed, monkeypatch, variable, fault
):
    """Whatever a command cannot keep, it says so in sentences, or goes on without."""
    place = project.home / "place"
    monkeypatch.setenv(variable, str(place))
    project.env[variable] = str(place)
    run = kbhub if fault.startswith("Not") else bound
    if run is kbhub:
        place.write_text("mine")
    else:
        place.mkdir()
        closed(place, 0)
    for command in COMMANDS:
        project.write("knowledge/crate.md", "# Crates\n\nA crate is a parcel.\n")
        done = run(*command.split())
        assert done.code in (0, 1, 2), command
        assert all(line.startswith("kbhub: ") for line in done.err.splitlines()), command
        assert run is bound or place.read_text() == "mine", command
        if variable == "KBHUB_CACHE_DIR" and command.startswith(("ask", "ls", "admin index", "search", "related")):
            (said,) = (line for line in done.err.splitlines() if "project" in line)
            assert (done.code, str(place) in said) == (1, True), command
            assert said.endswith(f": {fault} another folder with --cache-dir or KBHUB_CACHE_DIR.")


def test_verbose_says_what_is_looked_for_found_and_done(project, kbhub, quiet):
    evil = project.write(str(project.home / "evil\x1b[2J" / "a.md"), "# A\n").parent
    search = ("search", "crate", "--json", "--base", f"evil={evil}")
    plain = kbhub(*search).out
    told = kbhub(*search, "--verbose")
    assert told.out == plain
    assert "\x1b" not in told.err
    looked_for = (f"workspace: {project.project}", "base project: ", ".kbhub.json, which does not exist")
    for part in (*looked_for, "hybrid: ranked 1"):
        assert part in told.err
    assert kbhub("status", "--verbose").err.count("workspace: ") == 1  # once, however often it is asked for
