"""Whether the bases answer a query at all, as a probability and in notes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence

from kbhub.errors import BaseNotFound
from kbhub.index.query.parser import ANY, MAX_CHARACTERS, Filter, FilterValue, fold
from kbhub.search.evidence import COMMONEST, WHOLLY, asking, cohesion, is_identifier, is_name, lacking, rarity
from kbhub.search.plan import EXAMINED, RANKED, Candidate, Evidence, OpenBases, Plan
from kbhub.sync.freshness import Freshness
from kbhub.types import Hit, SearchResult, Verdict
from kbhub.values import struct

STRONG, WEAK = 0.8, 0.1
"""Confidence from which the verdict is `strong`, and below which it is `none`. Chosen so that of
questions with an answer at most 5 in 100 get `none`, and of questions whose answer was removed at most 15 in 100 get
`strong`, in bases of every size; docs/explanation/ranking.md has the table."""

DOUBTFUL = 0.79
"""Upper limit, below `STRONG`, if a name or a number in the query occurs nowhere, or if it has only words that say
little, or one word, and no title or heading has them."""

LEAST_SAID = 0.5
"""Rarity of words, beyond that of the commonest, below which they say little: `which one is better`. Of the questions
in `benchmarks/verdicts.py`, each has .94 and more."""

LEAST_DIGITS = 3
"""Digits of a number that says of itself what is looked for, as a name does: 404, but not 30."""

FEW_DOCUMENTS = 3
"""Among the examined hits, documents with a word that stands out: in more, it is rather a word of the subject."""

COMPARED = 2
"""Best hits that are judged: the verdict is about what stands first, and the second often says the same better."""

NAMES = 1.0
"""Log-odds for the share of a query's words that are names and occur as they were typed."""

ABSENT, GAP, LACKING = 0.94, 9.4, 2.8
"""Log-odds that are lost by the share of a query's words that occur in no base; by each unit of rarity, divided by the
number of terms, of the word that a hit lacks most; and by the share of words that it lacks, by rarity. In a base about
the subject, the words of the subject are everywhere, and what is asked of it only in the answer."""

FEWEST_CHUNKS, MOST_CHUNKS = 10, 8_000
"""A base counts as one of at least and at most so many chunks: the largest base of the fit had 7,400. Fitted freely,
the size has no effect from about 1,000 on; docs/explanation/ranking.md has what the limit gains and costs at 27,000."""

PACKAGED = "packaged"
"""Key of the packaged model in `MODELS`; other models go by their name in the settings."""


@struct
class Weights:
    """Coefficients of a logistic regression for "this chunk belongs to an answer"."""

    similarity: float
    together: float
    cohesion: float
    size: float
    """For log10 of the number of chunks in the base: among more chunks, high values by chance are likelier."""
    constant: float


WORDS = Weights(0.0, 1.7, -3.1, -0.51, 4.4)
"""For keyword signals only."""

MODELS: Mapping[str, Weights] = {
    PACKAGED: Weights(1.9, 1.4, -2.9, -0.61, 3.9),
    "minilm": Weights(2.7, 1.7, -3.6, -0.63, 3.8),
}
"""With a model's cosine. Fitted to leave-the-answer-out questions, each asked of a base with its answer and of the same
base without it (`benchmarks/withheld.py`), and to questions that people ask of handbooks, notes and documentation about
the subject, of which half have no answer there (docs/explanation/ranking.md)."""


def confidence(
    evidence: Evidence,
    similarity: float | None,
    size: int,
    cohesion: float,
    model: str | None,
    absent: float = 0.0,
    gap: float = 0.0,
    lacking: float = 0.0,
) -> float:
    """Return the probability that a chunk belongs to an answer.

    `similarity` is its cosine to the query, None without a calibrated model; `size` the number of chunks in its base;
    `absent` the share of the query's words, by rarity, that occur in no base; `gap` the rarity of the word that it
    lacks most, by the number of words; and `lacking` the share of the words that it lacks.
    """
    weights = WORDS if similarity is None else MODELS.get(model or "", WORDS)
    value = (
        weights.similarity * (similarity or 0.0)
        + weights.together * evidence.together
        + NAMES * evidence.names
        + weights.cohesion * cohesion
        + weights.size * math.log10(min(max(size, FEWEST_CHUNKS), MOST_CHUNKS))
        - ABSENT * absent
        - GAP * gap
        - LACKING * lacking
        + weights.constant
    )
    return 1 / (1 + math.exp(-value))


def judge(
    hits: Sequence[Candidate], plan: Plan, bases: OpenBases, unmatched: Sequence[str], *, embedded: bool
) -> tuple[float, bool]:
    """Return the probability that the bases answer a query: that of the better of the two best hits.

    And whether it has only names and numbers, and a hit has all of them. `unmatched` are its words that occur nowhere.
    """
    texts = dict.fromkeys([term.text for term in plan.weighted])
    # Other wordings are there to say with other words what the question's own do not find.
    own = dict.fromkeys([term.text for term in plan.terms]) if not plan.others else ()
    absent = min(1.0, sum(map(rarity, unmatched)) / (sum(map(rarity, own)) or 1.0)) if own else 0.0
    model = (bases.hub.config().settings.embedder.model or PACKAGED) if embedded else None
    wanted, related, best = sum(map(rarity, texts)) or 1.0, cohesion(texts), 0.0
    said = sum([rarity(word) - COMMONEST for word in texts])
    is_subject = said < LEAST_SAID or len(" ".join(texts).split()) == 1
    examined = [(hit, hit.evidence) for hit in hits[:EXAMINED] if hit.evidence is not None]
    for hit, evidence in examined[:COMPARED]:
        # Without a model, the cosines are not calibrated.
        meant = [part.value for part in hit.parts if part.signal == "semantic"] if model else []
        similarity, size = meant[0] if meant else None, bases.open[hit.key[0]].index.columns().chunks
        lacks = lacking(evidence.missing, evidence.text)
        gap, share = max(lacks, default=0.0) / max(len(texts), 1), sum(lacks) / wanted
        sure = confidence(evidence, similarity, size, related, model, absent, gap, share)
        # Mentioned elsewhere than in a title or a heading, a subject is not what a text is about.
        titled = {term.text for term in plan.weighted if set(term.stems).issubset(evidence.name)}
        best = max(best, min(sure, DOUBTFUL) if is_subject and titled != texts.keys() else sure)
    # A long text may be about something else, and yet have the name. A substitute is not one of the query's own terms.
    literal = {hit.document_key: hit.evidence for hit in hits if hit.evidence is not None and hit.evidence.literal}
    certain = bool(literal and texts) and texts.keys() <= {term.text for term in plan.sought}
    content = texts.keys() - asking(texts)
    named = certain and all(is_name(word) or (word.isdecimal() and len(word) >= LEAST_DIGITS) for word in content)
    if certain:
        stems = {stem for term in plan.weighted if term.text in content for stem in term.stems}
        rare = len(literal) <= FEW_DOCUMENTS and any(_stands_out(one, content, stems) for one in literal.values())
        best = max(best, STRONG if named or rare else WEAK)
    headed = len(texts) > 1 and any(evidence.heading >= WHOLLY for _, evidence in examined)
    if headed or any(hit.sought for hit in hits):
        best = max(best, STRONG)
    doubtful = any(is_name(word) or word.isdecimal() for word in unmatched)
    return (min(best, DOUBTFUL) if doubtful else best), named


def _stands_out(evidence: Evidence, texts: Iterable[str], stems: set[str]) -> bool:
    """Return whether a chunk's title or heading has all words of a query, or each is code in it or a joined word."""
    code = evidence.text.lower()
    return stems.issubset(evidence.name) or all(
        f"`{word.lower()}`" in code or (is_identifier(word) and not re.search(r"\s", word)) for word in texts
    )


NEAR_ONLY = "No document contains the query's words; the hits are only similar in meaning."
NOT_COVERED = "These bases probably do not cover this, or use other words; the nearest passages follow."
NEWEST = "No document contains the query's words or is similar in meaning; the newest follow. Ask in their language."
LEADING_NOTES = (NEAR_ONLY, NOT_COVERED, NEWEST)

ENDS_WITH_NEAREST = f"The list ends with the {RANKED} nearest passages. By meaning alone, there is always a next one."
NO_WORDS = "The query has no words to search for."
_FILTERED = "No document matches "
_UNFINISHED = " is still being indexed"


def rewording_helps(notes: Sequence[str]) -> bool:
    """Return whether a query could find more in other words: it has words, and its filters match a document."""
    return NO_WORDS not in notes and not any(note.startswith(_FILTERED) for note in notes)


def is_unfinished(notes: Sequence[str]) -> bool:
    """Return whether a base was still being indexed, so that more may be found later."""
    return any(_UNFINISHED in note for note in notes)


def annotated(
    result: SearchResult, plan: Plan, bases: OpenBases, trust: float | None, *, filtered_out: bool
) -> SearchResult:
    """Add the verdict, and notes on how a query was understood, if not as it was typed, one of `LEADING_NOTES` first.

    `trust`: the probability that it is answered, None if not judged; `filtered_out`: no document is left.
    """
    understood, query, notes = plan.parsed, plan.query, list[str]()
    verdict: Verdict | None = None
    if trust is not None:
        verdict = "strong" if trust >= STRONG else "weak" if trust >= WEAK else "none"
    found = [term for term in plan.weighted if term.found]
    near_only = bases.complete and bool(plan.weighted) and not (plan.named or found)
    if result.hits and (near_only or verdict == "none"):
        notes.append(NEWEST if not result.hits[0].score else NEAR_ONLY if near_only else NOT_COVERED)
    notes += bases.notes
    too_long = "The query is too long: only"
    if rest := understood.unread:
        notes.append(f"{too_long} its first {MAX_CHARACTERS:,} characters were used, not the other {rest:,}.")
    if left := understood.left_out:
        notes.append(f"{too_long} {len(understood.terms)} of its terms were used, not the other {left}.")
    if not (understood.terms or result.filters or result.hits) and result.mode != "semantic":
        notes.append(NO_WORDS)
    notes += [f"Searched for {fix.used!r} instead of {fix.typed!r}." for fix in result.corrections]
    if filtered_out and result.filters:
        paths = [one.values[0].text.strip("/") for one in understood.filters if one.key == "path" and not one.excluded]
        anywhere = [Filter("path", (FilterValue(f"**/{path}*"),)) for path in paths if "*" not in path]
        hint = f" Paths start at the top of a base; {anywhere[0]} matches anywhere." if anywhere else ""
        notes.append(f"{_FILTERED}{' '.join(result.filters)}.{hint}")
    if named := [value.text for part in understood.filters if part.key == "base" for value in part.values]:
        active = bases.hub.discovery()
        ids = [base.id for base in active.bases]
        known = {fold(name) for base in active.bases for name in (base.id, *base.names)} | {ANY}
        unknown = [name for name in named if fold(name) not in known]
        notes += [str(BaseNotFound(name, ids, active.problem_of(name))) for name in unknown]
    if not result.total_exact and result.total <= query.offset + query.limit:
        notes.append(ENDS_WITH_NEAREST)
    return result.model_copy(update={"verdict": verdict, "notes": tuple(notes)})


def unfinished(bases: OpenBases, hits: Sequence[Hit]) -> list[str]:
    """Return notes on searched bases whose indexes are behind their files."""
    state, notes = bases.hub.state(Freshness), []
    # Copies, because syncs on other threads change them.
    progress, behind, failed = dict(state.progress), dict(state.behind), dict(state.failed)
    for name, scan in bases.scans.items():
        note = f"{name}{_UNFINISHED} ({scan.files - scan.lacking} of {scan.files} files)."
        if scan.scanned:
            most = "The others" if scan.scanned == scan.lacking else f"{scan.scanned} of the others"
            note += f" {most} were only scanned for the words of the query"
            found = sum([hit.base == name and hit.path in scan.paths for hit in hits])
            note += f", which found {found} of these hits." if found else "."
        notes.append(note)
    for base in bases.open:
        name = base.base.id
        done, todo = progress.get(name, (0, 0))
        if name in bases.scans:
            pass
        elif done < todo:  # otherwise, all is there, and the index is tidied
            notes.append(f"{name}{_UNFINISHED} ({done} of {todo} files).")
        elif (count := behind.get(name)) and name not in progress:
            notes.append(f"{name} has changed files that are not indexed yet ({count}); this answer may lack them.")
        elif not base.complete:
            notes.append(f"{name}{_UNFINISHED}.")
        if name in failed:
            notes.append(f"{name} is searched as last indexed: {failed[name]}")
    return notes
