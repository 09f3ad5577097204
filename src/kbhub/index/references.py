"""Identities of documents and chunks: keys in an index, refs as they are written, and cursors of pages of them."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import product
from math import prod

from kbhub.errors import UsageError
from kbhub.index.catalogue import texts
from kbhub.index.engine import WRITTEN_STATUS, ChunkRow, DocumentRow, Index, numbers, title_above
from kbhub.types import Base, Chunk, Discovery, Query
from kbhub.values import DAY_SECONDS, struct

MOST_REFS = 256
"""Maximum of refs from brace expansion; a few braces in a row could make millions."""

DOCID_DIGITS = 6
"""Hex digits of a displayed docid, unless two documents share them."""

HASH_DIGITS = 12
"""Hex digits of a content hash that are shown: one collision in 10^14 pairs of versions."""

MAX_DIGITS = 18
"""Most digits of a line number; no file has more lines, and Python refuses to parse very long numbers."""

LONGEST_REF = 8_192
"""Most characters of a ref: the longest path has 4,096, and a heading may follow."""

_RANGE = re.compile(
    r"^(?P<target>.+?):(?P<start>\d+)(?:\+(?P<offset>\d+))?(?:(?P<kind>[:-])(?P<other>\d+))?$", re.DOTALL
)

_BASE_ID = re.compile(r"[^\s/@]+")

NUMBERED_NAME = re.compile(r"(?<![\w-])([a-z]{2,20})[-_ ]?#?0{0,9}(\d{1,9})(?![\w-]|\.\d)", re.ASCII)

_NUMBERED_FILE = re.compile(r"(?:([a-z]{2,20})[-_ ]?)?0{0,9}(?!(?:19|20)\d\d[-_.]\d\d(?!\d))(\d{1,9})(?!\d)")
"""Not a date, which may be that of many documents."""

_SERIAL = re.compile(r"(?<!\d)(?!(?:19|20)\d\d(?!\d))\d{3}")
"""A number as records have it, rather than chapters, versions or years."""

_RECORDS = re.compile(r"(?:architectur\w*[-_ ])?decision(?:[-_ ]record)?$")
"""What architecture decision records and their folders are called, without the plural."""

_WILD = re.compile(r"[*?]|\[[^\]/]+\]")

_CHOICE = re.compile(r"\{([^{}]*,[^{}]*)\}")


def document_id(base: Base, path: str) -> str:
    """Return the full docid of a document: hex digits, of which six are shown."""
    return docid_in(f"team {base.shared_as}" if base.engine else str(base.path), path)


def docid_in(place: str, path: str) -> str:
    """Return the full docid of a document in a folder; for a shared base, `team` and its name replace the folder."""
    return hashlib.sha256(f"{place}\0{path}".encode("utf-8", "surrogateescape")).hexdigest()[:16]


def numbers_in(text: str) -> dict[str, tuple[str, str]]:
    """Return the names of numbered documents in a text, folded, with what they mean: `adr-0027` is `adr`, `27`."""
    return {found[0]: (_singular(found[1]), found[2]) for found in NUMBERED_NAME.finditer(text.casefold())}


def called(names: Mapping[str, tuple[str, str]], base: Base, path: str, *, alone: bool = True) -> list[str]:
    """Return which of some names a document has by its number: `adr-27` for `adr/0027-i18n.md`, and for `0027-i18n.md`
    in a base called `decisions/`. Among other words, not `python 3` for `python/03-classes.md`.
    """
    *folders, file = f"{base.path.name}/{path}".casefold().split("/")
    if (found := _NUMBERED_FILE.match(file)) is None:
        return []
    own = [(_singular(name), found[2]) for name in (found[1], *folders) if name]
    sure = alone or (len(names) == 1 and _SERIAL.search(found[0]))  # several are mostly volumes of a journal
    return [name for name, meant in names.items() if meant in own and (sure or "-" in name or "#" in name)]


def succeeds(path: str, why: str, base: Base, older: str) -> bool:
    """Return whether a document is the one that another, at `older`, names as its successor: in `superseded by ADR-12`,
    `superseded by 12` or `superseded by adr/0012-queue.md`.
    """
    name = why.casefold().partition(" by ")[2].strip("# ./")
    file, old = (_NUMBERED_FILE.match(one.casefold().rpartition("/")[2]) for one in (path, older))
    if name.isdecimal():
        return bool(file and old and file[1] == old[1] and int(file[2]) == int(name))
    here = path.casefold()
    return bool(name) and (
        f"/{here}".endswith((f"/{name}", f"/{name}.md")) or bool(called(numbers_in(name), base, here))
    )


def _singular(name: str) -> str:
    return _RECORDS.sub("adr", name.rstrip("s"))


def short_hash(digest: str) -> str:
    """Return the part of a content hash (SHA-256, hexadecimal) that is shown."""
    return digest[:HASH_DIGITS]


def chunk_key(text: str) -> int:
    """Return the key of a text's vector: 64 bits of its SHA-256, signed."""
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "replace")).digest()[:8], "big", signed=True)


def embedded_text(title: str, kind: str, chunk: Chunk | ChunkRow) -> str:
    """Return the text that is embedded for a chunk of a document: its prose under its title and headings."""
    above = title_above(title, kind, chunk.start_line)
    return "\n".join(filter(None, (above, " > ".join(chunk.headings), chunk.text[chunk.prose :])))


@struct
class ParsedRef:
    """A parsed ref: a document, and maybe a part of it."""

    target: str
    """Path or its end, `id@path`, title, alias, pattern or `#docid`."""
    start: int | None = None
    """First line, from 1; in a ref, it may be 0, and `count` 0 or less."""
    count: int | None = None
    heading: str | None = None
    offset: int = 0
    """Characters of the first line to skip."""


def parse_reference(text: str) -> list[ParsedRef]:
    """Return the possible meanings of a ref, likeliest first; a file name may itself contain `:`, `#` or `@`.

    A ref is `path`, `path:from`, `path:from:count`, `path:from-to`, `path:from+characters`, `path#Heading`,
    `path::Heading > Heading`, each with an optional `id@` prefix, and with a title, an alias, a pattern or `#docid` in
    place of the path.
    """
    meanings = []
    for form in (text, text.strip()):  # a file name may begin or end with a space, but a typed ref never means one
        meanings.append(ParsedRef(form))
        if part := _RANGE.match(form):
            start, other = _number(part["start"]), _number(part["other"]) if part["other"] else None
            if other is not None and part["kind"] == "-":
                other += 1 - start
            meanings.append(ParsedRef(part["target"], start, other, offset=_number(part["offset"] or "0")))
        target, colons, heading = form.partition("::")
        if colons and heading.strip():
            meanings.append(ParsedRef(target, heading=heading.strip()))
        at = form.find("#", 1)  # a docid starts with `#`
        if at > 0 and form[at + 1 :].strip():
            meanings.append(ParsedRef(form[:at], heading=form[at + 1 :].strip()))
    return list(dict.fromkeys(meanings))


def check_length(ref: str) -> None:
    """Raise UsageError for a ref longer than any path with a heading, which would take long to look up."""
    if len(ref) > LONGEST_REF:
        raise UsageError(
            f"A ref has at most {LONGEST_REF:,} characters; this one has {len(ref):,}. Search for it to get its ref."
        )


def split_refs(text: str) -> list[str]:
    """Split a string at its commas, except those between braces."""
    parts, start, depth = [], 0, 0
    for at, mark in enumerate(text):
        if mark == "{":
            depth += 1
        elif mark == "}":
            depth = max(0, depth - 1)
        elif mark == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    # An unclosed brace is an ordinary character.
    parts = text.split(",") if depth else [*parts, text[start:]]
    return [part.strip() for part in parts if part.strip()]


def expand_braces(text: str) -> list[str]:
    """Expand braces, also nested ones: `{a,b}.md` → `a.md` and `b.md`; more than `MOST_REFS` raise UsageError."""
    refs: list[str] = []
    pending = [text]
    while pending:
        parts = _CHOICE.split(pending.pop())
        if len(parts) == 1:
            refs.append(parts[0])
            continue
        # Even items are outside of braces, odd ones inside.
        choices = [part.split(",") if place % 2 else [part] for place, part in enumerate(parts)]
        if prod(map(len, choices)) + len(pending) + len(refs) > MOST_REFS:
            raise UsageError(f"{text[:60]!r} stands for more than {MOST_REFS} refs. Ask for fewer at a time.")
        pending += reversed(["".join(combination) for combination in product(*choices)])
    return list(dict.fromkeys(refs))


def is_pattern(target: str) -> bool:
    """Return whether a target may match several documents: it contains `*`, `?` or `[…]`."""
    return _WILD.search(target) is not None


def _number(digits: str) -> int:
    return int(digits[:MAX_DIGITS])


def short_docid(docid: str, indexes: Sequence[Index]) -> str:
    """Return the shortest unique prefix of a docid, of at least `DOCID_DIGITS` digits."""
    for digits in range(DOCID_DIGITS, len(docid)):
        if sum(len(index.documents_by_docid(docid[:digits])) for index in indexes) <= 1:
            return f"#{docid[:digits]}"
    return f"#{docid}"


def short_docids(docids: Collection[str], indexes: Sequence[Index]) -> dict[str, str]:
    """Return the shortest unique prefixes of docids, see `short_docid`."""
    short = {docid: docid[:DOCID_DIGITS] for docid in docids}
    counts: Counter[str] = Counter()
    for index in indexes:
        counts.update(index.docid_counts(short.values()))
    return {
        docid: f"#{prefix}" if counts[prefix] <= 1 else short_docid(docid, indexes) for docid, prefix in short.items()
    }


def named_base(ref: str, bases: Iterable[Base]) -> Base | None:
    """Return the base whose id or name starts a ref, or None."""
    name, mark, _ = ref.partition("@")
    return next((base for base in bases if name in (base.id, *base.names)), None) if mark else None


def below_base(ref: str, bases: Iterable[Base]) -> tuple[Base, str] | None:
    """Return the base that a ref names as a folder (as for `ls`) and the rest of the ref, or None."""
    name, _, path = ref.partition("/")
    base = next((base for base in bases if name in (base.id, *base.names)), None)
    return (base, path) if base and path else None


def unknown_base(ref: str, bases: Iterable[Base]) -> str | None:
    """Return the part of a ref before its `@` if it may be the id of an unknown base."""
    name, mark, _ = ref.partition("@")
    return name if mark and _BASE_ID.fullmatch(name) and named_base(ref, bases) is None else None


def why_no_base(ref: str, discovery: Discovery) -> str:
    """Return why a ref leads to no active base, without a full stop; empty if it does or names none."""
    name = unknown_base(ref, discovery.bases)
    if name is None:
        return ""
    active = f" (active: {', '.join(base.id for base in discovery.bases)})"
    problem = discovery.problem_of(name).removesuffix(".")
    return f"no base {name!r} is active{f': {problem}' if problem else active}"


def ref_of(base: Base, path: str, bases: Iterable[Base]) -> str:
    """Return the ref of a document: its path in the project base, else `id@path`, as for an ambiguous path."""
    plain = base.id == "project" and named_base(path, bases) is None
    return path if plain else f"{base.id}@{path}"


_FINGERPRINT = 10
"""Hex digits of the request's hash; 40 bits distinguish the queries of one conversation."""

_DECIDING = ("text", "queries", "passage", "bases", "mode", "granularity", "recency", "min_score")
"""Fields of a query that determine the hits and their order."""

_CURSOR = re.compile(rf"(\d{{1,9}})\.([0-9a-f]{{{_FINGERPRINT}}})")


def make_cursor(asked: Query | str | Sequence[str], offset: int) -> str:
    """Return the cursor of the page after `offset` hits of a query, or documents of refs."""
    return base64.urlsafe_b64encode(f"{offset}.{_fingerprint(asked)}".encode()).decode().rstrip("=")


def offset_of(cursor: str, asked: Query | str | Sequence[str]) -> int:
    """Return the offset of a cursor of a query, whose own offset, limit and trace may differ, or of refs."""
    is_query = isinstance(asked, Query)
    try:
        text = base64.urlsafe_b64decode(cursor.strip() + "=" * (-len(cursor.strip()) % 4)).decode("ascii")
    except (binascii.Error, ValueError):
        text = ""
    if (match := _CURSOR.fullmatch(text)) is None:
        call = "search" if is_query else "read"
        raise UsageError(f"`cursor` is not one from kbhub. Copy it in full, or {call} without it for the first page.")
    if match[2] != _fingerprint(asked):
        raise UsageError(
            "`cursor` belongs to another search. Pass it with the same query, queries, bases, mode and options, "
            "or omit it for the first page."
            if is_query
            else "`cursor` belongs to other refs. Pass it with the same refs, or omit it to start from the first."
        )
    return int(match[1])


def _fingerprint(asked: Query | str | Sequence[str]) -> str:
    if isinstance(asked, Query):
        values = {name: getattr(asked, name) for name in _DECIDING}
        text = json.dumps(values, ensure_ascii=False, separators=(",", ":"))
    else:
        text = json.dumps(asked if isinstance(asked, str) else list(asked))
    return hashlib.sha256(text.encode()).hexdigest()[:_FINGERPRINT]


STALE_AFTER = "stale_after"
"""Front-matter key with the first day on which a document is stale (Open Knowledge Format)."""

UNTIL_KEYS = ("expires", "review", "review_by", STALE_AFTER, "valid_until")
"""Front-matter keys with the last day on which a document is valid without a review, and `STALE_AFTER`."""

SUPERSEDED_KEYS = ("superseded_by", "superseded-by")

MISLEADING = "misleading"
_TRUSTED_BY = ("generated.by", "verified.by")
_KEYS = ", ".join(map(repr, (*UNTIL_KEYS, *SUPERSEDED_KEYS, "status", WRITTEN_STATUS, MISLEADING, *_TRUSTED_BY)))

ENDED = ("superseded", "deprecated")
"""First word of a `status` of a document that is no longer valid."""

_ACCEPTED = "accepted"

DECISION_FOLDERS = frozenset({"adr", "adrs", "decision", "decisions", "decision-records", "decision_records"})
"""Folders of decision records, lower case: a decision is valid until another one replaces it."""

STALE_DAYS = 365
"""Age from which a document counts as stale."""

HEAD_LINES = 30
"""Lines in which a line `Status: …` applies to the document: below front matter, title and a short introduction."""

_STATUS = re.compile(
    r"^(?:(?P<section>#{1,6}[ \t]+status[ \t#]*\n\s*+)|[*+-]?[ \t]*[*_]*status[*_]*[ \t]*:[*_]*)[ \t*_`~-]*+"
    r"(?:(?:(?:accepted|proposed)\W+)+(?=super[cs]eded by))?(?P<word>accepted|super[cs]eded|deprecated)\b(?P<more>.*)",
    re.IGNORECASE | re.MULTILINE,
)
"""Status in decision records: a section (Nygard) or a line (MADR); adr-tools writes `Superceded by`."""

_LINK = re.compile(r"\[([^\]\n]*)\]\([^)\n]*\)")
_MARKS = "*_` \t\r."

_MOST_WORDS = 120
"""Most characters of a reported status."""

TRUST = ("generated", "machine-confirmed", "human-reviewed")
"""Who stands behind a document by its own word, least trusted first: whom `generated` and `verified` name."""

REJECTED = "rejected"


@struct
class Declarations:
    """What documents declare of themselves, by id."""

    outdated: dict[int, str]
    """Short reasons, also of those that are superseded by another."""
    decided: set[int]
    """Decision records, which age alone does not make stale: by folder, or status `accepted`."""
    rejected: set[int]
    trust: dict[int, str]
    """One of `TRUST`, of those that say it."""


def status_in(chunks: Iterable[Chunk]) -> str:
    """Return what the text of a document, in order, says of its status: "accepted", or one of `ENDED` and by what."""
    for chunk in chunks:
        for match in _STATUS.finditer(chunk.text) if "status" in chunk.text.casefold() else ():
            if match["section"] or chunk.start_line + chunk.text.count("\n", 0, match.start()) <= HEAD_LINES:
                more = _LINK.sub(r"\1", match["more"]).strip(_MARKS)
                return f"{match['word'].casefold()} {more}".replace("superc", "supers", 1).strip()[:_MOST_WORDS]
    return ""


def declared(index: Index, documents: Collection[DocumentRow], now: float) -> Declarations:
    """Return what documents declare of themselves; `now` is in seconds since the epoch."""
    reasons, decided, rejected, trust = dict[int, str](), set[int](), set[int](), dict[int, str]()
    today = datetime.fromtimestamp(now, UTC).date().isoformat()
    for number, key, value in index.rows(
        "SELECT document_id, key, value FROM property WHERE document_id IN @ids "
        f"AND @each key IN ({_KEYS}) ORDER BY key DESC",
        numbers([document.id for document in documents]),
    ):
        why = ""
        if key in _TRUSTED_BY:
            human, verified = str(value).startswith("human:"), key.startswith("verified")
            if verified or not human:
                level = TRUST[verified + (verified and human)]
                trust[number] = max(level, trust.get(number, level), key=TRUST.index)
        elif key in SUPERSEDED_KEYS:
            why = f"superseded by {value}" if str(value).strip() else ""
        elif key == MISLEADING:
            why = "said to be misleading" if re.fullmatch("0*[1-9][0-9]*|true", str(value), re.IGNORECASE) else ""
        elif key in ("status", WRITTEN_STATUS):
            status = " ".join(str(value).split())
            why = status[:_MOST_WORDS] if status.casefold().startswith(ENDED) else ""
            decided |= {number} if status.casefold().startswith(_ACCEPTED) else set()
            rejected |= {number} if status.casefold() == REJECTED else set()
        elif isinstance(value, str) and value[:4].isdigit():
            if key == STALE_AFTER:
                why = f"stale since {value[:10]}" if value[:10] <= today else ""
            else:
                why = f"{key} {value}" if value[:10] < today else ""
        if why:
            reasons[number] = why

    def supersedes() -> dict[str, str]:
        named = "(SELECT document_id, value FROM property WHERE key IN @texts) AS property"
        statement = f"SELECT value, path FROM {named} JOIN document ON document.id = document_id"
        rows = index.rows(statement, ["supersedes"])
        return {str(value).strip("/").removeprefix("./").rpartition("@")[2]: path for value, path in rows}

    successors = index.remembered("supersedes", supersedes)
    for document in documents:
        path = document.path.casefold()
        for name in (path, path.rpartition(".")[0]):
            if name in successors:
                reasons[document.id] = f"superseded by {successors[name]}"
        if not DECISION_FOLDERS.isdisjoint(path.split("/")[:-1]):
            decided.add(document.id)
    return Declarations(reasons, decided, rejected, trust)


def age_days(document: DocumentRow, now: float) -> int:
    """Return the days since a document's own date, else its last commit, else its mtime."""
    date = document.committed if document.dated is None else document.dated
    moment = abs(document.mtime_ns) / 1e9 if date is None else date
    return max(0, int((now - moment) // DAY_SECONDS))


VERSION = re.compile(
    r"(?<![^/])(?:(?:v|version-|release-)\d+|\d{1,3}(?=\.\d))(?:\.\d+)*(?:\.x)?(?=/(?!(?:_?index|readme)\.\w+$))",
    re.IGNORECASE | re.ASCII,
)
"""Folder of a version of a documentation, before a page other than its entrance: `2021/` and `2021.07/` are times, and
`1.1/README.md` may be a chapter."""


def without_version(path: str, title: str) -> tuple[tuple[str, str], str]:
    """Return what all versions of a page have in common, and the folder of its version, if it has one.

    That is its path without the folder, and the title where a number alone is the folder: `1.1/` and `1.2/` may be
    chapters, with pages of one name but not of one title.
    """
    match = VERSION.search(path)
    if not match:
        return (path, ""), ""
    above, below = path[: match.start()], path[match.end() :]
    if above.endswith("versioned_docs/"):  # of Docusaurus, which has the next version in `docs/`
        above, below = above.removesuffix("versioned_docs/"), f"docs{below}"
    return (above + below, title if match[0][0].isdigit() else ""), match[0]


def are_versions(one: str, other: str) -> bool:
    """Whether two paths lie in folders of different versions of the same documentation."""
    first, second = VERSION.search(one), VERSION.search(other)
    return bool(first and second and first[0] != second[0] and one[: first.start()] == other[: second.start()])


_LANGUAGE = (
    r"(?:ar|az|bg|bn|ca|cs|da|de|el|en|es|et|eu|fa|fi|fr|gl|he|hi|hr|hu|hy|id|it|ja|ka|kk|km|ko|lt|lv|mn|ms|nb|ne|nl|no|"
    r"pl|pt|ro|ru|sk|sl|sq|sr|sv|sw|ta|te|th|tr|uk|ur|uz|vi|zh)(?:[-_](?:[a-z]{2}|arab|cyrl|hans|hant|latn))?"
)
"""Languages that documentation is written in or translated to, with a region or a script."""

_TRANSLATED = re.compile(
    rf"(?<![^/])(?:i18n/(?P<site>{_LANGUAGE})/docusaurus-plugin-content-(?=docs/|blog/)|(?P<folder>{_LANGUAGE})/)|"
    rf"\.(?P<suffix>{_LANGUAGE})(?=/|\.\w+$)",
    re.IGNORECASE | re.ASCII,
)
"""Where a path says the language: `fr/guide.md`, `guide.fr.md`, `i18n/fr/docusaurus-plugin-content-docs/current/…`."""

FEWEST_PAGES, FEWEST_LANGUAGES = 3, 5
"""Pages that a language has in common with others, or languages in one place, where names are translated as well."""

SAMPLED, ENGLISH = 10, 0.01
"""Pages of a language that are read, and the share of "the" among their words from which they are in English: `it/` may
be a department, `de/` a country, and `.cs` a kind of code. Of translations of three documentations it was at most .008,
of English ones at least .0085, both in a few pages full of code, and else .005 and .02."""


def page_of(index: Index, path: str) -> tuple[str, str]:
    """Return the page that a document is in one of several languages, as a path without the language, and that.

    The language is empty in the path of an original, such as `guide.md` beside `fr/guide.md`, and of what has no
    translation. A language has at least half of its pages in common with others, or is one of many.
    """
    page, place = _page_and_place(path)
    known = place[1] and place in index.remembered("languages", lambda: _languages(index))
    return (page, place[1]) if known or not place[1] else (path, "")


def _page_and_place(path: str) -> tuple[str, tuple[str, str]]:
    """Return a path without the language in it, and where that is: below a folder, or at the end of a name (`.`)."""
    page = path.removesuffix("x") if path.endswith(".mdx") else path  # translators rename `guide.mdx`
    match = _TRANSLATED.search(page)
    if not match:
        return page, ("", "")
    above, below = page[: match.start()], page[match.end() :]
    if match["site"]:
        below = below.replace("/current/", "/", 1)
    return above + below, ("." if match["suffix"] else above, match[match.lastgroup or 0].casefold())


def _languages(index: Index) -> set[tuple[str, str]]:
    pages, paths = defaultdict[str, set[tuple[str, str]]](set), defaultdict[tuple[str, str], list[str]](list)
    for path in index.paths():
        page, place = _page_and_place(path)
        pages[page].add(place)
        paths[place].append(path)
    shared = Counter(place for places in pages.values() if len(places) > 1 for place in places)
    beside = Counter(folder for folder, language in paths if language)
    known = set[tuple[str, str]]()
    for place, found in paths.items():
        folder, language = place
        if language and (shared[place] >= max(FEWEST_PAGES, len(found) / 2) or beside[folder] >= FEWEST_LANGUAGES):
            words = re.findall(r"\w+", " ".join(text for _, text in texts(index, found[:SAMPLED])).casefold())
            if language.startswith("en") or words.count("the") < ENGLISH * len(words):
                known.add(place)
    return known
