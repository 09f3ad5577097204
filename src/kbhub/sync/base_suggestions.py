"""Find documents of a project that are in no base, the folders that look like knowledge, and how to include them."""

from __future__ import annotations

import os
import posixpath
import re
import shlex
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from itertools import islice
from pathlib import Path

from kbhub.documents.filters import Filters, Layer, belongs
from kbhub.errors import IndexUnavailable
from kbhub.hub import Hub
from kbhub.types import Base, Discovery
from kbhub.values import counted, struct
from kbhub.workspace.files import is_directory
from kbhub.workspace.formats import IGNORE_NAMES, INSTRUCTIONS, is_native
from kbhub.workspace.project import (
    FOLDER,
    PROJECT_ID,
    STARTER_NAME,
    VAULT_FOLDER,
    has_documents,
    owned_by_user,
    site_pages,
)

MOST_ENTRIES = 5_000
"""Files and folders examined, nearest first: some 10 ms, and all of most repositories."""

PLACES = 3

NAME_CHARACTERS = 40
"""Length limit of a place's name, which is untrusted: it comes with a clone."""

ASK = "The user decides what is searched here; ask before you do what the next line says."
"""What a model reads before a command that would make a base: first, as long lists of notes are cut."""

SUGGESTIONS = 3

LEVELS = 6

LIKELY_NAMES = frozenset(("wiki", "doc", "documentation", "notes", "adr", "adrs"))
"""Names, in lower case, of folders in which projects keep knowledge: of a project, and of folders on the way to the
workspace."""

DECISIONS, ABOVE_DECISIONS = frozenset(("adr", "adrs")), frozenset(("docs", "doc"))
"""Names of folders of decision records, and of those that they often lie in."""

SITES: Mapping[str, tuple[str, str]] = {
    "book.toml": ("src", ""),
    "conf.py": ("", "index.rst"),
    "docusaurus.config.js": ("docs", ""),
    "docusaurus.config.ts": ("docs", ""),
    "hugo.toml": ("content", ""),
    "hugo.yaml": ("content", ""),
    "mkdocs.yml": ("docs", ""),
}
"""Settings of a documentation site → folder of its pages, and what must lie beside them to tell that they are some:
mdBook, Sphinx, Docusaurus, Hugo, MkDocs, by default."""

WIKI_SUFFIX = ".wiki"
"""Suffix of the checkout of a repository's wiki, which is a repository of its own."""

# Nothing in it can pass for a sentence, an option or markup: a clone chooses the names of its vaults.
_PLAIN_PATH = re.compile(r"(?:\.\./)?\w[\w .+-]*(?:/\w[\w .+-]*)*")


@struct
class NotesFolder:
    """Documents of a folder that are in no base."""

    places: Mapping[str, int]
    """Folder or file in the folder → documents there."""
    complete: bool
    likely: Mapping[str, int] = field(default_factory=dict)
    """Folder in the folder that looks like knowledge, outermost, `""` for itself → documents in it."""


@struct
class Suggestion:
    """A folder that may be a project's knowledge."""

    path: Path
    name: str
    """Relative to the directory that its command is run in, with a slash."""
    documents: str
    """How many, in words."""
    sentence: str
    """Why, and the command or setting that makes it the project's knowledge."""
    directory: Path
    """Where its pointer belongs."""


def outside(hub: Hub) -> tuple[str, ...]:
    """Return sentences on the project's documents in no base, or what looks like knowledge, and how to include it."""
    root, discovery = _root(hub), hub.discovery()
    if root is None:
        return ()
    notes, project = look(root, discovery.bases, _steps(root, discovery)), discovery.project
    has_none = project is None or is_empty(hub, project)
    # A model reads it where nobody has typed a command.
    ask = (ASK,) if has_none and hub.options.typed_in is None else ()
    if has_none and (found := _suggestions(hub, root, notes)):
        return (*ask, *(one.sentence for one in found))
    return (*ask, _left_out(hub, root, notes)) if notes.places else ()


def _left_out(hub: Hub, root: Path, notes: NotesFolder) -> str:
    """Return the sentence on documents in no base."""
    places, target = notes.places, root
    if hub.discovery().project is None and is_directory(root / FOLDER):  # it only lacks a pointer
        target = root / FOLDER
        places = {name: count for name, count in places.items() if name == f"{FOLDER}/"} or places
    # Those with the most files, folders first.
    ordered = sorted(places, key=lambda name: (not name.endswith("/"), -places[name], name))
    names = [name if len(name) <= NAME_CHARACTERS else f"{name[:NAME_CHARACTERS]}…" for name in ordered[:PLACES]]
    named = ", ".join([*names, *(["…"] if len(ordered) > PLACES else [])])
    count, least = sum(places.values()), "" if notes.complete else "At least "
    verb, them = ("is", "it") if count == 1 and notes.complete else ("are", "them")
    sentence = f"{least}{counted(count, 'document')} in this project ({named}) {verb} not part of a base"
    return f"{sentence}; {_remedy(hub, root, target)} includes {them}."


def choices(hub: Hub) -> tuple[Suggestion, ...]:
    """Return what may become the project's knowledge, while it has documents and has chosen none or an empty base.

    These are the folders that look like it, `docs/` if that is searched without having been chosen, the whole project
    if it has others, and a new folder.
    """
    root, discovery = _root(hub), hub.discovery()
    project = discovery.project
    chosen = project if project and project.origin != "docs" else None
    if root is None or (chosen and not is_empty(hub, chosen)):
        return ()
    new = root / FOLDER
    if project is None and is_directory(new):
        return ()  # it only lacks a pointer
    notes = look(root, discovery.bases, _steps(root, discovery))
    found = list(_suggestions(hub, root, notes))
    if project and not chosen:
        docs = root / "docs"
        parts = "docs/ and README are" if len(project.only) > 1 else "docs/ is"
        why = f"{parts} searched already, read-only; {_remedy(hub, root, docs)} lets agents write in docs/."
        found.insert(0, Suggestion(docs, "docs/", "searched already; choose it to let agents write there", why, root))
    if sum(notes.places.values()) > sum(notes.likely.values()):
        every = look(root, (), left_out=())
        count = f"{'' if every.complete else 'at least '}{counted(sum(every.places.values()), 'document')}"
        found.append(Suggestion(root, "./", f"the whole project, {count}", _left_out(hub, root, notes), root))
    if found and not chosen:
        why = f"{_remedy(hub, root, new)} creates a folder for new documents."
        found.append(Suggestion(new, f"{FOLDER}/", "a new folder", why, root))
    return tuple(found)


def look(
    root: Path, bases: Sequence[Base], steps: Collection[str] = ("",), left_out: Collection[str] = INSTRUCTIONS
) -> NotesFolder:
    """Count the documents of a real folder outside all bases, filtered as in a base, but for some `left_out`.

    `steps` are folders in it whose subfolders may look like knowledge by their name.
    """
    taken = [part for base in bases for part in _parts(base, root)]
    if "" in taken:
        return NotesFolder({}, complete=True)
    filters = Filters(Base(id="outside", path=root, origin="docs"))
    places: Counter[str] = Counter()
    likely, files = set[str](), list[str]()
    pending: list[tuple[str, tuple[Layer, ...]]] = [("", filters.outer)]
    left = MOST_ENTRIES
    for folder, outer in pending:
        entries, layers = list[os.DirEntry[str]](), outer
        with suppress(OSError), os.scandir(root / folder) as found:
            entries = list(islice(found, left))
        left -= len(entries)
        inside = {entry.name for entry in entries}
        for site, (pages, beside) in SITES.items():
            if site in inside and (not beside or beside in inside):
                likely.add("/".join(filter(None, (folder, pages))))
                # Only folders that are walked count, wherever the settings of a clone may lead.
                if len(likely) <= SUGGESTIONS and (named := site_pages(root / folder / site)):
                    likely.update(posixpath.normpath(posixpath.join(folder, path)) for path in named[1])
        if folder and (names := [entry.name for entry in entries if entry.name in IGNORE_NAMES]):
            layers = filters.layers_in(folder, folder, outer, sorted(names))
        for entry in entries:
            path = f"{folder}/{entry.name}" if folder else entry.name
            if belongs(path, taken) and taken:
                continue
            if entry.is_dir(follow_symlinks=False):
                if entry.name == VAULT_FOLDER:
                    likely.add(folder)
                if filters.folder_reason(path, entry.name, layers) is None:
                    pending.append((path, layers))
                    name, above = entry.name.lower(), folder.rpartition("/")[2].lower()
                    if (folder in steps and name in LIKELY_NAMES) or (name in DECISIONS and above in ABOVE_DECISIONS):
                        likely.add(path)
            elif (
                is_native(entry.name)
                and entry.is_file(follow_symlinks=False)
                and filters.file_reason(path, entry.name, layers) is None
            ):
                name, slash, _ = path.partition("/")
                places[name + slash] += path not in left_out
                files.append(path)
        if left <= 0:
            break
    folders = (_outermost(path, likely) for path in files)
    return NotesFolder(+places, left > 0, Counter(above for above in folders if above is not None))


def _outermost(path: str, folders: Collection[str]) -> str | None:
    """Return the outermost of some folders that a file lies in."""
    if not {"", "."}.isdisjoint(folders):
        return ""
    parts = path.split("/", LEVELS)
    above = ("/".join(parts[:end]) for end in range(1, len(parts)))
    return next((folder for folder in above if folder in folders), None)


def _root(hub: Hub) -> Path | None:
    """Return the folder of the project if there may be something to say about its documents."""
    discovery, home = hub.discovery(), hub.options.home
    root = discovery.workspace.root
    if root is None or discovery.off or Path(os.path.realpath(home)).is_relative_to(root):
        return None
    if any(problem.subject == PROJECT_ID for problem in discovery.problems):
        return None  # this problem has its own remedy
    return root


def is_empty(hub: Hub, base: Base) -> bool:
    """Return whether a project base has no document but the one that `kbhub init` creates."""
    if has_documents(base.path):
        return False
    with suppress(IndexUnavailable, FileNotFoundError), hub.index(base).snapshot() as index:
        if index.meta("synced") is not None:
            return index.paths() in ([], [STARTER_NAME])
    return not base.include


def _steps(root: Path, discovery: Discovery) -> frozenset[str]:
    """Return the folders from a project's root to the workspace directory, relative to the root."""
    parts = (discovery.workspace.directory or root).relative_to(root).parts
    return frozenset("/".join(parts[:end]) for end in range(len(parts) + 1))


def _suggestions(hub: Hub, root: Path, notes: NotesFolder) -> tuple[Suggestion, ...]:
    """Return at most `SUGGESTIONS` folders, those with the most documents first."""
    found = [(count, root / folder, notes.complete) for folder, count in notes.likely.items()]
    wiki = root.with_name(f"{root.name}{WIKI_SUFFIX}") if root.name else root
    if wiki != root and is_directory(wiki) and not wiki.is_symlink() and owned_by_user(wiki):
        beside = look(wiki, hub.discovery().bases)
        found.append((sum(beside.places.values()), wiki, beside.complete))
    proposed = []
    for count, folder, complete in sorted(found, key=lambda one: (-one[0], str(one[1]))):
        directory = _directory(hub, root, folder)
        name = Path(os.path.relpath(folder, directory)).as_posix()
        if count and len(name) <= NAME_CHARACTERS and (name == "." or _PLAIN_PATH.fullmatch(name)):
            documents = f"{'' if complete else 'at least '}{counted(count, 'document')}"
            why = f"looks like this project's knowledge; use it with {_remedy(hub, root, folder)}."
            proposed.append(Suggestion(folder, f"{name}/", documents, f"{name}/ ({documents}) {why}", directory))
    return tuple(proposed[:SUGGESTIONS])


def _directory(hub: Hub, root: Path, folder: Path) -> Path:
    """Return where the pointer to a folder belongs: in the workspace directory if the folder lies below it."""
    directory = hub.discovery().workspace.directory
    return directory if directory and folder != root and folder.is_relative_to(directory) else root


def _parts(base: Base, root: Path) -> list[str]:
    """Return the paths below a folder that a base covers; `""` for the whole folder."""
    if root.is_relative_to(base.path):
        inside = root.relative_to(base.path).as_posix()
        if inside == "." and base.only:
            return list(base.only)
        return [""] if inside == "." or belongs(inside, base.only) else []
    if not base.path.is_relative_to(root):
        return []
    prefix = base.path.relative_to(root).as_posix()
    return [f"{prefix}/{part}" for part in base.only] or [prefix]


def _remedy(hub: Hub, root: Path, target: Path) -> str:
    """Return the command or setting that makes a folder, or the whole project, a base, keeping its other knowledge."""
    discovery, typed = hub.discovery(), hub.options.typed_in
    directory = _directory(hub, root, target)
    here = directory == discovery.workspace.directory and (typed is None or Path(os.path.realpath(typed)) == directory)
    relative = Path(os.path.relpath(target, directory)).as_posix()
    folder, place = (relative, ".") if here else (str(target), str(directory))
    project = discovery.project
    if project and not project.path.is_relative_to(root):
        return f"`{shlex.join(['kbhub', 'base', 'add', folder, '--for', place])}`"
    if project and project.origin == "pointer":
        return f'`"knowledge": "{relative}"` in its .kbhub.json'
    return f"`{shlex.join(['kbhub', 'init', *([] if here else ['--root', place]), '--knowledge', folder])}`"
