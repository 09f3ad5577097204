"""Whether what pages rest on is still what it was: entries of `refs` and `sources`, by hash, or by git's history."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from pygments.lexers import get_lexer_for_filename
from pygments.token import Comment, String, Text
from pygments.util import ClassNotFound

from kbhub.documents.frontmatter import read_front_matter
from kbhub.documents.links import EXTERNAL
from kbhub.documents.walk import open_contained
from kbhub.editing.findings import AuditRun, Fix, Found, Material, check, front_lines, line_of
from kbhub.errors import KbhubError
from kbhub.index.catalogue import content_hashes, front_matter_of
from kbhub.index.references import ENDED, outdated
from kbhub.memory.catalog import definition
from kbhub.reading.code_references import BUDGET_BYTES, GRAMMAR_CHARACTERS, SYMBOL_BYTES, Code, Sources
from kbhub.reading.links import places
from kbhub.types import Base
from kbhub.values import struct
from kbhub.workspace.formats import is_markdown
from kbhub.workspace.git import (
    StoredObject,
    commit_before,
    git_root,
    is_shallow,
    moved_to,
    stored_bytes,
    stored_objects,
    versions,
)

KEYS = ("refs", "sources", "sources.resource")
"""Keys of pages that rest on something."""

MOST_CLAIMS = 20_000
"""Limit of entries compared in one base."""

MOST_VERSIONS = 50
"""Versions of a file among which the one with a hash is looked for."""

_HASH = re.compile(r"sha256:([0-9a-f]{8,64})|([0-9a-f]{12}|[0-9a-f]{64})")
"""That of a file (SHA-256), or its beginning as `write_document` writes it; others are of other programs."""

SHA1_DIGITS = 40
"""Hex digits of a hash of git, unless the repository is made with SHA-256."""

_ENTRY = re.compile(rb"[0-7]{5,6} ([^\0]+)\0(?:.{20})(?=[0-7]{5,6} |$)", re.DOTALL)
"""A name in a stored folder."""

_INDENTED = (".yaml", ".yml", ".mk", "makefile", ".haml", ".pug", ".sass", ".coffee", ".nim", ".fs", ".hs")
"""Ends of the names of files in which indentation has a meaning."""

_CHECK = "Check whether the page still holds, and change it, or say so: `verified: { by: human:NAME, at: TIME }`."
_GONE = "Name what took its place, and check whether the page still holds."


@struct(frozen=False)
class Claim:
    """What a page says it rests on, and what became of that."""

    page: str
    key: str
    """`refs` or `sources`."""
    text: str
    line: int | None
    places: tuple[tuple[Base, str], ...]
    """Where it may be, likeliest first."""
    symbols: tuple[str, ...] = ()
    hash: str = ""
    place: tuple[Base, str] | None = None
    """Where it is, or was."""
    name: str = ""
    """What git calls it as it was."""
    data: bytes | None = None
    """The file as it is."""

    def found(self, material: Material, what: str, remedy: str, **more: Any) -> Found:
        """Return a finding on it."""
        message = f"`{self.key}` names {self.text!r}, which {what}."
        return Found(material, self.page, message, remedy, self.line, **more)


class Repository:
    """The files of a git root, as they are and as they were."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.sources = Sources(root)
        self.files = Base(id="project files", path=root, origin="argument")
        self.then: dict[str, StoredObject] = {}
        """`COMMIT:PATH` → what was there, as far as it was loaded."""
        self._contents: dict[str, bytes] = {}
        self._left = BUDGET_BYTES

    def path_of(self, base: Base, path: str) -> str | None:
        """Return the path from the git root, or None if the file is not below it."""
        place = base.path / path
        return place.relative_to(self.root).as_posix() if place.is_relative_to(self.root) else None

    def load(self, names: Iterable[str], *, contents: bool = False) -> None:
        """Ask git for what was at places, and maybe for its contents, all at once."""
        names = sorted(set(names))
        self.then |= stored_objects(self.root, [name for name in names if name not in self.then])
        wanted = dict[str, StoredObject]()
        for one in (self.then[name] for name in names if contents and name in self.then):
            if one.hash not in self._contents and one.size <= min(SYMBOL_BYTES, self._left):
                self._left -= one.size
                wanted[one.hash] = one
        self._contents |= stored_bytes(self.root, [*wanted.values()]) if wanted else {}

    def content(self, name: str) -> bytes | None:
        """Return loaded contents."""
        one = self.then.get(name)
        return self._contents.get(one.hash) if one else None

    def version(self, base: Base, path: str, digits: str) -> str:
        """Return the name of the committed version of a file that has a hash, or ""."""
        place = self.path_of(base, path)
        commits = (versions(self.root, [place]) or {}).get(place, []) if place else []
        names = [f"{commit}:{place}" for _, commit in commits[:MOST_VERSIONS]]
        self.load(names, contents=True)
        return next((name for name in names if _sha256(self.content(name) or b"").startswith(digits)), "")


def _now(base: Base, path: str) -> bytes | None:
    """Return the bytes of a file, or None without one that can be read."""
    try:
        with open_contained(base, path) as file:
            return file.read(SYMBOL_BYTES + 1)
    except (OSError, KbhubError, ValueError):
        return None


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _plain(data: bytes) -> bytes:
    return data.replace(b"\r\n", b"\n")


def meaning(path: str, data: bytes, symbols: Sequence[str] = ()) -> str | None:
    """Return what a file, or a symbol in it, says, without comments and layout; None if it has no such symbol."""
    text = data.decode("utf-8", "replace").replace("\r\n", "\n")
    if is_markdown(path) and not symbols:
        lines = text.split("\n")
        closing = read_front_matter(lines).closing
        return "\n".join(line.rstrip() for line in lines[closing + bool(closing) :]).strip()
    if (found := Code(path, text).meaning(symbols)) is not None:
        return found
    text = "".join(part if not _is_remark(kind) else "\n" * part.count("\n") for kind, part in _tokens(path, text))
    if symbols:
        block = definition(text, "::".join(symbols))
        if block is None:
            return None
        text = block
    if path.lower().endswith(_INDENTED):
        return "\n".join(line.rstrip() for line in text.split("\n") if line.strip())
    return "\0".join(part.strip() for kind, part in _tokens(path, text) if kind in String or part.strip())


def _is_remark(kind: Any) -> bool:
    return kind in Comment and kind not in Comment.Preproc and kind not in Comment.PreprocFile


def _tokens(path: str, text: str) -> Iterator[tuple[Any, str]]:
    try:
        if len(text) > GRAMMAR_CHARACTERS:
            raise ClassNotFound
        lexer = get_lexer_for_filename(path.rpartition("/")[2], stripnl=False, ensurenl=False)
    except ClassNotFound:
        return ((Text, part) for part in re.split(r"(\s+)", text))
    return lexer.get_tokens(text)


@check("changed", severity="warning")
def CHANGED(run: AuditRun, material: Material) -> Iterator[Found]:  # noqa: N802 - it becomes a `Check`
    """Find pages that rest on what changed, moved or vanished since they were verified, or last changed."""
    git = run.hub.discovery().workspace.git_root
    project = git if git and material.base.path.is_relative_to(git) else None
    root = project or git_root(material.base.path, None)
    repository = Repository(root) if root else None
    moments = dict[str, float | None]()
    claims = list(islice(_claims(run, material, project, moments), MOST_CLAIMS))
    for claim in claims:
        if claim.hash:
            yield from _by_hash(material, repository, claim)
    if repository and (others := [claim for claim in claims if not claim.hash]):
        yield from _by_history(run, material, repository, others, moments)
    yield from _replaced(run, material, claims)


def _claims(
    run: AuditRun, material: Material, project: Path | None, moments: dict[str, float | None]
) -> Iterator[Claim]:
    """Yield what pages rest on, and fill in when they were verified."""
    index, base = material.hub.index(material.base), material.base
    files = Base(id="project files", path=project, origin="argument") if project else None
    written = material.written()
    with index.snapshot():
        rows = {path: (front, text) for key in KEYS for path, front, text in front_matter_of(index, key)}
    for page, (front, text) in sorted((page, row) for page, row in rows.items() if page in written):
        moments[page] = _verified(front.get("verified"))
        lines = front_lines(text)
        entries = [(key, one) for key in ("refs", "sources") for one in _listed(front.get(key))]
        for key, entry in entries:
            name = entry.get("resource") if isinstance(entry, Mapping) else entry
            if not isinstance(name, str) or not name.strip() or EXTERNAL.match(name):
                continue
            target, *symbols = (part.strip() for part in name.split("::"))
            at = [(files, target.removeprefix("./").rstrip("/"))] if files else []
            if key == "sources":
                named = run.bases.get(target.partition("@")[0])
                own = [(base, place.rstrip("/")) for place in places(page, target, "markdown")]
                at = [(named.base, target.partition("@")[2])] if named else [*own, *at]
            digits = _HASH.fullmatch(str(entry.get("hash")).lower()) if isinstance(entry, Mapping) else None
            hash_ = (digits[1] or digits[2]) if digits else ""
            where = line_of(lines, name)
            yield Claim(page, key, name.strip(), where, tuple(at), tuple(filter(None, symbols)), hash_)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _verified(events: Any) -> float | None:
    """Return when a page was last verified, in seconds since the epoch."""
    moments = []
    for event in _listed(events):
        with suppress(TypeError, KeyError, ValueError):
            moment = datetime.fromisoformat(event["at"])
            moments.append((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())
    return max(moments, default=None)


def _by_hash(material: Material, repository: Repository | None, claim: Claim) -> Iterator[Found]:
    there = ((place, data) for place in claim.places if (data := _now(*place)) is not None)
    claim.place, claim.data = next(there, (None, None))
    if claim.place is None or claim.data is None:
        index = material.hub.index(material.base)
        with index.snapshot():
            same = [one for one, digest in content_hashes(index).items() if digest.hex().startswith(claim.hash)]
        if len(same) == 1:
            yield _moved(material, claim, f"/{same[0]}" if claim.text.startswith("/") else material.ref(same[0]))
        else:
            yield claim.found(material, "is gone", _GONE, severity="error")
    elif not (digest := _sha256(claim.data)).startswith(claim.hash):
        claim.name = repository.version(*claim.place, claim.hash) if repository else ""
        old = repository.content(claim.name) if repository else None
        path = claim.place[1]
        if old is not None and meaning(path, old, claim.symbols) == meaning(path, claim.data, claim.symbols):
            fix = Fix(what="value", kind=claim.key, before=claim.hash, after=digest[: len(claim.hash)])
            what = "says the same as before, but has another hash"
            yield claim.found(material, what, f"Write {fix.after!r} as its hash.", severity="info", fix=fix)
        else:
            yield claim.found(material, "changed since its hash was written", _CHECK)


def _moved(material: Material, claim: Claim, after: str, *, changed: bool = False) -> Found:
    """Return that something moved; it is safe to follow it if the page does not speak of the old place."""
    lines = _plain(_now(material.base, claim.page) or b"").decode("utf-8", "replace").split("\n")
    old = claim.text.partition("::")[0].strip("/")
    spoken = any(old in line for line in lines[read_front_matter(lines).closing :])
    fix = None if changed or spoken else Fix(what="value", kind=claim.key, before=claim.text, after=after)
    remedy = f"Name it {after!r}{'' if fix else ', and check whether the page still holds'}."
    return claim.found(material, f"is now {after!r}{', and changed' if changed else ''}", remedy, fix=fix)


def _by_history(
    run: AuditRun,
    material: Material,
    repository: Repository,
    claims: Sequence[Claim],
    moments: Mapping[str, float | None],
) -> Iterator[Found]:
    """Compare what pages rest on with what it was when they were verified, or last changed."""
    known = _baselines(material, repository, {claim.page: moments[claim.page] for claim in claims})
    if known is None or is_shallow(repository.root):
        why = "git has no history of them" if known is None else "the clone has no whole history"
        run.notes.append(f"{material.base.id}: {len(claims)} entries without a hash not compared, because {why}.")
        return
    places = {
        (claim.page, base.id, path): place
        for claim in claims
        for base, path in claim.places
        if claim.page in known and (place := repository.path_of(base, path)) is not None
    }
    repository.load(f"{commit}:{place}" for (page, *_), place in places.items() for commit in (known[page][0], "HEAD"))
    for claim in claims:
        for base, path in claim.places:
            name = f"{known.get(claim.page, ('',))[0]}:{places.get((claim.page, base.id, path))}"
            if not claim.place and name in repository.then:
                claim.place, claim.name, claim.data = (base, path), name, _now(base, path)
    differing = [claim for claim in claims if claim.place and _differs(repository, claim)]
    repository.load((name for claim in differing for name in (claim.name, _head(claim.name))), contents=True)
    for claim in differing:
        moment, (_, before) = moments[claim.page], known[claim.page]
        since = f"verified on {datetime.fromtimestamp(moment, UTC):%Y-%m-%d}" if moment else "last changed"
        if not (before and claim.data is not None and claim.place and _age(*claim.place) <= before):
            yield from _compared(material, repository, claim, f"since the page was {since}")


def _head(name: str) -> str:
    return f"HEAD:{name.partition(':')[2]}"


def _age(base: Base, path: str) -> float:
    return (base.path / path).stat().st_mtime


def _baselines(
    material: Material, repository: Repository, moments: Mapping[str, float | None]
) -> dict[str, tuple[str, float]] | None:
    """Return page → the commit with the state of things that it describes, and until when files had that, or 0.

    A page is written before it is committed: the first commit after it was verified has what was verified.
    """
    paths = {page: place for page in moments if (place := repository.path_of(material.base, page)) is not None}
    commits = versions(repository.root, [*paths.values()])
    if commits is None:
        return None
    later = {page: sum(at >= (moments[page] or 0) for at, _ in commits[place]) for page, place in paths.items()}
    before = {
        page: f"{commits[place][later[page]][1]}:{place}"
        for page, place in paths.items()
        if moments[page] is not None and later[page] < len(commits[place])
    }
    repository.load([*(f"HEAD:{place}" for place in paths.values()), *before.values()], contents=True)
    known = dict[str, tuple[str, float]]()
    for page, place in paths.items():
        moment, own = moments[page], commits[place]
        if moment is not None:
            earlier = (repository.content(before.get(page, "")) or b"").decode("utf-8", "replace").splitlines()
            had = _verified(read_front_matter(earlier).values.get("verified")) == moment
            commit = own[later[page] - 1][1] if later[page] and not had else commit_before(repository.root, moment)
            if commit:
                known[page] = commit, 0.0 if later[page] else moment
        elif own:
            stored, data = repository.content(f"HEAD:{place}"), _now(material.base, page)
            if stored is not None and data is not None and _plain(stored) == _plain(data):  # else it is changed now
                known[page] = own[0][1], 0.0
    return known


def _differs(repository: Repository, claim: Claim) -> bool:
    """Return whether a file is another than it was, or a folder has others."""
    old, head = repository.then[claim.name], repository.then.get(_head(claim.name))
    if old.kind == "tree" or claim.data is None:
        return head is None or head.hash != old.hash or old.kind != "tree"
    kind = "sha1" if len(old.hash) == SHA1_DIGITS else "sha256"
    stored = (b"blob %d\0" % len(data) + data for data in (claim.data, _plain(claim.data)))
    return old.hash not in [hashlib.new(kind, data, usedforsecurity=False).hexdigest() for data in stored]


def _compared(material: Material, repository: Repository, claim: Claim, since: str) -> Iterator[Found]:
    assert claim.place
    path, place, stored = claim.place[1], claim.name.partition(":")[2], repository.content(claim.name)
    if repository.then[claim.name].kind == "tree":
        head = repository.content(_head(claim.name))
        if head is None:
            yield claim.found(material, f"is gone {since}", _GONE, severity="error")
        elif {*_ENTRY.findall(stored or b"")} != {*_ENTRY.findall(head)}:
            yield claim.found(material, f"has other files {since}", _CHECK)
        return
    was = None if stored is None else meaning(path, stored, claim.symbols)
    if was is None:  # it is too large, or did not have the symbol
        return
    if claim.data is None:
        near = repository.sources.fault(place)
        for new in filter(None, (moved_to(repository.root, place), near.near if near else "")):
            data = _now(repository.files, new)
            if data is not None and (found := meaning(new, data, claim.symbols)) is not None:
                changed = found != was or claim.key == "sources"
                yield _moved(material, claim, "::".join((new, *claim.symbols)), changed=changed)
                return
        yield claim.found(material, f"is gone {since}", _GONE, severity="error")
        return
    found = meaning(path, claim.data, claim.symbols)
    fault = repository.sources.fault("::".join((place, *claim.symbols))) if claim.symbols else None
    if found is None or (fault and fault.state in ("undefined", "named")):
        remedy = f"Is it {fault.near!r} now? {_GONE}" if fault and fault.near else _GONE
        yield claim.found(material, f"the file no longer defines {since}", remedy, severity="error")
    elif found != was:
        yield claim.found(material, f"changed {since}", _CHECK)


def _replaced(run: AuditRun, material: Material, claims: Sequence[Claim]) -> Iterator[Found]:
    """Find pages with a source that says itself that it is no longer valid."""
    sources = [(claim, base.id, path) for claim in claims if claim.key == "sources" for base, path in claim.places]
    for other in (run.bases[name] for name in {name for _, name, _ in sources} if name in run.bases):
        rows = {
            path: other.documents[path]
            for _, name, path in sources
            if name == other.base.id and path in other.documents
        }
        index = other.hub.index(other.base)
        with index.snapshot():
            reasons, _ = outdated(index, [*rows.values()], material.hub.options.clock())
        for claim, name, path in sources:
            why = reasons.get(rows[path].id, "") if name == other.base.id and path in rows else ""
            if why.casefold().startswith(ENDED):
                yield claim.found(material, f"is {why}", "Name what took its place, and check the page.")
