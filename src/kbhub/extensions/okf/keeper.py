"""Whether what pages rest on is still what it was, by hash or by git's history; what contradicts it, and is missing."""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache, partial
from itertools import chain, combinations, groupby, islice
from pathlib import Path
from typing import Any

from pygments.lexers import find_lexer_class_for_filename
from pygments.token import Comment

from kbhub.answers.extractive import plain
from kbhub.answers.sentences import units
from kbhub.documents.filters import belongs
from kbhub.documents.frontmatter import read_front_matter
from kbhub.documents.links import EXTERNAL
from kbhub.documents.shown_text import TITLE_BYTES, one_line
from kbhub.documents.walk import is_relative, read_contained
from kbhub.editing.findings import AuditRun, Fix, Found, Material, check, front_lines, line_of
from kbhub.extensions.okf.bundles import hash_of
from kbhub.index.catalogue import content_hashes, front_matter_of, texts
from kbhub.index.references import ENDED, declared
from kbhub.memory.catalog import MAX_SUBJECT_CHARACTERS, all_known, definition, ref, section_text
from kbhub.reading.code_references import BUDGET_BYTES, GRAMMAR_CHARACTERS, SYMBOL_BYTES, Code, Sources
from kbhub.reading.links import places
from kbhub.search.conversations import Statement
from kbhub.search.document_signals import MONTHS, WEEKDAYS
from kbhub.search.search import search
from kbhub.types import Base, Query
from kbhub.usage.gaps import list_gaps
from kbhub.values import moment_of, struct
from kbhub.workspace.formats import is_markdown
from kbhub.workspace.git import git_root, hashed, is_shallow, listed, stored, versions

KEYS = ("refs", "sources", "sources.resource")
"""Keys of pages that rest on something."""

VERIFIED = ("verified", "verified_on", "last_verified")

MOST_CLAIMS = 20_000

MOST_VERSIONS = 50
"""Versions of a file among which the one with a hash is looked for."""

_HASH = re.compile(r"sha256:([0-9a-f]{8,64})|([0-9a-f]{12}|[0-9a-f]{64})")
"""That of a file (SHA-256), or its beginning as `write_document` writes it; others are of other programs."""

_LATER = re.compile(r"(?::\d+(?:-\d+)?)?(?:(?<!\s)\s+[-\u2013\u2014]\s.*)?$", re.DOTALL)
"""What follows a path: lines, and a remark."""

_SYMBOL = re.compile(r"(?!L\d)[^\W\d]\w*(?:\.\w+)*")

_INDENTED = (".yaml", ".yml", ".mk", "makefile", ".haml", ".pug", ".sass", ".coffee", ".nim", ".fs", ".hs")
"""Ends of the names of files in which indentation has a meaning."""

_DATED = "|".join((*(f"{day}s?" for day in WEEKDAYS), *(month for month in MONTHS if month != "may")))
_VALUE = re.compile(
    rf"(?<![\w.#/-])[v$€£]?\d[\w.,:]*%?|\b(?:{_DATED}|hourly|daily|weekly|monthly|quarterly|yearly|one|two|three|four|"
    r"five|six|seven|eight|nine|ten|eleven|twelve|twenty|thirty|forty|fifty|sixty|ninety|hundred)\b",
    re.IGNORECASE,
)
"""A number, a day, a month or an interval: what a sentence may say otherwise. Digits in a name (`sha256`) are none."""

_ASIDE = re.compile(
    r"\]\([^)]*\)|\]\[[^\]]*\]|\[\^[^\]]*\]|https?://\S+|^\s*(?:[-*+]|\d+[.)])\s+|\b(?:now|currently|today)\b"
    rf"|\b(?:since|as of)(?: (?:{_DATED}|may|\d[\d-]*))+,?",
    re.IGNORECASE,
)
"""Targets of links, marks of lists and footnotes, and words that date a sentence."""

_DIGITS = re.compile(r"\d+")
"""What differs in the paths of pages on two versions of a thing."""

FEWEST_WORDS = 2
"""Words with a meaning in a claim; one less in a whole sentence."""

MOST_ALIKE = 4
"""Most claims that may say the same: what more say is a stock phrase."""

_NOT_COMPARED = "{}: {} entries without a hash not compared, because {}."
_CHECK = "Check whether the page still holds, and change it, or say so: `verified: { by: human:NAME, at: TIME }`."
_OTHERWISE = "Change what is no longer true; if both are, link one page to the other."
_GONE = "Name what took its place, and check whether the page still holds."


@struct
class Claim:
    """What a page says it rests on."""

    material: Material
    page: str
    key: str
    """`refs` or `sources`."""
    text: str
    line: int | None
    path: str
    """As it is written, without what follows."""
    places: tuple[tuple[Base, str], ...]
    """Where it may be, likeliest first."""
    symbols: tuple[str, ...]
    """Names in code, each in the one before, or a heading."""
    hash: str

    def found(self, what: str, remedy: str, **more: Any) -> Found:
        """Return a finding on it."""
        message = f"`{self.key}` names {self.text!r}, which {what}."
        return Found(self.material, self.page, message, remedy, self.line, **more)


_now = partial(read_contained, most=SYMBOL_BYTES)


def _files(root: Path) -> Base:
    return Base(id="project files", path=root, origin="argument")


def _path_of(root: Path, base: Base, path: str) -> str | None:
    """Return the path from the git root, or None if the file is not below it."""
    path = path.rstrip("/")
    below = is_relative(path) and base.path.is_relative_to(root)
    return (base.path / path).relative_to(root).as_posix() if below else None


@lru_cache(maxsize=64)
def meaning(path: str, data: bytes, symbols: tuple[str, ...] = ()) -> str | None:
    """Return what a file, or a symbol in it, says, without comments and layout; None if it has no such symbol."""
    text = data.decode("utf-8", "replace").replace("\r\n", "\n")
    if is_markdown(path):
        lines = text.split("\n")
        start = read_front_matter(lines).closing
        part = section_text(path, data, symbols[0]) if symbols else "\n".join(lines[start + bool(start) :])
        return None if part is None else "\n".join(line.rstrip() for line in part.strip().split("\n"))
    if (found := Code(path, text).meaning(symbols)) is not None:
        return found
    tokens = _tokens(path, text)
    if symbols or path.lower().endswith(_INDENTED):
        plain = "".join(tokens)
        block = definition(plain, "::".join(symbols)) if symbols else plain
        if block is None or path.lower().endswith(_INDENTED):
            return block and "\n".join(line.rstrip() for line in block.split("\n") if line.strip())
        tokens = _tokens(path, block)
    return "\0".join(part for token in tokens if (part := token.strip()))


def _tokens(path: str, text: str) -> list[str]:
    """Return the tokens of a text, with line breaks in place of comments; its words, if its language is not known."""
    lexer = find_lexer_class_for_filename(path.rpartition("/")[2])
    if lexer is None or len(text) > GRAMMAR_CHARACTERS:
        return re.split(r"(\s+)", text)
    tokens = list(lexer(stripnl=False, ensurenl=False).get_tokens(text))
    remarks = {*Comment.subtypes, Comment} - {Comment.Preproc, Comment.PreprocFile}
    return ["\n" * part.count("\n") if kind in remarks else part for kind, part in tokens]


@check("changed", severity="warning")
def CHANGED(run: AuditRun, material: Material) -> Iterator[Found]:  # noqa: N802 - it becomes a `Check`
    """Find pages that rest on what changed, moved or vanished since they were verified, or last changed."""
    git = run.hub.discovery().workspace.git_root
    project = git if git and material.base.path.is_relative_to(git) else None
    root = project or git_root(material.base.path, None)
    claims = list(islice(_claims(run, material, project), MOST_CLAIMS))
    yield from _by_hash(material, root, [claim for claim in claims if claim.hash])
    # By file, so that each is looked at once.
    if root and (others := sorted((claim for claim in claims if not claim.hash), key=lambda one: one.path)):
        yield from _by_history(run, material, root, others)
    yield from _replaced(material, claims)


def _claims(run: AuditRun, material: Material, project: Path | None) -> Iterator[Claim]:
    base = material.base
    with material.hub.index(base).snapshot() as index:
        rows = {path: (front, text) for key in KEYS for path, front, text in front_matter_of(index, key)}
    for page, (front, text) in sorted((page, row) for page, row in rows.items() if page in material.written()):
        lines = front_lines(text)
        for key, entry in [(name, one) for name in KEYS[:2] for one in _listed(front.get(name))]:
            more = entry if isinstance(entry, Mapping) else {"resource": entry}
            name = more.get("resource")
            if not isinstance(name, str) or not 0 < len(name) <= MAX_SUBJECT_CHARACTERS or EXTERNAL.match(name):
                continue
            target, *symbols = (part.strip() for part in _LATER.sub("", name).split("::"))
            path, _, part = target.partition("#")
            symbols = symbols or ([part] if part and (is_markdown(path) or _SYMBOL.fullmatch(part)) else [])
            at = [(_files(project), path.removeprefix("./"))] if project else []
            if key == "sources":
                named = run.bases.get(path.partition("@")[0])
                own = [(base, place) for place in places(page, path, "markdown") if belongs(place, base.only)]
                at = [(named.base, path.partition("@")[2])] if named else [*own, *at]
            digits = _HASH.fullmatch(str(more.get("hash")).lower())
            hash_ = (digits[1] or digits[2]) if digits else ""
            line, inner = line_of(lines, name), tuple(filter(None, symbols))
            yield Claim(material, page, key, name, line, path, tuple(at), inner, hash_)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _verified(text: bytes) -> str:
    """Return when a page says it was verified, as it says so."""
    values = read_front_matter(text.decode("utf-8", "replace").splitlines()).values
    events = [event for key in VERIFIED for event in _listed(values.get(key))]
    moments = (event.get("at") if isinstance(event, Mapping) else event for event in events)
    return max((moment for moment in moments if isinstance(moment, str)), default="")


def _by_hash(material: Material, root: Path | None, claims: Iterable[Claim]) -> Iterator[Found]:
    """Compare what pages rest on with the hash that they have of it."""
    changed = list[tuple[Claim, Base, str, str]]()
    for claim in claims:
        there = ((base, path, digest) for base, path in claim.places if (digest := hash_of(base, path)))
        base, path, digest = next(there, (None, "", ""))
        if base is None:
            with material.hub.index(material.base).snapshot() as index:
                same = [one for one, digest in content_hashes(index).items() if digest.hex().startswith(claim.hash)]
            if len(same) == 1:
                yield _moved(claim, f"/{same[0]}" if claim.path.startswith("/") else material.ref(same[0]))
            else:
                yield claim.found("is gone", _GONE, severity="error")
        elif (new := digest[: len(claim.hash)]) != claim.hash:
            changed.append((claim, base, path, new))
    places = [place for _, base, path, _ in changed if root and (place := _path_of(root, base, path))]
    history = (versions(root, sorted({*places})) if root and places else None) or {}
    names = {place: found[:MOST_VERSIONS] for place, found in history.items()}
    texts = (stored(root, chain(*names.values()), SYMBOL_BYTES, BUDGET_BYTES) if root else None) or {}
    digests = {name: hashlib.sha256(text).hexdigest() for name, text in texts.items()}
    for claim, base, path, new in changed:
        own = names.get(_path_of(root, base, path) or "", ()) if root else ()
        old = next((texts[name] for name in own if digests.get(name, "").startswith(claim.hash)), None)
        both = [meaning(path, data, claim.symbols) for data in (old, _now(base, path)) if data is not None]
        if len(both) == 2 and both[0] == both[1]:
            fix = Fix(what="value", kind=claim.key, before=claim.hash, after=new)
            what = "says the same as before, but has another hash"
            yield claim.found(what, f"Write {new!r} as its hash.", severity="info", fix=fix)
        else:
            remedy = f"Check whether the page still holds, and write {new!r} as its hash."
            yield claim.found("changed since its hash was written", remedy)


def _moved(claim: Claim, place: str, *, changed: bool = False) -> Found:
    """Return that something moved; it is safe to follow it if the page does not speak of the old place."""
    lines = (_now(claim.material.base, claim.page) or b"").decode("utf-8", "replace").splitlines()
    spoken = any(claim.path.strip("/") in line for line in lines[read_front_matter(lines).closing :])
    after = claim.text.replace(claim.path, place)
    fix = None if changed or spoken else Fix(what="value", kind=claim.key, before=claim.text, after=after)
    remedy = f"Name it {after!r}{'' if fix else ', and check whether the page still holds'}."
    return claim.found(f"is now {after!r}{', and changed' if changed else ''}", remedy, fix=fix)


def _by_history(run: AuditRun, material: Material, root: Path, claims: Sequence[Claim]) -> Iterator[Found]:
    """Compare what pages rest on with what it was when they were verified, or last changed."""
    if is_shallow(root):
        run.notes.append(_NOT_COMPARED.format(material.base.id, len(claims), "the clone has no whole history"))
        return
    known = _baselines(material, root, {claim.page for claim in claims})
    named = [
        (claim, f"{known[claim.page][0]}:{place}")
        for claim in claims
        for base, path in claim.places
        if known and claim.page in known and (place := _path_of(root, base, path)) is not None
    ]
    then = stored(root, [name for _, name in named], SYMBOL_BYTES, BUDGET_BYTES)
    if known is None or then is None:
        run.notes.append(_NOT_COMPARED.format(material.base.id, len(claims), "git gave no history"))
        return
    sources, committed = Sources(root), cache(partial(listed, root))
    for _, options in groupby(named, key=lambda one: id(one[0])):
        for claim, name in options:
            if name in then:
                since = f"since the page was {known[claim.page][1]}"
                yield from _compared(sources, committed, claim, (name.partition(":")[2], then[name], since))
                break


def _baselines(material: Material, root: Path, pages: Collection[str]) -> dict[str, tuple[str, str]] | None:
    """Return page → the commit with the state of things that it describes, and why, as far as it is committed.

    It is the first commit of the page with its present `verified`, or, without one, with its present text.
    """
    paths = {page: place for page in pages if (place := _path_of(root, material.base, page)) is not None}
    names = versions(root, [*paths.values()])
    current = {page: _now(material.base, page) or b"" for page in paths}
    dates = {page: _verified(now) for page, now in current.items()}
    most = {page: MOST_VERSIONS if verified else 1 for page, verified in dates.items()}
    looked = {page: (names or {}).get(place, [])[: most[page]] for page, place in paths.items()}
    texts = stored(root, [name for own in looked.values() for name in own], SYMBOL_BYTES, BUDGET_BYTES)
    if names is None or texts is None:
        return None
    known = dict[str, tuple[str, str]]()
    for page, now in current.items():
        verified = dates[page]
        for name in looked[page]:
            text = texts.get(name, b"")
            if (_verified(text) != verified) if verified else (text.splitlines() != now.splitlines()):
                break
            known[page] = name.partition(":")[0], f"verified on {verified[:10]}" if verified else "last edited"
    return known


def _compared(
    sources: Sources, committed: Callable[[], Mapping[str, str]], claim: Claim, then: tuple[str, bytes, str]
) -> Iterator[Found]:
    """Compare a file with what it was; `committed` returns the committed ones, by the hash of their content."""
    place, old, since = then
    data, was = _now(_files(sources.root), place), meaning(place, old, claim.symbols)
    if data == old or was is None:  # it did not have the symbol
        return
    fault = sources.fault("::".join((place, *claim.symbols)))
    near = fault.near if fault else ""
    if data is None:
        files = committed()
        for new in filter(None, (files.get(hashed(old, files)), near.partition("::")[0])):
            moved = _now(_files(sources.root), new)
            if moved is not None and (found := meaning(new, moved, claim.symbols)) is not None:
                yield _moved(claim, new, changed=found != was or claim.key == "sources")
                return
        if fault and fault.state == "missing":
            yield claim.found(f"vanished {since}", _GONE, severity="error")
        return
    found = meaning(place, data, claim.symbols)
    if found is None or (claim.key == "refs" and fault and fault.state in ("undefined", "named")):
        remedy = f"Is it {near!r} now? {_GONE}" if near else _GONE
        yield claim.found("its file no longer defines", remedy, severity="error")
    elif found != was:
        yield claim.found(f"changed {since}", _CHECK)


def _replaced(material: Material, claims: Sequence[Claim]) -> Iterator[Found]:
    """Find pages with a source in their base that says itself that it is no longer valid."""
    paths = {id(claim): path for claim in claims for base, path in claim.places[:1] if base.id == material.base.id}
    rows = {path: material.documents[path] for path in paths.values() if path in material.documents}
    with material.hub.index(material.base).snapshot() as index:
        reasons = declared(index, [*rows.values()], material.hub.options.clock()).outdated
    for claim in claims:
        row = rows.get(paths.get(id(claim), ""))
        if row and (why := reasons.get(row.id, "")).casefold().startswith(ENDED):
            yield claim.found(f"is {why}", "Name what took its place, and check the page.")


@check("contradicted", severity="warning")
def CONTRADICTED(run: AuditRun, material: Material) -> Iterator[Found]:  # noqa: N802 - it becomes a `Check`
    """Find memories that a newer one may replace, unless confirmed since, and sentences with another value."""
    known = {memory.facts.id: memory for memory in all_known(run.hub)}
    for newer in known.values():
        for older in (known[name] for name in newer.facts.may_supersede if name in known):
            settled = older.facts.superseded_by or older.facts.rejected or newer.facts.misleading
            changed = older.facts.updated or older.facts.created or 0.0
            if older.shelf.base.id == material.base.id and not settled and (newer.facts.created or 0.0) >= changed:
                message = f"The newer memory {newer.title!r} may replace {older.title!r}."
                replace = f"`remember` it with `supersedes: {older.facts.id}`"
                remedy = f"If it does, {replace}; if not, confirm the older one."
                yield Found(material, older.path, message, remedy, others=(ref(run.hub, newer),))
    yield from _otherwise(run, material)


@struct
class Sentence:
    """What a page says, with values."""

    page: str
    line: int
    text: str
    values: tuple[str, ...]


def _otherwise(run: AuditRun, material: Material) -> Iterator[Found]:
    """Find sentences that a newer page has with other numbers or days, unless one of the two pages links the other."""
    said: dict[frozenset[str], list[Sentence]] = defaultdict(list)
    """The sentences with values of pages that are not superseded, by their other words."""
    pages = material.written()
    with material.hub.index(material.base).snapshot() as index:
        ended = declared(index, [*pages.values()], run.hub.options.clock()).outdated
        valid = [page for page, row in pages.items() if not ended.get(row.id, "").casefold().startswith(ENDED)]
        for page, whole in texts(index, valid):
            lines = whole.split("\n")
            body = read_front_matter(lines).body
            for unit in filter(None, map(plain, units("\n".join(lines[body:]), body + 1, whole_lists=False))):
                claim = _ASIDE.sub(" ", unit.text)
                values = tuple(one.casefold().rstrip(".,:s") for one in _VALUE.findall(claim))
                words = Statement(_VALUE.sub(" ", claim)).words if values and unit.kind != "block" else ()
                if words and len(words) >= FEWEST_WORDS - claim.rstrip().endswith("."):
                    said[frozenset(words)].append(Sentence(page, unit.line, unit.text, values))
    linked = {frozenset((link.path, link.goal[1])) for link in material.links if link.goal}
    since = {page: _moment(material, page) for page in {one.page for some in said.values() for one in some}}
    for some in said.values():
        ordered = sorted(some, key=lambda one: (since[one.page], one.page, one.line)) if len(some) <= MOST_ALIKE else ()
        for old, new in combinations(ordered, 2):
            versions = _DIGITS.sub("", old.page) == _DIGITS.sub("", new.page)
            if versions or frozenset((old.page, new.page)) in linked or not 0 < since[old.page] < since[new.page]:
                continue
            if len(old.values) == len(new.values) and sorted(old.values) != sorted(new.values):
                ref, text = material.ref(new.page), one_line(new.text, TITLE_BYTES)
                message = f"The newer {ref!r} says on line {new.line}: {text!r}."
                yield Found(material, old.page, message, _OTHERWISE, old.line, others=(ref,))


def _moment(material: Material, path: str) -> float:
    """Return when a page was verified, dated or else committed, in seconds since the epoch; 0 if nothing says so."""
    row, verified = material.documents[path], moment_of(_verified(_now(material.base, path) or b""))
    return max(verified or 0.0, float(row.dated or 0)) or float(row.committed or 0)


@check("gaps", severity="info")
def GAPS(run: AuditRun, material: Material) -> Iterator[Found]:  # noqa: N802 - it becomes a `Check`
    """Find where the answers to recurring questions belong that nothing answers."""
    if material is not run.audited[0]:  # once for all
        return
    bases = {one.base.id: one for one in run.audited}
    for gap in list_gaps(run.hub).gaps:
        result = search(run.hub, Query(text=gap.question, bases=tuple(bases), limit=1))
        said = f"Nothing answers {gap.question!r}, which was asked {gap.count} times"
        if result.verdict == "strong":  # the next maintenance closes it
            continue
        if result.verdict == "weak" and result.hits:
            near = result.hits[0]
            remedy = f"Answer it here or in a new page; if it needs no answer, run `kbhub gaps --close {gap.id}`."
            yield Found(bases[near.base], near.path, f"{said}.", remedy, near.start_line)
        else:
            run.notes.append(f"{said}, and no page is near it (gap {gap.id}).")
