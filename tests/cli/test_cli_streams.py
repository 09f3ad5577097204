"""No traceback for what can be foreseen: streams that are closed or full, a folder that is gone; and `--verbose`."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kbhub.__main__ import main
from kbhub.api import Hub
from kbhub.cli import options
from kbhub.cli.app import app
from kbhub.cli.console import MESSAGE_CHARACTERS, shortened
from kbhub.workspace.files import WORKING_DIRECTORY_GONE

ROOT = Path(__file__).parents[2]
POSIX = pytest.mark.skipif(os.name == "nt", reason="needs a POSIX shell")
FULL = pytest.mark.skipif(not Path("/dev/full").exists(), reason="has no device that is always full")


@pytest.fixture
def project(environment):
    """A project with a document."""
    environment.write("knowledge/crate.md", "# Crates\n\nA crate is a parcel.\n")
    return environment


def in_shell(environment, command: str, **changes: str):
    """Run a command line of a shell, in which `kbhub` is this one."""
    env = {**environment.env, "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "80", **changes}
    script = f'kbhub() {{ "{sys.executable}" -m kbhub "$@"; }}\n{command}'
    return subprocess.run(
        ["sh", "-c", script], cwd=environment.project, env=env, capture_output=True, text=True, check=False, timeout=60
    )


@POSIX
@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("kbhub search - <&-", 2),
        ("kbhub index <&- >&- 2>&- && kbhub read nowhere.md >&- 2>&-", 1),
    ],
)
def test_closed_streams_read_and_write_nothing(project, command, code):
    """As daemons and careless scripts start programs; no file of ours takes the place of a stream."""
    done = in_shell(project, command)

    assert "Traceback" not in done.stderr
    assert done.returncode == code
    assert (project.project / "knowledge" / "crate.md").read_text("utf-8") == "# Crates\n\nA crate is a parcel.\n"


@POSIX
@FULL
@pytest.mark.parametrize(("command", "unbuffered"), [("read crate.md", ""), ("status --json", "1"), ("--help", "")])
def test_results_that_cannot_be_written_are_said(project, command, unbuffered):
    """A full disk behind `>`: one sentence and exit code 1, buffered or not."""
    done = in_shell(project, f"kbhub {command} > /dev/full", PYTHONUNBUFFERED=unbuffered)

    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "kbhub: Cannot write the results: No space left on device."
    assert "Traceback" not in done.stderr


@POSIX
def test_a_reader_that_reads_one_line_is_no_error(project):
    for command in ("status --json", "search --help"):
        done = in_shell(project, f"kbhub {command} | head -1")

        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.count("\n") == 1


@POSIX
def test_a_working_directory_that_is_gone_is_said(project):
    """With what to do; help works, `--root` works, and the server stays up for the user's own bases."""
    gone = project.home / "gone"
    start = f"mkdir {gone} && cd {gone} && rmdir {gone} && "
    done = in_shell(project, f"{start}kbhub search crate")

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"kbhub: {WORKING_DIRECTORY_GONE}\n"
    done = in_shell(project, f"{start}kbhub --help && kbhub serve < /dev/null && kbhub status --root {project.project}")
    assert (done.returncode, "Traceback" in done.stderr) == (0, False)
    assert f"{project.project}/knowledge" in done.stdout


def test_an_endless_argument_makes_no_endless_message(project, monkeypatch, capsys):
    for name, value in project.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(project.project)

    assert main(["read", "a" * 100_000]) == 1
    told = capsys.readouterr().err
    assert len(told) < MESSAGE_CHARACTERS + 100
    assert told.endswith("`search` finds refs.\n")
    assert shortened("x" * MESSAGE_CHARACTERS) == "x" * MESSAGE_CHARACTERS


COMMANDS = (
    *("ask crate", "audit", "bases list", "ls", "write new.md --text x", "delete crate.md", "restore --list"),
    *("tags", "remember x", "memories", "recall x", "dev log show", "dev log clear", "gaps", "distil c x"),
    *("trust --list", "doctor", "doctor --fix", "index", "search crate", "read crate.md", "status"),
    *("related crate.md", "cleanup"),
)


@pytest.mark.parametrize("variable", ["KBHUB_CACHE_DIR", "KBHUB_DATA_DIR"])
def test_a_file_in_place_of_a_folder_of_ours_is_no_crash(project, kbhub, monkeypatch, variable):
    """Whatever a command cannot keep, it says so in sentences, or goes on without."""
    file = project.write(str(project.home / "file"), "mine")
    monkeypatch.setenv(variable, str(file))
    for command in COMMANDS:
        project.write("knowledge/crate.md", "# Crates\n\nA crate is a parcel.\n")
        done = kbhub(*command.split())
        assert done.code in (0, 1, 2), command
        assert all(line.startswith("kbhub: ") for line in done.err.splitlines()), command
        assert file.read_text("utf-8") == "mine", command


# -- --verbose ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def quiet():
    """Leaves the loggers as they were."""
    loggers = [logging.getLogger(name) for name in options.LOGGERS]
    before = [(one.handlers[:], one.level, one.propagate) for one in loggers]
    yield
    for one, (handlers, level, propagate) in zip(loggers, before, strict=True):
        one.handlers[:], one.propagate = handlers, propagate
        one.setLevel(level)


def test_verbose_says_what_is_looked_for_found_and_done(project, monkeypatch, capsys, quiet):
    """On standard error, harmless for a terminal; the results stay as they are."""
    evil = project.write(str(project.home / "evil\x1b[2J" / "a.md"), "# A\n").parent
    for name, value in project.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(project.project)
    main(["search", "crate", "--json", "--base", f"evil={evil}"])
    plain = capsys.readouterr().out
    main(["search", "crate", "--json", "--base", f"evil={evil}", "--verbose"])
    told = capsys.readouterr()

    assert told.out == plain
    assert "\x1b" not in told.err
    for part in (
        f"workspace: {project.project}",
        "base project: ",
        ".kbhub.json, which does not exist",
        "hybrid: ranked 1",
    ):
        assert part in told.err
    main(["status", "--verbose"])
    assert capsys.readouterr().err.count("workspace: ") == 1  # once, however often it is asked for


def test_every_command_takes_verbose():
    """It is one of the options that all have, except for what clients run."""

    def leaves(found):
        inner = [found[name] for name in found if not name.startswith("-")]
        if found.default_command:
            yield found
        for one in inner:
            yield from leaves(one)

    without = [
        one.name for one in leaves(app) if not any("--verbose" in a.names for a in one.assemble_argument_collection())
    ]
    assert without == [("hook",)]


def test_a_script_in_a_folder_that_is_gone_has_no_workspace(monkeypatch, tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()

    assert Hub.open().options.cwd == Path(os.sep)
