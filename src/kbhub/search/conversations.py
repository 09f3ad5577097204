"""Signals for sessions and memories: words in one turn, and newer statements above the older ones they replace."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from functools import cached_property
from itertools import pairwise, product
from math import prod
from operator import attrgetter, itemgetter, mul

from kbhub.index.catalogue import first_chunks, successors
from kbhub.index.engine import ChunkRow, DocumentRow, Key
from kbhub.index.query.parser import MARKS, STOP_WORDS, paired, stems
from kbhub.index.references import called, declared, numbers_in, succeeds
from kbhub.search.document_signals import Facts, facts_in, own_time
from kbhub.search.evidence import nearest, rarity
from kbhub.search.plan import Candidate, OpenBases, Plan, RankingSignal, SignalPart, by_base
from kbhub.types import Kind
from kbhub.values import struct

AMOUNTS = {"together": 0.6, "meaning": 0.6, "next": 0.1, "adjacent": 0.05}
"""The most each signal adds if all that was examined are conversations: docs/explanation/memory-retrieval.md."""

LEAST_SHARE = 0.5
"""Share of conversations among the examined chunks from which the signals count; they grow up to a share of 1."""

LEAST_TURNS = 3
"""Lines with a speaker from which a text is a conversation."""

TURN_SHARE = 0.5

LINES_APART = 2
"""Most lines between two chunks of which one continues the other: a heading and a blank line."""

TURN = re.compile(r"[ \t>*_-]*([^\W\d_][\w .'’-]{0,40})(?:[*_]* ?[(\[][^()\[\]\n]{1,40}[)\]])?[*_]*:[*_]*\s+\S")
"""The beginning of a turn: `Ann: …`, `**Ann:** …`, `> Ann (10:02): …`."""


def is_conversation(chunk: ChunkRow, document: DocumentRow) -> bool:
    """Return whether a chunk is of a session's log, or its lines begin with speakers."""
    if document.kind == "session":
        return True
    prose = chunk.text[chunk.prose :]
    if prose.count(":") < LEAST_TURNS:  # most texts, and the pattern takes a tenth of a millisecond
        return False
    lines = [line for line in prose.split("\n") if line.strip() and not line.startswith("#")]
    speakers = [match[1] for line in lines if ":" in line and (match := TURN.match(line))]
    # In a list of terms with their meanings, every line has another name.
    return LEAST_TURNS <= len(speakers) >= TURN_SHARE * len(lines) and len(set(speakers)) < len(speakers)


def _add_spoken(plan: Plan, bases: OpenBases, _: list[Candidate]) -> None:
    """Add what the signals of conversations say of the examined chunks, of all or none: so none is favoured by kind."""
    if plan.query.mode == "semantic":
        return
    texts, spoken = bases.texts(plan.examined), 0
    for hit, chunk, document in texts:
        is_spoken = is_conversation(chunk, document)
        hit.replaceable, spoken = is_spoken or document.kind == "memory", spoken + is_spoken
    share = (spoken / max(1, len(texts)) - LEAST_SHARE) / (1 - LEAST_SHARE)
    if share <= 0:
        return
    beside = _beside(texts)
    for hit in plan.examined:
        meant = sum(part.amount for part in hit.parts if part.signal == "semantic")
        together = hit.evidence.together if hit.evidence else 0.0
        values = {"together": together, "meaning": meant, **beside[hit.key]}
        for signal, value in values.items():
            if plan.asks_for(signal):
                hit.add(SignalPart(signal, value, AMOUNTS[signal] * share * value))


def _beside(texts: Sequence[tuple[Candidate, ChunkRow, DocumentRow]]) -> dict[Key, dict[str, float]]:
    """Return each chunk's signals from its neighbours: adjacent chunks, and the sessions before and after its own."""
    by_document: dict[Key, list[tuple[Candidate, ChunkRow, DocumentRow]]] = {}
    for text in sorted(texts, key=lambda text: (text[0].key[0], text[1].start_line)):
        by_document.setdefault(text[0].document_key, []).append(text)
    values = {hit.key: {"next": 0.0, "adjacent": 0.0} for hit, _, _ in texts}
    for mine in by_document.values():
        for (one, above, _), (other, below, _) in pairwise(mine):
            if below.start_line - above.end_line <= LINES_APART:
                for hit in (one, other):
                    values[hit.key]["next"] = max(values[hit.key]["next"], min(1.0, one.score, other.score))
    times = {key: when for key, mine in by_document.items() if (when := own_time(*mine[0][1:])) is not None}
    for first, second in pairwise(sorted(times, key=lambda key: (times[key], key))):
        for near, far in ((first, second), (second, first)):
            best = min(1.0, max(hit.score for hit, _, _ in by_document[far]))
            for hit, _, _ in by_document[near]:
                values[hit.key]["adjacent"] = max(values[hit.key]["adjacent"], best)
    return values


SPOKEN = RankingSignal(tuple(AMOUNTS), _add_spoken)

NEWER = "newer"

SAME_SUBJECT = 0.68
"""Least `likeness` of two statements about the same subject: docs/explanation/memory-retrieval.md has the figures."""

VALUES = 0.1
"""What numbers or weekdays in both add to the likeness."""

FEWEST_WORDS, FEWEST_COMMON = 3, 2
"""Words with a meaning in something said, and those that two have in common; "Thanks, Nate!" states nothing."""

MOST_CHARACTERS = 600
"""Characters of a statement that are compared: a long paragraph."""

_CHANGE = re.compile(
    r"(?i)\b(?:now|nowadays|no longer|any ?more|instead|actually|correction|since|as of|used to|rather than|"
    r"from (?:now|then|today|next|this)|(?:re)?moved?|migrated?|switch(?:ed)?|replace[ds]?|changed?|dropped|raised|"
    r"lowered|increased|reduced|renamed|scaled|upgraded|downgraded|retired|deprecated|took over|has left|"
    r"turned? o(?:n|ff))\b"
)

_VALUE = re.compile(
    r"(?i)\d|\b(?:(?:mon|tues|wednes|thurs|fri|satur|sun)days?|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|"
    r"twenty|thirty|forty|fifty|sixty|ninety|hundred)\b"
)

_LEAVES = re.compile(
    r"(?i)^not\b|\b(?:no (?:longer|more)|no(?:body| one)|(?:instead|rid|place) of|rather than|(?:replac(?:ed?|es|ing)|"
    r"dropp?(?:ed|ing)?|ripped out|cancel+ed|left|leaving|forget|stop(?:ped)?|quit|g[ai]ve up|abandon(?:ed)?|retired|"
    r"removed|deleted|decommissioned|deprecated|scrapped|closed|ended|shut down)(?! (?:from|in|off|out|on)\b)|"
    r"(?:away|(?:took|takes) over|moved?|moving|switch(?:ed)?|migrated?|changed?|ported|went)\b.{0,40}?"
    r"\b(?:from|off|out of))\b"
)
"""Words before what came to an end, or was left for something else; `_IS_OVER`, those after it."""

_IS_OVER = re.compile(
    r"(?i)\b(?:no (?:longer|more)(?! (?:use|need|own|ha)\w* \w)|any ?more|gone|ended|history|closed|expired|r[au]n out|"
    r"(?:archived|too (?:expensive|slow|old|small))(?=\W*$)|(?:is|are|was|were|been|got)\b.{0,20}?\b(?:over|retired|"
    r"shut|cancel+ed|replaced|dropped|removed|deleted|decommissioned|scrapped|thrown out|unplugged|deprecated|obsolete|"
    r"frozen|off)|retirement)\b"
)

_HANDED = re.compile(r"(?i)\b(?:from now on|step(?:s|ped)? in|hand(?:s|ed)\b.{0,40}?\bover)\b")
_CLAUSE_END = re.compile(r"(?i)[,;:.!?]\s+|\s(?:and|but|so|because|as|since|while)\s")
_AFTER_NOUN = re.compile(
    r"(?i)(?<=\w)(?<!\bthe)\s(?:to|by|with|for|in|of|on|at|from|about|into|until|after|before|last|this|yesterday)(?![\w-])"
)
_NAME = re.compile(r"^\W*[A-Z]|\d|[a-z][A-Z]")

ENDED_WORDS, LEAST_ENDED = 4, 0.35
"""Words beside those of an ending that are what ended, and the least share of the older statement's words."""

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n(?=\s*(?:[-*+#>|\n]|\d+[.)]))")
"""The end of a sentence, paragraph or item of Markdown."""


class Statement:
    """A sentence as far as it is compared with others."""

    def __init__(self, text: str) -> None:
        self.text = text[:MOST_CHARACTERS]

    @cached_property
    def terms(self) -> Mapping[str, frozenset[str]]:
        """Each word with a meaning, once, with its stems."""
        terms = dict[str, frozenset[str]]()
        for word in paired(self.text).split():
            if word.strip(MARKS).lower() not in STOP_WORDS and (found := stems(word)):
                terms[word] = frozenset(found)
        return terms

    @cached_property
    def words(self) -> frozenset[str]:
        """The stems of all words."""
        return frozenset().union(*self.terms.values())

    @cached_property
    def names(self) -> frozenset[str]:
        """The stems of names and numbers after the first word."""
        return Statement(" ".join(filter(_NAME.search, self.text.split()[1:]))).words

    @cached_property
    def point(self) -> frozenset[str]:
        """The stems of names, numbers and the last half of the words: what may come to an end."""
        words = self.text.split()
        return self.names | Statement(" ".join(words[len(words) // 2 :])).words

    @cached_property
    def ended(self) -> list[Statement]:
        """What has come to an end: noun phrases up to a preposition, so that the last word says what it is."""
        parts = [self.text[: match.start()].split() for match in _HANDED.finditer(self.text)]
        for clause in _CLAUSE_END.split(self.text):
            after = [clause[match.end() :].strip() for match in _LEAVES.finditer(clause)]
            parts += [_AFTER_NOUN.split(part)[0].split()[:ENDED_WORDS] for part in after]
            before = [clause[: match.start()] for match in _IS_OVER.finditer(clause)]
            parts += [_AFTER_NOUN.split(part)[0].split()[-ENDED_WORDS:] for part in before]
        return [Statement(" ".join(part)) for part in parts]


def likeness(older: Statement, newer: Statement) -> float:
    """Return how much a statement is about what an older one says: from 0 to 1.1, see `SAME_SUBJECT`.

    It is the share, by rarity, of the older one's words that the newer one has, where a word that is near in meaning
    counts by its cosine (as in recall of BERTScore, doi:10.48550/arXiv.1904.09675), and `VALUES`; more if one `ends`.
    """
    if not older.words & newer.words:
        return 0.0
    cosines = nearest(older.terms, newer.terms)
    weights = [rarity(word) for word in older.terms]
    met = (1.0 if own & newer.words else near for own, near in zip(older.terms.values(), cosines, strict=True))
    share: float = sum(map(mul, weights, met)) / sum(weights)
    about = share + VALUES * bool(_VALUE.search(older.text) and _VALUE.search(newer.text))
    return max(about, SAME_SUBJECT) if share >= LEAST_ENDED and ends(older, newer) else about


def ends(older: Statement, newer: Statement) -> bool:
    """Return whether a statement says that the point of an older one, and not something else, came to an end.

    "The Berlin gym was closed" ends no Berlin: the last word of what ended says what it is.
    """
    for ended in newer.ended:
        head = [frozenset[str](), *ended.terms.values()][-1]
        most = 4 if head & older.names else 2  # a name tells more than other words
        if head & older.point and most * len(ended.words & older.words) > len(ended.words):
            return True
    return False


def statements(text: str) -> list[Statement]:
    """Return the beginning of a text, and then each sentence of it."""
    start = text[:MOST_CHARACTERS]
    return [Statement(start), *map(Statement, _SENTENCE_END.split(start))]


def closest(older: Sequence[Statement], newer: Sequence[Statement]) -> float:
    """Return the likeness of two texts from `statements`, or, if larger, of two sentences that share enough words."""
    pairs = product(older[1:], newer[1:])
    alike = [likeness(one, other) for one, other in pairs if len(one.words & other.words) >= FEWEST_WORDS]
    return max([likeness(older[0], newer[0]), *alike])


COMPARED, FOLLOWED = 40, 15
"""Hits whose statements are compared, and those whose documents may say what superseded them: some .5 ms."""

LEAST_COVERAGE: Mapping[Kind, float] = {"session": 0.25, "memory": 0.25}
"""Least share of the query's words, by rarity, in one of two statements, by the kind of its document. A chunk of a
session is one turn; of the many turns in a chunk of any other conversation, one has the words by chance."""

OTHER_COVERAGE, OTHER_SUBJECT = 0.375, 0.72
"""The same for other conversations, and the least `likeness` there."""

LEAST_SCORE, LEAST_DECLARED = 0.3, 0.4
"""Least score of a newer hit, as a share of the older one's; and where it was found similar when it was written."""

PARALLEL = 0.5
"""Least share of words, in their order, that two sentences have in common to say the same of two subjects."""

ABOVE = 1e-6

_PAST = re.compile(
    r"(?i)\b(?:ago|original(?:ly)?|initial(?:ly)?|at first|earlier|earliest|previous(?:ly)?|former(?:ly)?|used to|"
    r"back then|changed|did|was|were|had)\b"
)
"""Words of a question about how things were, where the older statement answers as well."""

_UNSAID = re.compile(r"^\s*\[.*\]\s*$|\?\s*$")
"""A caption or a question, which states nothing."""

Pair = tuple[Candidate, Candidate]
"""An older hit, and the newer one that replaces it."""

Moment = tuple[float, int, int]
"""A time, and what orders statements of the same time."""


@struct
class _Dated:
    """What a hit says about the query, and since when."""

    hit: Candidate
    kind: Kind
    statement: Statement
    share: float
    """Of the query's words, by rarity, as a part of what a statement needs."""
    first: Moment
    """When it was written; `last`, when it was last changed or confirmed."""
    last: Moment


def _add_newer(plan: Plan, bases: OpenBases, hits: list[Candidate]) -> None:
    """Lift newer statements right above the older ones that they replace."""
    if NEWER in plan.query.without:
        return
    pairs = dict(_declared(plan, bases, hits))
    if not _PAST.search(plan.query.text):
        pairs |= dict.fromkeys(_succeeded(plan, bases, hits), True)
        if plan.query.mode != "semantic" and plan.asked is None and plan.weighted:
            pairs = {**dict.fromkeys(_apparent(plan, bases, hits), False), **pairs}
    lifted = dict[Key, float]()
    for (older, newer), certain in pairs.items():
        lifted |= {older.key: older.score, newer.key: newer.score}
        if not certain:
            newer.replaces = (*newer.replaces, older.key)
            older.replaced_by = newer.key
    for _ in range(len(pairs)):
        before = dict(lifted)
        for place, (older, newer) in enumerate(pairs, 1):  # of those that replace the same, the last one goes first
            lifted[newer.key] = max(lifted[newer.key], lifted[older.key] + ABOVE * place)
        if lifted == before:
            break
    for hit in hits:
        if lifted.get(hit.key, 0.0) > hit.score:
            amount = (lifted[hit.key] - hit.score) / prod(factor for _, factor in hit.factors)
            hit.add(SignalPart(NEWER, 1.0, amount))


def _declared(plan: Plan, bases: OpenBases, hits: list[Candidate]) -> Iterator[tuple[Pair, bool]]:
    """Yield memories with those that replace them, or may, by their front matter, and whether that is certain.

    Certain successors that were not found are added to the hits.
    """
    memories: dict[Key, Candidate] = {}
    for hit in hits:
        if bases.open[hit.key[0]].base.kind == "memory":
            memories.setdefault(hit.document_key, hit)
    if not memories:
        return
    after = {number: successors(base.index) for number, base in enumerate(bases.open) if base.base.kind == "memory"}
    waiting = list(memories.values())
    for older in waiting:
        facts = facts_in(bases, [older.document_key])[older.document_key]
        for number, successors_of in after.items():
            for document, certain in successors_of.get(facts.id, ()):
                key = number, document
                if key == older.document_key:
                    continue
                newer, selection = memories.get(key), plan.selections[number]
                for chunk in first_chunks(bases.open[number].index, [document]) if newer is None else ():
                    if selection is None or chunk in selection.chunks:
                        newer = Candidate((number, chunk), key)
                if newer and not certain:  # similar: does it answer nearly as well, and is it the later word?
                    said = [Statement(chunk.text[chunk.prose :]) for _, chunk, _ in bases.texts([older, newer])]
                    new, changed = facts_in(bases, [key])[key], facts.updated or facts.created or 0.0
                    aside = new.misleading or facts.rejected or new.rejected
                    near = (newer.score >= LEAST_DECLARED * older.score or ends(*said)) and not _asks_older(plan, *said)
                    newer = newer if near and not aside and (new.created or 0.0) >= changed else None
                if newer:
                    if key not in memories:
                        memories[key] = newer
                        hits.append(newer)
                        waiting.append(newer)
                    yield (older, newer), certain


def _asks_older(plan: Plan, older: Statement, newer: Statement) -> bool:
    """Return whether a question names what only the older of two statements is about, and the newer does not end.

    That is a name, or a word in a sentence of which the newer one exchanges that and something else: "the dev database
    is reset every night" and "the demo database is reset every week" are both true.
    """
    asked = [stems for term in plan.weighted if (stems := frozenset(term.stems)) & older.words and stems - newer.words]
    subjects = [older.names]
    one, other = older.text.casefold().split(), newer.text.casefold().split()
    if asked and (pair := SequenceMatcher(None, one, other)).ratio() >= PARALLEL:
        exchanged = [" ".join(one[start:end]) for how, start, end, *_ in pair.get_opcodes() if how == "replace"]
        subjects += [Statement(text).words for text in exchanged] if len(exchanged) > 1 else []
    return any(words <= subject for words in asked for subject in subjects) and not ends(older, newer)


def _succeeded(plan: Plan, bases: OpenBases, hits: Sequence[Candidate]) -> Iterator[Pair]:
    """Yield documents that say what superseded them, with that, if both were found, and the older not by its number."""
    found: dict[Key, Candidate] = {}
    for hit in hits[:FOLLOWED]:
        found.setdefault(hit.document_key, hit)
    documents, asked = bases.documents(list(found)), numbers_in(plan.question)
    for number, ids in by_base(documents).items():
        opened, rows = bases.open[number], {row: documents[number, row] for row in ids}
        ended = declared(opened.index, [*rows.values()], bases.now).outdated
        for (old, why), (new, row) in product(ended.items(), rows.items() if ended else ()):
            path = rows[old].path
            if new != old and succeeds(row.path, why, opened.base, path) and not called(asked, opened.base, path):
                yield found[number, old], found[number, new]


def _apparent(plan: Plan, bases: OpenBases, hits: Sequence[Candidate]) -> Iterator[Pair]:
    """Yield hits with those that say something newer about the same subject, if one of the examined can."""
    if not any(map(attrgetter("replaceable"), plan.examined)):
        return
    texts = [text for text in bases.texts(hits[:COMPARED]) if text[2].kind == "memory" or is_conversation(*text[1:])]
    facts = facts_in(bases, [hit.document_key for hit, _, _ in texts])
    # A way that was not taken is no older or newer fact, however alike the words.
    aside = {key for key, fact in facts.items() if fact.rejected or fact.misleading}
    texts = [text for text in texts if text[0].document_key not in aside]
    wanted = {stem: rarity(term.text) / len(term.stems) for term in plan.weighted for stem in term.stems}
    dated = [one for text in texts if (one := _dated(*text, wanted, facts.get(text[0].document_key)))]
    dated.sort(key=lambda one: (one.first, one.hit.key))
    for number, newer in enumerate(dated):
        for older in dated[:number]:
            if (
                older.last < newer.first
                and max(older.share, newer.share) >= 1
                and newer.hit.score >= LEAST_SCORE * older.hit.score
                and _same_subject(older, newer)
                and not _asks_older(plan, older.statement, newer.statement)
            ):
                yield older.hit, newer.hit


def _same_subject(older: _Dated, newer: _Dated) -> bool:
    """Return whether two statements are about the same subject, more strictly the less they are made to be kept."""
    one, other = older.statement, newer.statement
    if "memory" not in (older.kind, newer.kind) and (
        min(len(one.words), len(other.words)) < FEWEST_WORDS or len(one.words & other.words) < FEWEST_COMMON
    ):
        return False
    if "document" not in (older.kind, newer.kind):
        return likeness(one, other) >= SAME_SUBJECT
    # Friends come back to what they did without changing their minds.
    changes = _CHANGE.search(other.text) or (_VALUE.search(one.text) and _VALUE.search(other.text))
    return bool(changes) and likeness(one, other) >= OTHER_SUBJECT


def _dated(
    hit: Candidate, chunk: ChunkRow, document: DocumentRow, wanted: Mapping[str, float], facts: Facts | None
) -> _Dated | None:
    """Return the sentence of a chunk that has most of the query, with its time; None without a time or such a word."""
    when = own_time(chunk, document)
    if when is None:
        return None
    prose = chunk.text[chunk.prose :]
    said = ((sum(map(wanted.__getitem__, found)), text) for text, found in _sentences(prose, frozenset(wanted)))
    weight, sentence = max(said, default=(0.0, ""), key=itemgetter(0))
    if not weight:
        return None
    share = weight / (LEAST_COVERAGE.get(document.kind, OTHER_COVERAGE) * sum(wanted.values()))
    order = document.dated or 0, abs(document.mtime_ns) if document.kind == "memory" else chunk.start_line
    first = facts.created if facts and facts.created is not None else when
    return _Dated(hit, document.kind, Statement(sentence), share, (first, *order), (when, *order))


def _sentences(text: str, wanted: frozenset[str]) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield each sentence of a text that has words of the query, with them; the name of its speaker is one."""
    for line in text.split("\n"):
        turn = TURN.match(line)
        said = line[turn.end() - 1 :] if turn else line
        speaker = wanted.intersection(stems(paired(turn[1]))) if turn else frozenset()
        for sentence in _SENTENCE_END.split(said):
            if (found := wanted.intersection(stems(paired(sentence)))) and not _UNSAID.search(sentence):
                yield sentence.strip(), found | speaker


UPDATES = RankingSignal((NEWER,), _add_newer)
