"""The JSON Schemas that kbhub publishes: of its files, and of what goes into its tools and comes out of them.

They are made from the models by `tests/test_schemas.py`. A checkout has them in `schemas/`; a wheel in the package, so
that an editor can be given a file that is there without a network.
"""

from __future__ import annotations

from pathlib import Path

from kbhub.errors import UsageError

PACKAGE = Path(__file__).parent

FOLDERS = (PACKAGE / "schemas", PACKAGE.parent.parent / "schemas")
"""Where the files are: installed from a wheel; in a checkout, or installed from it so that it can be edited."""

SUFFIX = ".schema.json"


def schema_files() -> dict[str, Path]:
    """Give the file of each schema by its name: `config`, `memory`, `pointer`, then `search.input` and the like."""
    folder = next((folder for folder in FOLDERS if (folder / f"config{SUFFIX}").is_file()), FOLDERS[0])
    files = (*sorted(folder.glob(f"*{SUFFIX}")), *sorted(folder.glob(f"tools/*{SUFFIX}")))
    return {file.name.removesuffix(SUFFIX): file for file in files}


def schema_file(name: str) -> Path:
    """Give the file of a schema.

    Args:
        name: `config`, `pointer`, `memory`, or a tool with `.input` or `.output`.

    Raises:
        UsageError: there is none of this name.
    """
    files = schema_files()
    if name not in files:
        raise UsageError(f"No schema {name!r}; there are {', '.join(files) or 'none: kbhub is not installed whole'}.")
    return files[name]
