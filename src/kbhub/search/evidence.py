"""Signals from the words of a query: a document's file name, and for the best chunks what their texts have of them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache, lru_cache, partial
from itertools import pairwise
from math import prod
from operator import attrgetter, itemgetter, methodcaller
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from kbhub.documents.shown_text import states
from kbhub.errors import EmbedderError
from kbhub.index.catalogue import first_chunks, paths_with
from kbhub.index.engine import Key, title_above
from kbhub.index.query.excerpts import part_stems
from kbhub.index.query.parser import MARKS, RUN, STOP_WORDS, cased_parts, cased_words, normalise, paired, stems, tokens
from kbhub.index.references import NUMBERED_NAME, called, numbers_in
from kbhub.models.embedding import packaged_embedder
from kbhub.search.plan import EXAMINED, Candidate, Evidence, OpenBases, Plan, RankingSignal, SignalPart, WeightedTerm

if TYPE_CHECKING:
    from kbhub.models.static_model import QueryVectors

_IDENTIFIER = re.compile(
    r"\w(?:::|->|[_\-./:@#$])\w|^[-_/.@$#]+\w|[a-z][A-Z]|\(\)$|^[A-Z][A-Z0-9_]{2,}$|\d[A-Za-z]|[A-Za-z]\d"
)
"""`max_retries`, `--locked`, `camelCase`, `main()`, `PATH`, `/api/v1`, `utf8`; also `third-party`, for which a verbatim
search does no harm."""

_JOINED_WORDS = re.compile(r"[A-Za-z][a-z]*(?:[-/.'’][a-z]+)+")
"""Ordinary words joined by a mark: `third-party`, `client/server`, `e.g`."""

NAME, NAME_AMOUNT = "name", 2.0
"""Signal of a document that the query names, and its amount: more than all other parts of a score together. It leaves
the results on the six test sets and the handbook unchanged."""

STATED, STATED_SHARE = "stated", 0.5
"""Signal of what is stated where a document's best text only has links or questions; minimum share of its score."""

MOST_NUMBERED = 100
"""Documents of a base that are found by the same number; each takes 60 µs."""

_ASKING = re.compile(r"(?i)define|describe|explain|means?|says?|show|stands?|tell")
"""Words that only ask: a document about the others need not have them."""

_ONLY_ASKS = re.compile(
    rf"{_ASKING.pattern}|{'|'.join(STOP_WORDS)}|bedeutet|besagt|das|der|die|erkläre|im|ist|mir|sagt|steht|zeige?|c|ce|de|"
    "dit|est|explique|l|la|le|qu|que|quoi|signifie|cosa|che|dice|dime|el|es|il|lo|qué|significa|diz|o|betekent|wat|zegt"
)
"""Words beside a number that ask for no more than its document, also in German and Romance languages."""

_PART = re.compile(r"[^\W\d_]+|\d+")

UNKNOWN = 1.5
"""Rarity of a word that the model does not know: a name, a number, another script. The median token has 1."""

COMMONEST = 0.3
"""Rarity of the commonest words, so that a query of only those has some weight."""

OTHER, SAME = 0.3, 0.8
"""Cosines up to which two words mean something else, and from which they mean the same."""

_STOPPED = frozenset(stems(" ".join(STOP_WORDS)))
_HEADING = re.compile(r"^#{2,6}[ \t]+(.+)$", re.MULTILINE)

_bare = methodcaller("strip", MARKS)

AMOUNTS = {"phrase": 0.2, "identifier": 0.4, "definition": 0.2, "title": 0.1, "about": 0.2, "heading": 0.6}
"""Field of `Evidence` → the most that this signal adds, on a scale where the best keyword and semantic values sum to 1.
Each earns its place on the collections (docs/explanation/ranking.md); half or twice as much changes little."""

WHOLLY = 0.999
"""Share that counts as all despite rounding."""

MOST_CHARACTERS = 8_000
"""Characters of a chunk that are examined; longer chunks are single lines or data tables."""

WINDOW = 200
"""Characters within which terms count as close: a long sentence or two short ones."""

SAME_SHARE, SAME_WORDS = 0.95, 8
"""Texts are duplicates if they share this much of all their distinct words; texts with fewer words never are."""

CACHED = 4_096
"""Paths, words, titles and headings of which the last are cached."""

_LINE_START = re.compile(r"[\s>]*(?:[-*+]|\d+\.|#+)?\s*(?:<\w+[^>]*>)*[`*_\[<\"']*")
"""What may precede a name at the start of the line that defines it: list, heading and code marks, an anchor."""


def is_identifier(text: str) -> bool:
    """Return whether a word looks like a name in a program."""
    return _IDENTIFIER.search(text) is not None


def is_name(text: str) -> bool:
    """Return whether a word can only be a name: an identifier that is not made of ordinary words."""
    bare = _bare(text)
    return is_identifier(text) and not any(map(str.isspace, bare)) and _JOINED_WORDS.fullmatch(bare) is None


def asking(words: Collection[str]) -> set[str]:
    """Return those of a query's words that only ask, if all others are names or numbers."""
    found = {word for word in words if _ASKING.fullmatch(_bare(word))}
    others = set(words) - found
    return found if others and all(is_name(word) or word.isdecimal() for word in others) else set()


@lru_cache(maxsize=CACHED)
def words_of(path: str) -> str:
    """Map `runbooks/kafkaRestart.md` to `runbooks/kafkaRestart runbooks kafka Restart`."""
    name = str(PurePosixPath(path).with_suffix(""))
    return " ".join([name, *_words(name)])


def _add_named(plan: Plan, bases: OpenBases, hits: list[Candidate]) -> None:
    """Lift the best chunk of documents that a query names: `EIP-1559 fee` means `eip-1559.md`, `ADR-2` `adr/02.md`."""
    asked, ordered = name_parts(plan.question), hits
    if not asked or not plan.asks_for(NAME):
        return
    alone, numbers, wording = False, numbers_in(plan.question), f" {' '.join(asked)} "
    if numbers:
        others = NUMBERED_NAME.sub(" ", plan.question.casefold())
        alone = all(map(_ONLY_ASKS.fullmatch, name_parts(others)))
        numbered, key = _numbered(plan, bases, numbers, alone=alone), attrgetter("key" if alone else "document_key")
        known = set(map(key, hits))
        hits += [hit for hit in numbered if key(hit) not in known]
        if alone:  # nothing else in a document is asked for, so its beginning stands for it
            beginnings = {hit.key for hit in numbered}
            ordered = sorted(hits, key=lambda hit: hit.key not in beginnings)
    documents = bases.documents(map(attrgetter("document_key"), hits))
    for hit in {hit.document_key: hit for hit in reversed(ordered)}.values():
        path = documents[hit.document_key].path
        file = name_parts(stem := path.rpartition("/")[2].rpartition(".")[0])
        # Plain words (`cargo-add`) within longer questions cost .004 nDCG on the section questions; `k6` is a product.
        within = not stem.isalnum() and any(map(str.isdigit, file)) and f" {' '.join(file)} " in wording
        whole = asked in (file, file[1:] if file and file[0].isdigit() else file)
        names = called(numbers, bases.open[hit.key[0]].base, path, alone=alone) if numbers else []
        if whole or names or within:
            hit.add(SignalPart(NAME, 1.0, NAME_AMOUNT))
            hit.sought = (whole and len(asked) > 1) or (alone and bool(names))
            plan.named |= {plan.question.casefold()} if whole else {*names, *filter(_ONLY_ASKS.fullmatch, asked)}


def _numbered(plan: Plan, bases: OpenBases, numbers: Mapping[str, tuple[str, str]], *, alone: bool) -> list[Candidate]:
    """Return the first text of each document that a query calls by a number, see `called`."""
    found = list[Candidate]()
    for number, base in enumerate(bases.open):
        numbered = paths_with(base.index, {number for _, number in numbers.values()})
        paths = [path for path in numbered if called(numbers, base.base, path, alone=alone)][:MOST_NUMBERED]
        first = first_chunks(base.index, [document.id for document in base.index.documents_at(paths)], 2)
        best = sorted(base.index.chunks(first), key=lambda row: (states(row.text[row.prose :]), -row.id))
        chosen = plan.selections[number]
        found += [
            Candidate((number, chunk), (number, document))
            for document, chunk in {row.document_id: row.id for row in best}.items()
            if chosen is None or chunk in chosen.chunks
        ]
    return found


@lru_cache(maxsize=CACHED)
def name_parts(text: str) -> tuple[str, ...]:
    """Return the words of a name, those of a mixed-case one apart: `useMemo` is `use-memo`."""
    return tuple(map(str.lower, _words(normalise(text))))


def _words(text: str) -> list[str]:
    return [part for word in _PART.findall(text) for part in (cased_parts(word) or (word,))]


NAMED = RankingSignal((NAME,), _add_named)


@lru_cache(maxsize=CACHED)
def rarity(word: str) -> float:
    """Return the rarity of a word, or of the rarest part of a phrase, from `COMMONEST` to some 1.7."""
    model = _model()
    length = model.longest(_bare(word)) if model else 0.0
    return max(COMMONEST, length) if length else UNKNOWN


def cohesion(words: Iterable[str]) -> float:
    """Return how related a query's words are, as then cosines mean less: 1 for a single one, 0 if all are unknown."""
    model = _model()
    return model.cohesion([*map(_bare, words)]) if model else 0.0


def nearest(words: Collection[str], others: Collection[str]) -> list[float]:
    """Return the largest cosine of each word to one of the others, at least 0."""
    model = _model()
    return model.nearest([*words], [*others]) if model else [0.0] * len(words)


def lacking(missing: Sequence[tuple[str, float]], text: str) -> list[float]:
    """Return how rare each of some missing words is, with their rarity, as far as no word of a text resembles it."""
    words = dict.fromkeys(re.findall(r"\w+", text.lower())) if missing else ()
    cosines = nearest([_bare(word) for word, _ in missing], words) if missing else ()
    unlike = [min(1.0, max(0.0, (SAME - cosine) / (SAME - OTHER))) for cosine in cosines]
    return [rare * other for (_, rare), other in zip(missing, unlike, strict=True)]


@cache
def _model() -> QueryVectors | None:
    with suppress(EmbedderError):
        return packaged_embedder().queries()
    return None


class QueryTerms:
    """The terms of a query, in its order, prepared once to examine many texts."""

    def __init__(self, terms: Sequence[WeightedTerm] = ()) -> None:
        sequence = [stem for term in terms for stem in term.stems]
        self._stems = frozenset(sequence)
        self._pairs = frozenset(pairwise(sequence))
        forms: dict[str, list[tuple[str, ...]]] = {}
        for term in terms:
            forms.setdefault(term.text, []).append(term.stems)
        self._terms = [(text, stems[0], rarity(text)) for text, stems in forms.items() if len(stems) == 1]
        self._spellings = [(text, stems, rarity(text)) for text, stems in forms.items() if len(stems) > 1]
        """Names that are searched as one word and as several (`maxRetries`, `max_retries`): either is all of it."""
        self._rarity = sum([rare for *_, rare in (*self._terms, *self._spellings)]) or 1.0
        # A title shares pairs of Han or Kana with a question by chance.
        self._weights = [(term.stems, term.weight) for term in terms if not RUN.match(term.text)]
        self._total = sum([term.weight for term in terms]) or 1.0
        self._names = []
        for term in terms:
            if is_identifier(term.text) and (pattern := verbatim(term.text)):
                self._names.append((pattern, term.weight, rarity(term.text) / len(forms[term.text])))
        self._asking = asking(forms)
        self._named_weight = sum([weight for _, weight, _ in self._names])

    def examine(self, text: str, headings: Sequence[str], title: str, names: Sequence[str] = ()) -> Evidence:
        """Compute the text signals of a chunk, headings outermost first; `names` are path, tags and aliases."""
        text = text[:MOST_CHARACTERS]
        words, near = _found(text, self._stems, self._pairs)
        titled = short_stems(title)
        titles = frozenset(titled)
        everywhere = set(map(itemgetter(1), words)).union(titled, *map(short_stems, (*headings, *names)))
        for above in (title, *headings):
            everywhere.update(*self._pairs.intersection(_part_pairs(above)))
        best = partial(max, key=partial(_found_of, everywhere))
        terms = [*self._terms, *[(word, best(forms), rare) for word, forms, rare in self._spellings]]
        shares = dict.fromkeys(self._stems, 0.0)
        for _, parts, rare in terms:
            for stem in parts:
                shares[stem] += rare / len(parts)
        named = defined = rare_names = asked = 0.0
        tops = [*headings[-1:], *_HEADING.findall(text)]
        subjects = set[str]() if self._names else set(tops)
        for pattern, weight, rare in self._names:
            places = [match.start() for match in pattern.finditer(text)]
            headed = pattern.search(headings[-1] if headings else title) is not None
            subjects.update(filter(pattern.search, tops))
            if headed or places:
                named += weight
                rare_names += rare
            if headed or any(_LINE_START.fullmatch(text, text.rfind("\n", 0, at) + 1, at) for at in places):
                defined += weight
        for subject in subjects:
            own = frozenset(short_stems(subject)) - _STOPPED
            if own - titles and own & self._stems:
                has = sum([weight for stems, weight in self._weights if own.issuperset(stems)]) / self._total
                asked = max(asked, (has * len(self._stems & own) / len(own)) ** 3)
        missing = tuple([(word, rare) for word, stems, rare in terms if not everywhere.issuperset(stems)])
        return Evidence(
            together=_together(words, shares) / self._rarity,
            phrase=len(self._pairs & near) / len(self._pairs) if self._pairs else 0.0,
            identifier=named / self._total, definition=defined / self._total, names=rare_names / self._rarity,
            literal=named >= WHOLLY * self._named_weight and self._asking.issuperset([word for word, _ in missing]),
            title=len(self._stems & titles) / len(titles) if titled else 0.0,
            about=sum([weight for stems, weight in self._weights if titles.issuperset(stems)]) / self._total,
            heading=asked, missing=missing, text=text,
            name=(*titled, *short_stems(headings[-1] if headings else "")),
        )  # fmt: skip


def _found(
    text: str, wanted: frozenset[str], pairs: frozenset[tuple[str, str]]
) -> tuple[list[tuple[int, str]], set[tuple[str, str]]]:
    """Return (position, stem) of each wanted stem in a text, and the set of adjacent pairs.

    Parts of a mixed-case word count as one of the pairs: "max retries" is `maxRetries`, "storage" no `StorageLayout`.
    """
    text = paired(text)
    # Parts stand in place of mixed-case words that are not wanted as a whole.
    parts = dict[int, tuple[str, ...]]()
    for at, word in cased_words(text):
        if not pairs.isdisjoint(pairwise(stems := part_stems(word))):
            parts[len(text[:at].encode("utf-8", "replace"))] = stems
    body = [
        (start, stem)
        for start, _, token in tokens(text.encode("utf-8", "replace"))
        for stem in ((token,) if token in wanted else parts.get(start, (token,)))
    ]
    near = {(one, other) for (_, one), (_, other) in pairwise(body) if one in wanted and other in wanted}
    return [(start, stem) for start, stem in body if stem in wanted], near


def _found_of(found: Collection[str], stems: Sequence[str]) -> float:
    """Return the share of stems that are among those found."""
    return sum(map(found.__contains__, stems)) / len(stems)


def _together(words: Sequence[tuple[int, str]], shares: Mapping[str, float]) -> float:
    """Return the largest rarity of stems that stand together, each counted once, of words (position, stem) in order."""
    best = total = 0.0
    counts: dict[str, int] = {}
    first = 0
    for at, stem in words:
        if not counts.get(stem):
            total += shares[stem]
        counts[stem] = counts.get(stem, 0) + 1
        while words[first][0] < at - WINDOW:
            gone = words[first][1]
            counts[gone] -= 1
            if not counts[gone]:
                total -= shares[gone]
            first += 1
        best = max(best, total)
    return best


@lru_cache(maxsize=CACHED)
def short_stems(text: str) -> tuple[str, ...]:
    """Return the stems of a title or a heading, cached."""
    return stems(paired(text))


@lru_cache(maxsize=CACHED)
def _part_pairs(text: str) -> tuple[tuple[str, str], ...]:
    """Return the stems of neighbouring parts of mixed-case words in a title or a heading."""
    return tuple(pair for _, word in cased_words(normalise(text)) for pair in pairwise(part_stems(word)))


@lru_cache(maxsize=CACHED)
def verbatim(name: str) -> re.Pattern[str] | None:
    """Return a pattern for a name verbatim and not within a longer one, or None if only punctuation is left."""
    bare = name.strip(".,;:!?\"'`").removesuffix("()")
    return re.compile(rf"(?<![\w-]){re.escape(bare)}(?!\w|-\w)", re.IGNORECASE) if bare else None


def _add(plan: Plan, bases: OpenBases, hits: list[Candidate]) -> None:
    """Examine the texts of the best candidates, and add the evidence in them."""
    terms, plan.examined = QueryTerms(plan.weighted), hits[:EXAMINED]
    for hit, chunk, document in bases.texts(plan.examined):
        names = (words_of(document.path), *document.tags, *document.aliases)
        title = title_above(document.title, document.kind, chunk.start_line)
        hit.evidence = terms.examine(chunk.text, chunk.headings, title, names)
        for signal, amount in AMOUNTS.items():
            if plan.asks_for(signal):
                share = getattr(hit.evidence, signal)
                hit.add(SignalPart(signal, share, amount * share))
    if plan.asks_for(STATED):
        _add_stated(bases, plan.examined)


def _add_stated(bases: OpenBases, hits: Sequence[Candidate]) -> None:
    """Exchange the scores of a document's best text and the best that states something, if the former does not."""
    first, settled = dict[Key, Candidate](), set[Key]()
    for hit, chunk, _ in bases.texts(sorted(hits, key=attrgetter("score"), reverse=True)):
        best = first.setdefault(hit.document_key, hit)
        share = hit.score / (best.score or 1.0)
        if hit.document_key not in settled and share >= STATED_SHARE and states(chunk.text[chunk.prose :]):
            settled.add(hit.document_key)
            factor = prod([factor for _, factor in hit.factors])  # applied to parts as well
            hit.add(SignalPart(STATED, 1.0, (best.score - hit.score) / factor))
            best.multiply(STATED, share)


SIGNAL = RankingSignal((*AMOUNTS, STATED), _add)


def same_text(one: Evidence, other: Evidence) -> bool:
    """Return whether two chunks have the same words under the same title and heading.

    Collapsing pages that share a paragraph, such as the options of related commands, costs .025 nDCG@5.
    """
    if one.name != other.name:
        return False
    small, large = sorted((_stems_of(one.text), _stems_of(other.text)), key=len)
    if len(small) < SAME_WORDS or len(small) < SAME_SHARE * len(large):
        return False
    common = len(small & large)
    return common >= SAME_SHARE * (len(small) + len(large) - common)


@lru_cache(maxsize=EXAMINED)
def _stems_of(text: str) -> frozenset[str]:
    """Return the stems of a text, cached because it is compared with several others."""
    return frozenset(stems(paired(text)))
