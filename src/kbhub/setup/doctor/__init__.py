"""All checks, and the repairs that are safe to make automatically."""

from __future__ import annotations

import os
import platform
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Literal

from filelock import FileLock, Timeout

from kbhub.errors import ConfigError, EmbedderError, KbhubError
from kbhub.hub import Hub
from kbhub.index.sqlite.schema import probe, set_aside
from kbhub.models.embedding import PACKAGED_MODEL, PACKAGED_NAME, PACKAGED_SHA256, sha256
from kbhub.reading.reports import Diagnosis, Finding, bad, ok
from kbhub.setup.cache import FILE_MODE, own_places, state_of, too_open
from kbhub.setup.clients import Machine
from kbhub.setup.doctor.bases import base_findings, config_findings, discovery_findings, trust_findings
from kbhub.setup.registration import Registration, registrations, unregistered
from kbhub.sync.background import embedded
from kbhub.sync.freshness import sync
from kbhub.sync.watch import POLL_SECONDS, remote_system, watched_folders
from kbhub.types import Base
from kbhub.values import counted
from kbhub.workspace.extensions import extensions, load
from kbhub.workspace.files import is_directory

CHECKS: dict[str, Callable[[Hub, Sequence[Base]], Iterable[Finding]]] = {
    "python": lambda *_: [ok("python", f"{platform.python_version()} on {platform.system()} {platform.machine()}")],
    "sqlite": lambda *_: sqlite(),
    "model": lambda *_: [packaged_model()],
    "config": lambda hub, _: config_findings(hub),
    "embedder": lambda hub, _: embedder_findings(hub),
    "extensions": lambda hub, _: chain.from_iterable(load(name)(hub) for one in extensions() for name in one.checks),
    "trust": lambda hub, _: trust_findings(hub.trust),
    "discovery": lambda hub, _: discovery_findings(hub),
    "reranking": lambda hub, bases: reranking_findings(hub, bases),
    "folders": lambda hub, bases: folder_findings(hub, bases),
    "bases": lambda hub, bases: chain.from_iterable(base_findings(hub, base) for base in bases),
    "watch": lambda _, bases: watch_findings(bases),
    "clients": lambda hub, _: client_findings(hub),
}
"""What search needs, from the interpreter to each file of a base, in the order of the report."""


def examine(hub: Hub) -> Diagnosis:
    """Make all checks."""
    with suppress(ConfigError):
        hub.rediscover()
    bases, findings = _bases(hub), list[Finding]()
    for find in CHECKS.values():
        with suppress(ConfigError):  # `config` tells of it, and what needs it is left out
            findings += find(hub, bases)
    return Diagnosis(findings=tuple(findings))


def repair(hub: Hub, diagnosis: Diagnosis) -> Diagnosis:
    """Repair what is fixable, then examine again; the new diagnosis has the repairs made and those that failed."""
    done, failed = list[str](), list[str]()
    fixable = [finding for finding in diagnosis.findings if finding.fixable]
    for name in sorted({finding.subject for finding in fixable if finding.check == "index"}):
        with _attempt(name, failed):
            for base in hub.select((name,)):
                path = hub.index(base).path
                hub.index(base).close()
                with FileLock(f"{path}.lock", timeout=0, mode=FILE_MODE):
                    aside = set_aside(path)
                done.append(f"{base.id}: its index was moved aside as {aside.name}")
    for name in sorted({finding.subject for finding in fixable if finding.check in ("index", "freshness", "vectors")}):
        with _attempt(name, failed):
            for report in sync(hub, (name,)):
                if report.busy:
                    raise Timeout(name)
                documents = f"{report.added} new and {report.changed} changed documents, {report.removed} removed"
                done.append(f"{name}: indexed {documents}")
    if any(finding.check == "permissions" for finding in fixable):
        # Last, since the files created above are private anyway.
        for path in too_open(own_places(hub, _bases(hub))):
            with _attempt(str(path), failed):
                kind = path.lstat().st_mode
                if not stat.S_ISLNK(kind):
                    path.chmod(0o700 if stat.S_ISDIR(kind) else FILE_MODE)
                    done.append(f"only you can access {path} now")
    return examine(hub).model_copy(update={"fixed": tuple(done), "failed": tuple(failed)})


def _bases(hub: Hub) -> tuple[Base, ...]:
    with suppress(ConfigError):
        return hub.discovery().bases
    return ()


@contextmanager
def _attempt(subject: str, failed: list[str]) -> Iterator[None]:
    """Run a repair, recording its error."""
    try:
        yield
    except Timeout:
        failed.append(f"{subject}: another kbhub process is indexing it; try again when it has finished.")
    except OSError as error:
        failed.append(f"{subject}: {error.strerror or error}.")
    except KbhubError as error:
        failed.append(str(error))


REINSTALL = "Reinstall kbhub in an environment of its own."

MODEL_FILES = ("model.safetensors", "tokenizer.json", "config.json")

SAMPLE = "How do we roll back a release?"

WATCHES = Path("/proc/sys/fs/inotify/max_user_watches")
"""On Linux, the number of folders that all of a user's programs together may watch (inotify(7))."""

POLLED = f"a server compares its files every {POLL_SECONDS:.0f} s instead"


def sqlite() -> list[Finding]:
    """Check that SQLite can create and search indexes."""
    engine = probe()
    if engine.fault:
        message = f"SQLite {engine.version} does not work here: {engine.fault}."
        return [bad("sqlite", message, REINSTALL, level="error")]
    words = ok("sqlite", f"{engine.version}, full-text search works")
    if engine.vectors:
        return [words, ok("sqlite-vec", f"{engine.vectors}, distances are correct")]
    message = "It cannot be loaded, so numpy compares vectors: same results, but slower."
    return [words, bad("sqlite-vec", message, "Install the package sqlite-vec, if it exists for this system.")]


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
        return bad("model", f"The packaged model in {PACKAGED_MODEL} is damaged: {fault}.", REINSTALL, level="error")
    return ok("model", f"{PACKAGED_NAME}, intact")


def embedder_findings(hub: Hub) -> list[Finding]:
    """Check that the configured embedder loads and returns vectors."""
    try:
        embedder = hub.embedder()
        if embedder is None:
            return [ok("embedder", "Disabled by `embedder.model`; search is by keyword only.")]
        vector = embedder.embed([SAMPLE])[0]
        if vector.shape == (embedder.dimensions,) and vector.any():
            return [ok("embedder", f"{embedder.name}, {embedder.dimensions} dimensions")]
        fault = f"{embedder.name} returns no vector for English text"
    except EmbedderError as error:
        fault = str(error).rstrip(".")
    named = hub.config().settings.embedder.model
    remedy = "Set another model in `embedder.model` of the config, or remove that line." if named else REINSTALL
    return [bad("embedder", f"{fault}. Search continues by keyword only.", remedy, level="error")]


def reranking_findings(hub: Hub, bases: Sequence[Base]) -> list[Finding]:
    """Report whether a transformer reranks searches, and how many of its vectors are ready."""
    if not hub.config().settings.search.second_look:
        return [ok("reranking", "Disabled by `search.secondLook`.")]
    if (model := hub.transformer()) is None:
        unused = "Not used: the extra `kbhub[onnx]` is not installed, or its model is the embedder already."
        return [ok("reranking", unused)]
    try:
        vector = model.embed([SAMPLE])[0]
    except EmbedderError as error:
        remedy = "Reinstall the extra `kbhub[onnx]`, or set `search.secondLook` to false."
        return [bad("reranking", str(error), remedy)]
    ready = ", ".join(f"{embedded(hub, base)} in {base.id}" for base in bases) or "no base is active"
    return [ok("reranking", f"{model.name}, {len(vector)} dimensions; vectors: {ready}")]


def watch_findings(bases: Sequence[Base]) -> list[Finding]:
    """Check that the folders of the bases can be watched and do not exceed the system's limit."""
    findings, local = list[Finding](), list[Base]()
    for base in bases:
        if system := remote_system(base.path):
            message = f"It is on {system}, which does not report changes; {POLLED}."
            remedy = "No action is needed, but changes on a local disk are noticed faster."
            findings.append(bad("watch", message, remedy, base.id))
        else:
            local.append(base)
    limit: int | None = None
    with suppress(OSError, ValueError):  # not Linux
        limit = int(WATCHES.read_text("ascii"))
    count = 0
    # Including folders without indexed files.
    for count, _ in enumerate((one for base in local for root in watched_folders(base) for one in os.walk(root)), 1):
        if limit is not None and count > limit:
            message = f"More than {limit} folders need watching, which is the limit of this system; {POLLED}."
            remedy = f"Raise fs.inotify.max_user_watches (`sysctl`, {WATCHES}), or `exclude` folders without documents."
            return [*findings, bad("watch", message, remedy)]
    if not findings and bases:
        most = f" of {limit} allowed" if limit is not None else ""
        findings.append(ok("watch", f"{counted(count, 'folder')}{most}"))
    return findings


LOW_DISK_BYTES = 350_000_000
"""Free space, in bytes, below which to warn: the size of an index of 100,000 chunks (measured)."""


def folder_findings(hub: Hub, bases: Sequence[Base]) -> list[Finding]:
    """Check kbhub's cache and data directories and its own files in them."""
    findings = _directory("cache", hub.cache) + _directory("data", hub.trust.path.parent)
    existing = next(folder for folder in (hub.cache, *hub.cache.parents) if is_directory(folder))
    if (free := shutil.disk_usage(existing).free) < LOW_DISK_BYTES:
        needs = f"a large base needs {LOW_DISK_BYTES // 1_000_000} MB"
        remedy = "Free up space, or keep indexes elsewhere: `--cache-dir` or KBHUB_CACHE_DIR."
        findings.append(bad("disk", f"{free // 1_000_000} MB are free below {existing}; {needs}.", remedy))
    own = own_places(hub, bases)
    trusted = (os.getuid(), 0) if hasattr(os, "getuid") else None
    others = [path for path in own if trusted and (state := state_of(path)) and state.st_uid not in trusted]
    for path in others[:1]:  # another user could have put anything there
        remedy = "Change its owner (`chown`) or delete it; indexes are rebuilt."
        findings.append(bad("owner", "It belongs to another user.", remedy, str(path), level="error"))
    if (exposed := too_open(own)) and os.name != "nt":
        more = f" and {len(exposed) - 1} more" if len(exposed) > 1 else ""
        verb = "is" if len(exposed) == 1 else "are"
        message = f"{exposed[0]}{more} {verb} accessible to other users of this machine."
        remedy = "Run `kbhub doctor --fix` to give folders mode 0700 and files mode 0600."
        findings.append(bad("permissions", message, remedy, fixable=True))
    else:
        findings.append(ok("permissions", "Only you can access kbhub's files."))
    return findings


def _directory(check: str, path: Path) -> list[Finding]:
    option = "`--cache-dir` or KBHUB_CACHE_DIR" if check == "cache" else "KBHUB_DATA_DIR"
    state, remedy = state_of(path.resolve()), f"Allow it, or choose another folder: {option}."
    if state is None:
        above = next(folder for folder in path.parents if is_directory(folder))
        if os.access(above, os.W_OK | os.X_OK):
            return [ok(check, f"{path} will be created when needed.")]
        message = f"{path} cannot be created in {above}."
    elif not stat.S_ISDIR(state.st_mode):
        message, remedy = f"{path} is not a folder.", f"Move it away, or choose another folder: {option}."
    elif not os.access(path, os.W_OK | os.X_OK | os.R_OK):
        message = f"{path} {'cannot be written, so indexes are not updated' if check == 'cache' else 'is read-only'}."
    else:
        return [ok(check, str(path))]
    return [bad(check, message, remedy, level="error")]


CHECK = "client"
AT_ONCE = 2
"""Servers started in parallel; each keeps a CPU busy for half a second."""


def client_findings(hub: Hub) -> list[Finding]:
    """Check all registrations in the user's own files; project files are untrusted, so nothing there is started."""
    machine = Machine(hub.options.home, hub.options.env)
    registered = registrations(machine)
    usable = [registration for registration in registered if registration.program and registration.entry.enabled]
    distinct = {_identity(registration): registration for registration in usable}
    faults: dict[tuple[object, ...], str] = {}
    if distinct:
        # Importing the MCP SDK takes half a second, which only users with registered clients need.
        from kbhub.setup.doctor.handshake import shake_hands  # noqa: PLC0415

        with ThreadPoolExecutor(AT_ONCE) as pool:
            outcomes = pool.map(
                lambda one: shake_hands((str(one.program), *one.entry.argv[1:]), one.entry.env, machine.env),
                distinct.values(),
            )
            faults = dict(zip(distinct, outcomes, strict=True))
    findings = [_client_finding(registration, faults.get(_identity(registration), "")) for registration in registered]
    if missing := unregistered(machine):
        findings.append(ok(CHECK, f"Not registered with {', '.join(missing)}; run `kbhub setup` to register it."))
    elif not registered:
        findings.append(ok(CHECK, "No MCP client was found on this machine."))
    return findings


def _identity(registration: Registration) -> tuple[object, ...]:
    return (registration.program, registration.entry.argv[1:], tuple(sorted(registration.entry.env.items())))


def _client_finding(registration: Registration, fault: str) -> Finding:
    client, entry = registration.client, registration.entry
    line = " ".join(entry.argv)
    remedy = f"Run `kbhub setup --client {client.name}` to register this kbhub."
    level: Literal["warning", "error"] = "error"
    if registration.fault:
        message, level = f"Its file has a problem: {registration.fault.rstrip('.')}.", "warning"
        remedy = "Fix the file; until then, kbhub does not change it."
    elif not any(entry.argv[:1]):
        message = f"The entry {entry.name!r} in {registration.file} has no command."
    elif not registration.program:
        message = f"{registration.file} starts {entry.argv[0]}, which does not exist or cannot be run."
    elif not entry.enabled:
        message, level = f"It is registered in {registration.file} but disabled there.", "warning"
        remedy = "Enable it in the client's settings."
    elif fault:
        message, remedy = f"{line} {fault.rstrip('.')}.", f"Run it in a shell to see why. {remedy}"
    else:
        return ok(CHECK, f"{line} starts and answers", client.title)
    return bad(CHECK, message, remedy, client.title, level)
