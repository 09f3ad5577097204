"""Documentation of the libraries that a project uses, in the versions that its lock files pin, as far as it is on disk.

Sources: the environment of Python (docstrings, the description, shipped text), `node_modules`, the module cache of Go,
the registry of Cargo, `/usr/share/doc`, and what the user names: an archive, an `llms.txt`. Nothing is
imported or run. The text is copied to a folder in kbhub's data directory, one for each project and package, and copied
anew when a lock file pins another version.
"""

from __future__ import annotations

import ast
import hashlib
import json
import lzma
import os
import re
import shutil
import tarfile
import tomllib
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from email.parser import BytesHeaderParser
from pathlib import Path
from typing import Any

from kbhub.errors import KbhubError, UsageError
from kbhub.values import struct
from kbhub.workspace.config_edits import alone
from kbhub.workspace.files import PACKAGES, read_regular, write_atomically

SUFFIXES = (".md", ".markdown", ".mdx", ".rst", ".adoc", ".org")
"""Ends of the names of files that are documentation whatever they are called."""

PLAIN_NAMES = re.compile(r"(?i)(readme|changelog|changes|news|history|upgrading|llms|llms-full)(\.txt)?")

SKIPPED = frozenset(
    ("node_modules", "vendor", "_vendor", "vendored", "test", "tests", "testing", "testdata", "fixtures")
)
FILE_BYTES, ALL_BYTES, FILES = 4 << 20, 64 << 20, 3000
"""Limits of a file, of a package and of its number of files; what exceeds them is left out."""

ARCHIVE_BYTES = 1 << 30

_UNREADABLE = (EOFError, RuntimeError, ValueError, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile, zlib.error)
"""What reading a damaged or an encrypted archive raises."""

_VERSIONED = re.compile(r"(.+?)(?:[-@_]v?(\d[\w.+-]*?))?(?:\.(?:zip|whl|crate|tgz|tar(?:\.\w+)?|txt|md))?")
"""Name and version in the name of a folder, an archive or a file."""

_TAGS = re.compile(r"([^-]+-[^-]+)(?:-\d[^-]*)?(?:-[^-]+){3}\.whl")
"""Build and tags in the name of a wheel: packaging.python.org, "Binary distribution format"."""

ECOSYSTEMS = {"uv.lock": "python", "poetry.lock": "python", "pdm.lock": "python", "requirements.txt": "python",
              "package-lock.json": "node", "go.mod": "go", "Cargo.lock": "cargo"}  # fmt: skip

_NAME = re.compile(r"(?:(python|node|go|cargo|system):)?(@?[A-Za-z0-9][\w.~/-]*?)(?:(?:==|@)v?([\w.+!-]+))?")


@struct
class Package:
    """A package as a user asks for it."""

    name: str
    ecosystem: str | None = None
    version: str | None = None

    @classmethod
    def parsed(cls, text: str) -> Package:
        """Parse `NAME`, `NAME==VERSION` or `NAME@VERSION`, with `node:` or the like before it, or an absolute path."""
        if Path(text).is_absolute() and (match := _VERSIONED.fullmatch(_TAGS.sub(r"\1", Path(text).name))):
            return cls(match[1], "named", match[2])
        match = _NAME.fullmatch(text)
        if match is None or ".." in text or "//" in text:
            raise UsageError(f"{text!r} is no package. Write NAME or NAME==VERSION; `node:NAME` says where to look.")
        return cls(match[2], match[1], match[3])

    def is_called(self, name: str) -> bool:
        """Whether another spelling is the same name, as Python and Cargo see it."""
        return self.name == name or _plain(self.name) == _plain(name)


@struct
class Installed:
    """A version of a package on the disk."""

    ecosystem: str
    version: str
    folder: Path
    """Of its files; for Python, the folder with its metadata."""


@struct
class Pin:
    """What a lock file says of a package."""

    ecosystem: str
    version: str
    lock: str


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(project: Path, package: Package) -> list[Pin]:
    """Return the versions of a package that the lock files of a project pin."""
    found = []
    for lock, ecosystem in ECOSYSTEMS.items():
        text = ""
        with suppress(OSError):
            text = read_regular(project / lock, ALL_BYTES).decode("utf-8", "replace")
        with suppress(ValueError, TypeError, AttributeError, RecursionError):
            found += [
                Pin(ecosystem, version.removeprefix("v"), lock)
                for name, version in _locked(lock, text)
                if package.is_called(name)
            ]
    return [pin for pin in found if package.ecosystem in (None, pin.ecosystem)]


def _locked(lock: str, text: str) -> Iterator[tuple[str, str]]:
    """Yield (name, version) of a lock file."""
    if lock == "package-lock.json":
        for path, said in json.loads(text or "{}").get("packages", {}).items():
            if path.startswith("node_modules/") and "/node_modules/" not in path:
                yield path.removeprefix("node_modules/"), str(said.get("version", ""))
    elif lock == "go.mod":
        yield from re.findall(r"^\s*(?:require\s+)?([\w.~/-]+\.[\w.~/-]+)\s+(v[\w.+-]+)", text, re.MULTILINE)
    elif lock == "requirements.txt":
        yield from re.findall(r"^([A-Za-z0-9][\w.-]*)(?:\[[^\]\n]*\])?==([\w.+!-]+)", text, re.MULTILINE)
    else:
        for said in tomllib.loads(text).get("package", []):
            yield str(said.get("name", "")), str(said.get("version", ""))


def installed(project: Path, package: Package, env: Mapping[str, str], home: Path) -> list[Installed]:
    """Return the versions of a package that are on the disk, where the tools of the project would look."""
    found: list[Installed] = []
    sites = list[Path]()
    for place in (project / ".venv", project / "venv", *(Path(one) for one in (env.get("VIRTUAL_ENV"),) if one)):
        sites = sites or [*place.glob("lib/python3*/site-packages"), *place.glob("Lib/site-packages")]
    for folder in [folder for site in sites for folder in site.glob("*.dist-info")]:
        name, _, version = folder.name.removesuffix(".dist-info").partition("-")
        if package.is_called(name):
            found.append(Installed("python", version, folder))
    for above in (project, *project.parents):
        folder = above / "node_modules" / package.name
        if not _is_below(folder, above):
            continue
        with suppress(OSError, ValueError, AttributeError):
            said = json.loads(read_regular(folder / "package.json", FILE_BYTES))
            found.append(Installed("node", str(said.get("version", "")), folder))
            break
    cache = env.get("GOMODCACHE") or f"{env.get('GOPATH', '').split(os.pathsep)[0] or home / 'go'}/pkg/mod"
    escaped = re.sub(r"[A-Z]", lambda capital: f"!{capital[0].lower()}", package.name)
    if "/" in package.name and not package.name.startswith("@"):
        place = Path(cache) / escaped
        found += [Installed("go", one.name.rpartition("@v")[2], one) for one in place.parent.glob(f"{place.name}@v*")]
    for one in Path(env.get("CARGO_HOME") or home / ".cargo").glob(f"registry/src/*/{package.name}-*"):
        if match := re.fullmatch(re.escape(package.name) + r"-(\d[\w.+-]*)", one.name):
            found.append(Installed("cargo", match[1], one))
    if (folder := Path("/usr/share/doc") / package.name).is_dir() and package.ecosystem == "system":
        found.append(Installed("system", "", folder))
    return [one for one in found if package.ecosystem in (None, one.ecosystem)]


def _is_below(path: Path, folder: Path) -> bool:
    """Whether no link leads out of a folder, since what a clone has in it may lead anywhere."""
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def choose(project: Path, package: Package, env: Mapping[str, str], home: Path) -> tuple[Installed, Pin | None]:
    """Return the version to take: the one asked for, the pinned one, or the only one; `UsageError` if it is missing."""
    pinned, there = pins(project, package), installed(project, package, env, home)
    if not there:
        looked = "the project's .venv, node_modules, the caches of Go and Cargo"
        raise UsageError(
            f"No {package.name} on this machine; looked in {looked}. Install it, or `kbhub base add` a folder."
        )
    # A lock file pins several versions for several versions of Python; the one that is installed counts.
    versions = {one.version for one in there}
    fitting = sorted(pinned, key=lambda pin: pin.version not in versions)
    pin = next((pin for pin in fitting if package.version in (None, pin.version)), None)
    wanted = package.version or (pin and pin.version)
    taken = [one for one in there if wanted in (None, one.version) and (pin is None or one.ecosystem == pin.ecosystem)]
    if not taken:
        have = ", ".join(sorted({one.version for one in there}))
        why = f"{pin.lock} pins {package.name} {wanted}" if pin else f"{package.name} {wanted} was asked for"
        raise UsageError(f"{why}, and the machine has {have}. Install it, or add {package.name}=={there[0].version}.")
    if len(kinds := sorted({one.ecosystem for one in taken})) > 1:
        raise UsageError(f"{package.name} is in {' and '.join(kinds)}. Write {kinds[0]}:{package.name}, for instance.")
    return max(taken, key=lambda one: [int(number) for number in re.findall(r"\d+", one.version)]), pin


def documentation(one: Installed, name: str) -> dict[str, str]:
    """Return the documentation of a package: path → text."""
    if one.ecosystem == "python":
        texts = _python(one.folder, name, one.version)
    else:
        texts = _files(one.folder) if one.folder.is_dir() else _archived(one.folder)
    kept, left = dict[str, str](), ALL_BYTES
    for path, text in texts:
        if ".." in (parts := Path(path).parts) or Path(path).is_absolute() or not parts:
            continue
        if len(kept) < FILES and (left := left - len(text)) > 0 and text.strip():
            kept.setdefault(path, text)
    return kept


def _archived(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the documentation in an archive, or a text; what an archive says of sizes is not believed."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            for entry in archive.infolist():
                if name := _kept_as(entry.filename):
                    with archive.open(entry) as file:
                        yield name, file.read(FILE_BYTES).decode("utf-8", "replace")
    elif tarfile.is_tarfile(path):
        with tarfile.open(path) as archive:
            for member in archive:
                if member.offset_data > ARCHIVE_BYTES:
                    return
                if member.isreg() and (name := _kept_as(member.name)) and (content := archive.extractfile(member)):
                    yield name, content.read(FILE_BYTES).decode("utf-8", "replace")
    elif not path.name.lower().endswith((*SUFFIXES, ".txt")):
        raise ValueError("it is no archive and no text")
    else:
        yield f"{path.stem}.md", read_regular(path, FILE_BYTES).decode("utf-8", "replace")


def _kept_as(path: str) -> str | None:
    """Return the path that a file's text is kept as, or None if it is no documentation."""
    *folders, name = path.split("/")
    if SKIPPED & {folder.lower() for folder in folders}:
        return None
    if not (name.lower().endswith(SUFFIXES) or PLAIN_NAMES.fullmatch(name)):
        return None
    return path if Path(name).suffix else f"{path}.md"


def _files(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the files of a package that are documentation; no link is followed."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(one for one in folders if one.lower() not in SKIPPED and not one.startswith("."))
        for name in sorted(names):
            path = Path(place) / name
            if kept := _kept_as(path.relative_to(folder).as_posix()):
                with suppress(OSError):
                    yield kept, read_regular(path, FILE_BYTES, follow=False).decode("utf-8", "replace")


def _python(metadata: Path, name: str, version: str) -> Iterator[tuple[str, str]]:
    """Yield the description, shipped text and docstrings of an installed distribution."""
    with suppress(OSError):
        said = BytesHeaderParser().parsebytes(read_regular(metadata / "METADATA", FILE_BYTES))
        kind = "rst" if "rst" in said.get("Description-Content-Type", "") else "md"
        yield f"README.{kind}", str(said.get_payload())
    site, record = metadata.parent, ""
    with suppress(OSError):
        record = read_regular(metadata / "RECORD", FILE_BYTES).decode("utf-8", "replace")
    for line in sorted(record.splitlines()):
        path = line.partition(",")[0]
        parts = Path(path).parts
        if metadata.name in parts or SKIPPED & {*parts}:
            continue
        with suppress(OSError, SyntaxError, ValueError, RecursionError, MemoryError):
            if not _is_below(site / path, site):
                continue
            if path.lower().endswith(SUFFIXES):
                yield path, read_regular(site / path, FILE_BYTES, follow=False).decode("utf-8", "replace")
            elif path.endswith(".py"):
                tree = ast.parse(read_regular(site / path, FILE_BYTES, follow=False))
                module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
                if text := _docstrings(tree):
                    public = module.partition("._")[0]
                    title = public if public == module else f"{public}: {module.rpartition('.')[2].strip('_')}"
                    yield f"api/{module}.md", f"# {title}, {name} {version}\n\n{text}"


def _docstrings(tree: ast.Module) -> str:
    """Write the docstrings of a module as Markdown: a section for each public class and function that has one."""
    parts = {"": ast.get_docstring(tree) or ""}

    def add(nodes: Iterable[ast.stmt], prefix: str, level: str) -> None:
        for node in nodes:
            if isinstance(node, ast.If | ast.Try):  # by platform or version: the first that is documented counts
                add([*node.body, *node.orelse], prefix, level)
            if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) or node.name[0] == "_":
                continue
            name = f"{prefix}{node.name}"
            if text := ast.get_docstring(node):
                parts.setdefault(name, f"{level} {name}\n\n```python\n{_signature(node)}\n```\n\n{text}")
            if isinstance(node, ast.ClassDef):
                add(node.body, f"{name}.", "###")

    add(tree.body, "", "##")
    return "\n\n".join(part for part in parts.values() if part)


def _signature(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """Write the line that defines a name, without its body and decorators."""
    if isinstance(node, ast.ClassDef):
        bases = ", ".join(ast.unparse(base) for base in node.bases)
        return f"class {node.name}({bases})" if bases else f"class {node.name}"
    result = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    start = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    return f"{start} {node.name}({ast.unparse(node.args)}){result}"


def copy_documentation(
    data: Path, project: Path, asked: str, env: Mapping[str, str], home: Path
) -> tuple[Path, Installed, Pin | None, int]:
    """Copy a package's documentation, and return its folder, the version, what pins it and the number of files."""
    package = Package.parsed(asked)
    named = package.ecosystem == "named"
    locks = _states(project, asked if named else None)
    if named and not Path(asked).is_file():
        remedy = "; `kbhub base add` adds a folder, which is searched where it is" if Path(asked).is_dir() else ""
        raise UsageError(f"There is no file {asked}{remedy}.")
    one, pin = Installed("named", package.version or "", Path(asked)), None
    if not named:
        one, pin = choose(project, package, env, home)
    try:
        texts = documentation(one, package.name)
    except (*_UNREADABLE, OSError) as error:
        raise UsageError(f"{asked} cannot be read: {getattr(error, 'strerror', None) or error}.") from error
    if not texts:
        raise UsageError(f"{package.name} {one.version} has no documentation in {one.folder}.")
    key = hashlib.sha256(str(project).encode("utf-8", "surrogateescape")).hexdigest()[:8]
    folder = data / PACKAGES / f"{key}-{re.sub(r'[^A-Za-z0-9._-]', '-', package.name)}"
    with alone(data):
        version = folder / re.sub(r"[^A-Za-z0-9._+-]", "-", f"{package.name}-{one.version}".strip("-@"))
        new = folder / f".{version.name}"
        shutil.rmtree(new, ignore_errors=True)
        written = 0
        for path, text in texts.items():
            with suppress(OSError, ValueError):  # an archive may have any name
                (new / path).parent.mkdir(parents=True, exist_ok=True)
                (new / path).write_text(text, "utf-8", errors="replace", newline="\n")
                written += 1
        if not written:
            raise UsageError(f"No file of {asked} can be written to {folder}.")
        for old in [*folder.iterdir()]:  # copies of another version, now that the new one is complete
            if old != new:
                shutil.rmtree(old)
        new.rename(version)
        made = {"project": str(project), "package": asked, "locks": locks}
        write_atomically(folder.with_suffix(folder.suffix + ".json"), json.dumps(made))
    return folder, one, pin, written


def _states(project: Path, named: str | None) -> dict[str, list[int]]:
    """Return what tells whether a lock file, or what the user named, has changed."""
    states = {}
    for lock in (named,) if named else ECOSYSTEMS:
        with suppress(OSError):
            found = (project / lock).stat()
            states[lock] = [found.st_mtime_ns, found.st_size]
    return states


def refresh(data: Path, folder: Path, env: Mapping[str, str], home: Path) -> None:
    """Copy documentation anew if a lock file has changed; a pinned version that is not there yet waits for its turn."""
    with suppress(OSError, ValueError, KeyError, TypeError, KbhubError):
        made: dict[str, Any] = json.loads(folder.with_suffix(folder.suffix + ".json").read_text("utf-8"))
        named = asked if Path(asked := made["package"]).is_absolute() else None
        if made["locks"] != _states(project := Path(made["project"]), named):
            copy_documentation(data, project, asked, env, home)
