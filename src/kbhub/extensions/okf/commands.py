"""Export the files of a base, and make pages of sources: base export, doc ingest."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from pydantic import Field

from kbhub.cli.app import progress_bars
from kbhub.cli.options import Reply, bring_in_step, command
from kbhub.documents.edits import text_of, with_values
from kbhub.documents.filters import Filters
from kbhub.documents.links import EXTERNAL
from kbhub.documents.markdown import decode, images_of, parse_document
from kbhub.documents.secrets import find_secrets
from kbhub.documents.walk import open_contained, scan
from kbhub.errors import KbhubError, UsageError, WriteRefused
from kbhub.extensions.okf.bundles import INDEX, VERSION_KEY, declared, is_reserved
from kbhub.extensions.okf.ingest import ingest as take_in
from kbhub.extensions.okf.pages import GENERIC, entry, faults
from kbhub.frozen import Model
from kbhub.hub import Hub
from kbhub.reading.links import places
from kbhub.render.report import ERROR_BYTES, Item, Line, Report
from kbhub.types import Base, Document
from kbhub.workspace.files import open_folder

VERSION = "0.2"
MOST_BYTES = 100_000_000


class CopiedBase(Model):
    """What `kbhub base export` wrote."""

    base: str = Field(description="Id of the base.")
    folder: Path = Field(description="Where its files are now.")
    files: tuple[str, ...] = Field(description="Paths of the written files.")
    changed: tuple[str, ...] = Field((), description="Those that differ from the base: they got front matter.")
    refused: tuple[str, ...] = Field((), description="Files that look like they contain a credential.")
    faults: int = Field(0, description="What does not follow the format; see `kbhub audit --okf`.")


@command()
def export(
    hub: Hub,
    base: str,
    folder: Annotated[Path, Parameter(name="DIR")],
    /,
    *,
    okf: bool = False,
    allow_secret: bool = False,
) -> Reply:
    """Copy the documents of a base, and the files that they name, to a new folder, byte for byte.

    Hidden and ignored files, and links out of the base, are left out.

    Example: kbhub base export --okf project ~/bundle

    Args:
        base: Id of the base.
        folder: The folder; it must be empty, or not exist.
        okf: Make it a bundle of the Open Knowledge Format: where the base is none, pages without a `type` get one,
            and index.md declares the format.
        allow_secret: Also copy what looks like a credential.
    """
    (chosen,) = hub.select([base])
    if chosen.engine:
        raise UsageError(f"The base {chosen.id!r} is shared; copy it with `kbhub team pull`.")
    target = Path(os.path.realpath(folder))
    if target.is_relative_to(os.path.realpath(chosen.path)):
        raise UsageError(f"{target} is inside the base; choose a folder outside it.")
    try:
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise UsageError(f"{target} is not an empty folder; choose another one.")
        target.mkdir(parents=True, exist_ok=True)
        done = _export(hub, chosen, target, okf=okf, allow_secret=allow_secret)
    except OSError as error:
        raise KbhubError(f"{target} cannot be written: {error.strerror or error}.") from error
    notes = [f"{path}: left out, because it looks like it contains a credential." for path in done.refused]
    if done.faults:
        notes.append(f"It does not follow the format in {done.faults} places; `kbhub audit --okf {base}` lists them.")
    return Reply(done, f"{len(done.files)} files written to {target}", notes=notes, code=1 if done.refused else 0)


def _export(hub: Hub, base: Base, target: Path, *, okf: bool, allow_secret: bool) -> CopiedBase:
    filters = Filters(base)
    out = Base(id=base.id, path=target, origin="argument")
    pages = scan(base, hub.limits()).files
    new = okf and not declared(base)
    paths, written, changed, refused = [*pages], list[str](), list[str](), list[str]()
    titles, count, seen = dict[str, str](), 0, set(paths)

    def write(path: str, data: bytes) -> None:
        *folders, name = path.split("/")
        with open_folder(out, folders, make=True) as folder:
            folder.create(name, data)
        written.append(path)

    for path in paths:  # grows by what pages name
        try:
            with open_contained(base, path) as file:
                data = file.read(MOST_BYTES + 1)
        except (OSError, KbhubError):
            continue
        text = decode(data)[0]
        if len(data) > MOST_BYTES or (find_secrets(text) and not allow_secret):
            refused.append(path)
            continue
        if path in pages and path.endswith(".md"):
            document = parse_document(path, data)
            titles[path] = document.title
            for other in _named(path, document, text):
                place = filters.root / other
                # A link could lead to a file that is hidden or ignored.
                is_own = other not in seen and place.is_file() and os.path.realpath(place) == str(place)
                if is_own and filters.target_reason(other) is None:
                    paths.append(other)
                seen.add(other)
            if new and (page := _as_page(path, data)) != data:
                data = page
                changed.append(path)
            if okf:
                found = faults(path, decode(data)[0], lists=False)
                count += sum(fault.severity == "error" for fault in found)
        write(path, data)
    if new and INDEX not in written and INDEX not in refused:
        folders = sorted({path.partition("/")[0] for path in titles if "/" in path})
        uppermost = {path: title for path, title in titles.items() if "/" not in path and not is_reserved(path)}
        listed = [entry(title, path) for path, title in sorted(uppermost.items())]
        listed += [entry(name, f"{name}/") for name in folders]
        listing = "\n".join(["---", f'{VERSION_KEY}: "{VERSION}"', "---", "# Pages", "", *listed, ""])
        write(INDEX, listing.encode())
        changed.append(INDEX)
    return CopiedBase(
        base=base.id,
        folder=target,
        files=tuple(sorted(written)),
        changed=tuple(changed),
        refused=tuple(refused),
        faults=count,
    )


def _named(path: str, document: Document, text: str) -> Iterator[str]:
    """Yield the paths in the base that a page may name: in links, images and front matter."""
    targets = [link.target for link in (*document.links, *images_of(text))]
    front: list[Any] = [document.front_matter]
    for value in front:  # grows by what is nested
        inner = value.values() if isinstance(value, Mapping) else value
        targets += [one for one in inner if isinstance(one, str)]
        front += [one for one in inner if isinstance(one, Mapping | list)]
    for target in dict.fromkeys(targets):
        if not EXTERNAL.match(target):
            yield from filter(None, places(path, target, "markdown"))


def _as_page(path: str, data: bytes) -> bytes:
    """Return a file with the front matter that a bundle needs, or as it is if that cannot be written."""
    with suppress(WriteRefused):
        text = text_of(path, data)
        if path == INDEX:
            return with_values(path, text, {VERSION_KEY: VERSION}).encoded()
        if not (is_reserved(path) or text.front.values.get("type")):
            return with_values(path, text, {"type": GENERIC}).encoded()
    return data


@command()
def ingest(
    hub: Hub,
    *sources: Annotated[Path, Parameter(name="SOURCE")],
    base_id: Annotated[str | None, Parameter(name="--in", metavar="BASE")] = None,
    allow_secret: bool = False,
) -> Reply:
    """Copy sources into a base, with their hash, and write a first page on each.

    SOURCE is a file, such as a PDF, a mail or a log, or a folder. A page has the outline, sentences that decide, and
    links to related pages. If a source changed since, a page that nobody edited is written again; for other pages, you
    see what changed.

    Example: kbhub doc ingest manual.pdf ~/mail/launch

    Args:
        sources: What to ingest; at least one.
        base_id: Write to this base (the project's).
        allow_secret: Store it even if it looks like it contains a credential.

    Returns:
        The exit code: 1 if a source was refused.
    """
    if not sources:
        raise UsageError("`kbhub doc ingest` requires SOURCE. See `kbhub doc ingest --help`.")
    bring_in_step(hub)
    with progress_bars("reading ") as progress:
        done = take_in(hub, sources, base_id, progress, secret=allow_secret)
    items = []
    for one in done.sources:
        said = [f"kept as {one.kept}"] if one.kept else []
        said += [*(f"page: {page}" for page in one.pages), *(f"related: {page}" for page in one.related)]
        lines = tuple(Line(text, ERROR_BYTES) for text in (*said, *one.changes, *one.notes))
        items.append(Item(label=one.action.capitalize(), title=Line(one.source), lines=lines))
    actions = {one.action for one in done.sources}
    drafts = "New pages are drafts: edit them, or have an agent do it by the skill kbhub-wiki (`kbhub setup --skill`)."
    edited = "Edited pages were left alone: correct them; `kbhub audit --check changed` lists them."
    hints = [hint for action, hint in (("created", drafts), ("changed", edited)) if action in actions]
    return Reply(done, Report(parts=items), hints=hints, code=int("refused" in actions))
