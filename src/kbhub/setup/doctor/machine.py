"""Checks of the machine: interpreter, SQLite and its extensions, models, file watching."""

from __future__ import annotations

import os
import platform
import re
import shutil
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kbhub.errors import EmbedderError, ModelUnavailable
from kbhub.index.side_files import SUFFIX as TRANSFORMER
from kbhub.index.sqlite import probe
from kbhub.index.sqlite.schema import DAMAGED
from kbhub.models.embedding import PACKAGED_MODEL, PACKAGED_NAME, PACKAGED_SHA256, minilm, sha256
from kbhub.models.inference import Deadline
from kbhub.models.ollama import Ollama
from kbhub.reading.reports import Finding
from kbhub.sync.background import embedded, is_used
from kbhub.sync.watch import POLL_SECONDS, remote_system, watched_folders
from kbhub.types import Base
from kbhub.values import counted
from kbhub.workspace.files import is_directory
from kbhub.workspace.trust import TRUST_NAME

if TYPE_CHECKING:
    from kbhub.hub import Hub

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
    for _ in _all_folders(local):
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


def _all_folders(bases: Sequence[Base]) -> Iterator[str]:
    """Yield every folder that is watched, including those without indexed files; symlinks are not followed."""
    for base in bases:
        for root in watched_folders(base):
            for folder, _, _ in os.walk(root):
                yield folder


LOW_DISK_BYTES = 350_000_000
"""Free space, in bytes, below which to warn: the size of an index of 100,000 chunks (measured)."""

FOLDER_MODE, FILE_MODE = 0o700, 0o600
"""Private to the user."""

BASES = "bases"
"""Folder of the indexes in the cache directory."""

LOOKS = "second-look.db"
"""In the cache directory, the transformer vectors of kbhub up to 0.1."""

JOURNALS = ("-wal", "-shm", DAMAGED, TRANSFORMER, f"{TRANSFORMER}-journal", f"{TRANSFORMER}.lock")
"""Suffixes of the files beside an index: SQLite's, the marker of a damaged one, and transformer vectors."""

_OURS = re.compile(r".+-[0-9a-f]{12}(\.aside(-\d+)?)?\.db(-wal|-shm|\.lock|\.damaged|\.minilm(-journal|\.lock)?)?")
"""File names from `index.index_path`, `index.set_aside`, SQLite and the lock."""

_ASIDE = re.compile(r"\.aside(-\d+)?(?=\.db$)")
"""The part that `index.set_aside` inserts into a file name."""


def folder_findings(hub: Hub, bases: Sequence[Base]) -> list[Finding]:
    """Check kbhub's cache and data directories and its own files in them."""
    findings = _directory("cache", hub.cache) + _directory("data", hub.trust.path.parent)
    low = _low_disk(hub.cache)
    own = own_places(hub, bases)
    findings += [low] if low else []
    findings += _owners(own)
    if (exposed := too_open(own)) and os.name != "nt":
        more = f" and {len(exposed) - 1} more" if len(exposed) > 1 else ""
        verb = "is" if len(exposed) == 1 else "are"
        message = f"{exposed[0]}{more} {verb} accessible to other users of this machine."
        remedy = "Run `kbhub doctor --fix` to give folders mode 0700 and files mode 0600."
        findings.append(Finding(check="permissions", level="warning", message=message, remedy=remedy, fixable=True))
    else:
        findings.append(Finding(check="permissions", level="ok", message="Only you can access kbhub's files."))
    return findings + [_leftover(path) for path in leftovers(hub, bases)]


def own_places(hub: Hub, bases: Sequence[Base]) -> list[Path]:
    """Return the folders and files that kbhub created, without following symlinks.

    A folder is included only while it holds nothing else, since the user may have chosen one with other contents. The
    indexes of `bases` may be outside the cache directory.
    """
    data, indexes = hub.trust.path.parent, hub.cache / BASES
    trust_files = [path for path in _listed(data) if path.name.lstrip(".").startswith(TRUST_NAME)]
    places = [data] if trust_files and set(trust_files) == set(_listed(data)) else []
    if (index_files := _indexes_in(indexes)) and index_files == _listed(indexes):
        places += [hub.cache, indexes] if {*_listed(hub.cache)} <= {indexes, hub.cache / LOOKS} else [indexes]
    places += [*index_files, hub.cache / LOOKS]
    for base in bases:
        index = hub.index(base).path
        places += [
            Path(f"{path}{suffix}") for path in (index, *_set_aside_from(index)) for suffix in ("", ".lock", *JOURNALS)
        ]
    # Only regular files and the folders themselves: a folder among the indexes is not kbhub's.
    kinds = {path: state.st_mode for path in dict.fromkeys([*places, *trust_files]) if (state := _state(path))}
    folders = (data, hub.cache, indexes)
    return [path for path, kind in kinds.items() if stat.S_ISREG(kind) or (stat.S_ISDIR(kind) and path in folders)]


def too_open(places: Iterable[Path]) -> list[Path]:
    """Return the places that other users may read or change."""
    return [path for path in places if (state := _state(path)) and state.st_mode & 0o077]


def leftovers(hub: Hub, bases: Sequence[Base]) -> list[Path]:
    """Return files that are no longer needed: indexes set aside, and journals without an index."""
    paths = _indexes_in(hub.cache / BASES)
    for base in bases:
        paths += _set_aside_from(hub.index(base).path)
    return sorted({path for path in paths if os.path.lexists(path) and is_leftover(path)})


def is_leftover(path: Path) -> bool:
    """Return whether a file in a folder of indexes is no longer needed. A journal is needed while its index exists."""
    suffix = next((suffix for suffix in JOURNALS if path.name.endswith(suffix)), "")
    if not suffix:
        return bool(_ASIDE.search(path.name))
    return not os.path.lexists(path.with_name(path.name.removesuffix(suffix)))


def index_of(leftover: Path) -> Path:
    """Return the index that a leftover belonged to, whose lock protects its deletion."""
    name = leftover.name
    for journal in JOURNALS:
        name = name.removesuffix(journal)
    return leftover.with_name(_ASIDE.sub("", name))


def _indexes_in(folder: Path) -> list[Path]:
    return [path for path in _listed(folder) if _OURS.fullmatch(path.name)]


def _set_aside_from(index: Path) -> list[Path]:
    return sorted(index.parent.glob(f"{index.stem}.aside*.db"))


def _leftover(path: Path) -> Finding:
    if is_directory(path) and not path.is_symlink():
        message, remedy = (
            "A folder was found instead of an index and moved aside.",
            "Check what it holds, then delete it.",
        )
        return Finding(check="leftovers", level="warning", subject=str(path), message=message, remedy=remedy)
    what = "A journal without its index" if path.name.endswith(JOURNALS) else "An index that was moved aside"
    remedy = "Nothing needs it. Run `kbhub doctor --fix` to delete it."
    message = f"{what}."
    return Finding(check="leftovers", level="warning", subject=str(path), message=message, remedy=remedy, fixable=True)


def _directory(check: str, path: Path) -> list[Finding]:
    state = _state(path.resolve())
    if state is None:
        above = next(folder for folder in path.parents if is_directory(folder))
        if os.access(above, os.W_OK | os.X_OK):
            return [Finding(check=check, level="ok", message=f"{path} will be created when needed.")]
        message, remedy = (
            f"{path} cannot be created in {above}.",
            f"Allow it, or choose another folder: {_option_for(check)}.",
        )
    elif not stat.S_ISDIR(state.st_mode):
        message, remedy = f"{path} is not a folder.", f"Move it away, or choose another folder: {_option_for(check)}."
    elif not os.access(path, os.W_OK | os.X_OK | os.R_OK):
        message = (
            f"{path} cannot be written, so indexes are not updated." if check == "cache" else f"{path} is read-only."
        )
        remedy = f"Allow it, or choose another folder: {_option_for(check)}."
    else:
        return [Finding(check=check, level="ok", message=str(path))]
    return [Finding(check=check, level="error", message=message, remedy=remedy)]


def _option_for(check: str) -> str:
    return "`--cache-dir` or KBHUB_CACHE_DIR" if check == "cache" else "KBHUB_DATA_DIR"


def _low_disk(path: Path) -> Finding | None:
    existing = next(folder for folder in (path, *path.parents) if is_directory(folder))
    free = shutil.disk_usage(existing).free
    if free >= LOW_DISK_BYTES:
        return None
    message = f"{free // 1_000_000} MB are free below {existing}; a large base needs {LOW_DISK_BYTES // 1_000_000} MB."
    remedy = "Free up space, or keep indexes elsewhere: `--cache-dir` or KBHUB_CACHE_DIR."
    return Finding(check="disk", level="warning", message=message, remedy=remedy)


def _owners(places: Sequence[Path]) -> list[Finding]:
    """Report the first place that belongs to another user, who could have put anything there."""
    if not hasattr(os, "getuid"):
        return []
    trusted = (os.getuid(), 0)
    others = [path for path in places if (state := _state(path)) and state.st_uid not in trusted]
    remedy = "Change its owner (`chown`) or delete it; indexes are rebuilt."
    return [
        Finding(check="owner", level="error", subject=str(path), message="It belongs to another user.", remedy=remedy)
        for path in others[:1]
    ]


def _listed(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _state(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except OSError:
        return None
