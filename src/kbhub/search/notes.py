"""Notes on an answer, in sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kbhub.documents.safe_text import TITLE_BYTES, quoted
from kbhub.errors import BaseNotFound
from kbhub.index.query.parser import ANY, MAX_CHARACTERS
from kbhub.index.query.tokens import fold
from kbhub.search.scores import RANKED, RankedPage
from kbhub.types import Discovery, Hit, Query

if TYPE_CHECKING:
    from kbhub.search.hits import OpenBase
    from kbhub.sync.unindexed import UnindexedScan

NEAR_ONLY = "No document contains the query's words; the hits are only similar in meaning."
"""Note on an answer with semantic hits only."""

NOT_COVERED = (
    "Most likely, nothing in these bases covers this, or not in these words; what follows is the nearest there is."
)
"""Note on an answer whose hits most likely answer something else."""

ENDS_WITH_NEAREST = f"The list ends with the {RANKED} nearest passages. By meaning alone, there is always a next one."
"""Note on the last page of a semantic answer."""

ENDS_WITH_BOTH = f"The list ends with those of the {RANKED} best passages that both keyword and semantic search found."
"""Note on the last page if hits need both signals."""

NO_WORDS = "The query has no words to search for."
"""Note on an answer to a query that is empty, or consists of filters."""

_FILTERED = "No document matches "

_UNFINISHED = " is still being indexed"

MOST_SCANNED = 5
"""Refs that a note names at most."""

LEADING_NOTES = (NEAR_ONLY, NOT_COVERED)
"""Notes that are shown before the hits."""


def rewording_helps(notes: Sequence[str]) -> bool:
    """Return whether a query could find more in other words: it has words, and its filters match a document."""
    return NO_WORDS not in notes and not any(note.startswith(_FILTERED) for note in notes)


def is_unfinished(notes: Sequence[str]) -> bool:
    """Return whether a base was still being indexed, so that what was not found may be there all the same."""
    return any(_UNFINISHED in note for note in notes)


def leading_notes(found: RankedPage) -> list[str]:
    """Return the note to read before the hits, if any: one of `LEADING_NOTES`."""
    if found.hits and found.near_only:
        return [NEAR_ONLY]
    return [NOT_COVERED] if found.hits and found.verdict == "none" else []


def notes_on(found: RankedPage, chosen: Sequence[str], query: Query, active: Discovery) -> list[str]:
    """Return notes on how a query was understood, where that differs from what was typed.

    `chosen` are its filters and exclusions, as understood; `active` are the available bases.
    """
    understood, notes = found.understood, list[str]()
    if understood.unread:
        notes.append(
            f"The query is too long: only its first {MAX_CHARACTERS:,} characters were used, not the other "
            f"{understood.unread:,}."
        )
    if understood.left_out:
        notes.append(
            f"The query is too long: only {len(understood.terms)} of its terms were used, not the other "
            f"{understood.left_out}."
        )
    if not understood.terms and not found.hits and found.mode != "semantic":
        notes.append(NO_WORDS)
    notes += [f"Searched for {fix.used!r} instead of {fix.typed!r}." for fix in found.corrections]
    if found.filtered_out and chosen:
        notes.append(f"{_FILTERED}{' '.join(chosen)}.")
    ids = [base.id for base in active.bases]
    known = {fold(name) for base in active.bases for name in (base.id, *base.names)} | {ANY}
    for value in (value for part in understood.filters if part.key == "base" for value in part.values):
        if fold(value.text) not in known:
            notes.append(str(BaseNotFound(value.text, ids, active.problem_of(value.text))))
    if query.min_signals > 1 and found.mode != "hybrid" and understood.terms and not found.hits:
        notes.append(f"Hits of {query.min_signals} signals were requested, but only the {found.mode} signal ran.")
    if found.ends and found.last:
        notes.append(found.ends)
    return notes


def _scanned(scan: UnindexedScan, hits: Sequence[Hit]) -> str:
    """Return a note on a base whose first index is not complete."""
    note = f"{scan.base.id}{_UNFINISHED} ({scan.files - scan.lacking} of {scan.files} files)."
    if scan.scanned:
        most = "The others" if scan.scanned == scan.lacking else f"{scan.scanned} of the others"
        note += f" {most} were only scanned for the words of the query"
        # Quoted, as whoever named the files may be anybody.
        refs = [quoted(hit.ref, TITLE_BYTES) for hit in hits if hit.base == scan.base.id and hit.path in scan.paths]
        more = f" and {len(refs) - MOST_SCANNED} more" if len(refs) > MOST_SCANNED else ""
        note += f", which found {', '.join(refs[:MOST_SCANNED])}{more}." if refs else "."
    return note


def unfinished(
    searched: Sequence[OpenBase],
    scans: Mapping[str, UnindexedScan],
    progress: Mapping[str, tuple[int, int]],
    behind: Mapping[str, int],
    failed: Mapping[str, str],
    hits: Sequence[Hit],
) -> list[str]:
    """Return notes on searched bases whose indexes are behind their files.

    The mappings are by base: `scans` of the files that its first index lacks, `progress` as (files done, files to do)
    while it is being indexed, `behind` as the number of changed files not yet indexed, `failed` as why indexing failed.
    """
    notes = [_scanned(scan, hits) for scan in scans.values()]
    for name, complete in {base.base.id: base.complete for base in searched}.items():
        if name in scans:
            pass
        elif name in progress:
            done, todo = progress[name]
            if done < todo:  # otherwise, all is there, and the index is tidied
                notes.append(f"{name}{_UNFINISHED} ({done} of {todo} files).")
        elif not complete:
            notes.append(f"{name}{_UNFINISHED}.")
        elif count := behind.get(name):
            notes.append(f"{name} has changed files that are not indexed yet ({count}); this answer may lack them.")
        if name in failed:
            notes.append(f"{name} is searched as last indexed: {failed[name]}")
    return notes
