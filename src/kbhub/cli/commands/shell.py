"""What the commands for shell and editor do."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pydantic import Field

from kbhub.cli.app import app
from kbhub.cli.console import show, show_json
from kbhub.cli.verbosity import log_to_stderr
from kbhub.frozen import Model
from kbhub.schema_files import schema_file, schema_files

if TYPE_CHECKING:
    from pathlib import Path

    from kbhub.cli.options import Common


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


def completion(shell: str, *, common: Common) -> int:
    """Print the completion script of a shell."""
    if common.verbose:
        log_to_stderr()
    script = app.generate_completion(prog_name="kbhub", shell=shell)  # type: ignore[arg-type]
    if common.json:
        show_json(CompletionResult(shell=shell, script=script).model_dump_json(indent=2))
    else:
        show(script)
    return 0


def schema(name: str | None, *, path: bool, common: Common) -> int:
    """Print a schema or its path, or list them all."""
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
    width = max((len(one.name) for one in entries), default=0)
    for one in entries:
        show(one.path if paths else f"{one.name.ljust(width)}  {one.description.partition('. ')[0].rstrip('.')}")
    return 0


def _entry(name: str, file: Path) -> SchemaEntry:
    return SchemaEntry(name=name, path=str(file), description=json.loads(file.read_text("utf-8"))["description"])
