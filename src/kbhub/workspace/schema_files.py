"""Locate kbhub's JSON schemas, of its files and of the input and output of its tools.

`tests/workspace/test_schemas.py` generates them from the models. They are in `schemas/` of a checkout and in the
package of a wheel, so that editors can use them offline.
"""

from __future__ import annotations

from pathlib import Path

from kbhub.errors import UsageError

PACKAGE = Path(__file__).parent.parent

FOLDERS = (PACKAGE / "schemas", PACKAGE.parent.parent / "schemas")
"""Folders to look in: of an installed wheel, and of a checkout or an editable install."""

SUFFIX = ".schema.json"


def schema_files() -> dict[str, Path]:
    """Return name → file of all schemas: `config`, `memory`, `pointer`, then `search.input` and so on."""
    folder = next((folder for folder in FOLDERS if (folder / f"config{SUFFIX}").is_file()), FOLDERS[0])
    files = (*sorted(folder.glob(f"*{SUFFIX}")), *sorted(folder.glob(f"tools/*{SUFFIX}")))
    return {file.name.removesuffix(SUFFIX): file for file in files}


def schema_file(name: str) -> Path:
    """Return the file of a schema: `config`, `pointer`, `memory`, or a tool with `.input` or `.output`."""
    files = schema_files()
    if name not in files:
        raise UsageError(
            f"No schema {name!r}. Schemas: {', '.join(files) or 'none: kbhub is not installed completely'}."
        )
    return files[name]
