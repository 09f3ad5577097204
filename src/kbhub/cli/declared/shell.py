"""Commands for the user's shell and editor: completion, schema."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter

from kbhub.cli import commands
from kbhub.cli.app import app
from kbhub.cli.options import Common


@app.command(usage="kbhub completion [OPTIONS] SHELL")
def completion(
    shell: Annotated[Literal["bash", "zsh", "fish", "powershell"], Parameter(metavar="SHELL")],
    /,
    *,
    common: Common = Common(),  # noqa: B008 - frozen
) -> int:
    """Print the script with which a shell completes commands and options of kbhub.

    Write it to where the shell looks for it: for bash, ~/.local/share/bash-completion/completions/kbhub; for zsh,
    _kbhub in a folder of fpath; for fish, ~/.config/fish/completions/kbhub.fish. Make it anew after an upgrade.

    Example: kbhub completion bash

    Args:
        shell: Which shell.
        common: Options of every command.
    """
    return commands.shell.completion(shell, common=common)


@app.command(usage="kbhub schema [OPTIONS] [NAME]")
def schema(
    name: str | None = None,
    /,
    *,
    path: bool = False,
    common: Common = Common(),  # noqa: B008 - frozen
) -> int:
    """Print a JSON Schema: of the global config, a pointer, a memory, or what a tool takes and gives.

    Without a NAME, list them. The file that --path names may be the "$schema" of a config, so that editors complete
    and check it without a network.

    Example: kbhub schema config --path

    Args:
        name: config, pointer, memory, or a tool with .input or .output, such as search.input.
        path: Print where the file is, in place of what it says.
        common: Options of every command.
    """
    return commands.shell.schema(name, path=path, common=common)
