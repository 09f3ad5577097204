"""Checks of the machine: interpreter, SQLite and its extensions, models."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

from kbhub.errors import EmbedderError
from kbhub.index import probe
from kbhub.models.embedding import PACKAGED_MODEL, PACKAGED_NAME, PACKAGED_SHA256, sha256
from kbhub.reading.reports import Finding

if TYPE_CHECKING:
    from kbhub.hub import Hub

REINSTALL = "Install kbhub anew, in an environment of its own."

MODEL_FILES = ("model.safetensors", "tokenizer.json", "config.json")
"""The files of a model2vec model."""

SAMPLE = "How do we roll back a release?"
"""A text to test the embedder with."""


def python_version() -> Finding:
    """Report the interpreter; kbhub does not start on one that is too old."""
    system = f"{platform.system()} {platform.machine()}"
    return Finding(check="python", level="ok", message=f"{platform.python_version()} on {system}")


def sqlite() -> list[Finding]:
    """Check that SQLite can create and search indexes."""
    engine = probe()
    if engine.fault:
        message = f"SQLite {engine.version} does not work here: {engine.fault}."
        return [Finding(check="sqlite", level="error", message=message, remedy=REINSTALL)]
    findings = [Finding(check="sqlite", level="ok", message=f"{engine.version}, full-text search works")]
    if engine.vectors:
        findings.append(Finding(check="sqlite-vec", level="ok", message=f"{engine.vectors}, distances are right"))
    else:
        message = "It cannot be loaded; vectors are compared by numpy, with the same result and more slowly."
        remedy = "Install the package sqlite-vec, if it exists for this system."
        findings.append(Finding(check="sqlite-vec", level="warning", message=message, remedy=remedy))
    return findings


def packaged_model() -> Finding:
    """Check that the bundled model is complete and unchanged."""
    missing = [name for name in MODEL_FILES if not (PACKAGED_MODEL / name).is_file()]
    try:
        fault = f"{missing[0]} is missing" if missing else ""
        if not fault and sha256(PACKAGED_MODEL / MODEL_FILES[0]) != PACKAGED_SHA256:
            fault = f"{MODEL_FILES[0]} is not the file that was packaged"
    except OSError as error:
        fault = f"{MODEL_FILES[0]} cannot be read ({error.strerror})"
    if fault:
        message = f"The packaged model in {PACKAGED_MODEL} is damaged: {fault}."
        return Finding(check="model", level="error", message=message, remedy=REINSTALL)
    return Finding(check="model", level="ok", message=f"{PACKAGED_NAME}, as it was packaged")


def embedder_findings(hub: Hub) -> list[Finding]:
    """Check that the configured embedder loads and returns vectors.

    Raises:
        ConfigError: the global config is invalid.
    """
    model = hub.config().settings.embedder.model
    try:
        embedder = hub.embedder()
        if embedder is None:
            message = "Switched off by `embedder.model`; search is by keyword only."
            return [Finding(check="embedder", level="ok", message=message)]
        vector = embedder.embed([SAMPLE])[0]
    except EmbedderError as error:
        return [_no_embedder(str(error), model)]
    if vector.shape != (embedder.dimensions,) or not vector.any():
        return [_no_embedder(f"{embedder.name} gives no vector for English text.", model)]
    return [Finding(check="embedder", level="ok", message=f"{embedder.name}, {embedder.dimensions} dimensions")]


def _no_embedder(message: str, model: str | None) -> Finding:
    remedy = "Name another in `embedder.model` of the config, or remove that line." if model else REINSTALL
    message = f"{message.rstrip('.')}. Search goes on by keyword only."
    return Finding(check="embedder", level="error", message=message, remedy=remedy)
