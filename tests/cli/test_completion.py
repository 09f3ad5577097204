"""Shell completion: a script for each shell that knows every command and option."""

import shutil
import subprocess
from functools import cache, partial

import pytest

from kbhub.cli.app import app

COMMANDS = [name for name in app if not name.startswith("-")]


@pytest.fixture(scope="module")
def script():
    """Gives the script of a shell; to make one takes a moment."""
    return cache(partial(app.generate_completion, prog_name="kbhub"))


@pytest.mark.parametrize("shell", ["bash", *(pytest.param(one, marks=pytest.mark.slow) for one in ("zsh", "fish"))])
def test_the_script_knows_every_command_and_its_shell_accepts_it(script, shell, tmp_path):
    made = script(shell=shell)
    assert [name for name in (*COMMANDS, "granularity", "hybrid") if name not in made] == []
    if shell != "bash" and (found := shutil.which(shell)):  # bash runs it below
        file = tmp_path / "script"
        file.write_text(made, "utf-8")
        done = subprocess.run([found, "-n", file], capture_output=True, text=True, check=False, timeout=60)
        assert (done.returncode, done.stderr) == (0, "")


COMPLETED = {
    "kbhub sea": ["search"],
    "kbhub base re": ["remove", "rename"],
    "kbhub search --mo": ["--mode"],
    "kbhub search --mode h": ["hybrid"],
}


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes_what_is_begun(script, tmp_path):
    file = tmp_path / "kbhub"
    file.write_text(script(shell="bash"), "utf-8")
    asked = f"source {file}\n" + "".join(
        f'COMP_WORDS=({words}); COMP_CWORD={words.count(" ")}\n_kbhub; echo "${{COMPREPLY[*]}}"\n'
        for words in COMPLETED
    )
    done = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=False, timeout=60)

    assert [sorted(line.split()) for line in done.stdout.splitlines()] == list(COMPLETED.values()), done.stderr


def test_the_command_prints_the_script(kbhub, monkeypatch):
    monkeypatch.setattr(type(app), "generate_completion", lambda *_, shell, **__: f"complete {shell}")
    assert kbhub("dev", "completion", "bash") == (0, "complete bash", "")
    made = kbhub("dev", "completion", "fish", "--json").json
    assert (made["shell"], made["script"]) == ("fish", "complete fish")
    assert '"bash", "zsh", "fish", "powershell"' in kbhub("dev", "completion", "tcsh", code=2).err
