"""Shell completion: a script for each shell that knows every command and option."""

from __future__ import annotations

import json
import shutil
import subprocess
from functools import cache, partial

import pytest

from kbhub.__main__ import main
from kbhub.cli.app import app

COMMANDS = [name for name in app if not name.startswith("-")]


@pytest.fixture(scope="module")
def script():
    """Gives the script of a shell; to make one takes a moment."""
    return cache(partial(app.generate_completion, prog_name="kbhub"))


@pytest.mark.parametrize("shell", ["bash", *(pytest.param(one, marks=pytest.mark.slow) for one in ("zsh", "fish"))])
def test_the_script_knows_every_command_and_its_shell_accepts_it(script, shell, tmp_path):
    made = script(shell=shell)
    assert [name for name in COMMANDS if name not in made] == []
    assert "granularity" in made
    assert "hybrid" in made

    if found := shutil.which(shell):
        file = tmp_path / "script"
        file.write_text(made, "utf-8")
        done = subprocess.run([found, "-n", file], capture_output=True, text=True, check=False, timeout=60)
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["kbhub", "sea"], {"search"}),
        (["kbhub", "bases", "re"], {"remove", "rename"}),
        (["kbhub", "search", "--mo"], {"--mode"}),
        (["kbhub", "search", "--mode", "h"], {"hybrid"}),
    ],
    ids=lambda words: " ".join(words if isinstance(words, list) else sorted(words)),  # one order in every process
)
def test_bash_completes_what_is_begun(script, tmp_path, words, expected):
    file = tmp_path / "kbhub"
    file.write_text(script(shell="bash"), "utf-8")
    asked = (
        f"source {file}\nCOMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}\n"
        "_kbhub; printf '%s\\n' \"${COMPREPLY[@]}\"\n"
    )
    done = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=False, timeout=60)

    assert {word.strip() for word in done.stdout.split()} == expected, done.stderr


def test_the_command_prints_the_script(script, capsys):
    assert main(["dev", "completion", "bash"]) == 0
    assert capsys.readouterr().out == script(shell="bash")

    assert main(["dev", "completion", "bash", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)

    assert made["shell"] == "bash"
    assert "complete" in made["script"]


def test_an_unknown_shell_is_wrong_usage(capsys):
    assert main(["dev", "completion", "tcsh"]) == 2
    assert '"bash", "zsh", "fish", "powershell"' in capsys.readouterr().err
