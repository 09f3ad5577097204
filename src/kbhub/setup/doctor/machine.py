"""Checks of the machine: interpreter, SQLite and its extensions, models, file watching."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import TYPE_CHECKING

from kbhub.errors import EmbedderError, ModelUnavailable
from kbhub.index.sqlite import probe
from kbhub.models.embedding import PACKAGED_MODEL, PACKAGED_NAME, PACKAGED_SHA256, sha256
from kbhub.models.inference import Deadline
from kbhub.models.ollama import Ollama
from kbhub.models.onnx import minilm
from kbhub.reading.reports import Finding
from kbhub.sync.background import embedded, is_used
from kbhub.sync.watch import POLL_SECONDS, remote_system, watched_folders
from kbhub.values import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kbhub.hub import Hub
    from kbhub.types import Base


REINSTALL = "Reinstall kbhub in an environment of its own."

MODEL_FILES = ("model.safetensors", "tokenizer.json", "config.json")
"""The files of a model2vec model."""

SAMPLE = "How do we roll back a release?"
"""A text to test the embedder with."""


SECONDS = 3.0
"""Timeout of a request; the server answers from memory."""

WATCHES = Path("/proc/sys/fs/inotify/max_user_watches")
"""On Linux, the number of folders that all of a user's programs together may watch (inotify(7))."""

POLLED = f"a server compares its files every {POLL_SECONDS:.0f} s instead"


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
        findings.append(Finding(check="sqlite-vec", level="ok", message=f"{engine.vectors}, distances are correct"))
    else:
        message = "It cannot be loaded, so numpy compares vectors: same results, but slower."
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
    return Finding(check="model", level="ok", message=f"{PACKAGED_NAME}, intact")


def embedder_findings(hub: Hub) -> list[Finding]:
    """Check that the configured embedder loads and returns vectors."""
    model = hub.config().settings.embedder.model
    try:
        embedder = hub.embedder()
        if embedder is None:
            message = "Disabled by `embedder.model`; search is by keyword only."
            return [Finding(check="embedder", level="ok", message=message)]
        vector = embedder.embed([SAMPLE])[0]
    except EmbedderError as error:
        return [_no_embedder(str(error), model)]
    if vector.shape != (embedder.dimensions,) or not vector.any():
        return [_no_embedder(f"{embedder.name} returns no vector for English text.", model)]
    return [Finding(check="embedder", level="ok", message=f"{embedder.name}, {embedder.dimensions} dimensions")]


def reranking_findings(hub: Hub, bases: Sequence[Base]) -> list[Finding]:
    """Report whether a transformer reranks searches, and how many of its vectors are ready."""
    if not hub.config().settings.search.second_look:
        return [Finding(check="reranking", level="ok", message="Disabled by `search.secondLook`.")]
    if not is_used(hub):
        message = "Not used: the extra `kbhub[onnx]` is not installed, or its model is the embedder already."
        return [Finding(check="reranking", level="ok", message=message)]
    try:
        vector = minilm().embed([SAMPLE])[0]
    except EmbedderError as error:
        remedy = "Reinstall the extra `kbhub[onnx]`, or set `search.secondLook` to false."
        return [Finding(check="reranking", level="warning", message=str(error), remedy=remedy)]
    ready = ", ".join(f"{embedded(hub, base)} in {base.id}" for base in bases) or "no base is active"
    message = f"{minilm().name}, {len(vector)} dimensions; vectors: {ready}"
    return [Finding(check="reranking", level="ok", message=message)]


def _no_embedder(message: str, model: str | None) -> Finding:
    remedy = "Set another model in `embedder.model` of the config, or remove that line." if model else REINSTALL
    message = f"{message.rstrip('.')}. Search continues by keyword only."
    return Finding(check="embedder", level="error", message=message, remedy=remedy)


def ollama_findings(hub: Hub) -> list[Finding]:
    """Check each Ollama model that is switched on, except the embedder, which has its own check."""
    settings = hub.config().settings
    models: dict[str, list[str]] = {}
    for model, setting in (
        (settings.expansion.model if settings.expansion.enabled else None, "expansion"),
        (settings.rerank.model if settings.rerank.enabled else None, "rerank"),
        (settings.answers.model, "answers"),
    ):
        if model:
            models.setdefault(model, []).append(setting)
    server = Ollama(hub.options.env)
    return [_finding(server, model, uses) for model, uses in models.items()]


def _finding(server: Ollama, model: str, uses: list[str]) -> Finding:
    purpose = " and ".join(f"`{use}`" for use in uses)
    try:
        server.digest(model, Deadline(SECONDS))
    except ModelUnavailable as error:
        message = f"{purpose} cannot be used: {error}"
        remedy = f"Fix that, or remove {purpose} from the config; kbhub works without it."
        return Finding(check="ollama", level="warning", message=message, remedy=remedy)
    return Finding(check="ollama", level="ok", message=f"{server.where} has {model!r}, for {purpose}")


def watch_findings(bases: Sequence[Base]) -> list[Finding]:
    """Check that the folders of the bases can be watched and do not exceed the system's limit."""
    findings = []
    local = []
    for base in bases:
        if system := remote_system(base.path):
            message = f"It is on {system}, which does not report changes; {POLLED}."
            remedy = "No action is needed, but changes on a local disk are noticed faster."
            findings.append(Finding(check="watch", level="warning", subject=base.id, message=message, remedy=remedy))
        else:
            local.append(base)
    limit = _limit()
    count = 0
    for _ in _folders(local):
        count += 1
        if limit is not None and count > limit:
            message = f"More than {limit} folders need watching, which is the limit of this system; {POLLED}."
            remedy = f"Raise fs.inotify.max_user_watches (`sysctl`, {WATCHES}), or `exclude` folders without documents."
            return [*findings, Finding(check="watch", level="warning", message=message, remedy=remedy)]
    if not findings and bases:
        most = f" of {limit} allowed" if limit is not None else ""
        findings.append(Finding(check="watch", level="ok", message=f"{counted(count, 'folder')}{most}"))
    return findings


def _limit() -> int | None:
    try:
        return int(WATCHES.read_text("ascii"))
    except (OSError, ValueError):
        return None


def _folders(bases: Sequence[Base]) -> Iterator[str]:
    """Yield every folder that is watched, including those without indexed files; symlinks are not followed."""
    for base in bases:
        for root in watched_folders(base):
            for folder, _, _ in os.walk(root):
                yield folder
