"""Commands for the user's shell and editor: completion, schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from pydantic import Field

from kbhub.cli.app import app
from kbhub.cli.console import show, show_json
from kbhub.cli.options import Common
from kbhub.cli.verbosity import log_to_stderr
from kbhub.frozen import Model
from kbhub.workspace.schema_files import schema_file, schema_files


class CompletionResult(Model):
    """What `kbhub completion` made."""

    shell: str = Field(description="Which shell it is for.")
    script: str = Field(description="The script.")


class SchemaEntry(Model):
    """A schema that is there."""

    name: str = Field(description="Its name.")
    path: str = Field(description="Its file.")
    description: str = Field(description="What it describes.")


class SchemaList(Model):
    """The schemas that are there."""

    schemas: tuple[SchemaEntry, ...] = Field((), description="Those of files first, then those of tools.")


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
    if common.verbose:
        log_to_stderr()
    script = app.generate_completion(prog_name="kbhub", shell=shell)
    if common.json:
        show_json(CompletionResult(shell=shell, script=script).model_dump_json(indent=2))
    else:
        show(script)
    return 0


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
    if common.verbose:
        log_to_stderr()
    if name is None:
        return _listed(paths=path, common=common)
    file = schema_file(name)
    if path and not common.json:
        show(str(file))
    elif path:
        show_json(_entry(name, file).model_dump_json(indent=2))
    else:
        show_json(file.read_text("utf-8"))
    return 0


def _listed(*, paths: bool, common: Common) -> int:
    entries = tuple(_entry(name, file) for name, file in schema_files().items())
    if common.json:
        show_json(SchemaList(schemas=entries).model_dump_json(indent=2))
        return 0
    width = max((len(entry.name) for entry in entries), default=0)
    for entry in entries:
        summary = entry.description.partition(". ")[0].rstrip(".")
        show(entry.path if paths else f"{entry.name.ljust(width)}  {summary}")
    return 0


def _entry(name: str, file: Path) -> SchemaEntry:
    return SchemaEntry(name=name, path=str(file), description=json.loads(file.read_text("utf-8"))["description"])
